package conform

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/emit"
)

// originOf is the place in the specs that a line of an output comes from.
func originOf(file emit.File, line int) diag.Pos {
	if isGo(file.Path) {
		return file.Origin(goDeclaration(file.Content, line))
	}
	return file.Origin(cDeclaration(file, line))
}

// goDeclaration names the top-level declaration around a line: "Open",
// "Driver.Create" for a method or a field, or nothing.
func goDeclaration(content []byte, line int) string {
	fset := token.NewFileSet()
	file, _ := parser.ParseFile(fset, "", content, parser.ParseComments|parser.SkipObjectResolution)
	if file == nil {
		return ""
	}
	contains := func(node ast.Node) bool {
		return fset.Position(node.Pos()).Line <= line && line <= fset.Position(node.End()).Line
	}
	for _, decl := range file.Decls {
		if !contains(decl) {
			continue
		}
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			return funcName(decl)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if contains(spec) {
					return specName(spec, contains)
				}
			}
		}
	}
	return ""
}

func funcName(decl *ast.FuncDecl) string {
	if decl.Recv == nil {
		return decl.Name.Name
	}
	receiver := types.ExprString(decl.Recv.List[0].Type)
	return strings.TrimPrefix(receiver, "*") + "." + decl.Name.Name
}

func specName(spec ast.Spec, contains func(ast.Node) bool) string {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		return spec.Names[0].Name
	case *ast.TypeSpec:
		return spec.Name.Name + memberName(spec.Type, contains)
	default:
		return ""
	}
}

// memberName is ".Name" of the field of a struct, or the method of an
// interface, that is wanted.
func memberName(expr ast.Expr, wanted func(ast.Node) bool) string {
	var fields *ast.FieldList
	switch expr := expr.(type) {
	case *ast.StructType:
		fields = expr.Fields
	case *ast.InterfaceType:
		fields = expr.Methods
	default:
		return ""
	}
	for _, field := range fields.List {
		if wanted(field) && len(field.Names) > 0 {
			return "." + field.Names[0].Name
		}
	}
	return ""
}

// A declaration of C begins at the start of a line.
var (
	cStart  = regexp.MustCompile(`^[A-Za-z_]`)
	cSymbol = regexp.MustCompile(`[A-Za-z_]\w*`)
)

// cDeclaration names the origin that the declaration of C around a line is
// about, or the one that the line itself is about, or nothing.
func cDeclaration(file emit.File, line int) string {
	lines := strings.Split(string(file.Content), "\n")
	line = min(line, len(lines))
	for n := line; n > 0; n-- {
		if cStart.MatchString(lines[n-1]) {
			return cmp.Or(lastOrigin(file, lines[n-1]), lastOrigin(file, lines[line-1]))
		}
	}
	return ""
}

// lastOrigin is the last of a file's origins that the head of a declaration
// names: a function stands after its type.
func lastOrigin(file emit.File, declaration string) (last string) {
	head, _, _ := strings.Cut(declaration, "(")
	for _, symbol := range cSymbol.FindAllString(head, -1) {
		if slices.ContainsFunc(file.Origins, func(o emit.Origin) bool { return o.Name == symbol }) {
			last = symbol
		}
	}
	return last
}
