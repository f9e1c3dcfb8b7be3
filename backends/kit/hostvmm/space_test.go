package hostvmm_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/backends/kit/hostvmm"
)

func TestReservationFaults(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			d := open(t, hostvmm.Options{Mode: mode})
			va := reserve(t, d, granule)
			for _, at := range []uint64{va, va + granule/2, va + granule - 1} {
				assert.True(t, readFaults(at))
				assert.True(t, writeFaults(at))
			}
		})
	}
}

func TestReserveSizes(t *testing.T) {
	for name, mode := range modes {
		for _, size := range []uint64{minGranule, granule, 4 << 40, 16 << 40} {
			t.Run(name, func(t *testing.T) {
				d := open(t, hostvmm.Options{Mode: mode})
				va := reserve(t, d, size)
				assert.Zero(t, va%granule)
				assert.Equal(t, size, d.Snapshot().ReservedBytes)
				assert.True(t, readFaults(va+size-1))
			})
		}
	}
}

func TestReserveAlignment(t *testing.T) {
	tests := []struct {
		name               string
		alignment, aligned uint64
	}{
		{"recommended granularity by default", 0, granule},
		{"never below the minimum granularity", 1, minGranule},
		{"minimum granularity", minGranule, minGranule},
		{"large", 1 << 30, 1 << 30},
		{"huge", 1 << 42, 1 << 42},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := open(t, hostvmm.Options{Mode: hostvmm.Record})
			var last uint64
			for range 3 { // one alone could be aligned by chance
				var va uint64
				require.Equal(t, hostvmm.Success, d.MemAddressReserve(&va, minGranule, tt.alignment, 0, 0))
				defer d.MemAddressFree(va, minGranule)
				assert.Zero(t, va%tt.aligned)
				assert.NotEqual(t, last, va)
				last = va
			}
		})
	}
}

func TestReserveRefuses(t *testing.T) {
	tests := []struct {
		name                   string
		size, alignment, flags uint64
		want                   hostvmm.Result
	}{
		{"size 0", 0, 0, 0, hostvmm.ErrorInvalidValue},
		{"part of a granule", minGranule + 4096, 0, 0, hostvmm.ErrorInvalidValue},
		{"alignment of three", granule, 3, 0, hostvmm.ErrorInvalidValue},
		{"flags", granule, 0, 1, hostvmm.ErrorInvalidValue},
		{"more than there are addresses", 1 << 60, 0, 0, hostvmm.ErrorOutOfMemory},
		{"all 64 bits", 1<<64 - minGranule, 0, 0, hostvmm.ErrorOutOfMemory},
		{"alignment beyond the addresses", granule, 1 << 63, 0, hostvmm.ErrorOutOfMemory},
	}
	for name, mode := range modes {
		for _, tt := range tests {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				d := open(t, hostvmm.Options{Mode: mode})
				va := uint64(12345)
				assert.Equal(t, tt.want, d.MemAddressReserve(&va, tt.size, tt.alignment, 0, tt.flags))
				assert.Equal(t, uint64(12345), va, "a failure stores nothing")
			})
		}
	}
}

func TestReserveHint(t *testing.T) {
	d := open(t, hostvmm.Options{})
	around := reserve(t, d, 8*granule)
	var wide uint64
	require.Equal(t, hostvmm.Success, d.MemAddressReserve(&wide, 1<<40, 0, 0, 0))
	require.Equal(t, hostvmm.Success, d.MemAddressFree(wide, 1<<40))
	free := wide + 1<<39 // far from where the kernel puts what others map

	tests := []struct {
		name string
		hint uint64
		want bool
	}{
		{"free", free, true},
		{"taken", around, false},
		{"taken inside", around + granule, false},
		{"misaligned", free + 4096, false},
		{"beyond the addresses", 1 << 62, false},
		{"at the very end", 1<<64 - granule, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var va uint64
			require.Equal(t, hostvmm.Success, d.MemAddressReserve(&va, 2*granule, 0, tt.hint, 0))
			assert.Equal(t, tt.want, va == tt.hint)
			assert.Zero(t, va%granule)
			require.Equal(t, hostvmm.Success, d.MemAddressFree(va, 2*granule))
		})
	}
}

func TestAddressFreeTakesExactlyAReservation(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			d := open(t, hostvmm.Options{Mode: mode})
			var va uint64
			require.Equal(t, hostvmm.Success, d.MemAddressReserve(&va, 4*granule, 0, 0, 0))
			for _, wrong := range [][2]uint64{
				{va, 2 * granule}, {va, 8 * granule}, {va, 0}, {va + granule, 3 * granule}, {va - granule, 4 * granule}, {0, 0}, {0, 4 * granule},
			} {
				assert.Equal(t, hostvmm.ErrorInvalidValue, d.MemAddressFree(wrong[0], wrong[1]))
			}
			assert.Equal(t, hostvmm.Success, d.MemAddressFree(va, 4*granule))
			assert.Equal(t, hostvmm.ErrorInvalidValue, d.MemAddressFree(va, 4*granule), "a second time")
			assert.True(t, readFaults(va))
		})
	}
}

func TestAddressFreeRefusesWhatIsMapped(t *testing.T) {
	d := open(t, hostvmm.Options{})
	var va uint64
	require.Equal(t, hostvmm.Success, d.MemAddressReserve(&va, 4*granule, 0, 0, 0))
	allocate(t, d, va+granule, granule)
	assert.Equal(t, hostvmm.ErrorInvalidValue, d.MemAddressFree(va, 4*granule))
	hostvmm.Bytes(va+granule, 1)[0] = 1

	unmap(t, d, va+granule, granule)
	assert.Equal(t, hostvmm.Success, d.MemAddressFree(va, 4*granule))
}
