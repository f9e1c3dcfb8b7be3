package conformance_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena/vmm"
	"github.com/arenagen/arenagen/backends/kit/hostvmm"
	"github.com/arenagen/arenagen/backends/stub"
)

// stubDriver is a driver of the stub with two devices.
func stubDriver(t *testing.T) vmm.Driver {
	t.Helper()
	device, err := stub.Open(0, stub.Options{Devices: 2})
	require.NoError(t, err)
	return device.Driver()
}

// Memory that one driver of the stub exports is the same memory in another.
func TestStubImports(t *testing.T) {
	one, other := stubDriver(t), stubDriver(t)
	handle := must[uint64](t)(one.Create(granule, vmm.HandleTypePosixFD, false))
	fd := must[int](t)(one.ExportFD(handle))
	imported := must[uint64](t)(other.ImportFD(fd))
	require.NoError(t, os.NewFile(uintptr(fd), "memory").Close())

	vas := [2]uint64{}
	for i, at := range []struct {
		driver vmm.Driver
		handle uint64
	}{{one, handle}, {other, imported}} {
		vas[i] = must[uint64](t)(at.driver.Reserve(granule, 0, 0))
		require.NoError(t, at.driver.Map(vas[i], granule, at.handle))
		require.NoError(t, at.driver.Grant(vas[i], granule, 1-i), "host memory has one owner")
		require.NoError(t, at.driver.Release(at.handle))
	}
	fill(vas[0])
	assert.Equal(t, byte(1), hostvmm.Bytes(vas[1], 1)[0])
	require.NoError(t, one.Unmap(vas[0], granule))
	assert.Equal(t, byte(1), hostvmm.Bytes(vas[1], 1)[0], "the importer keeps it")
	require.NoError(t, other.Unmap(vas[1], granule))
}

func TestStubRefuses(t *testing.T) {
	d := stubDriver(t)
	for _, fd := range []int{-1, 1 << 20} {
		_, err := d.ImportFD(fd)
		refused(t, err, "no descriptor")
	}
	va := must[uint64](t)(d.Reserve(granule, 0, 0))
	handle := must[uint64](t)(d.Create(granule, vmm.HandleTypeNone, false))
	require.NoError(t, d.Map(va, granule, handle))
	for _, device := range []int{-1, 2} {
		assert.ErrorIs(t, d.Grant(va, granule, device), vmm.ClassNoDevice)
	}
	require.NoError(t, d.Grant(va, granule, 1))
}
