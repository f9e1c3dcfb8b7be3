package arena_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
)

func TestStopWaitsSoLong(t *testing.T) {
	for name, start := range parked {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				a := open(t, f, 512)
				vas := mallocs(t, a, 2)
				g := newGate()
				done := start(f, a, vas, g)
				synctest.Wait()
				assertRunning(t, done)

				began := time.Now()
				err := a.Stop(time.Hour)
				if name == "unreserve after a late free" {
					// The records were settled by the close before it.
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, arena.ErrInFlight)
					assert.Equal(t, time.Hour, time.Since(began), "the time of the bubble")
				}
				assert.True(t, a.Closed())
				_, err = a.Malloc(1)
				require.ErrorIs(t, err, arena.ErrClosed)

				g.open()
				require.NoError(t, <-done)
				require.NoError(t, a.Stop(0))
				require.NoError(t, a.Release())
			})
		})
	}
}

func TestCloseAfterStopWaits(t *testing.T) {
	ends := map[string]func(*arena.Arena) error{
		"close":   (*arena.Arena).Close,
		"release": (*arena.Arena).Release,
		"drain":   func(a *arena.Arena) error { _, err := a.CloseAndDrain(); return err },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				a := open(t, f, 512)
				vas := mallocs(t, a, 2)
				g := newGate()
				allocating := parked["allocate"](f, a, vas, g)
				synctest.Wait()
				require.ErrorIs(t, a.Stop(0), arena.ErrInFlight)
				require.NoError(t, a.Free(vas[0]), "it is late")

				ended := background(func() error { return end(a) })
				synctest.Wait()
				assertRunning(t, ended)
				g.open()
				require.NoError(t, <-allocating)
				require.NoError(t, <-ended)
				if s := a.Stats(); name == "drain" {
					assert.Equal(t, uint64(3), s.HandedOver)
					clear(f.placements)
				} else {
					assert.Equal(t, uint64(3), s.Released)
				}
				require.NoError(t, a.Release())
			})
		})
	}
}

func TestAllocation(t *testing.T) {
	f := newFake(t)
	a := open(t, f, 512)
	va := malloc(t, a, granule+1)
	found, ok := a.Allocation(va)
	require.True(t, ok)
	assert.Equal(t, arena.Allocation{VA: va, Size: 2 * granule, Handle: found.Handle}, found)
	assert.NotZero(t, found.Handle)
	for _, other := range []uint64{0, va - 1, va + 1, va + granule, va + 2*granule, a.Base() + a.Total(), 1<<64 - 1} {
		_, ok := a.Allocation(other)
		assert.False(t, ok, other)
	}
	require.NoError(t, a.Stop(0))
	_, ok = a.Allocation(va)
	assert.True(t, ok, "it is still live")
	require.NoError(t, a.Free(va), "it is late")
	_, ok = a.Allocation(va)
	assert.False(t, ok)
	require.NoError(t, a.Release())
}
