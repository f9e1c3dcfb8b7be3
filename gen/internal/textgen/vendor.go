package textgen

import (
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
)

// vendorFile renders what the spec says of a vendor's header as C that compiles with that header only if it is true.
func vendorFile(b *ir.Backend) emit.File {
	page := vendorPage{b}
	functions := template.FuncMap{"since": page.since, "within": page.versions, "came": came, "sign": sign}
	return textFile(b.Check(), "vendor.tmpl", functions, page, b.File)
}

// A vendorPage is what the checks of one header are rendered from.
type vendorPage struct{ Backend *ir.Backend }

// number is a version as the header's macro has it.
func (p vendorPage) number(v ir.Version) int64 {
	e := p.Backend.Library.Version
	return v.Major*e.Major + v.Minor*e.Minor + v.Patch*e.Patch
}

// since is the condition that a header has what came with a version.
func (p vendorPage) since(v *ir.Version) string {
	macro := p.Backend.Library.Header.Version
	if v == nil || macro == "" || p.Backend.Library.Version == nil {
		return "1"
	}
	return fmt.Sprintf("%s >= %d", macro, p.number(*v))
}

// came is the version that brought a type, for all that its values tell.
func came(t *ir.CType) *ir.Version {
	var first *ir.Version
	for i, v := range t.Values {
		if v.Since == nil {
			return nil
		}
		if i == 0 || v.Since.Compare(*first) < 0 {
			first = v.Since
		}
	}
	return first
}

// sign is how -1 compares with 0 in an integer type, "" in any other.
func sign(t *ir.CType) string {
	return map[ir.CTypeKind]string{ir.CInt: "<", ir.CUint: ">"}[t.Kind]
}

// versions is the condition that a header is one of some versions.
func (p vendorPage) versions(v ir.Versions) string {
	conditions := []string{p.since(v.From)}
	if v.Before != nil && p.Backend.Library.Header.Version != "" {
		conditions = append(conditions, fmt.Sprintf("%s < %d", p.Backend.Library.Header.Version, p.number(*v.Before)))
	}
	return strings.Join(conditions, " && ")
}

// A vendorFunction is a function, and the types that it may have: some versions of a header lack a const.
type vendorFunction struct {
	Name, Symbol, Signature string
	Types                   []string
	Since                   *ir.Version
}

// Functions are the header's, each once.
func (p vendorPage) Functions() []vendorFunction {
	var functions []vendorFunction
	seen := map[string]bool{}
	for _, b := range slices.Concat(p.Backend.Library.Helpers, p.Backend.Functions, p.Backend.Idle) {
		if seen[b.Name] {
			continue
		}
		seen[b.Name] = true
		f := vendorFunction{Name: b.Name, Symbol: b.C.Symbol, Signature: b.C.Signature, Since: b.C.Since, Types: []string{pointerType(b)}}
		if without := strings.ReplaceAll(f.Types[0], "const void *", "void *"); without != f.Types[0] {
			f.Types = append(f.Types, without)
		}
		functions = append(functions, f)
	}
	return functions
}

// pointerType is the type of a pointer to a function.
func pointerType(b *ir.Binding) string {
	return strings.Replace(b.C.Signature, b.Name+"(", "(*)(", 1)
}
