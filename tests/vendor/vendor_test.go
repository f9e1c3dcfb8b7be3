// Package vendor_test compares the specs of backends with what their vendors publish: headers of several versions, and
// libraries. So spec and simulator cannot agree on a mistake. The files are fetched, and never committed.
package vendor_test

import (
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena/arenatest"
)

const root = "../.."

// fetch returns the folder of what vendors publish. A test that has no network is skipped.
func fetch(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs(root + "/out/vendor")
	require.NoError(t, err)
	command := exec.Command(root+"/scripts/fetch-vendor", folder)
	if os.Getenv("VENDOR") == "all" {
		command.Args = append(command.Args, "all")
	}
	if output, err := command.CombinedOutput(); err != nil {
		t.Skipf("the vendors' files cannot be fetched: %v: %s", err, output)
	}
	return folder
}

// A header is one that a vendor publishes, with the options that a compiler needs to find it.
type header struct {
	backend, name string
	includes      string // a pattern for the folder
}

var headers = []header{
	{"cuda", "cuda-11", "nvidia/*/include"},
	{"cuda", "cuda-12", "nvidia/*/include"},
	{"cuda", "cuda-13", "nvidia/*/include"},
	{"cuda", "cuda-dev-11.8", "usr/include"},
	{"cuda", "cuda-dev-12.4", "usr/include"},
	{"hip", "hip-5.2", "usr/include"},
	{"hip", "hip-5.7", "usr/include"},
	{"hip", "hip-6", "usr/include"},
	{"hip", "hip-7", "usr/include"},
}

// each runs a test for every header that was fetched. Those of the large packages are there on demand only.
func each(t *testing.T, test func(t *testing.T, h header, include string)) {
	t.Helper()
	folder := fetch(t)
	backends := map[string]int{}
	for _, h := range headers {
		found, err := filepath.Glob(filepath.Join(folder, h.name, h.includes))
		require.NoError(t, err)
		if len(found) == 0 {
			continue
		}
		backends[h.backend]++
		t.Run(h.name, func(t *testing.T) { test(t, h, found[0]) })
	}
	assert.GreaterOrEqual(t, backends["cuda"], 3)
	assert.GreaterOrEqual(t, backends["hip"], 4)
}

// compilers are those of the platforms that the libraries are built for.
var compilers = []string{"x86_64-linux-gnu-gcc", "aarch64-linux-gnu-gcc"}

// TestHeaders compiles what a spec says of its header, together with that.
func TestHeaders(t *testing.T) {
	for _, compiler := range compilers {
		t.Run(compiler, func(t *testing.T) {
			if _, err := exec.LookPath(compiler); err != nil {
				t.Skipf("there is no %s", compiler)
			}
			each(t, func(t *testing.T, h header, include string) { //nolint:thelper // it is the body of a subtest
				output, err := exec.Command(compiler, "-std=gnu11", "-fsyntax-only", "-I"+include, "checks/zz_generated_"+h.backend+".c").CombinedOutput()
				assert.NoError(t, err, string(output))
			})
		})
	}
}

// A wrong number, offset or type does not compile: the check is one that can fail.
func TestHeadersRefuseAWrongSpec(t *testing.T) {
	include, err := filepath.Glob(filepath.Join(fetch(t), "cuda-12", "nvidia/*/include"))
	require.NoError(t, err)
	text, err := os.ReadFile("checks/zz_generated_cuda.c")
	require.NoError(t, err)
	for _, change := range [][2]string{
		{"CU_MEM_HANDLE_TYPE_FABRIC == 8", "CU_MEM_HANDLE_TYPE_FABRIC == 4"},
		{"offsetof(CUmemAllocationProp, location) == 8", "offsetof(CUmemAllocationProp, location) == 4"},
		{"sizeof(CUmemAccessDesc) == 12", "sizeof(CUmemAccessDesc) == 16"},
		{"CUresult (*)(CUdeviceptr ptr, size_t size)", "CUresult (*)(CUdeviceptr ptr, int size)"},
		{"CUDA_ERROR_OUT_OF_MEMORY == 2", "CUDA_ERROR_OUT_OF_MEMORY == 3"},
	} {
		require.Contains(t, string(text), change[0])
		file := filepath.Join(t.TempDir(), "wrong.c")
		require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(text), change[0], change[1], 1)), 0o600))
		output, err := exec.Command("gcc", "-std=gnu11", "-fsyntax-only", "-I"+include[0], file).CombinedOutput()
		assert.Error(t, err, change[1])
		assert.Contains(t, string(output), "static assertion failed")
	}
}

var (
	declaration = regexp.MustCompile(`(?m)\b(\w+)\(([^()]*)\)\s*;`)
	signature   = regexp.MustCompile(`(?m)^/\* .*?\b(\w+)\((.*)\) \*/$`)
	identifier  = regexp.MustCompile(`\w+`)
)

// parameters are the names of a declaration's parameters, "" for one without.
func parameters(list string) []string {
	var names []string
	for part := range strings.SplitSeq(list, ",") {
		words := identifier.FindAllString(part, -1)
		if len(words) == 0 || len(words) == 1 {
			names = append(names, "") // void, or a type alone
			continue
		}
		names = append(names, words[len(words)-1])
	}
	return names
}

// declared are the parameters of the functions that a header declares, by their names.
func declared(t *testing.T, h header, include string) map[string][]string {
	t.Helper()
	text, err := exec.Command("gcc", "-std=gnu11", "-E", "-P", "-I"+include, "checks/zz_generated_"+h.backend+".c").Output()
	require.NoError(t, err)
	found := map[string][]string{}
	flat := strings.Join(strings.Fields(string(text)), " ")
	for _, m := range declaration.FindAllStringSubmatch(flat, -1) {
		if _, again := found[m[1]]; !again {
			found[m[1]] = parameters(m[2])
		}
	}
	return found
}

// specified are the parameters that a spec has, in the generated file's comments.
func specified(t *testing.T, text string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, m := range signature.FindAllStringSubmatch(text, -1) {
		found[m[1]] = parameters(m[2])
	}
	require.Greater(t, len(found), 20)
	return found
}

// renamed are parameters that a header calls something else in some versions.
var renamed = map[string]string{}

// swapped lists the functions whose parameters stand in another order, or are called something else, than in a header.
// Two sizes that are swapped pass any check of types.
func swapped(spec, header map[string][]string, symbols map[string]string) []string {
	var wrong []string
	for name, want := range spec {
		have, ok := header[name]
		if !ok {
			have, ok = header[symbols[name]]
		}
		if !ok {
			continue // it came later; TestHeaders knows since when
		}
		for i := range want {
			if i >= len(have) || have[i] != want[i] && have[i] != "" && renamed[name+"."+want[i]] != have[i] {
				wrong = append(wrong, fmt.Sprintf("%s(%s), the header has (%s)", name, strings.Join(want, ", "), strings.Join(have, ", ")))
				break
			}
		}
	}
	slices.Sort(wrong)
	return wrong
}

func TestParameterNames(t *testing.T) {
	symbols := model(t).symbols()
	each(t, func(t *testing.T, h header, include string) { //nolint:thelper // it is the body of a subtest
		text, err := os.ReadFile("checks/zz_generated_" + h.backend + ".c")
		require.NoError(t, err)
		have := declared(t, h, include)
		require.Greater(t, len(have), 100)
		assert.Empty(t, swapped(specified(t, string(text)), have, symbols))

		// The check is one that can fail.
		exchange := strings.NewReplacer("size, size_t offset", "offset, size_t size", "size_t size, size_t alignment", "size_t alignment, size_t size").Replace(string(text))
		assert.Len(t, swapped(specified(t, exchange), have, symbols), 2)
	})
}

// A dump is the part of the generator's model that is needed here.
type dump struct {
	Backends []struct {
		Name      string
		Functions []binding
		Library   *struct{ Helpers []binding }
	}
}

type binding struct {
	Name string
	C    struct {
		Symbol   string
		Optional bool
	}
}

func model(t *testing.T) dump {
	t.Helper()
	command := exec.Command("go", "run", "./gen/cmd/arenagen", "generate", "--dump-model")
	command.Dir = root
	output, err := command.Output()
	require.NoError(t, err)
	var d dump
	require.NoError(t, json.Unmarshal(output, &d))
	return d
}

// symbols are what functions are exported as, by their names.
func (d dump) symbols() map[string]string {
	symbols := map[string]string{}
	for _, b := range d.Backends {
		if b.Library != nil {
			for _, f := range slices.Concat(b.Functions, b.Library.Helpers) {
				symbols[f.Name] = f.C.Symbol
			}
		}
	}
	return symbols
}

// libraries are the vendors' own, which load without a device.
var libraries = map[string]string{
	"cuda": "libcuda/usr/lib/*/nvidia/current/libcuda.so.1",
	"hip":  "libamdhip64/usr/lib/*/libamdhip64.so.5",
}

func libraryOf(t *testing.T, backend string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(fetch(t), libraries[backend]))
	require.NoError(t, err)
	require.Len(t, found, 1)
	return found[0]
}

// TestSymbols finds every function that a spec needs in the vendor's library.
func TestSymbols(t *testing.T) {
	for _, b := range model(t).Backends {
		if b.Library == nil {
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			file, err := elf.Open(libraryOf(t, b.Name))
			require.NoError(t, err)
			defer func() { assert.NoError(t, file.Close()) }()
			exported, err := file.DynamicSymbols()
			require.NoError(t, err)
			for _, f := range slices.Concat(b.Functions, b.Library.Helpers) {
				there := slices.ContainsFunc(exported, func(s elf.Symbol) bool { return s.Name == f.C.Symbol && s.Section != elf.SHN_UNDEF })
				assert.True(t, there || f.C.Optional, "%s is not exported as %s", f.Name, f.C.Symbol)
			}
		})
	}
}

// TestRealLibraries has the built libraries load the vendor's own on a machine without a device.
func TestRealLibraries(t *testing.T) {
	for _, tc := range []struct{ backend, override, module, says string }{
		{"cuda", "ARENAGEN_CUDA_LIBRARY", "/sys/module/nvidia", "cuInit answered CUDA_ERROR_NO_DEVICE, 100"},
		{"hip", "ARENAGEN_HIP_LIBRARY", "/sys/module/amdgpu", "hipInit answered hipErrorInvalidDevice, 101"},
	} {
		t.Run(tc.backend, func(t *testing.T) {
			if _, err := os.Stat(tc.module); err == nil {
				t.Skipf("this machine has a driver: %s", tc.module)
			}
			real := libraryOf(t, tc.backend)
			needed, err := filepath.Glob(filepath.Join(fetch(t), "lib*/usr/lib/*-linux-gnu"))
			require.NoError(t, err)
			out, err := filepath.Abs(root + "/out")
			require.NoError(t, err)
			output, err := exec.Command("make", "-s", "-C", root, "all").CombinedOutput()
			require.NoError(t, err, string(output))
			for _, library := range []string{"libarenagen_" + tc.backend + ".so", "libarenagen.so"} {
				host := &arenatest.Hosted{
					Program: arenatest.CompileHost(t, out+"/include"), Library: filepath.Join(out, "lib", library), Backend: tc.backend,
					Env: []string{tc.override + "=" + real, "LD_LIBRARY_PATH=" + strings.Join(needed, ":")},
				}
				session := host.Start(t)
				answer := session.Do("create", 64<<20, 0, 0, 0, 0)
				assert.Equal(t, "no_device", answer.Status, answer.Text)
				assert.Contains(t, answer.Text, tc.says)
				assert.Equal(t, "no_device", session.Do("create", 64<<20, 0, 0, 0, 0).Status, "the process lives on")
			}
			doctor := exec.Command(filepath.Join(out, "bin", "arenactl"), "doctor")
			doctor.Env = append(os.Environ(), tc.override+"="+real, "LD_LIBRARY_PATH="+strings.Join(needed, ":"))
			output, err = doctor.Output()
			assert.Error(t, err, "there is no device that can be used")
			assert.Contains(t, string(output), tc.says)
			assert.Contains(t, string(output), "The driver is there and sees no device")
		})
	}
}
