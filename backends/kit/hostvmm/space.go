package hostvmm

import (
	"slices"
	"sync"
)

// A space is the address side of a device: its reservations, and in each of
// them what is mapped there.
//
// Locks are taken from the outside in: mu, then a reservation's own. Whoever
// works inside a reservation holds mu for reading, so that the reservation
// cannot go away; work in different reservations goes on side by side.
type space struct {
	rules
	budget       *budget
	mu           sync.RWMutex
	reservations spans[*reservation]
}

// A reservation is one range of addresses that MemAddressReserve gave out.
type reservation struct {
	mu       sync.Mutex
	mappings spans[*memory]
}

func newSpace(rules rules) space {
	return space{rules: rules, budget: processBudget()}
}

func (s *space) memAddressReserve(size, alignment, hint, flags uint64) (uint64, Result) {
	if r := s.checkReserve(size, alignment, flags); r != Success {
		return 0, r
	}
	if alignment == 0 {
		alignment = s.granule
	}
	if !s.budget.take(1) {
		return 0, ErrorOutOfMemory
	}
	va, err := reserve(size, max(alignment, s.minGranule), hint)
	if err != nil {
		s.budget.give(1)
		return 0, resultOf(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reservations.insert(span[*reservation]{start: va, size: size, value: new(reservation)})
	return va, Success
}

func (s *space) memAddressFree(va, size uint64) Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, found := s.reservations.search(va)
	if !found || s.reservations[i].size != size || len(s.reservations[i].value.mappings) != 0 {
		return ErrorInvalidValue
	}
	// The lock is held until the reservation is forgotten: from munmap on, a
	// reservation that is being made can get the same addresses.
	if err := munmap(va, size); err != nil {
		return resultOf(err)
	}
	s.reservations.remove(i, i+1)
	s.budget.give(1)
	return Success
}

// inside does something in the reservation that contains all of [va, va+size),
// with the lock of the reservation held.
func (s *space) inside(va, size uint64, do func(span[*reservation]) Result) Result {
	s.mu.RLock()
	defer s.mu.RUnlock()
	r, found := s.reservations.around(va, size)
	if !found {
		return ErrorInvalidValue
	}
	r.value.mu.Lock()
	defer r.value.mu.Unlock()
	return do(r)
}

// all returns the reservations of this moment.
func (s *space) all() spans[*reservation] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.reservations)
}

func (s *space) snapshot() Snapshot {
	all := s.all()
	snapshot := Snapshot{Reservations: len(all)}
	for _, r := range all {
		snapshot.ReservedBytes += r.size
	}
	return snapshot
}

func (s *space) close() Result {
	result := Success
	for _, r := range s.all() {
		result = firstFailure(result, s.memAddressFree(r.start, r.size))
	}
	return result
}
