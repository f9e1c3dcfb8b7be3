package hostvmm_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/backends/kit/hostvmm"
)

func TestMapRefuses(t *testing.T) {
	d := open(t, hostvmm.Options{})
	va := reserve(t, d, 8*granule)
	handle := create(t, d, granule, hostvmm.HandleTypeNone)
	allocate(t, d, va+2*granule, 2*granule)
	dead := create(t, d, granule, hostvmm.HandleTypeNone)
	release(t, d, dead)

	tests := []struct {
		name                            string
		va, size, offset, handle, flags uint64
	}{
		{"offset", va, granule - minGranule, minGranule, handle, 0},
		{"flags", va, granule, 0, handle, 1},
		{"size 0", va, 0, 0, handle, 0},
		{"part of a granule", va, minGranule + 4096, 0, handle, 0},
		{"larger than the handle", va, granule + minGranule, 0, handle, 0},
		{"misaligned", va + 4096, granule, 0, handle, 0},
		{"no address", 0, granule, 0, handle, 0},
		{"no handle", va, granule, 0, 0, 0},
		{"no such handle", va, granule, 0, 1 << 40, 0},
		{"dead handle", va, granule, 0, dead, 0},
		{"before the reservation", va - minGranule, granule, 0, handle, 0},
		{"beyond its end", va + 8*granule - minGranule, granule, 0, handle, 0},
		{"outside", va + 8*granule, granule, 0, handle, 0},
		{"no reservation", 1 << 20, granule, 0, handle, 0},
		{"past the last address", 1<<64 - granule, granule, 0, handle, 0},
		{"onto a mapping", va + 2*granule, granule, 0, handle, 0},
		{"into a mapping", va + 3*granule, granule, 0, handle, 0},
		{"over the start of a mapping", va + 2*granule - minGranule, granule, 0, handle, 0},
		{"over the end of a mapping", va + 4*granule - minGranule, granule, 0, handle, 0},
	}
	before := d.Snapshot()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, hostvmm.ErrorInvalidValue, d.MemMap(tt.va, tt.size, tt.offset, tt.handle, tt.flags))
			assert.Equal(t, before, d.Snapshot())
		})
	}
	hostvmm.Bytes(va+2*granule, 1)[0] = 1
	unmap(t, d, va+2*granule, 2*granule)
	release(t, d, handle)
	assert.Zero(t, memory(t, d))
}

func TestMappingFillsAReservation(t *testing.T) {
	d := open(t, hostvmm.Options{})
	va := reserve(t, d, 3*granule)
	for _, i := range []uint64{1, 0, 2} {
		allocate(t, d, va+i*granule, granule)
	}
	clear(hostvmm.Bytes(va, 3*granule))
	unmap(t, d, va, 3*granule)
}

func TestPartOfAHandleCanBeMapped(t *testing.T) {
	d := open(t, hostvmm.Options{})
	va := reserve(t, d, granule)
	handle := create(t, d, granule, hostvmm.HandleTypeNone)
	mapAt(t, d, va, minGranule, handle)
	grant(t, d, va, minGranule, hostvmm.AccessReadWrite)
	assert.False(t, writeFaults(va+minGranule-1))
	assert.True(t, writeFaults(va+minGranule))
	unmap(t, d, va, minGranule)
	release(t, d, handle)
}

func TestAccess(t *testing.T) {
	d := open(t, hostvmm.Options{})
	va := reserve(t, d, granule)
	handle := create(t, d, granule, hostvmm.HandleTypeNone)
	mapAt(t, d, va, granule, handle)
	assert.True(t, readFaults(va), "mapping grants nothing")

	for _, access := range []int32{
		hostvmm.AccessReadWrite, hostvmm.AccessRead, hostvmm.AccessNone, hostvmm.AccessRead, hostvmm.AccessReadWrite,
	} {
		grant(t, d, va, granule, access)
		assert.Equal(t, access == hostvmm.AccessNone, readFaults(va))
		assert.Equal(t, access != hostvmm.AccessReadWrite, writeFaults(va))
	}

	unmap(t, d, va, granule)
	assert.True(t, readFaults(va), "unmapped")
	mapAt(t, d, va, granule, handle)
	assert.True(t, readFaults(va), "unmapping ended the grant")
	unmap(t, d, va, granule)
	release(t, d, handle)
}

func TestSetAccessRefusesUnknownAccess(t *testing.T) {
	d := open(t, hostvmm.Options{})
	va := reserve(t, d, granule)
	allocate(t, d, va, granule)
	for _, access := range []int32{2, 4, -1} {
		assert.Equal(t, hostvmm.ErrorInvalidValue, d.MemSetAccess(va, granule, access, 0))
	}
	assert.False(t, writeFaults(va))
	unmap(t, d, va, granule)
}

// MemSetAccess and MemUnmap take the same ranges: whole mappings without a hole.
// Host memory has one owner: a device that there is changes nothing, one that there is not is refused.
func TestSetAccessOfDevices(t *testing.T) {
	for _, mode := range modes {
		d := open(t, hostvmm.Options{Mode: mode, Devices: 3})
		va := reserve(t, d, granule)
		handle := create(t, d, granule, hostvmm.HandleTypeNone)
		mapAt(t, d, va, granule, handle)
		for _, device := range []int32{3, 64, -1} {
			assert.Equal(t, hostvmm.ErrorInvalidDevice, d.MemSetAccess(va, granule, hostvmm.AccessReadWrite, device))
			assert.Equal(t, hostvmm.ErrorInvalidValue, d.MemSetAccess(va, 0, hostvmm.AccessReadWrite, device))
		}
		assert.True(t, readFaults(va))
		for device := range int32(3) {
			assert.Equal(t, hostvmm.Success, d.MemSetAccess(va, granule, hostvmm.AccessReadWrite, device))
			assert.Equal(t, mode == hostvmm.Record, writeFaults(va))
		}
		unmap(t, d, va, granule)
		release(t, d, handle)
	}
}

func TestRangesOfMappings(t *testing.T) {
	functions := map[string]func(*hostvmm.Driver, uint64, uint64) hostvmm.Result{
		"MemUnmap": (*hostvmm.Driver).MemUnmap,
		"MemSetAccess": func(d *hostvmm.Driver, va, size uint64) hostvmm.Result {
			return d.MemSetAccess(va, size, hostvmm.AccessNone, 0)
		},
	}
	tests := []struct {
		name          string
		offset, size  uint64 // of mappings at 1, 2, 3 with sizes 1, 1, 2, and at 6 with size 1
		want          hostvmm.Result
		touched, left []uint64
	}{
		{"one", 1, 1, hostvmm.Success, []uint64{1}, []uint64{2, 3, 4, 6}},
		{"several", 1, 4, hostvmm.Success, []uint64{1, 2, 3, 4}, []uint64{6}},
		{"several in the middle", 2, 3, hostvmm.Success, []uint64{2, 3, 4}, []uint64{1, 6}},
		{"less than one", 3, 1, hostvmm.ErrorInvalidValue, nil, []uint64{1, 2, 3, 4, 6}},
		{"one and a part", 2, 2, hostvmm.ErrorInvalidValue, nil, []uint64{1, 2, 3, 4, 6}},
		{"a part and one", 4, 1, hostvmm.ErrorInvalidValue, nil, []uint64{1, 2, 3, 4, 6}},
		{"a hole at the end", 1, 5, hostvmm.ErrorInvalidValue, nil, []uint64{1, 2, 3, 4, 6}},
		{"a hole between", 3, 4, hostvmm.ErrorInvalidValue, nil, []uint64{1, 2, 3, 4, 6}},
		{"a hole at the start", 0, 2, hostvmm.ErrorInvalidValue, nil, []uint64{1, 2, 3, 4, 6}},
		{"nothing but a hole", 5, 1, hostvmm.ErrorInvalidValue, nil, []uint64{1, 2, 3, 4, 6}},
		{"beyond the reservation", 6, 4, hostvmm.ErrorInvalidValue, nil, []uint64{1, 2, 3, 4, 6}},
		{"outside", 8, 1, hostvmm.ErrorInvalidValue, nil, []uint64{1, 2, 3, 4, 6}},
		{"size 0", 1, 0, hostvmm.ErrorInvalidValue, nil, []uint64{1, 2, 3, 4, 6}},
		{"past the last address", 1, 1<<43 - 1, hostvmm.ErrorInvalidValue, nil, []uint64{1, 2, 3, 4, 6}},
	}
	for name, function := range functions {
		for _, tt := range tests {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				d, r := hostvmm.Open(0, hostvmm.Options{})
				require.Equal(t, hostvmm.Success, r)
				defer d.Close()
				var va uint64
				require.Equal(t, hostvmm.Success, d.MemAddressReserve(&va, 8*granule, 0, 0, 0))
				for _, mapping := range [][2]uint64{{1, 1}, {2, 1}, {3, 2}, {6, 1}} {
					allocate(t, d, va+mapping[0]*granule, mapping[1]*granule)
				}

				assert.Equal(t, tt.want, function(d, va+tt.offset*granule, tt.size*granule))
				for _, i := range tt.touched {
					assert.True(t, readFaults(va+i*granule), "granule %d", i)
				}
				for _, i := range tt.left {
					assert.False(t, writeFaults(va+i*granule), "granule %d", i)
				}
			})
		}
	}
}

func TestOneHandleAtTwoAddresses(t *testing.T) {
	for _, handleType := range []int32{hostvmm.HandleTypeNone, hostvmm.HandleTypePosixFD} {
		d := open(t, hostvmm.Options{})
		one, two := reserve(t, d, granule), reserve(t, d, granule)
		handle := create(t, d, granule, handleType)
		mapAt(t, d, one, granule, handle)
		mapAt(t, d, two, granule, handle)
		grant(t, d, one, granule, hostvmm.AccessReadWrite)
		grant(t, d, two, granule, hostvmm.AccessRead)

		hostvmm.Bytes(one, granule)[granule-1] = 42
		assert.Equal(t, byte(42), hostvmm.Bytes(two, granule)[granule-1])
		assert.True(t, writeFaults(two), "access is that of the mapping")

		unmap(t, d, one, granule)
		release(t, d, handle)
		assert.Equal(t, byte(42), hostvmm.Bytes(two, granule)[granule-1])
		unmap(t, d, two, granule)
	}
}

func TestUnmappedAddressesStayReserved(t *testing.T) {
	d := open(t, hostvmm.Options{})
	va := reserve(t, d, granule)
	for range 3 {
		allocate(t, d, va, granule)
		unmap(t, d, va, granule)
		assert.True(t, readFaults(va))
		var other uint64
		require.Equal(t, hostvmm.Success, d.MemAddressReserve(&other, granule, 0, va, 0))
		assert.NotEqual(t, va, other)
		require.Equal(t, hostvmm.Success, d.MemAddressFree(other, granule))
	}
}

func TestHandlesBelongToTheirDriver(t *testing.T) {
	one, two := open(t, hostvmm.Options{}), open(t, hostvmm.Options{})
	va := reserve(t, one, granule)
	handle := create(t, one, granule, hostvmm.HandleTypeNone)
	assert.Equal(t, hostvmm.ErrorInvalidValue, two.MemRelease(handle))
	mapAt(t, one, va, granule, handle)
	assert.Equal(t, hostvmm.ErrorInvalidValue, two.MemUnmap(va, granule))
	unmap(t, one, va, granule)
	release(t, one, handle)
}
