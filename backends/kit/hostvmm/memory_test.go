package hostvmm_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/arenagen/arenagen/backends/kit/hostvmm"
)

func TestCreateRefuses(t *testing.T) {
	tests := []struct {
		name       string
		size       uint64
		handleType int32
		flags      uint64
		want       hostvmm.Result
	}{
		{"size 0", 0, hostvmm.HandleTypeNone, 0, hostvmm.ErrorInvalidValue},
		{"part of a granule", minGranule + 4096, hostvmm.HandleTypeNone, 0, hostvmm.ErrorInvalidValue},
		{"unknown handle type", granule, 2, 0, hostvmm.ErrorInvalidValue},
		{"negative handle type", granule, -1, 0, hostvmm.ErrorInvalidValue},
		{"flags", granule, hostvmm.HandleTypeNone, 1, hostvmm.ErrorInvalidValue},
	}
	for name, mode := range modes {
		for _, tt := range tests {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				d := open(t, hostvmm.Options{Mode: mode})
				handle := uint64(12345)
				assert.Equal(t, tt.want, d.MemCreate(&handle, tt.size, tt.handleType, tt.flags))
				assert.Equal(t, uint64(12345), handle, "a failure stores nothing")
			})
		}
	}
}

func TestCreateBeyondTheHost(t *testing.T) {
	for _, handleType := range []int32{hostvmm.HandleTypeNone, hostvmm.HandleTypePosixFD} {
		d := open(t, hostvmm.Options{})
		var handle uint64
		assert.Equal(t, hostvmm.ErrorOutOfMemory, d.MemCreate(&handle, 1<<63, handleType, 0))
	}
}

func TestCapacity(t *testing.T) {
	for _, handleType := range []int32{hostvmm.HandleTypeNone, hostvmm.HandleTypePosixFD} {
		d := open(t, hostvmm.Options{Capacity: 3 * granule})
		first := create(t, d, 2*granule, handleType)
		var second uint64
		assert.Equal(t, hostvmm.ErrorOutOfMemory, d.MemCreate(&second, 2*granule, handleType, 0))
		release(t, d, first)
		release(t, d, create(t, d, 3*granule, handleType))
	}
}

func TestHandlesAreNeverUsedAgain(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			d := open(t, hostvmm.Options{Mode: mode})
			seen := map[uint64]bool{0: true}
			for range 100 {
				handle := create(t, d, granule, hostvmm.HandleTypeNone)
				assert.False(t, seen[handle], "handle %d", handle)
				seen[handle] = true
				release(t, d, handle)
			}
		})
	}
}

func TestReleaseRefusesDeadHandles(t *testing.T) {
	d := open(t, hostvmm.Options{})
	handle := create(t, d, granule, hostvmm.HandleTypeNone)
	for _, dead := range []uint64{0, handle + 1, 1 << 63} {
		assert.Equal(t, hostvmm.ErrorInvalidValue, d.MemRelease(dead))
	}
	release(t, d, handle)
	assert.Equal(t, hostvmm.ErrorInvalidValue, d.MemRelease(handle))
}

func TestMemoryLivesWhileItIsMapped(t *testing.T) {
	for _, handleType := range []int32{hostvmm.HandleTypeNone, hostvmm.HandleTypePosixFD} {
		d := open(t, hostvmm.Options{})
		va := reserve(t, d, 2*granule)
		handle := create(t, d, granule, handleType)
		mapAt(t, d, va, granule, handle)
		release(t, d, handle)
		assert.Equal(t, hostvmm.ErrorInvalidValue, d.MemMap(va+granule, granule, 0, handle, 0), "the handle is dead")
		assert.Equal(t, hostvmm.MemorySnapshot{CreatedBytes: granule, Mappings: 1, MappedBytes: granule}, memory(t, d))

		grant(t, d, va, granule, hostvmm.AccessReadWrite)
		hostvmm.Bytes(va, granule)[granule-1] = 7
		unmap(t, d, va, granule)
		assert.Zero(t, memory(t, d))
	}
}

func TestPagesComeAtTheFirstTouchAndGoBack(t *testing.T) {
	for _, handleType := range []int32{hostvmm.HandleTypeNone, hostvmm.HandleTypePosixFD} {
		d := open(t, hostvmm.Options{})
		va := reserve(t, d, 2*granule)
		handle := create(t, d, granule, handleType)
		mapAt(t, d, va, granule, handle)
		mapAt(t, d, va+granule, granule, handle)
		grant(t, d, va, 2*granule, hostvmm.AccessReadWrite)
		assert.Zero(t, pageBytes(t))

		clear(hostvmm.Bytes(va, granule))
		assert.EqualValues(t, granule, pageBytes(t))
		release(t, d, handle)
		unmap(t, d, va, granule)
		assert.EqualValues(t, granule, pageBytes(t), "the other mapping keeps them")
		unmap(t, d, va+granule, granule)
		assert.Zero(t, pageBytes(t))
	}
}

func TestNewMemoryIsZero(t *testing.T) {
	d := open(t, hostvmm.Options{})
	va := reserve(t, d, granule)
	for range 3 {
		allocate(t, d, va, granule)
		assert.Zero(t, hostvmm.Bytes(va, granule)[granule-1])
		hostvmm.Bytes(va, granule)[granule-1] = 1
		unmap(t, d, va, granule)
	}
}

func TestSharedFileDoesNotGrowOverCycles(t *testing.T) {
	d := open(t, hostvmm.Options{})
	sizes := []uint64{granule, 4 * minGranule, 3 * granule, minGranule}
	var handles [4]uint64
	var size int64
	for cycle := range 50 {
		for i := range handles {
			handles[i] = create(t, d, sizes[i], hostvmm.HandleTypeNone)
		}
		fds := files(t)
		require.Len(t, fds, 1)
		if cycle == 0 {
			size = stat(t, fds[0]).Size
		}
		assert.Equal(t, size, stat(t, fds[0]).Size)
		for i := range handles {
			release(t, d, handles[(i+cycle)%len(handles)])
		}
	}
}

func TestTenThousandHandlesUnderTheUsualLimitOnOpenFiles(t *testing.T) {
	limit(t, unix.RLIMIT_NOFILE, 1024)
	const n = 10_000
	d := open(t, hostvmm.Options{})
	va := reserve(t, d, n*minGranule)
	handles := make([]uint64, n)
	for i := range handles {
		handles[i] = create(t, d, minGranule, hostvmm.HandleTypeNone)
		at := va + uint64(i)*minGranule
		mapAt(t, d, at, minGranule, handles[i])
		grant(t, d, at, minGranule, hostvmm.AccessReadWrite)
		hostvmm.Bytes(at, 1)[0] = byte(i)
	}
	assert.Equal(t, hostvmm.MemorySnapshot{
		Handles: n, CreatedBytes: n * minGranule, Mappings: n, MappedBytes: n * minGranule,
	}, memory(t, d))
	for i, handle := range handles {
		at := va + uint64(i)*minGranule
		require.Equal(t, byte(i), hostvmm.Bytes(at, 1)[0])
		unmap(t, d, at, minGranule)
		release(t, d, handle)
	}
	assert.Zero(t, pageBytes(t))
}

func TestNoDescriptorLeft(t *testing.T) {
	for _, handleType := range []int32{hostvmm.HandleTypeNone, hostvmm.HandleTypePosixFD} {
		d := open(t, hostvmm.Options{})
		before := files(t)
		t.Run("limited", func(t *testing.T) {
			limit(t, unix.RLIMIT_NOFILE, 0)
			var handle uint64
			assert.Equal(t, hostvmm.ErrorOperatingSystem, d.MemCreate(&handle, granule, handleType, 0))
		})
		assert.Equal(t, before, files(t))
		release(t, d, create(t, d, granule, handleType))
	}
}

func TestFileSizeLimit(t *testing.T) {
	for _, handleType := range []int32{hostvmm.HandleTypeNone, hostvmm.HandleTypePosixFD} {
		d := open(t, hostvmm.Options{})
		fits := create(t, d, granule, handleType)
		before := files(t)
		t.Run("limited", func(t *testing.T) {
			limit(t, unix.RLIMIT_FSIZE, granule)
			var handle uint64
			assert.Equal(t, hostvmm.ErrorOutOfMemory, d.MemCreate(&handle, 2*granule, handleType, 0))
		})
		assert.Equal(t, before, files(t))
		assert.Equal(t, hostvmm.MemorySnapshot{Handles: 1, CreatedBytes: granule}, memory(t, d))
		release(t, d, fits)
	}
}

func TestExport(t *testing.T) {
	d := open(t, hostvmm.Options{})
	va := reserve(t, d, granule)
	handle := create(t, d, granule, hostvmm.HandleTypePosixFD)
	mapAt(t, d, va, granule, handle)
	grant(t, d, va, granule, hostvmm.AccessReadWrite)
	copy(hostvmm.Bytes(va, granule), "hello")

	var fd int32
	require.Equal(t, hostvmm.Success, d.MemExportToShareableHandle(&fd, handle, hostvmm.HandleTypePosixFD, 0))
	defer func() { assert.NoError(t, unix.Close(int(fd))) }()
	unmap(t, d, va, granule)
	release(t, d, handle)
	assert.Equal(t, []int{int(fd)}, files(t), "only the caller's own descriptor is left")

	text := make([]byte, 5)
	_, err := unix.Pread(int(fd), text, 0)
	require.NoError(t, err)
	assert.Equal(t, "hello", string(text))

	assert.EqualValues(t, granule, stat(t, int(fd)).Size)
	assert.ErrorIs(t, unix.Ftruncate(int(fd), 0), unix.EPERM)
	assert.ErrorIs(t, unix.Ftruncate(int(fd), 2*granule), unix.EPERM)
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)
	assert.ErrorIs(t, err, unix.EPERM)
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	require.NoError(t, err)
	assert.Equal(t, unix.FD_CLOEXEC, flags)
}

func TestExportRefuses(t *testing.T) {
	d := open(t, hostvmm.Options{})
	exportable := create(t, d, granule, hostvmm.HandleTypePosixFD)
	private := create(t, d, granule, hostvmm.HandleTypeNone)
	tests := []struct {
		name       string
		handle     uint64
		handleType int32
		flags      uint64
	}{
		{"not exportable", private, hostvmm.HandleTypePosixFD, 0},
		{"no such handle", 1 << 40, hostvmm.HandleTypePosixFD, 0},
		{"no handle", 0, hostvmm.HandleTypePosixFD, 0},
		{"wrong type", exportable, hostvmm.HandleTypeNone, 0},
		{"flags", exportable, hostvmm.HandleTypePosixFD, 1},
	}
	before := files(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fd := int32(-1)
			assert.Equal(t, hostvmm.ErrorInvalidValue, d.MemExportToShareableHandle(&fd, tt.handle, tt.handleType, tt.flags))
			assert.Equal(t, int32(-1), fd, "a failure stores nothing")
		})
	}
	t.Run("no descriptor left", func(t *testing.T) {
		limit(t, unix.RLIMIT_NOFILE, 0)
		var fd int32
		assert.Equal(t, hostvmm.ErrorOperatingSystem, d.MemExportToShareableHandle(&fd, exportable, hostvmm.HandleTypePosixFD, 0))
	})
	assert.Equal(t, before, files(t))
	release(t, d, exportable)
	release(t, d, private)
}
