package arena

// Stats are an arena's counters at one moment, in bytes or as counts. They balance:
// Created = Released + Live + Quarantined + HandedOver + Deferred.
type Stats struct {
	Device  int    `json:"device"`
	Closed  bool   `json:"closed"`
	Base    uint64 `json:"base"`    // the first address
	Total   uint64 `json:"total"`   // bytes reserved
	Granule uint64 `json:"granule"` // bytes
	Used    uint64 `json:"used"`    // bytes from the base up to the highest address given out
	Mapped  uint64 `json:"mapped"`  // sum of the live allocations' rounded sizes
	Peak    uint64 `json:"peak"`    // the highest that Mapped was since the last ResetPeaks
	Live    uint64 `json:"live"`    // live allocations

	Created     uint64 `json:"created"`     // allocations that succeeded
	Released    uint64 `json:"released"`    // allocations whose memory was given back
	Quarantined uint64 `json:"quarantined"` // allocations whose memory could not be given back
	HandedOver  uint64 `json:"handed_over"` // allocations that CloseAndDrain gave to its caller
	Deferred    uint64 `json:"deferred"`    // allocations that were freed and are released when their stream is no longer captured

	Failed         uint64 `json:"failed"`          // allocations that the backend failed; each lost its addresses
	Refused        uint64 `json:"refused"`         // allocations that were refused before the backend was asked
	UnknownFrees   uint64 `json:"unknown_frees"`   // frees of addresses that name no live allocation
	LateFrees      uint64 `json:"late_frees"`      // frees after close of what was live then
	FailedReleases uint64 `json:"failed_releases"` // releases that the backend failed, in whole or in part
}

// NearlyFull warns that 80% of the reservation is used. It stays so: Used never falls.
func (s Stats) NearlyFull() bool { return s.Total-s.Used <= s.Total/5 }

// Stats reads the counters. It waits for no call to the backend.
func (a *Arena) Stats() Stats {
	sum := a.sum()
	word := a.bump.word.Load()
	return Stats{
		Device:         a.device,
		Closed:         word&bumpClosed != 0,
		Base:           a.base,
		Total:          a.total,
		Granule:        a.granule,
		Used:           a.bump.offset(word) << a.shift,
		Mapped:         sum.mapped,
		Peak:           max(sum.mapped, a.size.peak.Load()),
		Live:           sum.live,
		Created:        sum.created,
		Released:       sum.released,
		Quarantined:    sum.quarantined,
		HandedOver:     sum.handedOver,
		Deferred:       sum.deferred,
		Failed:         sum.failed,
		Refused:        a.refused.Load(),
		UnknownFrees:   a.strange.Load(),
		LateFrees:      sum.lateFrees,
		FailedReleases: sum.failedReleases,
	}
}

// Mapped is the sum of the live allocations' rounded sizes, in bytes.
func (a *Arena) Mapped() uint64 { return a.sum().mapped }

// Live is the number of live allocations.
func (a *Arena) Live() uint64 { return a.sum().live }

// sum adds the shards' counts up. Each shard's share is of one moment and balances, so the sum does.
func (a *Arena) sum() counts {
	var sum counts
	for i := range a.shards {
		s := &a.shards[i]
		s.mu.Lock()
		sum.add(&s.counts)
		s.mu.Unlock()
	}
	return sum
}

func (c *counts) add(d *counts) {
	c.created += d.created
	c.released += d.released
	c.handedOver += d.handedOver
	c.quarantined += d.quarantined
	c.deferred += d.deferred
	c.failed += d.failed
	c.failedReleases += d.failedReleases
	c.lateFrees += d.lateFrees
	c.mapped += d.mapped
	c.live += d.live
}
