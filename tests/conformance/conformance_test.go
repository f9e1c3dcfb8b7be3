// Package conformance_test runs the conformance suite of arenas over every backend: in process, on the simulator of
// its driver where it has one.
package conformance_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/arenatest"
	"github.com/arenagen/arenagen/backends/cuda"
	"github.com/arenagen/arenagen/backends/hip"
	"github.com/arenagen/arenagen/backends/kit/dl"
	"github.com/arenagen/arenagen/backends/stub"
)

const root = "../.."

// out is the absolute path of what make builds.
var out string

func TestMain(m *testing.M) {
	var err error
	if out, err = filepath.Abs(root + "/out"); err == nil {
		var output []byte
		if output, err = exec.Command("make", "-s", "-C", root, "simulators").CombinedOutput(); err != nil {
			err = fmt.Errorf("make simulators: %w\n%s", err, output)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestStub(t *testing.T) {
	arenatest.Run(t, &arenatest.InProcess{
		Open:  func(device int) (arena.Backend, error) { return stub.Open(device, stub.Options{}) },
		Needs: []string{"memory"},
	})
}

// A simulated backend is one whose driver is a simulator.
var simulated = []struct {
	name, library, override string
	open                    func(device int) (arena.Backend, error)
}{
	{"cuda", "libcuda.so.1", cuda.Override, func(device int) (arena.Backend, error) { return cuda.Open(device, cuda.Options{}) }},
	{"hip", "libamdhip64.so.7", hip.Override, func(device int) (arena.Backend, error) { return hip.Open(device, hip.Options{}) }},
}

func TestSimulated(t *testing.T) {
	for _, s := range simulated {
		t.Run(s.name, func(t *testing.T) {
			file := filepath.Join(out, "sim", s.library)
			t.Setenv(s.override, file)
			controls := loadControls(t, file)
			arenatest.Run(t, &arenatest.InProcess{
				Open:   s.open,
				Needs:  []string{"memory", "faults", "streams"},
				Driver: controls,
				Reset:  func(*testing.T) { controls.call("arenasim_reset") },
			})
		})
	}
}

// controls are the controls of a simulator that is loaded.
type controls struct {
	t       *testing.T
	library *dl.Library
}

func loadControls(t *testing.T, file string) *controls {
	t.Helper()
	library, err := dl.Open([]string{file}, "")
	require.NoError(t, err)
	return &controls{t, library}
}

func (c *controls) call(name string, args ...uint64) uint64 {
	f, ok := c.library.Find(name)
	require.True(c.t, ok, name)
	var frame dl.Frame
	copy(frame.Args[:], args)
	return f.Call(&frame)
}

// Do carries out a verb of the suite that is the driver's.
func (c *controls) Do(verb string, args ...uint64) arenatest.Answer {
	if verb == "objects" {
		return arenatest.Answer{Status: "ok", Values: []uint64{
			c.call("arenasim_objects", 0), c.call("arenasim_objects", 1), c.call("arenasim_objects", 2),
		}}
	}
	return arenatest.Answer{Status: "ok", Values: []uint64{c.call("arenasim_"+verb, args...)}}
}
