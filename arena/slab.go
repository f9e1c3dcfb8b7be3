package arena

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"github.com/arenagen/arenagen/arena/vmm"
)

// Slabs are handles that several allocations share. A slab is there as long as it has an allocation.
type slabs struct {
	size uint64 // of each, in bytes; the last may be smaller

	mu sync.Mutex
	// The fields below are guarded by mu. No call to the backend is made under it.
	mapped []slab // by address
	free   ranges // what is free inside them; a range never spans two
	live   uint64 // allocations in them
	bytes  uint64 // of all of them
}

// A slab is one handle.
type slab struct {
	start, size uint64 // its addresses
	handle      uint64
	live        int
	kept        bool // it stays also without an allocation
}

// fits tells whether an allocation of so many bytes goes into a slab.
func (s *slabs) fits(size int64) bool { return s != nil && uint64(size) <= s.size }

// take takes room for an allocation out of the lowest free range that has it.
func (s *slabs) take(size, align uint64) (va uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Every range begins at a multiple of the unit. For more the range must be so much larger that it holds in any case.
	start, found, ok := s.free.first(size + align - SlabUnit)
	if !ok {
		return 0, false
	}
	return s.carve(start, found, size, align), true
}

// add enters a slab that was made, with room for an allocation taken at its beginning. The caller's is the first.
func (s *slabs) add(made slab, size uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := s.find(made.start)
	s.mapped = slices.Insert(s.mapped, i, made)
	s.bytes += made.size
	s.free.insert(made.start, made.size)
	if size > 0 {
		s.carve(made.start, made.size, size, SlabUnit)
	}
}

// carve cuts an allocation out of a free range and counts it. The caller holds mu.
func (s *slabs) carve(start, found, size, align uint64) (va uint64) {
	va = (start + align - 1) &^ (align - 1)
	s.free.remove(start)
	if va > start {
		s.free.insert(start, va-start)
	}
	if rest := start + found - va - size; rest > 0 {
		s.free.insert(va+size, rest)
	}
	s.mapped[s.holding(va)].live++
	s.live++
	return va
}

// give gives the room of an allocation back. ok is false for one that is in no slab. The slab is the one that has no
// allocation left, and that is not there any more.
func (s *slabs) give(va, size uint64) (empty *slab, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.holding(va)
	if i < 0 {
		return nil, false
	}
	b := &s.mapped[i]
	b.live--
	s.live--
	if b.live == 0 && !b.kept {
		s.forgetRanges(*b, va, size)
		gone := *b
		s.bytes -= gone.size
		s.mapped = slices.Delete(s.mapped, i, i+1)
		return &gone, true
	}
	start, end := va, va+size
	if below, length, found := s.free.before(va); found && below >= b.start && below+length == va {
		start -= s.free.remove(below)
	}
	if end < b.start+b.size && s.free.at(end) > 0 {
		end += s.free.remove(end)
	}
	s.free.insert(start, end-start)
	return nil, true
}

// forgetRanges takes the free ranges of a slab out, beside its last allocation, of which there are two at most.
func (s *slabs) forgetRanges(b slab, va, size uint64) {
	if va > b.start {
		s.free.remove(b.start)
	}
	if va+size < b.start+b.size {
		s.free.remove(va + size)
	}
}

// takeAll takes the slabs that are left, for a close.
func (s *slabs) takeAll() []slab {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.mapped
	s.mapped, s.free, s.live, s.bytes = nil, ranges{}, 0, 0
	return all
}

// holds tells whether an address lies in a slab.
func (s *slabs) holds(va uint64) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holding(va) >= 0
}

// holding is the index of the slab that an address lies in, or -1. The caller holds mu.
func (s *slabs) holding(va uint64) int {
	i, exact := s.find(va)
	if !exact {
		i--
	}
	if i < 0 || va-s.mapped[i].start >= s.mapped[i].size {
		return -1
	}
	return i
}

func (s *slabs) find(va uint64) (index int, exact bool) {
	return slices.BinarySearchFunc(s.mapped, va, func(b slab, at uint64) int { return cmp.Compare(b.start, at) })
}

// SlabStats are the counters of the slabs, at one moment. All but Count are bytes.
type SlabStats struct {
	Count   int    // handles
	Mapped  uint64 // memory behind them
	Live    uint64 // memory that allocations have of it
	Free    uint64 // memory that they do not have
	Largest uint64 // the largest piece of what is free: an allocation that is larger needs another slab
}

// SlabStats reads the counters of the slabs. They are 0 where each allocation has a handle of its own.
func (a *Arena) SlabStats() SlabStats {
	s := a.slabs
	if s == nil {
		return SlabStats{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return SlabStats{
		Count:   len(s.mapped),
		Mapped:  s.bytes,
		Live:    s.bytes - s.free.bytes,
		Free:    s.free.bytes,
		Largest: s.free.largest(),
	}
}

// allocateInSlab puts an allocation into a slab, and makes one when none has room.
func (a *Arena) allocateInSlab(req Request) (uint64, error) {
	size, align := (uint64(req.Size)+SlabUnit-1)&^(SlabUnit-1), max(req.Align, SlabUnit)
	// It takes no addresses, but close waits for what was begun.
	if _, _, ok := a.bump.take(0); !ok {
		return 0, a.refuse(ErrClosed)
	}
	va, ok := a.slabs.take(size, align)
	if !ok {
		var err error
		if va, err = a.makeSlab(req.Size, size); err != nil {
			a.endWithoutRecord()
			return 0, err
		}
	}
	r := record{key: (va-a.base)>>a.shift + 1, size: size, stream: req.Stream}
	return va, a.record(r, nil)
}

// makeSlab makes a slab and takes the room for an allocation at its beginning. It counts its own call.
func (a *Arena) makeSlab(requested int64, size uint64) (uint64, error) {
	length := a.slabs.size
	offset, word, ok := a.bump.take(length >> a.shift)
	if !ok {
		// The last slab may be smaller.
		length = (a.total - a.bump.offset(word)<<a.shift) &^ (a.granule - 1)
		if word&bumpClosed == 0 && length >= size {
			offset, word, ok = a.bump.take(length >> a.shift)
		}
		if !ok {
			return 0, a.refuse(a.noRoom(requested, size, offset, word))
		}
	}
	if a.late.waiting.Load() {
		a.retryDeferred()
	}
	va := a.base + offset<<a.shift
	handle, err := a.callAllocate(va, length)
	if err != nil {
		return 0, a.record(record{key: offset + 1, size: length, handle: handle}, err)
	}
	a.slabs.add(slab{start: va, size: length, handle: handle}, size)
	a.endWithoutRecord()
	return va, nil
}

// recordOf is a slab in the shape of an allocation.
func (a *Arena) recordOf(b slab) record {
	return record{key: (b.start-a.base)>>a.shift + 1, size: b.size, handle: b.handle}
}

// LiveHandles is how many physical handles the live allocations have.
func (a *Arena) LiveHandles() uint64 {
	if a.slabs == nil {
		return a.Live()
	}
	live := a.Live() + a.deferredInSlabs()
	a.slabs.mu.Lock()
	defer a.slabs.mu.Unlock()
	return live - a.slabs.live + uint64(len(a.slabs.mapped))
}

// deferredInSlabs counts what is not live any more and still has room in a slab.
func (a *Arena) deferredInSlabs() (count uint64) {
	a.late.mu.Lock()
	defer a.late.mu.Unlock()
	for _, r := range a.late.records {
		if a.slabs.holds(a.address(r)) {
			count++
		}
	}
	return count
}

// releaseSlabs releases the slabs that are left when all allocations were released: one that is kept.
func (a *Arena) releaseSlabs(failed *failures) {
	for _, b := range a.slabs.takeAll() {
		s := &a.shards[0]
		// It is no allocation. Where it is quarantined it is counted as one, so that the counters balance.
		s.mu.Lock()
		s.counts.created++
		s.counts.released++
		s.mu.Unlock()
		err := a.releaseHandle(s, a.recordOf(b))
		failed.add(err)
		if !errors.Is(err, vmm.ErrQuarantined) && !errors.Is(err, ErrDeviceLost) {
			s.mu.Lock()
			s.counts.created--
			s.counts.released--
			s.mu.Unlock()
		}
	}
}

// endWithoutRecord ends a call that began in the bump and made no record.
func (a *Arena) endWithoutRecord() {
	s := &a.shards[0]
	s.mu.Lock()
	s.ended++
	closed := s.closed
	s.mu.Unlock()
	if closed {
		a.end.wake()
	}
}
