package arena

import "sync"

// Holes are addresses that memory was taken away from, in an arena that uses them again.
type holes struct {
	mu   sync.Mutex
	free ranges // guarded by mu; of addresses
}

// give adds addresses.
func (h *holes) give(va, size uint64) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.free.merge(va, size, 0, va+size+1)
}

// lock has none of them given out until it is unlocked. No call to the backend is made meanwhile.
func (h *holes) lock() (unlock func()) {
	if h == nil {
		return func() {}
	}
	h.mu.Lock()
	return h.mu.Unlock
}

// forget drops all of them. The caller has locked them.
func (h *holes) forget() {
	if h != nil {
		h.free = ranges{}
	}
}

// reuse takes the lowest addresses out that have room for so many bytes.
func (a *Arena) reuse(size uint64) (va uint64, ok bool) {
	h := a.holes
	if h == nil {
		return 0, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if va, ok = h.free.carve(size, 1, 1); ok {
		// What is mapped here from now on is not what was mapped before.
		a.epoch.Add(1)
	}
	return va, ok
}
