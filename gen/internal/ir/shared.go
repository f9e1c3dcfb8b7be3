package ir

import (
	"cmp"
	"path"
	"slices"
)

// allLibrary is the name of the library that carries every backend.
const allLibrary = "all"

// A SharedLibrary is one that is built: that of a backend, or the one with all of them.
type SharedLibrary struct {
	Name     string // cuda, all
	Target   string // arenagen_cuda, arenagen: the file is lib<target>.so
	Folder   string // backends/cuda/libarenagen_cuda
	Import   string // its import path
	Title    string
	Backends []*Backend // those that drive devices before those that play them
	Sources  []string   // where the backends are said
}

// Libraries are the shared libraries of one backend each.
func (m *Model) Libraries() []*SharedLibrary {
	var libraries []*SharedLibrary
	for _, b := range m.Backends {
		target := m.ABI.Name + "_" + b.Name
		libraries = append(libraries, &SharedLibrary{
			Name: b.Name, Target: target, Title: b.Title, Backends: []*Backend{b}, Sources: []string{b.File},
			Folder: path.Join(b.Folder(), "lib"+target), Import: path.Join(b.ImportPath(), "lib"+target),
		})
	}
	return libraries
}

// Everything is the library of this project that carries every backend, nil where there are not several.
func (m *Model) Everything() *SharedLibrary {
	if len(m.Backends) < 2 {
		return nil
	}
	folder := path.Join(withName(Project.Package, allLibrary), "lib"+m.ABI.Name)
	all := &SharedLibrary{
		Name: allLibrary, Target: m.ABI.Name, Title: "all of them", Backends: slices.Clone(m.Backends), Sources: []string{Project.Specs},
		Folder: folder, Import: path.Join(Project.Module, folder),
	}
	slices.SortStableFunc(all.Backends, func(a, b *Backend) int { return cmp.Compare(playing(a), playing(b)) })
	return all
}

// playing is 1 for a backend that plays its devices.
func playing(b *Backend) int {
	if b.Provider != nil {
		return 1
	}
	return 0
}
