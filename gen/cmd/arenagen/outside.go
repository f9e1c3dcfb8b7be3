package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	gomodule "golang.org/x/mod/module"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/gogen"
	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/textgen"
	"github.com/arenagen/arenagen/spec"
)

// An outside is another module, which has backends of its own.
type outside struct {
	root   string // the module's, absolute
	module string // its import path
	specs  string // the folder of the backends' specs, absolute
	at     string // the same, relative to root
	folder string // that of the outputs, relative to root
}

// newOutside finds the module in which a folder for outputs lies. The module's path, where it is
// given, must be that of its go.mod.
func newOutside(specs, out, module string) (outside, error) {
	specs, err := filepath.Abs(specs)
	if err != nil {
		return outside{}, err
	}
	out, err = filepath.Abs(out)
	if err != nil {
		return outside{}, err
	}
	root, err := moduleAround(out)
	if err != nil {
		return outside{}, fmt.Errorf("%w: the generated code belongs to a Go module; make one with `go mod init %s`", err, orText(module, "MODULE"))
	}
	opened, err := emit.OpenModule(root)
	if err != nil {
		return outside{}, err
	}
	if module != "" && module != opened.Path {
		return outside{}, fmt.Errorf("--module %s: %s is of module %s", module, filepath.Join(root, "go.mod"), opened.Path)
	}
	folder, err := filepath.Rel(root, out)
	if err != nil {
		return outside{}, err
	}
	at, err := filepath.Rel(root, specs)
	if err != nil {
		return outside{}, err
	}
	if err := packagesIn(opened.Path, filepath.ToSlash(folder)); err != nil {
		return outside{}, fmt.Errorf("--out %s: %w", out, err)
	}
	return outside{root: root, module: opened.Path, specs: specs, at: filepath.ToSlash(at), folder: filepath.ToSlash(folder)}, nil
}

// packagesIn refuses a folder of a module in which the go command finds no packages.
func packagesIn(module, folder string) error {
	for element := range strings.SplitSeq(folder, "/") {
		if folder != "." && (strings.HasPrefix(element, ".") || strings.HasPrefix(element, "_") || element == "testdata" || element == "vendor") {
			return fmt.Errorf("the go command finds no packages in a folder that is called %s", element)
		}
	}
	return gomodule.CheckImportPath(path.Join(module, folder))
}

func orText(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// moduleAround is the nearest folder, from one upwards, that has a go.mod. The first need not be there yet.
func moduleAround(folder string) (string, error) {
	for at := folder; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("there is no go.mod in %s or above it", folder)
		}
	}
}

// tree says where the module's specs and outputs are.
func (o outside) tree() ir.Tree { return ir.Outside(o.module, o.at, o.folder) }

// load makes the model of the module's backends.
func (o outside) load(string) (*ir.Model, error) {
	tree := o.tree()
	return ir.LoadFS(borrowing{own: os.DirFS(o.specs), at: tree.Specs}, tree)
}

// generator makes the outputs of the module's backends.
func (o outside) generator() generator {
	return generator{
		load:      o.load,
		renderers: []renderer{gogen.BackendFiles, textgen.BackendFiles},
		folder:    strings.TrimPrefix(o.folder, "."),
		specs:     o.at,
		resolve:   resolveBeside,
	}
}

// borrowing has the specs of another module's backends, and those of this project that they go with.
type borrowing struct {
	own fs.FS
	at  string // the folder whose files are own
}

// Open opens one of the project's specs by its import path, any other file as one of the module's own.
func (b borrowing) Open(name string) (fs.File, error) {
	fsys, below := b.locate(name)
	file, err := fsys.Open(below)
	return file, onPath(name, err)
}

// Stat is about a file that it does not open, which may be a pipe.
func (b borrowing) Stat(name string) (fs.FileInfo, error) {
	fsys, below := b.locate(name)
	info, err := fs.Stat(fsys, below)
	return info, onPath(name, err)
}

func (b borrowing) locate(name string) (fsys fs.FS, below string) {
	if below, ok := strings.CutPrefix(name, ir.ModulePath+"/spec/"); ok {
		return spec.Files, below
	}
	if name == b.at {
		return b.own, "."
	}
	return b.own, strings.TrimPrefix(name, b.at+"/")
}

// onPath is an error about a file under the name that it was asked for by.
func onPath(name string, err error) error {
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		failed.Path = name
	}
	return err
}

// resolveBeside lets the go command find what generated code imports, without a change to the module's
// own go.mod and go.sum: until the code is there, these have no need of all that it needs.
func resolveBeside(module emit.Module) (flags []string, done func(), err error) {
	workspace, err := goEnv(module.Root, "GOWORK")
	if err != nil {
		return nil, nil, err
	}
	if workspace != "" && workspace != "off" {
		return nil, func() {}, nil
	}
	if err := requires(module); err != nil {
		return nil, nil, err
	}
	folder, err := os.MkdirTemp("", "arenagen-")
	if err != nil {
		return nil, nil, err
	}
	done = func() { _ = os.RemoveAll(folder) }
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(module.Root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), content, 0o600)
		}
		if err != nil {
			done()
			return nil, nil, err
		}
	}
	return []string{"-mod=mod", "-modfile=" + filepath.Join(folder, "go.mod")}, done, nil
}

// requires refuses a module that does not require this project, on which generated code stands.
func requires(module emit.Module) error {
	name := filepath.Join(module.Root, "go.mod")
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	file, err := modfile.Parse(name, content, nil)
	if err != nil {
		return err
	}
	required := slices.ContainsFunc(file.Require, func(r *modfile.Require) bool { return r.Mod.Path == ir.ModulePath })
	if module.Path == ir.ModulePath || required {
		return nil
	}
	return fmt.Errorf("%s does not require %s, on which generated code stands: run `go get %s`", name, ir.ModulePath, ir.ModulePath+"@latest")
}

// goEnv asks the go command for one of its settings.
func goEnv(folder, name string) (string, error) {
	command := exec.Command("go", "env", name)
	command.Dir = folder
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("go env %s: %w", name, err)
	}
	return strings.TrimSpace(string(output)), nil
}

// validateOutside looks for mistakes in the specs of a folder.
func validateOutside(specs string) error {
	at := path.Clean(filepath.ToSlash(specs))
	_, err := ir.LoadFS(borrowing{own: os.DirFS(specs), at: at}, ir.Outside("", at, "."))
	return err
}
