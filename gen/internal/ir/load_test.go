package ir_test

import (
	"encoding/json"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

var update = flag.Bool("update", false, "write what the specs of testdata give into want/")

// testdata is where the golden cases are.
const testdata = "../../testdata"

// tiny returns the files of the smallest specs that load.
func tiny(tb testing.TB) fstest.MapFS {
	tb.Helper()
	archive, err := txtar.ParseFile(filepath.Join(testdata, "tiny.txtar"))
	require.NoError(tb, err)
	return overlay(fstest.MapFS{}, archive)
}

// overlay puts the specs of an archive over files.
func overlay(files fstest.MapFS, archive *txtar.Archive) fstest.MapFS {
	for _, f := range archive.Files {
		if strings.HasPrefix(f.Name, "spec/") {
			files[f.Name] = &fstest.MapFile{Data: f.Data}
		}
	}
	return files
}

// mistakes loads specs that are wrong and returns a line for each mistake.
func mistakes(tb testing.TB, fsys fs.FS) string {
	tb.Helper()
	model, err := ir.LoadFS(fsys, ir.Project)
	var wrong *diag.Error
	require.ErrorAs(tb, err, &wrong)
	assert.Nil(tb, model)
	return err.Error() + "\n"
}

// compareGolden compares the golden part of a case with what its specs give, or writes it.
func compareGolden(t *testing.T, name string, archive *txtar.Archive, golden, got string) {
	t.Helper()
	i := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == golden })
	if *update {
		if i < 0 {
			i = len(archive.Files)
			archive.Files = append(archive.Files, txtar.File{Name: golden})
		}
		archive.Files[i].Data = []byte(got)
		require.NoError(t, os.WriteFile(name, txtar.Format(archive), 0o644))
		return
	}
	require.GreaterOrEqual(t, i, 0, "%s has no %s", name, golden)
	assert.Equal(t, string(archive.Files[i].Data), got)
}

func TestLoadTheRealSpecs(t *testing.T) {
	model, err := ir.Load("../../..")
	require.NoError(t, err)
	assert.Equal(t, "arenagen", model.ABI.Name)
	assert.Equal(t, "vmm", model.Contract.Name)
	assert.NotEmpty(t, model.Backends)
}

func TestLoadTinySpecs(t *testing.T) {
	_, err := ir.LoadFS(tiny(t), ir.Project)
	require.NoError(t, err)
}

// TestModel resolves specs with one of everything and compares the whole model.
func TestModel(t *testing.T) {
	name := filepath.Join(testdata, "model.txtar")
	archive, err := txtar.ParseFile(name)
	require.NoError(t, err)
	model, err := ir.LoadFS(overlay(fstest.MapFS{}, archive), ir.Project)
	require.NoError(t, err)
	compareGolden(t, name, archive, "want/model.json", dump(t, model))
}

// dump writes the model as --dump-model does.
func dump(tb testing.TB, model *ir.Model) string {
	tb.Helper()
	text, err := json.MarshalIndent(model, "", "  ")
	require.NoError(tb, err)
	return string(text) + "\n"
}

// TestLibrary resolves a backend with a library that has one of everything.
func TestLibrary(t *testing.T) {
	name := filepath.Join(testdata, "library.txtar")
	archive, err := txtar.ParseFile(name)
	require.NoError(t, err)
	model, err := ir.LoadFS(overlay(tiny(t), archive), ir.Project)
	require.NoError(t, err)
	compareGolden(t, name, archive, "want/backends.json", dump(t, &ir.Model{Backends: model.Backends}))
}

// TestMistakes loads each wrong spec of testdata and compares what is said about it.
func TestMistakes(t *testing.T) {
	cases, err := filepath.Glob(filepath.Join(testdata, "err_*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, cases)
	for _, name := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			require.NoError(t, err)
			got := mistakes(t, overlay(tiny(t), archive))
			compareGolden(t, name, archive, "want/errors.txt", got)
		})
	}
}

// TestUnreadableText has what a txtar archive cannot hold, or would hold at length.
func TestUnreadableText(t *testing.T) {
	const head = "abi: tiny\n"
	tests := []struct {
		name string
		text string
		want string
	}{
		{"byte order mark", "\ufeff" + head, "spec/abi.yaml:1:1: the character U+FEFF is not allowed, expected plain UTF-8 text\n"},
		{"UTF-16", "\xff\xfea\x00", "spec/abi.yaml:1:1: the byte 0xff is not UTF-8\n"},
		{"Latin-1", head + "# caf\xe9\n", "spec/abi.yaml:2:6: the byte 0xe9 is not UTF-8\n"},
		{"cut character", head + "# \xe2\x82", "spec/abi.yaml:2:3: the byte 0xe2 is not UTF-8\n"},
		{"control character", head + "# é \x07\n", "spec/abi.yaml:2:5: the character U+0007 is not allowed, expected plain UTF-8 text\n"},
		{"zero byte", "\x00", "spec/abi.yaml:1:1: the character U+0000 is not allowed, expected plain UTF-8 text\n"},
		{"carriage return", "abi: tiny\r\n", "spec/abi.yaml:1:10: the character U+000D is not allowed, expected plain UTF-8 text\n"},
		{"next line", head + "#\u0085\n", "spec/abi.yaml:2:2: the character U+0085 is not allowed, expected plain UTF-8 text\n"},
		{"line separator", head + "#\u2028\n", "spec/abi.yaml:2:2: the character U+2028 is not allowed, expected plain UTF-8 text\n"},
		{"right to left", head + "# \u202e\n", "spec/abi.yaml:2:3: the character U+202E is not allowed, expected plain UTF-8 text\n"},
		{"no character", head + "# \ufffe\n", "spec/abi.yaml:2:3: the character U+FFFE is not allowed, expected plain UTF-8 text\n"},
		{"large file", strings.Repeat("#", specfile.MaxFileSize+1), "spec/abi.yaml:1:1: the file is larger than 1048576 bytes\n"},
		{"deep flow", "a: " + strings.Repeat("[", 17), "spec/abi.yaml:1:20: YAML syntax: nested deeper than 16 levels\n"},
		{"deep block", strings.Repeat("- ", 18) + "a\n", "spec/abi.yaml:1:33: YAML syntax: nested deeper than 16 levels\n"},
		{"endless flow", strings.Repeat("{a: ", 200_000), "spec/abi.yaml:1:65: YAML syntax: nested deeper than 16 levels\n\tspec/abi.yaml:1:62: while increasing flow level\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := tiny(t)
			files["spec/abi.yaml"].Data = []byte(tt.text)
			assert.Equal(t, tt.want, mistakes(t, files))
		})
	}
}

func TestLongText(t *testing.T) {
	tests := []struct {
		name  string
		bytes int
		want  string
	}{
		{"longest", 65536, ""},
		{"too long", 65537, "spec/abi.yaml:2:14: a value of 65537 bytes, expected at most 65536"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := tiny(t)
			abi := string(files["spec/abi.yaml"].Data)
			abi = strings.Replace(abi, "A tiny interface.", strings.Repeat("a", tt.bytes), 1)
			files["spec/abi.yaml"].Data = []byte(abi)
			_, err := ir.LoadFS(files, ir.Project)
			if tt.want == "" {
				assert.NoError(t, err)
			} else {
				assert.EqualError(t, err, tt.want)
			}
		})
	}
}

func TestLargestFile(t *testing.T) {
	files := tiny(t)
	abi := files["spec/abi.yaml"]
	abi.Data = append(abi.Data, strings.Repeat("#", specfile.MaxFileSize-len(abi.Data))...)
	_, err := ir.LoadFS(files, ir.Project)
	assert.NoError(t, err)
}

// TestManyMistakes has files in which next to everything is wrong: what is said about them is bounded.
func TestManyMistakes(t *testing.T) {
	tests := map[string]string{
		"keys":    "a: 1\n",
		"aliases": "? &a a\n: *a\n",
		"entries": "functions: [~, ~, ~]\n",
	}
	for name, line := range tests {
		t.Run(name, func(t *testing.T) {
			files := tiny(t)
			files["spec/abi.yaml"].Data = []byte(strings.Repeat(line, 10*diag.MaxMistakes))
			_, err := ir.LoadFS(files, ir.Project)
			var wrong *diag.Error
			require.ErrorAs(t, err, &wrong)
			assert.LessOrEqual(t, len(wrong.Diagnostics), diag.MaxMistakes)
			assert.Positive(t, wrong.More)
		})
	}
}

// TestUnreadableFiles tells mistakes in specs from files that cannot be read.
func TestUnreadableFiles(t *testing.T) {
	for _, name := range []string{"spec/abi.yaml", "spec/vmm.yaml"} {
		t.Run(name+" is missing", func(t *testing.T) {
			files := tiny(t)
			delete(files, name)
			_, err := ir.LoadFS(files, ir.Project)
			require.ErrorIs(t, err, fs.ErrNotExist)
			assert.ErrorContains(t, err, name)
		})
	}
	t.Run("a folder has the name of a file", func(t *testing.T) {
		files := tiny(t)
		files["spec/backends/cuda.yaml/x"] = &fstest.MapFile{}
		_, err := ir.LoadFS(files, ir.Project)
		var wrong *diag.Error
		require.Error(t, err)
		assert.NotErrorAs(t, err, &wrong)
		assert.ErrorContains(t, err, "spec/backends/cuda.yaml")
	})
	t.Run("nothing is there", func(t *testing.T) {
		root := t.TempDir()
		_, err := ir.Load(root)
		require.ErrorIs(t, err, fs.ErrNotExist)
		assert.ErrorContains(t, err, root)
	})
}

func TestNoBackend(t *testing.T) {
	files := tiny(t)
	delete(files, "spec/backends/stub.yaml")
	files["spec/backends/README.md"] = &fstest.MapFile{}
	assert.Equal(t, "spec/backends: there is no backend, expected at least one .yaml file\n", mistakes(t, files))
}

// TestMistakesOfARealFolder sees that positions are relative to the root.
func TestMistakesOfARealFolder(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.CopyFS(root, tiny(t)))
	require.NoError(t, os.WriteFile(filepath.Join(root, "spec", "vmm.yaml"), nil, 0o644))
	_, err := ir.Load(root)
	var wrong *diag.Error
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, "spec/vmm.yaml:1:1: the file is empty, expected a mapping", err.Error())
}

// FuzzLoad loads any text as each of the three kinds of file, beside the smallest specs and beside
// the real contract: it gives a model or mistakes with positions in the specs, and never anything else.
func FuzzLoad(f *testing.F) {
	cases, err := filepath.Glob(filepath.Join(testdata, "*.txtar"))
	require.NoError(f, err)
	for _, name := range cases {
		archive, err := txtar.ParseFile(name)
		require.NoError(f, err)
		for _, file := range archive.Files {
			if strings.HasPrefix(file.Name, "spec/") {
				f.Add(file.Data)
			}
		}
	}
	smallest, full := tiny(f), drivers(f)
	for _, file := range full {
		f.Add(file.Data)
	}
	contract := fstest.MapFS{"spec/abi.yaml": smallest["spec/abi.yaml"], "spec/vmm.yaml": full["spec/vmm.yaml"]}
	f.Fuzz(func(t *testing.T, text []byte) {
		for name := range smallest {
			requireModelOrMistakes(t, smallest, name, text)
		}
		requireModelOrMistakes(t, contract, "spec/backends/cuda.yaml", text)
	})
}

// requireModelOrMistakes loads specs in which one file has another text.
func requireModelOrMistakes(t *testing.T, files fstest.MapFS, name string, text []byte) {
	t.Helper()
	files = maps.Clone(files)
	files[name] = &fstest.MapFile{Data: text}
	model, err := ir.LoadFS(files, ir.Project)
	if err == nil {
		require.NotNil(t, model)
		return
	}
	var wrong *diag.Error
	require.ErrorAs(t, err, &wrong)
	require.NotEmpty(t, wrong.Diagnostics)
	for _, d := range wrong.Diagnostics {
		require.Contains(t, files, d.Pos.File)
		require.Positive(t, d.Pos.Line)
		require.Positive(t, d.Pos.Column)
	}
}
