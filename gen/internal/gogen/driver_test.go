package gogen

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/ir"
)

func TestBackendConstant(t *testing.T) {
	assertRenders(t, `
// Backend is the backend's name.
const Backend = "stub"
`, backendConstant(&ir.Backend{Tree: ir.Project, Name: "stub"}))
}

func TestDriverType(t *testing.T) {
	assertRenders(t, `
// A Driver does the operations of the driver contract on one device, with the functions of
// hostvmm.Driver. Its methods are safe for concurrent use.
type Driver struct {
	driver *hostvmm.Driver
}

var _ vmm.Driver = (*Driver)(nil)

// This code is of a generation that the packages below it must support.
const _ = vmm.SupportsGeneration1
`, driverType(hostvmm), driverAssertion())
}

func TestDriverBackend(t *testing.T) {
	assertRenders(t, `
// Backend is the backend's name.
func (d *Driver) Backend() string {
	return Backend
}
`, driverBackend())
}

func TestDriverOpen(t *testing.T) {
	provider := *hostvmm
	provider.Open = "OpenDevice"
	assertRenders(t, `
// Open opens a device by its ordinal, from 0, and asks it what an arena needs to know. The zero
// Options are the defaults. Its errors are of type *vmm.Error.
func Open(device int, options Options) (*vmm.Device, error) {
	if err := options.check(); err != nil {
		return nil, vmm.Invalid(Backend, vmm.Error{Op: vmm.OpOpen}, err)
	}
	driver, result := hostvmm.OpenDevice(device, options.forDriver())
	if result != -1 {
		return nil, failure("OpenDevice", result, vmm.Error{Op: vmm.OpOpen})
	}
	return vmm.NewDevice(&Driver{driver: driver}, device)
}
`, driverOpen(testOperations()[0], &ir.Backend{Provider: &provider, Result: &ir.Result{OK: -1}}))
}

func TestOpeningOperation(t *testing.T) {
	contract := &ir.Contract{Pos: diag.Pos{File: "spec/vmm.yaml"}, Name: "vmm", Operations: testOperations()}
	assert.Equal(t, "open", openingOperation(contract).Name)
	contract.Operations = contract.Operations[1:]
	assert.PanicsWithValue(t, "no operation of contract vmm opens a driver", func() { openingOperation(contract) })
}

func TestDriverFile(t *testing.T) {
	kind := enumValue("kind", "kind", handleType)
	operations := append(testOperations(), operation("turn", "Turn", "Turns it.", []*ir.Value{kind}, nil))
	contract := &ir.Contract{Pos: diag.Pos{File: "spec/vmm.yaml"}, Name: "vmm", Operations: operations}
	backend := &ir.Backend{
		Tree: ir.Project, File: "spec/backends/toy.yaml", Name: "toy", Description: "A toy.",
		Provider: hostvmm,
		Result:   &ir.Result{Type: "hostvmm.Result"},
		Enums:    []*ir.EnumMap{driverHandleType},
		Functions: []*ir.Binding{
			{Name: "ToyUnmap", Does: operations[3]},
			{Name: "ToyTurn", Does: operations[4], Params: []*ir.BoundParam{in("int32", kind)}},
		},
		Unsupported: []*ir.Operation{operations[1], operations[2]},
	}
	file := driverFile(contract, backend)
	assert.Equal(t, "backends/toy/zz_generated_driver.go", file.Path)
	assert.Equal(t, []string{"spec/vmm.yaml", "spec/backends/toy.yaml"}, file.Sources)
	assert.Contains(t, string(file.Content), "// Package toy is the toy backend: a toy.\npackage toy\n")
	assert.Equal(t, []string{
		"Backend", "Driver", "Driver.driver", "_", "_", "Open", "Driver.Backend", "Driver.Capabilities", "Abilities", "Driver.Quirks", "Driver.About",
		"Driver.Unmap", "Driver.Turn", "Driver.DeviceCount", "Driver.Create", "numberOfHandleType",
	}, declarations(t, file))
	for _, origin := range file.Origins {
		assert.Contains(t, declarations(t, file), origin.Name)
	}
}
