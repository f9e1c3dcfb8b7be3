package arena_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

// openAhead makes an arena that maps so many slabs ahead, which are there when it returns.
func openAhead(t *testing.T, b arena.Backend, slabs uint64, config arena.Config) *arena.Arena {
	t.Helper()
	config.Placement, config.Prefetch = arena.Slab(slabSize), slabs*slabSize
	a := openConfig(t, b, 1024, config)
	for a.Prefetching() {
		runtime.Gosched()
	}
	require.Equal(t, slabs*slabSize, a.SlabStats().Ahead)
	return a
}

// slabAt is the address of a slab.
func slabAt(slab uint64) uint64 { return base + slab*slabSize }

func TestSlabsAreMappedAheadUpToTheBudget(t *testing.T) {
	for _, more := range []uint64{0, slabSize - 1} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			a := openConfig(t, f, 1024, arena.Config{Placement: arena.Slab(slabSize), Prefetch: 3*slabSize + more})
			synctest.Wait()
			assert.Equal(t, 3, f.handlesNow(), "it begins at once")
			for used := range uint64(5) {
				assert.Equal(t, slabAt(used), malloc(t, a, slabSize))
				synctest.Wait()
				assert.Equal(t, int(used)+4, f.handlesNow())
				s := a.SlabStats()
				assert.Equal(t, uint64(3*slabSize), s.Ahead)
				assert.Equal(t, s.Ahead, s.Free)
				assert.Equal(t, s.Made, s.Gone+uint64(s.Count))
				assert.Equal(t, (used+4)*slabSize, a.Used())
				assert.Equal(t, a.Used(), registered(t, a))
			}
			assert.Equal(t, 8, f.counted().allocate)
			require.NoError(t, a.Close())
			assert.Zero(t, f.handlesNow(), "also what was not used")
			assert.Zero(t, a.SlabStats().Ahead)
			assertBalance(t, a.Stats())
			assert.Equal(t, uint64(5), a.Stats().Created, "a slab is no allocation")
			require.NoError(t, a.Release())
		})
	}
}

func TestPrefetchThatIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		a := openConfig(t, f, 1024, arena.Config{Placement: arena.Slab(slabSize), Prefetch: slabSize - 1})
		malloc(t, a, 1)
		synctest.Wait()
		assert.Equal(t, 1, f.handlesNow())
		require.NoError(t, a.Release())
		for _, p := range []arena.Placement{arena.PerAllocation(), arena.Single()} {
			_, err := arena.New(newFake(t), arena.Config{Total: 64 * granule, Placement: p, Prefetch: slabSize})
			require.ErrorIs(t, err, arena.ErrInvalidArgument)
		}
	})
}

func TestMallocDoesNotWaitForThePrefetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		a := openAhead(t, f, 2, arena.Config{})
		parked := valet{slabAt(2): newGate()}
		f.onAllocate = parked.onAllocate
		malloc(t, a, slabSize)
		synctest.Wait()
		assert.Equal(t, uint64(2*slabSize), registered(t, a), "it is in flight")
		assert.Equal(t, slabAt(1), malloc(t, a, slabSize), "what is there")
		assert.Equal(t, slabAt(3), malloc(t, a, slabSize), "a slab of its own")
		assert.Equal(t, slabAt(4), malloc(t, a, slabSize))
		require.NoError(t, a.Free(slabAt(3)))
		assert.Equal(t, uint64(2*slabSize), registered(t, a))
		assertBalance(t, a.Stats())
		parked[slabAt(2)].open()
		synctest.Wait()
		assert.Equal(t, uint64(2*slabSize), a.SlabStats().Ahead)
		assert.Equal(t, slabAt(2), malloc(t, a, slabSize), "the lowest that is free")
		require.NoError(t, a.Release())
	})
}

func TestPrefetchEndsWithTheArena(t *testing.T) {
	for end := range endings {
		t.Run(end, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				a := openAhead(t, f, 4, arena.Config{})
				parked := valet{slabAt(4): newGate()}
				f.onAllocate = parked.onAllocate
				malloc(t, a, slabSize)
				synctest.Wait()
				require.ErrorIs(t, a.Stop(0), arena.ErrInFlight)
				closed := background(func() ended { return endWith(a, end) })
				synctest.Wait()
				assertRunning(t, closed)
				parked[slabAt(4)].open()
				got := <-closed
				require.NoError(t, got.err)
				synctest.Wait()
				assert.Equal(t, 5, f.counted().allocate, "nothing follows the call that was under way")
				assert.False(t, a.Prefetching())
				assert.Len(t, f.live(), len(got.drained))
				clear(f.placements) // what was handed over
				require.NoError(t, a.Release())
				assert.False(t, f.isReserved())
			})
		})
	}
}

// Whoever drains gets every handle that is mapped, also those without an allocation.
func TestDrainHandsOverWhatWasMappedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVault(t)
		a := openAhead(t, v, 2, arena.Config{Cache: 8 * slabSize})
		va := malloc(t, a, 1)
		large := malloc(t, a, slabSize+1)
		require.NoError(t, a.Free(malloc(t, a, slabSize+1)))
		synctest.Wait()
		assert.Equal(t, 1, v.looseNow())
		assert.Equal(t, uint64(4), a.LiveHandles())
		var told int
		drained, err := a.CloseAndDrainInto(func(n int) ([]arena.Allocation, error) { told = n; return make([]arena.Allocation, n), nil })
		require.NoError(t, err)
		assert.Equal(t, 4, told)
		var vas []uint64
		for _, d := range drained {
			assert.Equal(t, v.placements[d.VA], placement{size: d.Size, handle: d.Handle})
			vas = append(vas, d.VA)
		}
		assert.True(t, slices.IsSorted(vas))
		assert.Contains(t, vas, va)
		assert.Contains(t, vas, large)
		assert.Len(t, v.live(), 4)
		assert.Zero(t, v.looseNow(), "what was kept goes back")
		assert.Zero(t, a.LiveHandles())
		assertBalance(t, a.Stats())
		clear(v.placements)
		require.NoError(t, a.Release())
	})
}

func TestPrefetchThatFailsWastesNoAddresses(t *testing.T) {
	for name, fate := range map[string]func() error{
		"fails":         func() error { return errDriver },
		"panics":        func() error { panic(errDriver) },
		"out of memory": func() error { return vmm.ClassOutOfMemory },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				a := openAhead(t, f, 2, arena.Config{})
				f.onAllocate = func(_, _ uint64) error { return fate() }
				for range 16 {
					malloc(t, a, granule)
					synctest.Wait()
				}
				assert.Equal(t, 3, f.counted().allocate, "it is asked again when the next slab begins only")
				s := a.Stats()
				assert.Zero(t, s.Failed, "nobody's allocation failed")
				assert.Zero(t, s.Refused)
				assert.Equal(t, uint64(3*slabSize), registered(t, a), "a hole")
				f.onAllocate = nil
				assert.Equal(t, slabAt(1), malloc(t, a, 1))
				synctest.Wait()
				assert.Contains(t, f.live(), slabAt(2), "the addresses that failed")
				assert.Equal(t, uint64(4*slabSize), a.Used())
				assert.Equal(t, uint64(2*slabSize), a.SlabStats().Ahead)
				require.NoError(t, a.Release())
				assert.Zero(t, f.handlesNow())
			})
		})
	}
}

func TestSpareAddressesAreInFlightWhenTheyAreUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		a := openAhead(t, f, 1, arena.Config{})
		fail := first(errDriver)
		g := newGate()
		f.onAllocate = func(va, _ uint64) error {
			if va != slabAt(1) {
				return nil
			}
			if err := fail(); err != nil {
				return err
			}
			g.park()
			return nil
		}
		malloc(t, a, slabSize)
		synctest.Wait()
		malloc(t, a, slabSize+1)
		done := background(func() error { _, err := a.Malloc(slabSize); return err })
		synctest.Wait()
		assertRunning(t, done)
		assert.Equal(t, uint64(slabSize), registered(t, a))
		g.open()
		require.NoError(t, <-done)
		require.NoError(t, a.Release())
	})
}

func TestPrefetchThatIsQuarantined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		a := openAhead(t, f, 2, arena.Config{})
		f.onAllocate = func(va, _ uint64) error {
			if va == slabAt(2) {
				return vmm.ErrQuarantined
			}
			return nil
		}
		malloc(t, a, slabSize)
		synctest.Wait()
		assert.Equal(t, uint64(1), a.Stats().Quarantined)
		assertBalance(t, a.Stats())
		assert.Equal(t, slabAt(1), malloc(t, a, slabSize))
		synctest.Wait()
		assert.Equal(t, slabAt(3), malloc(t, a, slabSize), "those addresses are in use")
		require.NoError(t, a.Close())
		assert.Zero(t, a.Stats().Quarantined)
		assertBalance(t, a.Stats())
		require.NoError(t, a.Release())
	})
}

func TestTrimOfWhatWasMappedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVault(t)
		a := openAhead(t, v, 3, arena.Config{Cache: 4 * slabSize})
		malloc(t, a, 1)
		synctest.Wait()
		require.NoError(t, a.Free(malloc(t, a, slabSize+1)))
		released, err := a.Trim(3 * slabSize)
		require.NoError(t, err)
		assert.Equal(t, uint64(slabSize+granule), released, "the cache goes first")
		released, err = a.Trim(2*slabSize - 1)
		require.NoError(t, err)
		assert.Equal(t, uint64(2*slabSize), released)
		synctest.Wait()
		assert.Equal(t, uint64(slabSize), a.SlabStats().Ahead, "nobody maps them again at once")
		assert.Equal(t, []uint64{slabAt(0), slabAt(1)}, slices.Sorted(slices.Values(v.live())), "the highest go")
		released, err = a.Trim(0)
		require.NoError(t, err)
		assert.Equal(t, uint64(slabSize), released)
		assert.Zero(t, v.looseNow(), "they do not go into the cache")
		malloc(t, a, slabSize)
		synctest.Wait()
		assert.Equal(t, uint64(3*slabSize), a.SlabStats().Ahead)
		s := a.SlabStats()
		assert.Equal(t, s.Made, s.Gone+uint64(s.Count))
		assertBalance(t, a.Stats())
		require.NoError(t, a.Release())
	})
}

func TestResetWithSlabsAhead(t *testing.T) {
	for _, reuse := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			v := newVault(t)
			a := openAhead(t, v, 2, arena.Config{Reuse: reuse})
			for range 5 {
				assert.Equal(t, slabAt(0), malloc(t, a, 1))
				synctest.Wait()
				require.ErrorIs(t, a.Reset(), arena.ErrNotEmpty)
				require.NoError(t, a.Free(slabAt(0)))
				require.NoError(t, a.Reset())
				assert.Zero(t, a.Used())
				assert.Zero(t, v.handlesNow())
				s := a.SlabStats()
				assert.Equal(t, arena.SlabStats{Size: slabSize, Made: s.Made, Gone: s.Made}, s)
			}
			require.NoError(t, a.Release())
		})
	}
}

// One slab that cannot be released must not lose the others.
func TestResetThatFailsLosesNoSlab(t *testing.T) {
	for name, fate := range map[string]error{"fails": errDriver, "quarantined": vmm.ErrQuarantined} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				a := openAhead(t, f, 3, arena.Config{})
				va := malloc(t, a, 1)
				synctest.Wait()
				require.NoError(t, a.Free(va))
				fail := first(fate)
				f.onRelease = func(_, _, _ uint64) error { return fail() }
				require.ErrorIs(t, a.Reset(), fate)
				assertBalance(t, a.Stats())
				if name == "fails" {
					assert.Zero(t, f.handlesNow())
					require.NoError(t, a.Reset())
				} else {
					assert.Equal(t, 1, f.handlesNow())
					require.ErrorIs(t, a.Reset(), arena.ErrNotEmpty)
				}
				require.NoError(t, a.Release())
				assert.Zero(t, f.handlesNow())
			})
		})
	}
}

// A close waits for a reset or a trim that releases slabs.
func TestCloseWaitsForSlabsThatGo(t *testing.T) {
	for name, call := range map[string]func(a *arena.Arena) error{
		"reset": (*arena.Arena).Reset,
		"trim":  func(a *arena.Arena) error { _, err := a.Trim(0); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				a := openAhead(t, f, 2, arena.Config{})
				va := malloc(t, a, 1)
				synctest.Wait()
				require.NoError(t, a.Free(va))
				g := newGate()
				park := once(g)
				f.onRelease = func(_, _, _ uint64) error { park(); return nil }
				going := background(func() error { return call(a) })
				synctest.Wait()
				closed := background(a.Close)
				synctest.Wait()
				assertRunning(t, closed)
				g.open()
				if err := <-going; name == "reset" {
					require.ErrorIs(t, err, arena.ErrClosed)
				} else {
					require.NoError(t, err)
				}
				require.NoError(t, <-closed)
				assert.Zero(t, f.handlesNow())
				assert.False(t, f.isReserved())
			})
		})
	}
}

// A call from inside the backend cannot wait for the slab that is being made there.
func TestCallsFromInsideThePrefetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newVault(t)
		a := openAhead(t, f, 2, arena.Config{})
		called := 0
		f.onAllocate = func(va, _ uint64) error {
			if va != slabAt(2) {
				return nil
			}
			called++
			assert.ErrorIs(t, a.Reset(), arena.ErrNotEmpty)
			_, err := a.Trim(0)
			assert.NoError(t, err)
			assert.ErrorIs(t, a.AddPeer(1), arena.ErrBusy)
			assert.ErrorIs(t, a.Close(), arena.ErrBusy)
			assert.ErrorIs(t, a.Release(), arena.ErrBusy)
			inner, err := a.Malloc(slabSize + 1)
			assert.NoError(t, err)
			assert.NoError(t, a.Free(inner))
			return nil
		}
		malloc(t, a, 1)
		synctest.Wait()
		assert.Equal(t, 1, called)
		assert.Equal(t, uint64(2*slabSize), a.SlabStats().Ahead)
		require.NoError(t, a.Release())
	})
}

func TestPrefetchOfALostDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		a := openAhead(t, f, 2, arena.Config{})
		f.onAllocate = func(va, _ uint64) error {
			if va == slabAt(2) {
				return &vmm.Error{Class: vmm.ClassDeviceLost}
			}
			return nil
		}
		malloc(t, a, 1)
		synctest.Wait()
		before := f.counted()
		_, err := a.Malloc(1)
		require.ErrorIs(t, err, arena.ErrDeviceLost)
		require.ErrorIs(t, a.Reset(), arena.ErrNotEmpty)
		require.ErrorIs(t, a.Close(), arena.ErrDeviceLost)
		assert.Equal(t, before, f.counted())
		assertBalance(t, a.Stats())
	})
}

// TestThreadsAndThePrefetch has threads allocate, free, trim and reset while slabs are mapped ahead, with a driver that fails now and then.
func TestThreadsAndThePrefetch(t *testing.T) {
	rounds := 20
	if raceEnabled {
		rounds = 5
	}
	before := runtime.NumGoroutine()
	for round := range rounds {
		v := newVault(t)
		v.limit = 40 * slabSize
		fate := func() error {
			yield()
			if rand.IntN(20) == 0 {
				return errDriver
			}
			return nil
		}
		v.onAllocate = func(_, _ uint64) error { return fate() }
		v.onAttach = func(_, _, _ uint64) error { return fate() }
		config := arena.Config{Reuse: round%2 == 0, Cache: uint64(round%3) * 4 * slabSize}
		config.Placement, config.Prefetch = arena.Slab(slabSize), 4*slabSize
		a := openConfig(t, v, 1<<20, config)
		owned := newOwners(t)
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				var mine []span
				for range 300 {
					switch kind := rand.IntN(100); {
					case kind == 0:
						_, err := a.Trim(uint64(rand.IntN(4)) * slabSize)
						assert.NoError(t, err)
					case kind == 1:
						assert.True(t, errorsIsAny(a.Reset(), nil, arena.ErrNotEmpty))
					case kind < 50 && len(mine) > 0:
						i := rand.IntN(len(mine))
						owned.give(mine[i])
						assert.NoError(t, a.Free(mine[i].va))
						mine = slices.Delete(mine, i, i+1)
					case len(mine) < 16:
						size := 1 + rand.Int64N(slabSize+slabSize/8)
						va, err := a.Malloc(size)
						if err == nil {
							mine = append(mine, owned.take(va, uint64(size)))
						} else if !errors.Is(err, errDriver) {
							assert.ErrorIs(t, err, vmm.ClassOutOfMemory)
						}
					}
					s := a.SlabStats()
					assert.LessOrEqual(t, s.Ahead, config.Prefetch)
					assert.LessOrEqual(t, a.LiveHandles(), uint64(1<<20), "it underflowed")
				}
			})
		}
		all.Wait()
		s := a.SlabStats()
		assert.Equal(t, s.Made, s.Gone+uint64(s.Count))
		assertBalance(t, a.Stats())
		assertCacheBalance(t, a.CacheStats())
		require.NoError(t, a.Close())
		assert.Zero(t, v.handlesNow())
		assert.Zero(t, v.looseNow())
		require.NoError(t, a.Release())
		if t.Failed() {
			return
		}
	}
	for runtime.NumGoroutine() > before+1 { // the clock's may rest later
		runtime.Gosched()
	}
}

// A span is the addresses of an allocation.
type span struct{ va, size uint64 }

// Owners notice when two live allocations overlap.
type owners struct {
	t    *testing.T
	mu   sync.Mutex
	live []span // guarded by mu; by address
}

func newOwners(t *testing.T) *owners {
	t.Helper()
	return &owners{t: t}
}

func (o *owners) find(va uint64) (int, bool) {
	return slices.BinarySearchFunc(o.live, va, func(s span, at uint64) int {
		switch {
		case s.va < at:
			return -1
		case s.va > at:
			return 1
		}
		return 0
	})
}

func (o *owners) take(va, size uint64) span {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := span{va, size}
	i, found := o.find(va)
	if found || i > 0 && o.live[i-1].va+o.live[i-1].size > va || i < len(o.live) && va+size > o.live[i].va {
		o.t.Errorf("%d bytes at %#x overlap another live allocation", size, va)
	}
	o.live = slices.Insert(o.live, i, s)
	return s
}

func (o *owners) give(s span) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i, found := o.find(s.va)
	if found {
		o.live = slices.Delete(o.live, i, i+1)
	}
}

// What is asked for while threads are at work must not be less than nothing.
func TestLiveHandlesWhileThreadsAreAtWork(t *testing.T) {
	f := newFake(t)
	a := openWith(t, f, 1<<10, arena.Single())
	over := make(chan struct{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				va, err := a.Malloc(1)
				if assert.NoError(t, err) {
					assert.NoError(t, a.Free(va))
				}
			}
		})
	}
	for range 2000 {
		if n := a.LiveHandles(); !assert.LessOrEqual(t, n, uint64(9)) {
			break
		}
	}
	close(over)
	all.Wait()
	assert.Equal(t, uint64(1), a.LiveHandles())
	require.NoError(t, a.Release())
}
