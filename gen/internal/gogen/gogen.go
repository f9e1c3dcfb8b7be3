// Package gogen renders the Go outputs from the model, with jennifer. A function renders one
// construct and shows in its comment the shape that it gives it, with what comes from the model
// in <angle brackets>. It reads no spec and writes no file, and what it is given is whole: a model
// that it cannot render is a fault of package ir, and makes it panic.
package gogen

import (
	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
)

// Files renders all Go outputs. They are not formatted yet.
func Files(m *ir.Model) []emit.File {
	files := []emit.File{
		contractFile(m.Contract),
		abiFile(m.ABI),
		layoutFile(m.ABI),
	}
	for _, b := range m.Backends {
		files = append(files,
			driverFile(m.Contract, b),
			optionsFile(b),
			resultsFile(b),
		)
		if b.Library != nil {
			files = append(files, libraryFile(b))
		}
	}
	for _, l := range m.Libraries() {
		files = append(files, exportsFile(m.ABI, l))
	}
	return append(files, allFile(m)...)
}
