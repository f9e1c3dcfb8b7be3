package arena

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/arenagen/arenagen/arena/vmm"
)

// An ahead maps slabs before they are needed, in a goroutine that is there as long as some are missing.
type ahead struct {
	budget  uint64 // bytes that may be mapped and not used yet
	running atomic.Bool

	short atomic.Int32 // allocations that found no memory: until they have some nothing is made ahead

	mu sync.Mutex // held while a slab is made ahead, or such slabs are taken away; an allocation takes it only when there is no memory
}

// lock has no slab made ahead until mu is unlocked. It waits for one that is being made, but not inside a callback: that may be inside
// this very call, and ok is false then.
func (h *ahead) lock() (ok bool) {
	if h.mu.TryLock() {
		return true
	}
	if insideCallback() {
		return false
	}
	h.mu.Lock()
	return true
}

// prefetch has slabs mapped ahead if some are missing.
func (a *Arena) prefetch() {
	if a.missesAhead() && a.ahead.running.CompareAndSwap(false, true) {
		go a.mapAhead()
	}
}

// missesAhead tells whether another slab fits into the budget.
func (a *Arena) missesAhead() bool {
	return a.ahead.short.Load() == 0 && a.slabs.aheadBytes()+a.slabs.size <= a.ahead.budget
}

// mapAhead maps slabs until none is missing, or one cannot be made. The next allocation that begins a slab asks again.
func (a *Arena) mapAhead() {
	for {
		going := true
		for going && a.missesAhead() {
			going = a.mapOneAhead()
		}
		a.ahead.running.Store(false)
		// An allocation that used one meanwhile has seen it running.
		if !going || !a.missesAhead() || !a.ahead.running.CompareAndSwap(false, true) {
			return
		}
	}
}

// mapOneAhead makes a slab. What it fails is no one's failure: the allocation that needs the slab meets it itself.
func (a *Arena) mapOneAhead() bool {
	a.ahead.mu.Lock()
	defer a.ahead.mu.Unlock()
	f, ok := a.admit()
	if !ok {
		return false
	}
	defer a.land(f)
	va, length, err := a.slabRange(f, int64(a.slabs.size), a.slabs.size)
	if err != nil {
		return false
	}
	made, told := slab{start: va, size: length, birth: a.birthOf(0), ahead: true}, a.audience()
	if made.handle, err = a.place(va, length, EventPrefetched); err == nil {
		err = a.addSlab(made, 0, told)
	}
	switch {
	case err == nil:
	case errors.Is(err, vmm.ErrQuarantined):
		_ = a.record(a.recordOf(made), err)
	default:
		a.noteLoss(err)
		a.slabs.putSpare(made)
	}
	return err == nil
}
