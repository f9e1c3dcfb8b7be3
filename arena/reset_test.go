package arena_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

func TestResetStartsOver(t *testing.T) {
	f := newFake(t)
	a := open(t, f, 8)
	for range 3 {
		va := malloc(t, a, 5*granule)
		assert.Equal(t, uint64(base), va)
		err := a.Reset()
		require.ErrorIs(t, err, arena.ErrNotEmpty)
		assert.EqualError(t, err, "the arena is not empty: 1 allocations are live, 0 deferred, 0 quarantined")
		assert.Equal(t, uint64(5*granule), a.Used())
		require.NoError(t, a.Free(va))
		require.NoError(t, a.Reset())
		assert.Zero(t, a.Used())
	}
	assertBalance(t, a.Stats())
	require.NoError(t, a.Close())
	require.ErrorIs(t, a.Reset(), arena.ErrClosed)
	require.NoError(t, a.Release())
}

func TestResetWithWhatIsQuarantined(t *testing.T) {
	f := newFake(t)
	a := open(t, f, 8)
	va := malloc(t, a, 1)
	f.onRelease = func(_, _, _ uint64) error { return vmm.ErrQuarantined }
	require.ErrorIs(t, a.Free(va), vmm.ErrQuarantined)
	require.ErrorIs(t, a.Reset(), arena.ErrNotEmpty)
	f.onRelease = nil
	require.NoError(t, a.Release())
}

func TestResetWhileACallIsUnderWay(t *testing.T) {
	for _, name := range []string{"allocate", "release"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				a := open(t, f, 8)
				vas := mallocs(t, a, 1)
				g := newGate()
				done := parked[name](f, a, vas, g)
				synctest.Wait()
				if name == "allocate" {
					require.NoError(t, a.Free(vas[0]))
				}
				err := a.Reset()
				require.ErrorIs(t, err, arena.ErrNotEmpty)
				assert.EqualError(t, err, "the arena is not empty: an allocation or a free is under way")
				g.open()
				require.NoError(t, <-done)
				require.NoError(t, a.Release())
			})
		})
	}
}

func TestThreadsResetAndAllocate(t *testing.T) {
	f := newFake(t)
	a := open(t, f, 64)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 300 {
				va, err := a.Malloc(1)
				if err != nil {
					assert.ErrorIs(t, err, arena.ErrExhausted)
				} else {
					assert.NoError(t, a.Free(va))
				}
				if err := a.Reset(); err != nil {
					assert.ErrorIs(t, err, arena.ErrNotEmpty)
				}
			}
		})
	}
	wait.Wait()
	require.NoError(t, a.Reset())
	assert.Equal(t, uint64(base), malloc(t, a, 1))
	assertBalance(t, a.Stats())
	require.NoError(t, a.Release())
}

func TestResetOfASingleHandle(t *testing.T) {
	f := newFake(t)
	a := openWith(t, f, 16, arena.Single())
	g := generationAt(t, a, base)
	va := malloc(t, a, 1)
	require.ErrorIs(t, a.Reset(), arena.ErrNotEmpty)
	require.NoError(t, a.Free(va))
	require.NoError(t, a.Reset())
	assert.Equal(t, 1, f.handlesNow(), "it stays")
	assert.Equal(t, 1, f.counted().allocate)
	assert.Equal(t, g, generationAt(t, a, base), "it is the same memory")
	assert.Equal(t, uint64(base), malloc(t, a, 16*granule))
	require.NoError(t, a.Release())
}

func TestResetKeepsTheCache(t *testing.T) {
	v := newVault(t)
	a := openConfig(t, v, 16, arena.Config{Cache: 4 * granule})
	for range 5 {
		va := malloc(t, a, 1)
		assert.Equal(t, uint64(base), va)
		require.NoError(t, a.Free(va))
		require.NoError(t, a.Reset())
	}
	assert.Equal(t, 1, v.counted().allocate)
	assert.Equal(t, uint64(4), a.CacheStats().Reused)
	require.NoError(t, a.Release())
}

// A free that has taken its record and is still in the backend is under way, whenever a reset looks.
func TestResetSeesFreesThatBeginMeanwhile(t *testing.T) {
	rounds := 20_000
	if raceEnabled {
		rounds = 3_000
	}
	v := newVault(t)
	slow(v.fake)
	a := openConfig(t, v, 1<<10, arena.Config{})
	for range rounds {
		va := malloc(t, a, 1)
		freed := background(func() error { return a.Free(va) })
		var err error
		for err = a.Reset(); err != nil; err = a.Reset() {
			require.ErrorIs(t, err, arena.ErrNotEmpty)
		}
		require.Zero(t, v.handlesNow(), "something is still mapped in what starts over")
		require.NoError(t, <-freed)
	}
	require.NoError(t, a.Release())
}

// A reset must not open again what was closed meanwhile.
func TestResetAndCloseRace(t *testing.T) {
	rounds := 30_000
	if raceEnabled {
		rounds = 3_000
	}
	for range rounds {
		f := newFake(t)
		a := open(t, f, 8)
		require.NoError(t, a.Free(malloc(t, a, 1)))
		reset := background(func() error { yield(); return a.Reset() })
		yield()
		require.NoError(t, a.Close())
		require.True(t, errorsIsAny(<-reset, nil, arena.ErrClosed))
		require.True(t, a.Closed())
		_, err := a.Malloc(1)
		require.ErrorIs(t, err, arena.ErrClosed)
		require.False(t, f.isReserved())
	}
}
