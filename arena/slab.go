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
	ahead  uint64 // of those that were mapped ahead and not used yet
	carved uint64 // allocations that were ever put into one
	made   uint64 // slabs that were ever mapped
	gone   uint64 // slabs that were ever taken out
	spare  slab   // addresses that were taken for a slab that could not be made ahead
}

// A slab is one handle.
type slab struct {
	start, size uint64 // its addresses
	handle      uint64
	birth       uint64 // as that of a record
	live        int
	kept        bool // it stays also without an allocation
	ahead       bool // it was mapped ahead, and nothing was in it yet
}

// fits tells whether an allocation of so many bytes goes into a slab.
func (s *slabs) fits(size int64) bool { return s != nil && uint64(size) <= s.size }

// take takes room for an allocation out of the lowest free range that has it. begun tells whether that used up a slab that was mapped ahead.
func (s *slabs) take(size, align uint64) (va uint64, begun, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if va, ok = s.free.carve(size, align, SlabUnit); ok {
		begun = s.enter(s.holding(va))
	}
	return va, begun, ok
}

// add enters a slab that was made, with room for an allocation taken at its beginning. The caller's is the first.
func (s *slabs) add(made slab, size uint64) {
	s.addIf(made, size, func() bool { return true })
}

// addIf is add, unless ready says no. While that is asked, no other call finds the slabs.
func (s *slabs) addIf(made slab, size uint64, ready func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !ready() {
		return false
	}
	i, _ := s.find(made.start)
	s.mapped = slices.Insert(s.mapped, i, made)
	s.bytes += made.size
	s.made++
	if made.ahead {
		s.ahead += made.size
	}
	if size > 0 {
		s.enter(i)
	}
	if rest := made.size - size; rest > 0 {
		s.free.insert(made.start+size, rest)
	}
	return true
}

// enter counts an allocation in a slab. begun tells whether that was mapped ahead, and not used before. The caller holds mu.
func (s *slabs) enter(i int) (begun bool) {
	b := &s.mapped[i]
	if begun = b.ahead; begun {
		b.ahead = false
		s.ahead -= b.size
	}
	b.live++
	s.live++
	s.carved++
	return begun
}

// putSpare keeps addresses for the next slab.
func (s *slabs) putSpare(b slab) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare = b
}

// takeSpare takes addresses of at least so many bytes that were kept.
func (s *slabs) takeSpare(size uint64) (va, length uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spare.size < size {
		return 0, 0, false
	}
	va, length = s.spare.start, s.spare.size
	s.spare = slab{}
	return va, length, true
}

// forgetSpare drops the addresses that were kept, if there are no slabs.
func (s *slabs) forgetSpare() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mapped) == 0 {
		s.spare = slab{}
	}
	return len(s.mapped) == 0
}

// aheadBytes is the memory of the slabs that were mapped ahead and not used yet.
func (s *slabs) aheadBytes() uint64 {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ahead
}

// takeAhead takes slabs out that were mapped ahead and not used yet, the highest first, until at most so many bytes of them are left.
func (s *slabs) takeAhead(keep uint64) (taken []slab) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.mapped) - 1; i >= 0 && s.ahead > keep; i-- {
		if b := s.mapped[i]; b.ahead {
			s.free.remove(b.start)
			s.ahead -= b.size
			s.bytes -= b.size
			s.gone++
			s.mapped = slices.Delete(s.mapped, i, i+1)
			taken = append(taken, b)
		}
	}
	return taken
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
		s.gone++
		s.mapped = slices.Delete(s.mapped, i, i+1)
		return &gone, true
	}
	s.free.merge(va, size, b.start, b.start+b.size)
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
	s.gone += uint64(len(all))
	s.mapped, s.free, s.live, s.bytes, s.ahead = nil, ranges{}, 0, 0, 0
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

// SlabStats are the counters of the slabs, at one moment. All but Count, Made and Gone are bytes.
type SlabStats struct {
	Size    uint64 `json:"size"`    // of a slab, which a driver's largest handle may limit; 0 without slabs
	Count   int    `json:"count"`   // handles
	Mapped  uint64 `json:"mapped"`  // memory behind them
	Live    uint64 `json:"live"`    // memory that allocations have of it
	Free    uint64 `json:"free"`    // memory that they do not have
	Largest uint64 `json:"largest"` // the largest piece of what is free: an allocation that is larger needs another slab
	Ahead   uint64 `json:"ahead"`   // what was mapped ahead and has no allocation yet; a part of Free
	Made    uint64 `json:"made"`    // handles that were mapped so far: Made = Gone + Count
	Gone    uint64 `json:"gone"`    // handles that were unmapped or handed over so far, or could not be unmapped
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
		Size:    s.size,
		Count:   len(s.mapped),
		Mapped:  s.bytes,
		Live:    s.bytes - s.free.bytes,
		Free:    s.free.bytes,
		Largest: s.free.largest(),
		Ahead:   s.ahead,
		Made:    s.made,
		Gone:    s.gone,
	}
}

// allocateInSlab puts an allocation into a slab, and makes one when none has room.
func (a *Arena) allocateInSlab(req Request) (uint64, error) {
	size, align := (uint64(req.Size)+SlabUnit-1)&^(SlabUnit-1), max(req.Align, SlabUnit)
	// It takes no addresses, but close waits for what was begun.
	f, ok := a.admit()
	if !ok {
		return 0, a.refuse(ErrClosed)
	}
	defer a.land(f)
	va, begun, ok := a.slabs.take(size, align)
	if !ok {
		var err error
		if va, err = a.makeSlab(f, req.Size, size); err != nil {
			return 0, err
		}
		begun = true
	}
	if begun && a.ahead.budget > 0 {
		a.prefetch()
	}
	r := record{key: (va-a.base)>>a.shift + 1, size: size, stream: req.Stream, birth: a.birthOf(a.tagOf(req)) | inSlabBit}
	return va, a.record(r, nil)
}

// makeSlab makes a slab and takes the room for an allocation at its beginning.
func (a *Arena) makeSlab(f *flight, requested int64, size uint64) (uint64, error) {
	va, length, err := a.slabRange(f, requested, size)
	if err != nil {
		return 0, a.refuse(err)
	}
	if a.late.waiting.Load() {
		a.retryDeferred()
	}
	made, told := slab{start: va, size: length, birth: a.birthOf(0)}, a.audience()
	if made.handle, err = a.obtain(va, length); err == nil {
		err = a.addSlab(made, size, told)
	}
	if err != nil {
		return 0, a.record(a.recordOf(made), err)
	}
	return va, nil
}

// slabRange takes addresses for a slab that has room for an allocation: some that were used before, or the next ones. The last slab may be smaller.
func (a *Arena) slabRange(f *flight, requested int64, size uint64) (va, length uint64, err error) {
	if va, length, ok := a.slabs.takeSpare(size); ok {
		a.hover(f, va)
		return va, length, nil
	}
	if va, ok := a.reuse(a.slabs.size); ok {
		a.hover(f, va)
		return va, a.slabs.size, nil
	}
	length = a.slabs.size
	offset, word, ok := a.climb(f, length>>a.shift)
	if !ok && word&bumpClosed == 0 {
		length = (a.total - a.bump.offset(word)<<a.shift) &^ (a.granule - 1)
		if length >= size {
			offset, word, ok = a.climb(f, length>>a.shift)
		}
	}
	if !ok {
		return 0, 0, a.noRoom(requested, size, offset, word)
	}
	return a.base + offset<<a.shift, length, nil
}

// recordOf is a slab in the shape of an allocation.
func (a *Arena) recordOf(b slab) record {
	return record{key: (b.start-a.base)>>a.shift + 1, size: b.size, handle: b.handle, birth: b.birth}
}

// LiveHandles is how many physical handles the live allocations have.
func (a *Arena) LiveHandles() uint64 {
	if a.slabs == nil {
		return a.Live()
	}
	live := a.Live() + a.deferredInSlabs()
	a.slabs.mu.Lock()
	defer a.slabs.mu.Unlock()
	// What is on its way into a slab is not live yet.
	return live - min(live, a.slabs.live) + uint64(len(a.slabs.mapped))
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

// releaseSlabs releases the slabs that are left when all allocations were released: one that is kept, and what was mapped ahead.
func (a *Arena) releaseSlabs(failed *failures) {
	for _, b := range a.slabs.takeAll() {
		failed.add(a.discardSlab(b))
	}
}

// discardSlab releases a slab that has no allocation and is not among the slabs any more.
func (a *Arena) discardSlab(b slab) error {
	s := &a.shards[0]
	// It is no allocation. Where it is quarantined it is counted as one, so that the counters balance.
	s.mu.Lock()
	s.counts.created++
	s.counts.released++
	s.mu.Unlock()
	err := a.releaseHandle(s, a.recordOf(b))
	if !errors.Is(err, vmm.ErrQuarantined) && !errors.Is(err, ErrDeviceLost) {
		s.mu.Lock()
		s.counts.created--
		s.counts.released--
		s.mu.Unlock()
	}
	return err
}
