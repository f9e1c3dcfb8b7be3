package ir

import (
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// initialisms are the words that Go writes in capitals, and how.
var initialisms = map[string]string{
	"abi": "ABI", "fd": "FD", "gpu": "GPU", "id": "ID", "ipc": "IPC",
	"ok": "OK", "rdma": "RDMA", "uuid": "UUID", "va": "VA",
}

// exported is the exported Go name of a spec's name: export_fd is ExportFD.
func exported(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		if initialism, ok := initialisms[word]; ok {
			b.WriteString(initialism)
		} else {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

// local is the Go name of a parameter or variable: handle_type is handleType. A
// name that means something else in generated code gets a suffix: error is errorArg.
func local(name string) string {
	first, rest, found := strings.Cut(name, "_")
	goName := first
	if found {
		goName += exported(rest)
	}
	if token.IsKeyword(goName) || types.Universe.Lookup(goName) != nil || slices.Contains(packages, goName) {
		goName += "Arg"
	}
	return goName
}

// packages are the names by which generated code knows the packages that it uses,
// and the one local name that it has everywhere.
var packages = []string{
	"arena", "capi", "dl", "err", "errors", "fmt", "math", "runtime", "slices",
	"strconv", "strings", "sync", "unsafe", "vmm",
}

// upper is a name in C's capitals: prefix arenagen and name struct_size give ARENAGEN_STRUCT_SIZE.
func upper(words ...string) string { return strings.ToUpper(strings.Join(words, "_")) }

// keywordOf tells which language takes a name for itself, or "" when none does.
func keywordOf(name string) string {
	switch {
	case slices.Contains(cKeywords, name):
		return "C"
	case slices.Contains(cppKeywords, name):
		return "C++"
	case token.IsKeyword(name):
		return "Go"
	case slices.Contains(pythonKeywords, name):
		return "Python"
	}
	return ""
}

// The words of C99 to C23 that a name of ours could be, and the names that
// headers and compilers define as macros.
var cKeywords = strings.Fields(`
	alignas alignof auto bool break case char const constexpr continue default do double else enum
	extern false float for goto if inline int long nullptr register restrict return short signed
	sizeof static static_assert struct switch thread_local true typedef typeof typeof_unqual union
	unsigned void volatile while asm assert errno linux unix`)

// InC tells whether a name means something in the C files of simulators already: a word of C, what its library declares, or
// a name of a simulator's own.
func InC(name string) bool {
	return slices.Contains(cKeywords, name) || slices.Contains(cLibrary, name) || strings.HasSuffix(name, "_t") ||
		strings.HasPrefix(name, "sim_") || strings.HasPrefix(name, "arenasim_")
}

// The functions of C and POSIX that simulators and what they are made with could have, and main.
var cLibrary = strings.Fields(`
	abort atexit calloc clock close dup exit fcntl fprintf free ftruncate fwrite getenv malloc memcmp memcpy memmove memset
	mmap mprotect munmap nanosleep open printf qsort read realloc snprintf sprintf strchr strcmp strcpy strdup strlen
	strncmp strrchr strtol strtoul strtoull time write main NULL`)

// The words of C++ that C does not have.
var cppKeywords = strings.Fields(`
	and and_eq bitand bitor catch char8_t char16_t char32_t class co_await co_return co_yield compl
	concept const_cast consteval constinit decltype delete dynamic_cast explicit export friend
	mutable namespace new noexcept not not_eq operator or or_eq private protected public
	reinterpret_cast requires static_cast template this throw try typeid typename using virtual
	wchar_t xor xor_eq`)

// The words of Python in lower case.
var pythonKeywords = strings.Fields(`
	and as assert async await break class continue def del elif else except finally for from global
	if import in is lambda nonlocal not or pass raise return self try while with yield`)

// GoLocal is what something that a spec names is called as a variable or field of generated Go.
func GoLocal(name string) string { return local(name) }

// GoExported is what something that a spec names is called as a part of a name in generated Go.
func GoExported(name string) string { return exported(name) }
