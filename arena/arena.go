package arena

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/arenagen/arenagen/arena/vmm"
)

// DefaultTotal is the usual size of a reservation in bytes: 4 TiB. Addresses cost
// nothing until memory is behind them; a process has 128 TiB.
const DefaultTotal int64 = 4 << 40

// A Config says how an arena is made.
type Config struct {
	// Total is how many bytes of addresses are reserved, more than 0 and rounded up
	// to the granule. There is no smaller size in its place when the driver refuses it.
	Total int64
	// Granule is what sizes are rounded up to, in bytes: a power of two. 0 is the
	// backend's own, as Granularity says.
	Granule uint64
	// Minimum takes the backend's minimum granule, not the recommended one, when Granule is 0.
	Minimum bool
	// Hint is the base address wished for, or 0. Base tells what it became.
	Hint uint64
	// Device is the ordinal of the device, for diagnostics.
	Device int
	// Drain is what is waited for before memory is unmapped, where the backend can wait.
	Drain vmm.Drain
	// Placement says how allocations share physical handles.
	Placement Placement
}

// An Arena gives out the addresses of one reservation and has its backend put
// memory behind them. Its methods are safe for concurrent use, and none of them
// waits for another's call to the backend, except Close, CloseAndDrain and Release.
type Arena struct {
	shards [shardCount]shard // first, where cache lines begin

	backend Backend
	base    uint64
	total   uint64 // bytes
	granule uint64
	shift   uint // log2 of the unit in which addresses are given out: the granule, or SlabUnit
	device  int
	waiter  waiter // nil where nothing is waited for
	drain   vmm.Drain
	slabs   *slabs // nil where each allocation has a handle of its own
	placed  Placement

	refused atomic.Uint64 // allocations that the backend was not asked for
	strange atomic.Uint64 // frees of addresses outside the reservation or inside a granule
	lost    atomic.Pointer[lostDevice]

	end  ending
	late deferred
	_    [64]byte // bump is what every allocation writes
	bump bump
}

const (
	shardBits  = 5
	shardCount = 1 << shardBits
)

// A shard holds the records whose hash chooses it, with their share of the counters. What an
// allocation and a free touch is first, in two cache lines, and no line belongs to two shards.
type shard struct {
	mu sync.Mutex
	// The fields below are guarded by mu, but for settled. No call to the backend is made under it.
	table    table
	ended    uint64        // allocations that came back from the backend
	settling uint64        // frees that went to the backend
	settled  atomic.Uint64 // frees that came back from the backend
	counts   counts
	closed   bool // Close has begun: frees are late
	_        [47]byte
}

// counts are a shard's share of Stats.
type counts struct {
	created, released, mapped, live   uint64
	handedOver, quarantined, deferred uint64
	failed, failedReleases, lateFrees uint64
}

// A lostDevice is the failure after which no driver call is made.
type lostDevice struct{ err error }

// New reserves addresses and returns an open arena over them. It fails with
// ErrInvalidArgument, ErrOverflow or what the backend answered, and leaves nothing behind then.
func New(backend Backend, config Config) (*Arena, error) {
	if backend == nil {
		return nil, invalid("the backend must not be nil")
	}
	granule, err := config.granule(backend)
	if err != nil {
		return nil, err
	}
	if config.Drain > vmm.DrainDevice {
		return nil, invalid("drain must be at most %d, got %d", vmm.DrainDevice, config.Drain)
	}
	total, err := config.rounded(granule)
	if err != nil {
		return nil, err
	}
	slabSize, err := config.Placement.slabSize(granule, total)
	if err != nil {
		return nil, err
	}
	base, err := backend.Reserve(total, granule, config.Hint)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes of addresses for an arena%s: %w", total, fewerMayWork(err), err)
	}
	if base+total < base {
		err := invalid("the range of %d bytes from %#x on does not fit into 64 bits", total, base)
		return nil, errors.Join(err, backend.Unreserve(base, total))
	}
	a := &Arena{
		backend: calm(backend),
		base:    base,
		total:   total,
		granule: granule,
		shift:   uint(bits.TrailingZeros64(granule)),
		device:  config.Device,
		drain:   config.Drain,
	}
	if waiter, can := backend.(waiter); can && a.drain != vmm.DrainNone {
		a.waiter = waiter
	}
	if slabSize > 0 {
		a.slabs, a.shift = &slabs{size: slabSize}, uint(bits.TrailingZeros64(SlabUnit))
	}
	a.bump.init(total >> a.shift)
	a.end.init()
	if err := a.prepare(config.Placement); err != nil {
		return nil, errors.Join(err, a.backend.Unreserve(base, total))
	}
	return a, nil
}

// prepare makes what is there from the beginning.
func (a *Arena) prepare(p Placement) error {
	a.placed = p
	if a.slabs == nil {
		return nil
	}
	if a.granule < SlabUnit || a.base&(SlabUnit-1) != 0 {
		return invalid("slabs need a granule and a base that are multiples of %d bytes, got %d and %#x", SlabUnit, a.granule, a.base)
	}
	if p.kind != InSingle {
		return nil
	}
	handle, err := a.callAllocate(a.base, a.total)
	if err != nil {
		return fmt.Errorf("make the single handle of %d bytes: %w", a.total, err)
	}
	a.bump.take(a.total >> a.shift)
	a.endWithoutRecord()
	a.slabs.add(slab{start: a.base, size: a.total, handle: handle, kept: true}, 0)
	return nil
}

// fewerMayWork is what there is to say when the driver has no room for a reservation.
func fewerMayWork(err error) string {
	for _, other := range []error{vmm.ClassDeviceLost, vmm.ClassNotSupported, vmm.ClassNotPermitted, vmm.ClassUnavailable, vmm.ClassNoDevice} {
		if errors.Is(err, other) {
			return ""
		}
	}
	return ", fewer may work"
}

func (c Config) granule(backend Backend) (uint64, error) {
	granule := c.Granule
	if granule == 0 {
		kind := vmm.GranularityRecommended
		if c.Minimum {
			kind = vmm.GranularityMinimum
		}
		granule = backend.Granule(kind)
	}
	if granule == 0 || granule&(granule-1) != 0 {
		return 0, invalid("granule must be a power of two, got %d", granule)
	}
	if least := backend.Granule(vmm.GranularityMinimum); granule < least {
		return 0, invalid("granule must be at least the driver's minimum of %d bytes, got %d", least, granule)
	}
	return granule, nil
}

func (c Config) rounded(granule uint64) (uint64, error) {
	if c.Total <= 0 {
		return 0, invalid("total must be positive, got %d", c.Total)
	}
	total, ok := roundUp(c.Total, granule)
	if !ok {
		return 0, fmt.Errorf("total of %d bytes: %w", c.Total, ErrOverflow)
	}
	if total/granule > maxGranules {
		return 0, invalid("total of %d bytes has more than %d granules of %d bytes", c.Total, uint64(maxGranules), granule)
	}
	return total, nil
}

// roundUp rounds a positive size up to a granule. ok is false when the result is no int64.
func roundUp(size int64, granule uint64) (rounded uint64, ok bool) {
	rounded = (uint64(size) + granule - 1) &^ (granule - 1)
	return rounded, rounded <= math.MaxInt64
}

// A Request is what an allocation asks for.
type Request struct {
	// Size in bytes, more than 0; rounded up to the granule.
	Size int64
	// Align in bytes: a power of two up to the granule, or 0 for the granule.
	Align uint64
	// Stream is the stream that will use the memory, for the record.
	Stream uint64
}

// Malloc allocates size bytes and returns their device address. See Allocate.
func (a *Arena) Malloc(size int64) (uint64, error) { return a.Allocate(Request{Size: size}) }

// Allocate puts memory behind the next addresses and returns the first of them, which
// never was given out before. It refuses with ErrInvalidArgument,
// ErrOverflow, ErrClosed, ErrExhausted or ErrDeviceLost, and then nothing has changed. When the backend
// fails, the addresses are lost, everything else is as before, and the next
// allocation works.
func (a *Arena) Allocate(req Request) (uint64, error) {
	rounded, err := a.check(req)
	if err != nil {
		return 0, a.refuse(err)
	}
	if a.slabs.fits(req.Size) {
		return a.allocateInSlab(req)
	}
	offset, word, ok := a.bump.take(rounded >> a.shift)
	if !ok {
		return 0, a.refuse(a.noRoom(req.Size, rounded, offset, word))
	}
	if a.late.waiting.Load() {
		a.retryDeferred()
	}
	va := a.base + offset<<a.shift
	handle, err := a.callAllocate(va, rounded)
	if err := a.record(record{key: offset + 1, size: rounded, handle: handle, stream: req.Stream}, err); err != nil {
		return 0, err
	}
	return va, nil
}

// check rounds the size of a request and refuses what can be refused without state.
func (a *Arena) check(req Request) (rounded uint64, err error) {
	if req.Size <= 0 {
		return 0, invalid("size must be positive, got %d", req.Size)
	}
	if req.Align != 0 && (req.Align&(req.Align-1) != 0 || req.Align > a.granule || a.base&(req.Align-1) != 0) {
		return 0, invalid("alignment must be a power of two up to the granule of %d bytes that the base %#x has, got %d",
			a.granule, a.base, req.Align)
	}
	rounded, ok := roundUp(req.Size, a.granule)
	if !ok {
		return 0, fmt.Errorf("allocation of %d bytes: %w", req.Size, ErrOverflow)
	}
	if lost := a.lost.Load(); lost != nil {
		return 0, lost.err
	}
	return rounded, nil
}

func (a *Arena) refuse(err error) error {
	a.refused.Add(1)
	return err
}

func (a *Arena) noRoom(size int64, rounded, offset, word uint64) error {
	if word&bumpClosed != 0 {
		return ErrClosed
	}
	e := &ExhaustedError{Size: size, Rounded: rounded, Offset: offset << a.shift, Total: a.total}
	if a.slabs != nil {
		s := a.SlabStats()
		e.Slabs = &s
	}
	return e
}

// record ends an allocation: it enters r as live, or counts what the backend failed.
func (a *Arena) record(r record, err error) error {
	if err != nil {
		a.noteLoss(err)
	}
	stuck := err != nil && errors.Is(err, vmm.ErrQuarantined)
	if stuck {
		a.end.quarantine(r)
	}
	h := hash(r.key)
	s := a.shard(h)
	s.mu.Lock()
	s.ended++
	switch {
	case err == nil:
		s.table.insert(r, h)
		s.counts.created++
		s.counts.live++
		s.counts.mapped += r.size
	case stuck:
		s.counts.created++
		s.counts.quarantined++
		s.counts.failed++
	default:
		s.counts.failed++
	}
	closed := s.closed
	s.mu.Unlock()
	if closed {
		a.end.wake()
	}
	return err
}

// Free gives the memory behind an address back that Allocate returned. Any other
// address, an address inside an allocation, a second free and a free after
// close change nothing and are no errors: they are counted. An error is what the backend failed;
// the allocation is gone all the same.
func (a *Arena) Free(va uint64) error {
	found, err := a.free(va)
	if !found {
		a.strange.Add(1)
	}
	return err
}

// free frees an address if this arena knows it.
func (a *Arena) free(va uint64) (found bool, err error) {
	key, ok := a.key(va)
	if !ok {
		return false, nil
	}
	h := hash(key)
	s := a.shard(h)
	s.mu.Lock()
	i := s.table.find(key, h)
	if i < 0 {
		s.mu.Unlock()
		return false, nil
	}
	if s.closed {
		found, last := s.freeLate(i)
		s.mu.Unlock()
		if last {
			a.forget()
		}
		return found, nil
	}
	r := s.table.places[i]
	s.table.remove(i)
	s.counts.mapped -= r.size
	s.counts.live--
	s.counts.released++
	s.settling++
	s.mu.Unlock()

	err = a.releaseFreed(s, r)
	if a.late.waiting.Load() {
		a.retryDeferred()
	}
	// In this order: a closer closes the bump first and looks at settled then, so that one of the two sees the other.
	s.settled.Add(1)
	if a.bump.word.Load()&bumpClosed != 0 {
		a.end.wake()
	}
	return true, err
}

// release gives the memory of a record of this shard back: into its slab, or to the backend. The caller counted it as released.
func (a *Arena) release(s *shard, r record) error {
	if a.slabs == nil {
		return a.releaseHandle(s, r)
	}
	empty, inSlab := a.slabs.give(a.address(r), r.size)
	switch {
	case !inSlab:
		return a.releaseHandle(s, r)
	case empty != nil:
		return a.releaseHandle(s, a.recordOf(*empty))
	}
	return nil
}

// releaseHandle has the backend take the memory of a record away.
func (a *Arena) releaseHandle(s *shard, r record) error {
	err := a.callRelease(a.address(r), r.size, r.handle)
	if err == nil {
		return nil
	}
	a.noteLoss(err)
	stuck := errors.Is(err, vmm.ErrQuarantined) || errors.Is(err, ErrDeviceLost)
	s.mu.Lock()
	s.counts.failedReleases++
	if stuck {
		s.counts.released--
		s.counts.quarantined++
	}
	s.mu.Unlock()
	if errors.Is(err, vmm.ErrQuarantined) {
		a.end.quarantine(r)
	}
	return err
}

// These are the only ways into the backend once an arena is made. insideCallback looks for the first two on the stack.

func (a *Arena) callAllocate(va, size uint64) (handle uint64, err error) {
	return a.backend.Allocate(va, size)
}

func (a *Arena) callRelease(va, size, handle uint64) error {
	if lost := a.lost.Load(); lost != nil {
		return lost.err
	}
	return a.backend.Release(va, size, handle)
}

func (a *Arena) callUnreserve() error {
	if lost := a.lost.Load(); lost != nil {
		return lost.err
	}
	return a.backend.Unreserve(a.base, a.total)
}

// noteLoss puts the arena into the one state that a lost device leaves.
func (a *Arena) noteLoss(err error) {
	if errors.Is(err, vmm.ClassDeviceLost) {
		a.lost.CompareAndSwap(nil, &lostDevice{err: fmt.Errorf("%w: %w", ErrDeviceLost, err)})
	}
}

// Backend is the backend that the arena was made over.
func (a *Arena) Backend() Backend {
	if g, ok := a.backend.(guarded); ok {
		return g.Backend
	}
	return a.backend
}

// Base is the first address of the reservation.
func (a *Arena) Base() uint64 { return a.base }

// Placement is how allocations share handles.
func (a *Arena) Placement() Placement { return a.placed }

// Total is how many bytes are reserved.
func (a *Arena) Total() uint64 { return a.total }

// Granule is what sizes are rounded up to, in bytes.
func (a *Arena) Granule() uint64 { return a.granule }

// Device is the ordinal of the device.
func (a *Arena) Device() int { return a.device }

// Used is the bytes from the base up to the highest address given out. It never falls.
func (a *Arena) Used() uint64 { return a.bump.offset(a.bump.word.Load()) << a.shift }

// Closed tells whether the arena is closed.
func (a *Arena) Closed() bool { return a.bump.word.Load()&bumpClosed != 0 }

// Contains tells whether an address lies in the reservation.
func (a *Arena) Contains(va uint64) bool { return va-a.base < a.total }

// RegisteredRange is the range to register with a transport: the base, and Used bytes.
func (a *Arena) RegisteredRange() (base, length uint64) { return a.base, a.Used() }

// Allocation finds the live allocation that begins at an address.
func (a *Arena) Allocation(va uint64) (found Allocation, ok bool) {
	key, ok := a.key(va)
	if !ok {
		return Allocation{}, false
	}
	h := hash(key)
	s := a.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.table.find(key, h)
	// A record with a mark was freed or settled.
	if i < 0 || s.table.places[i].key != key {
		return Allocation{}, false
	}
	r := s.table.places[i]
	return Allocation{VA: va, Size: r.size, Handle: r.handle}, true
}

// owns tells whether an allocation that is live, or was when the arena closed, begins at an address.
func (a *Arena) owns(va uint64) bool {
	key, ok := a.key(va)
	if !ok {
		return false
	}
	h := hash(key)
	s := a.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.find(key, h) >= 0
}

// key is the key of an allocation that begins at an address. ok is false if none can begin there.
func (a *Arena) key(va uint64) (key uint64, ok bool) {
	offset := va - a.base
	return offset>>a.shift + 1, offset < a.total && offset&(1<<a.shift-1) == 0
}

// shard holds the records with this hash.
func (a *Arena) shard(h uint64) *shard { return &a.shards[h>>(64-shardBits)] }
