package arena_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

// registered is how much there is to register.
func registered(t *testing.T, a *arena.Arena) uint64 {
	t.Helper()
	first, length := a.RegisteredRange()
	require.Equal(t, a.Base(), first)
	return length
}

// A valet parks the allocations that have a gate, by their address.
type valet map[uint64]gate

func (p valet) onAllocate(va, _ uint64) error {
	if g, ok := p[va]; ok {
		g.park()
	}
	return nil
}

func TestRegisteredRangeEndsBelowTheLowestInFlight(t *testing.T) {
	for name, fate := range map[string]error{"succeed": nil, "fail": errDriver} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				a := open(t, f, 64)
				assert.Zero(t, registered(t, a))
				mallocs(t, a, 2)
				at := []uint64{base + 2*granule, base + 4*granule, base + 5*granule}
				parked := valet{at[0]: newGate(), at[1]: newGate(), at[2]: newGate()}
				f.onAllocate = func(va, size uint64) error {
					if _, ok := parked[va]; ok {
						_ = parked.onAllocate(va, size)
						return fate
					}
					return nil
				}
				begin := func() <-chan error {
					done := background(func() error { _, err := a.Malloc(1); return err })
					synctest.Wait()
					return done
				}
				first := begin()
				assert.Equal(t, uint64(2*granule), registered(t, a))
				malloc(t, a, 1) // at 3
				assert.Equal(t, uint64(2*granule), registered(t, a), "a later one that came back changes nothing")
				second, third := begin(), begin()
				mallocs(t, a, 2) // at 6 and 7
				assert.Equal(t, uint64(2*granule), registered(t, a), "the lowest of several")
				assert.Equal(t, uint64(8*granule), a.Used())

				// In this order: the higher one first.
				parked[at[2]].open()
				require.ErrorIs(t, <-third, fate)
				assert.Equal(t, uint64(2*granule), registered(t, a))
				parked[at[0]].open()
				require.ErrorIs(t, <-first, fate)
				assert.Equal(t, uint64(4*granule), registered(t, a), "the next lowest")
				parked[at[1]].open()
				require.ErrorIs(t, <-second, fate)
				assert.Equal(t, uint64(8*granule), registered(t, a), "what failed is a hole")
				require.NoError(t, a.Release())
			})
		})
	}
}

func TestFailedAndFreedSlotsAreHoles(t *testing.T) {
	f := newFake(t)
	a := open(t, f, 64)
	vas := mallocs(t, a, 3)
	f.onAllocate = func(_, _ uint64) error { return errDriver }
	_, err := a.Malloc(2 * granule)
	require.ErrorIs(t, err, errDriver)
	assert.Equal(t, uint64(5*granule), registered(t, a), "also at the end")
	f.onAllocate = nil
	mallocs(t, a, 1)
	require.NoError(t, a.Free(vas[1]))
	assert.Equal(t, uint64(6*granule), registered(t, a))
	holes, err := a.Regions(arena.RegionsHoles)
	require.NoError(t, err)
	assert.Equal(t, []arena.Region{{Base: vas[1], Length: granule}, {Base: base + 3*granule, Length: 2 * granule}}, holes)
	_, err = a.Malloc(64 * granule)
	require.ErrorIs(t, err, arena.ErrExhausted)
	assert.Equal(t, uint64(6*granule), registered(t, a), "what was refused holds nothing")
	require.NoError(t, a.Close())
	assert.Equal(t, uint64(6*granule), registered(t, a))
	require.NoError(t, a.Release())
}

// A slab that is parked holds the range, one that is mapped ahead does too, and room in a slab that is there does not.
func TestRegisteredRangeWithSlabs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		a := openWith(t, f, 256, arena.Slab(slabSize))
		malloc(t, a, 1)
		parked := valet{base + slabSize: newGate()}
		f.onAllocate = parked.onAllocate
		done := background(func() error { _, err := a.Malloc(slabSize); return err })
		synctest.Wait()
		malloc(t, a, 1)
		malloc(t, a, slabSize+1)
		assert.Equal(t, uint64(slabSize), registered(t, a))
		parked[base+slabSize].open()
		require.NoError(t, <-done)
		assert.Equal(t, a.Used(), registered(t, a))
		require.NoError(t, a.Release())
	})
}

// Addresses that were used before, or that nothing could be mapped at, are in flight like any others.
func TestRegisteredRangeWhileAddressesAreReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		a := openConfig(t, f, 64, arena.Config{Reuse: true})
		vas := mallocs(t, a, 4)
		require.NoError(t, a.Free(vas[1]))
		parked := valet{vas[1]: newGate()}
		f.onAllocate = parked.onAllocate
		done := background(func() error { _, err := a.Malloc(1); return err })
		synctest.Wait()
		assert.Equal(t, uint64(granule), registered(t, a))
		parked[vas[1]].open()
		require.NoError(t, <-done)
		assert.Equal(t, uint64(4*granule), registered(t, a))
		require.NoError(t, a.Release())
	})
}

// A witness is a fake that knows which granules were mapped, or could not be.
type witness struct {
	*fake
	decided []atomic.Bool
}

func newWitness(t *testing.T, granules int) *witness {
	t.Helper()
	w := &witness{fake: newFake(t), decided: make([]atomic.Bool, granules)}
	w.onAllocate = func(_, _ uint64) error {
		yield()
		if rand.IntN(8) == 0 {
			return errDriver
		}
		return nil
	}
	w.onRelease = func(_, _, _ uint64) error { yield(); return nil }
	return w
}

func (w *witness) Allocate(va, size uint64) (uint64, error) {
	handle, err := w.fake.Allocate(va, size)
	for at := va; at < va+size; at += granule {
		w.decided[(at-base)/granule].Store(true)
	}
	return handle, err
}

// TestWhoRegistersSeesNothingBeforeItsFirstMapping has one thread register while others allocate, free and fail.
func TestWhoRegistersSeesNothingBeforeItsFirstMapping(t *testing.T) {
	for name, config := range map[string]arena.Config{
		"per allocation": {},
		"slabs":          {Placement: arena.Slab(4 * granule)},
		"ahead":          {Placement: arena.Slab(4 * granule), Prefetch: 16 * granule},
	} {
		t.Run(name, func(t *testing.T) {
			const threads, each = 8, 400
			w := newWitness(t, 4*threads*each*4)
			a := openConfig(t, w, int64(len(w.decided)), config)
			var all sync.WaitGroup
			watching := make(chan struct{})
			for range threads {
				all.Go(func() {
					<-watching
					var mine []uint64
					for range each {
						va, err := a.Malloc(1 + rand.Int64N(3*granule))
						if err == nil {
							mine = append(mine, va)
						} else if !assert.ErrorIs(t, err, errDriver) {
							return
						}
						if len(mine) > 4 {
							assert.NoError(t, a.Free(mine[0]))
							mine = mine[1:]
						}
					}
				})
			}
			over := make(chan struct{})
			watched := background(func() (known uint64) {
				for looks := 0; ; looks++ {
					if looks == 0 {
						close(watching)
					}
					length := registered(t, a) / granule
					for ; known < length; known++ {
						if !w.decided[known].Load() {
							t.Errorf("granule %d of %d to register awaits its first mapping", known, length)
							return known
						}
					}
					select {
					case <-over:
						return known
					default:
					}
				}
			})
			all.Wait()
			close(over)
			assert.NotZero(t, <-watched, "nothing was to register")
			require.NoError(t, a.Release())
		})
	}
}

// Calls that a shard has no place at hand for are waited for too, whichever comes back first.
func TestMoreFlightsThanAShardHasAtHand(t *testing.T) {
	for _, order := range []string{"first in first out", "last in first out"} {
		t.Run(order, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const calls = 3 * arena.FlightsAtHand
				f := newFake(t)
				a := openWith(t, f, 1024, arena.Slab(slabSize))
				parked := valet{}
				for i := range uint64(calls) {
					parked[base+i*slabSize] = newGate()
				}
				f.onAllocate = parked.onAllocate
				var done []<-chan error
				for range calls { // in slabs, all flights begin in one shard
					done = append(done, background(func() error { _, err := a.Malloc(slabSize); return err }))
					synctest.Wait()
				}
				assert.Equal(t, calls-arena.FlightsAtHand, a.MoreFlights())
				assert.Zero(t, registered(t, a))
				require.ErrorIs(t, a.Reset(), arena.ErrNotEmpty)
				closed := background(a.Close)
				for i := range calls {
					synctest.Wait()
					assertRunning(t, closed)
					if order == "last in first out" {
						assert.Zero(t, registered(t, a))
						i = calls - 1 - i
					} else {
						assert.Equal(t, uint64(i*slabSize), registered(t, a))
					}
					parked[base+uint64(i)*slabSize].open()
					require.NoError(t, <-done[i])
				}
				require.NoError(t, <-closed)
				require.NoError(t, a.Release())
			})
		})
	}
}

func TestFlightsAreUsedAgain(t *testing.T) {
	f := newFake(t)
	f.onAllocate = func(_, _ uint64) error { yield(); return nil }
	a := openWith(t, f, 1<<14, arena.Slab(granule))
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 500 {
				va, err := a.Malloc(granule)
				if assert.NoError(t, err) {
					assert.NoError(t, a.Free(va))
				}
			}
		})
	}
	all.Wait()
	assert.LessOrEqual(t, a.MoreFlights(), 16, "they grow with the calls at once, not with the calls")
	assert.Equal(t, a.Used(), registered(t, a), "nothing is under way")
	require.NoError(t, a.Release())
}

// Many calls end while a close begins: one of them, or none, must wake it.
func TestCloseIsAlwaysWoken(t *testing.T) {
	rounds := 3000
	if raceEnabled {
		rounds = 500
	}
	for round := range rounds {
		v := newVault(t)
		v.onAllocate = func(_, _ uint64) error { yield(); return nil }
		config := arena.Config{Cache: 1 << 40, Reuse: round%2 == 0}
		if round%3 != 0 {
			config.Placement, config.Prefetch = arena.Slab(2*granule), 8*granule
		}
		a := openConfig(t, v, 256, config)
		var all sync.WaitGroup
		for _, call := range []func() error{
			func() error {
				va, err := a.Malloc(1)
				if err != nil {
					return err
				}
				return a.Free(va)
			},
			func() error { _, err := a.Malloc(5 * granule); return err },
			func() error { _, err := a.Trim(0); return err },
			func() error { return a.AddPeer(1) },
			a.Reset,
		} {
			all.Go(func() {
				yield()
				if err := call(); err != nil && !assert.True(t, errorsIsAny(err, arena.ErrClosed, arena.ErrNotEmpty), err) {
					return
				}
			})
		}
		all.Go(func() { yield(); assert.NoError(t, a.Close()) })
		all.Wait()
		require.NoError(t, a.Release())
		assert.Zero(t, v.handlesNow())
		assert.Zero(t, v.looseNow())
		assert.False(t, v.isReserved())
		assertBalance(t, a.Stats())
		assertCacheBalance(t, a.CacheStats())
		if t.Failed() {
			return
		}
	}
}

func TestQuarantinedSlotsAreHolesToo(t *testing.T) {
	f := newFake(t)
	a := openConfig(t, f, 64, arena.Config{Reuse: true})
	f.onAllocate = func(_, _ uint64) error { return vmm.ErrQuarantined }
	_, err := a.Malloc(1)
	require.ErrorIs(t, err, vmm.ErrQuarantined)
	f.onAllocate = nil
	assert.Equal(t, uint64(base+granule), malloc(t, a, 1), "they are not used again")
	assert.Equal(t, uint64(2*granule), registered(t, a))
	require.NoError(t, a.Release())
}
