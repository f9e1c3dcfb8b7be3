package arena

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// An EventKind is what an event tells.
type EventKind uint8

// The kinds.
const (
	EventMapped      EventKind = iota + 1 // a handle is mapped now
	EventPrefetched                       // the same, ahead of its use
	EventReused                           // the same, with a handle from the cache
	EventImported                         // the same, with a handle of another process
	EventUnmapping                        // a handle is about to be unmapped
	EventUnmapped                         // it no longer is mapped
	EventCached                           // its handle is in the cache now
	EventTrimmed                          // a handle went from the cache back to the driver
	EventMalloc                           // an allocation is live now
	EventFree                             // it no longer is; its memory goes now
	EventFailed                           // an allocation failed
	EventOutOfMemory                      // the device had no memory left
	EventGranted                          // another device reaches a mapping now
	EventReset                            // the arena started over
	EventClosed                           // the arena was closed
)

var eventNames = [...]string{
	EventMapped: "mapped", EventPrefetched: "prefetched", EventReused: "reused", EventImported: "imported",
	EventUnmapping: "unmapping", EventUnmapped: "unmapped", EventCached: "cached", EventTrimmed: "trimmed",
	EventMalloc: "malloc", EventFree: "free", EventFailed: "failed", EventOutOfMemory: "out_of_memory",
	EventGranted: "granted", EventReset: "reset", EventClosed: "closed",
}

// String is the kind's name.
func (k EventKind) String() string {
	if int(k) < len(eventNames) && k != 0 {
		return eventNames[k]
	}
	return "unknown"
}

// changesMapping tells whether who registers memory must know.
func (k EventKind) changesMapping() bool { return k <= EventUnmapped }

// An Event is one thing that an arena did.
type Event struct {
	Seq     uint64        // 1, 2, 3 and so on
	Time    time.Duration // since the arena was made; to about a millisecond for those that call no driver
	Kind    EventKind
	Tag     Tag
	Address uint64 // 0 where there is none
	Size    uint64 // bytes
	Handle  uint64
	Took    time.Duration // what the driver's calls took, up to 78 hours
}

// MaxEvents is how many events can be remembered.
const MaxEvents = 1 << 24

// changesRemembered is how many changes of the mappings are remembered for those who follow them.
const changesRemembered = 1 << 12

// Events returns the latest events after one of them, the oldest first and at most max, where Config.Events has them remembered. Zero begins with the oldest.
// missed is how many before the first one are not remembered any more. Whoever calls it again with the last Seq misses none without
// learning it. It takes no lock that an allocation waits for.
func (a *Arena) Events(after uint64, max int) (events []Event, missed uint64) {
	return a.trace.read(after, max)
}

// Changes is Events for those of the mappings only: mapped, prefetched, reused, imported, unmapping and unmapped, numbered by themselves. They are
// remembered from the first call on, so a cache of registrations calls Changes first, then Regions, and then follows. The memory is still
// there when unmapping is told, but goes at once: the arena does not wait for who follows.
func (a *Arena) Changes(after uint64, max int) (events []Event, missed uint64) {
	if a.changes.Load() == nil {
		a.changes.CompareAndSwap(nil, newRing(changesRemembered))
		a.special.Store(true)
	}
	return a.changes.Load().read(after, max)
}

// note remembers an event, where events are remembered.
func (a *Arena) note(kind EventKind, e Event) {
	if !a.watched() {
		return
	}
	e.Kind = kind
	if kind == EventMalloc || kind == EventFree {
		e.Time = time.Duration(clock.now() - a.born)
	} else {
		e.Time = time.Duration(clock.refresh() - a.born)
	}
	a.trace.write(e)
	if kind.changesMapping() {
		a.changes.Load().write(e)
	}
}

// start is when a driver's call begins that is told later, or 0 where nothing is told.
func (a *Arena) start() int64 {
	if !a.watched() {
		return 0
	}
	return clock.refresh()
}

// since is how long ago start was.
func since(start int64) time.Duration { return time.Duration(clock.refresh() - start) }

func (a *Arena) watched() bool { return a.trace != nil || a.changes.Load() != nil }

// A ring remembers the latest events. Nobody waits in it: a writer takes the next number and its place; one that finds the place
// still being written, a whole round later, drops its event. A nil ring remembers none.
type ring struct {
	places []place
	_      [64]byte // last is what every writer writes
	last   atomic.Uint64
}

// A place holds one event. Its state is twice the number of the event in it, less 1 while that is written.
type place struct {
	dropped atomic.Uint64 // the number of the latest event that found it still being written

	state, time, address, size, handle atomic.Uint64
	about                              atomic.Uint64 // took<<16 | tag<<8 | kind
}

// newRing has at least so many places.
func newRing(count int) *ring {
	if count <= 0 {
		return nil
	}
	return &ring{places: make([]place, 1<<bits.Len(uint(count-1)))}
}

func (r *ring) write(e Event) {
	if r == nil {
		return
	}
	seq := r.last.Add(1)
	p := &r.places[seq&uint64(len(r.places)-1)]
	state := p.state.Load()
	if state&1 != 0 || state > 2*seq || !p.state.CompareAndSwap(state, 2*seq-1) {
		for at := p.dropped.Load(); at < seq && !p.dropped.CompareAndSwap(at, seq); at = p.dropped.Load() {
		}
		return
	}
	p.time.Store(uint64(e.Time))
	p.address.Store(e.Address)
	p.size.Store(e.Size)
	p.handle.Store(e.Handle)
	p.about.Store(uint64(e.Took)<<16 | uint64(e.Tag)<<8 | uint64(e.Kind))
	p.state.Store(2 * seq)
}

func (r *ring) read(after uint64, max int) (events []Event, missed uint64) {
	if r == nil {
		return nil, 0
	}
	last := r.last.Load()
	if after > last {
		return nil, 0
	}
	seq := after + 1
	if count := uint64(len(r.places)); last > count && seq <= last-count {
		missed, seq = last-count+1-seq, last-count+1
	}
	for ; seq <= last && len(events) < max; seq++ {
		e, ok := r.at(seq)
		switch {
		case ok:
			events = append(events, e)
		case r.last.Load() < seq+uint64(len(r.places)) && !r.dropped(seq):
			return events, missed // it is being written
		case len(events) > 0:
			return events, missed // the next call tells that it was missed
		default:
			missed++
		}
	}
	return events, missed
}

// dropped tells whether an event will never be there.
func (r *ring) dropped(seq uint64) bool {
	return r.places[seq&uint64(len(r.places)-1)].dropped.Load() >= seq
}

// at is the event with a number, if it is there.
func (r *ring) at(seq uint64) (e Event, ok bool) {
	p := &r.places[seq&uint64(len(r.places)-1)]
	if p.state.Load() != 2*seq {
		return Event{}, false
	}
	about := p.about.Load()
	e = Event{
		Seq: seq, Time: time.Duration(p.time.Load()), Kind: EventKind(about), Tag: Tag(about >> 8),
		Address: p.address.Load(), Size: p.size.Load(), Handle: p.handle.Load(), Took: time.Duration(about >> 16),
	}
	return e, p.state.Load() == 2*seq
}

// A coarseClock is cheaper to read than the system's: it goes on in steps of a millisecond, as long as somebody reads it.
type coarseClock struct {
	origin time.Time
	at     atomic.Int64 // nanoseconds since origin, never 0
	asked  atomic.Bool  // since the last step
	awake  atomic.Bool  // the steps are made
}

var clock = coarseClock{origin: time.Now().Add(-time.Second)}

// now is nanoseconds since some moment.
func (c *coarseClock) now() int64 {
	if !c.asked.Load() {
		c.asked.Store(true)
		if c.awake.CompareAndSwap(false, true) {
			c.refresh()
			go c.run()
		}
	}
	return c.at.Load()
}

// refresh is now, exactly.
func (c *coarseClock) refresh() int64 {
	now := int64(time.Since(c.origin))
	for at := c.at.Load(); now > at; at = c.at.Load() {
		if c.at.CompareAndSwap(at, now) {
			return now
		}
	}
	return max(now, c.at.Load())
}

// idleSteps is after how many steps that nobody asked for the clock rests.
const idleSteps = 64

func (c *coarseClock) run() {
	for {
		for idle := 0; idle < idleSteps; idle++ {
			time.Sleep(time.Millisecond)
			c.refresh()
			if c.asked.Swap(false) {
				idle = 0
			}
		}
		c.awake.Store(false)
		if !c.asked.Load() || !c.awake.CompareAndSwap(false, true) {
			return
		}
	}
}
