package hostvmm_test

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/arenagen/arenagen/backends/kit/hostvmm"
)

const (
	minGranule = 64 << 10
	granule    = 2 << 20
)

// open opens device 0. When the test ends it checks that the test gave
// everything back, and closes the device.
func open(t testing.TB, options hostvmm.Options) *hostvmm.Driver {
	t.Helper()
	d, r := hostvmm.Open(0, options)
	require.Equal(t, hostvmm.Success, r)
	empty := d.Snapshot()
	t.Cleanup(func() {
		assert.Equal(t, empty, d.Snapshot(), "something was not given back")
		require.Equal(t, hostvmm.Success, d.Close())
	})
	return d
}

func reserve(t testing.TB, d *hostvmm.Driver, size uint64) uint64 {
	t.Helper()
	var va uint64
	require.Equal(t, hostvmm.Success, d.MemAddressReserve(&va, size, 0, 0, 0))
	t.Cleanup(func() { require.Equal(t, hostvmm.Success, d.MemAddressFree(va, size)) })
	return va
}

func create(t testing.TB, d *hostvmm.Driver, size uint64, handleType int32) uint64 {
	t.Helper()
	var handle uint64
	require.Equal(t, hostvmm.Success, d.MemCreate(&handle, size, handleType, 0))
	return handle
}

func release(t testing.TB, d *hostvmm.Driver, handle uint64) {
	t.Helper()
	require.Equal(t, hostvmm.Success, d.MemRelease(handle))
}

func mapAt(t testing.TB, d *hostvmm.Driver, va, size, handle uint64) {
	t.Helper()
	require.Equal(t, hostvmm.Success, d.MemMap(va, size, 0, handle, 0))
}

func unmap(t testing.TB, d *hostvmm.Driver, va, size uint64) {
	t.Helper()
	require.Equal(t, hostvmm.Success, d.MemUnmap(va, size))
}

func grant(t testing.TB, d *hostvmm.Driver, va, size uint64, access int32) {
	t.Helper()
	require.Equal(t, hostvmm.Success, d.MemSetAccess(va, size, access))
}

// allocate backs [va, va+size) with memory that only the mapping keeps, and
// grants access to it.
func allocate(t testing.TB, d *hostvmm.Driver, va, size uint64) {
	t.Helper()
	handle := create(t, d, size, hostvmm.HandleTypeNone)
	mapAt(t, d, va, size, handle)
	grant(t, d, va, size, hostvmm.AccessReadWrite)
	release(t, d, handle)
}

// memory returns the account of a driver in mode host.
func memory(t testing.TB, d *hostvmm.Driver) hostvmm.MemorySnapshot {
	t.Helper()
	snapshot := d.Snapshot()
	require.NotNil(t, snapshot.Memory)
	return *snapshot.Memory
}

// readFaults says whether reading the byte at va is a fault there.
func readFaults(va uint64) bool {
	var sink byte
	return faultsAt(va, func() { sink += hostvmm.Bytes(va, 1)[0] })
}

// writeFaults says whether writing the byte at va is a fault there.
func writeFaults(va uint64) bool {
	return faultsAt(va, func() { hostvmm.Bytes(va, 1)[0] = 1 })
}

func faultsAt(va uint64, touch func()) (faulted bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			fault, ok := p.(interface{ Addr() uintptr })
			faulted = ok && uint64(fault.Addr()) == va
		}
	}()
	touch()
	return false
}

// files returns the descriptors of this process that are files of the driver.
func files(t testing.TB) []int {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	var fds []int
	for _, link := range links {
		target, err := os.Readlink(link)
		if err == nil && strings.HasPrefix(target, "/memfd:hostvmm") {
			fds = append(fds, number(t, filepath.Base(link)))
		}
	}
	return fds
}

// pageBytes returns how many bytes of physical memory the driver's files hold.
func pageBytes(t testing.TB) int64 {
	t.Helper()
	var bytes int64
	for _, fd := range files(t) {
		bytes += stat(t, fd).Blocks * 512
	}
	return bytes
}

func stat(t testing.TB, fd int) unix.Stat_t {
	t.Helper()
	var info unix.Stat_t
	require.NoError(t, unix.Fstat(fd, &info))
	return info
}

// limit lowers a soft limit of this process until the test ends.
func limit(t testing.TB, resource int, soft uint64) {
	t.Helper()
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(resource, &before))
	t.Cleanup(func() { require.NoError(t, unix.Setrlimit(resource, &before)) })
	require.NoError(t, unix.Setrlimit(resource, &unix.Rlimit{Cur: soft, Max: before.Max}))
}

func number(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}
