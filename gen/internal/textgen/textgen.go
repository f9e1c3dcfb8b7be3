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

// specABI is the spec that the C surface comes from.
const specABI = "spec/abi.yaml"

// Files renders all text outputs.
func Files(m *ir.Model) []emit.File {
	return slices.Concat(cFiles(m), pythonFiles(m), referenceFiles(m), pkgConfigFiles(m), simFiles(m), vendorFiles(m), gpuCheckFiles(m))
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
