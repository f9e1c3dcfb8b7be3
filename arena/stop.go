package arena

import (
	"fmt"
	"time"
)

// Stop closes the arena and settles nothing: it keeps its allocations for Close, CloseAndDrain or
// Release, and no allocation and no free reaches the backend any more. It waits so long for the calls that began
// before, and fails with ErrInFlight when some are still under way then; the arena is closed all the same.
// Inside a callback it does not wait. It is for a host whose callbacks are about to go away.
func (a *Arena) Stop(timeout time.Duration) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	first, _ := a.shut(func() bool { return true })
	switch {
	case first || a.takeKept():
	case a.end.settled():
		return nil
	case insideCallback():
		return inFlight()
	default: // another call settles the records
		select {
		case <-a.end.over:
			return nil
		case <-a.end.kept:
		case <-timer.C:
			return inFlight()
		}
	}
	defer func() { a.end.kept <- struct{}{} }()
	for !a.quiet() {
		if insideCallback() {
			return inFlight()
		}
		select {
		case <-a.end.idle:
		case <-timer.C:
			return inFlight()
		}
	}
	return nil
}

func inFlight() error { return fmt.Errorf("stop: %w", ErrInFlight) }
