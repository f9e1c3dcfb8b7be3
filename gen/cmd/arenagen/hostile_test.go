package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/gen/internal/conform"
	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/irtest"
)

// A description is data: whatever it says, the outputs mean what they meant before. The tests
// here render this repository's specs with other descriptions; that the pages keep their
// structure is for the module gen/schematest, which has a parser of Markdown.

// rendered are all outputs of this repository's specs, by their paths, after a change of the model.
func rendered(t *testing.T, change func(*ir.Model)) map[string]emit.File {
	t.Helper()
	model, err := ir.Load(repository)
	require.NoError(t, err)
	change(model)
	var files []emit.File
	for _, render := range renderers {
		files = append(files, render(model)...)
	}
	module, err := emit.OpenModule(repository)
	require.NoError(t, err)
	files, err = module.Prepare(files)
	require.NoError(t, err)
	byPath := map[string]emit.File{}
	for _, file := range files {
		byPath[file.Path] = file
	}
	return byPath
}

func unchanged(*ir.Model) {}

func describing(text string) func(*ir.Model) {
	return func(m *ir.Model) { irtest.Describe(m, text) }
}

func TestHostileDescriptions(t *testing.T) {
	plain := rendered(t, unchanged)
	plainC := preprocess(t, plain)
	bindings := map[string]emit.File{"as they are": plain[pythonBindings]}
	for name, text := range irtest.HostileTexts() {
		hostile := rendered(t, describing(text))
		bindings[name] = hostile[pythonBindings]
		t.Run(name, func(t *testing.T) {
			assertSame(t, plain, hostile)
			assert.Equal(t, plainC, preprocess(t, hostile))
		})
	}
	t.Run("in Python", func(t *testing.T) { assertSamePython(t, bindings) })
}

// assertSame compares each output in its language. C and Python are compared together, which is
// faster, and Markdown in the other module.
func assertSame(t *testing.T, want, got map[string]emit.File) {
	t.Helper()
	elsewhere := func(*testing.T, emit.File, emit.File) {}
	same := map[string]func(t *testing.T, want, got emit.File){
		".go":   sameGo,
		".c":    elsewhere,
		".h":    elsewhere,
		".py":   elsewhere,
		".md":   elsewhere,
		".pc":   samePackage,
		".map":  sameText,
		".abi":  sameText,
		".json": sameText,
	}
	require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
	for name, file := range want {
		require.Contains(t, same, path.Ext(name))
		same[path.Ext(name)](t, file, got[name])
	}
}

// TestHostileDescriptionsCompile type-checks, and compiles what is C, with all the texts at once.
func TestHostileDescriptionsCompile(t *testing.T) {
	texts := irtest.HostileTexts()
	all := ""
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		all += texts[name] + "\n"
	}
	module, err := emit.OpenModule(repository)
	require.NoError(t, err)
	files := slices.Collect(maps.Values(rendered(t, describing(all))))
	require.NoError(t, conform.Check(module, files, nil))
	for _, file := range files {
		if strings.HasPrefix(file.Path, "include/") && path.Ext(file.Path) == ".h" {
			compileAlone(t, file)
		}
	}
}

// compileAlone compiles a header as C and as C++, strictly.
func compileAlone(t *testing.T, header emit.File) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "header.h")
	require.NoError(t, os.WriteFile(name, header.Content, 0o600))
	for _, compiler := range [][]string{{"gcc", "-std=c99", "-x", "c"}, {"g++", "-std=c++17", "-x", "c++"}} {
		args := append(compiler[1:], "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-include", name, os.DevNull)
		output, err := exec.Command(compiler[0], args...).CombinedOutput()
		assert.NoError(t, err, "%s\n%s", compiler[0], output)
	}
}

func sameText(t *testing.T, want, got emit.File) {
	t.Helper()
	assert.Equal(t, string(want.Content), string(got.Content))
}

// sameGo compares all but the comments of a Go file, and those comments that tools obey.
func sameGo(t *testing.T, want, got emit.File) {
	t.Helper()
	wantCode, wantOrders := parseGo(t, want)
	gotCode, gotOrders := parseGo(t, got)
	wantCode, gotCode = title.ReplaceAllString(wantCode, ""), title.ReplaceAllString(gotCode, "")
	assert.Equal(t, wantCode, gotCode, want.Path)
	assert.Equal(t, wantOrders, gotOrders, want.Path)
}

// title is a backend's title as a value: one literal, whatever it says.
var title = regexp.MustCompile(`\bTitle: "(?:[^"\\]|\\.)*"`)

// What tools take for an order: a comment without a space, the old form of a constraint, and C code.
var goOrder = regexp.MustCompile(`^//\S|^//\s*\+build|^#include`)

// parseGo returns a file without its comments, and the comments that are orders.
func parseGo(t *testing.T, file emit.File) (code string, orders []string) {
	t.Helper()
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file.Path, file.Content, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	assert.True(t, ast.IsGenerated(parsed), file.Path)
	for _, group := range parsed.Comments {
		for _, comment := range group.List {
			for line := range strings.Lines(comment.Text) {
				if strings.HasPrefix(comment.Text, "/*") || goOrder.MatchString(line) {
					orders = append(orders, line)
				}
			}
		}
	}
	bare, err := parser.ParseFile(files, file.Path, file.Content, parser.SkipObjectResolution)
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, (&printer.Config{}).Fprint(&b, files, bare))
	return strings.Join(strings.Fields(b.String()), " "), orders
}

var (
	cInclude = regexp.MustCompile(`(?m)^#include.*$`)
	cLiteral = regexp.MustCompile(`"(\\.|[^"\\])*"`)
)

// preprocess returns what the C preprocessor makes of all C files: everything but comments. The texts
// of statuses are literals in the guard, so literals are left out.
func preprocess(t *testing.T, files map[string]emit.File) string {
	t.Helper()
	var source strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if ext := path.Ext(name); ext == ".c" || ext == ".h" {
			source.WriteString(cInclude.ReplaceAllString(string(files[name].Content), ""))
		}
	}
	command := exec.Command("gcc", "-std=c99", "-Wall", "-Werror", "-x", "c", "-undef", "-dD", "-E", "-P", "-")
	command.Stdin = strings.NewReader(source.String())
	var stderr strings.Builder
	command.Stderr = &stderr
	output, err := command.Output()
	require.NoError(t, err, "%s", &stderr)
	return cLiteral.ReplaceAllString(string(output), `""`)
}

// samePackage compares a pkg-config file, in which the description is a field.
func samePackage(t *testing.T, want, got emit.File) {
	t.Helper()
	fields := func(file emit.File) []string {
		return slices.DeleteFunc(strings.Split(string(file.Content), "\n"), func(line string) bool {
			return strings.HasPrefix(line, "Description: ")
		})
	}
	assert.Equal(t, fields(want), fields(got))
}

// sameAST is a program that prints which Python files have not the syntax tree of the first, apart
// from docstrings.
const sameAST = `
import ast, json, sys

def tree(name):
    with open(name, encoding="utf-8") as file:
        module = ast.parse(file.read(), name)
    for node in ast.walk(module):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            del node.body[0]
    return ast.dump(module)

want, *others = map(tree, sys.argv[1:])
print(json.dumps([name for name, got in zip(sys.argv[2:], others) if got != want]))
`

const pythonBindings = "python/arenagen/_abi.py"

// assertSamePython compares Python files, by what they are.
func assertSamePython(t *testing.T, files map[string]emit.File) {
	t.Helper()
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		t.Skipf("python3 is needed to parse the bindings: %v", err)
	}
	folder := t.TempDir()
	args := []string{"-W", "error", "-c", sameAST}
	for name, file := range files {
		args = append(args, name)
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), file.Content, 0o600))
	}
	command := exec.Command(interpreter, args...)
	command.Dir = folder
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s", output)
	var different []string
	require.NoError(t, json.Unmarshal(output, &different), "%s", output)
	assert.Empty(t, different)
}
