// Package specfile reads the YAML files below spec/ into plain declarations.
//
// One table of rows per mapping says which keys there are, what their values
// look like and what they mean. The strict walk that reads a file and the JSON
// Schema that an editor completes with are two uses of the same tables, so they
// cannot disagree. The package knows YAML; what a name refers to, and whether a
// declaration makes sense, is for package ir to say.
package specfile

import (
	"go.yaml.in/yaml/v4"

	"github.com/arenagen/arenagen/gen/internal/diag"
)

// MaxFileSize is the size in bytes that a spec file may have.
const MaxFileSize = 1 << 20

// A Format is one kind of spec file, read into a T.
type Format[T any] struct {
	name string
	root shape[T]
}

// The three kinds of spec file.
var (
	ABIFormat      = Format[ABI]{name: "The C surface of every shared library", root: abiShape}
	ContractFormat = Format[Contract]{name: "The driver contract", root: contractShape}
	BackendFormat  = Format[Backend]{name: "One GPU driver behind the contract", root: backendShape}
)

// Parse reads the text of one file, whose name appears in positions. It adds
// every mistake that it finds to mistakes and returns what could be read, nil
// when the text is not one YAML mapping. What is not there, or wrong and reported,
// is left at its zero value.
func (f Format[T]) Parse(file string, text []byte, mistakes *diag.List) *T {
	w := &walker{file: file, mistakes: mistakes}
	return f.read(w, w.parse(text))
}

// read reads a parsed file, or nothing when it could not be parsed.
func (f Format[T]) read(w *walker, root *yaml.Node) *T {
	if root == nil || !w.is(root, yaml.MappingNode, "the file", "a mapping") {
		return nil
	}
	var decl T
	f.root.read(w, "the file", root, &decl)
	return &decl
}

// Schema is the JSON Schema of such files.
func (f Format[T]) Schema() Schema {
	schema := f.root.schema
	schema.Dialect = "http://json-schema.org/draft-07/schema#"
	schema.Title = f.name
	return schema
}
