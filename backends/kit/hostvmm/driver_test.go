package hostvmm_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/arenagen/arenagen/backends/kit/hostvmm"
)

func TestOpen(t *testing.T) {
	tests := []struct {
		name    string
		ordinal int
		options hostvmm.Options
		want    hostvmm.Result
	}{
		{"defaults", 0, hostvmm.Options{}, hostvmm.Success},
		{"record", 0, hostvmm.Options{Mode: hostvmm.Record}, hostvmm.Success},
		{"unknown mode", 0, hostvmm.Options{Mode: 2}, hostvmm.ErrorInvalidValue},
		{"negative ordinal", -1, hostvmm.Options{}, hostvmm.ErrorInvalidDevice},
		{"ordinal beyond the only device", 1, hostvmm.Options{}, hostvmm.ErrorInvalidDevice},
		{"last of three", 2, hostvmm.Options{Devices: 3}, hostvmm.Success},
		{"beyond three", 3, hostvmm.Options{Devices: 3}, hostvmm.ErrorInvalidDevice},
		{"last of the most", 63, hostvmm.Options{Devices: 64}, hostvmm.Success},
		{"too many devices", 0, hostvmm.Options{Devices: 65}, hostvmm.ErrorInvalidValue},
		{"one granule for both", 0, hostvmm.Options{MinGranule: 1 << 20, Granule: 1 << 20}, hostvmm.Success},
		{"granule below the minimum", 0, hostvmm.Options{MinGranule: 1 << 20, Granule: 1 << 19}, hostvmm.ErrorInvalidValue},
		{"granule of three", 0, hostvmm.Options{Granule: 3 << 20}, hostvmm.ErrorInvalidValue},
		{"minimum of three", 0, hostvmm.Options{MinGranule: 3 << 16}, hostvmm.ErrorInvalidValue},
		{"minimum below a page", 0, hostvmm.Options{MinGranule: 512}, hostvmm.ErrorInvalidValue},
		{"longest log", 0, hostvmm.Options{Log: 1 << 20}, hostvmm.Success},
		{"log too long", 0, hostvmm.Options{Log: 1<<20 + 1}, hostvmm.ErrorInvalidValue},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, r := hostvmm.Open(tt.ordinal, tt.options)
			assert.Equal(t, tt.want, r)
			assert.Equal(t, tt.want == hostvmm.Success, d != nil)
		})
	}
}

func TestDeviceQueries(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			d := open(t, hostvmm.Options{Mode: mode, Devices: 3, MinGranule: 1 << 17, Granule: 1 << 22})

			var count int32
			require.Equal(t, hostvmm.Success, d.DeviceGetCount(&count))
			assert.Equal(t, int32(3), count)

			var bytes uint64
			require.Equal(t, hostvmm.Success, d.MemGetAllocationGranularity(&bytes, hostvmm.GranularityMinimum))
			assert.Equal(t, uint64(1<<17), bytes)
			require.Equal(t, hostvmm.Success, d.MemGetAllocationGranularity(&bytes, hostvmm.GranularityRecommended))
			assert.Equal(t, uint64(1<<22), bytes)
			assert.Equal(t, hostvmm.ErrorInvalidValue, d.MemGetAllocationGranularity(&bytes, 2))
			assert.Equal(t, hostvmm.ErrorInvalidValue, d.MemGetAllocationGranularity(&bytes, -1))
			assert.Equal(t, uint64(1<<22), bytes, "a failure stores nothing")
		})
	}
}

func TestGranularityDefaults(t *testing.T) {
	d := open(t, hostvmm.Options{})
	var bytes uint64
	require.Equal(t, hostvmm.Success, d.MemGetAllocationGranularity(&bytes, hostvmm.GranularityMinimum))
	assert.Equal(t, uint64(minGranule), bytes)
	require.Equal(t, hostvmm.Success, d.MemGetAllocationGranularity(&bytes, hostvmm.GranularityRecommended))
	assert.Equal(t, uint64(granule), bytes)
}

func TestNilOutParameters(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			d := open(t, hostvmm.Options{Mode: mode})
			var bytes uint64
			for function, r := range map[string]hostvmm.Result{
				"DeviceGetCount":               d.DeviceGetCount(nil),
				"MemGetAllocationGranularity":  d.MemGetAllocationGranularity(nil, hostvmm.GranularityMinimum),
				"MemAddressReserve":            d.MemAddressReserve(nil, granule, 0, 0, 0),
				"MemCreate":                    d.MemCreate(nil, granule, hostvmm.HandleTypeNone, 0),
				"MemGetInfo free":              d.MemGetInfo(nil, &bytes),
				"MemGetInfo total":             d.MemGetInfo(&bytes, nil),
				"MemExportToShareableHandle":   d.MemExportToShareableHandle(nil, 1, hostvmm.HandleTypePosixFD, 0),
				"MemImportFromShareableHandle": d.MemImportFromShareableHandle(nil, 1, hostvmm.HandleTypePosixFD),
			} {
				assert.Equal(t, hostvmm.ErrorInvalidValue, r, function)
			}
		})
	}
}

func TestMemGetInfo(t *testing.T) {
	var host unix.Sysinfo_t
	require.NoError(t, unix.Sysinfo(&host))
	hostTotal := host.Totalram * uint64(host.Unit)

	tests := []struct {
		name              string
		options           hostvmm.Options
		create            uint64
		wantFree, wantAll uint64
	}{
		{"capacity", hostvmm.Options{Capacity: 10 * granule}, 0, 10 * granule, 10 * granule},
		{"capacity, some created", hostvmm.Options{Capacity: 10 * granule}, 3 * granule, 7 * granule, 10 * granule},
		{"no capacity", hostvmm.Options{}, 0, hostTotal, hostTotal},
		{"no capacity, some created", hostvmm.Options{}, granule, hostTotal - granule, hostTotal},
		{"no capacity, more created than there is", hostvmm.Options{}, 1 << 50, 0, hostTotal},
		{"record", hostvmm.Options{Mode: hostvmm.Record}, granule, hostTotal, hostTotal},
		{"record, capacity", hostvmm.Options{Mode: hostvmm.Record, Capacity: granule}, granule, granule, granule},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := open(t, tt.options)
			if tt.create > 0 {
				defer release(t, d, create(t, d, tt.create, hostvmm.HandleTypeNone))
			}
			var free, total uint64
			require.Equal(t, hostvmm.Success, d.MemGetInfo(&free, &total))
			assert.Equal(t, tt.wantFree, free)
			assert.Equal(t, tt.wantAll, total)
		})
	}
}

func TestCloseGivesEverythingBack(t *testing.T) {
	before := files(t)
	d, r := hostvmm.Open(0, hostvmm.Options{})
	require.Equal(t, hostvmm.Success, r)
	var va uint64
	require.Equal(t, hostvmm.Success, d.MemAddressReserve(&va, 4*granule, 0, 0, 0))
	allocate(t, d, va, granule)
	hostvmm.Bytes(va, 1)[0] = 1
	mapped := create(t, d, granule, hostvmm.HandleTypePosixFD)
	mapAt(t, d, va+2*granule, granule, mapped)
	idle := create(t, d, granule, hostvmm.HandleTypePosixFD)

	require.Equal(t, hostvmm.Success, d.Close())
	assert.Equal(t, hostvmm.Snapshot{Memory: &hostvmm.MemorySnapshot{}}, d.Snapshot())
	assert.Equal(t, before, files(t))
	assert.True(t, readFaults(va))
	assert.Equal(t, hostvmm.ErrorInvalidValue, d.MemRelease(idle))

	fresh := create(t, d, granule, hostvmm.HandleTypeNone)
	assert.Greater(t, fresh, idle, "handle numbers go on")
	require.Equal(t, hostvmm.Success, d.Close())
	assert.Equal(t, before, files(t))
}

var modes = map[string]hostvmm.Mode{"host": hostvmm.Host, "record": hostvmm.Record}
