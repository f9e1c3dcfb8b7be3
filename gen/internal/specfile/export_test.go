package specfile

import (
	"go.yaml.in/yaml/v4"

	"github.com/arenagen/arenagen/gen/internal/diag"
)

// Read is Parse of a file that is a tree already.
func (f Format[T]) Read(file string, root *yaml.Node, mistakes *diag.List) *T {
	return f.read(&walker{file: file, mistakes: mistakes}, root)
}
