package ir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// Load reads the specs of this project below its root and resolves them. All mistakes in them
// come back as one *diag.Error, with positions relative to root; any other error
// means that a file could not be read.
func Load(root string) (*Model, error) {
	model, err := LoadFS(os.DirFS(root), Project)
	var mistakes *diag.Error
	if err != nil && !errors.As(err, &mistakes) {
		return nil, fmt.Errorf("load the specs below %s: %w", root, err)
	}
	return model, err
}

// LoadFS is Load from a file system, of the project with a tree.
func LoadFS(fsys fs.FS, tree Tree) (*Model, error) {
	var mistakes diag.List
	abi, err := read(fsys, tree.ABI, specfile.ABIFormat, &mistakes)
	if err != nil {
		return nil, err
	}
	contract, err := read(fsys, tree.Contract, specfile.ContractFormat, &mistakes)
	if err != nil {
		return nil, err
	}
	backends, err := readBackends(fsys, tree.Specs, &mistakes)
	if err != nil {
		return nil, err
	}
	model := Resolve(tree, abi, contract, backends, &mistakes)
	if err := mistakes.Err(); err != nil {
		return nil, err
	}
	return model, nil
}

// readBackends reads the files of all backends, in the order of their names.
func readBackends(fsys fs.FS, folder string, mistakes *diag.List) ([]*specfile.Backend, error) {
	names, err := backendFiles(fsys, folder, mistakes)
	if err != nil {
		return nil, err
	}
	var backends []*specfile.Backend
	for _, name := range names {
		backend, err := read(fsys, name, specfile.BackendFormat, mistakes)
		if err != nil {
			return nil, err
		}
		if backend != nil {
			backends = append(backends, backend)
		}
	}
	return backends, nil
}

// backendFiles lists the files of all backends, sorted. Other files may lie beside
// them, but none that was likely meant as one.
func backendFiles(fsys fs.FS, folder string, mistakes *diag.List) ([]string, error) {
	entries, err := fs.ReadDir(fsys, folder)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		name := path.Join(folder, entry.Name())
		switch path.Ext(name) {
		case ".yaml":
			names = append(names, name)
		case ".yml":
			mistakes.Add(diag.Pos{File: name}, "a backend's file must end in .yaml")
		}
	}
	if len(names) == 0 {
		mistakes.Add(diag.Pos{File: folder}, "there is no backend, expected at least one .yaml file")
	}
	return names, nil
}

// read reads one file, and no more of it than one can be long.
func read[T any](fsys fs.FS, name string, format specfile.Format[T], mistakes *diag.List) (*T, error) {
	// Opening a named pipe would wait for somebody who writes to it.
	if info, err := fs.Stat(fsys, name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: it is no regular file", name)
	}
	file, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, specfile.MaxFileSize+1))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return format.Parse(name, text, mistakes), nil
}

// Resolve makes the model out of the declarations and adds what is wrong to
// mistakes. A file that could not be read is nil; what depends on it is left out.
func Resolve(tree Tree, abi *specfile.ABI, contract *specfile.Contract, backends []*specfile.Backend, mistakes *diag.List) *Model {
	model := &Model{}
	if abi != nil {
		model.ABI = resolveABI(abi, mistakes)
	}
	if contract == nil {
		return model
	}
	model.Contract = resolveContract(contract, mistakes)
	for _, decl := range backends {
		model.Backends = append(model.Backends, resolveBackend(decl, tree, model.Contract, mistakes))
	}
	checkLibraries(backends, mistakes)
	return model
}

// checkLibraries sees to it that no two backends drive the same library: a simulator stands in for it under its
// name, and a user names another file for one of them.
func checkLibraries(backends []*specfile.Backend, mistakes *diag.List) {
	names, overrides := newScope("library", mistakes), newScope("environment variable", mistakes)
	for _, d := range backends {
		what := fmt.Sprintf("backend %q", d.Name.Value)
		own := map[string]bool{} // a name that it has twice is its own mistake
		for _, name := range d.Library.Linux.Items {
			if name.Valid && !own[name.Value] {
				own[name.Value] = true
				names.claim(name.Value, what, name.Pos)
			}
		}
		if override := d.Library.Override; override.Valid {
			overrides.claim(override.Value, what, override.Pos)
		}
	}
}
