package arenatest

import "github.com/arenagen/arenagen/arena/vmm"

// needs are what cases may need, and what of a backend's abilities meets that, nil where it is a matter of the subject.
var needs = map[string]func(vmm.Abilities) bool{
	"memory":  nil, // the test can read and write allocations at their addresses
	"faults":  nil, // the driver is a simulator: it can be made to fail, and counts
	"process": nil, // each case has a process of its own

	"align":   func(a vmm.Abilities) bool { return a.Heeds(vmm.OpReserve, "align") },
	"grants":  func(a vmm.Abilities) bool { return !a.Capabilities.MapGrants },
	"counted": func(a vmm.Abilities) bool { return a.Capabilities.ReleaseWhileMapped },
	"devices": func(a vmm.Abilities) bool { return a.Heeds(vmm.OpGrant, "device") },
	"fabric":  func(a vmm.Abilities) bool { return a.Does(vmm.OpExportFabric) },
	"streams": func(a vmm.Abilities) bool {
		return a.Does(vmm.OpSyncStream) && a.Does(vmm.OpSyncDevice) && a.Does(vmm.OpStreamCapturing)
	},
}

// NeedsOf are the needs that a backend meets on any driver, a simulator or not.
func NeedsOf(a vmm.Abilities) []string {
	var met []string
	for need, meets := range needs {
		if meets != nil && meets(a) {
			met = append(met, need)
		}
	}
	return met
}
