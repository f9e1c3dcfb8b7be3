package capi

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/arenagen/arenagen/arena"
)

// A handles table gives numbers out for arenas. A number holds the place in its lower
// half, counted from 1, and the generation of the place in its upper half, counted
// from 1: a number that was given back, or made up, finds nothing. Finding takes no lock.
type handles struct {
	places atomic.Pointer[[]*place] // never written once it is published

	mu   sync.Mutex // serialises add and remove
	free []uint32   // places to use again
}

type place struct {
	generation uint32                     // of the current or next entry; guarded by handles.mu
	entry      atomic.Pointer[placeEntry] // nil when the place is free
}

type placeEntry struct {
	generation uint32
	arena      *arena.Arena
}

// add gives out a number for an arena.
func (h *handles) add(a *arena.Arena) Arena {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.vacant()
	p := (*h.places.Load())[at]
	p.entry.Store(&placeEntry{generation: p.generation, arena: a})
	return Arena(uint64(p.generation)<<32 | uint64(at+1))
}

func (h *handles) vacant() uint32 {
	if n := len(h.free); n > 0 {
		at := h.free[n-1]
		h.free = h.free[:n-1]
		return at
	}
	old := h.all()
	places := append(old[:len(old):len(old)], &place{generation: 1})
	h.places.Store(&places)
	return uint32(len(old))
}

func (h *handles) all() []*place {
	if places := h.places.Load(); places != nil {
		return *places
	}
	return nil
}

// get returns the arena of a number, or nil.
func (h *handles) get(handle Arena) *arena.Arena {
	if entry := h.entry(handle); entry != nil {
		return entry.arena
	}
	return nil
}

func (h *handles) entry(handle Arena) *placeEntry {
	places := h.all()
	at := uint64(uint32(handle)) - 1
	if at >= uint64(len(places)) {
		return nil
	}
	entry := places[at].entry.Load()
	if entry == nil || entry.generation != uint32(handle>>32) {
		return nil
	}
	return entry
}

// remove takes a number back for good. It reports whether the number was valid.
func (h *handles) remove(handle Arena) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.entry(handle) == nil {
		return false
	}
	at := uint32(handle) - 1
	p := h.all()[at]
	p.entry.Store(nil)
	// A place whose generations are used up is never used again.
	if p.generation < math.MaxUint32 {
		p.generation++
		h.free = append(h.free, at)
	}
	return true
}

// find returns the number of an arena, or 0.
func (h *handles) find(a *arena.Arena) Arena {
	for at, p := range h.all() {
		if entry := p.entry.Load(); entry != nil && entry.arena == a {
			return Arena(uint64(entry.generation)<<32 | uint64(at+1))
		}
	}
	return 0
}
