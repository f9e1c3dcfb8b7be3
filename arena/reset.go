package arena

// Reset has an arena without allocations start over at its base, so that a process can load one model after the
// other at the same addresses. It fails with ErrNotEmpty while something is live, deferred or quarantined, or an allocation or a free is under
// way, and with ErrClosed; then nothing has changed. A free that arrives late, of an allocation from before, may meet a new one
// at the same address: only who knows that all frees have arrived may reset. A single handle stays.
func (a *Arena) Reset() error {
	word := a.bump.word.Load()
	if word&bumpClosed != 0 {
		return ErrClosed
	}
	sum := a.sum()
	if sum.live+sum.deferred+sum.quarantined > 0 || !a.quiet(word) {
		return &NotEmptyError{Live: sum.live, Deferred: sum.deferred, Quarantined: sum.quarantined}
	}
	if a.placed.kind == InSingle {
		return nil
	}
	if !a.bump.reset(word) {
		return &NotEmptyError{}
	}
	return nil
}
