package hostvmm_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/backends/kit/hostvmm"
)

func TestRecordChecksWhatItCan(t *testing.T) {
	d := open(t, hostvmm.Options{Mode: hostvmm.Record})
	va := reserve(t, d, granule)
	handle := create(t, d, granule, hostvmm.HandleTypePosixFD)
	var fd int32
	var imported uint64
	for what, r := range map[string]hostvmm.Result{
		"map offset":          d.MemMap(va, granule, minGranule, handle, 0),
		"map flags":           d.MemMap(va, granule, 0, handle, 1),
		"map size 0":          d.MemMap(va, 0, 0, handle, 0),
		"map misaligned":      d.MemMap(va+1, granule, 0, handle, 0),
		"map no handle":       d.MemMap(va, granule, 0, 0, 0),
		"unmap misaligned":    d.MemUnmap(va+4096, granule),
		"unmap size 0":        d.MemUnmap(va, 0),
		"unmap past the end":  d.MemUnmap(va, 1<<64-granule),
		"unmap address 0":     d.MemUnmap(0, granule),
		"access unknown":      d.MemSetAccess(va, granule, 2, 0),
		"access misaligned":   d.MemSetAccess(va+4096, granule, hostvmm.AccessRead, 0),
		"release 0":           d.MemRelease(0),
		"export flags":        d.MemExportToShareableHandle(&fd, handle, hostvmm.HandleTypePosixFD, 1),
		"export without type": d.MemExportToShareableHandle(&fd, handle, hostvmm.HandleTypeNone, 0),
		"import without type": d.MemImportFromShareableHandle(&imported, 3, hostvmm.HandleTypeNone),
	} {
		assert.Equal(t, hostvmm.ErrorInvalidValue, r, what)
	}
	assert.Equal(t, hostvmm.ErrorInvalidDevice, d.MemSetAccess(va, granule, hostvmm.AccessRead, 1))
	assert.Equal(t, hostvmm.ErrorNotSupported, d.MemImportFromShareableHandle(&imported, 3, hostvmm.HandleTypePosixFD))
	assert.Equal(t, hostvmm.ErrorNotSupported, d.MemExportToShareableHandle(&fd, handle, hostvmm.HandleTypePosixFD, 0))
}

func TestRecordHasNoMemory(t *testing.T) {
	d := open(t, hostvmm.Options{Mode: hostvmm.Record})
	before := files(t)
	va := reserve(t, d, granule)
	require.Equal(t, hostvmm.Success, oneAllocation(d, va, granule))
	allocate(t, d, va, granule)
	assert.True(t, readFaults(va))
	assert.Equal(t, hostvmm.Snapshot{Reservations: 1, ReservedBytes: granule}, d.Snapshot())
	assert.Equal(t, before, files(t))
}

func TestRecordDoesNotAllocate(t *testing.T) {
	d := open(t, hostvmm.Options{Mode: hostvmm.Record})
	va := reserve(t, d, granule)
	require.Equal(t, hostvmm.Success, oneAllocation(d, va, granule))
	assert.Zero(t, testing.AllocsPerRun(1000, func() { oneAllocation(d, va, granule) }))
}
