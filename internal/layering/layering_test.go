// Package layering_test checks that imports run one way, as ARCHITECTURE.md says: it reads
// the import lines of every Go file of the module, whatever its build constraints.
package layering_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	module = "github.com/arenagen/arenagen"
	purego = "github.com/ebitengine/purego"

	prometheus = "github.com/prometheus/client_golang/prometheus"
)

// alone are the libraries of others that one room has to itself.
var alone = map[string]string{
	purego:                  "backends/kit/dl",
	"github.com/prometheus": "metrics",
	"gonum.org/v1/plot":     "internal/trace",
}

// private are the rooms of this module that one other room has to itself.
var private = map[string]string{
	"internal/trace": "cmd/arenactl",
}

// An edge is an import line: the file, relative to the module's root, and what it imports.
type edge struct{ file, imports string }

func (e edge) test() bool { return strings.HasSuffix(e.file, "_test.go") }

// inside is the folder that is imported, if it is one of this module.
func (e edge) inside() (folder string, ok bool) {
	folder, ok = strings.CutPrefix(e.imports, module)
	return strings.TrimPrefix(folder, "/"), ok
}

// standard tells whether an import is of the standard library, cgo's C included.
func (e edge) standard() bool {
	first, _, _ := strings.Cut(e.imports, "/")
	return !strings.Contains(first, ".")
}

// under tells whether a file or folder is a folder, or in it.
func under(name, folder string) bool {
	return name == folder || strings.HasPrefix(name, folder+"/")
}

// matches is under with a pattern for the folder, in which * is any one name.
func matches(name, pattern string) bool {
	parts := strings.Split(name, "/")
	n := strings.Count(pattern, "/") + 1
	if len(parts) < n {
		return false
	}
	ok, err := path.Match(pattern, strings.Join(parts[:n], "/"))
	return ok && err == nil
}

// rooms say which folders of the module a room's files may import, their own tests apart. The first
// pattern that matches counts.
var rooms = []struct {
	pattern string
	may     []string
}{
	{"arena/vmm", []string{"arena/vmm"}},
	{"arena", []string{"arena"}},
	{"gen", []string{"gen"}},
	{"backends/kit/capi", []string{"arena", "backends/kit"}},
	{"backends/kit", []string{"arena/vmm", "backends/kit"}},
	{"backends/all", []string{"arena", "backends"}},
	{"backends/*/libarenagen*", []string{"arena", "backends"}},
	{"backends/sim/simtest", []string{"arena", "backends"}},
	{"backends/*", []string{"arena/vmm", "backends/kit"}},
	{"metrics", []string{"arena"}},
	{"internal/trace", []string{"internal/trace"}},
	{"*", []string{"arena", "backends", "cmd", "internal"}},
}

// fault is what is wrong with an import, or empty.
func fault(e edge) string {
	folder, inside := e.inside()
	switch {
	case inside && under(e.file, "gen") && under(folder, "spec"):
		return ""
	case inside && (under(folder, "gen") != under(e.file, "gen") || under(folder, "spec")):
		return "gen stands apart: it meets the rest through the files that it writes"
	case inside && under(e.file, "arena") && !under(folder, "arena"):
		return "the core imports nothing of this module but itself"
	}
	if text := faultOfOwner(e); text != "" {
		return text
	}
	switch {
	case e.test():
		return ""
	case under(e.file, "arena") && !under(e.file, "arena/arenatest") && (e.imports == "C" || e.imports == "unsafe"):
		return "the core is pure Go"
	case under(e.file, "arena") && !inside && !e.standard():
		return "the core uses the standard library only"
	case inside:
		return faultOfRoom(e.file, folder)
	}
	return ""
}

// faultOfOwner is what is wrong with an import, also a test's, of what one room has to itself.
func faultOfOwner(e edge) string {
	for library, room := range alone {
		if under(e.imports, library) && !under(e.file, room) {
			return room + " is the only room with " + library
		}
	}
	for folder, room := range private {
		if under(e.imports, module+"/"+folder) && !under(e.file, room) && !under(e.file, folder) {
			return room + " is the only room with " + folder
		}
	}
	return ""
}

func faultOfRoom(file, folder string) string {
	for _, room := range rooms {
		if !matches(file, room.pattern) {
			continue
		}
		for _, may := range room.may {
			if under(folder, may) {
				return ""
			}
		}
		return room.pattern + " may import of this module only " + strings.Join(room.may, ", ")
	}
	return ""
}

func TestImports(t *testing.T) {
	edges := edgesOf(t, root(t))
	seen := map[string]int{}
	for _, e := range edges {
		assert.Empty(t, fault(e), "%s imports %q", e.file, e.imports)
		top, _, _ := strings.Cut(e.file, "/")
		seen[top]++
	}
	for _, room := range []string{"arena", "gen", "backends", "metrics", "internal"} {
		assert.NotZero(t, seen[room], "nothing was read in %s", room)
	}
}

// The rules catch what they are there for.
func TestFault(t *testing.T) {
	for name, tc := range map[string]struct {
		edge edge
		text string
	}{
		"core uses errors":             {edge{"arena/errors.go", "errors"}, ""},
		"core uses the contract":       {edge{"arena/arena.go", module + "/arena/vmm"}, ""},
		"core uses unsafe":             {edge{"arena/arena.go", "unsafe"}, "pure Go"},
		"core uses cgo":                {edge{"arena/vmm/device.go", "C"}, "pure Go"},
		"core uses a module":           {edge{"arena/arena.go", "golang.org/x/sys/unix"}, "standard library only"},
		"a test of the core does":      {edge{"arena/arena_test.go", "github.com/stretchr/testify/require"}, ""},
		"core uses a backend":          {edge{"arena/arena.go", module + "/backends/stub"}, "nothing of this module"},
		"so does its test":             {edge{"arena/arena_test.go", module + "/backends/stub"}, "nothing of this module"},
		"the contract uses the core":   {edge{"arena/vmm/device.go", module + "/arena"}, "arena/vmm may import"},
		"a backend uses the generator": {edge{"backends/stub/x.go", module + "/gen/internal/ir"}, "gen stands apart"},
		"the generator uses the core":  {edge{"gen/cmd/arenagen/main.go", module + "/arena"}, "gen stands apart"},
		"so does its own test":         {edge{"gen/cmd/arenagen/main_test.go", module + "/arena/vmm"}, "gen stands apart"},
		"the generator uses itself":    {edge{"gen/cmd/arenagen/main.go", module + "/gen/internal/ir"}, ""},
		"the generator uses the specs": {edge{"gen/cmd/arenagen/outside.go", module + "/spec"}, ""},
		"a backend uses the specs":     {edge{"backends/stub/x.go", module + "/spec"}, "gen stands apart"},
		"genuine is not gen":           {edge{"genuine/x.go", module + "/arena"}, ""},
		"dl uses purego":               {edge{"backends/kit/dl/dl.go", purego}, ""},
		"a backend uses purego":        {edge{"backends/cuda/x.go", purego + "/internal/x"}, "only room with github.com/ebitengine/purego"},
		"a backend uses another":       {edge{"backends/cuda/x.go", module + "/backends/stub"}, "backends/* may import"},
		"a backend uses the core":      {edge{"backends/cuda/x.go", module + "/arena"}, "backends/* may import"},
		"a backend uses the contract":  {edge{"backends/cuda/x.go", module + "/arena/vmm"}, ""},
		"kit uses a backend":           {edge{"backends/kit/capi/x.go", module + "/backends/stub"}, "backends/kit/capi may import"},
		"dl uses the core":             {edge{"backends/kit/dl/x.go", module + "/arena"}, "backends/kit may import"},
		"a library uses its backend":   {edge{"backends/stub/libarenagen_stub/x.go", module + "/backends/stub"}, ""},
		"a command uses a backend":     {edge{"cmd/arenactl/main.go", module + "/backends/stub"}, ""},
		"metrics uses Prometheus":      {edge{"metrics/collector.go", prometheus}, ""},
		"its test uses more of it":     {edge{"metrics/collector_test.go", prometheus + "/testutil"}, ""},
		"a command uses Prometheus":    {edge{"cmd/arenactl/main.go", prometheus}, "metrics is the only room with"},
		"so does a test":               {edge{"tests/library/x_test.go", prometheus + "/testutil"}, "metrics is the only room with"},
		"core uses Prometheus":         {edge{"arena/stats.go", prometheus}, "metrics is the only room with"},
		"a test of the core draws":     {edge{"arena/x_test.go", "gonum.org/v1/plot"}, "internal/trace is the only room with"},
		"metrics uses the core":        {edge{"metrics/collector.go", module + "/arena"}, ""},
		"metrics uses a backend":       {edge{"metrics/collector.go", module + "/backends/stub"}, "metrics may import"},
		"core uses metrics":            {edge{"arena/stats.go", module + "/metrics"}, "nothing of this module"},
		"a command uses metrics":       {edge{"cmd/arenactl/main.go", module + "/metrics"}, "* may import"},
		"trace draws":                  {edge{"internal/trace/picture.go", "gonum.org/v1/plot/vg"}, ""},
		"another room draws":           {edge{"internal/other/x.go", "gonum.org/v1/plot/vg"}, "internal/trace is the only room with"},
		"a command draws":              {edge{"cmd/arenactl/trace.go", "gonum.org/v1/plot"}, "internal/trace is the only room with"},
		"trace uses the core":          {edge{"internal/trace/load.go", module + "/arena"}, "internal/trace may import"},
		"arenactl uses trace":          {edge{"cmd/arenactl/trace.go", module + "/internal/trace"}, ""},
		"so does its test's helper":    {edge{"cmd/arenactl/trace_test.go", module + "/internal/trace/tracetest"}, ""},
		"a test of trace uses it":      {edge{"internal/trace/trace_test.go", module + "/internal/trace"}, ""},
		"another command uses trace":   {edge{"cmd/other/main.go", module + "/internal/trace"}, "cmd/arenactl is the only room with"},
		"a test elsewhere uses it":     {edge{"tests/library/x_test.go", module + "/internal/trace"}, "cmd/arenactl is the only room with"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.text == "" {
				assert.Empty(t, fault(tc.edge))
			} else {
				assert.Contains(t, fault(tc.edge), tc.text)
			}
		})
	}
}

// root is the folder of the module's go.mod.
func root(t *testing.T) string {
	t.Helper()
	folder, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder
		}
		require.NotEqual(t, folder, filepath.Dir(folder), "there is no go.mod above")
		folder = filepath.Dir(folder)
	}
}

// edgesOf reads the import lines of the module in a folder. Modules inside it are others.
func edgesOf(t *testing.T, root string) []edge {
	t.Helper()
	var edges []edge
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != root && skipped(name, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		file, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			imports, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			edges = append(edges, edge{file: filepath.ToSlash(file), imports: imports})
		}
		return nil
	})
	require.NoError(t, err)
	return edges
}

// skipped tells whether the go command would not look into a folder either.
func skipped(folder, name string) bool {
	if name == "testdata" || name == "out" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return true
	}
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}
