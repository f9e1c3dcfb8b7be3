package conform

import (
	"errors"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/arenagen/arenagen/gen/internal/emit"
)

// A tree is the module's Go code as it would be after the outputs were written.
type tree struct {
	module  emit.Module
	outputs map[string]emit.File // by path
	orphans []string
	folders map[string]*folder // those with Go code, tests aside, by path
}

// A folder is what the Go code in one folder imports.
type folder struct {
	imports map[string]bool // folders of this module
	others  bool            // packages of other modules
	usesC   bool
}

// scan reads the import lines of the module's Go code.
func scan(module emit.Module, files []emit.File, orphans []string) (*tree, error) {
	t := &tree{
		module:  module,
		outputs: make(map[string]emit.File, len(files)),
		orphans: orphans,
		folders: map[string]*folder{},
	}
	for _, file := range files {
		t.outputs[file.Path] = file
		if isCode(file.Path) {
			t.scanFile(file.Path, file.Content)
		}
	}
	err := module.Walk(func(name string) error {
		if _, output := t.outputs[name]; output || !isCode(name) || slices.Contains(orphans, name) {
			return nil
		}
		content, err := os.ReadFile(module.Abs(name))
		t.scanFile(name, content)
		return err
	})
	return t, err
}

func isGo(name string) bool   { return path.Ext(name) == ".go" }
func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }
func isCode(name string) bool { return isGo(name) && !isTest(name) }

// scanFile notes what a file imports. One that does not parse is noted as far
// as it does: the type check will say what is wrong with it.
func (t *tree) scanFile(name string, content []byte) {
	into := t.folders[path.Dir(name)]
	if into == nil {
		into = &folder{imports: map[string]bool{}}
		t.folders[path.Dir(name)] = into
	}
	file, _ := parser.ParseFile(token.NewFileSet(), name, content, parser.ImportsOnly)
	if file == nil {
		return
	}
	for _, spec := range file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		switch below, ours := strings.CutPrefix(imported, t.module.Path); {
		case imported == "C":
			into.usesC = true
		case ours && below == "":
			into.imports["."] = true
		case ours && below[0] == '/':
			into.imports[below[1:]] = true
		default:
			first, _, _ := strings.Cut(imported, "/")
			into.others = into.others || strings.Contains(first, ".")
		}
	}
}

// affected lists the folders whose packages the outputs change: those that hold
// a Go output or lose an orphan, and those that import such a folder, at any distance. Who imports other modules besides
// is left to the build: type-checking those takes longer than all the rest.
func (t *tree) affected() []string {
	changed := map[string]bool{}
	for _, name := range slices.AppendSeq(slices.Clone(t.orphans), maps.Keys(t.outputs)) {
		if isGo(name) {
			changed[path.Dir(name)] = true
		}
	}
	for before := -1; before < len(changed); {
		before = len(changed)
		for name, folder := range t.folders {
			if !folder.others && folder.importsAny(changed) {
				changed[name] = true
			}
		}
	}
	maps.DeleteFunc(changed, func(name string, _ bool) bool { return t.folders[name] == nil })
	return slices.Sorted(maps.Keys(changed))
}

func (f *folder) importsAny(folders map[string]bool) bool {
	for name := range f.imports {
		if folders[name] {
			return true
		}
	}
	return false
}

// needsC tells whether the code in one of folders imports "C".
func (t *tree) needsC(folders []string) bool {
	return slices.ContainsFunc(folders, func(name string) bool { return t.folders[name].usesC })
}

// gone stands in an overlay for a file that shall not be there: an overlay can
// only replace files, and the build passes over this one.
const gone = "//go:build ignore\n\npackage ignored\n"

// overlay is what the go command shall see in place of what is on disk.
func (t *tree) overlay() map[string][]byte {
	overlay := make(map[string][]byte, len(t.outputs)+len(t.orphans))
	for name, file := range t.outputs {
		overlay[t.module.Abs(name)] = file.Content
	}
	for _, name := range t.orphans {
		overlay[t.module.Abs(name)] = []byte(gone)
	}
	return overlay
}

// read gives a file as it would be.
func (t *tree) read(name string) ([]byte, error) {
	if file, ok := t.outputs[name]; ok {
		return file.Content, nil
	}
	return os.ReadFile(t.module.Abs(name))
}

// has tells whether there would be such a file.
func (t *tree) has(name string) bool {
	_, err := t.read(name)
	return !errors.Is(err, fs.ErrNotExist)
}
