package ir

import (
	"cmp"
	"fmt"
	"slices"
)

// allLibrary is the name of the library that carries every backend.
const allLibrary = "all"

// A SharedLibrary is one that is built: that of a backend, or the one with all of them.
type SharedLibrary struct {
	Name     string // cuda, all
	Target   string // arenagen_cuda, arenagen: the file is lib<target>.so
	Folder   string // backends/cuda/libarenagen_cuda
	Title    string
	Backends []*Backend // those that drive devices before those that play them
	Sources  []string   // where the backends are said
}

// Libraries are the shared libraries that follow from the specs.
func (m *Model) Libraries() []*SharedLibrary {
	var libraries []*SharedLibrary
	for _, b := range m.Backends {
		l := &SharedLibrary{Name: b.Name, Target: m.ABI.Name + "_" + b.Name, Title: b.Title, Backends: []*Backend{b}, Sources: []string{b.File}}
		libraries = append(libraries, l)
	}
	if len(m.Backends) > 1 {
		all := &SharedLibrary{Name: allLibrary, Target: m.ABI.Name, Title: "all of them", Backends: slices.Clone(m.Backends), Sources: []string{"spec/backends"}}
		slices.SortStableFunc(all.Backends, func(a, b *Backend) int { return cmp.Compare(playing(a), playing(b)) })
		libraries = append(libraries, all)
	}
	for _, l := range libraries {
		l.Folder = fmt.Sprintf("backends/%s/lib%s", l.Name, l.Target)
	}
	return libraries
}

// playing is 1 for a backend that plays its devices.
func playing(b *Backend) int {
	if b.Provider != nil {
		return 1
	}
	return 0
}
