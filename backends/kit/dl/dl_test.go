package dl_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/backends/kit/dl"
)

const override = "ARENAGEN_DL_TEST_LIBRARY"

// compile compiles the driver, and returns its file.
func compile(tb testing.TB, flags ...string) string {
	tb.Helper()
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "gcc"
	}
	file := filepath.Join(tb.TempDir(), "libdriver.so.1")
	argv := append([]string{"-O1", "-shared", "-fPIC", "-o", file, "testdata/driver.c"}, flags...)
	output, err := exec.Command(compiler, argv...).CombinedOutput()
	require.NoError(tb, err, string(output))
	return file
}

func open(tb testing.TB) *dl.Library {
	tb.Helper()
	library, err := dl.Open([]string{compile(tb)}, "")
	require.NoError(tb, err)
	return library
}

func find(tb testing.TB, library *dl.Library, symbol string) dl.Function {
	tb.Helper()
	f, ok := library.Find(symbol)
	require.True(tb, ok, symbol)
	return f
}

func TestOpen(t *testing.T) {
	file := compile(t)
	library, err := dl.Open([]string{"libarenagen_there_is_none.so.1", file}, override)
	require.NoError(t, err)
	assert.Equal(t, file, library.Path())
}

func TestOpenTellsWhatWasTried(t *testing.T) {
	text := filepath.Join(t.TempDir(), "libtext.so")
	require.NoError(t, os.WriteFile(text, []byte("this is no library"), 0o600))
	_, err := dl.Open([]string{"libarenagen_there_is_none.so.1", text, t.TempDir()}, override)
	missing := new(dl.NotFoundError)
	require.ErrorAs(t, err, &missing)
	require.Len(t, missing.Tried, 3)
	assert.ErrorContains(t, err, "libarenagen_there_is_none.so.1 (cannot open shared object file")
	assert.ErrorContains(t, err, text+" (")
	assert.ErrorContains(t, err, override+" can name another file")
}

func TestOpenLibraryThatNeedsAnother(t *testing.T) {
	inner := compile(t, "-Wl,-soname,libinner.so.1")
	outer := filepath.Join(t.TempDir(), "libouter.so")
	output, err := exec.Command("gcc", "-shared", "-fPIC", "-o", outer, "testdata/driver.c", "-Wl,--no-as-needed", inner).CombinedOutput()
	require.NoError(t, err, string(output))
	_, err = dl.Open([]string{outer}, "")
	require.ErrorContains(t, err, "libinner.so.1")
}

func TestOverride(t *testing.T) {
	file := compile(t)
	t.Setenv(override, file)
	library, err := dl.Open([]string{"libarenagen_there_is_none.so.1"}, override)
	require.NoError(t, err)
	assert.Equal(t, file, library.Path())

	t.Setenv(override, "libdriver.so.1")
	_, err = dl.Open([]string{file}, override)
	require.ErrorContains(t, err, "libdriver.so.1 (named by "+override+", expected an absolute path)")

	t.Setenv(override, "/there/is/none.so")
	_, err = dl.Open([]string{file}, override)
	require.ErrorContains(t, err, "/there/is/none.so")
	assert.NotContains(t, err.Error(), file, "an override is the only one")

	t.Setenv(override, "")
	_, err = dl.Open([]string{file}, override)
	require.NoError(t, err)
}

func TestFind(t *testing.T) {
	library := open(t)
	_, ok := library.Find("driver_none")
	assert.False(t, ok)
	var plain, second, none dl.Function
	require.NoError(t, library.Resolve([]dl.Symbol{
		{Name: "driver_old", To: &plain}, {Name: "driver_old_v2", To: &second}, {Name: "driver_none", To: &none, Optional: true},
	}))
	assert.Equal(t, uint64(1), plain.Call(&dl.Frame{}))
	assert.Equal(t, uint64(2), second.Call(&dl.Frame{}))
	assert.Zero(t, none)

	err := library.Resolve([]dl.Symbol{{Name: "driver_none", To: &none}, {Name: "driver_old", To: &plain}, {Name: "driver_nil", To: &none}})
	missing := new(dl.MissingError)
	require.ErrorAs(t, err, &missing)
	assert.Equal(t, []string{"driver_none", "driver_nil"}, missing.Symbols)
	assert.ErrorContains(t, err, library.Path())
}

func TestCall(t *testing.T) {
	library := open(t)
	assert.Equal(t, int32(-3), int32(find(t, library, "driver_narrow").Call(&dl.Frame{})))

	sum := dl.Frame{Args: [dl.MaxArgs]uint64{1, 2, 3, 4, 5, 1 << 60}}
	assert.Equal(t, uint64(1+4+9+16+25)+6<<60, find(t, library, "driver_sum").Call(&sum))

	var widths dl.Frame
	for i, offset := range []int{0, 2, 4, 8} {
		widths.Point(i, offset)
	}
	widths.Put8(0, 254)
	widths.Put16(2, 65534)
	widths.Put32(4, 1<<32-2)
	widths.Put64(8, 1<<64-2)
	find(t, library, "driver_widths").Call(&widths)
	assert.Equal(t, uint32(255), widths.Get32(0)&0xff)
	assert.Equal(t, uint32(65535), widths.Get32(0)>>16)
	assert.Equal(t, uint32(1<<32-1), widths.Get32(4))
	assert.Equal(t, uint64(1<<64-1), widths.Get64(8))

	var property dl.Frame
	property.Point(0, 0)
	property.Point(1, dl.ScratchSize-8)
	property.Put32(0, 7)
	property.Put32(4, 1)
	property.Put32(8, 2)
	property.Put8(12, 3)
	find(t, library, "driver_struct").Call(&property)
	assert.Equal(t, uint64(7123), property.Get64(dl.ScratchSize-8))
}

func TestCallWith(t *testing.T) {
	reverse := find(t, open(t), "driver_reverse")
	memory := []byte("abcdef")
	frame := dl.Frame{Args: [dl.MaxArgs]uint64{0, uint64(len(memory))}}
	assert.Equal(t, int32(6), int32(reverse.CallWith(&frame, 0, memory)))
	assert.Equal(t, "fedcba", string(memory))
	assert.Zero(t, reverse.CallWith(&dl.Frame{}, 0, nil))

	property := make([]byte, 16)
	property[0], property[12] = 7, 3
	stored := dl.Frame{}
	stored.Point(1, 8)
	find(t, open(t), "driver_struct").CallWith(&stored, 0, property)
	assert.Equal(t, uint64(7003), stored.Get64(8))
}

func TestText(t *testing.T) {
	name := find(t, open(t), "driver_name")
	assert.Equal(t, "DRIVER_OUT_OF_MEMORY", dl.Text(name.Call(&dl.Frame{Args: [dl.MaxArgs]uint64{2}})))
	assert.Empty(t, dl.Text(name.Call(&dl.Frame{})))
}

func TestTextIn(t *testing.T) {
	assert.Equal(t, "a name", dl.TextIn([]byte("a name\x00more")))
	assert.Equal(t, "cut", dl.TextIn([]byte("cut")))
	assert.Empty(t, dl.TextIn(nil))
}

func TestVersion(t *testing.T) {
	cuda := dl.DecodeVersion(12040, 1000, 10, 0)
	assert.Equal(t, "12.4", cuda.String())
	hip := dl.DecodeVersion(60443484, 10000000, 100000, 1)
	assert.Equal(t, "6.4.43484", hip.String())
	assert.True(t, cuda.Before(dl.Version{Major: 12, Minor: 5}))
	assert.True(t, cuda.Before(dl.Version{Major: 13}))
	assert.True(t, hip.Before(dl.Version{Major: 6, Minor: 4, Patch: 43485}))
	assert.False(t, hip.Before(hip))
	assert.False(t, cuda.Before(dl.Version{Major: 11, Minor: 8}))
}

func TestCallsAllocateNothing(t *testing.T) {
	library := open(t)
	five, reverse := find(t, library, "driver_five"), find(t, library, "driver_reverse")
	memory := make([]byte, 16)
	call := func() {
		frame := dl.Frame{Args: [dl.MaxArgs]uint64{0, 1, 2, 3, 4}}
		frame.Point(0, 0)
		if five.Call(&frame) != 0 || frame.Get64(0) != 10 {
			panic("the call failed")
		}
		with := dl.Frame{Args: [dl.MaxArgs]uint64{0, 16}}
		reverse.CallWith(&with, 0, memory)
	}
	call()
	assert.Zero(t, testing.AllocsPerRun(1000, call))
}

func TestConcurrentCalls(t *testing.T) {
	five := find(t, open(t), "driver_five")
	var group sync.WaitGroup
	wrong := make([]bool, 16)
	for i := range wrong {
		group.Go(func() {
			for n := range uint64(1000) {
				frame := dl.Frame{Args: [dl.MaxArgs]uint64{0, n, uint64(i)}}
				frame.Point(0, 8*i%40)
				five.Call(&frame)
				wrong[i] = wrong[i] || frame.Get64(8*i%40) != n+uint64(i)
			}
		})
	}
	group.Wait()
	assert.NotContains(t, wrong, true)
}

// A process that runs with more rights than its user has takes no library from the environment. A test that is not
// root cannot make one; as root, a copy of this program that belongs to somebody else and is set-uid is one.
func TestOverrideOfSetUIDProcess(t *testing.T) {
	if os.Getenv("ARENAGEN_DL_TEST_CHILD") != "" {
		_, err := dl.Open([]string{"libarenagen_there_is_none.so.1"}, override)
		require.Error(t, err)
		_, err = os.Stdout.WriteString("tried: " + err.Error() + "\n")
		require.NoError(t, err)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("only root can make a set-uid program of somebody else's")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	content, err := os.ReadFile(self)
	require.NoError(t, err)
	folder, err := os.MkdirTemp("/var/tmp", "arenagen-dl-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	require.NoError(t, os.Chmod(folder, 0o755))
	program := filepath.Join(folder, "program")
	require.NoError(t, os.WriteFile(program, content, 0o755))
	const nobody = 65534
	require.NoError(t, os.Chown(program, nobody, nobody))
	require.NoError(t, os.Chmod(program, 0o755|os.ModeSetuid))

	command := exec.Command(program, "-test.run", "^TestOverrideOfSetUIDProcess$")
	command.Env = append(os.Environ(), "ARENAGEN_DL_TEST_CHILD=1", override+"=/there/is/none.so")
	command.Dir = folder
	output, err := command.CombinedOutput()
	require.NoError(t, err, string(output))
	line, _, _ := strings.Cut(string(bytes.TrimSpace(output)), "\n")
	assert.Contains(t, line, "libarenagen_there_is_none.so.1")
	assert.NotContains(t, line, "/there/is/none.so")
}

func BenchmarkCall(b *testing.B) {
	five := find(b, open(b), "driver_five")
	b.ReportAllocs()
	for b.Loop() {
		frame := dl.Frame{Args: [dl.MaxArgs]uint64{0, 1, 2, 3, 4}}
		frame.Point(0, 0)
		five.Call(&frame)
	}
}

func BenchmarkCallPlain(b *testing.B) {
	old := find(b, open(b), "driver_old")
	b.ReportAllocs()
	for b.Loop() {
		old.Call(&dl.Frame{})
	}
}

// A struct in a frame points to the next one, wherever the call puts both.
func TestLink(t *testing.T) {
	chain := find(t, open(t), "driver_chain")
	var frame dl.Frame
	frame.Point(0, 0)
	frame.Put32(0, 1)
	frame.Put64(16, 1<<40)
	frame.Link(8, 24)
	frame.Put32(24, 2)
	frame.Put64(40, 2)
	frame.Point(1, 48)
	assert.Equal(t, int32(12), int32(chain.Call(&frame)))
	assert.Equal(t, uint64(1<<40+2), frame.Get64(48))
}

func TestItems(t *testing.T) {
	library := open(t)
	for fails, want := range map[uint64][]uint64{0: {1 << 40, 2 << 40}, 1: nil, 2: nil} {
		frame := dl.Frame{Args: [dl.MaxArgs]uint64{fails}}
		frame.Point(1, 8)
		items, result := find(t, library, "driver_items").Items(&frame, 2, 8, 8, 0)
		assert.Equal(t, want, items)
		assert.Equal(t, fails != 0, result != 0)
	}
	var none dl.Frame
	none.Point(0, 0)
	items, result := find(t, library, "driver_no_items").Items(&none, 1, 0, 4, 0)
	assert.Zero(t, result)
	assert.Empty(t, items)
}

func TestMemory(t *testing.T) {
	memory := make(dl.Memory, 16)
	memory.Put32(0, 7)
	memory.Put16(4, 1)
	memory.Put8(8, 2)
	memory.Put8(12, 3)
	memory.Put16(4, 0)
	memory.Put8(4, 1)
	memory.Put8(8, 2)
	var stored dl.Frame
	stored.Point(1, 8)
	find(t, open(t), "driver_struct").CallWith(&stored, 0, memory)
	assert.Equal(t, uint64(7123), stored.Get64(8))
	memory.Put64(8, 1<<40+5)
	assert.Equal(t, uint64(1<<40+5), memory.Get64(8))
	assert.Equal(t, uint32(5), memory.Get32(8))
}
