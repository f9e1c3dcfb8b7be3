package gogen

import (
	"testing"

	"github.com/arenagen/arenagen/gen/internal/ir"
)

// testOperations are a small contract.
func testOperations() []*ir.Operation {
	opening := operation("open", "Open", "Opens a device.", nil, nil)
	opening.Opens = true
	return []*ir.Operation{
		opening,
		operation("device_count", "DeviceCount", "Counts the devices.", nil, []*ir.Value{integer("count")}),
		operation("create", "Create", "Creates memory. It can be\ntouched later.",
			[]*ir.Value{byteValue("size"), enumValue("handle_type", "handleType", handleType)},
			[]*ir.Value{handleValue("handle")}),
		operation("unmap", "Unmap", "Unmaps it.", []*ir.Value{address("va"), byteValue("size")}, nil),
	}
}

func TestOperations(t *testing.T) {
	assertRendersIn(t, vmmPath, `
// An Op is an operation of the contract.
type Op uint8

// The operations. Those that are methods of Driver are described there.
const (
	// Opens a device.
	OpOpen Op = iota
	OpDeviceCount
	OpCreate
	OpUnmap
)

var opNames = [...]string{
	OpOpen:        "open",
	OpDeviceCount: "device_count",
	OpCreate:      "create",
	OpUnmap:       "unmap",
}
`, operations(testOperations())...)
}

func TestDriverInterface(t *testing.T) {
	assertRendersIn(t, vmmPath, `
// A Driver does the operations of the contract on one device. Its errors are of type *Error. All
// methods are safe for concurrent use.
type Driver interface {
	// Backend is the backend's name.
	Backend() string
	// Capabilities says what an arena may rely on.
	Capabilities() Capabilities
	// Quirks says what the driver's version cannot do or does wrong.
	Quirks() Quirks
	// About says what the driver is.
	About() About

	// DeviceCount counts the devices.
	DeviceCount() (count int, err error)
	// Create creates memory. It can be touched later.
	Create(size uint64, handleType HandleType) (handle uint64, err error)
	// Unmap unmaps it.
	Unmap(va, size uint64) error
}
`, driverInterface(testOperations()))
}
