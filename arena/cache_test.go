package arena_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

func handleOf(t *testing.T, a *arena.Arena, va uint64) uint64 {
	t.Helper()
	found, ok := a.Allocation(va)
	require.True(t, ok)
	return found.Handle
}

func TestCachedHandleIsMappedAgain(t *testing.T) {
	v := newVault(t)
	a := openConfig(t, v, 64, arena.Config{Cache: 8 * granule})
	one, two := malloc(t, a, 1), malloc(t, a, 2*granule)
	first, second := handleOf(t, a, one), handleOf(t, a, two)
	require.NoError(t, a.Free(one))
	require.NoError(t, a.Free(two))
	assert.Equal(t, arena.CacheStats{Budget: 8 * granule, Bytes: 3 * granule, Peak: 3 * granule, Handles: 2, Kept: 2}, a.CacheStats())
	assert.Empty(t, v.live(), "they are not mapped")
	three := malloc(t, a, 3*granule)
	assert.NotContains(t, []uint64{first, second}, handleOf(t, a, three), "another size needs another")
	again := malloc(t, a, granule)
	assert.Equal(t, first, handleOf(t, a, again))
	assert.Equal(t, second, handleOf(t, a, malloc(t, a, granule+1)))
	assert.Greater(t, again, three, "the addresses are new ones")
	assert.Equal(t, 3, v.counted().allocate)
	assert.Equal(t, keeping{attach: 2, detach: 2}, v.keeping())
	assert.Zero(t, v.counted().release)
	assert.Equal(t, arena.CacheStats{Budget: 8 * granule, Peak: 3 * granule, Kept: 2, Reused: 2}, a.CacheStats())
	a.ResetPeaks()
	assert.Zero(t, a.CacheStats().Peak)
	assertBalance(t, a.Stats())
	require.NoError(t, a.Release())
}

func TestCacheGivesTheLongestUnusedBack(t *testing.T) {
	v := newVault(t)
	a := openConfig(t, v, 64, arena.Config{Cache: 4 * granule})
	var destroyed []uint64
	v.onDestroy = func(handle uint64) error { destroyed = append(destroyed, handle); return nil }
	var vas, handles []uint64
	for _, granules := range []int64{1, 2, 1, 1, 4, 5} {
		vas = append(vas, malloc(t, a, granules*granule))
		handles = append(handles, handleOf(t, a, vas[len(vas)-1]))
	}
	for _, va := range vas[:3] {
		require.NoError(t, a.Free(va))
	}
	assert.Empty(t, destroyed, "they just fit")
	require.NoError(t, a.Free(vas[3]))
	assert.Equal(t, handles[:1], destroyed)
	assert.Equal(t, handles[3], handleOf(t, a, malloc(t, a, 1)), "of equal ones the one that was used last")
	require.NoError(t, a.Free(vas[4]))
	assert.Equal(t, []uint64{handles[0], handles[1], handles[2]}, destroyed, "it takes all the room")
	require.NoError(t, a.Free(vas[5]))
	assert.Equal(t, []uint64{handles[0], handles[1], handles[2]}, destroyed)
	assert.Equal(t, 1, v.counted().release, "what is larger than the budget never comes in")
	assert.Equal(t, arena.CacheStats{Budget: 4 * granule, Bytes: 4 * granule, Peak: 4 * granule, Handles: 1, Kept: 5, Reused: 1, Trimmed: 3},
		a.CacheStats())
	require.NoError(t, a.Release())
	assert.Equal(t, handles[4], destroyed[3])
}

func TestTrim(t *testing.T) {
	v := newVault(t)
	a := openConfig(t, v, 64, arena.Config{Cache: 16 * granule})
	released, err := a.Trim(0)
	require.NoError(t, err)
	assert.Zero(t, released)
	for _, va := range []uint64{malloc(t, a, 1), malloc(t, a, 2*granule), malloc(t, a, 3*granule)} {
		require.NoError(t, a.Free(va))
	}
	for _, step := range []struct{ keep, released, left uint64 }{
		{1 << 63, 0, 6}, {6 * granule, 0, 6}, {6*granule - 1, 1, 5}, {4 * granule, 2, 3}, {1, 3, 0}, {0, 0, 0},
	} {
		released, err := a.Trim(step.keep)
		require.NoError(t, err)
		assert.Equal(t, step.released*granule, released)
		assert.Equal(t, step.left*granule, a.CacheStats().Bytes)
		assertCacheBalance(t, a.CacheStats())
	}
	assert.Equal(t, 3, v.keeping().destroy)
	require.NoError(t, a.Close())
	_, err = a.Trim(0)
	require.ErrorIs(t, err, arena.ErrClosed)
	require.NoError(t, a.Release())
}

func TestTrimGoesOnPastFailures(t *testing.T) {
	v := newVault(t)
	a := openConfig(t, v, 64, arena.Config{Cache: 16 * granule})
	for _, va := range mallocs(t, a, 3) {
		require.NoError(t, a.Free(va))
	}
	fail := first(errDriver)
	v.onDestroy = func(uint64) error { return fail() }
	released, err := a.Trim(0)
	require.ErrorIs(t, err, errDriver)
	assert.Equal(t, uint64(3*granule), released)
	assert.Equal(t, 3, v.keeping().destroy)
	require.NoError(t, a.Release())
}

func TestEndingEmptiesTheCache(t *testing.T) {
	for name, end := range map[string]func(a *arena.Arena) error{
		"close":   (*arena.Arena).Close,
		"release": (*arena.Arena).Release,
		"drain": func(a *arena.Arena) error {
			drained, err := a.CloseAndDrain()
			if len(drained) != 1 {
				return fmt.Errorf("%d were handed over, expected 1", len(drained))
			}
			return err
		},
		"release after a drain that was refused": func(a *arena.Arena) error {
			_, err := a.CloseAndDrainInto(func(int) ([]arena.Allocation, error) { return nil, errDriver })
			if err == nil {
				return errDriver
			}
			return a.Release()
		},
		"close after a stop": func(a *arena.Arena) error {
			if err := a.Stop(0); err != nil {
				return err
			}
			return a.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVault(t)
			a := openConfig(t, v, 64, arena.Config{Cache: 16 * granule})
			vas := mallocs(t, a, 4)
			for _, va := range vas[1:] {
				require.NoError(t, a.Free(va))
			}
			assert.Equal(t, 3, v.looseNow())
			require.NoError(t, end(a))
			assert.Zero(t, v.looseNow())
			assert.Equal(t, 3, v.keeping().destroy)
			assert.Zero(t, a.CacheStats().Handles)
			assertCacheBalance(t, a.CacheStats())
			assertBalance(t, a.Stats())
			clear(v.placements) // what a drain handed over
			require.NoError(t, a.Release())
			assert.Equal(t, 3, v.keeping().destroy)
		})
	}
}

func TestEndingTellsWhatTheCacheFailed(t *testing.T) {
	v := newVault(t)
	a := openConfig(t, v, 64, arena.Config{Cache: 16 * granule})
	require.NoError(t, a.Free(malloc(t, a, 1)))
	v.onDestroy = func(uint64) error { return errDriver }
	failed := new(arena.CloseError)
	require.ErrorAs(t, a.Close(), &failed)
	require.ErrorIs(t, failed, errDriver)
	assert.Zero(t, failed.Rest)
	require.NoError(t, a.Release())
}

func TestHandleThatCannotBeAttachedIsDestroyed(t *testing.T) {
	v := newVault(t)
	a := openConfig(t, v, 64, arena.Config{Cache: 16 * granule})
	require.NoError(t, a.Free(malloc(t, a, 1)))
	v.onAttach = func(_, _, _ uint64) error { return errDriver }
	_, err := a.Malloc(1)
	require.ErrorIs(t, err, errDriver)
	assert.Equal(t, keeping{attach: 1, detach: 1, destroy: 1}, v.keeping())
	assert.Equal(t, uint64(1), a.Stats().Failed)
	v.onAttach = nil
	malloc(t, a, 1)
	assert.Equal(t, 2, v.counted().allocate, "the cache is empty")
	assertBalance(t, a.Stats())
	assertCacheBalance(t, a.CacheStats())
	require.NoError(t, a.Release())
}

func TestHandleThatIsQuarantinedWhenItIsAttached(t *testing.T) {
	v := newVault(t)
	a := openConfig(t, v, 64, arena.Config{Cache: 16 * granule})
	require.NoError(t, a.Free(malloc(t, a, 1)))
	v.onAttach = func(_, _, _ uint64) error { return vmm.ErrQuarantined }
	_, err := a.Malloc(1)
	require.ErrorIs(t, err, vmm.ErrQuarantined)
	assert.Zero(t, v.keeping().destroy, "it is still mapped")
	assert.Equal(t, uint64(1), a.Stats().Quarantined)
	assertBalance(t, a.Stats())
	require.NoError(t, a.Close(), "the close released it")
	assert.Zero(t, a.Stats().Quarantined)
	assertBalance(t, a.Stats())
}

func TestHandleThatCannotBeDetachedIsReleased(t *testing.T) {
	for name, released := range map[string]error{"released": nil, "failed": errDriver, "quarantined": vmm.ErrQuarantined} {
		t.Run(name, func(t *testing.T) {
			v := newVault(t)
			a := openConfig(t, v, 64, arena.Config{Cache: 16 * granule, Reuse: true})
			va := malloc(t, a, 1)
			v.onDetach = func(_, _ uint64) error { return errDriver }
			v.onRelease = func(_, _, _ uint64) error { return released }
			err := a.Free(va)
			require.ErrorIs(t, err, errDriver, "the unmap that failed is told")
			require.Equal(t, errors.Is(released, vmm.ErrQuarantined), errors.Is(err, vmm.ErrQuarantined))
			assert.Zero(t, a.CacheStats().Kept)
			assert.Equal(t, 1, v.counted().release)
			assertBalance(t, a.Stats())
			v.onDetach, v.onRelease = nil, nil
			if name == "quarantined" {
				assert.Equal(t, uint64(1), a.Stats().Quarantined)
				assert.NotEqual(t, va, malloc(t, a, 1), "it is still mapped there")
			} else {
				assert.Equal(t, va, malloc(t, a, 1))
			}
			require.NoError(t, a.Release())
			assert.Zero(t, v.handlesNow())
		})
	}
}

func TestCacheOfALostDeviceMakesNoCalls(t *testing.T) {
	lost := &vmm.Error{Class: vmm.ClassDeviceLost}
	for name, lose := range map[string]func(t *testing.T, v *vault, a *arena.Arena, va uint64){
		"allocate": func(t *testing.T, v *vault, a *arena.Arena, _ uint64) {
			t.Helper()
			v.onAllocate = func(_, _ uint64) error { return lost }
			_, err := a.Malloc(7 * granule)
			require.ErrorIs(t, err, vmm.ClassDeviceLost)
		},
		"attach": func(t *testing.T, v *vault, a *arena.Arena, _ uint64) {
			t.Helper()
			v.onAttach = func(_, _, _ uint64) error { return lost }
			_, err := a.Malloc(1)
			require.ErrorIs(t, err, vmm.ClassDeviceLost)
		},
		"detach": func(t *testing.T, v *vault, a *arena.Arena, va uint64) {
			t.Helper()
			v.onDetach = func(_, _ uint64) error { return lost }
			require.ErrorIs(t, a.Free(va), vmm.ClassDeviceLost)
			assert.Zero(t, v.counted().release, "no call follows the one that lost it")
		},
		"destroy": func(t *testing.T, v *vault, a *arena.Arena, _ uint64) {
			t.Helper()
			v.onDestroy = func(uint64) error { return lost }
			_, err := a.Trim(2 * granule)
			require.ErrorIs(t, err, vmm.ClassDeviceLost)
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVault(t)
			a := openConfig(t, v, 64, arena.Config{Cache: 16 * granule})
			vas := mallocs(t, a, 6)
			for _, va := range vas[3:] {
				require.NoError(t, a.Free(va))
			}
			lose(t, v, a, vas[0])
			calls, kept := v.counted(), v.keeping()
			_, err := a.Malloc(1)
			require.ErrorIs(t, err, arena.ErrDeviceLost)
			require.ErrorIs(t, a.Free(vas[1]), arena.ErrDeviceLost)
			_, err = a.Trim(0)
			require.ErrorIs(t, err, arena.ErrDeviceLost)
			require.ErrorIs(t, a.Close(), arena.ErrDeviceLost)
			require.ErrorIs(t, a.Release(), arena.ErrDeviceLost)
			assert.Equal(t, calls, v.counted())
			assert.Equal(t, kept, v.keeping())
			assertBalance(t, a.Stats())
			assertCacheBalance(t, a.CacheStats())
		})
	}
}

func TestNoBudgetKeepsNothing(t *testing.T) {
	v := newVault(t)
	a := openConfig(t, v, 64, arena.Config{Reuse: true})
	for range 3 {
		require.NoError(t, a.Free(malloc(t, a, 1)))
	}
	assert.Equal(t, keeping{}, v.keeping())
	assert.Equal(t, arena.CacheStats{}, a.CacheStats())
	require.NoError(t, a.Release())
}

func TestCacheOverCallbacksIsRefused(t *testing.T) {
	backend := &arena.Callbacks{Base: base, OnAllocate: noMemory, OnRelease: noRelease}
	_, err := arena.New(backend, arena.Config{Total: 64 * granule, Granule: granule, Cache: 1})
	require.ErrorIs(t, err, vmm.ClassNotSupported)
	f := newFake(t)
	_, err = arena.New(f, arena.Config{Total: 64 * granule, Cache: 1})
	require.ErrorIs(t, err, vmm.ClassNotSupported)
	assert.False(t, f.isReserved())
}

func TestCacheOfSlabs(t *testing.T) {
	v := newVault(t)
	a := openConfig(t, v, 256, arena.Config{Placement: arena.Slab(slabSize), Cache: slabSize})
	va, large := malloc(t, a, 1), malloc(t, a, slabSize+1)
	require.NoError(t, a.Free(va))
	require.NoError(t, a.Free(large))
	assert.Equal(t, uint64(1), a.CacheStats().Kept, "the slab, not what is larger than the budget")
	malloc(t, a, 1)
	assert.Equal(t, uint64(1), a.CacheStats().Reused)
	assert.Equal(t, 2, v.counted().allocate)
	assert.Equal(t, uint64(1), a.LiveHandles())
	require.NoError(t, a.Release())
}

// TestCacheAtRandom has threads allocate, free and trim, with a driver that fails now and then.
func TestCacheAtRandom(t *testing.T) {
	for _, p := range []arena.Placement{arena.PerAllocation(), arena.Slab(4 * granule)} {
		for _, reuse := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, reuse %t", p, reuse), func(t *testing.T) {
				v := newVault(t)
				fate := func() error {
					yield()
					return []error{errDriver, vmm.ErrQuarantined, nil}[min(2, rand.IntN(50))]
				}
				v.onAttach = func(_, _, _ uint64) error { return fate() }
				v.onDetach = func(_, _ uint64) error {
					if fate() != nil {
						return errDriver
					}
					return nil
				}
				v.onAllocate = func(_, _ uint64) error { return fate() }
				v.onRelease = func(_, _, _ uint64) error { return fate() }
				v.onDestroy = func(uint64) error {
					if fate() != nil {
						return errDriver
					}
					return nil
				}
				a := openConfig(t, v, 1<<16, arena.Config{Placement: p, Cache: 16 * granule, Reuse: reuse})
				var all sync.WaitGroup
				for range 6 {
					all.Go(func() {
						var mine []uint64
						for range 600 {
							switch kind := rand.IntN(100); {
							case kind == 0:
								_, _ = a.Trim(uint64(rand.IntN(16)) * granule)
							case kind < 50 && len(mine) > 0:
								i := rand.IntN(len(mine))
								_ = a.Free(mine[i])
								mine = slices.Delete(mine, i, i+1)
							default:
								if va, err := a.Malloc(1 + rand.Int64N(6*granule)); err == nil {
									mine = append(mine, va)
								}
							}
							assertCacheBalance(t, a.CacheStats())
						}
					})
				}
				all.Wait()
				assertBalance(t, a.Stats())
				s := a.CacheStats()
				assert.NotZero(t, s.Reused)
				assert.NotZero(t, s.Trimmed)
				assert.Equal(t, int(s.Handles), v.looseNow())
				_ = a.Close()
				fate = func() error { return nil }
				require.NoError(t, a.Release())
				assertCacheBalance(t, a.CacheStats())
				assertBalance(t, a.Stats())
				assert.Zero(t, v.handlesNow())
				assert.Zero(t, v.looseNow())
			})
		}
	}
}
