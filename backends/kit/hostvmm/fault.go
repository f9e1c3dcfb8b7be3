package hostvmm

import "sync"

// A Fault makes a call of a driver function fail before it does anything.
type Fault struct {
	Function Function // "" means any function
	Skip     uint64   // how many matching calls go through first
	Result   Result   // what the failing call answers
	Sticky   bool     // all matching calls from then on fail, as on a lost device
}

func (f Fault) matches(function Function) bool {
	return f.Function == "" || f.Function == function
}

// A faultList holds the faults that are still to come. It is safe for concurrent
// use.
type faultList struct {
	mu      sync.Mutex
	pending []Fault
}

func (l *faultList) add(fault Fault) Result {
	known := fault.Function == "" || fault.Function.isKnown()
	if !known || fault.Result == Success {
		return ErrorInvalidValue
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(l.pending, fault)
	return Success
}

// next counts a call of a function and says how it must fail; Success lets it go
// through. Every fault counts for itself; of several that are due, the first one
// is used up, and the others wait for the next call.
func (l *faultList) next(function Function) Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	result := Success
	kept := l.pending[:0]
	for _, fault := range l.pending {
		matches := fault.matches(function)
		switch {
		case matches && fault.Skip > 0:
			fault.Skip--
		case matches && result == Success:
			result = fault.Result
			if !fault.Sticky {
				continue
			}
		}
		kept = append(kept, fault)
	}
	l.pending = kept
	return result
}
