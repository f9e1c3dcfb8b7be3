package vmm

import (
	"errors"
	"fmt"
	"strings"
)

// Error is the text of a class, so that errors.Is(err, vmm.ClassOutOfMemory) works.
func (c Class) Error() string { return nameOf(classNames[:], c) }

// String is the operation's name in the contract.
func (o Op) String() string { return nameOf(opNames[:], o) }

// nameOf is the name of a value, or its number where it has none.
func nameOf[T ~uint8](names []string, value T) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprint(uint8(value))
}

// An Error is a driver call that failed.
type Error struct {
	Backend  string // which backend
	Op       Op     // what was being done
	Function string // the driver's own function, empty if none was called
	Code     int64  // the driver's own code
	Name     string // the driver's name of Code, empty if it has none
	Class    Class  // what it means
	VA       uint64 // the address that it was about, or 0
	Size     uint64 // the size that it was about, or 0
	Handle   uint64 // the handle that it was about, or 0
	Detail   string // what else there is to say, or empty
	Cause    error  // what it follows from, or nil
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Backend, e.Op)
	if e.Size != 0 {
		fmt.Fprintf(&b, " of %d bytes", e.Size)
	}
	if e.VA != 0 {
		fmt.Fprintf(&b, " at %#x", e.VA)
	}
	if e.Handle != 0 {
		fmt.Fprintf(&b, " with handle %#x", e.Handle)
	}
	fmt.Fprintf(&b, ": %s", e.Class.Error())
	if e.Function != "" {
		name := e.Name
		if name == "" {
			name = "a code without a name"
		}
		fmt.Fprintf(&b, " (%s answered %s, %d)", e.Function, name, e.Code)
	}
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %s", e.Detail)
	}
	if e.Cause != nil {
		fmt.Fprintf(&b, ": %v", e.Cause)
	}
	return b.String()
}

// Unwrap is the class, and the cause if there is one.
func (e *Error) Unwrap() []error {
	if e.Cause != nil {
		return []error{e.Class, e.Cause}
	}
	return []error{e.Class}
}

// ErrQuarantined marks a failure after which a handle is still mapped and was
// therefore not released. Device.Release can be tried again with it.
var ErrQuarantined = errors.New("the handle is still mapped and was not released")
