package arena_test

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

func TestFreeReleasesAndUsedDoesNotFall(t *testing.T) {
	f := newFake(t)
	a := open(t, f, 8)
	va := malloc(t, a, 2*granule)
	f.onRelease = func(freed, size, handle uint64) error {
		assert.Equal(t, va, freed)
		assert.Equal(t, uint64(2*granule), size)
		assert.Equal(t, uint64(1001), handle)
		assert.Zero(t, a.Mapped(), "mapped falls before the backend is asked")
		assert.Zero(t, a.Live())
		assertBalance(t, a.Stats())
		return nil
	}
	require.NoError(t, a.Free(va))
	assert.Equal(t, arena.Stats{
		Base: base, Total: 8 * granule, Granule: granule, Used: 2 * granule, Peak: 2 * granule, Created: 1, Released: 1,
	}, a.Stats())
	assert.Equal(t, va+2*granule, malloc(t, a, 1), "addresses are not given out again")
}

func TestFreeOfWhatIsNotLiveIsCountedOnly(t *testing.T) {
	f := newFake(t)
	a := open(t, f, 8)
	freed, live := malloc(t, a, 1), malloc(t, a, 3*granule)
	require.NoError(t, a.Free(freed))
	before, asked := a.Stats(), f.counted()
	for name, va := range map[string]uint64{
		"0":                     0,
		"below the base":        base - granule,
		"the end":               a.Base() + a.Total(),
		"the last address":      math.MaxUint64,
		"never given out":       base + 7*granule,
		"freed before":          freed,
		"inside a granule":      live + 1,
		"at an inner granule":   live + granule,
		"the end of a live one": live + 3*granule,
	} {
		require.NoError(t, a.Free(va), name)
		before.UnknownFrees++
		assert.Equal(t, before, a.Stats(), name)
	}
	assert.Equal(t, asked, f.counted(), "the backend was asked")
	require.NoError(t, a.Free(live))
}

func TestExactlyOneOfConcurrentFreesReleases(t *testing.T) {
	const threads, rounds = 8, 200
	f := newFake(t)
	a := open(t, f, rounds)
	for range rounds {
		va := malloc(t, a, 1)
		var all sync.WaitGroup
		start := newGate()
		for range threads {
			all.Go(func() {
				start.park()
				assert.NoError(t, a.Free(va))
			})
		}
		start.open()
		all.Wait()
	}
	s := a.Stats()
	assertBalance(t, s)
	assert.Equal(t, uint64(rounds), s.Released)
	assert.Equal(t, uint64(rounds*(threads-1)), s.UnknownFrees)
	assert.Equal(t, rounds, f.counted().release)
}

func TestFailedReleaseEndsTheAllocation(t *testing.T) {
	for name, fail := range map[string]func() error{
		"an error": func() error { return errDriver },
		"a panic":  func() error { panic(errDriver) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			a := open(t, f, 8)
			va := malloc(t, a, 1)
			f.onRelease = func(_, _, _ uint64) error { return fail() }
			require.Error(t, a.Free(va))
			f.onRelease = nil
			require.NoError(t, a.Free(va), "a second free")
			s := a.Stats()
			assertBalance(t, s)
			assert.Equal(t, uint64(1), s.Released)
			assert.Equal(t, uint64(1), s.FailedReleases)
			assert.Equal(t, uint64(1), s.UnknownFrees)
			assert.Zero(t, s.Mapped)
		})
	}
}

func TestQuarantineIsCountedAndRetriedAtClose(t *testing.T) {
	quarantine := fmt.Errorf("%w: %w", vmm.ErrQuarantined, errDriver)
	for name, tc := range map[string]struct {
		retry                                 error
		quarantined, released, failedReleases uint64
		reserved                              bool
	}{
		"the retry works":            {nil, 0, 1, 1, false},
		"the retry fails":            {errDriver, 0, 1, 2, false},
		"the retry quarantines anew": {quarantine, 1, 0, 2, true},
	} {
		for end, closed := range map[string]func(*arena.Arena) error{
			"close": (*arena.Arena).Close,
			"drain": func(a *arena.Arena) error { _, err := a.CloseAndDrain(); return err },
		} {
			t.Run(name+"/"+end, func(t *testing.T) {
				f := newFake(t)
				a := open(t, f, 8)
				va := malloc(t, a, 1)
				f.onRelease = func(_, _, _ uint64) error { return quarantine }
				err := a.Free(va)
				require.ErrorIs(t, err, vmm.ErrQuarantined)
				require.ErrorIs(t, err, errDriver)
				s := a.Stats()
				assertBalance(t, s)
				assert.Equal(t, uint64(1), s.Quarantined)
				assert.Equal(t, uint64(1), s.FailedReleases)
				assert.Zero(t, s.Mapped)
				require.NoError(t, a.Free(va), "a second free")
				assert.Equal(t, 1, f.counted().release, "a second free does not retry")

				f.onRelease = func(freed, size, handle uint64) error {
					assert.Equal(t, []uint64{va, granule, 1001}, []uint64{freed, size, handle})
					return tc.retry
				}
				err = closed(a)
				if tc.retry == nil {
					require.NoError(t, err)
				} else {
					failed := new(arena.CloseError)
					require.ErrorAs(t, err, &failed)
					require.ErrorIs(t, err, tc.retry)
					assert.Zero(t, failed.Rest, "one failure is told once")
				}
				s = a.Stats()
				assertBalance(t, s)
				assert.Equal(t, tc.quarantined, s.Quarantined)
				assert.Equal(t, tc.released, s.Released)
				assert.Equal(t, tc.failedReleases, s.FailedReleases)
				assert.Equal(t, tc.reserved, f.isReserved(), "addresses with a handle in them stay")
			})
		}
	}
}

func TestReleaseRetriesQuarantine(t *testing.T) {
	f := newFake(t)
	a := open(t, f, 8)
	va := malloc(t, a, 1)
	f.onRelease = func(_, _, _ uint64) error { return vmm.ErrQuarantined }
	err := a.Close()
	require.ErrorIs(t, err, vmm.ErrQuarantined)
	require.NoError(t, a.Free(va), "late, and the last one that was awaited")
	assert.True(t, f.isReserved(), "the handle is still mapped there")

	require.ErrorIs(t, a.Release(), vmm.ErrQuarantined)
	assert.True(t, f.isReserved())
	f.onRelease = nil
	require.NoError(t, a.Release())
	assert.False(t, f.isReserved())
	require.NoError(t, a.Release(), "it can be repeated")
	s := a.Stats()
	assertBalance(t, s)
	assert.Equal(t, uint64(1), s.Released)
	assert.Equal(t, uint64(2), s.FailedReleases)
}

// A release that is retried and a late free that is the last awaited one meet: the
// addresses go back when both are through, not before.
func TestLateFreeDuringRetryOfQuarantine(t *testing.T) {
	f := newFake(t)
	a := open(t, f, 8)
	stuck, live := malloc(t, a, 1), malloc(t, a, 1)
	f.onRelease = func(va, _, _ uint64) error {
		if va == stuck {
			return vmm.ErrQuarantined
		}
		return nil
	}
	require.ErrorIs(t, a.Close(), vmm.ErrQuarantined)
	require.NoError(t, a.Free(stuck))

	var retries atomic.Int32
	f.onRelease = func(_, _, _ uint64) error {
		retries.Add(1)
		assert.NoError(t, a.Free(live))
		assert.True(t, f.isReserved())
		return nil
	}
	require.NoError(t, a.Release())
	assert.Equal(t, int32(1), retries.Load())
	assert.False(t, f.isReserved())
}
