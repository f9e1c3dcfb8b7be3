package arena_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

func TestReuseTakesTheLowest(t *testing.T) {
	v := newVault(t)
	a := openConfig(t, v, 16, arena.Config{Reuse: true})
	vas := mallocs(t, a, 16)
	_, err := a.Malloc(1)
	require.ErrorIs(t, err, arena.ErrExhausted)
	for _, i := range []int{9, 3, 5, 4, 12} {
		require.NoError(t, a.Free(vas[i]))
	}
	assert.Equal(t, vas[3], malloc(t, a, 3*granule), "neighbours grow together")
	assert.Equal(t, vas[9], malloc(t, a, 1))
	_, err = a.Malloc(2 * granule)
	require.ErrorIs(t, err, arena.ErrExhausted)
	require.ErrorContains(t, err, "at offset 1048576 would exceed reserved range of 1048576 bytes")
	assert.Equal(t, vas[12], malloc(t, a, 1))
	require.NoError(t, a.Free(vas[3]))
	assert.Equal(t, vas[3], malloc(t, a, 1), "a part of a hole")
	assert.Equal(t, vas[4], malloc(t, a, granule+1), "and its rest")
	assert.Equal(t, uint64(16*granule), a.Used())
	assertBalance(t, a.Stats())
	require.NoError(t, a.Release())
}

func TestReuseAligns(t *testing.T) {
	v := newVault(t)
	a := openConfig(t, v, 64, arena.Config{Reuse: true})
	vas := mallocs(t, a, 8)
	for _, va := range vas {
		require.NoError(t, a.Free(va))
		got, err := a.Allocate(arena.Request{Size: 1, Align: granule})
		require.NoError(t, err)
		assert.Equal(t, va, got)
	}
	_, err := a.Allocate(arena.Request{Size: 1, Align: 2 * granule})
	require.ErrorIs(t, err, arena.ErrInvalidArgument)
	require.NoError(t, a.Release())
}

func TestFailedSlotsAreReused(t *testing.T) {
	for name, p := range map[string]arena.Placement{"per allocation": arena.PerAllocation(), "slabs": arena.Slab(slabSize)} {
		t.Run(name, func(t *testing.T) {
			v := newVault(t)
			a := openConfig(t, v, 4*16, arena.Config{Reuse: true, Placement: p})
			v.onAllocate = func(_, _ uint64) error { return errDriver }
			for range 100 { // more than there are addresses for
				_, err := a.Malloc(slabSize)
				require.ErrorIs(t, err, errDriver)
			}
			v.onAllocate = nil
			assert.Equal(t, uint64(slabSize), a.Used())
			assert.Equal(t, uint64(base), malloc(t, a, slabSize))
			require.NoError(t, a.Release())
		})
	}
}

func TestWhatIsStillMappedIsNotReused(t *testing.T) {
	t.Run("quarantined", func(t *testing.T) {
		v := newVault(t)
		a := openConfig(t, v, 64, arena.Config{Reuse: true})
		va := malloc(t, a, 1)
		v.onRelease = func(_, _, _ uint64) error { return vmm.ErrQuarantined }
		require.ErrorIs(t, a.Free(va), vmm.ErrQuarantined)
		v.onRelease = nil
		assert.NotEqual(t, va, malloc(t, a, 1))
		require.NoError(t, a.Release())
	})
	t.Run("a failed release", func(t *testing.T) {
		v := newVault(t)
		a := openConfig(t, v, 64, arena.Config{Reuse: true})
		va := malloc(t, a, 1)
		v.onRelease = func(_, _, _ uint64) error { return errDriver }
		require.ErrorIs(t, a.Free(va), errDriver)
		v.onRelease = nil
		assert.Equal(t, va, malloc(t, a, 1), "the memory is gone all the same")
		require.NoError(t, a.Release())
	})
	t.Run("deferred", func(t *testing.T) {
		p := &patient{fake: newFake(t)}
		a := openConfig(t, p, 64, arena.Config{Reuse: true})
		va := malloc(t, a, 1)
		p.onStream = func() error { return vmm.ErrCapturing }
		require.NoError(t, a.Free(va))
		next := malloc(t, a, 1)
		assert.NotEqual(t, va, next)
		require.ErrorIs(t, a.Reset(), arena.ErrNotEmpty)
		p.onStream = nil
		require.NoError(t, a.Free(next))
		assert.Equal(t, va, malloc(t, a, 1), "it was released by now")
		require.NoError(t, a.Release())
	})
	t.Run("on its way", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			v := newVault(t)
			a := openConfig(t, v, 64, arena.Config{Reuse: true})
			va := malloc(t, a, 1)
			g := newGate()
			v.onRelease = func(_, _, _ uint64) error { g.park(); return nil }
			freed := background(func() error { return a.Free(va) })
			synctest.Wait()
			assert.NotEqual(t, va, malloc(t, a, 1))
			g.open()
			require.NoError(t, <-freed)
			assert.Equal(t, va, malloc(t, a, 1))
			require.NoError(t, a.Release())
		})
	})
}

func generationAt(t *testing.T, a *arena.Arena, va uint64) uint64 {
	t.Helper()
	regions, err := a.Regions(arena.RegionsIPC)
	require.NoError(t, err)
	i := slices.IndexFunc(regions, func(r arena.Region) bool { return r.Base == va })
	require.NotEqual(t, -1, i)
	return regions[i].Generation
}

func TestGenerationsTellMappingsApart(t *testing.T) {
	for name, p := range map[string]arena.Placement{"per allocation": arena.PerAllocation(), "slabs": arena.Slab(granule)} {
		t.Run(name, func(t *testing.T) {
			v := newVault(t)
			a := openConfig(t, v, 64, arena.Config{Reuse: true, Cache: 8 * granule, Placement: p})
			seen := map[uint64]bool{}
			for round := range 9 {
				va := malloc(t, a, 1)
				require.Equal(t, uint64(base), va)
				g := generationAt(t, a, va)
				assert.False(t, seen[g], "generation %d again", g)
				seen[g] = true
				require.NoError(t, a.Free(va))
				if round%3 == 2 {
					require.NoError(t, a.Reset())
				}
			}
			require.NoError(t, a.Release())
		})
	}
}

// TestReuseAtRandom has threads allocate and free in few addresses, with failures of every kind; with and without resets and a cache.
func TestReuseAtRandom(t *testing.T) {
	for _, config := range []arena.Config{
		{},
		{Cache: 8 * granule},
		{Placement: arena.Slab(4 * granule)},
		{Placement: arena.Slab(4 * granule), Cache: 8 * granule, Prefetch: 8 * granule},
	} {
		for _, resets := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, cache %d, ahead %d, resets %t", config.Placement, config.Cache, config.Prefetch, resets), func(t *testing.T) {
				v := newVault(t)
				var calm atomic.Bool
				fate := func() error {
					yield()
					if !calm.Load() && rand.IntN(30) == 0 {
						return errDriver
					}
					return nil
				}
				v.onAllocate = func(_, _ uint64) error { return fate() }
				v.onAttach = func(_, _, _ uint64) error { return fate() }
				v.onDetach = func(_, _ uint64) error { return fate() }
				v.onRelease = func(_, _, _ uint64) error { return fate() }
				config.Reuse = true
				a := openConfig(t, v, 256, config)
				owned := newOwners(t)
				var all sync.WaitGroup
				var resetsDone int
				for thread := range 6 {
					all.Go(func() {
						var mine []span
						for range 1000 {
							if most := 4 - 3*min(1, rand.IntN(64)); len(mine) >= most || len(mine) > 0 && rand.IntN(2) == 0 {
								i := rand.IntN(len(mine))
								owned.give(mine[i])
								if err := a.Free(mine[i].va); err != nil {
									assert.ErrorIs(t, err, errDriver)
								}
								mine = slices.Delete(mine, i, i+1)
							} else {
								size := 1 + rand.Int64N(5*granule)
								va, err := a.Malloc(size)
								if err == nil {
									mine = append(mine, owned.take(va, uint64(size)))
								} else {
									assert.True(t, errorsIsAny(err, errDriver, arena.ErrExhausted), err)
								}
							}
							if resets && thread < 2 {
								err := a.Reset()
								assert.True(t, errorsIsAny(err, nil, arena.ErrNotEmpty, errDriver), err)
								if err == nil && thread == 0 {
									resetsDone++
								}
							}
						}
						for _, s := range mine {
							owned.give(s)
							_ = a.Free(s.va)
						}
					})
				}
				all.Wait()
				assertBalance(t, a.Stats())
				assert.Zero(t, a.Live())
				calm.Store(true)
				for a.Prefetching() {
					yield()
				}
				require.NoError(t, a.Reset())
				assert.Zero(t, a.Used())
				malloc(t, a, 200*granule)
				require.NoError(t, a.Close())
				assert.Zero(t, v.handlesNow())
				require.NoError(t, a.Release())
			})
		}
	}
}

// Two threads in an arena that is empty most of the time, so that resets often succeed.
func TestResetAndReuseRace(t *testing.T) {
	rounds := 20_000
	if raceEnabled {
		rounds = 3_000
	}
	for _, config := range []arena.Config{
		{Reuse: true},
		{Reuse: true, Cache: granule},
		{Reuse: true, Placement: arena.Slab(granule)},
		{Placement: arena.Slab(granule), Prefetch: 2 * granule, Cache: 4 * granule},
	} {
		t.Run(fmt.Sprintf("%v, reuse %t, cache %d", config.Placement, config.Reuse, config.Cache), func(t *testing.T) {
			v := newVault(t)
			slow(v.fake)
			a := openConfig(t, v, 1024, config)
			owned := newOwners(t)
			var all sync.WaitGroup
			for range 2 {
				all.Go(func() {
					for range rounds {
						va, err := a.Malloc(granule)
						if err == nil {
							s := owned.take(va, granule)
							yield()
							owned.give(s)
							assert.NoError(t, a.Free(va))
						} else {
							assert.ErrorIs(t, err, arena.ErrExhausted)
						}
					}
				})
			}
			over := make(chan struct{})
			succeeded := background(func() (count int) {
				for {
					select {
					case <-over:
						return count
					default:
					}
					err := a.Reset()
					if err == nil {
						count++
					} else if !assert.ErrorIs(t, err, arena.ErrNotEmpty) {
						return count
					}
				}
			})
			all.Wait()
			close(over)
			t.Logf("%d resets succeeded", <-succeeded)
			require.NoError(t, a.Reset())
			require.NoError(t, a.Release())
			assert.Zero(t, v.handlesNow())
		})
	}
}
