package arena

// Reset has an arena without allocations start over at its base, so that a process can load one model after the
// other at the same addresses. It fails with ErrNotEmpty while something is live, deferred or quarantined, or an allocation or a free is under
// way, and with ErrClosed; then nothing has changed but that what was mapped ahead is gone. A free that arrives late, of an
// allocation from before, may meet a new one at the same address: only who knows that all frees have arrived may reset. A single handle
// stays, and so do the handles in the cache.
func (a *Arena) Reset() error {
	// Nothing is mapped ahead meanwhile, and a close waits.
	if !a.ahead.lock() {
		return &NotEmptyError{}
	}
	defer a.ahead.mu.Unlock()
	f, ok := a.admit()
	if !ok {
		return ErrClosed
	}
	defer a.land(f)
	word := a.bump.word.Load()
	if word&bumpClosed != 0 {
		return ErrClosed
	}
	if err := a.empty(); err != nil || a.placed.kind == InSingle {
		return err
	}
	if a.slabs != nil {
		var failed error
		for _, b := range a.slabs.takeAhead(0) {
			failed = joined(failed, a.discardSlab(b))
		}
		if failed != nil {
			return failed
		}
		if !a.slabs.forgetSpare() {
			return &NotEmptyError{}
		}
	}
	return a.startOver(word)
}

// startOver resets the bump if nothing is live or under way and no addresses were handed out since the word was read.
func (a *Arena) startOver(word uint64) error {
	// Who takes some of them was seen, or takes them afterwards.
	unlock := a.holes.lock()
	defer unlock()
	if err := a.empty(); err != nil {
		return err
	}
	a.epoch.Add(1)
	if !a.bump.reset(word) {
		if a.Closed() {
			return ErrClosed
		}
		return &NotEmptyError{}
	}
	a.holes.forget()
	a.note(EventReset, Event{})
	return nil
}

// empty fails unless nothing is live and nothing under way beside the caller, whose call is noted.
func (a *Arena) empty() error {
	// In this order: what began before is live by now, or is being released, or is gone; and what begins afterwards takes addresses or room
	// in a slab.
	under := uint64(0)
	for i := range a.shards {
		s := &a.shards[i]
		s.mu.Lock()
		s.eachFlight(func(uint64) { under++ })
		s.mu.Unlock()
	}
	under-- // the caller's
	var sum counts
	for i := range a.shards {
		s := &a.shards[i]
		s.mu.Lock()
		sum.add(&s.counts)
		under += s.settling - s.settled.Load()
		s.mu.Unlock()
	}
	if sum.live+sum.deferred+sum.quarantined+under > 0 {
		return &NotEmptyError{Live: sum.live, Deferred: sum.deferred, Quarantined: sum.quarantined}
	}
	return nil
}
