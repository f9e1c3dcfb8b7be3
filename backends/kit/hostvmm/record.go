package hostvmm

import (
	"sync/atomic"

	"golang.org/x/sys/cpu"
)

// A record is a device without memory. Reservations are real, so that their
// addresses are nobody else's; all else is numbers. Its calls take no lock,
// allocate nothing and leave nothing behind.
type record struct {
	space
	_    cpu.CacheLinePad // every create writes last; what the other calls read must not travel with it
	last atomic.Uint64    // the latest handle
	_    cpu.CacheLinePad
}

func newRecord(rules rules) *record {
	return &record{space: newSpace(rules)}
}

func (d *record) memCreate(size uint64, handleType int32, flags uint64) (uint64, Result) {
	if r := d.checkCreate(size, handleType, flags); r != Success {
		return 0, r
	}
	return d.last.Add(1), Success
}

func (d *record) memRelease(handle uint64) Result {
	return check(handle != 0)
}

func (d *record) memMap(va, size, offset, handle, flags uint64) Result {
	return d.checkMap(va, size, offset, handle, flags)
}

func (d *record) memUnmap(va, size uint64) Result {
	return d.checkRange(va, size)
}

func (d *record) memSetAccess(va, size uint64, access, device int32) Result {
	return d.checkAccess(va, size, access, device)
}

func (d *record) memGetInfo() (free, total uint64, r Result) {
	total, r = d.total()
	return total, total, r
}

func (d *record) memExportToShareableHandle(handle uint64, handleType int32, flags uint64) (int32, Result) {
	if r := d.checkExport(handle, handleType, flags); r != Success {
		return 0, r
	}
	return 0, ErrorNotSupported
}

func (d *record) memImportFromShareableHandle(_, handleType int32) (uint64, Result) {
	if r := d.checkImport(handleType); r != Success {
		return 0, r
	}
	return 0, ErrorNotSupported
}
