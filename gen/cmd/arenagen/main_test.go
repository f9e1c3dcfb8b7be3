package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
)

// repository is the root of this repository.
const repository = "../../.."

const source = "spec/abi.yaml"

// output is an output whose declarations all come from line 7 of the spec.
func output(path, body string, names ...string) emit.File {
	file := emit.File{Path: path, Content: []byte(emit.Header(path, source) + body), Sources: []string{source}}
	for _, name := range names {
		file.Origins = append(file.Origins, emit.Origin{Name: name, Pos: diag.Pos{File: source, Line: 7, Column: 3}})
	}
	return file
}

// rendering is a generator that makes these outputs, whatever the specs say.
func rendering(files ...emit.File) generator {
	return generator{
		load:      func(string) (*ir.Model, error) { return &ir.Model{ABI: &ir.ABI{Name: "arena"}}, nil },
		renderers: []renderer{func(*ir.Model) []emit.File { return files }},
	}
}

// newTree makes a module with a spec folder and these files.
func newTree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		write(t, filepath.Join(root, name), content)
	}
	write(t, filepath.Join(root, "go.mod"), "module example.com/m\n\ngo 1.26.0\n")
	write(t, filepath.Join(root, source), "")
	return root
}

func write(t *testing.T, name, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o777))
	require.NoError(t, os.WriteFile(name, []byte(content), 0o666))
}

// snapshot gives every file and folder with its content.
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

// result is what a run of the command did.
type result struct {
	code           int
	stdout, stderr string
}

func runWith(g generator, args ...string) result {
	var stdout, stderr bytes.Buffer
	code := g.run(args, &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

func TestGenerate(t *testing.T) {
	changed := output("a/zz.go", "\npackage a\n\nfunc New() {}\n")
	missing := output("docs/abi.md", "text\n")
	same := output("same.md", "text\n")
	root := newTree(t, map[string]string{
		"a/zz.go":    emit.Header("zz.go", source) + "\npackage a\n",
		"same.md":    string(same.Content),
		"old/zz.go":  emit.Header("zz.go", source) + "\npackage old\n",
		"a/x.go":     "package a\n\nvar _ = New\n",
		"docs/my.md": "by hand\n",
	})
	g := rendering(changed, missing, same)

	assert.Equal(t, result{code: 0, stdout: "wrote a/zz.go\nwrote docs/abi.md\nremoved old/zz.go\n"}, runWith(g, "generate", "--root", root))
	tree := snapshot(t, root)
	assert.Equal(t, string(changed.Content), tree[filepath.Join(root, "a/zz.go")])
	assert.Equal(t, string(missing.Content), tree[filepath.Join(root, "docs/abi.md")])
	assert.NotContains(t, tree, filepath.Join(root, "old/zz.go"))

	assert.Equal(t, result{code: 0}, runWith(g, "generate", "--root", root), "a second run has nothing to do")
	assert.Equal(t, result{code: 0}, runWith(g, "generate", "--check", "--root", root))
	assert.Equal(t, tree, snapshot(t, root))
}

func TestGenerate_findsTheRoot(t *testing.T) {
	root := newTree(t, map[string]string{"docs/deep/x.txt": ""})
	t.Chdir(filepath.Join(root, "docs/deep"))
	assert.Equal(t, result{code: 0, stdout: "wrote a.md\n"}, runWith(rendering(output("a.md", "")), "generate"))
	assert.FileExists(t, filepath.Join(root, "a.md"))
}

// TestGenerate_quotes has an output that shows a file of the tree and another output, formatted.
func TestGenerate_quotes(t *testing.T) {
	root := newTree(t, map[string]string{"by_hand.txt": "by hand"})
	g := rendering(output("a/zz.go", "\npackage a\nfunc  F( ) {}\n"))
	g.quoters = []quoter{func(root fs.FS, outputs []emit.File) ([]emit.File, error) {
		text, err := fs.ReadFile(root, "by_hand.txt")
		return []emit.File{output("a.md", string(text)+string(outputs[0].Content))}, err
	}}
	assert.Equal(t, result{code: 0, stdout: "wrote a.md\nwrote a/zz.go\n"}, runWith(g, "generate", "--root", root))
	quoted, err := os.ReadFile(filepath.Join(root, "a.md"))
	require.NoError(t, err)
	assert.Contains(t, string(quoted), "by hand")
	assert.Contains(t, string(quoted), "\nfunc F() {}\n")
	assert.Equal(t, result{code: 0}, runWith(g, "generate", "--check", "--root", root))
}

// Whatever goes wrong, the tree stays as it is and the exit code says whose turn it is.
func TestGenerate_refuses(t *testing.T) {
	mistake := diag.List{}
	mistake.Add(diag.Pos{File: source, Line: 3, Column: 5}, "unknown key %q", "nmae")
	tests := []struct {
		name   string
		g      generator
		code   int
		stderr string
	}{
		{
			name:   "a mistake in the specs",
			g:      generator{load: func(string) (*ir.Model, error) { return nil, mistake.Err() }},
			code:   1,
			stderr: "spec/abi.yaml:3:5: unknown key \"nmae\"\n",
		},
		{
			name:   "specs that cannot be read",
			g:      generator{load: func(string) (*ir.Model, error) { return nil, errors.New("open spec/abi.yaml: no such file") }},
			code:   2,
			stderr: "arenagen: open spec/abi.yaml: no such file\n",
		},
		{
			name: "a call that no renderer knows",
			g: generator{load: func(string) (*ir.Model, error) {
				pos := diag.Pos{File: "spec/backends/cuda.yaml", Line: 4, Column: 10}
				fill := &ir.Fill{Layouts: []*ir.LayoutFill{{Size: 128}}, Chain: []*ir.Link{{Fill: ir.Fill{Layouts: []*ir.LayoutFill{{Size: 8}}}}}}
				helper := &ir.Binding{Pos: pos, Name: "cuAsk", Params: []*ir.BoundParam{{Name: "what", Bound: ir.Bound{Kind: ir.BoundStruct, Fill: fill}}}}
				return &ir.Model{Backends: []*ir.Backend{{Name: "cuda", Library: &ir.Library{Helpers: []*ir.Binding{helper}}}}}, nil
			}},
			code:   1,
			stderr: "spec/backends/cuda.yaml:4:10: the call of cuAsk passes more than 64 bytes by pointer, and not in one struct that points to no other, and no code is generated for that yet; `arenagen validate` checks it\n",
		},
		{
			name:   "Go that does not parse",
			g:      rendering(output("a/zz.go", "\npackage a\n\nvar b = = 1\n")),
			code:   2,
			stderr: "arenagen: rendered Go that does not parse: a/zz.go:5:9: expected operand, found '='\n      3 | package a\n      4 | \n>     5 | var b = = 1\n      6 | \n",
		},
		{
			name:   "Go that does not compile",
			g:      rendering(output("b/new.md", ""), output("a/zz.go", "\npackage a\n\nfunc New() int { return nil }\n", "New")),
			code:   1,
			stderr: "spec/abi.yaml:7:3: what is generated does not compile: a/zz.go:5:25: cannot use nil as int value in return statement\n",
		},
		{
			name:   "a quotation of what is not there",
			g:      generator{load: rendering().load, quoters: []quoter{func(fs.FS, []emit.File) ([]emit.File, error) { return nil, errors.New("no such line") }}},
			code:   2,
			stderr: "arenagen: no such line\n",
		},
		{
			name:   "a break of the ABI",
			g:      rendering(output("include/arena.abi", "abi arena 1.0\nenumerator ARENA_OK 1\n", "ARENA_OK")),
			code:   1,
			stderr: "spec/abi.yaml:7:3: ABI break: \"enumerator ARENA_OK 0\" is now \"enumerator ARENA_OK 1\": raise the major version above 1\n",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := newTree(t, map[string]string{
				"a/zz.go":           emit.Header("zz.go", source) + "\npackage a\n",
				"include/arena.abi": emit.Header("arena.abi", source) + "abi arena 1.0\nenumerator ARENA_OK 0\n",
				"orphan.md":         emit.Header("orphan.md", source),
			})
			before := snapshot(t, root)
			assert.Equal(t, result{code: test.code, stderr: test.stderr}, runWith(test.g, "generate", "--root", root))
			assert.Equal(t, before, snapshot(t, root))
		})
	}
}

func TestGenerate_check(t *testing.T) {
	stale, missing := output("stale.md", "new\n"), output("a/missing.md", "text\n")
	root := newTree(t, map[string]string{
		"stale.md":  emit.Header("stale.md", source) + "old\n",
		"orphan.md": emit.Header("orphan.md", source),
	})
	before := snapshot(t, root)
	assert.Equal(t, result{
		code: 1,
		stdout: `--- /dev/null
+++ b/a/missing.md
@@ -0,0 +1,2 @@
+<!-- Code generated by arenagen from spec/abi.yaml; DO NOT EDIT. -->
+text
--- a/stale.md
+++ b/stale.md
@@ -1,2 +1,2 @@
 <!-- Code generated by arenagen from spec/abi.yaml; DO NOT EDIT. -->
-old
+new
`,
		stderr: "a/missing.md: missing\n" +
			"stale.md: stale\n" +
			"orphan.md: an orphan: it has the header of a generated file, but no spec makes it\n" +
			"run `go generate ./...` to bring the tree up to date\n",
	}, runWith(rendering(stale, missing), "generate", "--check", "--root", root))
	assert.Equal(t, before, snapshot(t, root))
}

func TestGenerate_checkTellsABIBreaks(t *testing.T) {
	root := newTree(t, map[string]string{"x.abi": emit.Header("x.abi", source) + "abi arena 1.0\nfunction arena_close\n"})
	got := runWith(rendering(output("x.abi", "abi arena 1.0\n")), "generate", "--check", "--root", root)
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stdout, "-function arena_close\n")
	assert.Contains(t, got.stderr, "spec/abi.yaml: ABI break: \"function arena_close\" is gone")
	assert.Contains(t, got.stderr, "x.abi: stale\n")
}

func TestGenerate_dumpModel(t *testing.T) {
	root := newTree(t, nil)
	before := snapshot(t, root)
	got := runWith(rendering(output("a.md", "")), "generate", "--dump-model", "--root", root)
	assert.Equal(t, 0, got.code)
	var model ir.Model
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &model))
	assert.Equal(t, "arena", model.ABI.Name)
	assert.Equal(t, before, snapshot(t, root))
}

func TestValidate(t *testing.T) {
	root := newTree(t, nil)
	assert.Equal(t, result{code: 0}, runWith(rendering(), "validate", "--root", root))

	mistakes := diag.List{}
	mistakes.Add(diag.Pos{File: source, Line: 9, Column: 1}, "second")
	mistakes.Add(diag.Pos{File: source, Line: 3, Column: 5}, "first")
	g := generator{load: func(string) (*ir.Model, error) { return nil, mistakes.Err() }}
	assert.Equal(t, result{code: 1, stderr: "spec/abi.yaml:3:5: first\nspec/abi.yaml:9:1: second\n"}, runWith(g, "validate", "--root", root))
}

func TestUsage(t *testing.T) {
	empty := t.TempDir()
	t.Chdir(empty)
	tests := []struct {
		name   string
		args   []string
		stderr string
	}{
		{"unknown command", []string{"generat"}, "arenagen: unknown command \"generat\" for \"arenagen\"\n\nDid you mean this?\n\tgenerate\n\n"},
		{"unknown flag", []string{"generate", "--chekc"}, "arenagen: unknown flag: --chekc\n"},
		{"an argument", []string{"generate", "stub"}, "arenagen: unknown command \"stub\" for \"arenagen generate\"\n"},
		{"two ways to write nothing", []string{"generate", "--check", "--dump-model"},
			"arenagen: if any flags in the group [check dump-model] are set none of the others can be; [check dump-model] were all set\n"},
		{"no root", []string{"validate"}, "arenagen: no folder from here upwards has both go.mod and spec/: name one with --root\n"},
		{"a root without go.mod", []string{"generate", "--root", empty}, "arenagen: --root " + empty + ": it has no go.mod or no spec/ in it\n"},
		{"new without go.mod", []string{"new", "acme", "--root", empty}, "arenagen: --root " + empty + ": it has no go.mod or no spec/ in it\n"},
		{"an empty root", []string{"generate", "--root", ""}, "arenagen: --root is empty; leave it out, or give it a value\n"},
		{"empty folders", []string{"generate", "--spec", "", "--out", ""}, "arenagen: --spec is empty; leave it out, or give it a value\n"},
		{"an empty folder for a new one", []string{"new", "acme", "--spec="}, "arenagen: --spec is empty; leave it out, or give it a value\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, result{code: 2, stderr: test.stderr}, runWith(rendering(), test.args...))
		})
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"generate", "--help"}, {"validate", "--help"}, {"new", "--help"}, {}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			assert.Equal(t, 0, run(args, &stdout, &stderr))
			assert.Empty(t, stderr.String())
			assert.Contains(t, stdout.String(), "Usage:")
			for line := range strings.Lines(stdout.String()) {
				assert.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), 120, "a line too long for a terminal: %s", line)
			}
		})
	}
}

// What is committed is what the specs say.
func TestCommittedOutputs(t *testing.T) {
	var stderr bytes.Buffer
	code := run([]string{"generate", "--check", "--root", repository}, io.Discard, &stderr)
	assert.Zero(t, code, stderr.String()) // it says to run go generate
}

// The command has to build while what it generates is broken, so it imports nothing outside gen but the specs.
func TestImports(t *testing.T) {
	loaded, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedImports | packages.NeedDeps}, ".")
	require.NoError(t, err)
	module, err := emit.OpenModule(repository)
	require.NoError(t, err)
	packages.Visit(loaded, nil, func(pkg *packages.Package) {
		if below, ours := strings.CutPrefix(pkg.PkgPath, module.Path+"/"); ours {
			assert.True(t, below == "spec" || strings.HasPrefix(below, "gen/"), "the generator imports %s", pkg.PkgPath)
		}
	})
}
