package library_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A listing is the committed include/arenagen.abi: each line's words after its first one, by that one.
type listing map[string][]string

func readListing(t *testing.T) listing {
	t.Helper()
	content, err := os.ReadFile(root + "/include/arenagen.abi")
	require.NoError(t, err)
	lines := make(listing)
	for line := range strings.Lines(string(content)) {
		if kind, rest, found := strings.Cut(strings.TrimSpace(line), " "); found && kind != "#" {
			lines[kind] = append(lines[kind], rest)
		}
	}
	return lines
}

// functions are the names of the functions.
func (l listing) functions() []string {
	var names []string
	for _, line := range l["function"] {
		name, _, _ := strings.Cut(line, " ")
		names = append(names, name)
	}
	return names
}

// assertions are what a C compiler must find true of the header.
func (l listing) assertions() string {
	var b strings.Builder
	say := func(about, format string, args ...any) {
		fmt.Fprintf(&b, "_Static_assert(%s, \"%s\");\n", fmt.Sprintf(format, args...), about)
	}
	for _, line := range l["handle"] {
		name, integer, _ := strings.Cut(line, " ")
		say(name, "__builtin_types_compatible_p(%s, %s)", name, integer)
	}
	for _, line := range l["enumerator"] {
		name, number, _ := strings.Cut(line, " ")
		say(name, "%s == %s", name, number)
	}
	for _, line := range l["callback"] {
		name, signature, _ := strings.Cut(line, " ")
		say(name, "__builtin_types_compatible_p(%s, %s)", name, strings.Replace(signature, "(", "(*)(", 1))
	}
	for _, line := range l["struct"] {
		words := strings.Fields(line)
		say(words[0], "sizeof(%s) == %s", words[0], words[1])
	}
	for _, line := range l["field"] {
		words := strings.SplitN(line, " ", 4)
		owner, field, _ := strings.Cut(words[0], ".")
		say(words[0], "offsetof(%s, %s) == %s", owner, field, words[2])
		say(words[0], "__builtin_types_compatible_p(__typeof__(((%s *)0)->%s), %s)", owner, field, words[3])
	}
	for _, line := range l["function"] {
		name, signature, _ := strings.Cut(line, " ")
		say(name, "__builtin_types_compatible_p(__typeof__(%s), %s)", name, signature)
	}
	return b.String()
}

// names are what the library itself must call the numbers of the listing.
func (l listing) names() string {
	var b strings.Builder
	for _, line := range l["enumerator"] {
		enumerator, number, _ := strings.Cut(line, " ")
		if name, found := strings.CutPrefix(enumerator, "ARENAGEN_STATUS_"); found {
			fmt.Fprintf(&b, "  CHECK_TEXT(%q, arenagen_status_name(%s));\n", strings.ToLower(name), number)
		}
	}
	return b.String()
}

func TestListingDescribesHeaderAndLibrary(t *testing.T) {
	l := readListing(t)
	for _, kind := range []string{"abi", "handle", "enumerator", "callback", "struct", "field", "function"} {
		assert.NotEmpty(t, l[kind], kind)
	}
	version := strings.Split(strings.Fields(l["abi"][0])[1], ".")
	source := filepath.Join(t.TempDir(), "listing.c")
	program := fmt.Sprintf("#include \"check.h\"\n#include <arenagen.h>\n\n%s\nSCENARIO(numbers)\n{\n"+
		"  CHECK_EQUAL(%s << 16 | %s, arenagen_abi_version());\n%s}\n",
		l.assertions(), version[0], version[1], l.names())
	require.NoError(t, os.WriteFile(source, []byte(program), 0o644))
	runScenarios(t, compile(t, source, "-Itestdata"))
}

func TestHeaderThatIsShippedIsTheCommittedOne(t *testing.T) {
	committed, err := os.ReadFile(root + "/include/arenagen.h")
	require.NoError(t, err)
	shipped, err := os.ReadFile(outFolder + "/include/arenagen.h")
	require.NoError(t, err)
	assert.Equal(t, string(committed), string(shipped))
}

// The programs that try every function, or every one that takes a handle or a pointer, must have them all.
func TestEveryFunctionIsTried(t *testing.T) {
	takesHandle := regexp.MustCompile(`arenagen_arena \w+[,)]`).MatchString
	takesPlace := regexp.MustCompile(`^arenagen_status .* \*+\w+[,)]`).MatchString
	takesAnything := func(string) bool { return true }
	for _, try := range []struct {
		files   string
		concern func(signature string) bool
	}{
		{"every.h", takesAnything},
		{"threads.c arenas.h", takesAnything},
		{"handles.c", takesHandle},
		{"arguments.c", takesPlace},
	} {
		t.Run(try.files, func(t *testing.T) {
			text := readTestdata(t, strings.Fields(try.files)...)
			for _, line := range readListing(t)["function"] {
				if name, signature, _ := strings.Cut(line, " "); try.concern(signature) {
					// handles.c puts the prefix before each.
					called := regexp.MustCompile(`\b(` + name + `|` + strings.TrimPrefix(name, "arenagen_") + `)\b`)
					assert.True(t, called.MatchString(text), name)
				}
			}
		})
	}
}

func readTestdata(t *testing.T, files ...string) string {
	t.Helper()
	var all strings.Builder
	for _, file := range files {
		content, err := os.ReadFile("testdata/" + file)
		require.NoError(t, err)
		all.Write(content)
	}
	return all.String()
}
