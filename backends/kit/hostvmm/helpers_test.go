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
func open(tb testing.TB, options hostvmm.Options) *hostvmm.Driver {
	tb.Helper()
	d, r := hostvmm.Open(0, options)
	require.Equal(tb, hostvmm.Success, r)
	empty := d.Snapshot()
	tb.Cleanup(func() {
		assert.Equal(tb, empty, d.Snapshot(), "something was not given back")
		require.Equal(tb, hostvmm.Success, d.Close())
	})
	return d
}

func reserve(tb testing.TB, d *hostvmm.Driver, size uint64) uint64 {
	tb.Helper()
	var va uint64
	require.Equal(tb, hostvmm.Success, d.MemAddressReserve(&va, size, 0, 0, 0))
	tb.Cleanup(func() { require.Equal(tb, hostvmm.Success, d.MemAddressFree(va, size)) })
	return va
}

func create(tb testing.TB, d *hostvmm.Driver, size uint64, handleType int32) uint64 {
	tb.Helper()
	var handle uint64
	require.Equal(tb, hostvmm.Success, d.MemCreate(&handle, size, handleType, 0))
	return handle
}

func release(tb testing.TB, d *hostvmm.Driver, handle uint64) {
	tb.Helper()
	require.Equal(tb, hostvmm.Success, d.MemRelease(handle))
}

func mapAt(tb testing.TB, d *hostvmm.Driver, va, size, handle uint64) {
	tb.Helper()
	require.Equal(tb, hostvmm.Success, d.MemMap(va, size, 0, handle, 0))
}

func unmap(tb testing.TB, d *hostvmm.Driver, va, size uint64) {
	tb.Helper()
	require.Equal(tb, hostvmm.Success, d.MemUnmap(va, size))
}

func grant(tb testing.TB, d *hostvmm.Driver, va, size uint64, access int32) {
	tb.Helper()
	require.Equal(tb, hostvmm.Success, d.MemSetAccess(va, size, access, 0))
}

// allocate backs [va, va+size) with memory that only the mapping keeps, and
// grants access to it.
func allocate(tb testing.TB, d *hostvmm.Driver, va, size uint64) {
	tb.Helper()
	handle := create(tb, d, size, hostvmm.HandleTypeNone)
	mapAt(tb, d, va, size, handle)
	grant(tb, d, va, size, hostvmm.AccessReadWrite)
	release(tb, d, handle)
}

// memory returns the account of a driver in mode host.
func memory(tb testing.TB, d *hostvmm.Driver) hostvmm.MemorySnapshot {
	tb.Helper()
	snapshot := d.Snapshot()
	require.NotNil(tb, snapshot.Memory)
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
func files(tb testing.TB) []int {
	tb.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(tb, err)
	var fds []int
	for _, link := range links {
		target, err := os.Readlink(link)
		if err == nil && strings.HasPrefix(target, "/memfd:hostvmm") {
			fds = append(fds, number(tb, filepath.Base(link)))
		}
	}
	return fds
}

// pageBytes returns how many bytes of physical memory the driver's files hold.
func pageBytes(tb testing.TB) int64 {
	tb.Helper()
	var bytes int64
	for _, fd := range files(tb) {
		bytes += stat(tb, fd).Blocks * 512
	}
	return bytes
}

func stat(tb testing.TB, fd int) unix.Stat_t {
	tb.Helper()
	var info unix.Stat_t
	require.NoError(tb, unix.Fstat(fd, &info))
	return info
}

// limit lowers a soft limit of this process until the test ends.
func limit(tb testing.TB, resource int, soft uint64) {
	tb.Helper()
	var before unix.Rlimit
	require.NoError(tb, unix.Getrlimit(resource, &before))
	tb.Cleanup(func() { require.NoError(tb, unix.Setrlimit(resource, &before)) })
	require.NoError(tb, unix.Setrlimit(resource, &unix.Rlimit{Cur: soft, Max: before.Max}))
}

func number(tb testing.TB, text string) int {
	tb.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(tb, err)
	return n
}

// descriptors returns all descriptors of this process and what they are of.
func descriptors(tb testing.TB) map[string]string {
	tb.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(tb, err)
	all := map[string]string{}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil { // not the one that this reads the folder with
			all[link] = target
		}
	}
	return all
}

// linkOf is a path that opens what a file of this process is of.
func linkOf(file *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(file.Fd())) }
