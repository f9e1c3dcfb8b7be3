package hostvmm

// A watcher stands in front of a device: it lets calls fail that are due to fail
// and remembers all calls.
type watcher struct {
	device
	faults faultList
	log    callLog
}

func (w *watcher) deviceGetCount() (count int32, r Result) {
	if r = w.faults.next(DeviceGetCount); r == Success {
		count, r = w.device.deviceGetCount()
	}
	w.log.add(DeviceGetCount, r, uint64(count))
	return count, r
}

func (w *watcher) memGetAllocationGranularity(option int32) (granularity uint64, r Result) {
	if r = w.faults.next(MemGetAllocationGranularity); r == Success {
		granularity, r = w.device.memGetAllocationGranularity(option)
	}
	w.log.add(MemGetAllocationGranularity, r, granularity, uint64(option))
	return granularity, r
}

func (w *watcher) memAddressReserve(size, alignment, hint, flags uint64) (va uint64, r Result) {
	if r = w.faults.next(MemAddressReserve); r == Success {
		va, r = w.device.memAddressReserve(size, alignment, hint, flags)
	}
	w.log.add(MemAddressReserve, r, va, size, alignment, hint, flags)
	return va, r
}

func (w *watcher) memAddressFree(va, size uint64) (r Result) {
	if r = w.faults.next(MemAddressFree); r == Success {
		r = w.device.memAddressFree(va, size)
	}
	w.log.add(MemAddressFree, r, va, size)
	return r
}

func (w *watcher) memCreate(size uint64, handleType int32, flags uint64) (handle uint64, r Result) {
	if r = w.faults.next(MemCreate); r == Success {
		handle, r = w.device.memCreate(size, handleType, flags)
	}
	w.log.add(MemCreate, r, handle, size, uint64(handleType), flags)
	return handle, r
}

func (w *watcher) memRelease(handle uint64) (r Result) {
	if r = w.faults.next(MemRelease); r == Success {
		r = w.device.memRelease(handle)
	}
	w.log.add(MemRelease, r, handle)
	return r
}

func (w *watcher) memMap(va, size, offset, handle, flags uint64) (r Result) {
	if r = w.faults.next(MemMap); r == Success {
		r = w.device.memMap(va, size, offset, handle, flags)
	}
	w.log.add(MemMap, r, va, size, offset, handle, flags)
	return r
}

func (w *watcher) memUnmap(va, size uint64) (r Result) {
	if r = w.faults.next(MemUnmap); r == Success {
		r = w.device.memUnmap(va, size)
	}
	w.log.add(MemUnmap, r, va, size)
	return r
}

func (w *watcher) memSetAccess(va, size uint64, access, device int32) (r Result) {
	if r = w.faults.next(MemSetAccess); r == Success {
		r = w.device.memSetAccess(va, size, access, device)
	}
	w.log.add(MemSetAccess, r, va, size, uint64(access), uint64(device))
	return r
}

func (w *watcher) memGetInfo() (free, total uint64, r Result) {
	if r = w.faults.next(MemGetInfo); r == Success {
		free, total, r = w.device.memGetInfo()
	}
	w.log.add(MemGetInfo, r, free, total)
	return free, total, r
}

func (w *watcher) memExportToShareableHandle(handle uint64, handleType int32, flags uint64) (fd int32, r Result) {
	if r = w.faults.next(MemExportToShareableHandle); r == Success {
		fd, r = w.device.memExportToShareableHandle(handle, handleType, flags)
	}
	w.log.add(MemExportToShareableHandle, r, uint64(fd), handle, uint64(handleType), flags)
	return fd, r
}

func (w *watcher) memImportFromShareableHandle(fd, handleType int32) (handle uint64, r Result) {
	if r = w.faults.next(MemImportFromShareableHandle); r == Success {
		handle, r = w.device.memImportFromShareableHandle(fd, handleType)
	}
	w.log.add(MemImportFromShareableHandle, r, handle, uint64(fd), uint64(handleType))
	return handle, r
}
