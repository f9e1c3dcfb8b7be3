package language

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// page renders the manual of the project from what is committed.
func page(t *testing.T, outputs ...emit.File) string {
	t.Helper()
	files, err := Manual(os.DirFS(root), outputs)
	require.NoError(t, err)
	require.Len(t, files, 1)
	assert.Equal(t, "spec/SPEC.md", files[0].Path)
	assert.True(t, emit.HasHeader(files[0].Content))
	return string(files[0].Content)
}

func TestManualSaysAllOfTheLanguage(t *testing.T) {
	text := page(t)
	for _, k := range kinds() {
		assert.Contains(t, text, k.Files)
		walk(k.Schema, func(s specfile.Schema) {
			for key := range s.Properties {
				assert.Contains(t, text, "| `"+key+"` |")
			}
			for _, word := range s.Enum {
				assert.Contains(t, text, "`"+word+"`")
			}
		})
	}
	for _, said := range forms {
		assert.Contains(t, text, "| "+said+" |", "there is no example")
	}
}

// TestManualListsTheBuiltInTypes takes their names from what the loader says about an unknown one.
func TestManualListsTheBuiltInTypes(t *testing.T) {
	specs := fstest.MapFS{
		"spec/abi.yaml": {Data: []byte(`
abi: x
description: D.
version: {major: 1, minor: 0}
release: 0.1.0
enums: [{name: status, description: D., values: [{name: ok, value: 0, description: D.}]}]
functions: [{name: f, since: "1.0", answer: c, description: D., returns: unheard_of}]
`)},
		"spec/vmm.yaml": {Data: []byte(`
contract: x
description: D.
classes: [{name: unknown, description: D.}]
operations: [{name: open, opens: true, description: D.}]
`)},
		"spec/backends/x.yaml": {Data: []byte(`
backend: x
title: T.
description: D.
implements: x
library: {linux: [libx.so], override: X}
header: {include: x.h}
types: {result: {kind: enum}}
result: {type: result, ok: 0, codes: [{name: X, value: 1, class: unknown}]}
functions: [{name: f, params: [{name: p, type: unheard_of, role: in}]}]
`)},
	}
	_, err := ir.LoadFS(specs, ir.Project)
	lists := regexp.MustCompile(`unknown type "unheard_of", expected one of (.*)`).FindAllStringSubmatch(err.Error(), -1)
	require.Len(t, lists, 2, err)
	text := page(t)
	declared := []string{"status", "result"}
	for _, list := range lists {
		for _, name := range strings.Split(list[1], ", ") {
			if !slices.Contains(declared, name) {
				assert.Regexp(t, "\n\\| [^|]*`"+regexp.QuoteMeta(name)+"`[^|]*\\|", text)
			}
		}
	}
}

func TestManualIsPlain(t *testing.T) {
	text := page(t)
	assert.NotContains(t, text, "\n\n\n")
	assert.NotContains(t, text, "<no value>")
	assert.Zero(t, strings.Count(text, "```")%2)
	assert.Equal(t, text, page(t), "it is the same each time")
}

// TestManualQuotesOutputs sees that an output is quoted as it will be, not as it lies there.
func TestManualQuotesOutputs(t *testing.T) {
	changed := emit.File{Path: "include/arenagen.h"}
	content, err := os.ReadFile(root + "/" + changed.Path)
	require.NoError(t, err)
	changed.Content = []byte(strings.ReplaceAll(string(content), "typedef uint64_t arenagen_arena;", "typedef uint64_t arenagen_arena; /* new */"))
	assert.NotContains(t, page(t), "/* new */")
	assert.Contains(t, page(t, changed), "typedef uint64_t arenagen_arena; /* new */")
}

func TestManualNamesTheExampleThatIsGone(t *testing.T) {
	_, err := Manual(fstest.MapFS{}, nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	assert.Regexp(t, `^the manual: template: manual\.tmpl:\d+:\d+: .*spec/vmm\.yaml`, err)

	_, err = Manual(os.DirFS(root), []emit.File{{Path: "include/arenagen.h"}})
	assert.ErrorContains(t, err, `include/arenagen.h: no line begins with "typedef uint64_t arenagen_arena;"`)

	_, err = Manual(os.DirFS(root), []emit.File{{Path: "gen/testdata/err_manual.txtar"}})
	assert.ErrorContains(t, err, "gen/testdata/err_manual.txtar has no file spec/backends/stub.yaml")
}

func TestJoin(t *testing.T) {
	assert.Equal(t, "a\nb", join([]string{"a", "b"}))
	assert.Equal(t, "a\nb\n\nc", join([]string{"a\nb", "c"}))
}
