package vmm_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena/vmm"
)

// tries are the calls of one trial that works, in their order.
func tries(kind string) []string {
	return []string{
		"create 2097152 " + kind, "reserve 2097152 0 0x0", "map 0x7f0000000000 2097152 77", "grant 0x7f0000000000 2097152 to 3",
		"unmap 0x7f0000000000 2097152", "unreserve 0x7f0000000000 2097152", "release 77",
	}
}

// refused are the calls of one trial whose create fails.
func refused(kind string) []string {
	return []string{"create 2097152 " + kind}
}

func TestProbe(t *testing.T) {
	all := map[vmm.Attribute]int{vmm.AttributeFabric: 1, vmm.AttributePosixFD: 1, vmm.AttributeRDMA: 1}
	free := vmm.Capabilities{ReleaseWhileMapped: true, ExportIsFree: true}
	for name, tc := range map[string]struct {
		capabilities vmm.Capabilities
		attributes   map[vmm.Attribute]int
		refuses      map[vmm.HandleType]vmm.Class
		calls        [][]string
		text         string
	}{
		"the best that there is": {free, all, nil, [][]string{tries("fabric true")}, "fabric with rdma"},
		"what is advertised need not work": {
			free, all, map[vmm.HandleType]vmm.Class{vmm.HandleTypeFabric: vmm.ClassNotPermitted},
			[][]string{refused("fabric true"), refused("fabric false"), tries("posix_fd true")},
			"posix_fd with rdma; not fabric with rdma: script: create: not permitted; not fabric: script: create: not permitted",
		},
		"what is not advertised is not tried": {
			free, map[vmm.Attribute]int{vmm.AttributeFabric: 0, vmm.AttributePosixFD: 1, vmm.AttributeRDMA: 0}, nil,
			[][]string{tries("posix_fd false")}, "posix_fd",
		},
		"a driver that says nothing": {free, nil, nil, [][]string{tries("fabric false")}, "fabric"},
		"nothing but memory": {
			free, nil, map[vmm.HandleType]vmm.Class{vmm.HandleTypeFabric: vmm.ClassNotSupported, vmm.HandleTypePosixFD: vmm.ClassInvalidArgument},
			[][]string{refused("fabric false"), refused("posix_fd false"), tries("none false")},
			"none; not fabric: script: create: not supported; not posix_fd: script: create: invalid argument",
		},
		"where exporting costs something": {vmm.Capabilities{ReleaseWhileMapped: true}, all, nil, [][]string{tries("none true")}, "none with rdma"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript()
			s.capabilities, s.attributes, s.refuses = tc.capabilities, tc.attributes, tc.refuses
			d, err := vmm.NewDevice(s, 3)
			require.NoError(t, err)
			s.calls = nil
			probe, err := d.Probe()
			require.NoError(t, err)
			var calls []string
			for _, trial := range tc.calls {
				calls = append(calls, trial...)
			}
			assert.Equal(t, calls, s.calls)
			assert.Equal(t, tc.text, probe.String())
			again, err := d.Probe()
			require.NoError(t, err)
			assert.Same(t, probe, again)
			assert.Equal(t, calls, s.calls, "it is decided once")
		})
	}
}

func TestProbeOutOfMemoryDecidesNothing(t *testing.T) {
	s := newScript()
	s.capabilities = vmm.Capabilities{ReleaseWhileMapped: true, ExportIsFree: true}
	s.attributes = map[vmm.Attribute]int{vmm.AttributeFabric: 1, vmm.AttributePosixFD: 1}
	for _, op := range []vmm.Op{vmm.OpReserve, vmm.OpCreate, vmm.OpMap, vmm.OpGrant} {
		for _, class := range []vmm.Class{vmm.ClassOutOfMemory, vmm.ClassDeviceLost} {
			d, err := vmm.NewDevice(s, 3)
			require.NoError(t, err)
			s.fail[op] = class
			_, err = d.Allocate(va, size)
			require.ErrorIs(t, err, class)
			delete(s.fail, op)
			probe, err := d.Probe()
			require.NoError(t, err)
			assert.Equal(t, "fabric", probe.String())
		}
	}
}

func TestAllocateAboveTheLargestHandle(t *testing.T) {
	s := newScript()
	s.quirks.MaxHandle = size
	d := s.open(t)
	_, err := d.Allocate(va, size)
	require.NoError(t, err)
	s.calls = nil
	_, err = d.Allocate(va, size+1)
	require.ErrorIs(t, err, vmm.ClassNotSupported)
	assert.ErrorContains(t, err, "no handles of more than 4194304 bytes")
	assert.Empty(t, s.calls)
}

func TestMemoryReturns(t *testing.T) {
	s := newScript()
	d := s.open(t)
	returns, err := d.MemoryReturns()
	require.NoError(t, err)
	assert.True(t, returns)
	for _, op := range []vmm.Op{vmm.OpReserve, vmm.OpMemoryInfo, vmm.OpCreate, vmm.OpUnmap, vmm.OpUnreserve} {
		s.fail[op] = vmm.ClassInvalidArgument
		_, err := d.MemoryReturns()
		require.ErrorIs(t, err, vmm.ClassInvalidArgument)
		delete(s.fail, op)
	}
}
