package arenatest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena/vmm"
)

func TestNeedsOf(t *testing.T) {
	assert.ElementsMatch(t, []string{"align", "grants", "devices", "fabric", "streams"}, NeedsOf(vmm.Abilities{}))
	assert.ElementsMatch(t, []string{"counted"}, NeedsOf(vmm.Abilities{
		Capabilities: vmm.Capabilities{MapGrants: true, ReleaseWhileMapped: true},
		Unsupported:  []vmm.Op{vmm.OpExportFabric, vmm.OpSyncDevice},
		Ignores:      []vmm.Input{{Op: vmm.OpReserve, Name: "align"}, {Op: vmm.OpGrant, Name: "device"}},
	}))
}

// A case that needs what no subject can have would never run.
func TestUnknownNeed(t *testing.T) {
	_, err := parse("x.txt", "case: one\nneeds: faults streems\ncreate a 64MiB\n")
	require.EqualError(t, err, `x.txt:2: unknown need "streems"`)
}

func TestCasesParse(t *testing.T) {
	cases, err := Cases()
	require.NoError(t, err)
	needed := map[string]bool{}
	for _, c := range cases {
		for _, need := range c.Needs {
			needed[need] = true
		}
	}
	for need := range needs {
		assert.True(t, needed[need], "no case needs %s", need)
	}
}
