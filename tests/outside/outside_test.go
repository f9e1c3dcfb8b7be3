// Package outside_test builds a backend that lives in another repository, against a released version of this module.
package outside_test

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/arenagen/arenagen/arena/arenatest"
	"github.com/arenagen/arenagen/arena/vmm"
	"github.com/arenagen/arenagen/backends/sim/simtest"
)

const root = "../.."

// released is the version that this tree is released as, for the test.
var released = module.Version{Path: "github.com/arenagen/arenagen", Version: "v0.999.0"}

// A sourceFile is a file of this module.
type sourceFile struct{ path string }

func (f sourceFile) Path() string                 { return filepath.ToSlash(f.path) }
func (f sourceFile) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join(root, f.path)) }
func (f sourceFile) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(root, f.path)) }

// sources are the files of this module that are not built.
func sources(t *testing.T) []zip.File {
	t.Helper()
	var files []zip.File
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(entry.Name(), ".") || entry.Name() == "__pycache__" || entry.Name() == "node_modules"
		_, other := os.Stat(filepath.Join(file, "go.mod"))
		switch {
		case path == ".":
		case entry.IsDir() && (path == "out" || hidden || other == nil):
			return fs.SkipDir
		case entry.Type().IsRegular() && !hidden:
			files = append(files, sourceFile{path})
		}
		return nil
	})
	require.NoError(t, err)
	return files
}

// proxy makes a module proxy with the one version of this module, and returns its address.
func proxy(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	at := filepath.Join(folder, filepath.FromSlash(released.Path), "@v")
	require.NoError(t, os.MkdirAll(at, 0o777))
	write := func(name string, content []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(at, name), content, 0o600))
	}
	var archive bytes.Buffer
	require.NoError(t, zip.Create(&archive, released, sources(t)))
	write(released.Version+".zip", archive.Bytes())
	requirements, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	write(released.Version+".mod", requirements)
	write(released.Version+".info", []byte(`{"Version":"`+released.Version+`","Time":"`+time.Unix(0, 0).UTC().Format(time.RFC3339)+`"}`))
	write("list", []byte(released.Version+"\n"))
	return "file://" + folder
}

// A project is a module of somebody's.
type project struct {
	t           *testing.T
	folder      string
	environment []string
}

// newProject makes a folder in which the go command finds this module at its address only.
func newProject(t *testing.T, proxy string) project {
	t.Helper()
	output, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	require.NoError(t, err)
	settings := strings.Split(strings.TrimSpace(string(output)), "\n")
	// What the other modules are: as they were fetched for this one, or as this machine gets them.
	proxies := []string{proxy, "file://" + filepath.Join(settings[0], "cache", "download"), settings[1]}
	return project{t, t.TempDir(), append(os.Environ(),
		"GOPROXY="+strings.Join(proxies, ","), "GOMODCACHE="+t.TempDir(),
		"GOSUMDB=off", "GOFLAGS=-modcacherw", "GOWORK=off", "GOTOOLCHAIN=local", "GOPRIVATE=",
	)}
}

// try runs a program in the folder. It returns what it wrote, the errors in front.
func (p project) try(name string, args ...string) (string, error) {
	p.t.Helper()
	command := exec.Command(name, args...)
	command.Dir, command.Env = p.folder, slices.Concat(p.environment, []string{"PWD=" + p.folder})
	var output, complaints bytes.Buffer
	command.Stdout, command.Stderr = &output, &complaints
	err := command.Run()
	return complaints.String() + output.String(), err
}

// run is try for what has to succeed.
func (p project) run(name string, args ...string) string {
	p.t.Helper()
	output, err := p.try(name, args...)
	require.NoError(p.t, err, "%s %v\n%s", name, args, output)
	return output
}

// write writes a file of the project.
func (p project) write(name, content string) {
	p.t.Helper()
	file := filepath.Join(p.folder, filepath.FromSlash(name))
	require.NoError(p.t, os.MkdirAll(filepath.Dir(file), 0o777))
	require.NoError(p.t, os.WriteFile(file, []byte(content), 0o600))
}

// edit replaces a text that a file of the project has once.
func (p project) edit(name, before, after string) {
	p.t.Helper()
	content, err := os.ReadFile(filepath.Join(p.folder, filepath.FromSlash(name)))
	require.NoError(p.t, err)
	require.Equal(p.t, 1, strings.Count(string(content), before), before)
	p.write(name, strings.Replace(string(content), before, after, 1))
}

// generate is the command line that generates the project's backends.
func generate(more ...string) []string {
	return slices.Concat([]string{"tool", "arenagen", "generate", "--spec", "drivers", "--out", "gpu", "--module", "example.com/acme/gpus"}, more)
}

const conformance = `package acme_test

import (
	"testing"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/arenatest"
	"github.com/arenagen/arenagen/backends/sim/simtest"

	"example.com/acme/gpus/gpu/acme"
)

func TestConformance(t *testing.T) {
	driver := simtest.Load(t, simtest.Compile(t, "sim/zz_generated_acme.c"))
	t.Setenv(acme.Override, driver.File)
	arenatest.Run(t, &arenatest.InProcess{
		Open:   func(device int) (arena.Backend, error) { return acme.Open(device, acme.Options{}) },
		Needs:  append(arenatest.NeedsOf(acme.Abilities()), "memory", "faults"),
		Driver: driver,
	})
}
`

const program = `package main

import (
	"fmt"
	"log"

	"github.com/arenagen/arenagen/arena"

	"example.com/acme/gpus/gpu/acme"
)

func main() {
	device, err := acme.Open(0, acme.Options{})
	if err != nil {
		log.Fatal(err)
	}
	weights, err := arena.New(device, arena.Config{Total: 64 << 20})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := weights.Malloc(10 << 20); err != nil {
		log.Fatal(err)
	}
	base, length := weights.RegisteredRange()
	fmt.Println(acme.Backend, base == weights.Base(), length)
	if err := weights.Release(); err != nil {
		log.Fatal(err)
	}
}
`

// TestOutside makes a backend in another module, from a starting file to a library.
func TestOutside(t *testing.T) {
	p := newProject(t, proxy(t))
	p.run("go", "mod", "init", "example.com/acme/gpus")
	p.run("go", "get", "-tool", released.Path+"/gen/cmd/arenagen@"+released.Version)
	assert.Equal(t, "wrote drivers/acme.yaml\n", p.run("go", "tool", "arenagen", "new", "acme", "--from", "cuda", "--spec", "drivers"))
	assert.Empty(t, p.run("go", "tool", "arenagen", "validate", "--spec", "drivers"))
	p.edit("drivers/acme.yaml", "\ntitle: acme\n", "\ntitle: Acme's devices\n")

	written := p.run("go", generate()...)
	for _, file := range []string{
		"zz_generated_driver.go", "libarenagen_acme/zz_generated_exports.go", "libarenagen_acme/exports.map", "sim/zz_generated_acme.c", "reference.md",
	} {
		assert.Contains(t, written, "wrote gpu/acme/"+file+"\n")
	}
	for line := range strings.Lines(written) {
		assert.True(t, strings.HasPrefix(line, "wrote gpu/acme/"), line)
	}
	assert.Empty(t, p.run("go", generate()...), "a second run changes nothing")
	assert.Empty(t, p.run("go", generate("--check")...))

	p.write("gpu/acme/acme_test.go", conformance)
	p.write("main.go", program)
	p.run("go", "mod", "tidy")
	p.run("go", "vet", "./...")
	assert.Empty(t, p.run("go", generate("--check")...))
	tests := p.run("go", "test", "-v", "./gpu/acme")
	assert.Contains(t, tests, "--- PASS: TestConformance/7_drain/a_free_waits_for_the_stream_that_malloc_was_told")
	assert.NotContains(t, tests, "SKIP")

	simulator := simtest.Compile(t, filepath.Join(p.folder, "gpu/acme/sim/zz_generated_acme.c"))
	used := p
	used.environment = slices.Concat(p.environment, []string{"ARENAGEN_ACME_LIBRARY=" + simulator})
	assert.Equal(t, "acme true 10485760\n", used.run("go", "run", "."))
	used.environment = append(used.environment, "CGO_ENABLED=0")
	assert.Equal(t, "acme true 10485760\n", used.run("go", "run", "."))
	output, err := p.try("go", "run", ".")
	require.Error(t, err)
	assert.Contains(t, output, "acme: open: unavailable: ", "there is no driver")
	assert.Contains(t, output, "ARENAGEN_ACME_LIBRARY can name another file")

	library := filepath.Join(p.folder, "libarenagen_acme.so")
	script := "-Wl,--version-script=" + filepath.Join(p.folder, "gpu/acme/libarenagen_acme/exports.map")
	p.run("env", "CGO_ENABLED=1", "go", "build", "-buildmode=c-shared", "-ldflags=-extldflags '"+script+"'", "-o", library, "./gpu/acme/libarenagen_acme")
	arenatest.Run(t, &arenatest.Hosted{
		Program: arenatest.CompileHost(t, filepath.Join(root, "include")), Library: library, Simulator: simulator,
		Env:   []string{"ARENAGEN_ACME_LIBRARY=" + simulator},
		Needs: append(arenatest.NeedsOf(vmm.Abilities{Capabilities: vmm.Capabilities{ReleaseWhileMapped: true}}), "memory", "faults"),
	})

	python := used
	python.environment = slices.Concat(used.environment, []string{"PYTHONPATH=" + absolute(t, "python"), "PYTHONDONTWRITEBYTECODE=1", "ARENAGEN_LIBRARY=" + library})
	assert.Equal(t, "acme 2097152\n", python.run("python3", "-c", `import arenagen
with arenagen.Arena("acme", total=64 << 20) as arena:
    arena.malloc(4096)
    print(arena.backend, arena.registered_range()[1])
`))

	checkLacking(used)
}

// absolute is the full name of a file of this module.
func absolute(t *testing.T, name string) string {
	t.Helper()
	full, err := filepath.Abs(filepath.Join(root, name))
	require.NoError(t, err)
	return full
}

// lacking asks for something that the driver may lack.
const lacking = `package main

import (
	"errors"
	"fmt"
	"log"

	"github.com/arenagen/arenagen/arena/vmm"

	"example.com/acme/gpus/gpu/acme"
)

func main() {
	device, err := acme.Open(0, acme.Options{})
	if err != nil {
		log.Fatal(err)
	}
	_, err = device.Driver().ExportDmabuf(0, 0, false)
	fmt.Println(acme.Abilities().Does(vmm.OpExportDmabuf), errors.Is(err, vmm.ClassNotSupported), err)
}
`

// checkLacking adds the one line that says what a driver lacks: what is generated changes, and nothing else has to.
func checkLacking(p project) {
	p.t.Helper()
	p.write("lacking/main.go", lacking)
	assert.Regexp(p.t, `^true false `, p.run("go", "run", "./lacking"))

	p.edit("drivers/acme.yaml", "\nresult:\n", "\nunsupported: [export_dmabuf, exchange_capture_mode]\nresult:\n")
	for line := range strings.Lines(p.run("go", generate()...)) {
		assert.Regexp(p.t, `^wrote gpu/acme/(zz_generated_\w+\.go|sim/zz_generated_acme\.c|check/zz_generated_acme\.c|reference\.md)$`, strings.TrimSpace(line))
	}
	assert.Equal(p.t, "false true acme: export_dmabuf: not supported: no function of the driver does this\n", p.run("go", "run", "./lacking"))
	assert.Contains(p.t, p.run("go", "test", "-v", "./gpu/acme"), "--- PASS: TestConformance/")
}

// TestRefusals are what goes wrong on the way, and what is said then.
func TestRefusals(t *testing.T) {
	served := proxy(t)
	begin := func(t *testing.T) project {
		t.Helper()
		p := newProject(t, served)
		p.run("go", "mod", "init", "example.com/acme/gpus")
		p.run("go", "get", "-tool", released.Path+"/gen/cmd/arenagen@"+released.Version)
		p.run("go", "tool", "arenagen", "new", "acme", "--from", "hip", "--spec", "drivers")
		return p
	}
	p := begin(t)
	binary := filepath.Join(t.TempDir(), "arenagen")
	p.run("go", "build", "-o", binary, released.Path+"/gen/cmd/arenagen")
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"another module":        {[]string{"generate", "--spec", "drivers", "--out", "gpu", "--module", "example.com/other"}, "go.mod is of module example.com/acme/gpus"},
		"no folder for outputs": {[]string{"generate", "--spec", "drivers"}, "missing [out]"},
		"no folder of specs":    {[]string{"generate", "--spec", "driver", "--out", "gpu"}, "open driver: no such file"},
		"no specs":              {[]string{"validate", "--spec", t.TempDir()}, "there is no backend, expected at least one .yaml file"},
		"a module alone":        {[]string{"generate", "--module", "example.com/acme/gpus"}, "name their folders with --spec and --out"},
		"two projects":          {[]string{"generate", "--root", ".", "--spec", "drivers", "--out", "gpu"}, "one of them is expected"},
		"outputs elsewhere":     {[]string{"generate", "--spec", "drivers", "--out", t.TempDir()}, "there is no go.mod in"},
		"a name that is taken":  {[]string{"new", "acme", "--from", "hip", "--spec", "drivers"}, "exists"},
		"a name that is none":   {[]string{"new", "Acme-2", "--spec", "drivers"}, "expected a Go package name"},
		"a word of Go's":        {[]string{"new", "func", "--spec", "drivers"}, "func"},
		"nothing to begin from": {[]string{"new", "other", "--from", "hipp", "--spec", "drivers"}, `did you mean "hip"`},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := p.try(binary, tc.args...)
			require.Error(t, err)
			assert.Contains(t, output, tc.says)
			assert.Equal(t, []string{"acme.yaml"}, namesIn(t, filepath.Join(p.folder, "drivers")))
			assert.NoDirExists(t, filepath.Join(p.folder, "gpu"))
		})
	}

	t.Run("a mistake in the file", func(t *testing.T) {
		p.edit("drivers/acme.yaml", "\n    does: export_dmabuf\n", "\n    does: export_dmabfu\n")
		for _, args := range [][]string{
			{"generate", "--spec", "drivers", "--out", "gpu"}, {"generate", "--check", "--spec", "drivers", "--out", "gpu"}, {"validate", "--spec", "drivers"},
		} {
			output, err := p.try(binary, args...)
			require.Error(t, err)
			assert.Regexp(t, `drivers/acme\.yaml:\d+:\d+: `, output)
			assert.Contains(t, output, `"export_dmabfu"`)
			assert.Contains(t, output, "did you mean")
			assert.NoDirExists(t, filepath.Join(p.folder, "gpu"))
		}
		p.edit("drivers/acme.yaml", "\n    does: export_dmabfu\n", "\n    does: export_dmabuf\n")
	})

	t.Run("a module that does not require this one", func(t *testing.T) {
		p.write("go.mod", "module example.com/acme/gpus\n\ngo 1.26\n")
		output, err := p.try(binary, "generate", "--spec", "drivers", "--out", "gpu")
		require.Error(t, err)
		assert.Contains(t, output, "run `go get "+released.Path+"@latest`")
		assert.NoDirExists(t, filepath.Join(p.folder, "gpu"))
	})
}

func namesIn(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// What is committed stays: files of the module's own are nobody's orphans, and the folder's old outputs are.
func TestOrphans(t *testing.T) {
	p := newProject(t, proxy(t))
	p.run("go", "mod", "init", "example.com/acme/gpus")
	p.run("go", "get", "-tool", released.Path+"/gen/cmd/arenagen@"+released.Version)
	p.run("go", "tool", "arenagen", "new", "acme", "--from", "musa", "--spec", "drivers")
	const stale = "// Code generated by arenagen from drivers/old.yaml; DO NOT EDIT.\n\npackage old\n"
	p.write("gpu/old/zz_generated_driver.go", stale)
	p.write("elsewhere/zz_generated_driver.go", stale)
	p.write("gpu/acme/own.go", "package acme\n")
	output := p.run("go", generate()...)
	assert.Contains(t, output, "removed gpu/old/zz_generated_driver.go\n")
	assert.NotContains(t, output, "elsewhere")
	assert.FileExists(t, filepath.Join(p.folder, "elsewhere/zz_generated_driver.go"))
	assert.FileExists(t, filepath.Join(p.folder, "gpu/acme/own.go"))
}
