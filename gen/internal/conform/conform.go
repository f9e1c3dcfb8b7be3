// Package conform type-checks what was rendered before it is written: together
// with the hand-written code around it, as if it were on disk already.
package conform

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/emit"
)

// Check type-checks every package of the module that holds one of files, and
// every one that imports such a package at any distance, as they would be with
// files written and orphans gone. The C code in the folder of a package that
// imports "C" is compiled too. Nothing in the tree changes.
//
// Flags go to the go command that loads the packages.
//
// A *diag.Error says what does not compile, and which place in the specs it
// comes from. Any other error means that the check could not be made.
func Check(module emit.Module, files []emit.File, orphans []string, flags ...string) error {
	mistakes, err := check(module, files, orphans, flags)
	if err != nil {
		return fmt.Errorf("type-check the outputs: %w", err)
	}
	return mistakes.Err()
}

func check(module emit.Module, files []emit.File, orphans, flags []string) (*diag.List, error) {
	t, err := scan(module, files, orphans)
	if err != nil {
		return nil, err
	}
	folders := t.affected()
	if len(folders) == 0 {
		return &diag.List{}, nil
	}
	if t.needsC(folders) {
		if err := lookForC(module.Root); err != nil {
			return nil, err
		}
	}
	// cgo runs in the folder of its package, which has to be there.
	undo, err := module.MakeFolders(files)
	if err != nil {
		return nil, err
	}
	defer undo()
	loaded, err := t.load(folders, flags)
	if err != nil {
		return nil, err
	}
	return t.judge(loaded)
}

// lookForC makes sure that there is a C compiler: without one the go command
// passes over the files that import "C".
func lookForC(root string) error {
	command := exec.Command("go", "env", "CC")
	command.Dir = root
	output, err := command.Output()
	if err != nil {
		return fmt.Errorf("go env CC: %w", err)
	}
	compiler, _, _ := strings.Cut(strings.TrimSpace(string(output)), " ") // it may bring arguments
	if _, err := exec.LookPath(compiler); err != nil {
		return fmt.Errorf(`the C compiler is needed for files that import "C": %w`, err)
	}
	return nil
}

// load type-checks the packages in folders, from source and without keeping
// more of them than their mistakes.
func (t *tree) load(folders, flags []string) ([]*packages.Package, error) {
	patterns := make([]string, len(folders))
	for i, folder := range folders {
		patterns[i] = "./" + folder
	}
	return packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles |
			packages.NeedImports | packages.NeedDeps | packages.NeedTypes,
		Dir:        t.module.Root,
		Env:        append(os.Environ(), "CGO_ENABLED=1", "LC_ALL=C", "GOPACKAGESDRIVER=off"),
		Overlay:    t.overlay(),
		BuildFlags: flags,
		Tests:      slices.ContainsFunc(slices.Collect(maps.Keys(t.outputs)), isTest),
	}, patterns...)
}

// judge lists what is wrong with the packages that were loaded.
func (t *tree) judge(loaded []*packages.Package) (*diag.List, error) {
	var mistakes diag.List
	built := map[string]bool{}
	for _, pkg := range loaded {
		names := t.below(pkg.GoFiles)
		for _, name := range names {
			built[name] = true
		}
		t.addComplaints(pkg, &mistakes)
		if err := t.checkHeaders(names, &mistakes); err != nil {
			return nil, err
		}
	}
	for name, file := range t.outputs {
		if isGo(name) && !built[name] {
			mistakes.Add(file.Origin(""), "%s is left out of the build by its name or its constraints, so it cannot be checked", name)
		}
	}
	return &mistakes, nil
}

// below turns file names into paths below the root, without those elsewhere.
func (t *tree) below(names []string) []string {
	var paths []string
	for _, name := range names {
		if path, err := filepath.Rel(t.module.Root, name); err == nil && filepath.IsLocal(path) {
			paths = append(paths, filepath.ToSlash(path))
		}
	}
	return paths
}

// checkHeaders makes sure that in a package with outputs these, and no other
// files, are what Go's tools take for generated.
func (t *tree) checkHeaders(names []string, mistakes *diag.List) error {
	isOutput := func(name string) bool { _, ok := t.outputs[name]; return ok }
	if !slices.ContainsFunc(names, isOutput) {
		return nil
	}
	for _, name := range names {
		content, err := t.read(name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.PackageClauseOnly|parser.ParseComments)
		switch {
		case err != nil: // among the complaints already
		case isOutput(name) && !ast.IsGenerated(file):
			return errors.New(name + ": Go's tools do not take it for a generated file")
		case !isOutput(name) && ast.IsGenerated(file):
			mistakes.Add(diag.Pos{File: name}, "has the header of a generated file, but no spec makes it")
		}
	}
	return nil
}
