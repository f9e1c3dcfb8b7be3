package vmm_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/arenagen/arenagen/arena/vmm"
)

func TestAbilities(t *testing.T) {
	a := vmm.Abilities{
		Unsupported: []vmm.Op{vmm.OpExportDmabuf, vmm.OpRetain},
		Ignores:     []vmm.Input{{Op: vmm.OpReserve, Name: "align"}},
	}
	assert.False(t, a.Does(vmm.OpRetain))
	assert.True(t, a.Does(vmm.OpReserve))
	assert.False(t, a.Heeds(vmm.OpReserve, "align"))
	assert.True(t, a.Heeds(vmm.OpReserve, "hint"))
	assert.True(t, a.Heeds(vmm.OpMap, "align"), "of another operation")
	assert.False(t, a.Heeds(vmm.OpExportDmabuf, "va"), "an operation that is not done heeds nothing")
}

func TestOperations(t *testing.T) {
	all := vmm.Operations()
	assert.Equal(t, vmm.OpOpen, all[0])
	assert.Equal(t, vmm.OpStreamCapturing, all[len(all)-1])
	for _, op := range all {
		assert.NotEmpty(t, op.String())
	}
}

func TestListOfCapabilities(t *testing.T) {
	has := map[string]bool{}
	for _, c := range (vmm.Capabilities{MapGrants: true}).List() {
		has[c.Name] = c.Has
	}
	assert.Equal(t, map[string]bool{
		"release_while_mapped": false, "map_grants": true, "map_once": false, "map_whole": false, "grant_per_mapping": false, "export_is_free": false,
	}, has)
}
