// Package conformance_test runs the conformance suite of arenas over every backend: in process, on the simulator of
// its driver where it has one.
package conformance_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/arenatest"
	"github.com/arenagen/arenagen/arena/vmm"
	"github.com/arenagen/arenagen/backends/cuda"
	"github.com/arenagen/arenagen/backends/hip"
	"github.com/arenagen/arenagen/backends/kit/dl"
	"github.com/arenagen/arenagen/backends/levelzero"
	"github.com/arenagen/arenagen/backends/musa"
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
		Needs: []string{"memory", "align"},
	})
}

// usual is what most drivers do: their streams can be waited for, addresses are aligned as asked, access is granted by a call,
// a handle lives as long as it is mapped, and a device has a name.
var usual = []string{"streams", "align", "grants", "counted", "name"}

// A simulated backend is one whose driver is a simulator.
var simulated = []struct {
	name, library, override string
	has                     []string // what its driver can do or does and others do not
	open                    func(device int) (*vmm.Device, error)
}{
	{"cuda", "libcuda.so.1", cuda.Override, append(usual, "fabric"), func(device int) (*vmm.Device, error) { return cuda.Open(device, cuda.Options{}) }},
	{"hip", "libamdhip64.so.7", hip.Override, usual, func(device int) (*vmm.Device, error) { return hip.Open(device, hip.Options{}) }},
	{"levelzero", "libze_loader.so.1", levelzero.Override, nil, func(device int) (*vmm.Device, error) { return levelzero.Open(device, levelzero.Options{}) }},
	{"musa", "libmusa.so.4", musa.Override, usual, func(device int) (*vmm.Device, error) { return musa.Open(device, musa.Options{}) }},
}

func TestSimulated(t *testing.T) {
	for _, s := range simulated {
		t.Run(s.name, func(t *testing.T) {
			file := filepath.Join(out, "sim", s.library)
			t.Setenv(s.override, file)
			controls := loadControls(t, file)
			arenatest.Run(t, &arenatest.InProcess{
				Open:   func(device int) (arena.Backend, error) { return backendOf(s.open(device)) },
				Needs:  append([]string{"memory", "faults"}, s.has...),
				Driver: controls,
				Reset:  func(*testing.T) { controls.call("arenasim_reset") },
			})
		})
	}
}

// backendOf makes a nil of a device that could not be opened.
func backendOf(device *vmm.Device, err error) (arena.Backend, error) {
	if err != nil {
		return nil, err
	}
	return device, nil
}

// A library is one that was built, with the backend of it that is used and the driver that this loads.
type library struct {
	file, backend, simulator, override string
	has                                []string
}

func libraries() map[string]library {
	all := map[string]library{
		"stub":          {file: "libarenagen_stub.so", has: []string{"align"}},
		"stub in all":   {file: "libarenagen.so", backend: "stub", has: []string{"align"}},
		"all by itself": {file: "libarenagen.so", simulator: "libcuda.so.1", override: cuda.Override, has: append(usual, "fabric")},
	}
	for _, s := range simulated {
		all[s.name] = library{"libarenagen_" + s.name + ".so", "", s.library, s.override, s.has}
		all[s.name+" in all"] = library{"libarenagen.so", s.name, s.library, s.override, s.has}
	}
	return all
}

// TestHosted runs the suite on the built libraries, from a C program.
func TestHosted(t *testing.T) {
	host := arenatest.CompileHost(t, filepath.Join(out, "include"))
	for name, l := range libraries() {
		t.Run(name, func(t *testing.T) {
			subject := &arenatest.Hosted{
				Program: host, Library: filepath.Join(out, "lib", l.file), Backend: l.backend, Needs: append([]string{"memory"}, l.has...),
			}
			if l.simulator != "" {
				subject.Simulator = filepath.Join(out, "sim", l.simulator)
				subject.Env = []string{l.override + "=" + subject.Simulator}
				subject.Needs = append(subject.Needs, "faults")
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

// Without a driver, auto finds nothing, says why for each, and does not take host memory instead.
func TestAutoWithoutADriver(t *testing.T) {
	host := &arenatest.Hosted{
		Program: arenatest.CompileHost(t, filepath.Join(out, "include")), Library: filepath.Join(out, "lib", "libarenagen.so"),
		Env: []string{cuda.Override + "=/there/is/none.so", hip.Override + "=/nor/here.so", musa.Override + "=/nor/there.so", levelzero.Override + "=/nor/there.so"},
	}
	session := host.Start(t)
	answer := session.Do("create", 64<<20, 0, 0, 0, 0)
	assert.Equal(t, "unavailable", answer.Status)
	assert.Contains(t, answer.Text, "no backend has a device that can be used: cuda: ")
	assert.Contains(t, answer.Text, "/there/is/none.so")
	assert.Contains(t, answer.Text, "/nor/here.so")
}

// Of several reasons the most telling one counts.
func TestAutoWithADriverAndNoDevice(t *testing.T) {
	for settings, status := range map[string]string{"devices=0": "no_device", "version=1000000": "driver_too_old", "lacks=0": "not_supported"} {
		host := &arenatest.Hosted{
			Program: arenatest.CompileHost(t, filepath.Join(out, "include")), Library: filepath.Join(out, "lib", "libarenagen.so"),
			Env: []string{cuda.Override + "=" + filepath.Join(out, "sim", "libcuda.so.1"), hip.Override + "=/nor/here.so", musa.Override + "=/nor/there.so", levelzero.Override + "=/nor/there.so", "ARENASIM=" + settings},
		}
		session := host.Start(t)
		answer := session.Do("create", 64<<20, 0, 0, 0, 0)
		assert.Equal(t, status, answer.Status, answer.Text)
	}
}

// python is the interpreter, which an environment variable can choose.
func python() string { return cmp.Or(os.Getenv("PYTHON"), "python3") }

// The check for real GPUs works: on a simulator all of it is done but what needs PyTorch.
func TestGPUCheck(t *testing.T) {
	for _, s := range simulated {
		t.Run(s.name, func(t *testing.T) {
			command := exec.Command(python(), root+"/scripts/gpu_check.py", s.name)
			command.Env = append(os.Environ(), s.override+"="+filepath.Join(out, "sim", s.library), "PYTHONDONTWRITEBYTECODE=1")
			var complaints strings.Builder
			command.Stderr = &complaints
			output, err := command.Output()
			require.NoError(t, err, complaints.String())
			var report struct {
				Arena  struct{ Device, Properties string }
				Driver map[string]map[string]float64 `json:"driver_us_by_size"`
				Pairs  map[string]map[string]float64 `json:"pairs_by_size"`
				Failed []string
			}
			require.NoError(t, json.Unmarshal(output, &report))
			assert.Empty(t, report.Failed)
			if slices.Contains(s.has, "name") {
				assert.Equal(t, "Simulated device", report.Arena.Device)
			}
			assert.Len(t, report.Driver, 4)
			assert.Len(t, report.Pairs, 4)
			for _, times := range report.Driver {
				assert.Len(t, times, 7)
			}
		})
	}
}

// A program in Python chooses the driver after it started: Go's own environment would not see that.
func TestOverrideFromPython(t *testing.T) {
	const program = `
import ctypes, os, sys
sys.path.insert(0, sys.argv[1])
from arenagen import _abi as abi
os.environ[sys.argv[3]] = sys.argv[4]
lib = ctypes.CDLL(sys.argv[2])
abi.declare(lib)
arena = ctypes.c_uint64()
status = lib.arenagen_arena_create(abi.ArenaOptions(), arena)
info = abi.DeviceInfo()
if status == abi.Status.OK:
    status = lib.arenagen_arena_device(arena, info)
error = abi.Error()
lib.arenagen_last_error(error)
print(status, info.library.decode(), info.name.decode(), error.text.decode())
`
	for _, s := range simulated {
		for file, says := range map[string]string{
			filepath.Join(out, "sim", s.library):          filepath.Join(out, "sim", s.library),
			filepath.Join(out, "sim", "there_is_none.so"): "there_is_none.so",
			// A library that is not the driver.
			filepath.Join(out, "lib", "libarenagen_stub.so"): "has no function",
			"relative.so": "expected an absolute path",
		} {
			command := exec.Command(python(), "-c", program, root+"/python", filepath.Join(out, "lib", "libarenagen_"+s.name+".so"), s.override, file)
			command.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
			output, err := command.CombinedOutput()
			require.NoError(t, err, string(output))
			assert.Contains(t, string(output), says)
		}
	}
}
