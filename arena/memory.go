package arena

import (
	"errors"
	"fmt"

	"github.com/arenagen/arenagen/arena/vmm"
)

// A keeper is a backend whose handles can be kept unmapped and reached by other devices. *vmm.Device is one.
type keeper interface {
	// Attach puts the memory of a handle behind addresses. It fails like Backend.Allocate; the handle stays the caller's.
	Attach(va, size, handle uint64) error
	// Detach unmaps it and keeps the handle. When it fails, which never is with vmm.ErrQuarantined, it is still mapped.
	Detach(va, size uint64) error
	// Destroy releases a handle that is not mapped.
	Destroy(handle uint64) error
	// Grant lets another device reach what is mapped.
	Grant(va, size uint64, device int) error
}

var _ keeper = (*vmm.Device)(nil)

// place puts memory behind addresses: that of a handle in the cache, or new memory. Other devices reach it too.
func (a *Arena) place(va, size uint64, kind EventKind) (handle uint64, err error) {
	began := a.start()
	if kept, ok := a.cache.take(size); ok {
		kind, handle, err = EventReused, kept, a.attach(va, size, kept)
	} else {
		handle, err = a.callAllocate(va, size)
	}
	if err == nil && a.peers.Load() != nil {
		err = a.grantNew(va, size, handle)
	}
	if began != 0 && err == nil {
		a.note(kind, Event{Address: va, Size: size, Handle: handle, Took: since(began)})
	}
	return handle, err
}

// obtain is place for an allocation, which tries again when the device has no memory left.
func (a *Arena) obtain(va, size uint64) (handle uint64, err error) {
	if a.plain() {
		handle, err = a.callAllocate(va, size)
	} else {
		handle, err = a.place(va, size, EventMapped)
	}
	if err == nil {
		return handle, nil
	}
	return a.obtainAgain(va, size, handle, err)
}

// plain tells whether memory comes from the driver and goes back to it, and nobody is told.
func (a *Arena) plain() bool { return !a.special.Load() }

func (a *Arena) obtainAgain(va, size, handle uint64, err error) (uint64, error) {
	a.ahead.short.Add(1)
	defer a.ahead.short.Add(-1)
	for attempt := 1; err != nil && errors.Is(err, vmm.ClassOutOfMemory) && !errors.Is(err, vmm.ErrQuarantined); attempt++ {
		a.note(EventOutOfMemory, Event{Address: va, Size: size})
		released, failed := a.trim(0)
		err = joined(err, failed)
		if released == 0 {
			shortage := a.shortageOf(size, attempt)
			if again, panicked := a.askAgain(shortage); !again {
				return handle, &OutOfMemoryError{Shortage: shortage, Err: joined(err, panicked)}
			}
		}
		handle, err = a.place(va, size, EventMapped)
	}
	return handle, err
}

// attach puts the memory of a handle behind addresses that nothing else refers to, or releases it.
func (a *Arena) attach(va, size, handle uint64) error {
	err := a.callAttach(va, size, handle)
	if err == nil || errors.Is(err, vmm.ErrQuarantined) {
		return err
	}
	a.note(EventTrimmed, Event{Size: size, Handle: handle})
	return joined(err, a.callDestroy(handle))
}

// discard takes memory away from addresses. Its handle goes into the cache, if that takes it, or back to the driver.
func (a *Arena) discard(r record) error {
	if a.plain() {
		return a.callRelease(a.address(r), r.size, r.handle)
	}
	va, began := a.address(r), a.start()
	if began != 0 {
		a.note(EventUnmapping, Event{Address: va, Size: r.size, Handle: r.handle})
	}
	kept := false
	var err error
	if a.keeps(r) {
		err = a.callDetach(va, r.size)
		a.noteLoss(err)
		kept = err == nil
	}
	if !kept {
		// Also after a failed unmap.
		err = joined(err, a.callRelease(va, r.size, r.handle))
		a.shared.remove(r.handle)
	}
	if err != nil && (errors.Is(err, vmm.ErrQuarantined) || errors.Is(err, ErrDeviceLost)) {
		return err
	}
	if began != 0 {
		a.note(EventUnmapped, Event{Address: va, Size: r.size, Handle: r.handle, Took: since(began)})
	}
	if kept {
		a.note(EventCached, Event{Address: va, Size: r.size, Handle: r.handle})
		err = a.evict(a.cache.put(r.size, r.handle))
	}
	a.holes.give(va, r.size)
	return err
}

// keeps tells whether the handle of a record goes into the cache. One that was shared does not: another process may have it.
func (a *Arena) keeps(r record) bool {
	return a.cache.budget >= r.size && a.lost.Load() == nil && r.birth&(importedBit|trimmedBit) == 0 && !a.Closed() && !a.shared.has(r.handle)
}

// evict gives handles of the cache back to the driver.
func (a *Arena) evict(handles []cached) (failed error) {
	for _, c := range handles {
		failed = joined(failed, a.callDestroy(c.handle))
		a.shared.remove(c.handle)
		a.note(EventTrimmed, Event{Size: c.size, Handle: c.handle})
	}
	if failed != nil {
		a.noteLoss(failed)
	}
	return failed
}

// Trim gives memory back that the arena holds and no allocation uses, until at most keep bytes of it are left: cached
// handles, the longest unused first, and then what was mapped ahead. It tells how many bytes went. An error is what the driver failed; the
// rest was tried all the same.
func (a *Arena) Trim(keep uint64) (released uint64, err error) {
	f, ok := a.admit()
	if !ok {
		return 0, ErrClosed
	}
	defer a.land(f)
	return a.trim(keep)
}

func (a *Arena) trim(keep uint64) (released uint64, err error) {
	ahead := a.slabs.aheadBytes()
	evicted := a.cache.shrink(keep - min(keep, ahead))
	for _, c := range evicted {
		released += c.size
	}
	err = a.evict(evicted)
	// One that is being made is not among them yet.
	if a.ahead.budget <= keep || !a.ahead.lock() {
		return released, err
	}
	defer a.ahead.mu.Unlock()
	for _, b := range a.slabs.takeAhead(keep) {
		released += b.size
		b.birth |= trimmedBit
		err = joined(err, a.discardSlab(b))
	}
	return released, err
}

// A Shortage is what an arena tells when the device has no memory left for a request. All but Attempt are bytes.
type Shortage struct {
	Requested uint64 // what one handle needs
	Mapped    uint64 // the live allocations of this arena
	Cached    uint64 // what this arena holds beside them
	Free      uint64 // of the device, when the driver tells
	Capacity  uint64 // of the device, when the driver tells
	Attempt   int    // how often it was tried
}

// An OutOfMemoryError is a Shortage that nothing helped against. Unwrap is the driver's answer.
type OutOfMemoryError struct {
	Shortage
	Err error
}

func (e *OutOfMemoryError) Error() string {
	return fmt.Sprintf("no memory for %d bytes after %d attempts: this arena has %d bytes mapped and %d cached, the device has %d of %d free: %v",
		e.Requested, e.Attempt, e.Mapped, e.Cached, e.Free, e.Capacity, e.Err)
}

func (e *OutOfMemoryError) Unwrap() error { return e.Err }

// OnOutOfMemory sets what is called, outside all locks, when the device has no memory left for an allocation of this arena and what the
// arena held beside its allocations is given back already. It may free something, here or elsewhere, and answers whether it is
// worth another try; it is asked again as long as it says so. An allocation that it makes itself does not ask again. nil is no callback.
func (a *Arena) OnOutOfMemory(callback func(Shortage) (again bool)) {
	if callback == nil {
		a.shortage.Store(nil)
		return
	}
	a.shortage.Store(&callback)
}

func (a *Arena) shortageOf(size uint64, attempt int) Shortage {
	s := Shortage{Requested: size, Mapped: a.Mapped(), Cached: a.CacheStats().Bytes + a.slabs.aheadBytes(), Attempt: attempt}
	if device, ok := a.backend.(interface {
		MemoryInfo() (free, total uint64, err error)
	}); ok && a.lost.Load() == nil {
		// A driver that does not tell has failed something else already.
		s.Free, s.Capacity, _ = device.MemoryInfo()
	}
	return s
}

// joined is both errors, of which either may be nil.
func joined(first, second error) error {
	switch {
	case second == nil:
		return first
	case first == nil:
		return second
	default:
		return errors.Join(first, second)
	}
}
