package arena

import (
	"math"
	"sync/atomic"
)

// A flight notes a call under way, so that a close can wait for it, and for an allocation where its addresses begin, so that
// who registers what is mapped stays below it. It is 0 when it is free, else the offset in units plus 1.
//
// An allocation notes the offset that it expects before it takes it, and corrects that afterwards. So whoever
// reads the bump first and the flights then sees every allocation that took its addresses before.
type flight struct{ atomic.Uint64 }

// withoutAddresses is the note of a call that awaits no addresses.
const withoutAddresses = math.MaxUint64

// flightsAtHand is how many flights a shard has without a lock.
const flightsAtHand = 3

// depart notes a call.
func (a *Arena) depart(note uint64) *flight {
	s := a.shard(hash(note))
	for i := range s.flights {
		if f := &s.flights[i]; f.CompareAndSwap(0, note) {
			return f
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.more {
		if f.CompareAndSwap(0, note) {
			return f
		}
	}
	f := &flight{}
	f.Store(note)
	s.more = append(s.more, f)
	return f
}

// land ends a call. In this order: a closer closes the bump first and looks at the flights then, so that one of the two sees the other.
func (a *Arena) land(f *flight) {
	f.Store(0)
	if a.Closed() {
		a.end.wake()
	}
}

// takeOff takes the next units for a new flight. Without them there is none.
func (a *Arena) takeOff(n uint64) (f *flight, offset, word uint64, ok bool) {
	word = a.bump.word.Load()
	note := a.bump.offset(word) + 1
	f = a.depart(note)
	offset, word, ok = a.bump.take(n, word)
	switch {
	case !ok && a.bump.offset(word) < offset:
		if offset, word, ok = a.climb(f, n); !ok {
			a.land(f)
		}
	case !ok:
		a.land(f)
	case offset+1 != note:
		f.Store(offset + 1)
	}
	return f, offset, word, ok
}

// admit begins a call that takes no addresses now. Without an open arena there is none.
func (a *Arena) admit() (f *flight, ok bool) {
	f = a.depart(withoutAddresses)
	if a.Closed() {
		a.land(f)
		return nil, false
	}
	return f, true
}

// climb takes the next units for a call that was admitted.
func (a *Arena) climb(f *flight, n uint64) (offset, word uint64, ok bool) {
	word = a.bump.word.Load()
	for again := true; again; {
		f.Store(a.bump.offset(word) + 1)
		offset, word, ok = a.bump.take(n, word)
		// After a reset the note would be too high.
		again = !ok && a.bump.offset(word) < offset
	}
	if ok {
		f.Store(offset + 1)
	} else {
		f.Store(withoutAddresses)
	}
	return offset, word, ok
}

// hover notes the addresses of a call that was admitted, which come from elsewhere.
func (a *Arena) hover(f *flight, va uint64) { f.Store((va-a.base)>>a.shift + 1) }

// quiet tells whether every allocation and every free that began has come back.
func (a *Arena) quiet() bool {
	for i := range a.shards {
		s := &a.shards[i]
		s.mu.Lock()
		under := s.settling != s.settled.Load()
		s.eachFlight(func(uint64) { under = true })
		s.mu.Unlock()
		if under {
			return false
		}
	}
	return true
}

// lowest is where the lowest addresses begin that are awaited, counted in units, or the limit if that is lower.
func (a *Arena) lowest(limit uint64) uint64 {
	for i := range a.shards {
		s := &a.shards[i]
		s.mu.Lock()
		s.eachFlight(func(note uint64) { limit = min(limit, note-1) })
		s.mu.Unlock()
	}
	return limit
}

// eachFlight calls f with the note of each call under way. The caller holds s.mu.
func (s *shard) eachFlight(f func(note uint64)) {
	for i := range s.flights {
		if note := s.flights[i].Load(); note != 0 {
			f(note)
		}
	}
	for _, more := range s.more {
		if note := more.Load(); note != 0 {
			f(note)
		}
	}
}
