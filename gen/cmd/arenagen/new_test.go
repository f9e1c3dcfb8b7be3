package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/gen/internal/ir"
)

// driversOfLibraries are the backends that are the driver of a library, whose files one can begin as.
func driversOfLibraries(t *testing.T) []string {
	t.Helper()
	model, err := ir.LoadFS(os.DirFS(repository), ir.Project)
	require.NoError(t, err)
	var names []string
	for _, b := range model.Backends {
		if b.Library != nil {
			names = append(names, b.Name)
		}
	}
	require.NotEmpty(t, names)
	return names
}

// TestNew begins a backend as each of those that are there, in a module of its own and in this project.
func TestNew(t *testing.T) {
	for _, from := range driversOfLibraries(t) {
		t.Run(from, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "drivers")
			file := filepath.Join(folder, "acme.yaml")
			require.Equal(t, result{code: 0, stdout: "wrote " + file + "\n"}, runWith(generator{}, "new", "acme", "--from", from, "--spec", folder))
			assert.Equal(t, result{code: 0}, runWith(generator{}, "validate", "--spec", folder), "what was written has no mistake")

			content, err := os.ReadFile(file)
			require.NoError(t, err)
			text := string(content)
			assert.True(t, strings.HasPrefix(text, "# yaml-language-server: $schema=https://"), text[:100])
			assert.Contains(t, text, "\nbackend: acme\n")
			assert.Contains(t, text, "\n  linux: [libacme.so.1, libacme.so]")
			assert.Contains(t, text, " ARENAGEN_ACME_LIBRARY\n")
			lines := strings.Split(text, "\n")
			for i, line := range lines {
				if regexp.MustCompile(`^(\w+:|  - \{?name: \w+.*does|  - name:)`).MatchString(line) {
					assert.Regexp(t, `^ *# .`, lines[i-1], "line %d has no comment: %s", i+1, line)
				}
			}

			root := newTree(t, map[string]string{"spec/backends/x.yaml": ""})
			require.Zero(t, runWith(generator{}, "new", "acme", "--from", from, "--root", root).code)
			here, err := os.ReadFile(filepath.Join(root, "spec/backends/acme.yaml"))
			require.NoError(t, err)
			first, rest, _ := strings.Cut(string(here), "\n")
			assert.Equal(t, "# yaml-language-server: $schema=../backend.schema.json", first)
			_, elsewhere, _ := strings.Cut(text, "\n")
			assert.Equal(t, elsewhere, rest)
		})
	}
}

// What is refused writes nothing, and writes over nothing.
func TestNew_refuses(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		says string
	}{
		"no name":               {nil, "accepts 1 arg(s), received 0"},
		"two names":             {[]string{"a", "b"}, "accepts 1 arg(s), received 2"},
		"a path":                {[]string{"../acme"}, `"../acme" cannot be the name of a backend`},
		"nothing":               {[]string{""}, `"" cannot be the name of a backend`},
		"upper case":            {[]string{"Acme"}, `"Acme" cannot be the name of a backend`},
		"a word of Go":          {[]string{"range"}, `"range" cannot be the name of a backend: `},
		"what Go has":           {[]string{"string"}, `"string" cannot be the name of a backend: `},
		"what code has":         {[]string{"options"}, `"options" cannot be the name of a backend: `},
		"a page":                {[]string{"abi"}, `"abi" cannot be the name of a backend: `},
		"a folder":              {[]string{"sim"}, `"sim" cannot be the name of a backend: `},
		"a word of YAML":        {[]string{"true"}, `"true" cannot be the name of a backend: `},
		"one that is there":     {[]string{"taken"}, "file exists"},
		"a backend that is not": {[]string{"acme", "--from", "cudda"}, `there is no such backend; did you mean "cuda"?`},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			write(t, filepath.Join(folder, "taken.yaml"), "mine")
			before := snapshot(t, folder)
			got := runWith(generator{}, append([]string{"new", "--spec", folder}, test.args...)...)
			assert.NotZero(t, got.code)
			assert.Empty(t, got.stdout)
			assert.Contains(t, got.stderr, test.says)
			assert.Equal(t, before, snapshot(t, folder))
		})
	}
}

// What another module needs before its backends can be generated. tests/outside generates and builds some.
func TestGenerate_outside(t *testing.T) {
	root := t.TempDir()
	drivers, out := filepath.Join(root, "drivers"), filepath.Join(root, "gpu")
	args := []string{"generate", "--spec", drivers, "--out", out}
	require.Zero(t, runWith(generator{}, "new", "acme", "--spec", drivers).code)

	got := runWith(generator{}, args...)
	assert.Contains(t, got.stderr, "there is no go.mod in "+out+" or above it")
	assert.Contains(t, got.stderr, "go mod init MODULE")
	write(t, filepath.Join(root, "go.mod"), "module example.com/gpus\n\ngo 1.26.0\n")
	got = runWith(generator{}, args...)
	assert.Contains(t, got.stderr, "go.mod does not require "+ir.ModulePath)
	got = runWith(generator{}, append(args, "--module", "example.com/cpus")...)
	assert.Contains(t, got.stderr, "--module example.com/cpus: "+filepath.Join(root, "go.mod")+" is of module example.com/gpus")
	for _, folder := range []string{"_gpu", ".gpu", "testdata", "vendor", "my gpus", "gpu/a'b"} {
		got = runWith(generator{}, "generate", "--spec", drivers, "--out", filepath.Join(root, folder))
		assert.NotZero(t, got.code)
		assert.Contains(t, got.stderr, "--out "+filepath.Join(root, folder)+": ")
	}
	require.NoError(t, syscall.Mkfifo(filepath.Join(drivers, "pipe.yaml"), 0o600))
	got = runWith(generator{}, args...)
	assert.Contains(t, got.stderr, "pipe.yaml: it is no regular file")
	require.NoError(t, os.Remove(filepath.Join(drivers, "pipe.yaml")))
	assert.NoDirExists(t, out, "a refusal writes nothing")

	var dump bytes.Buffer
	require.Zero(t, run(append(args, "--dump-model"), &dump, &dump), dump.String())
	assert.Contains(t, dump.String(), `"Name": "acme"`)
}
