package gogen

import (
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/dave/jennifer/jen"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/gen/internal/ir"
)

// assertRenders compares declarations of the stub backend's package, formatted, with what is wanted.
func assertRenders(t *testing.T, want string, declarations ...jen.Code) {
	t.Helper()
	assertRendersIn(t, (&ir.Backend{Tree: ir.Project, Name: "stub"}).ImportPath(), want, declarations...)
}

// assertRendersIn is assertRenders for another package.
func assertRendersIn(t *testing.T, importPath, want string, declarations ...jen.Code) {
	t.Helper()
	f := newFile(importPath, "p", hostvmm.Package)
	add(f, declarations...)
	var source strings.Builder
	require.NoError(t, f.Render(&source))
	formatted, err := format.Source([]byte(source.String())) // again: directives move in the second pass only
	require.NoError(t, err)
	assert.Equal(t, strings.TrimSpace(want), strings.TrimSpace(withoutImports(t, string(formatted))))
}

// withoutImports cuts the package clause and the imports off.
func withoutImports(t *testing.T, source string) string {
	t.Helper()
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, "", source, parser.ParseComments)
	require.NoError(t, err)
	end := parsed.Name.End()
	for _, d := range parsed.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			end = g.End()
		}
	}
	return source[fset.Position(end).Offset:]
}

// hostvmm is a provider as the stub backend has it.
var hostvmm = &ir.Provider{
	Package: "github.com/arenagen/arenagen/backends/kit/hostvmm",
	PkgName: "hostvmm",
	Type:    "Driver",
	Open:    "Open",
}

// The values that operations in the tests have.
func address(name string) *ir.Value {
	return &ir.Value{Name: name, GoName: name, Type: "address", GoType: "uint64"}
}

func byteValue(name string) *ir.Value {
	return &ir.Value{Name: name, GoName: name, Type: "bytes", GoType: "uint64"}
}

func handleValue(name string) *ir.Value {
	return &ir.Value{Name: name, GoName: name, Type: "handle", GoType: "uint64"}
}

func integer(name string) *ir.Value {
	return &ir.Value{Name: name, GoName: name, Type: "int", GoType: "int"}
}

func enumValue(name, goName string, e *ir.Enum) *ir.Value {
	return &ir.Value{Name: name, GoName: goName, Type: e.Name, GoType: e.GoName, Enum: e}
}

// handleType is an enum of the contract.
var handleType = &ir.Enum{
	Name:        "handle_type",
	GoName:      "HandleType",
	Description: "How a handle can be exported.",
	Values: []*ir.EnumValue{
		{Name: "none", GoName: "HandleTypeNone", Value: 0, Description: "Not at all."},
		{Name: "posix_fd", GoName: "HandleTypePosixFD", Value: 1, Description: "As a file descriptor."},
		{Name: "fabric", GoName: "HandleTypeFabric", Value: 2, Description: "Across machines."},
	},
}

// driverHandleType has no number for one of its values, and an unusual one for another.
var driverHandleType = &ir.EnumMap{
	Enum: handleType,
	Values: []*ir.EnumMapValue{
		{Value: handleType.Values[0], Number: 0},
		{Value: handleType.Values[2], Number: 1 << 40},
	},
}

func operation(name, goName, description string, inputs, outputs []*ir.Value) *ir.Operation {
	return &ir.Operation{
		Name: name, GoName: goName, OpName: "Op" + goName, Description: description,
		Inputs: inputs, Outputs: outputs,
	}
}
