package vmm

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
)

// A Device puts memory behind addresses of one device, and takes it away. It is
// the one composition of a Driver's operations. Its methods are safe for
// concurrent use.
type Device struct {
	driver   Driver
	ordinal  int
	granules [2]uint64 // by Granularity
	quirks   Quirks
	plan     plan // of an allocation
	counted  bool // a handle lives as long as it is mapped
	exported bool // handles are to be exportable also where that takes more

	sibling sync.Mutex
	sharing *Device // guarded by sibling

	probing  sync.Mutex
	probed   atomic.Pointer[Probe]
	waitless atomic.Bool // there is nothing to wait for before memory is unmapped
}

// askedSizes are how much memory a granularity is asked for, by Granularity. A driver
// whose granularity depends on that has its smallest for a byte; for very much, it has
// the one that large memory should be in.
var askedSizes = [2]uint64{GranularityMinimum: 1, GranularityRecommended: 1 << 30}

// hostPage is the page size of the host in bytes, a power of two.
var hostPage = func() uint64 { return uint64(os.Getpagesize()) }

// NewDevice asks a driver that was opened for the device with this ordinal what it needs
// to know. Its errors are the driver's.
func NewDevice(driver Driver, ordinal int) (*Device, error) {
	capabilities := driver.Capabilities()
	d := &Device{
		driver:  driver,
		ordinal: ordinal,
		quirks:  driver.Quirks(),
		plan:    planFor(capabilities, ordinal),
		counted: capabilities.ReleaseWhileMapped,
	}
	for _, kind := range []Granularity{GranularityMinimum, GranularityRecommended} {
		granule, err := driver.Granularity(kind, askedSizes[kind])
		if err != nil {
			return nil, err
		}
		if granule == 0 || granule&(granule-1) != 0 {
			return nil, &Error{
				Backend: driver.Backend(), Op: OpGranularity, Class: ClassUnknown,
				Detail: fmt.Sprintf("the driver answered %d, which is not a power of two", granule),
			}
		}
		// A transport registers whole pages of the host.
		d.granules[kind] = max(granule, hostPage())
	}
	return d, nil
}

// Driver is the driver below.
func (d *Device) Driver() Driver { return d.driver }

// Ordinal is the device's number, from 0.
func (d *Device) Ordinal() int { return d.ordinal }

// Exportable is the same device with handles that can be exported also where such a handle takes more than another. It is
// always the same one.
func (d *Device) Exportable() *Device {
	if d.exported || d.driver.Capabilities().ExportIsFree {
		return d
	}
	d.sibling.Lock()
	defer d.sibling.Unlock()
	if d.sharing == nil {
		d.sharing = &Device{
			driver: d.driver, ordinal: d.ordinal, granules: d.granules, quirks: d.quirks, plan: d.plan, counted: d.counted, exported: true,
		}
	}
	return d.sharing
}

// Granule is the allocation granularity in bytes, a power of two: the driver's, but at least a page of the host.
func (d *Device) Granule(kind Granularity) uint64 { return d.granules[kind] }

// Reserve reserves size bytes of addresses, aligned to granule: a power of two that size
// is a multiple of. A hint of 0 leaves the address to the driver.
func (d *Device) Reserve(size, granule, hint uint64) (uint64, error) {
	va, err := d.driver.Reserve(size, granule, hint)
	if err != nil {
		return 0, err
	}
	// Some drivers report success and give nothing, or less alignment than was asked for.
	if va != 0 && va%granule == 0 {
		return va, nil
	}
	refusal := &Error{
		Backend: d.driver.Backend(), Op: OpReserve, Class: ClassNotSupported, VA: va, Size: size,
		Detail: fmt.Sprintf("the driver reported success, expected an address that is a multiple of %d", granule),
	}
	if va == 0 {
		return 0, refusal
	}
	return 0, withUndo(refusal, d.driver.Unreserve(va, size))
}

// Unreserve gives back what Reserve gave.
func (d *Device) Unreserve(va, size uint64) error { return d.driver.Unreserve(va, size) }

// MaxHandle is the largest handle that this version of the driver creates, in bytes, or 0 for any.
func (d *Device) MaxHandle() uint64 { return d.quirks.MaxHandle }

// Allocate puts new memory behind [va, va+size) and gives its handle. When an
// operation fails, those before it are undone in reverse; a failure to undo is
// reported beside the first one. If the error wraps ErrQuarantined, the handle is
// still mapped and can be given to Release later.
func (d *Device) Allocate(va, size uint64) (handle uint64, err error) {
	if limit := d.quirks.MaxHandle; limit != 0 && size > limit {
		return 0, &Error{
			Backend: d.driver.Backend(), Op: OpCreate, Class: ClassNotSupported, VA: va, Size: size,
			Detail: fmt.Sprintf("this version of the driver has no handles of more than %d bytes", limit),
		}
	}
	probe := d.probed.Load()
	if probe == nil {
		if probe, err = d.Probe(); err != nil {
			return 0, err
		}
	}
	// As do does with the plan, in a straight line: it is what every allocation of an arena waits for.
	if handle, err = d.driver.Create(size, probe.HandleType, probe.RDMA); err != nil {
		return 0, err
	}
	done := 1
	if err = d.driver.Map(va, size, handle); err == nil {
		done++
		if len(d.plan) > 2 {
			err = d.driver.Grant(va, size, d.ordinal)
		}
	}
	if err != nil {
		err = d.undo(d.plan[:done], &placement{va: va, size: size, handle: handle}, err)
	}
	return handle, err
}

// Attach puts the memory of a handle behind [va, va+size): one that Detach kept, or one that was imported. It fails like
// Allocate; the handle stays the caller's.
func (d *Device) Attach(va, size, handle uint64) error {
	return d.do(d.plan[1:], &placement{va: va, size: size, handle: handle})
}

// Detach unmaps the memory behind [va, va+size) and keeps its handle.
func (d *Device) Detach(va, size uint64) error { return d.driver.Unmap(va, size) }

// Destroy releases a handle that is not mapped.
func (d *Device) Destroy(handle uint64) error { return d.driver.Release(handle) }

// Grant lets another device reach what is mapped at [va, va+size), which is one mapping.
func (d *Device) Grant(va, size uint64, device int) error { return d.driver.Grant(va, size, device) }

// Release unmaps the memory behind [va, va+size) and releases its handle. All
// failures are reported in one error. Where the driver keeps a handle alive
// until it is unmapped, both steps are tried; elsewhere a failed unmap keeps the handle
// (ErrQuarantined).
func (d *Device) Release(va, size, handle uint64) error {
	unmapped := d.driver.Unmap(va, size)
	if unmapped != nil && !d.counted {
		return fmt.Errorf("%w: %w", ErrQuarantined, unmapped)
	}
	return withUndo(unmapped, d.driver.Release(handle))
}

// MemoryInfo tells how much memory the device has in bytes.
func (d *Device) MemoryInfo() (free, total uint64, err error) { return d.driver.MemoryInfo() }

// lockThread keeps the calling goroutine on its thread until unlock is called: what a driver keeps for a thread holds there only.
func lockThread() (unlock func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
