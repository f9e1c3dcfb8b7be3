package arena

import "sync/atomic"

// MaxTags is how many tags there are: 0 to 15.
const MaxTags = 16

// A Tag is what allocations are counted under beside their arena, such as weights or a cache: a number of the caller's from 1 to
// MaxTags-1. Tag 0 is none.
type Tag uint8

// TagStats are the counters of a tag at one moment.
type TagStats struct {
	Live       uint64 `json:"live"`        // live allocations
	Mapped     uint64 `json:"mapped"`      // sum of their rounded sizes, in bytes
	PeakMapped uint64 `json:"peak_mapped"` // the highest that Mapped was since the last ResetPeaks, in bytes
}

// tags are an arena's tags.
type tags struct {
	own    atomic.Uint32 // of allocations that bring none
	counts [MaxTags]struct {
		live atomic.Uint64
		size extent
	}
}

// An extent is an amount of bytes, and the most that it was.
type extent struct{ now, peak atomic.Uint64 }

func (e *extent) grow(bytes uint64) {
	if now := e.now.Add(bytes); now > e.peak.Load() {
		e.raise(now)
	}
}

func (e *extent) raise(now uint64) {
	for peak := e.peak.Load(); now > peak; peak = e.peak.Load() {
		if e.peak.CompareAndSwap(peak, now) {
			return
		}
	}
}

func (e *extent) shrink(bytes uint64) { e.now.Add(-bytes) }

// SetTag sets the tag of allocations that bring none, from now on. It fails with ErrInvalidArgument for one that there is not.
func (a *Arena) SetTag(tag Tag) error {
	if tag >= MaxTags {
		return invalid("a tag must be 0 to %d, got %d", MaxTags-1, tag)
	}
	a.tags.own.Store(uint32(tag))
	return nil
}

// Tag reads the counters of a tag, 1 to MaxTags-1.
func (a *Arena) Tag(tag Tag) (TagStats, error) {
	if tag == 0 || tag >= MaxTags {
		return TagStats{}, invalid("a tag must be 1 to %d, got %d", MaxTags-1, tag)
	}
	t := &a.tags.counts[tag]
	now := t.size.now.Load()
	return TagStats{Live: t.live.Load(), Mapped: now, PeakMapped: max(now, t.size.peak.Load())}, nil
}

// ResetPeaks has the peaks of the counters start over from what they are now.
func (a *Arena) ResetPeaks() {
	a.size.peak.Store(a.size.now.Load())
	for i := range a.tags.counts {
		size := &a.tags.counts[i].size
		size.peak.Store(size.now.Load())
	}
	a.cache.resetPeak()
}

// tagOf is the tag of a request.
func (a *Arena) tagOf(req Request) Tag {
	if req.Tag != 0 {
		return req.Tag
	}
	return Tag(a.tags.own.Load())
}

// tag is the tag of a record.
func (r record) tag() Tag { return Tag(r.birth & tagMask) }

// grow counts an allocation that became live.
func (a *Arena) grow(r record) {
	a.size.grow(r.size)
	if tag := r.tag(); tag != 0 {
		a.tags.counts[tag].live.Add(1)
		a.tags.counts[tag].size.grow(r.size)
	}
	if a.trace != nil {
		a.note(EventMalloc, Event{Address: a.address(r), Size: r.size, Handle: r.handle, Tag: r.tag()})
	}
}

// shrink counts one that no longer is.
func (a *Arena) shrink(r record) {
	a.size.shrink(r.size)
	if tag := r.tag(); tag != 0 {
		a.tags.counts[tag].live.Add(^uint64(0))
		a.tags.counts[tag].size.shrink(r.size)
	}
	if a.trace != nil {
		a.note(EventFree, Event{Address: a.address(r), Size: r.size, Handle: r.handle, Tag: r.tag()})
	}
}
