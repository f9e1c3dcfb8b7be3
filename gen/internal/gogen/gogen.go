// Package gogen renders the Go outputs from the model, with jennifer. A function renders one
// construct and shows in its comment the shape that it gives it, with what comes from the model
// in <angle brackets>. It reads no spec and writes no file, and what it is given is whole: a model
// that it cannot render is a fault of package ir, and makes it panic.
package gogen

import (
	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
)

// Files renders all Go outputs of this project. They are not formatted yet.
func Files(m *ir.Model) []emit.File {
	files := append(BackendFiles(m),
		contractFile(m.Contract),
		abiFile(m.ABI),
		layoutFile(m.ABI),
	)
	if all := m.Everything(); all != nil {
		files = append(files, exportsFile(m.ABI, all), allFile(all))
	}
	return files
}

// BackendFiles renders the Go outputs that each backend has, in whatever project.
func BackendFiles(m *ir.Model) []emit.File {
	var files []emit.File
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
	return files
}
