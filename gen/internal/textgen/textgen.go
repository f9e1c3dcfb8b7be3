// Package textgen renders everything that is not Go from the model, with
// templates: the C header, the guard, the version script, the ABI listing, the
// Python bindings, the reference pages, the pkg-config files, the driver simulators and the checks against vendors' headers. It reads no
// spec and writes no file.
package textgen

import (
	"bytes"
	"embed"
	"fmt"
	"slices"
	"text/template"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
)

//go:embed *.tmpl
var templates embed.FS

// Files renders all text outputs of this project.
func Files(m *ir.Model) []emit.File {
	files := slices.Concat(BackendFiles(m), headerFiles(m), pythonFiles(m), referenceFiles(m), simContractFiles(m), gpuCheckFiles(m))
	if all := m.Everything(); all != nil {
		files = slices.Concat(files, libraryFiles(m, all))
	}
	return files
}

// BackendFiles renders the text outputs that each backend has, in whatever project.
func BackendFiles(m *ir.Model) []emit.File {
	var files []emit.File
	for _, l := range m.Libraries() {
		files = append(files, libraryFiles(m, l)...)
	}
	for _, b := range m.Backends {
		files = append(files, backendPageFile(m, b))
		if b.Library != nil {
			files = append(files, simFile(m, b), vendorFile(b))
		}
	}
	return files
}

// render executes a template. A template that fails is a fault of this package: the
// model is whole before it comes here.
func render(name string, functions template.FuncMap, data any) []byte {
	t := template.Must(template.New(name).Funcs(functions).ParseFS(templates, name))
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		panic(fmt.Sprintf("template %s: %v", name, err))
	}
	return b.Bytes()
}
