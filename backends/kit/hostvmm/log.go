package hostvmm

import (
	"slices"
	"sync"
)

// A Function is the name of one of the driver's functions.
type Function string

// The functions of the driver.
const (
	DeviceGetCount               Function = "DeviceGetCount"
	MemGetAllocationGranularity  Function = "MemGetAllocationGranularity"
	MemAddressReserve            Function = "MemAddressReserve"
	MemAddressFree               Function = "MemAddressFree"
	MemCreate                    Function = "MemCreate"
	MemRelease                   Function = "MemRelease"
	MemMap                       Function = "MemMap"
	MemUnmap                     Function = "MemUnmap"
	MemSetAccess                 Function = "MemSetAccess"
	MemGetInfo                   Function = "MemGetInfo"
	MemExportToShareableHandle   Function = "MemExportToShareableHandle"
	MemImportFromShareableHandle Function = "MemImportFromShareableHandle"
)

func (f Function) isKnown() bool {
	switch f {
	case DeviceGetCount, MemGetAllocationGranularity, MemAddressReserve, MemAddressFree,
		MemCreate, MemRelease, MemMap, MemUnmap, MemSetAccess, MemGetInfo, MemExportToShareableHandle,
		MemImportFromShareableHandle:
		return true
	default:
		return false
	}
}

const maxArguments = 5

// A Call is one call of a driver function that has returned.
type Call struct {
	Sequence uint64 // counts the calls of the driver from 0, in the order in which they returned
	Function Function
	// Arguments are in the order of the function's parameters; those that it does
	// not have are 0. An out-parameter is what was stored, or 0 after a failure. A
	// negative number is sign-extended.
	Arguments [maxArguments]uint64
	Result    Result
}

// A callLog remembers the latest calls. It is safe for concurrent use.
type callLog struct {
	capacity uint64
	mu       sync.Mutex
	next     uint64 // the sequence number of the next call
	ring     []Call // the call with sequence number n is at n % capacity
}

func (l *callLog) add(function Function, result Result, arguments ...uint64) {
	if l.capacity == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	call := Call{Sequence: l.next, Function: function, Result: result}
	copy(call.Arguments[:], arguments)
	if l.next < l.capacity {
		l.ring = append(l.ring, call)
	} else {
		l.ring[l.next%l.capacity] = call
	}
	l.next++
}

// calls returns what is remembered, oldest first.
func (l *callLog) calls() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next <= l.capacity {
		return slices.Clone(l.ring)
	}
	oldest := l.next % l.capacity
	return slices.Concat(l.ring[oldest:], l.ring[:oldest])
}
