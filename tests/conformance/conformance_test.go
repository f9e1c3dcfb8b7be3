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
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/arenatest"
	"github.com/arenagen/arenagen/arena/vmm"
	"github.com/arenagen/arenagen/backends/all"
	"github.com/arenagen/arenagen/backends/cuda"
	"github.com/arenagen/arenagen/backends/kit/registry"
	"github.com/arenagen/arenagen/backends/sim/simtest"
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
		Needs: append(arenatest.NeedsOf(stub.Abilities()), "memory"),
	})
}

// A simulated backend is one whose driver is a simulator.
type simulated struct {
	registry.Backend
	file string // the simulator
}

// simulators are all backends that have a driver, on their simulators.
func simulators(t *testing.T) []simulated {
	t.Helper()
	return simulatorsIn(t, out)
}

// simulatorsIn is simulators, of what was built into a folder.
func simulatorsIn(t *testing.T, folder string) []simulated {
	t.Helper()
	var found []simulated
	for _, b := range all.Backends() {
		if b.Override != "" {
			found = append(found, simulated{b, simulatorOf(t, folder, b.Name)})
		}
	}
	return found
}

// simulatorOf is the simulator of a backend's driver that was built into a folder.
func simulatorOf(t *testing.T, folder, backend string) string {
	t.Helper()
	name, err := os.ReadFile(filepath.Join(folder, "sim", "."+backend))
	require.NoError(t, err)
	return filepath.Join(folder, "sim", strings.TrimSpace(string(name)))
}

// load loads the simulator for a test, as after it was loaded first, and has the backend take it for its driver.
func (s simulated) load(t *testing.T) *simtest.Simulator {
	t.Helper()
	t.Setenv(s.Override, s.file)
	simulator := simtest.Load(t, s.file)
	simulator.Reset()
	t.Cleanup(simulator.Reset)
	return simulator
}

func TestSimulated(t *testing.T) {
	for _, s := range simulators(t) {
		t.Run(s.Name, func(t *testing.T) {
			arenatest.Run(t, &arenatest.InProcess{
				Open:   func(device int) (arena.Backend, error) { return backendOf(s.Open(device, "")) },
				Needs:  append(arenatest.NeedsOf(s.Abilities()), "memory", "faults"),
				Driver: s.load(t),
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
	file, backend string
	simulated
}

// librariesIn are the libraries that were built into a folder.
func librariesIn(t *testing.T, folder string) map[string]library {
	t.Helper()
	host := simulated{Backend: registry.Backend{Abilities: stub.Abilities}}
	found := map[string]library{
		"stub":        {"libarenagen_stub.so", "", host},
		"stub in all": {"libarenagen.so", "stub", host},
	}
	for i, s := range simulatorsIn(t, folder) {
		found[s.Name] = library{"libarenagen_" + s.Name + ".so", "", s}
		found[s.Name+" in all"] = library{"libarenagen.so", s.Name, s}
		if i == 0 {
			found["all by itself"] = library{"libarenagen.so", "", s}
		}
	}
	return found
}

// TestHosted runs the suite on the built libraries, from a C program.
func TestHosted(t *testing.T) {
	hosted(t, out, nil)
}

// TestHostedOnARM64 is TestHosted with the libraries for arm64, in an emulator.
func TestHostedOnARM64(t *testing.T) {
	const compiler, emulator = "aarch64-linux-gnu-gcc", "qemu-aarch64"
	for _, tool := range []string{compiler, emulator} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	output, err := exec.Command("make", "-s", "-C", root, "arm64").CombinedOutput()
	require.NoError(t, err, string(output))
	t.Setenv("CC", compiler)
	hosted(t, filepath.Join(out, "arm64"), []string{emulator, "-L", "/usr/aarch64-linux-gnu"})
}

// hosted runs the suite on the libraries in a folder, from a C program that the environment's compiler makes.
func hosted(t *testing.T, folder string, emulator []string) {
	t.Helper()
	host := arenatest.CompileHost(t, filepath.Join(out, "include"))
	for name, l := range librariesIn(t, folder) {
		t.Run(name, func(t *testing.T) {
			subject := &arenatest.Hosted{
				Emulator: emulator, Program: host, Library: filepath.Join(folder, "lib", l.file), Backend: l.backend, Needs: append(arenatest.NeedsOf(l.Abilities()), "memory"),
			}
			if l.simulated.file != "" {
				subject.Simulator = l.simulated.file
				subject.Env = []string{l.Override + "=" + subject.Simulator}
				subject.Needs = append(subject.Needs, "faults")
			}
			arenatest.Run(t, subject)
		})
	}
}

// Without a driver, auto finds nothing, says why for each, and does not take host memory instead.
func TestAutoWithoutADriver(t *testing.T) {
	host := &arenatest.Hosted{
		Program: arenatest.CompileHost(t, filepath.Join(out, "include")), Library: filepath.Join(out, "lib", "libarenagen.so"),
		Env: withoutDrivers(),
	}
	session := host.Start(t)
	answer := session.Do("create", 64<<20, 0, 0, 0, 0)
	assert.Equal(t, "unavailable", answer.Status)
	assert.Contains(t, answer.Text, "no backend has a device that can be used: "+simulators(t)[0].Name+": ")
	for _, s := range simulators(t)[:2] { // a message has no room for all
		assert.Contains(t, answer.Text, nowhere(s.Name))
	}
}

// withoutDrivers are the variables of a process in which no backend finds its driver.
func withoutDrivers() []string {
	var variables []string
	for _, b := range all.Backends() {
		if b.Override != "" {
			variables = append(variables, b.Override+"="+nowhere(b.Name))
		}
	}
	return variables
}

// nowhere is the name of a driver that is not there.
func nowhere(backend string) string { return "/there/is/no/" + backend + ".so" }

// Of several reasons the most telling one counts.
func TestAutoWithADriverAndNoDevice(t *testing.T) {
	for settings, status := range map[string]string{"devices=0": "no_device", "version=1000000": "driver_too_old", "lacks=0": "not_supported"} {
		host := &arenatest.Hosted{
			Program: arenatest.CompileHost(t, filepath.Join(out, "include")), Library: filepath.Join(out, "lib", "libarenagen.so"),
			Env: append(withoutDrivers(), cuda.Override+"="+simulatorOf(t, out, cuda.Backend), "ARENASIM="+settings),
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
	for _, s := range simulators(t) {
		t.Run(s.Name, func(t *testing.T) {
			command := exec.Command(python(), root+"/scripts/gpu_check.py", s.Name)
			command.Env = append(os.Environ(), s.Override+"="+s.file, "PYTHONDONTWRITEBYTECODE=1")
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
			if s.Abilities().Does(vmm.OpDeviceName) {
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
	for _, s := range simulators(t) {
		for file, says := range map[string]string{
			s.file: s.file,
			filepath.Join(out, "sim", "there_is_none.so"): "there_is_none.so",
			// A library that is not the driver.
			filepath.Join(out, "lib", "libarenagen_stub.so"): "has no function",
			"relative.so": "expected an absolute path",
		} {
			command := exec.Command(python(), "-c", program, root+"/python", filepath.Join(out, "lib", "libarenagen_"+s.Name+".so"), s.Override, file)
			command.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
			output, err := command.CombinedOutput()
			require.NoError(t, err, string(output))
			assert.Contains(t, string(output), says)
		}
	}
}
