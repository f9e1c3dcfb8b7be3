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
