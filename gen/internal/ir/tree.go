package ir

import (
	"path"
	"strings"
)

// A Tree says where the specs of a project are and where what follows from those of its backends
// lies. Folders and files are relative to the root of the project's module, with slashes, and * in
// them is the name of a backend.
type Tree struct {
	Module string // its import path

	ABI, Contract string // two of the specs
	Specs         string // the folder of the backends' specs

	Package   string // the folder of a backend's Go package
	Simulator string // the entry points of its simulator
	Check     string // what compiles with the vendor's header if the spec is true
	Page      string // the reference page
	Reference string // what leads from there to the reference pages of this module
}

// Project is the tree of this module.
var Project = Tree{
	Module:    ModulePath,
	ABI:       "spec/abi.yaml",
	Contract:  "spec/vmm.yaml",
	Specs:     "spec/backends",
	Package:   "backends/*",
	Simulator: "backends/sim/c/zz_generated_*.c",
	Check:     "tests/vendor/checks/zz_generated_*.c",
	Page:      "docs/reference/*.md",
}

// ModulePath is the import path of this module, which all generated code stands on.
const ModulePath = "github.com/arenagen/arenagen"

// Outside is the tree of another module, whose backends have all of theirs in one folder each,
// below folder. Their specs are in the folder specs; the others are those of this module.
func Outside(module, specs, folder string) Tree {
	return Tree{
		Module:    module,
		ABI:       ModulePath + "/" + Project.ABI,
		Contract:  ModulePath + "/" + Project.Contract,
		Specs:     specs,
		Package:   path.Join(folder, "*"),
		Simulator: path.Join(folder, "*", "sim", "zz_generated_*.c"),
		Check:     path.Join(folder, "*", "check", "zz_generated_*.c"),
		Page:      path.Join(folder, "*", "reference.md"),
		Reference: "https://" + ModulePath + "/blob/main/docs/reference/",
	}
}

// withName is the file or folder that a pattern names for a backend.
func withName(pattern, name string) string { return strings.ReplaceAll(pattern, "*", name) }

// Folder is where a backend's Go package lies.
func (b *Backend) Folder() string { return withName(b.Tree.Package, b.Name) }

// ImportPath is that of its Go package.
func (b *Backend) ImportPath() string { return path.Join(b.Tree.Module, b.Folder()) }

// Generated is a file of its Go package, of those that are generated.
func (b *Backend) Generated(role string) string {
	return path.Join(b.Folder(), "zz_generated_"+role+".go")
}

// Simulator is the file with the entry points of its simulator.
func (b *Backend) Simulator() string { return withName(b.Tree.Simulator, b.Name) }

// Check is the file that compiles with the vendor's header if the spec is true.
func (b *Backend) Check() string { return withName(b.Tree.Check, b.Name) }

// Page is its reference page.
func (b *Backend) Page() string { return withName(b.Tree.Page, b.Name) }
