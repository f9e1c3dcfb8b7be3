package emit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// A Module is the Go module that the outputs belong to.
type Module struct {
	Root string // its folder, absolute
	Path string // github.com/arenagen/arenagen

	// Folder is the one below the root that is for outputs, empty for all of the module: what
	// has the header of an output there, and is none, is an orphan.
	Folder string

	// Specs is the folder below the root whose files the outputs come from, empty where all of the module's do. Outputs of
	// other specs, which are there, are no orphans.
	Specs string
}

// OpenModule finds the module whose go.mod lies in root.
func OpenModule(root string) (Module, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return Module{}, fmt.Errorf("find the module: %w", err)
	}
	content, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return Module{}, fmt.Errorf("find the module: %w", err)
	}
	path := modfile.ModulePath(content)
	if path == "" {
		return Module{}, fmt.Errorf("find the module: %s has no module line", filepath.Join(root, "go.mod"))
	}
	return Module{Root: root, Path: path}, nil
}

// Walk calls visit with the path, below the root and with slashes, of every
// regular file that an output could be. It passes over build products, test
// data, hidden folders, and folders that are modules of their own.
func (m Module) Walk(visit func(path string) error) error {
	return filepath.WalkDir(m.Root, func(file string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) && entry != nil && entry.IsDir() {
			return fs.SkipDir // somebody else's, such as lost+found
		}
		if err != nil {
			return err
		}
		path, err := filepath.Rel(m.Root, file)
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		switch {
		case entry.IsDir() && path != "." && !within(m.Folder, path) && (skipped(path, entry.Name()) || exists(filepath.Join(file, "go.mod"))):
			return fs.SkipDir
		case entry.Type().IsRegular():
			return visit(path)
		default:
			return nil
		}
	})
}

// ofOthers tells whether an output comes from specs that this is not about.
func (m Module) ofOthers(sources []string) bool {
	return m.Specs != "" && slices.ContainsFunc(sources, func(source string) bool {
		return path.Dir(source) != m.Specs && exists(m.Abs(source))
	})
}

// removeEmpty removes a folder below the root, and those around it, as long as there is nothing in them.
func (m Module) removeEmpty(folder string) {
	for folder != "." && os.Remove(m.Abs(folder)) == nil {
		folder = path.Dir(folder)
	}
}

// skipped tells whether no output can lie in a folder.
func skipped(path, name string) bool {
	return path == "out" || name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".")
}

// within tells whether a path is a folder, or below it. The empty path is in none.
func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}

// MakeFolders makes the folders that files need. Calling undo removes those of
// them that are still empty. On failure nothing is left behind.
func (m Module) MakeFolders(files []File) (undo func(), err error) {
	var made []string
	undo = func() {
		for i := len(made) - 1; i >= 0; i-- {
			_ = os.Remove(made[i]) // one that is in use by now stays
		}
	}
	for _, file := range files {
		if err := makeFolder(filepath.Dir(m.Abs(file.Path)), &made); err != nil {
			undo()
			return nil, err
		}
	}
	return undo, nil
}

// makeFolder makes a folder and its parents and adds those that are new to made.
func makeFolder(folder string, made *[]string) error {
	err := os.Mkdir(folder, 0o777)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeFolder(filepath.Dir(folder), made); err != nil {
			return err
		}
		err = os.Mkdir(folder, 0o777)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	*made = append(*made, folder)
	return nil
}

// Abs is the place on disk of a path below the root.
func (m Module) Abs(path string) string {
	return filepath.Join(m.Root, filepath.FromSlash(path))
}
