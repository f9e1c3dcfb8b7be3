package arena

import (
	"fmt"

	"github.com/arenagen/arenagen/arena/vmm"
)

// A Backend gives an arena its addresses and puts memory behind them. Its methods
// are called from any number of threads at once and may block: the arena holds
// no lock then. They may call the arena back, except that a close of an arena
// with calls in flight is refused there. *vmm.Device is a Backend.
type Backend interface {
	// Granule is the granularity that the backend prefers or the smallest that
	// it takes, in bytes, or 0 if it has none of its own.
	Granule(kind vmm.Granularity) uint64
	// Reserve reserves size bytes, a multiple of granule, and returns the first address.
	// A hint that is not 0 is the address wished for.
	Reserve(size, granule, hint uint64) (base uint64, err error)
	// Unreserve gives back what Reserve gave, once nothing is allocated in it.
	Unreserve(base, size uint64) error
	// Allocate puts memory behind [va, va+size) and returns a handle of its choice.
	// After an error nothing is behind it, unless the error wraps vmm.ErrQuarantined:
	// then the handle is still there and Release is tried when the arena closes.
	Allocate(va, size uint64) (handle uint64, err error)
	// Release takes the memory away again. The allocation is gone also
	// after an error, unless that wraps vmm.ErrQuarantined.
	Release(va, size, handle uint64) error
}

var _ Backend = (*vmm.Device)(nil)

// Callbacks is a Backend over the caller's own functions, at addresses that the
// caller brings: the bases of several such arenas may coincide.
type Callbacks struct {
	Base uint64 // the first address

	// OnAllocate puts memory behind [va, va+size) and returns a handle. Not nil.
	OnAllocate func(va, size uint64) (handle uint64, err error)
	// OnRelease takes it away again. Not nil.
	OnRelease func(va, size, handle uint64) error
}

var _ Backend = (*Callbacks)(nil)

// Granule is 0: the caller decides.
func (c *Callbacks) Granule(vmm.Granularity) uint64 { return 0 }

// Reserve returns the base that the caller brought.
func (c *Callbacks) Reserve(_, _, _ uint64) (uint64, error) {
	if c.OnAllocate == nil || c.OnRelease == nil {
		return 0, invalid("OnAllocate and OnRelease must both be set")
	}
	return c.Base, nil
}

// Unreserve does nothing: the addresses are the caller's.
func (c *Callbacks) Unreserve(_, _ uint64) error { return nil }

// Allocate calls OnAllocate.
func (c *Callbacks) Allocate(va, size uint64) (uint64, error) { return c.OnAllocate(va, size) }

// Release calls OnRelease.
func (c *Callbacks) Release(va, size, handle uint64) error { return c.OnRelease(va, size, handle) }

// calm is a backend whose calls come back also when they panic. A device of the driver contract is
// generated code, which does not; what callers bring may.
func calm(backend Backend) Backend {
	if _, generated := backend.(*vmm.Device); generated {
		return backend
	}
	return guarded{backend}
}

// A guarded backend answers a PanicError where the one below panics, so that the call ends like any
// other and the arena stays whole.
type guarded struct{ Backend }

func (g guarded) Allocate(va, size uint64) (handle uint64, err error) {
	defer caught(&err, "the backend")
	return g.Backend.Allocate(va, size)
}

func (g guarded) Release(va, size, handle uint64) (err error) {
	defer caught(&err, "the backend")
	return g.Backend.Release(va, size, handle)
}

func (g guarded) Unreserve(base, size uint64) (err error) {
	defer caught(&err, "the backend")
	return g.Backend.Unreserve(base, size)
}

func caught(err *error, who string) {
	if value := recover(); value != nil {
		*err = &PanicError{Value: value, who: who}
	}
}

// A PanicError is a panic of a backend, or of what OnOutOfMemory was given, caught so that the arena stays whole.
type PanicError struct {
	Value any
	who   string
}

func (e *PanicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.who, e.Value) }
