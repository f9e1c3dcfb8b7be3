// Package vendor_test compares the specs of backends with what their vendors publish: headers of several versions, and
// libraries. So spec and simulator cannot agree on a mistake. The files are fetched, and never committed.
package vendor_test

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena/arenatest"
)

const root = "../.."

// fetched is the folder of what vendors publish, and why something is lacking.
var fetched = sync.OnceValues(func() (string, error) {
	folder, err := filepath.Abs(root + "/out/vendor")
	if err != nil {
		return "", err
	}
	output, err := exec.Command("./fetch", folder).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("fetch: %w: %s", err, output)
	}
	return folder, err
})

// fetch returns the folder of what vendors publish. A test that has no network is skipped. Where only some of it could not
// be fetched, that is told, and what is there is compared.
func fetch(t *testing.T) string {
	t.Helper()
	folder, err := fetched()
	exit := (*exec.ExitError)(nil)
	switch {
	case !errors.As(err, &exit):
		require.NoError(t, err)
	case exit.ExitCode() == 2:
		t.Skip(err)
	default: // archives move on; what is there is enough if it is of two major versions
		t.Log(err)
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
	{"levelzero", "levelzero", "usr/include"}, // the newest: what optional functions need is in no older one
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
	assert.GreaterOrEqual(t, backends["cuda"], 2)
	assert.GreaterOrEqual(t, backends["hip"], 2)
}

// compilers are those of the platforms that the libraries are built for.
var compilers = []string{"x86_64-linux-gnu-gcc", "aarch64-linux-gnu-gcc"}

// TestHeaders compiles what a spec says of its header, together with that.
func TestHeaders(t *testing.T) {
	fetch(t)
	for _, compiler := range compilers {
		t.Run(compiler, func(t *testing.T) {
			if _, err := exec.LookPath(compiler); err != nil {
				t.Skipf("there is no %s", compiler)
			}
			each(t, func(t *testing.T, h header, include string) { //nolint:thelper // it is the body of a subtest
				output, err := exec.Command(compiler, "-std=gnu11", "-fsyntax-only", "-I"+include, checkOf(h.backend)).CombinedOutput()
				assert.NoError(t, err, string(output))
			})
		})
	}
}

// A wrong number, offset, type, sign, symbol or version does not compile: the check is one that can fail.
func TestHeadersRefuseAWrongSpec(t *testing.T) {
	include, err := filepath.Glob(filepath.Join(fetch(t), "cuda-12", "nvidia/*/include"))
	require.NoError(t, err)
	if len(include) == 0 {
		t.Skip("there is no header of CUDA 12")
	}
	text, err := os.ReadFile(checkOf("cuda"))
	require.NoError(t, err)
	for _, change := range [][2]string{
		{"CU_MEM_HANDLE_TYPE_FABRIC == 8", "CU_MEM_HANDLE_TYPE_FABRIC == 4"},
		{"offsetof(CUmemAllocationProp, location) == 8", "offsetof(CUmemAllocationProp, location) == 4"},
		{"sizeof(CUmemAccessDesc) == 12", "sizeof(CUmemAccessDesc) == 16"},
		{"CUresult (*)(CUdeviceptr ptr, size_t size)", "CUresult (*)(CUdeviceptr ptr, int size)"},
		{"CUDA_ERROR_OUT_OF_MEMORY == 2", "CUDA_ERROR_OUT_OF_MEMORY == 3"},
		{"(CUdevice)-1 < 0", "(CUdevice)-1 > 0"},
		{`NAME(cuMemcpyDtoH), "cuMemcpyDtoH_v2"`, `NAME(cuMemcpyDtoH), "cuMemcpyDtoH"`},
		{"_Static_assert(CUDA_VERSION > 0", "_Static_assert(CUDA_VERSOIN > 0"},
	} {
		require.Contains(t, string(text), change[0])
		file := filepath.Join(t.TempDir(), "wrong.c")
		require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(text), change[0], change[1], 1)), 0o600))
		output, err := exec.Command("gcc", "-std=gnu11", "-fsyntax-only", "-I"+include[0], file).CombinedOutput()
		assert.Error(t, err, change[1])
		assert.Regexp(t, "static assertion failed|undeclared", string(output))
	}
}

var (
	declaration = regexp.MustCompile(`\b(\w+)\(([^()]*)\)\s*;`)
	signature   = regexp.MustCompile(`(?m)^_Static_assert\(__builtin_types_compatible_p\(__typeof__\(&(\w+)\).*"[^"(]*\((.*)\)"\);$`)
	named       = regexp.MustCompile(`(?m)^_Static_assert\((?:\w+ == -?\d+|__builtin_types.*), "(?:[^"(]* \**)?(\w+)[^"]*"\);$`)
	identifier  = regexp.MustCompile(`\w+`)
)

// preprocess is a check's text for a header, first the header's own: what that version lacks is left out.
func preprocess(t *testing.T, check, include string) string {
	t.Helper()
	text, err := exec.Command("gcc", "-std=gnu11", "-E", "-P", "-I"+include, check).Output()
	require.NoError(t, err)
	return string(text)
}

func checkOf(backend string) string { return "checks/zz_generated_" + backend + ".c" }

// parameters are the names of a declaration's parameters, "" for one without.
func parameters(list string) []string {
	var names []string
	for part := range strings.SplitSeq(list, ",") {
		words := identifier.FindAllString(part, -1)
		if len(words) < 2 {
			names = append(names, "") // void, or a type alone
			continue
		}
		names = append(names, words[len(words)-1])
	}
	return names
}

// lists are the parameters of the functions that a pattern finds, by the functions' symbols.
func lists(pattern *regexp.Regexp, text string) map[string][]string {
	found := map[string][]string{}
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		found[m[1]] = parameters(m[2])
	}
	return found
}

// headerOf are the parameters of a preprocessed header's functions.
func headerOf(text string) map[string][]string {
	return lists(declaration, strings.Join(strings.Fields(text), " "))
}

// swapped lists the functions of a spec whose parameters stand in another order, or are called something else, than in a
// header. Two sizes that are swapped pass any check of types.
func swapped(spec, header map[string][]string) []string {
	var wrong []string
	for name, want := range spec {
		if have, ok := header[name]; !ok || !slices.Equal(want, have) {
			wrong = append(wrong, fmt.Sprintf("%s(%s), the header has (%s)", name, strings.Join(want, ", "), strings.Join(have, ", ")))
		}
	}
	slices.Sort(wrong)
	return wrong
}

func TestParameterNames(t *testing.T) {
	each(t, func(t *testing.T, h header, include string) { //nolint:thelper // it is the body of a subtest
		text := preprocess(t, checkOf(h.backend), include)
		spec := lists(signature, text)
		require.Greater(t, len(spec), 10)
		assert.Empty(t, swapped(spec, headerOf(text)))
	})
}

// Two parameters next to each other that are swapped are found, whichever they are.
func TestSwappedParametersAreFound(t *testing.T) {
	each(t, func(t *testing.T, h header, include string) { //nolint:thelper // it is the body of a subtest
		text := preprocess(t, checkOf(h.backend), include)
		header := headerOf(text)
		for _, m := range signature.FindAllStringSubmatch(text, -1) {
			list := strings.Split(m[2], ", ")
			for i := range len(list) - 1 {
				list[i], list[i+1] = list[i+1], list[i]
				wrong := strings.Replace(m[0], m[2]+`)");`, strings.Join(list, ", ")+`)");`, 1)
				assert.Len(t, swapped(lists(signature, wrong), header), 1, wrong)
				list[i], list[i+1] = list[i+1], list[i]
			}
		}
	})
}

// newer are the names that a check leaves out for a header and that this has all the same.
func newer(check, text string) []string {
	header, _, _ := strings.Cut(text, "_Static_assert")
	has := map[string]bool{}
	for _, word := range identifier.FindAllString(header, -1) {
		has[word] = true
	}
	checked := names(text)
	return slices.DeleteFunc(names(check), func(name string) bool { return !has[name] || slices.Contains(checked, name) })
}

// names are the values and functions that a check is about.
func names(check string) []string {
	var found []string
	for _, m := range named.FindAllStringSubmatch(check, -1) {
		found = append(found, m[1])
	}
	return found
}

// TestSince finds what is in a header although the spec says that it came later: it would not be checked.
func TestSince(t *testing.T) {
	each(t, func(t *testing.T, h header, include string) { //nolint:thelper // it is the body of a subtest
		check, err := os.ReadFile(checkOf(h.backend))
		require.NoError(t, err)
		assert.Empty(t, newer(string(check), preprocess(t, checkOf(h.backend), include)))

		if !strings.Contains(string(check), "_VERSION >= ") {
			return // nothing came later than another thing
		}
		late := filepath.Join(t.TempDir(), "late.c")
		since := regexp.MustCompile(`(_VERSION >= )\d+(\n_Static_assert\(__builtin_types.*Synchronize\()`).ReplaceAll(check, []byte("${1}999999999${2}"))
		require.NoError(t, os.WriteFile(late, since, 0o600))
		assert.Len(t, newer(string(since), preprocess(t, late, include)), 2, "the check is one that can fail")
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

// libraries are the vendors' own, of every version that was fetched.
var libraries = map[string]string{
	"cuda":      "usr/lib/*/nvidia/current/libcuda.so.1",
	"hip":       "usr/lib/*/libamdhip64.so.[0-9]",
	"levelzero": "usr/lib/*/libze_loader.so.1",
}

// librariesOf are those in some of the packages.
func librariesOf(t *testing.T, packages, backend string) []string {
	t.Helper()
	if libraries[backend] == "" {
		t.Skipf("the vendor of %s publishes no library in a package", backend)
	}
	found, err := filepath.Glob(filepath.Join(fetch(t), packages, libraries[backend]))
	require.NoError(t, err)
	if len(found) == 0 {
		t.Skipf("%s has no library of %s", packages, backend)
	}
	return found
}

// TestSymbols finds every function that a spec needs in the vendor's libraries.
func TestSymbols(t *testing.T) {
	for _, b := range model(t).Backends {
		if b.Library == nil {
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			for _, library := range librariesOf(t, "*", b.Name) {
				file, err := elf.Open(library)
				require.NoError(t, err)
				defer func() { assert.NoError(t, file.Close()) }()
				exported, err := file.DynamicSymbols()
				require.NoError(t, err)
				for _, f := range slices.Concat(b.Functions, b.Library.Helpers) {
					if slices.ContainsFunc(exported, func(s elf.Symbol) bool { return s.Name == f.C.Symbol && s.Section != elf.SHN_UNDEF }) {
						continue
					}
					assert.True(t, f.C.Optional, "%s has no %s", library, f.C.Symbol)
					t.Logf("%s has no %s, which is optional", library, f.C.Symbol)
				}
			}
		})
	}
}

// TestRealLibraries has the built libraries load the vendor's own on a machine without a device.
func TestRealLibraries(t *testing.T) {
	for _, tc := range []struct{ backend, override, module, says string }{
		{"cuda", "ARENAGEN_CUDA_LIBRARY", "/sys/module/nvidia", "cuInit answered CUDA_ERROR_NO_DEVICE, 100"},
		{"levelzero", "ARENAGEN_LEVELZERO_LIBRARY", "/sys/module/xe", "no device (zeInit answered ZE_RESULT_ERROR_UNINITIALIZED, 2013265921)"},
		{"hip", "ARENAGEN_HIP_LIBRARY", "/sys/module/amdgpu", "hipInit answered hipErrorInvalidDevice, 101"},
	} {
		t.Run(tc.backend, func(t *testing.T) {
			if _, err := os.Stat(tc.module); err == nil {
				t.Skipf("this machine has a driver: %s", tc.module)
			}
			real := librariesOf(t, "lib*", tc.backend)[0]
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
