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
		if output, err = exec.Command("make", "-s", "-C", root, "all", "simulators").CombinedOutput(); err != nil {
			err = fmt.Errorf("make: %w\n%s", err, output)
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

// A library is one that was built, with the backend of it that is used and the driver that this loads.
type library struct{ file, backend, simulator, override string }

func libraries() map[string]library {
	all := map[string]library{
		"stub":          {file: "libarenagen_stub.so"},
		"stub in all":   {file: "libarenagen.so", backend: "stub"},
		"all by itself": {file: "libarenagen.so", simulator: "libcuda.so.1", override: cuda.Override},
	}
	for _, s := range simulated {
		all[s.name] = library{"libarenagen_" + s.name + ".so", "", s.library, s.override}
		all[s.name+" in all"] = library{"libarenagen.so", s.name, s.library, s.override}
	}
	return all
}

// TestHosted runs the suite on the built libraries, from a C program.
func TestHosted(t *testing.T) {
	host := arenatest.CompileHost(t, filepath.Join(out, "include"))
	for name, l := range libraries() {
		t.Run(name, func(t *testing.T) {
			subject := &arenatest.Hosted{
				Program: host, Library: filepath.Join(out, "lib", l.file), Backend: l.backend, Needs: []string{"memory"},
			}
			if l.simulator != "" {
				subject.Simulator = filepath.Join(out, "sim", l.simulator)
				subject.Env = []string{l.override + "=" + subject.Simulator}
				subject.Needs = append(subject.Needs, "faults", "streams")
			}
			arenatest.Run(t, subject)
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
