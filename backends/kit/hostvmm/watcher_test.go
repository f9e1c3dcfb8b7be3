package hostvmm_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/backends/kit/hostvmm"
)

// callEverything calls every function once, with arguments that tell the
// functions apart, and returns what is to be found in the log.
func callEverything(d *hostvmm.Driver) []hostvmm.Call {
	var calls []hostvmm.Call
	log := func(function hostvmm.Function, r hostvmm.Result, arguments ...uint64) {
		call := hostvmm.Call{Sequence: uint64(len(calls)), Function: function, Result: r}
		copy(call.Arguments[:], arguments)
		calls = append(calls, call)
	}
	var count, fd int32
	var bytes, va, handle, free, total uint64

	r := d.DeviceGetCount(&count)
	log(hostvmm.DeviceGetCount, r, uint64(count))
	r = d.MemGetAllocationGranularity(&bytes, hostvmm.GranularityRecommended)
	log(hostvmm.MemGetAllocationGranularity, r, bytes, 1)
	r = d.MemAddressReserve(&va, 2*granule, minGranule, 4096, 0)
	log(hostvmm.MemAddressReserve, r, va, 2*granule, minGranule, 4096, 0)
	r = d.MemCreate(&handle, granule, hostvmm.HandleTypePosixFD, 0)
	log(hostvmm.MemCreate, r, handle, granule, 1, 0)
	r = d.MemMap(va, granule, 0, handle, 0)
	log(hostvmm.MemMap, r, va, granule, 0, handle, 0)
	r = d.MemSetAccess(va, granule, hostvmm.AccessReadWrite, 1)
	log(hostvmm.MemSetAccess, r, va, granule, 3, 1)
	r = d.MemGetInfo(&free, &total)
	log(hostvmm.MemGetInfo, r, free, total)
	r = d.MemExportToShareableHandle(&fd, handle, -1, 7)
	log(hostvmm.MemExportToShareableHandle, r, uint64(fd), handle, 1<<64-1, 7)
	imported := uint64(0)
	r = d.MemImportFromShareableHandle(&imported, -1, -1)
	log(hostvmm.MemImportFromShareableHandle, r, imported, 1<<64-1, 1<<64-1)
	r = d.MemUnmap(va, granule)
	log(hostvmm.MemUnmap, r, va, granule)
	r = d.MemRelease(handle)
	log(hostvmm.MemRelease, r, handle)
	r = d.MemAddressFree(va, 2*granule)
	log(hostvmm.MemAddressFree, r, va, 2*granule)
	return calls
}

func TestCalls(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			d := open(t, hostvmm.Options{Mode: mode, Devices: 2, Log: 100})
			assert.Empty(t, d.Calls())
			want := callEverything(d)
			assert.Equal(t, want, d.Calls())
			for _, call := range want {
				switch call.Function {
				case hostvmm.MemExportToShareableHandle, hostvmm.MemImportFromShareableHandle:
					assert.Equal(t, hostvmm.ErrorInvalidValue, call.Result, "a refused call is remembered too")
				default:
					assert.Equal(t, hostvmm.Success, call.Result, call.Function)
				}
			}
		})
	}
}

func TestCallsKeepsTheLatest(t *testing.T) {
	for _, length := range []uint64{1, 3, 11, 12} {
		d := open(t, hostvmm.Options{Devices: 2, Log: length})
		all := callEverything(d)
		assert.Equal(t, all[uint64(len(all))-length:], d.Calls())
	}
}

func TestCallsWithoutLog(t *testing.T) {
	d := open(t, hostvmm.Options{Devices: 2})
	require.Equal(t, hostvmm.Success, d.Inject(hostvmm.Fault{Function: hostvmm.MemMap, Skip: 100, Result: hostvmm.ErrorDeviceLost}))
	callEverything(d)
	assert.Empty(t, d.Calls())
}

func TestInjectInEveryFunction(t *testing.T) {
	for name, mode := range modes {
		d := open(t, hostvmm.Options{Mode: mode, Devices: 2, Log: 100})
		for _, call := range callEverything(d) {
			t.Run(name+"/"+string(call.Function), func(t *testing.T) {
				d, r := hostvmm.Open(0, hostvmm.Options{Mode: mode, Devices: 2, Log: 100})
				require.Equal(t, hostvmm.Success, r)
				defer d.Close()
				require.Equal(t, hostvmm.Success, d.Inject(hostvmm.Fault{Function: call.Function, Result: hostvmm.ErrorDeviceLost}))
				calls := callEverything(d)
				assert.Equal(t, calls, d.Calls(), "the failure stored nothing")
				assert.Equal(t, hostvmm.ErrorDeviceLost, calls[call.Sequence].Result)
				assert.Equal(t, 1, count(calls, hostvmm.ErrorDeviceLost))
			})
		}
	}
}

func count(calls []hostvmm.Call, r hostvmm.Result) int {
	n := 0
	for _, call := range calls {
		if call.Result == r {
			n++
		}
	}
	return n
}

func TestInject(t *testing.T) {
	const lost, full = hostvmm.ErrorDeviceLost, hostvmm.ErrorOutOfMemory
	tests := []struct {
		name   string
		faults []hostvmm.Fault
		want   [5]hostvmm.Result // of five calls of MemUnmap, which succeed otherwise
	}{
		{"first", []hostvmm.Fault{{Function: hostvmm.MemUnmap, Result: lost}}, [5]hostvmm.Result{lost}},
		{"third", []hostvmm.Fault{{Function: hostvmm.MemUnmap, Skip: 2, Result: lost}}, [5]hostvmm.Result{2: lost}},
		{"third and later", []hostvmm.Fault{{Function: hostvmm.MemUnmap, Skip: 2, Result: lost, Sticky: true}}, [5]hostvmm.Result{2: lost, 3: lost, 4: lost}},
		{"another function", []hostvmm.Fault{{Function: hostvmm.MemMap, Result: lost}}, [5]hostvmm.Result{}},
		{"any function", []hostvmm.Fault{{Skip: 1, Result: lost}}, [5]hostvmm.Result{1: lost}},
		{"a number without a name", []hostvmm.Fault{{Result: 12345}}, [5]hostvmm.Result{12345}},
		{"two apart", []hostvmm.Fault{
			{Function: hostvmm.MemUnmap, Skip: 1, Result: lost}, {Function: hostvmm.MemUnmap, Skip: 3, Result: full},
		}, [5]hostvmm.Result{1: lost, 3: full}},
		{"two at once", []hostvmm.Fault{
			{Function: hostvmm.MemUnmap, Result: lost}, {Result: full},
		}, [5]hostvmm.Result{lost, full}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := open(t, hostvmm.Options{Mode: hostvmm.Record})
			for _, fault := range tt.faults {
				require.Equal(t, hostvmm.Success, d.Inject(fault))
			}
			var got [5]hostvmm.Result
			for i := range got {
				got[i] = d.MemUnmap(granule, granule)
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestInjectRefuses(t *testing.T) {
	d := open(t, hostvmm.Options{})
	assert.Equal(t, hostvmm.ErrorInvalidValue, d.Inject(hostvmm.Fault{Function: "MemUnmapp", Result: hostvmm.ErrorDeviceLost}))
	assert.Equal(t, hostvmm.ErrorInvalidValue, d.Inject(hostvmm.Fault{Function: hostvmm.MemUnmap}))
}

func TestInjectedFaultsChangeNothing(t *testing.T) {
	d, r := hostvmm.Open(0, hostvmm.Options{})
	require.Equal(t, hostvmm.Success, r)
	defer d.Close()
	var va uint64
	require.Equal(t, hostvmm.Success, d.MemAddressReserve(&va, granule, 0, 0, 0))
	handle := create(t, d, granule, hostvmm.HandleTypePosixFD)
	mapAt(t, d, va, granule, handle)
	before, descriptors := d.Snapshot(), files(t)

	require.Equal(t, hostvmm.Success, d.Inject(hostvmm.Fault{Result: hostvmm.ErrorDeviceLost, Sticky: true}))
	for _, call := range callEverything(d) {
		assert.Equal(t, hostvmm.ErrorDeviceLost, call.Result, call.Function)
	}
	for _, r := range []hostvmm.Result{d.MemUnmap(va, granule), d.MemRelease(handle), d.MemAddressFree(va, granule)} {
		assert.Equal(t, hostvmm.ErrorDeviceLost, r)
	}
	assert.Equal(t, before, d.Snapshot())
	assert.Equal(t, descriptors, files(t))
}
