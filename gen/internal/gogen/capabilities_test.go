package gogen

import (
	"testing"

	"github.com/arenagen/arenagen/gen/internal/ir"
)

var testCapabilities = []*ir.Capability{
	{Name: "map_once", GoName: "MapOnce", Description: "A handle maps once."},
	{Name: "map_grants", GoName: "MapGrants", Description: "Mapping grants access."},
}

func TestCapabilities(t *testing.T) {
	assertRendersIn(t, vmmPath, `
// Capabilities are what an arena may rely on.
type Capabilities struct {
	// A handle maps once.
	MapOnce bool
	// Mapping grants access.
	MapGrants bool
}
`, capabilities(testCapabilities))
}

func TestDriverCapabilities(t *testing.T) {
	assertRenders(t, `
// Capabilities says what an arena may rely on.
func (d *Driver) Capabilities() vmm.Capabilities {
	return vmm.Capabilities{
		MapOnce:   true,
		MapGrants: false,
	}
}
`, driverCapabilities([]*ir.CapabilityValue{
		{Capability: testCapabilities[0], Value: true},
		{Capability: testCapabilities[1], Value: false},
	}))
}

func TestDriverWithOtherCapabilities(t *testing.T) {
	assertRenders(t, `
// Capabilities says what an arena may rely on.
func (d *Driver) Capabilities() vmm.Capabilities {
	return vmm.Capabilities{
		MapOnce:   false,
		MapGrants: true,
	}
}
`, driverCapabilities([]*ir.CapabilityValue{
		{Capability: testCapabilities[0], Value: false},
		{Capability: testCapabilities[1], Value: true},
	}))
}
