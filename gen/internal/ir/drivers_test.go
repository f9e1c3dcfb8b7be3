package ir_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/arenagen/arenagen/gen/internal/ir"
)

// root is the project's.
const root = "../../.."

// driverNames are the drivers that the language must be able to describe, and where they are.
var driverNames = map[string]string{
	"cann": "gen/testdata/drivers", "levelzero": "spec/backends", "cuda": "spec/backends", "hip": "spec/backends",
}

// drivers returns the real specs, with the descriptions of drivers in C beside the backends.
func drivers(tb testing.TB) fstest.MapFS {
	tb.Helper()
	files := fstest.MapFS{}
	for _, name := range []string{"spec/abi.yaml", "spec/vmm.yaml", "spec/backends/stub.yaml"} {
		files[name] = readFile(tb, filepath.Join(root, name))
	}
	for name, folder := range driverNames {
		files["spec/backends/"+name+".yaml"] = readFile(tb, filepath.Join(root, folder, name+".yaml"))
	}
	return files
}

func readFile(tb testing.TB, name string) *fstest.MapFile {
	tb.Helper()
	text, err := os.ReadFile(name)
	require.NoError(tb, err)
	return &fstest.MapFile{Data: text}
}

// TestDrivers lowers drivers that differ, and compares what a call of each function looks like.
func TestDrivers(t *testing.T) {
	name := filepath.Join(testdata, "drivers.txtar")
	archive, err := txtar.ParseFile(name)
	require.NoError(t, err)
	model, err := ir.LoadFS(drivers(t), ir.Project)
	require.NoError(t, err)
	described := 0
	for _, b := range model.Backends {
		if b.Library != nil {
			compareGolden(t, name, archive, "want/"+b.Name+".txt", calls(b))
			described++
		}
	}
	assert.Equal(t, len(driverNames), described)
}

// calls writes the functions of a backend: how C declares each, and what its parameters carry.
func calls(b *ir.Backend) string {
	var w strings.Builder
	for _, f := range b.Library.Helpers {
		call(&w, f, "")
	}
	for _, f := range b.Functions {
		call(&w, f, f.Does.Name+": ")
	}
	return w.String()
}

func call(w *strings.Builder, f *ir.Binding, does string) {
	fmt.Fprintf(w, "%s%s\n", does, f.C.Signature)
	for _, p := range f.Params {
		fmt.Fprintf(w, "\t%s: %s\n", p.Name, carried(p.Bound))
		if p.Fill != nil {
			fill(w, p.Fill)
		}
	}
}

func fill(w *strings.Builder, f *ir.Fill) {
	for _, layout := range f.Layouts {
		fmt.Fprintf(w, "\t\t%s%s: %d bytes\n", f.Type.Name, versions(layout.Versions), layout.Size)
		for _, field := range layout.Fields {
			fmt.Fprintf(w, "\t\t\t%d+%d %s: %s\n", field.Offset, field.Width, field.Path, carried(field.Bound))
		}
	}
	for _, link := range f.Chain {
		if link.When != nil {
			fmt.Fprintf(w, "\t\tif %s is %s:\n", link.When.Input.Name, link.When.Is.Name)
		}
		fill(w, &link.Fill)
	}
}

func versions(v ir.Versions) string {
	text := ""
	if v.From != nil {
		text += " from " + v.From.String()
	}
	if v.Before != nil {
		text += " before " + v.Before.String()
	}
	return text
}

// carried says what a parameter or a field carries.
func carried(b ir.Bound) string {
	switch {
	case b.Enum != nil:
		numbers := make([]string, len(b.Enum.Values))
		for i, v := range b.Enum.Values {
			numbers[i] = fmt.Sprintf("%s %d", v.Value.Name, v.Number)
		}
		return fmt.Sprintf("%s %s (%s)", b.Kind, b.Input.Name, strings.Join(numbers, ", "))
	case b.Input != nil:
		return fmt.Sprintf("%s %s", b.Kind, b.Input.Name)
	case b.Output != nil:
		return fmt.Sprintf("%s %s", b.Kind, b.Output.Name)
	case b.Value != nil:
		return fmt.Sprintf("%s %s = %d", b.Kind, b.Value.Name, *b.Const)
	case b.Const != nil:
		return fmt.Sprintf("%s %d", b.Kind, *b.Const)
	default:
		return strings.TrimSpace(fmt.Sprintf("%s %s", b.Kind, b.Of))
	}
}

// BenchmarkDrivers loads and resolves the real specs and all drivers.
func BenchmarkDrivers(b *testing.B) {
	files := drivers(b)
	for b.Loop() {
		_, err := ir.LoadFS(files, ir.Project)
		require.NoError(b, err)
	}
}

// TestCapabilities lowers, for every capability of the real contract, two drivers that differ in
// it: what it means does not depend on whose driver has it.
func TestCapabilities(t *testing.T) {
	specs, err := ir.Load(root)
	require.NoError(t, err)
	for _, capability := range specs.Contract.Capabilities {
		t.Run(capability.Name, func(t *testing.T) {
			name := filepath.Join(testdata, "capability_"+capability.Name+".txtar")
			archive, err := txtar.ParseFile(name)
			require.NoError(t, err)
			files := overlay(tiny(t), archive)
			delete(files, "spec/backends/stub.yaml")
			model, err := ir.LoadFS(files, ir.Project)
			require.NoError(t, err)
			require.Len(t, model.Backends, 2)
			for i, b := range model.Backends {
				require.Len(t, b.Capabilities, 1)
				assert.Equal(t, capability.Name, b.Capabilities[0].Capability.Name)
				assert.Equal(t, i == 0, b.Capabilities[0].Value)
				compareGolden(t, name, archive, "want/"+b.Name+".txt", calls(b))
			}
		})
	}
}

// does is a line that says which operation a function does.
var does = regexp.MustCompile(`(?m)^    does: (\w+)$`)

// TestOneLineTakesAnOperationAway adds to the real specs that a driver cannot do something that it has a function for.
func TestOneLineTakesAnOperationAway(t *testing.T) {
	byOpening := []string{"levelzero device_count"} // what opening calls has to stay
	for _, name := range []string{"cuda", "hip", "levelzero", "musa"} {
		file := "spec/backends/" + name + ".yaml"
		files := drivers(t)
		text := string(readFile(t, filepath.Join(root, file)).Data)
		backendOf := func(t *testing.T, text string) (*ir.Backend, error) {
			t.Helper()
			files[file] = &fstest.MapFile{Data: []byte(text)}
			model, err := ir.LoadFS(files, ir.Project)
			if err != nil {
				return nil, err
			}
			return model.Backends[slices.IndexFunc(model.Backends, func(b *ir.Backend) bool { return b.Name == name })], nil
		}
		before, err := backendOf(t, text)
		require.NoError(t, err)
		for _, match := range does.FindAllStringSubmatch(text, -1) {
			operation := match[1]
			isIt := func(o *ir.Operation) bool { return o.Name == operation }
			if slices.ContainsFunc(before.Unsupported, isIt) {
				continue
			}
			t.Run(name+"/"+operation, func(t *testing.T) {
				backend, err := backendOf(t, lacking(text, operation))
				if slices.Contains(byOpening, name+" "+operation) {
					require.ErrorContains(t, err, fmt.Sprintf("is called by a step, expected its operation %q not to be unsupported", operation))
					return
				}
				require.NoError(t, err)
				doesIt := func(b *ir.Binding) bool { return isIt(b.Does) }
				assert.True(t, slices.ContainsFunc(backend.Unsupported, isIt))
				assert.False(t, slices.ContainsFunc(backend.Functions, doesIt))
				assert.True(t, slices.ContainsFunc(backend.Idle, doesIt))
			})
		}
	}
}

// lacking adds an operation to what a driver cannot do.
func lacking(text, operation string) string {
	switch {
	case strings.Contains(text, "\nunsupported: ["):
		return strings.Replace(text, "\nunsupported: [", "\nunsupported: ["+operation+", ", 1)
	case strings.Contains(text, "\nunsupported:\n"):
		return strings.Replace(text, "\nunsupported:\n", "\nunsupported:\n  - "+operation+"\n", 1)
	default:
		return text + "\nunsupported: [" + operation + "]\n"
	}
}
