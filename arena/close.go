package arena

import (
	"cmp"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// An Allocation is one that CloseAndDrain hands over. Its receiver releases it.
type Allocation struct {
	VA     uint64 // its device address
	Size   uint64 // rounded up to the granule, in bytes
	Handle uint64 // the backend's handle
}

// An ending is what only a closing arena needs. The arena closes when its bump does. Its records are settled
// by one caller: the one that closed the bump, or after a refused drain the one that takes the token from kept.
type ending struct {
	idle chan struct{} // wakes the closer when a call that was in flight came back
	kept chan struct{} // holds a token while the records wait for the next call: after a Stop, or a refused drain
	over chan struct{} // closed when every record was settled

	returned atomic.Bool // the reservation was given back, or this is being done

	mu    sync.Mutex
	stuck []record // handles that are still mapped; guarded by mu
}

func (e *ending) init() {
	e.idle = make(chan struct{}, 1)
	e.kept = make(chan struct{}, 1)
	e.over = make(chan struct{})
}

// settled tells whether every record was released or handed over.
func (e *ending) settled() bool {
	select {
	case <-e.over:
		return true
	default:
		return false
	}
}

// wake tells the closer to look again.
func (e *ending) wake() {
	select {
	case e.idle <- struct{}{}:
	default:
	}
}

func (e *ending) quarantine(r record) {
	e.mu.Lock()
	e.stuck = append(e.stuck, r)
	e.mu.Unlock()
}

// Close ends the arena: it waits for the calls that began before, sleeping, retries what is
// quarantined, releases every live allocation in one pass that goes on past failures, and gives
// the addresses back unless a late free may still arrive or a handle is still mapped: then they are
// kept until each address that was live has been freed once, or until Release. A
// later Close succeeds and does nothing, except that it releases what a CloseAndDrainInto without
// room left. The arena is closed also after an error, which
// is a *CloseError, but for one: inside a callback of an arena that has
// calls in flight a Close would wait for itself; it is refused with ErrBusy and changes nothing.
func (a *Arena) Close() error {
	mine, err := a.beginClose()
	if err != nil || !mine {
		return err
	}
	var failed failures
	a.releaseLive(&failed)
	a.giveBackUnused(&failed)
	return failed.err()
}

// CloseAndDrain ends the arena like Close, but hands the live allocations over, a slab as one, in the
// order of their addresses. It fails with ErrClosed once they were released or handed over. A *CloseError
// beside the allocations is about something else: what is quarantined, or the addresses.
func (a *Arena) CloseAndDrain() ([]Allocation, error) {
	return a.CloseAndDrainInto(func(n int) ([]Allocation, error) { return make([]Allocation, n), nil })
}

// CloseAndDrainInto is CloseAndDrain into memory of the caller's: room is told how many
// allocations there are and returns a slice of that length for them. When it fails, which is
// then the error, the arena is closed and keeps the allocations: call again.
func (a *Arena) CloseAndDrainInto(room func(n int) ([]Allocation, error)) ([]Allocation, error) {
	mine, err := a.beginClose()
	if err != nil {
		return nil, err
	}
	if !mine {
		return nil, ErrClosed
	}
	drained, err := a.makeRoom(room)
	if err != nil {
		return nil, err
	}
	var failed failures
	a.settleEarlier(0, &failed)
	at := 0
	// What is handed over is still mapped. A record whose late free has arrived stays, and keeps the addresses until Release.
	a.takeRecords(func(c *counts) *uint64 { return &c.handedOver }, false, func(_ *shard, r record) {
		if r.birth&inSlabBit == 0 {
			drained[at] = Allocation{VA: a.address(r), Size: r.size, Handle: r.handle}
			at++
		}
	})
	for _, b := range a.slabs.takeAll() {
		drained[at] = Allocation{VA: b.start, Size: b.size, Handle: b.handle}
		at++
	}
	// A slab that only had what was deferred is gone by now.
	drained = drained[:at]
	slices.SortFunc(drained, func(x, y Allocation) int { return cmp.Compare(x.VA, y.VA) })
	close(a.end.over)
	a.giveBackUnused(&failed)
	return drained, failed.err()
}

// makeRoom gets room for what is live. Unless it succeeds, also when room panics, the arena keeps its records.
func (a *Arena) makeRoom(room func(n int) ([]Allocation, error)) (drained []Allocation, err error) {
	made := false
	defer func() {
		if !made {
			a.end.kept <- struct{}{}
		}
	}()
	n := int(a.LiveHandles())
	drained, err = room(n)
	if err == nil && len(drained) != n {
		err = invalid("room for %d allocations, expected %d", len(drained), n)
	}
	made = err == nil
	return drained, err
}

// Release closes the arena if it is open, retries what is quarantined, and gives its addresses
// back unless a handle is still mapped there: a free that arrives later is unknown to this arena, and
// may meet somebody else's memory. An error is a *CloseError, or ErrBusy like that of Close.
// It can be repeated after a failure and does nothing after success.
func (a *Arena) Release() error {
	mine, err := a.beginClose()
	if err != nil {
		return err
	}
	if !mine {
		if mine, err = a.awaitSettled(); err != nil {
			return err
		}
	}
	var failed failures
	if mine {
		a.releaseLive(&failed)
	} else {
		a.settleEarlier(0, &failed)
	}
	a.forgetRecords()
	a.giveBackUnused(&failed)
	return failed.err()
}

// beginClose closes the arena. mine tells whether the caller is the one who settles its records.
func (a *Arena) beginClose() (mine bool, err error) {
	first, admitted := a.shut(func() bool { return a.quiet() || !insideCallback() })
	if !admitted {
		return false, fmt.Errorf("close: %w", ErrBusy)
	}
	if !first {
		if !a.takeKept() {
			return false, nil
		}
		// After a Stop there may be calls that are still under way.
		if !a.quiet() && insideCallback() {
			a.end.kept <- struct{}{}
			return false, fmt.Errorf("close: %w", ErrBusy)
		}
	}
	a.awaitQuiet()
	return true, nil
}

// shut ends what the arena serves, if admit allows it. first tells whether it was this call that did.
func (a *Arena) shut(admit func() bool) (first, admitted bool) {
	first, admitted = a.bump.close(admit)
	if !first {
		return false, admitted
	}
	for i := range a.shards {
		s := &a.shards[i]
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
	}
	a.note(EventClosed, Event{})
	return true, true
}

// takeKept tells whether the records wait for somebody who settles them, who is the caller then.
func (a *Arena) takeKept() bool {
	select {
	case <-a.end.kept:
		return true
	default:
		return false
	}
}

// awaitQuiet waits for the calls that began before the arena was shut. Only the caller who settles the records may.
func (a *Arena) awaitQuiet() {
	for !a.quiet() {
		<-a.end.idle
	}
}

// awaitSettled waits for the call that settles the records, and takes their settling over when
// that is a drain that is refused, or a Stop.
func (a *Arena) awaitSettled() (mine bool, err error) {
	if !a.end.settled() && insideCallback() {
		return false, fmt.Errorf("release: %w", ErrBusy)
	}
	select {
	case <-a.end.over:
		return false, nil
	case <-a.end.kept:
		a.awaitQuiet()
		return true, nil
	}
}

// take returns the records that are still to be settled and marks them as settled, which counts them
// in one of the shard's counters. Those whose late free has arrived are forgotten if prune says so.
func (s *shard) take(counter *uint64, prune bool) []record {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := make([]record, 0, s.counts.live)
	freed := false
	for i := range s.table.places {
		r := &s.table.places[i]
		if r.key == 0 || r.key&markSettled != 0 {
			continue
		}
		freed = freed || r.key&markFreed != 0
		r.key |= markSettled
		taken = append(taken, *r)
	}
	if freed && prune {
		s.table.prune()
	}
	*counter += uint64(len(taken))
	s.counts.live = 0
	s.counts.mapped = 0
	return taken
}

// takeRecords is take for a whole arena, one shard after the other.
func (a *Arena) takeRecords(counter func(*counts) *uint64, prune bool, each func(s *shard, r record)) {
	for i := range a.shards {
		s := &a.shards[i]
		for _, r := range s.take(counter(&s.counts), prune) {
			a.shrink(r)
			each(s, r)
		}
	}
}

// freeLate notes a free that arrived after close, of the record at place i. It reports whether no
// record is left in the shard. found is false for a second one. The caller holds s.mu.
func (s *shard) freeLate(i int) (found, last bool) {
	r := &s.table.places[i]
	if r.key&markFreed != 0 {
		return false, false
	}
	s.counts.lateFrees++
	r.key |= markFreed
	if r.key&markSettled != 0 {
		s.table.remove(i)
	}
	return true, s.table.count == 0
}

// releaseLive releases what is quarantined and what is live, which settles the records.
func (a *Arena) releaseLive(failed *failures) {
	a.settleEarlier(a.Live(), failed)
	a.takeRecords(func(c *counts) *uint64 { return &c.released }, true, func(s *shard, r record) {
		failed.add(a.release(s, r))
	})
	a.releaseSlabs(failed)
	close(a.end.over)
}

// takeQuarantined takes what could not be released before.
func (a *Arena) takeQuarantined() []record {
	a.end.mu.Lock()
	defer a.end.mu.Unlock()
	stuck := a.end.stuck
	a.end.stuck = nil
	return stuck
}

// retry releases what was quarantined. What still cannot be released is quarantined again.
func (a *Arena) retry(stuck []record, failed *failures) {
	for _, r := range stuck {
		s := a.shard(hash(r.key &^ markBits))
		s.mu.Lock()
		s.counts.quarantined--
		s.counts.released++
		s.settling++
		s.mu.Unlock()
		failed.add(a.release(s, r))
		s.settled.Add(1)
	}
}

// forgetRecords makes every later free an unknown one.
func (a *Arena) forgetRecords() {
	for i := range a.shards {
		s := &a.shards[i]
		s.mu.Lock()
		s.table = table{}
		s.mu.Unlock()
	}
}

// unused tells whether no late free can arrive and nothing is mapped or on its way to be unmapped.
func (a *Arena) unused() bool {
	for i := range a.shards {
		s := &a.shards[i]
		s.mu.Lock()
		unused := s.table.count == 0 && s.counts.quarantined == 0 && s.settling == s.settled.Load()
		s.mu.Unlock()
		if !unused {
			return false
		}
	}
	return true
}

// forget gives the addresses back when the last late free has arrived. What
// fails here is tried again, and reported, by Release.
func (a *Arena) forget() {
	if a.end.settled() {
		a.giveBackUnused(&failures{})
	}
}

// giveBackUnused gives the reservation back, once, if it is unused. That the device is lost is a failure in any case.
func (a *Arena) giveBackUnused(failed *failures) {
	if a.lost.Load() == nil && !a.unused() || !a.end.returned.CompareAndSwap(false, true) {
		return
	}
	if err := a.callUnreserve(); err != nil {
		a.noteLoss(err)
		a.end.returned.Store(false)
		failed.add(fmt.Errorf("give %d bytes of addresses at %#x back: %w", a.total, a.base, err))
	}
}

// address is where a record's memory is.
func (a *Arena) address(r record) uint64 { return a.base + (r.key&^markBits-1)<<a.shift }

// insideCallback tells whether the calling goroutine is inside a call of any arena to the
// caller's code.
func insideCallback() bool { return inside(callbacks) }

// inside tells whether the calling goroutine is inside one of some functions. A goroutine has no identity in Go, but it has a
// stack; this also sees through callbacks that went through C. It takes microseconds and is asked on close, and out of memory, only.
func inside(functions []string) bool {
	pcs := make([]uintptr, 64)
	for skip := 1; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs)
		frames := runtime.CallersFrames(pcs[:n])
		for more := n > 0; more; {
			var frame runtime.Frame
			frame, more = frames.Next()
			if slices.Contains(functions, frame.Function) {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}

// callbacks are the functions through which an arena calls code that may call it back.
var callbacks = []string{
	reflect.TypeFor[Arena]().PkgPath() + ".(*Arena).callAllocate",
	reflect.TypeFor[Arena]().PkgPath() + ".(*Arena).callRelease",
	reflect.TypeFor[Arena]().PkgPath() + ".(*Arena).callAttach",
	reflect.TypeFor[Arena]().PkgPath() + ".(*Arena).callDetach",
	reflect.TypeFor[Arena]().PkgPath() + ".(*Arena).callDestroy",
	reflect.TypeFor[Arena]().PkgPath() + ".(*Arena).callGrant",
	reflect.TypeFor[Arena]().PkgPath() + ".callShortage",
	reflect.TypeFor[Arena]().PkgPath() + ".(*Arena).makeRoom",
}

var shortageCallbacks = []string{reflect.TypeFor[Arena]().PkgPath() + ".callShortage"}
