package hostvmm_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/arenagen/arenagen/backends/kit/hostvmm"
)

// exportOf returns a descriptor of a handle's memory, which is closed when the test ends at the latest.
func exportOf(tb testing.TB, d *hostvmm.Driver, handle uint64) *os.File {
	tb.Helper()
	var fd int32
	require.Equal(tb, hostvmm.Success, d.MemExportToShareableHandle(&fd, handle, hostvmm.HandleTypePosixFD, 0))
	file := os.NewFile(uintptr(fd), "exported")
	tb.Cleanup(func() { _ = file.Close() })
	return file
}

func importFrom(tb testing.TB, d *hostvmm.Driver, file *os.File) uint64 {
	tb.Helper()
	var handle uint64
	require.Equal(tb, hostvmm.Success, d.MemImportFromShareableHandle(&handle, int32(file.Fd()), hostvmm.HandleTypePosixFD))
	return handle
}

// place maps a handle and grants access to it.
func place(tb testing.TB, d *hostvmm.Driver, va, handle uint64) {
	tb.Helper()
	mapAt(tb, d, va, granule, handle)
	grant(tb, d, va, granule, hostvmm.AccessReadWrite)
}

// Both handles are the same memory, which lives until the last of them and of the mappings is gone, in whichever order.
func TestImport(t *testing.T) {
	for name, first := range map[string]int{"exporter ends first": 0, "importer ends first": 1} {
		t.Run(name, func(t *testing.T) {
			drivers := [2]*hostvmm.Driver{open(t, hostvmm.Options{}), open(t, hostvmm.Options{Capacity: granule})}
			vas := [2]uint64{reserve(t, drivers[0], granule), reserve(t, drivers[1], granule)}
			handles := [2]uint64{create(t, drivers[0], granule, hostvmm.HandleTypePosixFD)}
			file := exportOf(t, drivers[0], handles[0])
			handles[1] = importFrom(t, drivers[1], file)
			require.NoError(t, file.Close(), "the descriptor stays the caller's")

			for i, d := range drivers {
				place(t, d, vas[i], handles[i])
			}
			copy(hostvmm.Bytes(vas[0], granule)[granule-8:], "exporter")
			assert.Equal(t, "exporter", string(hostvmm.Bytes(vas[1], granule)[granule-8:]))
			copy(hostvmm.Bytes(vas[1], granule), "importer")
			assert.Equal(t, "importer", string(hostvmm.Bytes(vas[0], 8)))

			second := 1 - first
			unmap(t, drivers[first], vas[first], granule)
			release(t, drivers[first], handles[first])
			assert.Zero(t, memory(t, drivers[first]))
			release(t, drivers[second], handles[second])
			assert.Equal(t, "importer", string(hostvmm.Bytes(vas[second], 8)), "the mapping keeps it")
			assert.NotZero(t, pageBytes(t))
			unmap(t, drivers[second], vas[second], granule)
			assert.Zero(t, memory(t, drivers[second]))
			assert.Empty(t, files(t))
		})
	}
}

// What is imported exists elsewhere: it is not created here, and what is created here fits beside it.
func TestImportCountsWhereItWasCreated(t *testing.T) {
	d := open(t, hostvmm.Options{Capacity: granule})
	created := create(t, d, granule, hostvmm.HandleTypePosixFD)
	imported := importFrom(t, d, exportOf(t, d, created))
	assert.Equal(t, hostvmm.MemorySnapshot{Handles: 2, CreatedBytes: granule}, memory(t, d))
	release(t, d, created)
	assert.Equal(t, hostvmm.MemorySnapshot{Handles: 1}, memory(t, d))
	created = create(t, d, granule, hostvmm.HandleTypeNone)
	var free, total uint64
	require.Equal(t, hostvmm.Success, d.MemGetInfo(&free, &total))
	assert.Zero(t, free)
	release(t, d, imported)
	assert.Equal(t, hostvmm.MemorySnapshot{Handles: 1, CreatedBytes: granule}, memory(t, d))
	release(t, d, created)
}

func TestImportCanBeExportedAgain(t *testing.T) {
	d := open(t, hostvmm.Options{})
	va := reserve(t, d, granule)
	first := create(t, d, granule, hostvmm.HandleTypePosixFD)
	second := importFrom(t, d, exportOf(t, d, first))
	third := importFrom(t, d, exportOf(t, d, second))
	place(t, d, va, third)
	copy(hostvmm.Bytes(va, granule), "third hand")
	unmap(t, d, va, granule)
	release(t, d, third)
	release(t, d, second)
	place(t, d, va, first)
	assert.Equal(t, "third hand", string(hostvmm.Bytes(va, 10)))
	unmap(t, d, va, granule)
	release(t, d, first)
}

func TestCloseGivesImportsBack(t *testing.T) {
	owner, d := open(t, hostvmm.Options{}), open(t, hostvmm.Options{})
	created := create(t, owner, granule, hostvmm.HandleTypePosixFD)
	file := exportOf(t, owner, created)
	before := files(t)
	var va uint64
	require.Equal(t, hostvmm.Success, d.MemAddressReserve(&va, granule, 0, 0, 0))
	mapAt(t, d, va, granule, importFrom(t, d, file))
	importFrom(t, d, file)
	require.Equal(t, hostvmm.Success, d.Close())
	assert.Zero(t, memory(t, d))
	assert.Equal(t, before, files(t))
	release(t, owner, created)
}

// memfd makes a file in memory with some seals.
func memfd(t *testing.T, size int64, seals int) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("not the driver's", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	require.NoError(t, err)
	file := os.NewFile(uintptr(fd), "memfd")
	t.Cleanup(func() { _ = file.Close() })
	require.NoError(t, file.Truncate(size))
	_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, seals)
	require.NoError(t, err)
	return file
}

// reopened opens a file once more, with other flags.
func reopened(t *testing.T, file *os.File, flags int) *os.File {
	t.Helper()
	fd, err := unix.Open(linkOf(file), flags|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	again := os.NewFile(uintptr(fd), "reopened")
	t.Cleanup(func() { _ = again.Close() })
	return again
}

const finalSize = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

func TestImportRefuses(t *testing.T) {
	d := open(t, hostvmm.Options{})
	created := create(t, d, granule, hostvmm.HandleTypePosixFD)
	good := exportOf(t, d, created)
	plain := create(t, d, granule, hostvmm.HandleTypeNone) // its file is not sealed
	closed := reopened(t, good, unix.O_RDWR)
	number := int32(closed.Fd())
	require.NoError(t, closed.Close())
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer func() { assert.NoError(t, read.Close()); assert.NoError(t, write.Close()) }()
	regular, err := os.Create(t.TempDir() + "/regular")
	require.NoError(t, err)
	defer func() { assert.NoError(t, regular.Close()) }()
	require.NoError(t, regular.Truncate(granule))
	of := func(file *os.File) int32 { return int32(file.Fd()) }

	tests := map[string]struct {
		fd, handleType int32
	}{
		"-1":                 {-1, hostvmm.HandleTypePosixFD},
		"the smallest":       {-1 << 31, hostvmm.HandleTypePosixFD},
		"never opened":       {1 << 30, hostvmm.HandleTypePosixFD},
		"closed":             {number, hostvmm.HandleTypePosixFD},
		"a pipe":             {of(read), hostvmm.HandleTypePosixFD},
		"a regular file":     {of(regular), hostvmm.HandleTypePosixFD},
		"without seals":      {of(memfd(t, granule, 0)), hostvmm.HandleTypePosixFD},
		"can shrink":         {of(memfd(t, granule, unix.F_SEAL_GROW|unix.F_SEAL_SEAL)), hostvmm.HandleTypePosixFD},
		"can be sealed more": {of(memfd(t, granule, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK)), hostvmm.HandleTypePosixFD},
		"cannot be written":  {of(memfd(t, granule, finalSize|unix.F_SEAL_WRITE)), hostvmm.HandleTypePosixFD},
		"part of a granule":  {of(memfd(t, granule+4096, finalSize)), hostvmm.HandleTypePosixFD},
		"empty":              {of(memfd(t, 0, finalSize)), hostvmm.HandleTypePosixFD},
		"opened for reading": {of(reopened(t, good, unix.O_RDONLY)), hostvmm.HandleTypePosixFD},
		"only a path":        {of(reopened(t, good, unix.O_PATH)), hostvmm.HandleTypePosixFD},
		"no type":            {of(good), hostvmm.HandleTypeNone},
		"another type":       {of(good), 2},
	}
	before, all := memory(t, d), descriptors(t)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			handle := uint64(12345)
			assert.Equal(t, hostvmm.ErrorInvalidValue, d.MemImportFromShareableHandle(&handle, tt.fd, tt.handleType))
			assert.Equal(t, uint64(12345), handle, "a failure stores nothing")
		})
	}
	t.Run("no descriptor left", func(t *testing.T) {
		limit(t, unix.RLIMIT_NOFILE, 0)
		var handle uint64
		assert.Equal(t, hostvmm.ErrorOperatingSystem, d.MemImportFromShareableHandle(&handle, of(good), hostvmm.HandleTypePosixFD))
	})
	assert.Equal(t, before, memory(t, d))
	assert.Equal(t, all, descriptors(t))
	release(t, d, created)
	release(t, d, plain)
}

func TestImportedDescriptors(t *testing.T) {
	d := open(t, hostvmm.Options{})
	created := create(t, d, granule, hostvmm.HandleTypePosixFD)
	file := exportOf(t, d, created)
	before := files(t)
	imported := importFrom(t, d, file)
	assert.Len(t, files(t), len(before)+1)
	for _, fd := range files(t) {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		require.NoError(t, err)
		assert.Equal(t, unix.FD_CLOEXEC, flags)
	}
	release(t, d, imported)
	assert.Equal(t, before, files(t))
	release(t, d, created)
}

// inChild says to the test binary that it is the second process of TestImportInAnotherProcess.
const inChild = "HOSTVMM_TEST_IMPORTS"

// A second process sees the same bytes, and each keeps the memory when the other has given it back.
func TestImportInAnotherProcess(t *testing.T) {
	if os.Getenv(inChild) != "" {
		importInChild(t)
		return
	}
	d := open(t, hostvmm.Options{})
	va := reserve(t, d, granule)
	shared, kept := create(t, d, granule, hostvmm.HandleTypePosixFD), create(t, d, granule, hostvmm.HandleTypePosixFD)
	place(t, d, va, shared)
	copy(hostvmm.Bytes(va, granule), "parent")
	unmap(t, d, va, granule)

	child := exec.Command(os.Args[0], "-test.run=^TestImportInAnotherProcess$")
	child.Env = append(os.Environ(), inChild+"=1")
	child.ExtraFiles = []*os.File{exportOf(t, d, shared), exportOf(t, d, kept)}
	child.Stderr = os.Stderr
	input, err := child.StdinPipe()
	require.NoError(t, err)
	output, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	lines := bufio.NewReader(output)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "imported\n", line)

	release(t, d, shared)
	for _, file := range child.ExtraFiles {
		require.NoError(t, file.Close())
	}
	require.Len(t, files(t), 1, "of the kept memory: the shared one is the child's alone")
	_, err = io.WriteString(input, "released\n")
	require.NoError(t, err)
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.NoError(t, child.Wait(), string(rest))
	assert.Contains(t, string(rest), "PASS")

	place(t, d, va, kept)
	assert.Equal(t, "child", string(hostvmm.Bytes(va, 5)), "the child is gone, what it wrote is there")
	unmap(t, d, va, granule)
	release(t, d, kept)
}

// importInChild imports the two descriptors that the parent left open, and uses the first after the parent gave it back.
func importInChild(t *testing.T) {
	t.Helper()
	d := open(t, hostvmm.Options{})
	vas := [2]uint64{reserve(t, d, granule), reserve(t, d, granule)}
	for i, va := range vas {
		file := os.NewFile(uintptr(3+i), "inherited")
		handle := importFrom(t, d, file)
		require.NoError(t, file.Close())
		place(t, d, va, handle)
		release(t, d, handle)
	}
	copy(hostvmm.Bytes(vas[1], granule), "child")
	_, err := os.Stdout.WriteString("imported\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "released", strings.TrimSpace(line))
	assert.Equal(t, "parent", string(hostvmm.Bytes(vas[0], 6)))
	for _, va := range vas {
		unmap(t, d, va, granule)
	}
	assert.Empty(t, files(t))
}
