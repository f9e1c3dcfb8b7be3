// Package emit takes rendered files to the tree: it formats them, compares them
// with what is there, shows the difference, and writes all of them or none. It
// knows nothing of what the files say.
package emit

import (
	"strings"

	"github.com/arenagen/arenagen/gen/internal/diag"
)

// A File is one output of the generator, rendered but not yet written.
type File struct {
	Path    string   // below the root, with slashes, for example include/arenagen.h
	Content []byte   // has Header(Path, Sources...), or Notice where there are no comments, in its first lines
	Sources []string // the spec files that it comes from, below the root; at least one
	Origins []Origin // where its declarations come from
}

// An Origin says which place in a spec a declaration of a File comes from, so
// that a complaint about the output can name its cause.
type Origin struct {
	Name string // in Go a top-level name or a method, "Driver.Create"; elsewhere a C symbol
	Pos  diag.Pos
}

// Origin is the place in the specs that a declaration comes from. What belongs
// to another declaration, as "error.text" does to "error", comes from there
// when it has no origin of its own. Otherwise it is the file's first source.
func (f File) Origin(name string) diag.Pos {
	for _, origin := range f.Origins {
		if origin.Name == name {
			return origin.Pos
		}
	}
	if owner, _, found := strings.Cut(name, "."); found {
		return f.Origin(owner)
	}
	return diag.Pos{File: f.Sources[0]}
}
