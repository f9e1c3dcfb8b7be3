package gogen

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/prose"
)

// The packages that generated code stands on.
const (
	arenaPath    = ir.ModulePath + "/arena"
	vmmPath      = ir.ModulePath + "/arena/vmm"
	capiPath     = ir.ModulePath + "/backends/kit/capi"
	optionsPath  = ir.ModulePath + "/backends/kit/options"
	dlPath       = ir.ModulePath + "/backends/kit/dl"
	registryPath = ir.ModulePath + "/backends/kit/registry"
	allPath      = ir.ModulePath + "/backends/all"
)

// newFile begins a file of a package. The names of imported packages are the last
// elements of their paths.
func newFile(importPath, name string, imported ...string) *jen.File {
	f := jen.NewFilePathName(importPath, name)
	for _, p := range append([]string{arenaPath, vmmPath, capiPath, optionsPath, dlPath, registryPath}, imported...) {
		f.ImportName(p, path.Base(p))
	}
	return f
}

// add adds declarations to a file, each after an empty line.
func add(f *jen.File, declarations ...jen.Code) {
	for _, d := range declarations {
		f.Line().Add(d)
	}
}

// file ends a file: it gets its header and its place. What is rendered is not
// formatted yet, and need not even parse; package emit sees to both.
func file(place string, f *jen.File, origins []emit.Origin, sources ...string) emit.File {
	f.HeaderComment(strings.TrimSuffix(emit.Header(place, sources...), "\n"))
	f.NoFormat = true
	var content bytes.Buffer
	if err := f.Render(&content); err != nil {
		panic(fmt.Sprintf("render %s: %v", place, err))
	}
	return emit.File{Path: place, Content: content.Bytes(), Sources: sources, Origins: origins}
}

// commentWidth is how wide the text of a comment is.
const commentWidth = 96

// docText is a text as line comments. Nothing in the text can end them or be a directive.
func docText(text string) string {
	return "// " + strings.Join(prose.Wrap(text, commentWidth), "\n// ")
}

// doc is the comment above a declaration, a field or a value.
func doc(text string) *jen.Statement { return jen.Comment(docText(text)).Line() }

// exportDirective makes cgo export the function below it.
func exportDirective(name string) *jen.Statement { return jen.Comment("//export " + name).Line() }

// number is a literal without a type.
func number[N int | int64 | uint64](n N) *jen.Statement { return jen.Op(fmt.Sprint(n)) }

// byteCount is a literal in the largest power of 1024 that it is whole in: 64 << 10.
func byteCount(n uint64) *jen.Statement {
	shift := 0
	for n != 0 && n%1024 == 0 {
		n /= 1024
		shift += 10
	}
	if shift == 0 {
		return number(n)
	}
	return number(n).Op("<<").Add(number(shift))
}

// list is a composite literal's values, a line each, in their order.
func list(values ...jen.Code) *jen.Statement {
	return jen.Custom(jen.Options{Open: "{", Close: "}", Separator: ",", Multi: true}, values...)
}

// keyed is an entry of a composite literal.
func keyed(key, value jen.Code) *jen.Statement { return jen.Add(key).Op(":").Add(value) }

// A variable is a parameter, a result or a field of a function's signature.
type variable struct {
	name string
	typ  *jen.Statement
}

// variables renders parameters as Go people write them: a type stands once for
// neighbours that share it.
//
//	va, size uint64, handleType HandleType
func variables(all ...variable) []jen.Code {
	var codes []jen.Code
	for start := 0; start < len(all); {
		end := start + 1
		for end < len(all) && sameCode(all[start].typ, all[end].typ) {
			end++
		}
		var names []jen.Code
		for _, v := range all[start:end] {
			names = append(names, jen.Id(v.name))
		}
		codes = append(codes, jen.List(names...).Add(all[start].typ))
		start = end
	}
	return codes
}

func sameCode(a, b *jen.Statement) bool { return a.GoString() == b.GoString() }
