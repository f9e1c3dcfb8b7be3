package trace

import (
	"math"
	"slices"
)

// A Span is memory for a time.
type Span struct {
	Address, Size uint64 // bytes
	From, To      uint64 // ns
	Seq           uint64 // of the event that began it, or ended it when the beginning is not in the trace
	Before        bool   // it began before the trace
	Open          bool   // it did not end in the trace
}

// A Mapping is the span in which a handle is mapped at an address.
type Mapping struct {
	Span
	Handle   uint64
	Ahead    bool   // the prefetcher mapped it
	Used     bool   // something was allocated in it
	FirstUse uint64 // ns, when Used
}

// A Sample is how much memory there was from a moment on, in bytes.
type Sample struct {
	NS                   uint64
	Mapped, Live, Cached int64
}

// A History is what became of the memory that a trace tells of.
type History struct {
	From, To    uint64 // ns
	Mappings    []Mapping
	Allocations []Span
	Samples     []Sample // one at From, and one after each event that changed something
	Marks       []Event  // failures, and what concerns the whole arena
	Handles     int      // that were made, or were there before the trace
	Peak        Sample   // the most of each
}

// History follows memory through a trace.
func (t *Trace) History() *History {
	f := follower{
		h:         &History{},
		whole:     t.Missed == 0,
		mapped:    opened{at: map[uint64]int{}, known: map[uint64]bool{}},
		allocated: opened{at: map[uint64]int{}, known: map[uint64]bool{}},
	}
	f.h.From, f.h.To = t.times()
	f.sample(f.h.From)
	for _, e := range t.Events {
		f.event(e)
	}
	f.finish()
	return f.h
}

// times is when a trace begins and ends. A driver's call may have begun before the first event was over.
func (t *Trace) times() (from, to uint64) {
	if len(t.Events) == 0 {
		return 0, 0
	}
	from = math.MaxUint64
	for _, e := range t.Events {
		from = min(from, e.began())
	}
	return from, t.Events[len(t.Events)-1].NS
}

// opened are the spans that have not ended yet.
type opened struct {
	at    map[uint64]int  // the place in the history, by address
	known map[uint64]bool // addresses that had one: a second end there is no sign of a beginning that was missed
}

type follower struct {
	h         *History
	mapped    opened
	allocated opened
	unused    []uint64 // sorted addresses of what the prefetcher mapped and nothing was allocated in yet
	now       Sample   // counted from zero, though there may have been memory before the trace
	least     int64    // the least that was cached, by this count
	whole     bool     // nothing was missed, so nothing was cached before the trace
}

func (f *follower) event(e Event) {
	before := f.now
	switch e.Kind {
	case Mapped, Prefetched, Imported:
		f.mapping(e)
	case Reused:
		f.now.Cached -= int64(e.Size)
		f.mapping(e)
	case Cached:
		f.now.Cached += int64(e.Size)
		f.unmapping(e)
	case Unmapped:
		f.unmapping(e)
	case Trimmed:
		f.now.Cached -= int64(e.Size)
	case Malloc:
		f.malloc(e)
	case Free:
		f.free(e)
	case Failed, OutOfMemory, Closed, Reset:
		f.h.Marks = append(f.h.Marks, e)
	}
	f.least = min(f.least, f.now.Cached)
	if f.now != before {
		f.sample(e.NS)
	}
}

func (f *follower) sample(ns uint64) {
	s := f.now
	s.NS = ns
	f.h.Samples = append(f.h.Samples, s)
}

func begin(e Event) Span {
	return Span{Address: e.Address, Size: e.Size, From: e.NS, Seq: e.Seq, Open: true}
}

// missed is a span of which a trace has the end only.
func (f *follower) missed(e Event) Span {
	return Span{Address: e.Address, Size: e.Size, From: f.h.From, To: e.NS, Seq: e.Seq, Before: true}
}

func (f *follower) mapping(e Event) {
	if i, ok := f.mapped.at[e.Address]; ok {
		if f.h.Mappings[i].Size == e.Size { // told twice: ahead, and when it was wanted
			f.use(e.Address, e.NS)
			return
		}
		f.endMapping(e.Address, e.NS)
	}
	f.mapped.at[e.Address], f.mapped.known[e.Address] = len(f.h.Mappings), true
	f.h.Mappings = append(f.h.Mappings, Mapping{Span: begin(e), Handle: e.Handle, Ahead: e.Kind == Prefetched})
	f.now.Mapped += int64(e.Size)
	if e.Kind != Reused {
		f.h.Handles++
	}
	if e.Kind == Prefetched {
		i, _ := slices.BinarySearch(f.unused, e.Address)
		f.unused = slices.Insert(f.unused, i, e.Address)
	}
}

// unmapping ends a mapping, once, though a handle that is cached may be told of as unmapped too.
func (f *follower) unmapping(e Event) {
	if f.endMapping(e.Address, e.NS) || f.mapped.known[e.Address] {
		return
	}
	f.mapped.known[e.Address] = true
	f.h.Mappings = append(f.h.Mappings, Mapping{Span: f.missed(e), Handle: e.Handle})
	f.now.Mapped -= int64(e.Size)
	f.h.Handles++
}

func (f *follower) endMapping(address, ns uint64) bool {
	i, ok := f.mapped.at[address]
	if !ok {
		return false
	}
	m := &f.h.Mappings[i]
	m.To, m.Open = ns, false
	f.now.Mapped -= int64(m.Size)
	delete(f.mapped.at, address)
	if j, found := slices.BinarySearch(f.unused, address); found {
		f.unused = slices.Delete(f.unused, j, j+1)
	}
	return true
}

func (f *follower) malloc(e Event) {
	f.endAllocation(e.Address, e.NS)
	f.allocated.at[e.Address], f.allocated.known[e.Address] = len(f.h.Allocations), true
	f.h.Allocations = append(f.h.Allocations, begin(e))
	f.now.Live += int64(e.Size)
	f.useRange(e)
}

// useRange notes the first use of what was mapped ahead, which an allocation may span several of.
func (f *follower) useRange(e Event) {
	i, found := slices.BinarySearch(f.unused, e.Address)
	if !found && i > 0 {
		i--
	}
	for i < len(f.unused) && f.unused[i] < e.Address+max(e.Size, 1) {
		address := f.unused[i]
		if m := f.h.Mappings[f.mapped.at[address]]; address+m.Size <= e.Address {
			i++
			continue
		}
		f.use(address, e.NS)
	}
}

func (f *follower) use(address, ns uint64) {
	i, found := slices.BinarySearch(f.unused, address)
	if !found {
		return
	}
	f.unused = slices.Delete(f.unused, i, i+1)
	m := &f.h.Mappings[f.mapped.at[address]]
	m.Used, m.FirstUse = true, ns
}

func (f *follower) free(e Event) {
	if f.endAllocation(e.Address, e.NS) || f.allocated.known[e.Address] {
		return
	}
	f.allocated.known[e.Address] = true
	f.h.Allocations = append(f.h.Allocations, f.missed(e))
	f.now.Live -= int64(e.Size)
}

func (f *follower) endAllocation(address, ns uint64) bool {
	i, ok := f.allocated.at[address]
	if !ok {
		return false
	}
	a := &f.h.Allocations[i]
	a.To, a.Open = ns, false
	f.now.Live -= int64(a.Size)
	delete(f.allocated.at, address)
	return true
}

// finish adds to each sample what was there before the trace, which only its end told.
func (f *follower) finish() {
	var start Sample
	if !f.whole {
		start.Cached = -f.least
	}
	for i := range f.h.Mappings {
		start.Mapped += settle(&f.h.Mappings[i].Span, f.h.To)
	}
	for i := range f.h.Allocations {
		start.Live += settle(&f.h.Allocations[i], f.h.To)
	}
	peak := &f.h.Peak
	for i := range f.h.Samples {
		s := &f.h.Samples[i]
		// Two threads may number what they did in the wrong order, which makes less than nothing for a moment.
		s.Mapped, s.Live, s.Cached = s.Mapped+start.Mapped, s.Live+start.Live, max(0, s.Cached+start.Cached)
		peak.Mapped, peak.Live, peak.Cached = max(peak.Mapped, s.Mapped), max(peak.Live, s.Live), max(peak.Cached, s.Cached)
	}
}

// settle ends a span with the trace, and is how much of it was there before.
func settle(s *Span, to uint64) int64 {
	if s.Open {
		s.To = to
	}
	if s.Before {
		return int64(s.Size)
	}
	return 0
}
