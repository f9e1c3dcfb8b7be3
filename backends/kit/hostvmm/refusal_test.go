package hostvmm

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// What the kernel refuses changes nothing. A bad descriptor stands for all
// reasons that it may have.
func TestKernelRefuses(t *testing.T) {
	const size = defaultMinGranule
	d, b := openWith(t, 1000)
	store := &d.watcher.device.(*host).store
	var va, handle uint64
	require.Equal(t, Success, d.MemAddressReserve(&va, 4*size, 0, 0, 0))
	require.Equal(t, Success, d.MemCreate(&handle, size, HandleTypeNone, 0))
	m := store.handles[handle]
	good, bad := m.fd, -1
	before, used := d.Snapshot(), b.used.Load()

	t.Run("to map", func(t *testing.T) {
		m.fd = bad
		assert.Equal(t, ErrorOperatingSystem, d.MemMap(va, size, 0, handle, 0))
		assert.Equal(t, before, d.Snapshot())
		assert.Equal(t, used, b.used.Load())
		m.fd = good
		require.Equal(t, Success, d.MemMap(va, size, 0, handle, 0))
		require.Equal(t, Success, d.MemUnmap(va, size))
		require.Equal(t, 1, m.references)
	})

	t.Run("to drop pages", func(t *testing.T) {
		require.Equal(t, Success, d.MemMap(va, size, 0, handle, 0))
		require.Equal(t, Success, d.MemRelease(handle))
		m.fd = bad
		assert.Equal(t, ErrorOperatingSystem, d.MemUnmap(va, size))
		assert.Equal(t, MemorySnapshot{CreatedBytes: size}, *d.Snapshot().Memory, "unmapped, but the memory still exists")

		var other uint64
		require.Equal(t, Success, d.MemCreate(&other, size, HandleTypeNone, 0))
		assert.NotEqual(t, m.offset, store.handles[other].offset, "its range is not used again")
	})
}

func TestResultOf(t *testing.T) {
	for err, want := range map[error]Result{
		nil:         Success,
		unix.ENOMEM: ErrorOutOfMemory,
		unix.ENOSPC: ErrorOutOfMemory,
		unix.EFBIG:  ErrorOutOfMemory,
		unix.EAGAIN: ErrorOutOfMemory,
		unix.EPERM:  ErrorNotPermitted,
		unix.EACCES: ErrorNotPermitted,
		unix.EMFILE: ErrorOperatingSystem,
		unix.ENFILE: ErrorOperatingSystem,
	} {
		assert.Equal(t, want, resultOf(err), "%v", err)
	}
}
