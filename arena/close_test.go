package arena_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

// The ways in which an arena ends.
var endings = map[string]func(*arena.Arena) error{
	"Close":         (*arena.Arena).Close,
	"Release":       (*arena.Arena).Release,
	"CloseAndDrain": func(a *arena.Arena) error { _, err := a.CloseAndDrain(); return err },
}

func TestCloseOfEmptyArenaGivesAddressesBack(t *testing.T) {
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			a := open(t, f, 8)
			require.NoError(t, a.Free(malloc(t, a, 1)))
			require.NoError(t, end(a))
			assert.True(t, a.Closed())
			assert.False(t, f.isReserved())
			assert.Equal(t, arena.Stats{
				Closed: true, Base: base, Total: 8 * granule, Granule: granule, Used: granule, Peak: granule, Created: 1, Released: 1,
			}, a.Stats(), "the counters stay")
		})
	}
}

func TestLaterCloseDoesNothing(t *testing.T) {
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			a := open(t, f, 8)
			mallocs(t, a, 3)
			require.NoError(t, end(a))
			before, asked := a.Stats(), f.counted()
			require.NoError(t, a.Close())
			drained, err := a.CloseAndDrain()
			require.ErrorIs(t, err, arena.ErrClosed)
			assert.Nil(t, drained)
			assert.Equal(t, before, a.Stats())
			assert.Equal(t, asked, f.counted())
			for _, p := range f.placements { // what was handed over is the receiver's to release
				assert.Equal(t, "CloseAndDrain", name, "%+v is left", p)
			}
		})
	}
}

func TestCloseReleasesWhatIsLive(t *testing.T) {
	f := newFake(t)
	a := open(t, f, 8)
	vas := mallocs(t, a, 4)
	require.NoError(t, a.Free(vas[1]))
	require.NoError(t, a.Close())
	assert.Empty(t, f.live())
	s := a.Stats()
	assertBalance(t, s)
	assert.Equal(t, uint64(4), s.Released)
	assert.Zero(t, s.Live)
	assert.Zero(t, s.Mapped)
	assert.Equal(t, uint64(4*granule), s.Used)
	assert.True(t, f.isReserved(), "late frees may arrive")
}

func TestClosePassesOnOverFailures(t *testing.T) {
	for failing, text := range map[int]string{
		0: "",
		1: "close: release 1 failed",
		2: "close: release 1 failed (and 1 more failures)",
		5: "close: release 1 failed (and 4 more failures)",
	} {
		t.Run(fmt.Sprint(failing), func(t *testing.T) {
			f := newFake(t)
			a := open(t, f, 8)
			mallocs(t, a, 5)
			n := 0
			f.onRelease = func(_, _, _ uint64) error {
				if n++; n <= failing {
					return fmt.Errorf("release %d failed", n)
				}
				return nil
			}
			err := a.Close()
			if failing == 0 {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, text)
				failed := new(arena.CloseError)
				require.ErrorAs(t, err, &failed)
				assert.Equal(t, failing-1, failed.Rest)
			}
			assert.Equal(t, 5, n, "every release was tried, once")
			assert.True(t, a.Closed())
			s := a.Stats()
			assertBalance(t, s)
			assert.Equal(t, uint64(failing), s.FailedReleases)
			assert.Equal(t, uint64(5), s.Released)
		})
	}
}

func TestCloseCountsEachFailureOnce(t *testing.T) {
	f := newFake(t)
	a := open(t, f, 8)
	vas := mallocs(t, a, 5)
	quarantine := fmt.Errorf("%w: %w", vmm.ErrQuarantined, errDriver)
	f.onRelease = func(_, _, _ uint64) error { return quarantine }
	require.ErrorIs(t, a.Free(vas[0]), errDriver)
	require.ErrorIs(t, a.Free(vas[1]), errDriver)
	err := a.Close()
	failed := new(arena.CloseError)
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, quarantine, failed.First)
	assert.Equal(t, 4, failed.Rest, "two retries and three releases failed")
	s := a.Stats()
	assertBalance(t, s)
	assert.Equal(t, uint64(5), s.Quarantined)
	assert.Equal(t, uint64(7), s.FailedReleases)
}

func TestCloseTellsThatAddressesStayed(t *testing.T) {
	for name, fail := range map[string]func() error{
		"an error": func() error { return errDriver },
		"a panic":  func() error { panic(errDriver) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			a := open(t, f, 8)
			f.onUnreserve = fail
			err := a.Close()
			failed := new(arena.CloseError)
			require.ErrorAs(t, err, &failed)
			assert.ErrorContains(t, err, "give 524288 bytes of addresses at 0x7f0000000000 back")
			assert.ErrorContains(t, err, errDriver.Error())
			assert.True(t, a.Closed())
			require.NoError(t, a.Close(), "a later close does nothing")
			require.ErrorContains(t, a.Release(), errDriver.Error())

			f.onUnreserve = nil
			require.NoError(t, a.Release(), "it is tried again")
			assert.False(t, f.isReserved())
			assert.Equal(t, 3, f.counted().unreserve)
			require.NoError(t, a.Release())
			assert.Equal(t, 3, f.counted().unreserve)
		})
	}
}

func TestCloseAndDrainHandsOverInOrder(t *testing.T) {
	f := newFake(t)
	a := open(t, f, 2000)
	var want []arena.Allocation
	for i := range uint64(1000) {
		va := malloc(t, a, granule+1)
		want = append(want, arena.Allocation{VA: va, Size: 2 * granule, Handle: 1001 + i})
	}
	for i := 0; i < len(want); i += 7 {
		require.NoError(t, a.Free(want[i].VA))
		want[i] = arena.Allocation{}
	}
	want = slices.DeleteFunc(want, func(x arena.Allocation) bool { return x == arena.Allocation{} })
	drained, err := a.CloseAndDrain()
	require.NoError(t, err)
	assert.Equal(t, want, drained)
	assert.Len(t, f.live(), len(want), "the caller releases them")
	s := a.Stats()
	assertBalance(t, s)
	assert.Equal(t, uint64(len(want)), s.HandedOver)
	assert.Zero(t, s.Live)
	assert.Zero(t, s.Mapped)
}

func TestRefusedDrainLosesNothing(t *testing.T) {
	type outcome struct {
		drained []arena.Allocation
		err     error
	}
	refusals := map[string]func(n int) ([]arena.Allocation, error){
		"an error":       func(int) ([]arena.Allocation, error) { return nil, errDriver },
		"room and error": func(n int) ([]arena.Allocation, error) { return make([]arena.Allocation, n), errDriver },
		"too small":      func(n int) ([]arena.Allocation, error) { return make([]arena.Allocation, n-1), nil },
		"too large":      func(n int) ([]arena.Allocation, error) { return make([]arena.Allocation, n+1), nil },
		"a panic":        func(int) ([]arena.Allocation, error) { panic(errDriver) },
	}
	for name, refuse := range refusals {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			a := open(t, f, 8)
			vas := mallocs(t, a, 5)
			require.NoError(t, a.Free(vas[4]))
			asked := f.counted()
			for range 3 {
				got := func() (o outcome) {
					defer func() {
						if value := recover(); value != nil {
							o.err = value.(error)
						}
					}()
					drained, err := a.CloseAndDrainInto(func(n int) ([]arena.Allocation, error) {
						assert.Equal(t, 4, n)
						return refuse(n)
					})
					return outcome{drained, err}
				}()
				require.Error(t, got.err)
				assert.True(t, errors.Is(got.err, errDriver) || errors.Is(got.err, arena.ErrInvalidArgument))
				assert.Nil(t, got.drained)
				assert.True(t, a.Closed())
				assert.Equal(t, uint64(4), a.Live(), "the records are kept")
				assert.Equal(t, uint64(4*granule), a.Mapped())
				assert.Equal(t, asked, f.counted())
			}

			require.NoError(t, a.Free(vas[0]), "a late free of a record that is kept")
			require.NoError(t, a.Free(vas[0]))
			s := a.Stats()
			assertBalance(t, s)
			assert.Equal(t, uint64(1), s.LateFrees)
			assert.Equal(t, uint64(1), s.UnknownFrees, "the second late free")
			assert.Equal(t, uint64(4), s.Live, "it still waits for a buffer")

			drained, err := a.CloseAndDrain()
			require.NoError(t, err)
			require.Len(t, drained, 4)
			assert.Equal(t, vas[0], drained[0].VA)
			assertBalance(t, a.Stats())
			require.NoError(t, a.Free(vas[0]))
			assert.Equal(t, uint64(2), a.Stats().UnknownFrees)
		})
	}
}

func TestCloseAndReleaseTakeOverWhatRefusedDrainLeft(t *testing.T) {
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			a := open(t, f, 8)
			vas := mallocs(t, a, 4)
			refuse := func(int) ([]arena.Allocation, error) { return nil, errDriver }
			_, err := a.CloseAndDrainInto(refuse)
			require.ErrorIs(t, err, errDriver)
			require.NoError(t, a.Free(vas[2]))
			require.NoError(t, end(a))
			s := a.Stats()
			assertBalance(t, s)
			assert.Zero(t, s.Live)
			_, err = a.CloseAndDrainInto(refuse)
			require.ErrorIs(t, err, arena.ErrClosed, "room is not asked for when there is nothing to hand over")
		})
	}
}

func TestLateFreesKeepReservation(t *testing.T) {
	for _, end := range []string{"Close", "CloseAndDrain"} {
		t.Run(end, func(t *testing.T) {
			f := newFake(t)
			a := open(t, f, 128)
			vas := mallocs(t, a, 100)
			require.NoError(t, a.Free(vas[0]))
			require.NoError(t, endings[end](a))
			clear(f.placements) // the receiver of a drain releases

			require.NoError(t, a.Free(vas[0]), "freed before the close")
			require.NoError(t, a.Free(vas[1]+1), "inside an allocation")
			require.NoError(t, a.Free(a.Base()+a.Total()), "outside")
			for i, va := range vas[1:] {
				assert.True(t, f.isReserved())
				require.NoError(t, a.Free(va))
				assert.Equal(t, uint64(i+1), a.Stats().LateFrees)
				if i < 98 {
					require.NoError(t, a.Free(va), "a second late free")
					assert.True(t, f.isReserved())
				}
			}
			assert.False(t, f.isReserved(), "each address was freed once")
			assert.Equal(t, 1, f.counted().unreserve)
			assert.Equal(t, uint64(3+98), a.Stats().UnknownFrees)
			assertBalance(t, a.Stats())
			require.NoError(t, a.Release())
			assert.Equal(t, 1, f.counted().unreserve)
		})
	}
}

func TestFailureToGiveBackAfterLateFreeIsReportedByRelease(t *testing.T) {
	f := newFake(t)
	a := open(t, f, 8)
	va := malloc(t, a, 1)
	require.NoError(t, a.Close())
	f.onUnreserve = func() error { return errDriver }
	require.NoError(t, a.Free(va), "a free is not where to tell it")
	assert.Equal(t, 1, f.counted().unreserve)
	require.ErrorIs(t, a.Release(), errDriver)
	f.onUnreserve = nil
	require.NoError(t, a.Release())
	assert.False(t, f.isReserved())
}

func TestReleaseWaitsForNoLateFree(t *testing.T) {
	f := newFake(t)
	a := open(t, f, 8)
	vas := mallocs(t, a, 2)
	require.NoError(t, a.Close())
	require.NoError(t, a.Free(vas[0]))
	require.NoError(t, a.Release())
	assert.False(t, f.isReserved())
	assert.Empty(t, f.live())
	require.NoError(t, a.Free(vas[1]))
	s := a.Stats()
	assertBalance(t, s)
	assert.Equal(t, uint64(1), s.LateFrees)
	assert.Equal(t, uint64(1), s.UnknownFrees, "after Release no address is the arena's")
	assert.Equal(t, 1, f.counted().unreserve)
}

func TestLostDevice(t *testing.T) {
	gone := &vmm.Error{Backend: "fake", Op: vmm.OpMap, Class: vmm.ClassDeviceLost}
	for name, lose := range map[string]func(f *fake, a *arena.Arena, va uint64) error{
		"seen by allocate": func(f *fake, a *arena.Arena, _ uint64) error {
			f.onAllocate = func(_, _ uint64) error { return gone }
			_, err := a.Malloc(1)
			return err
		},
		"seen by release": func(f *fake, a *arena.Arena, va uint64) error {
			f.onRelease = func(_, _, _ uint64) error { return gone }
			return a.Free(va)
		},
		"seen by a release that is quarantined": func(f *fake, a *arena.Arena, va uint64) error {
			f.onRelease = func(_, _, _ uint64) error { return fmt.Errorf("%w: %w", vmm.ErrQuarantined, gone) }
			return a.Free(va)
		},
	} {
		for end, closed := range endings {
			t.Run(name+"/"+end, func(t *testing.T) {
				f := newFake(t)
				a := open(t, f, 16)
				vas := mallocs(t, a, 5)
				require.ErrorIs(t, lose(f, a, vas[0]), vmm.ClassDeviceLost)
				assertBalance(t, a.Stats())
				asked := f.counted()

				_, err := a.Malloc(1)
				require.ErrorIs(t, err, arena.ErrDeviceLost)
				require.ErrorIs(t, err, gone, "it says why")
				err = a.Free(vas[1])
				require.ErrorIs(t, err, arena.ErrDeviceLost)
				require.ErrorIs(t, err, gone)
				require.NoError(t, a.Free(vas[1]), "a second free")
				s := a.Stats()
				assertBalance(t, s)

				for range 2 {
					err = closed(a)
					require.ErrorIs(t, err, arena.ErrDeviceLost)
					require.ErrorIs(t, err, gone)
					if end != "Release" {
						break
					}
				}
				assert.True(t, a.Closed())
				require.NoError(t, a.Free(vas[2]))
				require.NoError(t, a.Free(vas[3]))
				require.NoError(t, a.Free(vas[4]))
				require.NoError(t, a.Free(vas[0]))
				require.ErrorIs(t, a.Release(), arena.ErrDeviceLost)
				assert.Equal(t, asked, f.counted(), "no driver call after the loss")
				s = a.Stats()
				assertBalance(t, s)
				assert.Zero(t, s.Live)
				assert.Zero(t, s.Mapped)
			})
		}
	}
}

func TestDeviceLostDuringClose(t *testing.T) {
	gone := &vmm.Error{Class: vmm.ClassDeviceLost}
	t.Run("in the pass", func(t *testing.T) {
		f := newFake(t)
		a := open(t, f, 8)
		mallocs(t, a, 5)
		f.onRelease = func(_, _, _ uint64) error {
			if f.counted().release == 2 {
				return gone
			}
			return nil
		}
		require.ErrorIs(t, a.Close(), gone)
		assert.Equal(t, 2, f.counted().release, "the rest is not asked for")
		assert.Zero(t, f.counted().unreserve)
		s := a.Stats()
		assertBalance(t, s)
		assert.Equal(t, uint64(2), s.Released)
		assert.Equal(t, uint64(3), s.Quarantined)
	})
	t.Run("in a retry", func(t *testing.T) {
		f := newFake(t)
		a := open(t, f, 8)
		vas := mallocs(t, a, 3)
		f.onRelease = func(_, _, _ uint64) error { return vmm.ErrQuarantined }
		require.Error(t, a.Free(vas[0]))
		f.onRelease = func(_, _, _ uint64) error { return gone }
		require.ErrorIs(t, a.Close(), gone)
		assert.Equal(t, 2, f.counted().release)
		assertBalance(t, a.Stats())
	})
	t.Run("when the addresses go back", func(t *testing.T) {
		f := newFake(t)
		a := open(t, f, 8)
		f.onUnreserve = func() error { return gone }
		require.ErrorIs(t, a.Close(), gone)
		require.ErrorIs(t, a.Release(), arena.ErrDeviceLost)
		assert.Equal(t, 1, f.counted().unreserve)
	})
}
