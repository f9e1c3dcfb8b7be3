package conform

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/emit"
)

const source = "spec/abi.yaml"

// header begins every Go output of these tests.
var header = emit.Header("x.go", source) + "\n"

// newModule makes a module with hand-written files in a folder of its own.
func newModule(t *testing.T, files map[string]string) emit.Module {
	t.Helper()
	root := filepath.Join(t.TempDir(), "a module") // names with spaces are names too
	for name, content := range files {
		write(t, filepath.Join(root, name), content)
	}
	write(t, filepath.Join(root, "go.mod"), "module example.com/m\n\ngo 1.26.0\n")
	module, err := emit.OpenModule(root)
	require.NoError(t, err)
	return module
}

func write(t *testing.T, name, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o777))
	require.NoError(t, os.WriteFile(name, []byte(content), 0o666))
}

// output is an output whose declarations each have a line in the spec: the
// first name line 1, and so on.
func output(path, content string, names ...string) emit.File {
	file := emit.File{Path: path, Content: []byte(content), Sources: []string{source}}
	for i, name := range names {
		file.Origins = append(file.Origins, emit.Origin{Name: name, Pos: diag.Pos{File: source, Line: i + 1, Column: 3}})
	}
	return file
}

// snapshot lists every file and folder with its content.
func snapshot(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			found[name] = ""
			return err
		}
		content, err := os.ReadFile(name)
		found[name] = string(content)
		return err
	}))
	return found
}

// The C half of a package as the outputs would hold it.
const (
	cHeader = "/* x */\n#include <stdint.h>\ntypedef uint32_t thing;\nthing thing_make(thing t);\n"
	cCode   = "#include \"api.h\"\n\nthing thing_make(thing t)\n{\n\treturn t;\n}\n"
)

func cgoCode(body string) string {
	return header + "package lib\n\n// #include \"api.h\"\nimport \"C\"\n\nfunc Make(t uint32) uint32 {\n\t" + body + "\n}\n"
}

func TestCheck(t *testing.T) {
	goodUse := "package use\n\nimport \"example.com/m/api\"\n\nvar _ = api.Open\n"
	tests := []struct {
		name    string
		tree    map[string]string
		files   []emit.File
		orphans []string
		want    []string // mistakes, as text; none means that all is well
	}{
		{
			name:  "nothing rendered",
			tree:  map[string]string{"use/use.go": goodUse},
			files: []emit.File{output("docs/x.md", "text")},
		},
		{
			name:  "a package that is not on disk yet, and one that imports it",
			tree:  map[string]string{"use/use.go": goodUse},
			files: []emit.File{output("api/zz.go", header+"package api\n\nfunc Open() {}\n")},
		},
		{
			name: "a broken package elsewhere does not matter",
			tree: map[string]string{"other/x.go": "package other\n\nvar x int = \"\"\n"},
			files: []emit.File{
				output("api/zz.go", header+"package api\n"),
			},
		},
		{
			name: "a type error in a function",
			files: []emit.File{
				output("api/zz.go", header+"package api\n\nfunc Open() {}\n\nfunc Close() int {\n\treturn \"\"\n}\n", "Open", "Close"),
			},
			want: []string{`spec/abi.yaml:2:3: what is generated does not compile: api/zz.go:8:9: cannot use "" (untyped string constant) as int value in return statement`},
		},
		{
			name: "a type error in a method",
			files: []emit.File{
				output("api/zz.go", header+"package api\n\ntype Driver struct{}\n\nfunc (d *Driver) Create() {\n\td.missing()\n}\n", "Driver", "Driver.Create"),
			},
			want: []string{`spec/abi.yaml:2:3: what is generated does not compile: api/zz.go:8:4: d.missing undefined (type *Driver has no field or method missing)`},
		},
		{
			name: "a mistake in several lines",
			files: []emit.File{
				output("api/zz.go", header+"package api\n\nfunc Open(int) {}\n\nfunc Close() { Open() }\n", "Open", "Close"),
			},
			want: []string{"spec/abi.yaml:2:3: what is generated does not compile: api/zz.go:7:21: not enough arguments in call to Open\n\thave ()\n\twant (int)"},
		},
		{
			name: "a field without an origin comes from its struct's",
			files: []emit.File{
				output("api/zz.go", header+"package api\n\ntype Other int\n\ntype Driver struct {\n\tx Missing\n}\n", "Other", "Driver"),
			},
			want: []string{`spec/abi.yaml:2:3: what is generated does not compile: api/zz.go:8:4: undefined: Missing`},
		},
		{
			name: "no origin at all",
			files: []emit.File{
				output("api/zz.go", header+"package api\n\nvar x Missing\n"),
			},
			want: []string{`spec/abi.yaml: what is generated does not compile: api/zz.go:5:7: undefined: Missing`},
		},
		{
			name:  "hand-written code that no longer fits",
			tree:  map[string]string{"use/use.go": goodUse},
			files: []emit.File{output("api/zz.go", header+"package api\n\nfunc Shut() {}\n", "Shut")},
			want:  []string{`use/use.go:5:13: does not compile with what is generated: undefined: api.Open`},
		},
		{
			name: "hand-written code that does not parse",
			tree: map[string]string{"api/x.go": "package api\n\n}\n"},
			files: []emit.File{
				output("api/zz.go", header+"package api\n"),
			},
			want: []string{`api/x.go:3:1: does not compile with what is generated: expected declaration, found '}'`},
		},
		{
			name:  "a missing package",
			files: []emit.File{output("api/zz.go", header+"package api\n\nimport _ \"example.com/m/nowhere\"\n")},
			want:  []string{`spec/abi.yaml: what is generated does not compile: api/zz.go:5:10: could not import example.com/m/nowhere (invalid package name: "")`},
		},
		{
			name:    "an orphan counts as gone",
			tree:    map[string]string{"api/zz_old.go": header + "package api\n\nfunc Open() {}\n", "use/use.go": goodUse},
			files:   []emit.File{output("api/zz_new.go", header+"package api\n\nfunc Open() {}\n")},
			orphans: []string{"api/zz_old.go"},
		},
		{
			name:    "an orphan that is still needed",
			tree:    map[string]string{"api/zz.go": header + "package api\n\nfunc Open() {}\n", "api/x.go": "package api\n\nvar _ = Open\n", "use/use.go": goodUse},
			files:   []emit.File{output("docs/x.md", "text")},
			orphans: []string{"api/zz.go"},
			want: []string{
				`api/x.go:3:9: does not compile with what is generated: undefined: Open`,
				`use/use.go:5:13: does not compile with what is generated: undefined: api.Open`,
			},
		},
		{
			name:  "a file that the build leaves out",
			files: []emit.File{output("api/zz.go", header+"package api\n"), output("api/zz_windows.go", header+"package api\n")},
			want:  []string{`spec/abi.yaml: api/zz_windows.go is left out of the build by its name or its constraints, so it cannot be checked`},
		},
		{
			name:  "another generator's file beside ours",
			tree:  map[string]string{"api/x_string.go": "// Code generated by stringer; DO NOT EDIT.\n\npackage api\n"},
			files: []emit.File{output("api/zz.go", header+"package api\n")},
			want:  []string{`api/x_string.go: has the header of a generated file, but no spec makes it`},
		},
		{
			name:  "a test",
			files: []emit.File{output("api/zz_test.go", header+"package api\n\nvar x Missing\n", "x"), output("api/zz.go", header+"package api\n")},
			want:  []string{`spec/abi.yaml:1:3: what is generated does not compile: api/zz_test.go:5:7: undefined: Missing`},
		},
		{
			name: "a folder that only other platforms build",
			tree: map[string]string{"use/use_windows.go": goodUse},
			files: []emit.File{
				output("api/zz.go", header+"package api\n\nfunc Open() {}\n"),
			},
		},
		{
			name: "cgo, with nothing on disk",
			files: []emit.File{
				output("lib/api.h", cHeader), output("lib/guard.c", cCode), output("lib/zz.go", cgoCode("return uint32(C.thing_make(C.thing(t)))")),
			},
		},
		{
			name: "cgo, with another header on disk",
			tree: map[string]string{"lib/api.h": "typedef int other;\n"},
			files: []emit.File{
				output("lib/api.h", cHeader), output("lib/guard.c", cCode), output("lib/zz.go", cgoCode("return uint32(C.thing_make(C.thing(t)))")),
			},
		},
		{
			name: "cgo, a Go error",
			files: []emit.File{
				output("lib/api.h", cHeader), output("lib/guard.c", cCode), output("lib/zz.go", cgoCode("return uint32(C.thing_make(t))"), "Other", "Make"),
			},
			want: []string{`spec/abi.yaml:2:3: what is generated does not compile: lib/zz.go:9:29: cannot use t (variable of type uint32) as _Ctype_thing value in argument to (_Cfunc_thing_make)`},
		},
		{
			name: "cgo, a name that the header lacks",
			files: []emit.File{
				output("lib/api.h", cHeader), output("lib/guard.c", cCode), output("lib/zz.go", cgoCode("return C.nothing"), "Other", "Make"),
			},
			want: []string{`spec/abi.yaml:2:3: what is generated does not compile: lib/zz.go:9:9: could not determine what C.nothing refers to`},
		},
		{
			name: "cgo, a C error",
			files: []emit.File{
				output("lib/api.h", cHeader), output("lib/guard.c", "#include \"api.h\"\n\nthing thing_make(thing t)\n{\n\treturn u;\n}\n", "thing", "thing_make"),
				output("lib/zz.go", cgoCode("return uint32(C.thing_make(C.thing(t)))")),
			},
			want: []string{`spec/abi.yaml:2:3: what is generated does not compile: lib/guard.c:5:16: 'u' undeclared (first use in this function)`},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			module := newModule(t, test.tree)
			before := snapshot(t, module.Root)
			err := Check(module, test.files, test.orphans)
			if len(test.want) == 0 {
				require.NoError(t, err)
			} else {
				var mistakes *diag.Error
				require.ErrorAs(t, err, &mistakes)
				var got []string
				for _, mistake := range mistakes.Diagnostics {
					got = append(got, mistake.String())
				}
				assert.Equal(t, test.want, got)
			}
			assert.Equal(t, before, snapshot(t, module.Root), "the tree has changed")
		})
	}
}

func TestCheck_noCompiler(t *testing.T) {
	t.Setenv("CC", "no-such-compiler -m64")
	module := newModule(t, nil)
	err := Check(module, []emit.File{output("lib/zz.go", cgoCode("return t"))}, nil)
	require.ErrorContains(t, err, `the C compiler is needed for files that import "C": exec: "no-such-compiler"`)
	var mistakes *diag.Error
	assert.NotErrorAs(t, err, &mistakes, "a missing tool is no mistake in the specs")
}

func TestCheck_headerThatGoDoesNotKnow(t *testing.T) {
	module := newModule(t, nil)
	err := Check(module, []emit.File{output("api/zz.go", "package api\n\n"+header)}, nil)
	require.ErrorContains(t, err, "api/zz.go: Go's tools do not take it for a generated file")
}
