package conformance_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

// TestCallsOfPolicies counts the driver calls of a pair, once a device is warm, for each drain policy. README.md has
// the table.
func TestCallsOfPolicies(t *testing.T) {
	type count struct{ allocate, free uint64 }
	want := map[string]map[vmm.Drain]count{
		"cuda": {vmm.DrainNone: {3, 2}, vmm.DrainStream: {3, 14}, vmm.DrainDevice: {3, 9}, vmm.DrainDefault: {3, 14}},
		"musa": {vmm.DrainNone: {3, 2}, vmm.DrainStream: {3, 14}, vmm.DrainDevice: {3, 9}, vmm.DrainDefault: {3, 14}},
		// Mapping grants, and there is nothing to wait with.
		"levelzero": {vmm.DrainNone: {2, 2}, vmm.DrainStream: {2, 2}, vmm.DrainDevice: {2, 2}, vmm.DrainDefault: {2, 2}},
		"hip":       {vmm.DrainNone: {3, 2}, vmm.DrainStream: {3, 12}, vmm.DrainDevice: {3, 8}, vmm.DrainDefault: {3, 12}},
	}
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
			for drain, want := range want[s.Name] {
				a, err := arena.New(device, arena.Config{Total: 64 << 20, Drain: drain})
				require.NoError(t, err)
				calls()
				va, err := a.Malloc(1)
				require.NoError(t, err)
				allocate := calls()
				require.NoError(t, a.Free(va))
				assert.Equal(t, want, count{allocate, calls()}, "drain %d", drain)
				require.NoError(t, a.Release())
			}
		})
	}
}
