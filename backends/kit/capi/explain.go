package capi

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
	"github.com/arenagen/arenagen/backends/kit/options"
)

var errInternal = errors.New("a fault in the library, which it survived")

var errBufferTooSmall = errors.New("buffer too small")

// A BufferTooSmallError says how many entries a buffer needs.
type BufferTooSmallError struct {
	What   string // what the entries are
	Needed int
	Given  uintptr
}

func (e *BufferTooSmallError) Error() string {
	return fmt.Sprintf("%v: %d %s, room for %d", errBufferTooSmall, e.Needed, e.What, e.Given)
}

// Is makes it an errBufferTooSmall.
func (e *BufferTooSmallError) Is(target error) bool { return target == errBufferTooSmall }

// A HandleError is a handle that names no arena, or one that was released.
type HandleError struct {
	Handle Arena
}

func (e *HandleError) Error() string {
	return fmt.Sprintf("%#x names no arena, or one that was released", uint64(e.Handle))
}

// A CallbackError is what one of the caller's functions answered.
type CallbackError struct {
	Callback string // allocate or release
	Code     int32
	VA, Size uint64
}

func (e *CallbackError) Error() string {
	return fmt.Sprintf("the %s callback answered %d for %d bytes at %#x, expected 0", e.Callback, e.Code, e.Size, e.VA)
}

func callbackResult(callback string, result int32, va, size uint64) error {
	if result == 0 {
		return nil
	}
	return &CallbackError{Callback: callback, Code: result, VA: va, Size: size}
}

// A NoBackendError says why none of a library's backends has a device that can be used. Of their reasons the one
// that is furthest from "there is no such driver" counts: a driver that is too old, then no device.
type NoBackendError struct {
	Refusals []error
}

func (e *NoBackendError) Error() string {
	reasons := make([]string, len(e.Refusals))
	for i, err := range e.Refusals {
		reasons[i] = err.Error()
	}
	return "no backend has a device that can be used: " + strings.Join(reasons, "; ")
}

// Unwrap are the reasons.
func (e *NoBackendError) Unwrap() []error { return e.Refusals }

func isBusy(err error) bool { return errors.Is(err, arena.ErrBusy) }

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", arena.ErrInvalidArgument, fmt.Sprintf(format, args...))
}

// statuses pairs what errors.Is finds with the status that says it. The first match counts: an
// arena's own reasons come before the driver's.
var statuses = []struct {
	target error
	status Status
}{
	{errInternal, StatusInternal},
	{arena.ErrDeviceLost, StatusDeviceLost},
	{arena.ErrBusy, StatusBusy},
	{arena.ErrInFlight, StatusBusy},
	{arena.ErrNotEmpty, StatusNotEmpty},
	{arena.ErrNotMapped, StatusNotMapped},
	{arena.ErrClosed, StatusClosed},
	{arena.ErrExhausted, StatusExhausted},
	{arena.ErrOverflow, StatusOverflow},
	{arena.ErrNoActiveArena, StatusNoActiveArena},
	{errBufferTooSmall, StatusBufferTooSmall},
	{arena.ErrInvalidArgument, StatusInvalidArgument},
	{vmm.ClassDeviceLost, StatusDeviceLost},
	{vmm.ClassOutOfMemory, StatusOutOfMemory},
	{vmm.ClassNotSupported, StatusNotSupported},
	{vmm.ClassNotPermitted, StatusNotPermitted},
	{vmm.ClassTooOld, StatusDriverTooOld},
	{vmm.ClassNoDevice, StatusNoDevice},
	{vmm.ClassUnavailable, StatusUnavailable},
}

// Explain turns an error into what arenagen_last_error tells about it.
func Explain(operation string, err error) Error {
	e := Error{Status: statusOf(err)}
	fill(e.Operation[:], operation)
	fill(e.Text[:], err.Error())
	if driver := (*vmm.Error)(nil); errors.As(err, &driver) {
		e.DriverCode, e.Address, e.Size = driver.Code, driver.VA, driver.Size
		fill(e.DriverName[:], driver.Name)
	}
	if callback := (*CallbackError)(nil); errors.As(err, &callback) {
		e.DriverCode, e.Address, e.Size = int64(callback.Code), callback.VA, callback.Size
	}
	if exhausted := (*arena.ExhaustedError)(nil); errors.As(err, &exhausted) {
		e.Size = exhausted.Rounded
	}
	return e
}

func statusOf(err error) Status {
	for _, s := range statuses {
		if errors.Is(err, s.target) {
			return s.status
		}
	}
	if handle := (*HandleError)(nil); errors.As(err, &handle) {
		return StatusInvalidHandle
	}
	if callback := (*CallbackError)(nil); errors.As(err, &callback) {
		return StatusCallback
	}
	if option := (*options.Error)(nil); errors.As(err, &option) {
		return StatusInvalidArgument
	}
	if driver := (*vmm.Error)(nil); errors.As(err, &driver) {
		// What a driver refuses when it is opened came from the caller; later it comes from us.
		if driver.Op == vmm.OpOpen && driver.Class == vmm.ClassInvalidArgument {
			return StatusInvalidArgument
		}
		return StatusDriver
	}
	return StatusInternal
}

// fill copies text and a zero into an array, and cuts between characters what does not fit.
func fill(array []byte, text string) {
	n := copy(array[:len(array)-1], text)
	for n < len(text) && n > 0 && text[n]&0xc0 == 0x80 {
		n--
	}
	clear(array[n:])
}

// maxText bounds the texts that callers give.
const maxText = 64 << 10

// textAt reads a zero-terminated text of the caller's; nil is "".
func textAt(name string, p *byte) (string, error) {
	if p == nil {
		return "", nil
	}
	for n := range maxText {
		if *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) == 0 {
			return string(unsafe.Slice(p, n)), nil
		}
	}
	return "", invalid("%s must be shorter than %d bytes", name, maxText)
}
