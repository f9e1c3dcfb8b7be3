package hostvmm

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// A Result is what every driver function answers. The numbers are part of the
// driver's interface and never change.
type Result int32

// The answers of the driver.
const (
	Success              Result = 0
	ErrorInvalidValue    Result = 1   // an argument is out of its range, or names nothing that exists
	ErrorOutOfMemory     Result = 2   // no physical memory, addresses or kernel mappings are left
	ErrorNoDevice        Result = 100 // there is no device at all
	ErrorInvalidDevice   Result = 101 // the ordinal names no device
	ErrorOperatingSystem Result = 304 // the kernel refused a call for another reason
	ErrorDeviceLost      Result = 700 // the device failed for good
	ErrorNotPermitted    Result = 800 // the kernel does not allow this to the process
	ErrorNotSupported    Result = 801 // the driver cannot do this
)

var resultNames = map[Result]string{
	Success:              "HOSTVMM_SUCCESS",
	ErrorInvalidValue:    "HOSTVMM_ERROR_INVALID_VALUE",
	ErrorOutOfMemory:     "HOSTVMM_ERROR_OUT_OF_MEMORY",
	ErrorNoDevice:        "HOSTVMM_ERROR_NO_DEVICE",
	ErrorInvalidDevice:   "HOSTVMM_ERROR_INVALID_DEVICE",
	ErrorOperatingSystem: "HOSTVMM_ERROR_OPERATING_SYSTEM",
	ErrorDeviceLost:      "HOSTVMM_ERROR_DEVICE_LOST",
	ErrorNotPermitted:    "HOSTVMM_ERROR_NOT_PERMITTED",
	ErrorNotSupported:    "HOSTVMM_ERROR_NOT_SUPPORTED",
}

// String returns the driver's own name of the result, for example
// "HOSTVMM_ERROR_OUT_OF_MEMORY", or "HOSTVMM_RESULT(n)" for a number without one.
func (r Result) String() string {
	if name, ok := resultNames[r]; ok {
		return name
	}
	return fmt.Sprintf("HOSTVMM_RESULT(%d)", int32(r))
}

// resultOf says what a refusal of the kernel, or a file that is not a driver's, means to the driver's caller.
func resultOf(err error) Result {
	switch {
	case err == nil:
		return Success
	case errors.Is(err, errNoSealedFile):
		return ErrorInvalidValue
	case isAny(err, unix.ENOMEM, unix.ENOSPC, unix.EFBIG, unix.EAGAIN):
		return ErrorOutOfMemory
	case isAny(err, unix.EPERM, unix.EACCES):
		return ErrorNotPermitted
	default:
		return ErrorOperatingSystem
	}
}

func isAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

func firstFailure(first, second Result) Result {
	if first != Success {
		return first
	}
	return second
}
