package hostvmm

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// openWith opens a host device that has a budget of its own.
func openWith(t *testing.T, limit int64) (*Driver, *budget) {
	t.Helper()
	d, r := Open(0, Options{})
	require.Equal(t, Success, r)
	b := &budget{limit: limit}
	d.watcher.device.(*host).budget = b
	t.Cleanup(func() {
		assert.Equal(t, Success, d.Close())
		assert.Zero(t, b.used.Load())
	})
	return d, b
}

// Random maps and unmaps answer as a naive model says, and the budget counts
// at least the mappings that the kernel has.
func TestRandomMappings(t *testing.T) {
	const slots, size = 24, defaultMinGranule
	d, b := openWith(t, 1000)
	var va, handle uint64
	require.Equal(t, Success, d.MemAddressReserve(&va, slots*size, 0, 0, 0))
	require.Equal(t, Success, d.MemCreate(&handle, slots*size, HandleTypeNone, 0))

	random := rand.New(rand.NewPCG(1, 2))
	var model [slots]int // which mapping is there; 0 is none
	for step := 1; step <= 5000; step++ {
		start := random.IntN(slots)
		end := min(start+1+random.IntN(4), slots)
		at, n := va+uint64(start)*size, uint64(end-start)*size
		want, next := ErrorInvalidValue, model
		if step%2 == 0 {
			if isUnmapped(model[start:end]) {
				want = Success
				fill(next[start:end], step)
			}
			require.Equal(t, want, d.MemMap(at, n, 0, handle, 0))
			if want == Success {
				require.Equal(t, Success, d.MemSetAccess(at, n, AccessReadWrite, 0))
			}
		} else {
			if isWhole(model[:], start, end) {
				want = Success
				fill(next[start:end], 0)
			}
			require.Equal(t, want, d.MemUnmap(at, n))
		}
		model = next
		pieces := len(slices.Compact(slices.Clone(model[:])))
		require.EqualValues(t, pieces, b.used.Load())
		if step%100 == 0 {
			require.LessOrEqual(t, kernelMappings(t, va, va+slots*size), pieces)
		}
	}
}

func isUnmapped(slots []int) bool {
	return !slices.ContainsFunc(slots, func(mapping int) bool { return mapping != 0 })
}

// isWhole says whether [start, end) is some mappings without a hole or a part.
func isWhole(slots []int, start, end int) bool {
	return !slices.Contains(slots[start:end], 0) &&
		(start == 0 || slots[start-1] != slots[start]) &&
		(end == len(slots) || slots[end-1] != slots[end])
}

func fill(slots []int, mapping int) {
	for i := range slots {
		slots[i] = mapping
	}
}

// kernelMappings counts the mappings of this process that lie in [start, end).
func kernelMappings(t *testing.T, start, end uint64) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	count := 0
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		_, err := fmt.Sscanf(line, "%x-%x", &from, &to)
		require.NoError(t, err)
		if from < end && start < to {
			count++
		}
	}
	return count
}

func TestBudgetIsSpent(t *testing.T) {
	const size = defaultMinGranule
	d, b := openWith(t, 4)
	var va, other, handle uint64
	require.Equal(t, Success, d.MemAddressReserve(&va, 8*size, 0, 0, 0))
	require.Equal(t, Success, d.MemCreate(&handle, size, HandleTypeNone, 0))
	require.Equal(t, Success, d.MemMap(va+size, size, 0, handle, 0)) // with the ranges beside it: 3
	before := d.Snapshot()

	assert.Equal(t, ErrorOutOfMemory, d.MemMap(va+4*size, size, 0, handle, 0), "needs 2 more")
	assert.Equal(t, before, d.Snapshot())
	assert.EqualValues(t, 3, b.used.Load())
	assert.Equal(t, Success, d.MemMap(va+2*size, size, 0, handle, 0), "needs 1 more")
	assert.Equal(t, ErrorOutOfMemory, d.MemAddressReserve(&other, size, 0, 0, 0))
	assert.Equal(t, Success, d.MemMap(va, size, 0, handle, 0), "takes the place of a plain range")

	assert.Equal(t, Success, d.MemUnmap(va, 3*size))
	assert.EqualValues(t, 1, b.used.Load())
	assert.Equal(t, Success, d.MemRelease(handle))
	assert.Zero(t, d.Snapshot().Memory.CreatedBytes, "a refused map keeps no reference")
}

// With the limit that this machine has, the process goes on working when the
// driver has no mappings left.
func TestKernelMappingsRunOut(t *testing.T) {
	const size = defaultMinGranule
	limit := maxMapCount()
	if limit > 1<<21 {
		t.Skipf("this machine allows %d mappings: too many to use them up", limit)
	}
	d, r := Open(0, Options{})
	require.Equal(t, Success, r)
	defer d.Close()
	var va, handle uint64
	require.Equal(t, Success, d.MemAddressReserve(&va, uint64(limit)*size, 0, 0, 0))
	require.Equal(t, Success, d.MemCreate(&handle, size, HandleTypeNone, 0))

	// Every other granule, so that nothing can be joined.
	at := va + size
	for r = Success; r == Success; at += 2 * size {
		r = d.MemMap(at, size, 0, handle, 0)
	}
	require.Equal(t, ErrorOutOfMemory, r)
	mapped := d.Snapshot().Memory.Mappings
	assert.Greater(t, mapped, int(limit/3))
	assert.Less(t, kernelMappings(t, 0, 1<<63), int(limit))

	for at -= 4 * size; at > va; at -= 2 * size { // the last one that was mapped, and on down
		require.Equal(t, Success, d.MemUnmap(at, size))
	}
	require.Equal(t, Success, d.MemRelease(handle))
	assert.Equal(t, MemorySnapshot{}, *d.Snapshot().Memory)
}
