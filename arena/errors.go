package arena

import (
	"errors"
	"fmt"
)

// What an arena refuses. errors.Is finds these in every error of this package;
// what a driver refused is a *vmm.Error.
var (
	ErrInvalidArgument = errors.New("invalid argument")
	ErrOverflow        = errors.New("size overflows when it is rounded up to the granule")
	ErrClosed          = errors.New("arena is closed")
	ErrExhausted       = errors.New("arena is exhausted")
	ErrNoActiveArena   = errors.New("no active arena")
	ErrBusy            = errors.New("called from inside a callback of an arena that has calls in flight")
	ErrInFlight        = errors.New("calls of the arena are still under way")
	ErrNotEmpty        = errors.New("the arena is not empty")
	ErrDeviceLost      = errors.New("the device is lost")
)

// An ExhaustedError says why an allocation found no room. It is an ErrExhausted.
// All figures are bytes.
type ExhaustedError struct {
	Size    int64      // what was asked for
	Rounded uint64     // the same, rounded up to the granule
	Offset  uint64     // where it would have begun, counted from the base
	Total   uint64     // what is reserved
	Slabs   *SlabStats // what the slabs have, in an arena with slabs
}

func (e *ExhaustedError) Error() string {
	text := fmt.Sprintf("allocation of %d bytes (%d rounded) at offset %d would exceed reserved range of %d bytes",
		e.Size, e.Rounded, e.Offset, e.Total)
	if e.Slabs != nil {
		text += fmt.Sprintf("; of %d bytes in slabs %d are free, the largest piece has %d", e.Slabs.Mapped, e.Slabs.Free, e.Slabs.Largest)
	}
	return text
}

// Is makes it an ErrExhausted.
func (e *ExhaustedError) Is(target error) bool { return target == ErrExhausted }

// A NotEmptyError says what an arena still has. It is an ErrNotEmpty.
type NotEmptyError struct {
	Live, Deferred, Quarantined uint64 // allocations; none where one is under way
}

func (e *NotEmptyError) Error() string {
	if e.Live+e.Deferred+e.Quarantined == 0 {
		return "the arena is not empty: an allocation or a free is under way"
	}
	return fmt.Sprintf("the arena is not empty: %d allocations are live, %d deferred, %d quarantined", e.Live, e.Deferred, e.Quarantined)
}

// Is makes it an ErrNotEmpty.
func (e *NotEmptyError) Is(target error) bool { return target == ErrNotEmpty }

// A CloseError says how much of a close failed. Unwrap is the first failure.
type CloseError struct {
	First error
	Rest  int // how many more there were
}

func (e *CloseError) Error() string {
	if e.Rest == 0 {
		return fmt.Sprintf("close: %v", e.First)
	}
	return fmt.Sprintf("close: %v (and %d more failures)", e.First, e.Rest)
}

func (e *CloseError) Unwrap() error { return e.First }

// failures keeps the first of several failures and counts the rest.
type failures struct {
	first error
	count int
}

func (f *failures) add(err error) {
	if err == nil {
		return
	}
	if f.first == nil {
		f.first = err
	}
	f.count++
}

func (f *failures) err() error {
	if f.first == nil {
		return nil
	}
	return &CloseError{First: f.first, Rest: f.count - 1}
}

// invalid is an ErrInvalidArgument with the reason.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalidArgument, fmt.Sprintf(format, args...))
}
