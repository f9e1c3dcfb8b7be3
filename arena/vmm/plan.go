package vmm

import (
	"errors"
	"fmt"
)

// A plan is what is done to put memory behind addresses, in order. It is data: doing it stops at the first
// failure and undoes what was done in reverse, and undoing all of it takes the memory away again.
type plan []step

// A step is one operation of a plan.
type step struct {
	op     Op
	device int // of OpGrant: the ordinal of the device that gets access
}

// A placement is what a plan is done to.
type placement struct {
	va, size uint64
	handle   uint64
	kind     Properties // of a handle that is created
}

// planFor is the plan of an allocation that some devices have access to, in the order that the driver demands.
func planFor(c Capabilities, devices ...int) plan {
	p := plan{{op: OpCreate}, {op: OpMap}}
	if c.MapGrants {
		devices = devices[1:] // mapping gave the first one access
	}
	for _, device := range devices {
		p = append(p, step{op: OpGrant, device: device})
	}
	return p
}

// do carries a plan out. When a step fails, those before it are undone.
func (d *Device) do(p plan, to *placement) error {
	for i := range p {
		var err error
		switch p[i].op {
		case OpCreate:
			to.handle, err = d.driver.Create(to.size, to.kind.HandleType, to.kind.RDMA)
		case OpReserve:
			to.va, err = d.driver.Reserve(to.size, 0, 0)
		case OpMap:
			err = d.driver.Map(to.va, to.size, to.handle)
		case OpGrant:
			err = d.driver.Grant(to.va, to.size, p[i].device)
		default:
			err = &Error{Backend: d.driver.Backend(), Op: p[i].op, Class: ClassNotSupported, Detail: "no plan has this operation"}
		}
		if err != nil {
			return d.undo(p[:i], to, err)
		}
	}
	return nil
}

// undo takes back, in reverse, what a plan did, and adds what fails to the cause, which may be nil. Access goes with
// the mapping. Where the driver does not keep a handle alive until it is unmapped, a failed unmap keeps the
// handle (ErrQuarantined).
func (d *Device) undo(p plan, to *placement, cause error) error {
	for i := len(p) - 1; i >= 0; i-- {
		var err error
		switch p[i].op {
		case OpCreate:
			err = d.driver.Release(to.handle)
		case OpReserve:
			err = d.driver.Unreserve(to.va, to.size)
		case OpMap:
			if err = d.driver.Unmap(to.va, to.size); err != nil && !d.counted {
				return fmt.Errorf("%w: %w", ErrQuarantined, withUndo(cause, err))
			}
		}
		if err != nil {
			cause = withUndo(cause, err)
		}
	}
	return cause
}

// withUndo adds a failure to undo to the first failure, and never hides that.
func withUndo(first, undo error) error {
	switch {
	case undo == nil:
		return first
	case first == nil:
		return undo
	default:
		return errors.Join(first, fmt.Errorf("and then: %w", undo))
	}
}
