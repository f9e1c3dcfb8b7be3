package arena

// What tests look at from outside.

// FlightsAtHand is how many flights a shard has without a lock.
const FlightsAtHand = flightsAtHand

// Runs are the regions of RegionsDmabuf for a host with pages of so many bytes.
func (a *Arena) Runs(page uint64) []Region { return a.runs(page) }

// MoreFlights is how many calls of a shard were ever noted at once, beyond those at hand.
func (a *Arena) MoreFlights() (most int) {
	for i := range a.shards {
		s := &a.shards[i]
		s.mu.Lock()
		most = max(most, len(s.more))
		s.mu.Unlock()
	}
	return most
}

// Prefetching tells whether slabs are being mapped ahead, or are about to be.
func (a *Arena) Prefetching() bool { return a.ahead.running.Load() }

// SharedHandles is how many handles are remembered as given away.
func (a *Arena) SharedHandles() int {
	a.shared.mu.Lock()
	defer a.shared.mu.Unlock()
	return len(a.shared.handles)
}
