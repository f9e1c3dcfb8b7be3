package arena_test

import (
	"errors"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30

	granule = 64 * kib
	base    = 0x7f00_0000_0000
)

var errDriver = errors.New("the driver said no")

var seed = flag.Uint64("seed", rand.Uint64(), "what random tests begin with; a failed one tells its own")

// newRandom returns random numbers whose seed a failed test tells.
func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	t.Logf("run with -seed=%d to see this again", *seed)
	return rand.New(rand.NewPCG(*seed, 0))
}

// A fake is a backend without memory. It checks that the arena keeps to the contract of a
// backend: each address is allocated once, what is released was allocated with this size and
// handle, and the reservation goes back once, empty. What breaks the contract fails the test.
type fake struct {
	t           *testing.T
	base        uint64
	minimum     uint64
	recommended uint64

	// Hooks run before a call takes effect, with no lock held: they may park or call the
	// arena back. An error from them fails the call.
	onReserve   func(size, granule, hint uint64) error
	onUnreserve func() error
	onAllocate  func(va, size uint64) error
	onRelease   func(va, size, handle uint64) error

	mu sync.Mutex
	// The fields below are guarded by mu.
	reserved   uint64               // bytes, 0 when nothing is
	placements map[uint64]placement // by address
	handles    uint64               // the last handle
	calls      calls
}

type placement struct{ size, handle uint64 }

// calls counts the calls that came in.
type calls struct{ reserve, unreserve, allocate, release int }

func newFake(t *testing.T) *fake {
	t.Helper()
	return &fake{
		t: t, base: base, minimum: granule, recommended: granule,
		placements: make(map[uint64]placement), handles: 1000,
	}
}

func (f *fake) Granule(kind vmm.Granularity) uint64 {
	if kind == vmm.GranularityMinimum {
		return f.minimum
	}
	return f.recommended
}

func (f *fake) Reserve(size, granule, hint uint64) (uint64, error) {
	f.count(func(c *calls) { c.reserve++ })
	if f.onReserve != nil {
		if err := f.onReserve(size, granule, hint); err != nil {
			return 0, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	assert.Zero(f.t, f.reserved, "reserved twice")
	assert.Zero(f.t, size%granule, "size of the reservation")
	f.reserved = size
	return f.base, nil
}

func (f *fake) Unreserve(base, size uint64) error {
	f.count(func(c *calls) { c.unreserve++ })
	if f.onUnreserve != nil {
		if err := f.onUnreserve(); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	assert.Equal(f.t, f.base, base, "base of what is given back")
	assert.Equal(f.t, f.reserved, size, "size of what is given back")
	assert.Empty(f.t, f.placements, "something is still mapped in what is given back")
	f.reserved = 0
	return nil
}

// Allocate fails as the hook says. It keeps the memory when that is a quarantine.
func (f *fake) Allocate(va, size uint64) (uint64, error) {
	f.count(func(c *calls) { c.allocate++ })
	var failure error
	if f.onAllocate != nil {
		failure = f.onAllocate(va, size)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.placements[va]; ok || va < f.base || va+size > f.base+f.reserved {
		f.t.Errorf("allocated %d bytes at %#x: there already, or outside the reservation", size, va)
	}
	if failure != nil && !errors.Is(failure, vmm.ErrQuarantined) {
		return 0, failure
	}
	f.handles++
	f.placements[va] = placement{size: size, handle: f.handles}
	return f.handles, failure
}

// Release fails as the hook says. The memory is gone all the same, unless that is a quarantine.
func (f *fake) Release(va, size, handle uint64) (failure error) {
	f.count(func(c *calls) { c.release++ })
	defer func() { // also when the hook panics
		f.mu.Lock()
		defer f.mu.Unlock()
		if was := f.placements[va]; was != (placement{size: size, handle: handle}) {
			f.t.Errorf("released %d bytes at %#x with handle %d, expected %+v", size, va, handle, was)
		}
		if !errors.Is(failure, vmm.ErrQuarantined) {
			delete(f.placements, va)
		}
	}()
	if f.onRelease != nil {
		return f.onRelease(va, size, handle)
	}
	return nil
}

func (f *fake) count(what func(*calls)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what(&f.calls)
}

func (f *fake) counted() calls {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// live is the addresses with memory behind them.
func (f *fake) live() []uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	var live []uint64
	for va := range f.placements {
		live = append(live, va)
	}
	return live
}

func (f *fake) isReserved() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reserved != 0
}

// open makes an arena of so many granules over a fake.
func open(t *testing.T, f *fake, granules int64) *arena.Arena {
	t.Helper()
	a, err := arena.New(f, arena.Config{Total: granules * int64(f.recommended)})
	require.NoError(t, err)
	return a
}

func malloc(t *testing.T, a *arena.Arena, size int64) uint64 {
	t.Helper()
	va, err := a.Malloc(size)
	require.NoError(t, err)
	return va
}

// mallocs makes n allocations of a granule each.
func mallocs(t *testing.T, a *arena.Arena, n int) []uint64 {
	t.Helper()
	vas := make([]uint64, n)
	for i := range vas {
		vas[i] = malloc(t, a, 1)
	}
	return vas
}

// assertBalance checks what holds in every arena at every moment.
func assertBalance(t *testing.T, s arena.Stats) {
	t.Helper()
	assert.Equal(t, s.Created, s.Released+s.Live+s.Quarantined+s.HandedOver, "the counters do not balance: %+v", s)
	assert.LessOrEqual(t, s.Mapped, s.Used)
	assert.LessOrEqual(t, s.Used, s.Total)
	assert.LessOrEqual(t, s.Live*s.Granule, s.Mapped)
}

// A gate parks the calls that come to it until it opens.
type gate chan struct{}

func newGate() gate { return make(gate) }

func (g gate) park() { <-g }

func (g gate) open() { close(g) }

// background runs a function and returns a channel that yields what it returned.
func background[T any](f func() T) <-chan T {
	done := make(chan T, 1)
	go func() { done <- f() }()
	return done
}

// assertRunning checks that what runs in the background has not come back.
func assertRunning[T any](t *testing.T, done <-chan T) {
	t.Helper()
	assert.Empty(t, done, "it came back")
}
