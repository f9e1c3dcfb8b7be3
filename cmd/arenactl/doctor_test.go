package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena/vmm"
	"github.com/arenagen/arenagen/backends/all"
	"github.com/arenagen/arenagen/backends/kit/doctor"
)

// The absolute paths of the programs under test, set by TestMain.
var program, simulators string

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (code int, err error) {
	if output, err := exec.Command("make", "-s", "-C", "../..", "simulators", "out/bin/arenactl").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("make: %w\n%s", err, output)
	}
	out, err := filepath.Abs("../../out")
	if err != nil {
		return 0, err
	}
	program, simulators = filepath.Join(out, "bin", "arenactl"), filepath.Join(out, "sim")
	return m.Run(), nil
}

// examine runs the program with some variables more, none of which name a real driver.
func examine(t *testing.T, variables ...string) (found doctor.Report, text string, code int) {
	t.Helper()
	environment := os.Environ()
	for _, b := range all.Backends() {
		if b.Override != "" {
			environment = append(environment, b.Override+"=/there/is/none.so")
		}
	}
	run := func(args ...string) []byte {
		command := exec.Command(program, append([]string{"doctor"}, args...)...)
		command.Env = append(environment, variables...)
		var out bytes.Buffer
		command.Stdout = &out
		_ = command.Run() // the exit code says how it went
		code = command.ProcessState.ExitCode()
		return out.Bytes()
	}
	require.NoError(t, json.Unmarshal(run("--json"), &found))
	return found, string(run()), code
}

func backend(t *testing.T, r doctor.Report, name string) doctor.Backend {
	t.Helper()
	for _, b := range r.Backends {
		if b.Name == name {
			return b
		}
	}
	t.Fatalf("there is no backend %s", name)
	return doctor.Backend{}
}

func TestDoctorWithoutDrivers(t *testing.T) {
	r, text, code := examine(t)
	assert.Equal(t, 1, code)
	assert.False(t, r.Usable)
	require.NotNil(t, backend(t, r, "cuda").Problem)
	assert.Contains(t, backend(t, r, "cuda").Problem.What, "/there/is/none.so")
	assert.Equal(t, "Install the vendor's driver, or name its library in ARENAGEN_CUDA_LIBRARY.", backend(t, r, "cuda").Problem.Do)
	stub := backend(t, r, "stub")
	assert.Nil(t, stub.Problem)
	require.Len(t, stub.Devices, 1)
	assert.Equal(t, uint64(2<<20), stub.Devices[0].Recommended)
	assert.Contains(t, text, "do        Install the vendor's driver, or name its library in ARENAGEN_HIP_LIBRARY.")
}

func TestDoctorOnSimulators(t *testing.T) {
	for _, s := range all.Backends() {
		if s.Override == "" {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			name, err := os.ReadFile(filepath.Join(simulators, "."+s.Name))
			require.NoError(t, err)
			simulator := filepath.Join(simulators, strings.TrimSpace(string(name)))
			library := s.Override + "=" + simulator
			found, _, _ := examine(t, library)
			versions := backend(t, found, s.Name).Version != "" // the driver is asked for its own
			a := s.Abilities()
			for name, tc := range map[string]struct {
				asks     bool // the backend asks what is simulated
				settings string
				usable   bool
				problem  string // of the backend, or of its first device
				text     string
			}{
				"two devices":                      {true, "devices=2", true, "", "  device 1  "},
				"memory":                           {a.Does(vmm.OpMemoryInfo), "capacity=0x100000000", true, "", "4 GiB free of 4 GiB"},
				"no device":                        {true, "devices=0", false, "no device", "The driver is there and sees no device"},
				"an old driver":                    {versions, "version=1000000", false, "expected", "Install a newer driver."},
				"a device without the memory":      {a.Does(vmm.OpAttribute), "lacks=0", false, "cannot map memory", "cannot do what an arena needs"},
				"a full device":                    {true, "capacity=0x100000", false, "out of memory", "Another process has the device's memory"},
				"memory that does not return":      {a.Does(vmm.OpMemoryInfo), "unmap_keeps_memory=1", true, "does not come back", "Close arenas"},
				"what is advertised does not work": {true, "refuses=2,refuses=1", true, "", "not posix_fd"},
				"settings that are not known":      {true, "devcies=2", false, "unavailable", "The driver does not start"},
			} {
				if !tc.asks {
					continue
				}
				t.Run(name, func(t *testing.T) {
					r, text, code := examine(t, library, "ARENASIM="+tc.settings)
					b := backend(t, r, s.Name)
					assert.Equal(t, tc.usable, r.Usable, text)
					assert.Equal(t, tc.usable, code == 0)
					assert.Contains(t, text, tc.text)
					found := b.Problem
					if found == nil && len(b.Devices) > 0 {
						found = b.Devices[0].Problem
					}
					if tc.problem == "" {
						assert.Nil(t, found)
						assert.Equal(t, simulator, b.Library)
						assert.Len(t, b.Devices, 2)
						return
					}
					require.NotNil(t, found)
					assert.Contains(t, found.What, tc.problem)
					assert.NotEmpty(t, found.Do)
				})
			}
		})
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"doctr"}, {"doctor", "now"}, {"doctor", "--jsn"}} {
		command := exec.Command(program, args...)
		output, err := command.CombinedOutput()
		require.Error(t, err)
		assert.Contains(t, string(output), "arenactl: ")
	}
}

// The matrix says of every backend what its file says, and shows where it is not so.
func TestDoctorMatrix(t *testing.T) {
	r, text, _ := examine(t)
	abilities := map[string]vmm.Abilities{}
	for _, b := range all.Backends() {
		abilities[b.Name] = b.Abilities()
		assert.Contains(t, r.Matrix.Backends, b.Name)
	}
	require.Len(t, r.Matrix.Backends, len(abilities))
	require.Len(t, r.Matrix.Operations, len(vmm.Operations()))
	cells := map[bool]string{true: "yes", false: "-"}
	line := func(row doctor.Row) {
		pattern := `(?m)^` + row.Name
		for _, b := range r.Matrix.Backends {
			pattern += ` +` + cells[row.Backends[b]]
		}
		assert.Regexp(t, pattern+`$`, text)
	}
	for i, op := range vmm.Operations() {
		row := r.Matrix.Operations[i]
		assert.Equal(t, op.String(), row.Name)
		for name, a := range abilities {
			assert.Equal(t, a.Does(op), row.Backends[name], "%s of %s", op, name)
		}
		line(row)
	}
	for i, row := range r.Matrix.Capabilities {
		for name, a := range abilities {
			assert.Equal(t, a.Capabilities.List()[i], vmm.Capability{Name: row.Name, Has: row.Backends[name]}, name)
		}
		line(row)
	}
	// What no backend can lack, and what the stub, which has no other machine to talk to, always lacks.
	assert.Regexp(t, `(?m)^reserve( +yes)+$`, text)
	assert.Regexp(t, `(?m)^export_fabric( +(yes|-))* +-$`, text)
}
