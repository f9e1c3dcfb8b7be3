package arena_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

func TestNoMemoryAndNothingToTrim(t *testing.T) {
	v := newVault(t)
	v.limit = 4 * granule
	a := openConfig(t, v, 64, arena.Config{})
	vas := mallocs(t, a, 3)
	before := a.Stats()
	_, err := a.Malloc(2*granule - 1)
	short := new(arena.OutOfMemoryError)
	require.ErrorAs(t, err, &short)
	assert.Equal(t, arena.Shortage{Requested: 2 * granule, Mapped: 3 * granule, Attempt: 1}, short.Shortage)
	require.ErrorIs(t, err, vmm.ClassOutOfMemory)
	assert.Equal(t, 4, v.counted().allocate, "there is nothing to try again for")
	before.Failed++
	before.Used += 2 * granule
	assert.Equal(t, before, a.Stats())
	assert.Equal(t, uint64(base+5*granule), malloc(t, a, 1), "the next one works")
	require.NoError(t, a.Free(vas[0]))
	malloc(t, a, 1)
	require.NoError(t, a.Release())
}

func TestOutOfMemoryErrorTellsWhatThereIs(t *testing.T) {
	d := newRig(t)
	d.memory = 64 * granule
	a := openRig(t, d, arena.Config{Cache: 8 * granule})
	kept := malloc(t, a, 10*granule)
	require.NoError(t, a.Free(malloc(t, a, 2*granule)))
	d.fail(vmm.OpRelease, 1, errDriver) // of the cached handle: what is told beside it
	_, err := a.Malloc(55 * granule)
	short := new(arena.OutOfMemoryError)
	require.ErrorAs(t, err, &short)
	assert.Equal(t, arena.Shortage{
		Requested: 55 * granule, Mapped: 10 * granule, Free: 54 * granule, Capacity: 64 * granule, Attempt: 2,
	}, short.Shortage)
	assert.EqualError(t, err, fmt.Sprintf(
		"no memory for %d bytes after 2 attempts: this arena has %d bytes mapped and 0 cached, the device has %d of %d free: out of memory",
		55*granule, 10*granule, 54*granule, 64*granule))
	require.NoError(t, a.Free(kept))
	malloc(t, a, 56*granule)
	require.NoError(t, a.Release())
}

func TestNoMemoryTrimsAndTriesAgain(t *testing.T) {
	for name, config := range map[string]arena.Config{
		"the cache":     {Cache: 8 * slabSize},
		"what is ahead": {Placement: arena.Slab(slabSize), Prefetch: 3 * slabSize},
		"both":          {Placement: arena.Slab(slabSize), Prefetch: 2 * slabSize, Cache: 8 * slabSize},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := newVault(t)
				v.limit = 5 * slabSize
				a := openConfig(t, v, 1024, config)
				synctest.Wait()
				asked := 0
				a.OnOutOfMemory(func(arena.Shortage) bool { asked++; return false })
				malloc(t, a, slabSize)
				if config.Cache > 0 {
					require.NoError(t, a.Free(malloc(t, a, slabSize+granule)))
				}
				synctest.Wait()
				held := a.CacheStats().Bytes + a.SlabStats().Ahead
				require.NotZero(t, held)
				before := v.counted().allocate
				va := malloc(t, a, 4*slabSize) // only when all of that goes
				assert.Equal(t, before+2, v.counted().allocate, "once more")
				assert.Zero(t, asked, "there was something to give back")
				assert.Zero(t, a.CacheStats().Bytes+a.SlabStats().Ahead)
				synctest.Wait()
				assert.Zero(t, a.SlabStats().Ahead, "it is not mapped ahead again at once")
				assert.Zero(t, a.Stats().Failed)
				require.NoError(t, a.Free(va))
				require.NoError(t, a.Release())
			})
		})
	}
}

// The memory of a slab that is being mapped ahead is memory that could be given back.
func TestNoMemoryWhileASlabIsMappedAhead(t *testing.T) {
	// Not in a bubble: a mutex is waited for.
	v := newVault(t)
	a := openAhead(t, v, 1, arena.Config{})
	g := newGate()
	var held atomic.Bool // the driver has the memory, and is not back
	v.onAllocate = func(va, _ uint64) error {
		if va == slabAt(1) {
			held.Store(true)
			g.park()
			held.Store(false)
		} else if held.Load() || v.handlesNow() == 2 {
			return errMemory
		}
		return nil
	}
	malloc(t, a, slabSize)
	for !held.Load() {
		runtime.Gosched()
	}
	done := background(func() error { _, err := a.Malloc(slabSize); return err })
	for v.counted().allocate < 3 {
		runtime.Gosched()
	}
	for range 100 {
		runtime.Gosched()
	}
	assertRunning(t, done)
	g.open()
	require.NoError(t, <-done)
	require.NoError(t, a.Release())
}

func TestShortageIsAskedAsLongAsItSaysSo(t *testing.T) {
	v := newVault(t)
	v.limit = 4 * granule
	a := openConfig(t, v, 64, arena.Config{})
	vas := mallocs(t, a, 4)
	var asked []arena.Shortage
	a.OnOutOfMemory(func(s arena.Shortage) bool {
		asked = append(asked, s)
		// Outside all locks: it may do anything with the arena.
		assertBalance(t, a.Stats())
		registered(t, a)
		_, err := a.Regions(arena.RegionsDmabuf)
		assert.NoError(t, err)
		_, err = a.Trim(0)
		assert.NoError(t, err)
		assert.ErrorIs(t, a.Reset(), arena.ErrNotEmpty)
		if len(vas) > 0 {
			assert.NoError(t, a.Free(vas[0]))
			vas = vas[1:]
		}
		return true
	})
	malloc(t, a, 3*granule)
	require.Len(t, asked, 3)
	for i, s := range asked {
		assert.Equal(t, arena.Shortage{Requested: 3 * granule, Mapped: uint64(4-i) * granule, Attempt: i + 1}, s)
	}
	assert.Zero(t, a.Stats().Failed)

	asked = nil
	a.OnOutOfMemory(func(s arena.Shortage) bool { asked = append(asked, s); return len(asked) < 5 })
	_, err := a.Malloc(4 * granule)
	require.ErrorIs(t, err, vmm.ClassOutOfMemory)
	assert.Len(t, asked, 5)
	a.OnOutOfMemory(nil)
	_, err = a.Malloc(4 * granule)
	require.ErrorIs(t, err, vmm.ClassOutOfMemory)
	assert.Len(t, asked, 5)
	require.NoError(t, a.Release())
}

func TestAllocationOfAShortageDoesNotAskAgain(t *testing.T) {
	v := newVault(t)
	v.limit = 1 * granule
	a := openConfig(t, v, 64, arena.Config{})
	other := newVault(t)
	other.limit = granule
	b := openConfig(t, other, 64, arena.Config{})
	asked := 0
	ask := func(arena.Shortage) bool {
		asked++
		_, err := a.Malloc(2 * granule)
		assert.ErrorIs(t, err, vmm.ClassOutOfMemory)
		_, err = b.Malloc(2 * granule)
		assert.ErrorIs(t, err, vmm.ClassOutOfMemory)
		assert.ErrorIs(t, a.Close(), arena.ErrBusy)
		assert.ErrorIs(t, a.Release(), arena.ErrBusy)
		_, err = a.CloseAndDrain()
		assert.ErrorIs(t, err, arena.ErrBusy)
		assert.False(t, a.Closed())
		return false
	}
	a.OnOutOfMemory(ask)
	b.OnOutOfMemory(ask)
	_, err := a.Malloc(2 * granule)
	require.ErrorIs(t, err, vmm.ClassOutOfMemory)
	assert.Equal(t, 1, asked)
	assert.Equal(t, uint64(2), a.Stats().Failed)
	malloc(t, a, 1)
	require.NoError(t, a.Release())
	require.NoError(t, b.Release())
}

func TestShortageThatPanics(t *testing.T) {
	for name, config := range map[string]arena.Config{"per allocation": {}, "slabs": {Placement: arena.Slab(2 * granule)}, "reuse": {Reuse: true}} {
		t.Run(name, func(t *testing.T) {
			v := newVault(t)
			v.limit = granule
			a := openConfig(t, v, 64, config)
			a.OnOutOfMemory(func(arena.Shortage) bool { panic("no idea") })
			_, err := a.Malloc(2 * granule)
			panicked, short := new(arena.PanicError), new(arena.OutOfMemoryError)
			require.ErrorAs(t, err, &panicked)
			assert.Equal(t, "no idea", panicked.Value)
			assert.EqualError(t, panicked, "the function that is asked when there is no memory left panicked: no idea")
			require.ErrorAs(t, err, &short)
			require.ErrorIs(t, err, vmm.ClassOutOfMemory)
			assert.Equal(t, uint64(1), a.Stats().Failed)
			v.limit = 0
			malloc(t, a, 1)
			assert.Equal(t, a.Used(), registered(t, a), "nothing is under way")
			require.NoError(t, a.Close(), "and nothing is waited for")
			require.NoError(t, a.Release())
		})
	}
}

func TestNoMemoryThatIsQuarantined(t *testing.T) {
	v := newVault(t)
	a := openConfig(t, v, 64, arena.Config{Cache: 8 * granule})
	require.NoError(t, a.Free(malloc(t, a, granule)))
	a.OnOutOfMemory(func(arena.Shortage) bool { t.Error("it is asked"); return false })
	v.onAllocate = func(_, _ uint64) error { return fmt.Errorf("%w: %w", vmm.ErrQuarantined, errMemory) }
	before := v.counted().allocate
	_, err := a.Malloc(2 * granule)
	require.ErrorIs(t, err, vmm.ErrQuarantined)
	require.ErrorIs(t, err, vmm.ClassOutOfMemory)
	assert.Equal(t, before+1, v.counted().allocate, "its addresses are in use")
	assert.Equal(t, uint64(1), a.Stats().Quarantined)
	assertBalance(t, a.Stats())
	v.onAllocate = nil
	require.NoError(t, a.Close())
	assert.Zero(t, v.handlesNow())
	assertBalance(t, a.Stats())
}

// What cannot be attached for want of memory is given back, and new memory is tried.
func TestNoMemoryToAttach(t *testing.T) {
	v := newVault(t)
	a := openConfig(t, v, 64, arena.Config{Cache: 8 * granule})
	vas := mallocs(t, a, 2)
	require.NoError(t, a.Free(vas[0]))
	require.NoError(t, a.Free(vas[1]))
	v.onAttach = func(_, _, _ uint64) error { return errMemory }
	malloc(t, a, 1)
	assert.Equal(t, keeping{attach: 1, detach: 2, destroy: 2}, v.keeping())
	assert.Equal(t, 3, v.counted().allocate)
	assertCacheBalance(t, a.CacheStats())
	require.NoError(t, a.Release())
}

func TestThreadsWithoutMemory(t *testing.T) {
	for name, config := range map[string]arena.Config{
		"per allocation": {},
		"cache":          {Cache: 4 * granule, Reuse: true},
		"slabs":          {Placement: arena.Slab(4 * granule), Prefetch: 8 * granule, Cache: 8 * granule},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVault(t)
			v.limit = 24 * granule
			slow(v.fake)
			a := openConfig(t, v, 1<<18, config)
			var spare sync.Map
			var asked atomic.Int64
			a.OnOutOfMemory(func(arena.Shortage) bool {
				asked.Add(1)
				again := false
				spare.Range(func(va, _ any) bool {
					if _, mine := spare.LoadAndDelete(va); mine {
						again = true
						assert.NoError(t, a.Free(va.(uint64)))
					}
					return !again
				})
				return again
			})
			var all sync.WaitGroup
			for range 6 {
				all.Go(func() {
					for range 300 {
						va, err := a.Malloc(1 + rand.Int64N(5*granule))
						if err == nil {
							spare.Store(va, true)
						} else {
							assert.ErrorIs(t, err, vmm.ClassOutOfMemory)
						}
					}
				})
			}
			all.Wait()
			assert.NotZero(t, asked.Load())
			assertBalance(t, a.Stats())
			require.NoError(t, a.Close())
			require.NoError(t, a.Release())
			assert.Zero(t, v.handlesNow())
		})
	}
}
