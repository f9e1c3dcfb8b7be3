package arena_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

// choices decide what a model does next: random numbers or the bytes of a fuzzer.
type choices interface {
	upTo(n int) int // 0 to n-1
	more() bool
}

type randomChoices struct {
	*rand.Rand
	left int
}

func (c *randomChoices) upTo(n int) int { return c.IntN(n) }

func (c *randomChoices) more() bool {
	c.left--
	return c.left >= 0
}

type byteChoices []byte

func (c *byteChoices) more() bool { return len(*c) > 0 }

// upTo takes a byte, and is 0 when there is none. More than 256 choices take two.
func (c *byteChoices) upTo(n int) int {
	value := 0
	for limit := 1; limit < n && len(*c) > 0; limit <<= 8 {
		value = value<<8 | int((*c)[0])
		*c = (*c)[1:]
	}
	return value % n
}

// Fates of a call of the backend.
var fates = []func() error{
	func() error { return nil },
	func() error { return errDriver },
	func() error { return fmt.Errorf("%w: %w", vmm.ErrQuarantined, errDriver) },
	func() error { panic(errDriver) },
	func() error { return &vmm.Error{Class: vmm.ClassDeviceLost} },
	func() error { return fmt.Errorf("%w: %w", vmm.ErrQuarantined, &vmm.Error{Class: vmm.ClassDeviceLost}) },
}

const (
	fateGood = iota
	fateError
	fateQuarantine
	fatePanic
	fateLost
	fateLostQuarantine
)

// A model is what an arena must be like after each operation, by the words of its documentation:
// plain maps and sums, and no thought of speed.
type model struct {
	t *testing.T
	choices
	f *fake
	a *arena.Arena

	want   arena.Stats
	live   map[uint64]uint64 // sizes by address
	gone   []uint64          // addresses that were live once
	stuck  map[uint64]uint64 // quarantined and to be retried: sizes by address
	late   map[uint64]bool   // freed after the close, and still to be settled
	wait   map[uint64]bool   // settled and not freed late
	pinned bool              // a late free came before the address was handed over

	settled, returned bool
	lost              bool
	lostStuck         bool // the loss was a quarantine too
	mapped            int  // allocations that the backend has
}

// newModel opens an arena whose granule and size are chosen.
func newModel(t *testing.T, c choices) *model {
	t.Helper()
	f := newFake(t)
	g := []uint64{1, 4 * kib, 64 * kib, 2 * mib}[c.upTo(4)]
	f.minimum, f.recommended = g, g
	f.base = []uint64{g, base, math.MaxUint64&^(1<<40-1) - 1<<40}[c.upTo(3)] / g * g
	a := open(t, f, int64(1+c.upTo(1<<14)))
	return &model{
		t: t, choices: c, f: f, a: a,
		want: arena.Stats{Base: f.base, Total: a.Total(), Granule: g},
		live: make(map[uint64]uint64), stuck: make(map[uint64]uint64),
		late: make(map[uint64]bool), wait: make(map[uint64]bool),
	}
}

// run does operations until the choices end, and then ends the arena.
func (m *model) run() {
	for m.more() {
		switch kind := m.upTo(256); {
		case kind < 120:
			m.malloc(m.request(), m.fate())
		case kind < 240:
			m.free(m.pick(), m.fate())
		case kind < 253:
			m.look()
		case m.upTo(16) == 0:
			m.end(m.upTo(len(modelEndings)))
		}
		m.compare()
	}
	for range 3 {
		m.end(m.upTo(len(modelEndings)))
		m.compare()
		for _, va := range slices.Sorted(maps.Keys(m.wait)) {
			m.free(va, m.fate())
			m.compare()
		}
	}
	m.end(endRelease)
	m.compare()
	m.end(endRelease)
	m.compare()
}

// fate is good mostly, and seldom a lost device.
func (m *model) fate() int {
	switch kind := m.upTo(256); {
	case kind < 230:
		return fateGood
	case kind < 240:
		return fateError
	case kind < 248:
		return fateQuarantine
	case kind < 255:
		return fatePanic
	default:
		return [...]int{fateGood, fateGood, fateGood, fateGood, fateGood, fateGood, fateLost, fateLostQuarantine}[m.upTo(8)]
	}
}

func (m *model) request() arena.Request {
	g := int64(m.want.Granule)
	size := []int64{1, g, g - 1, g + 1, 2 * g, 5*g - 1, 64 * g}[m.upTo(7)]
	align := uint64(0)
	switch m.upTo(32) {
	case 0:
		size = []int64{0, -1, math.MinInt64, math.MaxInt64, math.MaxInt64 - g + 1, int64(m.want.Total)}[m.upTo(6)]
	case 1:
		align = []uint64{1, 2, 3, uint64(g), 2 * uint64(g), 1 << 63, math.MaxUint64}[m.upTo(7)]
	}
	return arena.Request{Size: size, Align: align, Stream: uint64(m.upTo(3))}
}

// pick chooses an address: a live one, one that was, one inside, or any.
func (m *model) pick() uint64 {
	offset := uint64(0)
	if m.upTo(8) == 0 {
		offset = []uint64{1, m.want.Granule, -m.want.Granule, m.want.Total, math.MaxUint64}[m.upTo(5)]
	}
	if n := len(m.gone); n > 0 && m.upTo(16) != 0 {
		return m.gone[max(0, n-1-m.upTo(64))] + offset
	}
	return m.want.Base + uint64(m.upTo(1<<15))*m.want.Granule + offset
}

func (m *model) malloc(request arena.Request, fate int) {
	m.f.onAllocate = func(_, _ uint64) error { return fates[fate]() }
	va, err := m.a.Allocate(request)

	g := m.want.Granule
	rounded := (uint64(request.Size) + g - 1) / g * g
	switch {
	case request.Size <= 0:
		m.refused(err, arena.ErrInvalidArgument)
		return
	case request.Align != 0 && (request.Align > g || g%request.Align != 0 || m.want.Base%request.Align != 0):
		m.refused(err, arena.ErrInvalidArgument)
		return
	case rounded > math.MaxInt64:
		m.refused(err, arena.ErrOverflow)
		return
	case m.lost:
		m.refused(err, arena.ErrDeviceLost)
		return
	case m.want.Closed:
		m.refused(err, arena.ErrClosed)
		return
	case rounded > m.want.Total-m.want.Used:
		m.refused(err, arena.ErrExhausted)
		require.Equal(m.t, &arena.ExhaustedError{
			Size: request.Size, Rounded: rounded, Offset: m.want.Used, Total: m.want.Total,
		}, err)
		return
	}
	at := m.want.Base + m.want.Used
	m.want.Used += rounded
	m.gone = append(m.gone, at)
	m.failed(err, fate)
	if fate == fateGood {
		require.Equal(m.t, at, va)
		m.live[at] = rounded
		m.want.Created++
		m.want.Live++
		m.want.Mapped += rounded
		m.want.Peak = max(m.want.Peak, m.want.Mapped)
		m.mapped++
		return
	}
	require.Zero(m.t, va)
	m.want.Failed++
	if fate == fateQuarantine || fate == fateLostQuarantine {
		m.want.Created++
		m.want.Quarantined++
		m.stuck[at] = rounded
		m.mapped++
	}
}

func (m *model) refused(err, target error) {
	require.ErrorIs(m.t, err, target)
	m.want.Refused++
}

// failed checks the error of a call of the backend, and notes a loss.
func (m *model) failed(err error, fate int) {
	switch fate {
	case fateGood:
		require.NoError(m.t, err)
	case fatePanic:
		require.IsType(m.t, &arena.PanicError{}, err)
	case fateLost, fateLostQuarantine:
		require.ErrorIs(m.t, err, vmm.ClassDeviceLost)
		m.lost, m.lostStuck = true, fate == fateLostQuarantine
	default:
		require.ErrorIs(m.t, err, errDriver)
	}
}

func (m *model) free(va uint64, fate int) {
	m.f.onRelease = func(_, _, _ uint64) error { return fates[fate]() }
	m.f.onUnreserve = func() error { return fates[fate%2]() }
	size, live := m.live[va]
	switch err := m.a.Free(va); {
	case live && !m.want.Closed:
		delete(m.live, va)
		m.want.Live--
		m.want.Mapped -= size
		m.release(va, size, fate, err)
	case live && !m.late[va]:
		require.NoError(m.t, err)
		m.late[va] = true
		m.want.LateFrees++
	case m.wait[va]:
		require.NoError(m.t, err)
		delete(m.wait, va)
		m.want.LateFrees++
		m.giveBack(fate % 2)
	default:
		require.NoError(m.t, err)
		m.want.UnknownFrees++
	}
}

// release is a release of what is not live any more. It reports whether that failed.
func (m *model) release(va, size uint64, fate int, err error) bool {
	switch {
	case m.lost:
		if err != nil {
			require.ErrorIs(m.t, err, arena.ErrDeviceLost)
		}
		m.want.Quarantined++
		m.want.FailedReleases++
		if m.lostStuck {
			m.stuck[va] = size
		}
		return true
	case fate == fateQuarantine || fate == fateLostQuarantine:
		m.want.Quarantined++
		m.stuck[va] = size
	default:
		m.want.Released++
		m.mapped--
	}
	if fate != fateGood {
		m.want.FailedReleases++
	}
	if err != nil || fate == fateGood {
		m.failed(err, fate)
	}
	return fate != fateGood
}

// giveBack gives the reservation back if nothing keeps it. It reports whether that failed.
func (m *model) giveBack(fate int) (failed bool) {
	unused := m.settled && len(m.wait) == 0 && m.want.Quarantined == 0 && !m.pinned
	switch {
	case m.returned:
		return false
	case m.lost:
		return true
	case !unused:
		return false
	}
	m.returned = fate == fateGood
	return !m.returned
}

// The ways to end a model's arena.
const (
	endClose = iota
	endRelease
	endDrain
	endDrainWithoutRoom
	endDrainShort
	endDrainPanic
)

var modelEndings = []func(a *arena.Arena) ended{
	endClose:   func(a *arena.Arena) ended { return endWith(a, "Close") },
	endRelease: func(a *arena.Arena) ended { return endWith(a, "Release") },
	endDrain:   func(a *arena.Arena) ended { return endWith(a, "CloseAndDrain") },
	endDrainWithoutRoom: func(a *arena.Arena) ended {
		drained, err := a.CloseAndDrainInto(func(int) ([]arena.Allocation, error) { return nil, errDriver })
		return ended{drained, err}
	},
	endDrainShort: func(a *arena.Arena) ended {
		drained, err := a.CloseAndDrainInto(func(n int) ([]arena.Allocation, error) { return make([]arena.Allocation, n+1), nil })
		return ended{drained, err}
	},
	endDrainPanic: func(a *arena.Arena) (e ended) {
		defer func() {
			if value := recover(); value != nil {
				e.err = value.(error)
			}
		}()
		drained, err := a.CloseAndDrainInto(func(int) ([]arena.Allocation, error) { panic(errDriver) })
		return ended{drained, err}
	},
}

// end ends the arena. The releases in it have fates that depend on the address.
func (m *model) end(kind int) {
	salt := uint64(m.upTo(16))
	fateOf := func(va uint64) int {
		if salt < 8 {
			return fateGood
		}
		return [...]int{fateGood, fateGood, fateError, fatePanic, fateQuarantine}[(va/m.want.Granule+salt)%5]
	}
	unreserve := int(salt % 2)
	m.f.onRelease = func(va, _, _ uint64) error { return fates[fateOf(va)]() }
	m.f.onUnreserve = func() error { return fates[unreserve]() }
	got := modelEndings[kind](m.a)

	m.want.Closed = true
	mine := !m.settled
	failures := 0
	count := func(failed bool) {
		if failed {
			failures++
		}
	}
	switch {
	case kind >= endDrain && !mine:
		require.ErrorIs(m.t, got.err, arena.ErrClosed)
		return
	case kind > endDrain:
		require.Error(m.t, got.err)
		require.NotErrorIs(m.t, got.err, arena.ErrClosed)
		return
	case mine || kind == endRelease:
		stuck := m.stuck
		m.stuck = make(map[uint64]uint64)
		for va, size := range stuck {
			m.want.Quarantined--
			count(m.release(va, size, fateOf(va), nil))
		}
	}
	if mine {
		if kind == endDrain {
			m.handOver(got.drained)
		} else {
			for va, size := range m.live {
				count(m.release(va, size, fateOf(va), nil))
			}
		}
		m.settle()
	}
	if kind == endRelease {
		clear(m.wait)
		m.pinned = false
	}
	if mine || kind == endRelease {
		count(m.giveBack(unreserve))
	}
	m.checkFailures(got.err, failures)
}

// settle waits for the late frees of what was live.
func (m *model) settle() {
	for va := range m.live {
		if !m.late[va] {
			m.wait[va] = true
		}
	}
	clear(m.live)
	clear(m.late)
	m.want.Live, m.want.Mapped = 0, 0
	m.settled = true
}

// handOver checks what a drain gave, and releases it as its receiver would.
func (m *model) handOver(drained []arena.Allocation) {
	require.Len(m.t, drained, len(m.live))
	m.f.onRelease = nil
	last := uint64(0)
	for _, x := range drained {
		require.Greater(m.t, x.VA, last)
		last = x.VA
		require.Equal(m.t, m.live[x.VA], x.Size)
		require.NoError(m.t, m.f.Release(x.VA, x.Size, x.Handle))
	}
	m.mapped -= len(drained)
	m.want.HandedOver += uint64(len(drained))
	m.pinned = len(m.late) > 0
}

func (m *model) checkFailures(err error, want int) {
	if want == 0 {
		require.NoError(m.t, err)
		return
	}
	failed := new(arena.CloseError)
	require.ErrorAs(m.t, err, &failed)
	require.Equal(m.t, want-1, failed.Rest)
	if m.lost {
		require.ErrorIs(m.t, err, arena.ErrDeviceLost)
	}
}

// look asks what changes nothing.
func (m *model) look() {
	va := m.pick()
	require.Equal(m.t, va-m.want.Base < m.want.Total, m.a.Contains(va))
	first, length := m.a.RegisteredRange()
	require.Equal(m.t, m.want.Base, first)
	require.Equal(m.t, m.want.Used, length)
	require.Equal(m.t, m.want.Used, m.a.Used())
	require.Equal(m.t, m.want.Mapped, m.a.Mapped())
	require.Equal(m.t, m.want.Live, m.a.Live())
	require.Equal(m.t, m.want.Closed, m.a.Closed())
	require.Equal(m.t, 5*m.want.Used >= 4*m.want.Total, m.a.Stats().NearlyFull())
}

// compare checks everything that can be seen.
func (m *model) compare() {
	got := m.a.Stats()
	if got != m.want { // require.Equal on every step would take most of the time
		require.Equal(m.t, m.want, got)
	}
	if sum := got.Released + got.Live + got.Quarantined + got.HandedOver; got.Created != sum {
		require.Equal(m.t, got.Created, sum, "the counters do not balance")
	}
	if n := len(m.f.placements); n != m.mapped {
		require.Equal(m.t, m.mapped, n, "allocations that the backend has")
	}
	if reserved := m.f.reserved != 0; reserved == m.returned {
		require.Equal(m.t, !m.returned, reserved, "the reservation")
	}
}

// TestAgainstModel does some 10^6 operations, in arenas of every size and end.
func TestAgainstModel(t *testing.T) {
	operations := 1_000_000
	if raceEnabled {
		operations = 100_000
	}
	random := newRandom(t)
	for operations > 0 {
		length := 1 + random.IntN(1<<random.IntN(15))
		operations -= length
		newModel(t, &randomChoices{Rand: random, left: length}).run()
	}
}

// FuzzOperations reads sequences of operations out of bytes.
func FuzzOperations(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte{1, 1, 1, 0, 0, 0, 5, 5, 0, 130, 1, 0, 0, 0, 255, 0, 0})
	random := rand.New(rand.NewPCG(1, 2))
	for _, length := range []int{16, 64, 256, 1024, 4096} {
		seed := make([]byte, length)
		for i := range seed {
			seed[i] = byte(random.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, operations []byte) {
		c := byteChoices(operations)
		newModel(t, &c).run()
	})
}
