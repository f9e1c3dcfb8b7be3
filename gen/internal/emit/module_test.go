package emit

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOpenModule(t *testing.T) {
	module := newModule(t, nil)
	assert.Equal(t, "example.com/m", module.Path)

	t.Run("no go.mod", func(t *testing.T) {
		_, err := OpenModule(t.TempDir())
		require.ErrorIs(t, err, os.ErrNotExist)
	})
	t.Run("no module line", func(t *testing.T) {
		root := t.TempDir()
		write(t, root, "go.mod", "go 1.26\n")
		_, err := OpenModule(root)
		require.ErrorContains(t, err, "go.mod has no module line")
	})
}

func TestModule_Walk(t *testing.T) {
	module := newModule(t, map[string]string{
		"a.txt":                       "",
		"backends/out/b.txt":          "",
		"out/c.txt":                   "",
		".git/d.txt":                  "",
		"docs/.cache/e.txt":           "",
		"gen/testdata/f.txt":          "",
		"site/node_modules/x/g.txt":   "",
		"examples/go/go.mod":          "module example.com/other\n",
		"examples/go/h.txt":           "",
		"examples/go/deeper/i.txt":    "",
		"examples/python/.hidden.txt": "",
	})
	require.NoError(t, os.Symlink("a.txt", module.Abs("link.txt")))
	var got []string
	require.NoError(t, module.Walk(func(path string) error {
		got = append(got, path)
		return nil
	}))
	assert.Equal(t, []string{"a.txt", "backends/out/b.txt", "examples/python/.hidden.txt", "go.mod"}, got)
}

func TestModule_MakeFolders(t *testing.T) {
	module := newModule(t, map[string]string{"a/x.txt": ""})
	before := names(t, module)
	files := []File{{Path: "y.txt"}, {Path: "a/y.txt"}, {Path: "a/b/c/y.txt"}, {Path: "a/b/d/y.txt"}}

	undo, err := module.MakeFolders(files)
	require.NoError(t, err)
	assert.DirExists(t, module.Abs("a/b/c"))
	assert.DirExists(t, module.Abs("a/b/d"))
	undo()
	assert.Equal(t, before, names(t, module))

	t.Run("a folder in use stays", func(t *testing.T) {
		undo, err := module.MakeFolders(files)
		require.NoError(t, err)
		write(t, module.Root, "a/b/c/z.txt", "")
		undo()
		assert.FileExists(t, module.Abs("a/b/c/z.txt"))
		assert.NoDirExists(t, module.Abs("a/b/d"))
		require.NoError(t, os.RemoveAll(module.Abs("a/b")))
	})
	t.Run("a file in the way", func(t *testing.T) {
		_, err := module.MakeFolders(append(files, File{Path: "a/x.txt/y.txt"}, File{Path: "a/x.txt/b/y.txt"}))
		require.Error(t, err)
		assert.Equal(t, before, names(t, module))
	})
}
