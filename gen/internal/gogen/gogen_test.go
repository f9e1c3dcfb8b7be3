package gogen

import (
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
)

// root is the project's, whose own specs are rendered here.
const root = "../../.."

// prepared are the Go outputs of the project's specs, formatted.
func prepared(t *testing.T) []emit.File {
	t.Helper()
	model, err := ir.Load(root)
	require.NoError(t, err)
	module, err := emit.OpenModule(root)
	require.NoError(t, err)
	files, err := module.Prepare(Files(model))
	require.NoError(t, err)
	return files
}

func TestFilesReadWell(t *testing.T) {
	const widestComment = 110
	for _, file := range prepared(t) {
		t.Run(file.Path, func(t *testing.T) {
			formatted, err := format.Source(file.Content)
			require.NoError(t, err)
			assert.Equal(t, string(formatted), string(file.Content), "formatting it again changes nothing")
			for line := range strings.Lines(string(file.Content)) {
				if comment := strings.TrimSpace(line); strings.HasPrefix(comment, "//") {
					assert.LessOrEqual(t, utf8.RuneCountInString(comment), widestComment)
				}
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file.Path, file.Content, parser.ParseComments)
			require.NoError(t, err)
			assert.True(t, ast.IsGenerated(parsed))
			for _, decl := range parsed.Decls {
				assertDocumented(t, decl)
			}
		})
	}
}

// assertDocumented checks that what a declaration exports has a comment.
func assertDocumented(t *testing.T, decl ast.Decl) {
	t.Helper()
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		assert.True(t, decl.Doc != nil || !decl.Name.IsExported() || !exportedReceiver(decl), decl.Name.Name)
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				assert.True(t, decl.Doc != nil || !spec.Name.IsExported(), spec.Name.Name)
			case *ast.ValueSpec:
				assert.True(t, decl.Doc != nil || !spec.Names[0].IsExported(), spec.Names[0].Name)
			}
		}
	}
}

// exportedReceiver tells whether a function is a method of an exported type, or none at all.
func exportedReceiver(decl *ast.FuncDecl) bool {
	if decl.Recv == nil {
		return true
	}
	typ := decl.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	return ast.IsExported(typ.(*ast.Ident).Name)
}

// TestOrigins checks that the names of all origins are declared, and that each has a place in a
// spec of its file.
func TestOrigins(t *testing.T) {
	for _, file := range prepared(t) {
		t.Run(file.Path, func(t *testing.T) {
			declared := declarations(t, file)
			for _, origin := range file.Origins {
				assert.Contains(t, declared, origin.Name)
				assert.Contains(t, file.Sources, origin.Pos.File)
				assert.NotEqual(t, diag.Pos{File: origin.Pos.File}, origin.Pos)
			}
		})
	}
}

// declarations lists the names that an origin can have.
func declarations(t *testing.T, file emit.File) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file.Path, file.Content, 0)
	require.NoError(t, err)
	var names []string
	for _, decl := range parsed.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			name := decl.Name.Name
			if decl.Recv != nil && exportedReceiver(decl) {
				name = "Driver." + name
			}
			names = append(names, name)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					names = append(names, spec.Names[0].Name)
				case *ast.TypeSpec:
					names = append(names, spec.Name.Name)
					names = append(names, members(spec)...)
				}
			}
		}
	}
	return names
}

// members lists the fields of a struct or the methods of an interface.
func members(spec *ast.TypeSpec) []string {
	var fields *ast.FieldList
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		fields = typ.Fields
	case *ast.InterfaceType:
		fields = typ.Methods
	default:
		return nil
	}
	var names []string
	for _, field := range fields.List {
		for _, name := range field.Names {
			names = append(names, spec.Name.Name+"."+name.Name)
		}
	}
	return names
}

func TestFilesIsDeterministic(t *testing.T) {
	assert.Equal(t, prepared(t), prepared(t))
}
