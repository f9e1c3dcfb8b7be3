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

func TestCapabilityList(t *testing.T) {
	assertRendersIn(t, vmmPath, `
// List are the capabilities by name, in the order of the contract.
func (c Capabilities) List() []Capability {
	return []Capability{
		{"map_once", c.MapOnce},
		{"map_grants", c.MapGrants},
	}
}
`, capabilityList(testCapabilities))
}

func TestAbilities(t *testing.T) {
	assertRenders(t, `
// Abilities says what the backend can do, as far as its file tells: it needs no driver.
func Abilities() vmm.Abilities {
	return vmm.Abilities{
		Capabilities: (*Driver)(nil).Capabilities(),
		Unsupported: []vmm.Op{
			vmm.OpTurn,
		},
		Ignores: []vmm.Input{
			{Op: vmm.OpCreate, Name: "kind"},
		},
	}
}
`, abilities(&ir.Backend{
		Unsupported: []*ir.Operation{{Name: "turn", OpName: "OpTurn"}},
		Functions: []*ir.Binding{
			{Does: &ir.Operation{OpName: "OpCreate"}, Ignores: []*ir.Value{{Name: "kind"}}},
		},
	}))
	assertRenders(t, `
// Abilities says what the backend can do, as far as its file tells: it needs no driver.
func Abilities() vmm.Abilities {
	return vmm.Abilities{
		Capabilities: (*Driver)(nil).Capabilities(),
	}
}
`, abilities(&ir.Backend{}))
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
