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
	// Cache is how many bytes of released handles are kept for later allocations of the same size, 0 for none. Only a
	// driver's handles can be kept.
	Cache uint64
	// Prefetch is how many bytes of slabs may be mapped before they are needed, in the background, 0 for none. It begins
	// at once. Only slabs can be mapped ahead; less than one slab is none.
	Prefetch uint64
	// Reuse has addresses used again that memory was taken away from, the lowest first. A free that arrives late may meet
	// another allocation at the same address then.
	Reuse bool
	// Peers are the devices that reach the memory beside the arena's own.
	Peers []int
	// Events is how many of the latest events are remembered, rounded up to a power of two, 0 for none.
	Events int
}

// An Arena gives out the addresses of one reservation and has its backend put
// memory behind them. Its methods are safe for concurrent use, and none of them
// waits for another's call to the backend, except Close, CloseAndDrain and Release, and Trim, Reset, AddPeer and an allocation that finds no
// memory for a slab that is being mapped ahead.
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
	special atomic.Bool // there is more to do than to allocate and to release
	keeper  keeper      // nil where handles are not the arena's to keep
	cache   cache
	ahead   ahead
	holes   *holes                // nil unless addresses are used again
	peers   atomic.Pointer[[]int] // never written once it is published
	shared  shared
	epoch   atomic.Uint64 // grows whenever addresses may be mapped again that were before
	tags    tags
	trace   *ring // nil unless events are remembered
	changes atomic.Pointer[ring]
	born    int64 // by the clock

	shortage atomic.Pointer[func(Shortage) bool]

	refused atomic.Uint64 // allocations that the backend was not asked for
	strange atomic.Uint64 // frees of addresses outside the reservation or inside a granule
	lost    atomic.Pointer[lostDevice]

	otherDevice atomic.Uint64 // frees through a router that named another device

	end  ending
	late deferred
	_    [64]byte // what follows is what every allocation writes
	bump bump
	size extent
}

const (
	shardBits  = 5
	shardCount = 1 << shardBits
)

// A shard holds the records whose hash chooses it, with their share of the counters. What an
// allocation and a free touch is first, in two cache lines, and no line belongs to two shards.
type shard struct {
	mu sync.Mutex
	// The fields below are guarded by mu, but for settled and flights. No call to the backend is made under it.
	table    table
	flights  [flightsAtHand]flight // the calls under way
	settling uint64                // frees that went to the backend
	settled  atomic.Uint64         // frees that came back from the backend
	counts   counts
	more     []*flight // further ones
	closed   bool      // Close has begun: frees are late
	_        [7]byte
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
	slabSize, err := config.Placement.slabSize(granule, total, largestHandle(backend))
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
		born:    clock.refresh(),
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
	a.bump.total = total >> a.shift
	a.end.init()
	if err := a.prepare(backend, config); err != nil {
		return nil, errors.Join(err, a.backend.Unreserve(base, total))
	}
	return a, nil
}

// prepare sets up what goes beyond a handle for each allocation, and makes what is there from the beginning.
func (a *Arena) prepare(backend Backend, c Config) error {
	a.placed = c.Placement
	a.keeper, _ = backend.(keeper)
	if err := a.prepareCache(c); err != nil {
		return err
	}
	a.trace = newRing(c.Events)
	for _, device := range c.Peers {
		if err := a.AddPeer(device); err != nil {
			return err
		}
	}
	if a.slabs == nil {
		return nil
	}
	if a.granule < SlabUnit || a.base&(SlabUnit-1) != 0 {
		return invalid("slabs need a granule and a base that are multiples of %d bytes, got %d and %#x", SlabUnit, a.granule, a.base)
	}
	if c.Placement.kind != InSingle {
		a.prefetch()
		return nil
	}
	handle, err := a.place(a.base, a.total, EventMapped)
	if err != nil {
		return fmt.Errorf("make the single handle of %d bytes: %w", a.total, err)
	}
	a.bump.take(a.total>>a.shift, 0)
	a.slabs.add(slab{start: a.base, size: a.total, handle: handle, kept: true}, 0)
	return nil
}

func (a *Arena) prepareCache(c Config) error {
	switch {
	case c.Cache > 0 && a.keeper == nil:
		return fmt.Errorf("a cache of handles in an arena over callbacks: %w", vmm.ClassNotSupported)
	case c.Prefetch > 0 && c.Placement.kind != InSlabs:
		return invalid("only slabs can be mapped ahead: prefetch must be 0 where they are placed %v, got %d", c.Placement, c.Prefetch)
	case c.Events < 0 || c.Events > MaxEvents:
		return invalid("events must be 0 to %d, got %d", MaxEvents, c.Events)
	}
	a.cache.budget, a.ahead.budget = c.Cache, c.Prefetch
	a.special.Store(c.Cache > 0 || c.Reuse || c.Events > 0)
	if c.Reuse {
		a.holes = &holes{}
	}
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
	return total, nil
}

// largestHandle is the largest handle that a backend can create, in bytes.
func largestHandle(backend Backend) uint64 {
	if limited, ok := backend.(interface{ MaxHandle() uint64 }); ok && limited.MaxHandle() != 0 {
		return limited.MaxHandle()
	}
	return math.MaxUint64
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
	// Tag is what the allocation is counted under beside the arena: 1 to MaxTags-1, or 0 for the arena's own tag.
	Tag Tag
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
	f, va, err := a.addresses(req.Size, rounded)
	if err != nil {
		return 0, a.refuse(err)
	}
	if a.late.waiting.Load() {
		a.retryDeferred()
	}
	told := a.audience()
	handle, err := a.obtain(va, rounded)
	r := record{key: (va-a.base)>>a.shift + 1, size: rounded, handle: handle, stream: req.Stream, birth: a.birthOf(a.tagOf(req))}
	if err = a.record(r, err); err == nil {
		err = a.catchUp(told, r)
	}
	a.land(f)
	if err != nil {
		return 0, err
	}
	return va, nil
}

// addresses takes some for an allocation with a handle of its own: some that were used before, or the next ones.
func (a *Arena) addresses(size int64, rounded uint64) (f *flight, va uint64, err error) {
	if a.holes == nil {
		f, offset, word, ok := a.takeOff(rounded >> a.shift)
		if !ok {
			return nil, 0, a.noRoom(size, rounded, offset, word)
		}
		return f, a.base + offset<<a.shift, nil
	}
	// In this order: a reset sees who took some of them.
	f, ok := a.admit()
	if !ok {
		return nil, 0, ErrClosed
	}
	if va, ok := a.reuse(rounded); ok {
		a.hover(f, va)
		return f, va, nil
	}
	offset, word, ok := a.climb(f, rounded>>a.shift)
	if !ok {
		a.land(f)
		return nil, 0, a.noRoom(size, rounded, offset, word)
	}
	return f, a.base + offset<<a.shift, nil
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
	if req.Tag >= MaxTags {
		return 0, invalid("a tag must be 0 to %d, got %d", MaxTags-1, req.Tag)
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
	if err == nil {
		// Before it is found: it can be freed from then on.
		a.grow(r)
	} else {
		a.noteLoss(err)
	}
	stuck := err != nil && errors.Is(err, vmm.ErrQuarantined)
	if stuck {
		a.end.quarantine(r)
	}
	h := hash(r.key)
	s := a.shard(h)
	s.mu.Lock()
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
	s.mu.Unlock()
	if err == nil {
		return nil
	}
	if !stuck && r.birth&inSlabBit == 0 {
		a.holes.give(a.address(r), r.size)
	}
	a.note(EventFailed, Event{Address: a.address(r), Size: r.size, Tag: r.tag()})
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
	s.counts.live--
	s.counts.mapped -= r.size
	s.counts.released++
	s.settling++
	s.mu.Unlock()

	a.shrink(r)
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
	err := a.discard(r)
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

// These are the only ways into the backend once an arena is made. insideCallback looks for all but the last on the stack.

func (a *Arena) callAllocate(va, size uint64) (handle uint64, err error) {
	return a.backend.Allocate(va, size)
}

func (a *Arena) callRelease(va, size, handle uint64) error {
	if lost := a.lost.Load(); lost != nil {
		return lost.err
	}
	return a.backend.Release(va, size, handle)
}

func (a *Arena) callAttach(va, size, handle uint64) error {
	if lost := a.lost.Load(); lost != nil {
		return lost.err
	}
	return a.keeper.Attach(va, size, handle)
}

func (a *Arena) callDetach(va, size uint64) error { return a.keeper.Detach(va, size) }

func (a *Arena) callDestroy(handle uint64) error {
	if lost := a.lost.Load(); lost != nil {
		return lost.err
	}
	return a.keeper.Destroy(handle)
}

func (a *Arena) callGrant(va, size uint64, device int) error {
	if lost := a.lost.Load(); lost != nil {
		return lost.err
	}
	began := a.start()
	err := a.keeper.Grant(va, size, device)
	if began != 0 && err == nil {
		a.note(EventGranted, Event{Address: va, Size: size, Took: since(began)})
	}
	return err
}

// askAgain asks the caller's function whether to try again, unless there is none or it is asking itself. An error is its panic.
func (a *Arena) askAgain(s Shortage) (again bool, err error) {
	callback := a.shortage.Load()
	if callback == nil || inside(shortageCallbacks) {
		return false, nil
	}
	return callShortage(*callback, s)
}

func callShortage(callback func(Shortage) bool, s Shortage) (again bool, err error) {
	defer caught(&err, "the function that is asked when there is no memory left")
	return callback(s), nil
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

// RegisteredRange is the range to register with a transport, from the base on. It ends below the lowest allocation still under way, so
// that no address in it awaits its first mapping; what failed or was freed is a hole in it. It is the base and Used when nothing
// is under way.
func (a *Arena) RegisteredRange() (base, length uint64) {
	// The bump first: see flight.
	used := a.bump.offset(a.bump.word.Load())
	return a.base, a.lowest(used) << a.shift
}

// Allocation finds the live allocation that begins at an address.
func (a *Arena) Allocation(va uint64) (found Allocation, ok bool) {
	r, ok := a.live(va)
	return Allocation{VA: va, Size: r.size, Handle: r.handle}, ok
}

// owns tells whether an allocation that is live, or was when the arena closed, begins at an address.
func (a *Arena) owns(va uint64) bool {
	_, ok := a.lookup(va)
	return ok
}

// live is the record of the live allocation that begins at an address.
func (a *Arena) live(va uint64) (r record, ok bool) {
	r, ok = a.lookup(va)
	// One with a mark was freed or settled.
	return r, ok && r.key&markBits == 0
}

// lookup finds the record that begins at an address.
func (a *Arena) lookup(va uint64) (r record, ok bool) {
	key, ok := a.key(va)
	if !ok {
		return record{}, false
	}
	h := hash(key)
	s := a.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.table.find(key, h)
	if i < 0 {
		return record{}, false
	}
	return s.table.places[i], true
}

// key is the key of an allocation that begins at an address. ok is false if none can begin there.
func (a *Arena) key(va uint64) (key uint64, ok bool) {
	offset := va - a.base
	return offset>>a.shift + 1, offset < a.total && offset&(1<<a.shift-1) == 0
}

// shard holds the records with this hash.
func (a *Arena) shard(h uint64) *shard { return &a.shards[h>>(64-shardBits)] }
