// Package hostvmm is host memory under the rules of a GPU driver: the driver
// behind the stub backend.
//
// It has the shape of a C driver, so that everything that is written or
// generated for a vendor's driver works on a machine without a GPU: functions
// take plain numbers, out-parameters come first and by pointer, and every
// function answers a [Result]. An out-parameter is written on success only.
//
// In mode [Host] the memory is real, and so are the rules:
//
//   - A reservation is a range of addresses that faults when it is touched.
//   - A handle is physical memory that exists before it is mapped. Its pages
//     come from the host at the first touch and go back when neither the handle
//     nor a mapping is left.
//   - Mapping puts a handle into a reservation without access; granting access
//     is a step of its own. One handle can be mapped at several addresses.
//   - Unmapping makes the addresses a plain reservation again, at once and
//     without a moment in which somebody else could get them.
//
// The kernel limits how many mappings a process has (vm.max_map_count, usually
// 65530). All drivers of a process together leave a sixteenth of that to the
// rest of the process, and answer [ErrorOutOfMemory] instead of using it: about
// 60,000 mappings can be live at a time, and unmapping one always works.
//
// In mode [Record] reservations are the same, and the other functions check
// what they can without remembering anything, hand out numbers and succeed. No
// memory stands behind them.
package hostvmm

import "sync/atomic"

// A Mode says what stands behind an address.
type Mode uint64

// The modes of a driver.
const (
	Host   Mode = 0 // real memory that can be read and written
	Record Mode = 1 // addresses that nothing backs
)

// The numbers that functions take.
const (
	GranularityMinimum     int32 = 0
	GranularityRecommended int32 = 1

	HandleTypeNone    int32 = 0 // the handle stays in this process
	HandleTypePosixFD int32 = 1 // the handle can be exported as a file descriptor

	AccessNone      int32 = 0
	AccessRead      int32 = 1
	AccessReadWrite int32 = 3
)

// Options is how a device is opened. The zero value is a good one.
type Options struct {
	Mode       Mode
	Devices    uint64 // how many devices there are, up to 64; 0 means 1
	Capacity   uint64 // bytes of physical memory; 0 means as much as the host gives. Mode Record only reports it
	MinGranule uint64 // bytes, a power of two and a multiple of the host's page; 0 means 64 KiB
	Granule    uint64 // bytes, a power of two of at least MinGranule; 0 means 2 MiB
	Log        uint64 // how many of the latest calls are remembered, up to 1,048,576; 0 means none
}

// A Driver is one open device with its own memory and its own handles: a handle
// means nothing to another Driver. All methods are safe for concurrent use,
// except where they say otherwise.
//
// A Driver is meant to live as long as the process and need not be closed.
type Driver struct {
	// current answers the calls: the mode's own device, or the watcher in front of it.
	current atomic.Pointer[device]
	watcher *watcher
}

// Open opens the device with the given ordinal, counted from 0. It answers
// ErrorInvalidDevice if there is no such device, and ErrorInvalidValue if an
// option is out of its range.
func Open(ordinal int, options Options) (*Driver, Result) {
	rules, r := newRules(options)
	if r != Success {
		return nil, r
	}
	if ordinal < 0 || ordinal >= int(rules.devices) {
		return nil, ErrorInvalidDevice
	}
	d := &Driver{watcher: &watcher{device: newDevice(options.Mode, rules), log: callLog{capacity: options.Log}}}
	if options.Log > 0 {
		d.use(d.watcher)
	} else {
		d.use(d.watcher.device)
	}
	return d, Success
}

// HostMemory tells whether the CPU can read and write what is mapped.
func (d *Driver) HostMemory() bool {
	_, memory := d.watcher.device.(*host)
	return memory
}

// Close gives back everything that the driver still holds: mappings,
// reservations, handles and descriptors. Nothing may use the driver or its
// memory meanwhile. Afterwards it is as it was when it was opened, except that
// its handle numbers, its log and its injected faults go on.
func (d *Driver) Close() Result { return d.device().close() }

// Snapshot counts what the driver holds at this moment. Calls that are going on
// meanwhile may be counted in part.
func (d *Driver) Snapshot() Snapshot { return d.device().snapshot() }

// Calls returns the latest calls, oldest first, at most as many as Options.Log
// says.
func (d *Driver) Calls() []Call { return d.watcher.log.calls() }

// Inject makes a later call fail, as the fault says. It is for tests. It
// answers ErrorInvalidValue if the fault's function does not exist or its
// result is no failure.
func (d *Driver) Inject(fault Fault) Result {
	if r := d.watcher.faults.add(fault); r != Success {
		return r
	}
	d.use(d.watcher)
	return Success
}

// DeviceGetCount stores the number of devices in count.
func (d *Driver) DeviceGetCount(count *int32) Result {
	if count == nil {
		return ErrorInvalidValue
	}
	n, r := d.device().deviceGetCount()
	if r == Success {
		*count = n
	}
	return r
}

// MemGetAllocationGranularity stores the granularity in bytes. The option is
// GranularityMinimum, of which every size and address is a multiple, or
// GranularityRecommended.
func (d *Driver) MemGetAllocationGranularity(granularity *uint64, option int32) Result {
	if granularity == nil {
		return ErrorInvalidValue
	}
	bytes, r := d.device().memGetAllocationGranularity(option)
	if r == Success {
		*granularity = bytes
	}
	return r
}

// MemAddressReserve reserves size bytes of addresses, a multiple of the minimum
// granularity, and stores the first one in ptr. The alignment is a power of
// two; 0 means the recommended granularity. With addr not 0 the reservation
// begins there if that is aligned and free, else somewhere else. The flags must
// be 0. It answers ErrorOutOfMemory when the host has no such range.
func (d *Driver) MemAddressReserve(ptr *uint64, size, alignment, addr, flags uint64) Result {
	if ptr == nil {
		return ErrorInvalidValue
	}
	va, r := d.device().memAddressReserve(size, alignment, addr, flags)
	if r == Success {
		*ptr = va
	}
	return r
}

// MemAddressFree gives a reservation back. It must be named exactly as it was
// reserved, and nothing may be mapped in it.
func (d *Driver) MemAddressFree(ptr, size uint64) Result {
	return d.device().memAddressFree(ptr, size)
}

// MemCreate creates physical memory of size bytes, a multiple of the minimum
// granularity, and stores its handle, which is never 0 and never used again.
// The handleType is HandleTypeNone or HandleTypePosixFD; the flags must be 0. It
// answers ErrorOutOfMemory when the device's capacity does not suffice or the
// host refuses, and ErrorOperatingSystem when no descriptor is left.
func (d *Driver) MemCreate(handle *uint64, size uint64, handleType int32, flags uint64) Result {
	if handle == nil {
		return ErrorInvalidValue
	}
	number, r := d.device().memCreate(size, handleType, flags)
	if r == Success {
		*handle = number
	}
	return r
}

// MemRelease gives a handle back. Its memory lives on while it is mapped.
func (d *Driver) MemRelease(handle uint64) Result {
	return d.device().memRelease(handle)
}

// MemMap maps the first size bytes of a handle at ptr, without access. Both are
// multiples of the minimum granularity, the range lies in one reservation, and
// nothing is mapped in it. The offset and the flags must be 0. It answers
// ErrorOutOfMemory when no kernel mapping is left.
func (d *Driver) MemMap(ptr, size, offset, handle, flags uint64) Result {
	return d.device().memMap(ptr, size, offset, handle, flags)
}

// MemUnmap takes one mapping, or several that follow each other without a hole,
// out of a reservation. They must be covered whole.
func (d *Driver) MemUnmap(ptr, size uint64) Result {
	return d.device().memUnmap(ptr, size)
}

// MemSetAccess says how a device can access one mapping, or several that follow
// each other without a hole: AccessNone, AccessRead or AccessReadWrite. They must
// be covered whole. When it fails for several mappings, some may have changed.
// It answers ErrorInvalidDevice for a device that there is not. Host memory has
// one owner, so that for all devices the latest access holds, whichever is named.
func (d *Driver) MemSetAccess(ptr, size uint64, access, device int32) Result {
	return d.device().memSetAccess(ptr, size, access, device)
}

// MemGetInfo stores how many bytes can still be created, and how many there are
// in all: the capacity, or the host's memory when that is 0. Either may be more
// than the host can really give. In mode Record everything is always free.
func (d *Driver) MemGetInfo(free, total *uint64) Result {
	if free == nil || total == nil {
		return ErrorInvalidValue
	}
	freeBytes, totalBytes, r := d.device().memGetInfo()
	if r == Success {
		*free, *total = freeBytes, totalBytes
	}
	return r
}

// MemExportToShareableHandle stores a file descriptor of the handle's memory,
// which the caller closes. The descriptor is closed on exec, and its file cannot
// be resized. The handleType is HandleTypePosixFD, with which the handle must
// have been created; the flags must be 0. In mode Record it answers
// ErrorNotSupported.
func (d *Driver) MemExportToShareableHandle(fd *int32, handle uint64, handleType int32, flags uint64) Result {
	if fd == nil {
		return ErrorInvalidValue
	}
	descriptor, r := d.device().memExportToShareableHandle(handle, handleType, flags)
	if r == Success {
		*fd = descriptor
	}
	return r
}

// MemImportFromShareableHandle stores a handle of memory that a driver exported
// as a file descriptor, in this process or in another one. The descriptor stays
// the caller's. The memory lives as long as a handle or a mapping refers to it in
// any of the processes, and its handle can be exported again. It exists elsewhere,
// so that it takes nothing of this device's capacity and does not count as
// created here.
//
// The handleType must be HandleTypePosixFD. It answers ErrorInvalidValue for a
// descriptor that is no such memory, or whose size is no multiple of this
// device's minimum granularity, and ErrorNotSupported in mode Record.
func (d *Driver) MemImportFromShareableHandle(handle *uint64, fd, handleType int32) Result {
	if handle == nil {
		return ErrorInvalidValue
	}
	number, r := d.device().memImportFromShareableHandle(fd, handleType)
	if r == Success {
		*handle = number
	}
	return r
}

func (d *Driver) device() device { return *d.current.Load() }

func (d *Driver) use(answering device) { d.current.Store(&answering) }
