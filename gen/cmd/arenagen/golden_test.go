package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/aymanbagabas/go-udiff"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/gogen"
	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/textgen"
)

var update = flag.Bool("update", false, "write what the specs of the golden cases give into want/")

// TestGoldenOutputs compares all that is rendered from the specs of each case ok_*.txtar with what
// is committed in it.
func TestGoldenOutputs(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(repository, "gen/testdata/ok_*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			require.NoError(t, err)
			golden := withOutputs(t, archive)
			if *update {
				require.NoError(t, os.WriteFile(name, txtar.Format(golden), 0o644))
				return
			}
			want, got := contents(archive), contents(golden)
			for file := range want {
				assert.Contains(t, got, file, "it is not rendered any more")
			}
			for file, content := range got {
				assert.Empty(t, udiff.Unified(file, file+" as rendered", want[file], content))
			}
		})
	}
}

// withOutputs is a case with what its specs give.
func withOutputs(t *testing.T, archive *txtar.Archive) *txtar.Archive {
	t.Helper()
	golden := &txtar.Archive{Comment: archive.Comment}
	specs := fstest.MapFS{}
	for _, file := range archive.Files {
		if strings.HasPrefix(file.Name, "spec/") {
			golden.Files = append(golden.Files, file)
			specs[file.Name] = &fstest.MapFile{Data: file.Data}
		}
	}
	model, err := ir.LoadFS(specs, ir.Project)
	require.NoError(t, err)
	module, err := emit.OpenModule(repository)
	require.NoError(t, err)
	outputs, err := module.Prepare(append(gogen.Files(model), textgen.Files(model)...))
	require.NoError(t, err)
	for _, output := range outputs {
		golden.Files = append(golden.Files, txtar.File{Name: "want/" + output.Path, Data: output.Content})
	}
	return golden
}

// contents are the files of an archive by their names.
func contents(archive *txtar.Archive) map[string]string {
	all := map[string]string{}
	for _, file := range archive.Files {
		all[file.Name] = string(file.Data)
	}
	return all
}
