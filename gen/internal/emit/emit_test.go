package emit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const source = "spec/abi.yaml"

// newModule makes a module with these files in a folder of its own.
func newModule(t *testing.T, files map[string]string) Module {
	t.Helper()
	root := t.TempDir()
	write(t, root, "go.mod", "module example.com/m\n")
	for name, content := range files {
		write(t, root, name, content)
	}
	module, err := OpenModule(root)
	require.NoError(t, err)
	return module
}

func write(t *testing.T, root, name, content string) {
	t.Helper()
	file := filepath.Join(root, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o777))
	require.NoError(t, os.WriteFile(file, []byte(content), 0o666))
}

// output is an output with its header above body.
func output(path, body string) File {
	return File{Path: path, Content: []byte(Header(path, source) + body), Sources: []string{source}}
}

// compare plans how to bring the module to files.
func compare(t *testing.T, module Module, files ...File) *Plan {
	t.Helper()
	plan, err := module.Compare(files)
	require.NoError(t, err)
	return plan
}

// names lists the files and folders below the module's root.
func names(t *testing.T, module Module) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(module.Root, func(name string, _ os.DirEntry, err error) error {
		if path, _ := filepath.Rel(module.Root, name); path != "." {
			found = append(found, filepath.ToSlash(path))
		}
		return err
	}))
	return found
}
