package textgen

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/prose"
)

// headerFiles renders the header and the listing of the ABI.
func headerFiles(m *ir.Model) []emit.File {
	return []emit.File{
		headerFile(m, "include"),
		cFile(m, "include/"+m.ABI.Name+".abi", "listing.tmpl", m.ABI, m.ABI.Pos.File),
	}
}

// headerFile renders the header of the ABI into a folder. cgo tracks headers in a package's own folder
// only, so each library has it too.
func headerFile(m *ir.Model, folder string) emit.File {
	return cFile(m, path.Join(folder, m.ABI.Name+".h"), "header.tmpl", struct{ ABI *ir.ABI }{m.ABI}, m.ABI.Pos.File)
}

// libraryFiles renders what a shared library has beside its Go.
func libraryFiles(m *ir.Model, library *ir.SharedLibrary) []emit.File {
	folder, abi := library.Folder, m.ABI.Pos.File
	guard := guardOf(m.ABI, library)
	return []emit.File{
		headerFile(m, folder),
		cFile(m, path.Join(folder, "guard.h"), "guard.h.tmpl", guard, abi),
		cFile(m, path.Join(folder, "guard.c"), "guard.c.tmpl", guard, append([]string{abi}, library.Sources...)...),
		cFile(m, path.Join(folder, "exports.map"), "exports.map.tmpl", m.ABI, abi),
		pkgConfigFile(m, library),
	}
}

func cFile(m *ir.Model, place, name string, data any, sources ...string) emit.File {
	file := textFile(place, name, cFunctions, data, sources...)
	file.Origins = abiOrigins(m.ABI)
	return file
}

// abiOrigins says where each C name is declared.
func abiOrigins(abi *ir.ABI) (origins []emit.Origin) {
	for _, h := range abi.Handles {
		origins = append(origins, emit.Origin{Name: h.CName, Pos: h.Pos})
	}
	for _, e := range abi.Enums {
		origins = append(origins, emit.Origin{Name: e.CName, Pos: e.Pos})
		for _, v := range e.Values {
			origins = append(origins, emit.Origin{Name: v.CName, Pos: v.Pos})
		}
	}
	for _, c := range abi.Callbacks {
		origins = append(origins, emit.Origin{Name: c.CName, Pos: c.Pos})
	}
	for _, s := range abi.Structs {
		origins = append(origins, emit.Origin{Name: s.CName, Pos: s.Pos})
		for _, f := range s.Fields {
			origins = append(origins, emit.Origin{Name: s.CName + "." + f.Name, Pos: f.Pos})
		}
	}
	for _, f := range abi.Functions {
		origins = append(origins, emit.Origin{Name: f.Symbol, Pos: f.Pos})
	}
	return origins
}

// A guard is what guard.h and guard.c are rendered from.
type guard struct {
	ABI         *ir.ABI
	Library     *ir.SharedLibrary
	GoFunctions []*ir.Function

	// The statuses that the guard itself answers.
	OK, InvalidArgument, Forked, SecondLibrary *ir.EnumValue
}

func guardOf(abi *ir.ABI, library *ir.SharedLibrary) guard {
	status := func(name string) *ir.EnumValue {
		v := abi.Status.Value(name)
		if v == nil {
			panic("the ABI has no status " + name)
		}
		return v
	}
	return guard{
		ABI:     abi,
		Library: library,
		GoFunctions: slices.DeleteFunc(slices.Clone(abi.Functions), func(f *ir.Function) bool {
			return f.Answer != "go"
		}),
		OK:              status("ok"),
		InvalidArgument: status("invalid_argument"),
		Forked:          status("forked"),
		SecondLibrary:   status("second_library"),
	}
}

// Older are the sizes that a parameter's struct had in earlier versions.
func (g guard) Older(p *ir.Param) []int {
	if s := g.structOf(p); s != nil {
		return s.Older
	}
	return nil
}

// Sized tells whether a parameter's struct begins with its size.
func (g guard) Sized(p *ir.Param) bool { return g.structOf(p).Sized }

func (g guard) structOf(p *ir.Param) *ir.Struct {
	i := slices.IndexFunc(g.ABI.Structs, func(s *ir.Struct) bool { return s.Name == p.Type.Name })
	if i < 0 {
		return nil
	}
	return g.ABI.Structs[i]
}

// Grown are the parameters whose struct has grown. A function has one at most.
func (g guard) Grown(f *ir.Function) []*ir.Param {
	grown := slices.DeleteFunc(slices.Clone(f.Params), func(p *ir.Param) bool { return len(g.Older(p)) == 0 })
	if len(grown) > 1 {
		panic("function " + f.Name + " has several structs that have grown")
	}
	return grown
}

// Initial is what a struct has where its caller says nothing.
func (g guard) Initial(p *ir.Param) string {
	if s := g.structOf(p); s.HasDefaults {
		return s.InitName
	}
	return "{0}"
}

// WholeArguments are a function's arguments, with the whole struct in the place of one that has grown.
func (g guard) WholeArguments(params []*ir.Param) string {
	list := strings.Split(cArguments(params), ", ")
	for i, p := range params {
		if len(g.Older(p)) > 0 {
			list[i] = "&whole"
		}
	}
	return strings.Join(list, ", ")
}

var cFunctions = template.FuncMap{
	"upper":       strings.ToUpper,
	"comment":     cComment,
	"cstring":     cString,
	"declare":     cDeclare,
	"parameters":  cParameters,
	"arguments":   cArguments,
	"initialiser": cInitialiser,
	"described":   described,
	"article":     article,
	"isStatus":    func(t *ir.Type) bool { return t.Kind == ir.KindEnum },
	"isStruct":    func(t *ir.Type) bool { return t.Kind == ir.KindStruct },
	"isVoid":      func(t *ir.Type) bool { return t.Kind == ir.KindVoid },
	"isPointer":   func(p *ir.Param) bool { return p.Type.Kind == ir.KindPointer },
	"isOut":       func(p *ir.Param) bool { return p.Role == ir.RoleOut },
	"outs":        withRole(ir.RoleOut),
	"values":      withRole(ir.RoleValue),
	"buffers":     withRole(ir.RoleBuffer),
	"structs":     withRole(ir.RoleIn, ir.RoleInOut),
}

// withRole selects parameters by the way they go.
func withRole(roles ...ir.ParamRole) func([]*ir.Param) []*ir.Param {
	return func(params []*ir.Param) (selected []*ir.Param) {
		for _, p := range params {
			if slices.Contains(roles, p.Role) {
				selected = append(selected, p)
			}
		}
		return selected
	}
}

// cDeclare writes a type before a name, with a star next to the name.
func cDeclare(cType, name string) string {
	if strings.HasSuffix(cType, "*") {
		return cType + name
	}
	return cType + " " + name
}

// cParameters writes a parameter list without its parentheses.
func cParameters(params []*ir.Param) string {
	if len(params) == 0 {
		return "void"
	}
	list := make([]string, len(params))
	for i, p := range params {
		list[i] = cParameter(p)
	}
	return strings.Join(list, ", ")
}

func cParameter(p *ir.Param) string {
	switch p.Role {
	case ir.RoleValue:
		return cDeclare(p.Type.C, p.Name)
	case ir.RoleIn:
		return "const " + cDeclare(p.Type.C, "*"+p.Name)
	default:
		return cDeclare(p.Type.C, "*"+p.Name)
	}
}

// cArguments passes a guard's parameters on to its Go export, which takes device addresses and functions as numbers
// and knows no const.
func cArguments(params []*ir.Param) string {
	list := make([]string, len(params))
	for i, p := range params {
		switch {
		case p.Role == ir.RoleIn:
			list[i] = fmt.Sprintf("(%s *)%s", p.Type.C, p.Name)
		case p.Type.Kind != ir.KindPointer && p.Type.Kind != ir.KindCallback:
			list[i] = p.Name
		case p.Role == ir.RoleValue:
			list[i] = fmt.Sprintf("(%s)%s", p.Type.Cgo, p.Name)
		default:
			list[i] = fmt.Sprintf("(%s *)%s", p.Type.Cgo, p.Name)
		}
	}
	return strings.Join(list, ", ")
}

// cInitialiser writes the defaults of a struct's fields in their order, on continued lines.
func cInitialiser(fields []*ir.Field) string {
	var b strings.Builder
	b.WriteString("\\\n  { \\\n")
	for i, f := range fields {
		separator := ","
		if i == len(fields)-1 {
			separator = ""
		}
		fmt.Fprintf(&b, "    %s%s /* %s */ \\\n", f.Default, separator, f.Name)
	}
	b.WriteString("  }")
	return b.String()
}

// described adds what each parameter is to a description.
func described(description string, params []*ir.Param) string {
	lines := []string{description}
	for _, p := range params {
		lines = append(lines, fmt.Sprintf("%s: %s", p.Name, p.Description))
	}
	return strings.Join(lines, paragraph)
}

// paragraph separates paragraphs of a comment. Descriptions cannot contain it.
const paragraph = "\x00"

// cWidth is how wide C lines are.
const cWidth = 100

// cComment writes texts as one comment, a paragraph each. A text is data: nothing in it ends the comment.
func cComment(indent string, texts ...string) string {
	paragraphs := strings.Split(strings.Join(texts, paragraph), paragraph)
	for i, text := range paragraphs {
		paragraphs[i] = harmless(text)
	}
	if one := indent + "/* " + paragraphs[0] + " */"; len(paragraphs) == 1 && len(one) <= cWidth {
		return one
	}
	var b strings.Builder
	b.WriteString(indent + "/*\n")
	for _, text := range paragraphs {
		for _, line := range prose.Wrap(text, cWidth-len(indent)-len(" * ")) {
			b.WriteString(indent + " * " + line + "\n")
		}
	}
	b.WriteString(indent + " */")
	return b.String()
}

var commentMarks = strings.NewReplacer("*/", "* /", "/*", "/ *", "??/", "?? /")

// harmless makes a text one line that means nothing inside a C comment. Taking marks apart
// can leave no new ones: a space stands between.
func harmless(text string) string {
	return commentMarks.Replace(commentMarks.Replace(prose.Line(text)))
}

// cString writes a text as a C string literal.
func cString(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(prose.Line(text)) {
		switch {
		case c == '"' || c == '\\' || c == '?': // ?: no trigraphs
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, "\\%03s", strconv.FormatUint(uint64(c), 8))
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// article puts "a" or "an" before a name.
func article(name string) string {
	if strings.ContainsRune("aeiou", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}
