package conformance_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

// A count is the driver calls of an allocation, and those of its free.
type count struct{ allocate, free uint64 }

// waiting are the driver calls of a free with each way to wait, as README.md has them, where the driver has all of these.
var waiting = map[string]map[vmm.Drain]uint64{
	"cuda": {vmm.DrainStream: 14, vmm.DrainDevice: 9, vmm.DrainDefault: 14},
	"musa": {vmm.DrainStream: 14, vmm.DrainDevice: 9, vmm.DrainDefault: 14},
	"hip":  {vmm.DrainStream: 12, vmm.DrainDevice: 8, vmm.DrainDefault: 12},
}

// TestCallsOfPolicies counts the driver calls of a pair, once a device is warm, for each drain policy.
func TestCallsOfPolicies(t *testing.T) {
	for _, s := range simulators(t) {
		t.Run(s.Name, func(t *testing.T) {
			c := s.load(t)
			calls := func() (sum uint64) {
				for op := range uint64(lastOp) {
					sum += c.Call("arenasim_calls", op)
				}
				return sum
			}
			device, err := s.Open(0, "")
			require.NoError(t, err)
			_, err = device.Probe()
			require.NoError(t, err)
			pair := func(drain vmm.Drain) count {
				a, err := arena.New(device, arena.Config{Total: 64 << 20, Drain: drain})
				require.NoError(t, err)
				calls()
				va, err := a.Malloc(1)
				require.NoError(t, err)
				allocate := calls()
				require.NoError(t, a.Free(va))
				free := calls()
				require.NoError(t, a.Release())
				return count{allocate, free}
			}

			abilities := s.Abilities()
			without := count{allocate: 3, free: 2} // create, map, grant; unmap, release
			if abilities.Capabilities.MapGrants {
				without.allocate = 2
			}
			require.Equal(t, without, pair(vmm.DrainNone))
			ways := 0
			for _, op := range []vmm.Op{vmm.OpSyncStream, vmm.OpSyncDevice, vmm.OpStreamCapturing, vmm.OpExchangeCaptureMode} {
				if abilities.Does(op) {
					ways++
				}
			}
			for _, drain := range []vmm.Drain{vmm.DrainStream, vmm.DrainDevice, vmm.DrainDefault} {
				got, listed := pair(drain), waiting[s.Name][drain]
				assert.Equal(t, without.allocate, got.allocate, "drain %d", drain)
				switch {
				case ways == 0:
					assert.Equal(t, without.free, got.free, "drain %d: there is nothing to wait with", drain)
				case ways == 4 && listed != 0:
					assert.Equal(t, listed, got.free, "drain %d", drain)
				default:
					assert.GreaterOrEqual(t, got.free, without.free, "drain %d", drain)
				}
			}
		})
	}
}
