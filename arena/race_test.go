package arena_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

// yield gives the other threads a chance, or none.
func yield() {
	for range rand.IntN(4) {
		runtime.Gosched()
	}
}

// slow makes calls of a fake take a while, now and then.
func slow(f *fake) {
	f.onAllocate = func(_, _ uint64) error { yield(); return nil }
	f.onRelease = func(_, _, _ uint64) error { yield(); return nil }
	f.onUnreserve = func() error { yield(); return nil }
}

// A duel is two calls that race, and what must be true when both came back.
type duel struct{ first, second, check func() }

// duels run many times. A wake-up that gets lost is a test that does not end.
var duels = map[string]func(t *testing.T, f *fake, a *arena.Arena) duel{
	"malloc and close": func(t *testing.T, f *fake, a *arena.Arena) duel {
		t.Helper()
		var va uint64
		var err error
		return duel{
			func() { va, err = a.Malloc(1) },
			func() { assert.NoError(t, a.Close()) },
			func() {
				assert.Equal(t, err != nil, !f.isReserved(), "kept for the late free of what was won")
				if err == nil {
					assert.Equal(t, uint64(1), a.Stats().Released)
					require.NoError(t, a.Free(va))
				} else {
					require.ErrorIs(t, err, arena.ErrClosed)
				}
				assert.False(t, f.isReserved())
			},
		}
	},
	"malloc that is quarantined and close": func(t *testing.T, f *fake, a *arena.Arena) duel {
		t.Helper()
		f.onAllocate = func(_, _ uint64) error { yield(); return vmm.ErrQuarantined }
		return duel{
			func() { _, _ = a.Malloc(1) },
			func() { assert.NoError(t, a.Close()) },
			func() {
				assert.Zero(t, a.Stats().Quarantined)
				assert.False(t, f.isReserved())
			},
		}
	},
	"malloc and drain": func(t *testing.T, f *fake, a *arena.Arena) duel {
		t.Helper()
		var va uint64
		var err error
		var drained []arena.Allocation
		return duel{
			func() { va, err = a.Malloc(1) },
			func() { drained, _ = a.CloseAndDrain() },
			func() {
				if err == nil {
					assert.Equal(t, []arena.Allocation{{VA: va, Size: granule, Handle: 1001}}, drained)
				} else {
					assert.Empty(t, drained)
				}
				clear(f.placements)
			},
		}
	},
	"free and close": func(t *testing.T, f *fake, a *arena.Arena) duel {
		t.Helper()
		va := malloc(t, a, 1)
		return duel{
			func() { assert.NoError(t, a.Free(va)) },
			func() { assert.NoError(t, a.Close()) },
			func() {
				assert.Equal(t, 1, f.counted().release)
				assert.False(t, f.isReserved(), "in time or late, it was freed")
				assert.Equal(t, 1, f.counted().unreserve)
			},
		}
	},
	"last late free while close ends": func(t *testing.T, f *fake, a *arena.Arena) duel {
		t.Helper()
		va := malloc(t, a, 1)
		var released atomic.Bool
		f.onRelease = func(_, _, _ uint64) error { released.Store(true); return nil }
		return duel{
			func() {
				for !released.Load() {
					runtime.Gosched()
				}
				for range rand.IntN(300) {
					released.Load() // some time
				}
				assert.NoError(t, a.Free(va))
			},
			func() { assert.NoError(t, a.Close()) },
			func() {
				assert.False(t, f.isReserved(), "either the close or the free gives it back")
				assert.Equal(t, 1, f.counted().unreserve)
			},
		}
	},
	"free and drain": func(t *testing.T, f *fake, a *arena.Arena) duel {
		t.Helper()
		va := malloc(t, a, 1)
		var drained []arena.Allocation
		f.onUnreserve = func() error { clear(f.placements); return nil }
		return duel{
			func() { assert.NoError(t, a.Free(va)) },
			func() { drained, _ = a.CloseAndDrain() },
			func() {
				assert.Equal(t, 1, f.counted().release+len(drained))
				assert.Equal(t, uint64(len(drained)), a.Stats().LateFrees)
			},
		}
	},
	"two last late frees": func(t *testing.T, f *fake, a *arena.Arena) duel {
		t.Helper()
		vas := mallocs(t, a, 2)
		require.NoError(t, a.Close())
		return duel{
			func() { assert.NoError(t, a.Free(vas[0])) },
			func() { assert.NoError(t, a.Free(vas[1])) },
			func() {
				assert.False(t, f.isReserved())
				assert.Equal(t, 1, f.counted().unreserve)
			},
		}
	},
	"last late free twice": func(t *testing.T, f *fake, a *arena.Arena) duel {
		t.Helper()
		va := malloc(t, a, 1)
		require.NoError(t, a.Close())
		return duel{
			func() { assert.NoError(t, a.Free(va)) },
			func() { assert.NoError(t, a.Free(va)) },
			func() {
				assert.Equal(t, uint64(1), a.Stats().LateFrees)
				assert.Equal(t, uint64(1), a.Stats().UnknownFrees)
				assert.False(t, f.isReserved())
			},
		}
	},
	"last late free and release": func(t *testing.T, f *fake, a *arena.Arena) duel {
		t.Helper()
		va := malloc(t, a, 1)
		require.NoError(t, a.Close())
		return duel{
			func() { assert.NoError(t, a.Free(va)) },
			func() { assert.NoError(t, a.Release()) },
			func() {
				assert.False(t, f.isReserved())
				assert.Equal(t, 1, f.counted().unreserve)
			},
		}
	},
	"last late free and retry of a quarantine": func(t *testing.T, f *fake, a *arena.Arena) duel {
		t.Helper()
		vas := mallocs(t, a, 2)
		f.onRelease = func(va, _, _ uint64) error {
			if va == vas[0] {
				return vmm.ErrQuarantined
			}
			return nil
		}
		require.Error(t, a.Close())
		require.NoError(t, a.Free(vas[0]))
		f.onRelease = func(_, _, _ uint64) error { yield(); return nil }
		return duel{
			func() { assert.NoError(t, a.Free(vas[1])) },
			func() { assert.NoError(t, a.Release()) },
			func() {
				assert.False(t, f.isReserved())
				assert.Equal(t, calls{reserve: 1, unreserve: 1, allocate: 2, release: 3}, f.counted())
			},
		}
	},
	"two releases": func(t *testing.T, f *fake, a *arena.Arena) duel {
		t.Helper()
		mallocs(t, a, 3)
		release := func() { assert.NoError(t, a.Release()) }
		return duel{release, release, func() {
			assert.False(t, f.isReserved())
			assert.Equal(t, calls{reserve: 1, unreserve: 1, allocate: 3, release: 3}, f.counted())
		}}
	},
	"two releases that retry": func(t *testing.T, f *fake, a *arena.Arena) duel {
		t.Helper()
		vas := mallocs(t, a, 3)
		f.onRelease = func(_, _, _ uint64) error { return vmm.ErrQuarantined }
		require.Error(t, a.Free(vas[0]))
		require.Error(t, a.Close())
		f.onRelease = func(_, _, _ uint64) error { yield(); return nil }
		release := func() { assert.NoError(t, a.Release()) }
		return duel{release, release, func() {
			assert.False(t, f.isReserved())
			assert.Equal(t, calls{reserve: 1, unreserve: 1, allocate: 3, release: 7}, f.counted())
		}}
	},
	"two closes": func(t *testing.T, f *fake, a *arena.Arena) duel {
		t.Helper()
		mallocs(t, a, 3)
		closed := func() { assert.NoError(t, a.Close()) }
		return duel{closed, closed, func() {
			assert.Equal(t, 3, f.counted().release)
			assert.Equal(t, uint64(3), a.Stats().Released)
		}}
	},
	"two drains": func(t *testing.T, f *fake, a *arena.Arena) duel {
		t.Helper()
		mallocs(t, a, 3)
		var drained [2][]arena.Allocation
		drain := func(i int) func() { return func() { drained[i], _ = a.CloseAndDrain() } }
		return duel{drain(0), drain(1), func() {
			assert.Equal(t, []int{0, 3}, slices.Sorted(slices.Values([]int{len(drained[0]), len(drained[1])})))
			clear(f.placements)
		}}
	},
	"refused drain and release": func(t *testing.T, f *fake, a *arena.Arena) duel {
		t.Helper()
		mallocs(t, a, 3)
		return duel{
			func() {
				_, err := a.CloseAndDrainInto(func(int) ([]arena.Allocation, error) { yield(); return nil, errDriver })
				assert.Error(t, err)
			},
			func() { assert.NoError(t, a.Release()) },
			func() {
				assert.False(t, f.isReserved())
				assert.Equal(t, 3, f.counted().release)
			},
		}
	},
	"refused drain and close": func(t *testing.T, f *fake, a *arena.Arena) duel {
		t.Helper()
		mallocs(t, a, 3)
		return duel{
			func() {
				_, err := a.CloseAndDrainInto(func(int) ([]arena.Allocation, error) { yield(); return nil, errDriver })
				assert.Error(t, err)
			},
			func() { assert.NoError(t, a.Close()) },
			func() {
				live := a.Live() // the close came first or between, or last
				assert.Contains(t, []uint64{0, 3}, live)
				assert.Equal(t, 3-int(live), f.counted().release)
			},
		}
	},
}

func TestDuels(t *testing.T) {
	rounds := 5000
	if raceEnabled {
		rounds = 600
	}
	for name, begin := range duels {
		t.Run(name, func(t *testing.T) {
			for range rounds {
				f := newFake(t)
				a := open(t, f, 8)
				slow(f)
				d := begin(t, f, a)
				start := newGate()
				var both sync.WaitGroup
				for _, call := range []func(){d.first, d.second} {
					both.Go(func() {
						start.park()
						yield()
						call()
					})
				}
				start.open()
				both.Wait()
				d.check()
				assertBalance(t, a.Stats())
				require.NoError(t, a.Release())
				assert.Empty(t, f.live())
				assert.False(t, f.isReserved())
				if t.Failed() {
					return
				}
			}
		})
	}
}

// A melee is an arena that many threads use while others end it.
type melee struct {
	t      *testing.T
	f      *fake
	a      *arena.Arena
	router arena.Router

	inside atomic.Int64 // allocations and frees in time that are in the backend
	won    atomic.Int64 // allocations that succeeded

	mu      sync.Mutex
	drained []arena.Allocation   // guarded by mu
	left    map[uint64]placement // what was there when the reservation went back; guarded by mu
}

func newMelee(t *testing.T) *melee {
	t.Helper()
	m := &melee{t: t, f: newFake(t), left: make(map[uint64]placement)}
	m.a = open(t, m.f, 1<<20)
	m.router.Add(m.a)
	m.router.SetActiveAny(m.a)
	m.f.onAllocate = func(_, _ uint64) error {
		m.inside.Add(1)
		defer m.inside.Add(-1)
		yield()
		return nil
	}
	m.f.onRelease = func(_, _, _ uint64) error { yield(); return nil }
	m.f.onUnreserve = func() error {
		m.f.mu.Lock()
		defer m.f.mu.Unlock()
		m.left, m.f.placements = m.f.placements, map[uint64]placement{} // what a drain handed over
		return nil
	}
	return m
}

// use allocates and frees until the arena is closed, and then frees what is left, late.
func (m *melee) use(exchange chan uint64) {
	var mine []uint64
	for {
		va, err := m.router.Malloc(0, arena.Request{Size: 1 + rand.Int64N(3*granule)})
		if err != nil {
			assert.ErrorIs(m.t, err, arena.ErrClosed)
			break
		}
		m.won.Add(1)
		mine = append(mine, va)
		for len(mine) > rand.IntN(8) {
			va := mine[len(mine)-1]
			mine = mine[:len(mine)-1]
			select {
			case exchange <- va:
			case va = <-exchange: // this one is kept
				mine = append(mine, va)
			default:
				assert.NoError(m.t, m.router.Free(0, va))
			}
			if rand.IntN(4) == 0 {
				break
			}
		}
	}
	for _, va := range mine {
		assert.NoError(m.t, m.router.Free(0, va))
	}
}

// watch reads until the arena is closed.
func (m *melee) watch() {
	for !m.a.Closed() {
		assertBalance(m.t, m.a.Stats())
		runtime.Gosched()
	}
}

// end ends the arena in a random way.
func (m *melee) end() {
	for range rand.IntN(64) {
		runtime.Gosched()
	}
	switch rand.IntN(5) {
	case 0:
		assert.NoError(m.t, m.a.Close())
	case 1:
		assert.NoError(m.t, m.a.Release())
	default:
		refuse := rand.IntN(2) == 0
		drained, err := m.a.CloseAndDrainInto(func(n int) ([]arena.Allocation, error) {
			assert.Zero(m.t, m.inside.Load(), "somebody is still inside the backend")
			yield()
			if refuse {
				return nil, errDriver
			}
			return make([]arena.Allocation, n), nil
		})
		if err != nil {
			assert.Nil(m.t, drained)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.drained = append(m.drained, drained...)
	}
}

func TestMelee(t *testing.T) {
	rounds := 2000
	if raceEnabled {
		rounds = 300
	}
	for range rounds {
		m := newMelee(t)
		exchange := make(chan uint64, 4)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { m.use(exchange) })
		}
		all.Go(m.watch)
		for range 3 {
			all.Go(m.end)
		}
		// Each end may be a drain that is refused: that closes too, so the users come back.
		all.Wait()
		close(exchange)
		for va := range exchange {
			require.NoError(t, m.router.Free(0, va))
		}
		m.check()
		if t.Failed() {
			return
		}
	}
}

func (m *melee) check() {
	t := m.t
	require.NoError(t, m.a.Release())
	s := m.a.Stats()
	assertBalance(t, s)
	assert.Equal(t, uint64(m.won.Load()), s.Created)
	assert.Zero(t, s.Live)
	assert.Zero(t, s.Mapped)
	assert.Zero(t, s.Quarantined)
	assert.Equal(t, uint64(len(m.drained)), s.HandedOver)
	assert.Len(t, m.left, len(m.drained), "only what was handed over is left")
	for _, x := range m.drained {
		assert.Equal(t, placement{size: x.Size, handle: x.Handle}, m.left[x.VA])
	}
	assert.False(t, m.f.isReserved())
	assert.Equal(t, int(s.Released), m.f.counted().release)
	assert.Equal(t, 1, m.f.counted().unreserve)
}

// tally is what one thread of TestConcurrentOperations did.
type tally struct{ created, failed, refused, freed, unknown uint64 }

// TestConcurrentOperations has threads do random operations of every kind, with a backend that
// fails now and then, and checks the sums.
func TestConcurrentOperations(t *testing.T) {
	const threads = 4
	operations := 100_000
	if raceEnabled {
		operations = 10_000
	}
	f := newFake(t)
	a := open(t, f, int64(3*threads*operations/4)) // now and then it is exhausted at the end
	var r arena.Router
	r.Add(a)
	r.SetActiveAny(a)
	var quarantined, failedReleases atomic.Uint64
	f.onAllocate = func(va, _ uint64) error {
		switch va / granule % 101 {
		case 0:
			return errDriver
		case 1:
			quarantined.Add(1)
			return fmt.Errorf("%w: %w", vmm.ErrQuarantined, errDriver)
		}
		return nil
	}
	f.onRelease = func(va, _, _ uint64) error {
		switch va / granule % 97 {
		case 0:
			failedReleases.Add(1)
			return errDriver
		case 1:
			failedReleases.Add(1)
			quarantined.Add(1)
			return fmt.Errorf("%w: %w", vmm.ErrQuarantined, errDriver)
		case 2:
			failedReleases.Add(1)
			panic(errDriver)
		}
		return nil
	}

	random := newRandom(t)
	exchange := make(chan uint64, 64)
	tallies := make([]tally, threads)
	var all sync.WaitGroup
	for i := range threads {
		thread := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
		all.Go(func() { tallies[i] = operate(t, thread, operations, a, &r, exchange) })
	}
	all.Wait()

	var sum tally
	for _, x := range tallies {
		sum.created += x.created
		sum.failed += x.failed
		sum.refused += x.refused
		sum.freed += x.freed
		sum.unknown += x.unknown
	}
	s := a.Stats()
	assertBalance(t, s)
	lost := s.Created - sum.created // allocations that failed and are quarantined
	assert.Equal(t, sum.failed, s.Failed)
	assert.Equal(t, sum.refused, s.Refused)
	assert.Equal(t, quarantined.Load(), s.Quarantined)
	assert.Equal(t, failedReleases.Load(), s.FailedReleases)
	assert.Equal(t, sum.created-sum.freed, s.Live)
	assert.Equal(t, sum.freed+lost-s.Quarantined, s.Released)
	assert.Equal(t, sum.unknown, s.UnknownFrees+r.Diagnostics().Unrouted)
	assert.Len(t, f.live(), int(s.Live+s.Quarantined))

	f.onRelease = nil
	require.NoError(t, a.Release())
	s = a.Stats()
	assertBalance(t, s)
	assert.Equal(t, s.Created, s.Released)
	assert.Empty(t, f.live())
	assert.False(t, f.isReserved())
}

// operate does operations of one thread. What it leaves is in the exchange.
func operate(
	t *testing.T, random *rand.Rand, operations int, a *arena.Arena, r *arena.Router, exchange chan uint64,
) (did tally) {
	t.Helper()
	var mine []uint64
	gone := uint64(base)
	free := func(va uint64) {
		did.freed++
		gone = va
		if random.IntN(2) == 0 {
			_ = a.Free(va)
		} else {
			_ = r.Free(0, va)
		}
	}
	for range operations {
		switch kind := random.IntN(100); {
		case kind < 45:
			va, err := r.Malloc(0, arena.Request{Size: 1 + random.Int64N(2*granule)})
			switch {
			case err == nil:
				did.created++
				mine = append(mine, va)
			case errors.Is(err, errDriver):
				did.failed++
			default:
				assert.ErrorIs(t, err, arena.ErrExhausted)
				did.refused++
			}
		case kind < 75:
			if n := len(mine); n > 0 {
				i := random.IntN(n)
				va := mine[i]
				mine[i] = mine[n-1]
				mine = mine[:n-1]
				free(va)
			}
		case kind < 80:
			if n := len(mine); n > 0 {
				select {
				case exchange <- mine[n-1]:
					mine = mine[:n-1]
				default:
				}
			}
		case kind < 85:
			select {
			case va := <-exchange:
				free(va)
			default:
			}
		case kind < 90:
			if gone != base { // a second free
				assert.NoError(t, a.Free(gone))
				did.unknown++
			}
		case kind < 93:
			assert.NoError(t, r.Free(0, base+1+random.Uint64N(granule-1)))
			did.unknown++
		case kind < 95:
			_, err := a.Malloc(-1)
			assert.ErrorIs(t, err, arena.ErrInvalidArgument)
			did.refused++
		case kind < 97:
			assertBalance(t, a.Stats())
		default:
			assert.Same(t, a, r.Of(base+random.Uint64N(a.Total())))
			assert.LessOrEqual(t, a.Mapped(), a.Used())
		}
	}
	return did
}
