package hostvmm

// A device answers the driver's functions. Out-parameters are results here, so
// that the pointers of a caller go no further than Driver and need not escape
// to the heap.
type device interface {
	deviceGetCount() (int32, Result)
	memGetAllocationGranularity(option int32) (uint64, Result)
	memAddressReserve(size, alignment, hint, flags uint64) (uint64, Result)
	memAddressFree(va, size uint64) Result
	memCreate(size uint64, handleType int32, flags uint64) (uint64, Result)
	memRelease(handle uint64) Result
	memMap(va, size, offset, handle, flags uint64) Result
	memUnmap(va, size uint64) Result
	memSetAccess(va, size uint64, access, device int32) Result
	memGetInfo() (free, total uint64, r Result)
	memExportToShareableHandle(handle uint64, handleType int32, flags uint64) (int32, Result)
	memImportFromShareableHandle(fd, handleType int32) (uint64, Result)

	snapshot() Snapshot
	close() Result
}

func newDevice(mode Mode, rules rules) device {
	if mode == Record {
		return newRecord(rules)
	}
	return newHost(rules)
}

// A Snapshot is what a driver holds at one moment.
type Snapshot struct {
	Reservations  int
	ReservedBytes uint64
	Memory        *MemorySnapshot // nil in mode Record, which keeps no account of memory
}

// A MemorySnapshot is the physical memory of a driver at one moment.
type MemorySnapshot struct {
	Handles      int    // handles that were not released
	CreatedBytes uint64 // memory that was created here and exists, also where only a mapping keeps it
	Mappings     int
	MappedBytes  uint64
}
