package arena_test

import (
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

// A rig is a driver without memory below a real vmm.Device. It counts references to handles, and checks that nothing is
// used that is not there.
type rig struct {
	vmm.Driver
	t      *testing.T
	kind   vmm.HandleType // what its memory can be exported as
	memory uint64         // bytes, or 0 for any
	dmabuf bool
	counts bool // a handle lives as long as it is mapped

	mu sync.Mutex
	// The fields below are guarded by mu.
	last     uint64
	places   uint64 // where the next reservation is
	reserved map[uint64]uint64
	handles  map[uint64]uint64    // sizes
	mapped   map[uint64]placement // by address
	granted  map[uint64][]int     // devices, by address
	failing  map[vmm.Op]map[int]error
	calls    map[vmm.Op]int
	before   map[vmm.Op]func() // runs before a call, with no lock held
	fds      map[int]uint64    // handles, by descriptor
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return &rig{
		t: t, kind: vmm.HandleTypePosixFD, dmabuf: true, last: 100, places: base, reserved: map[uint64]uint64{}, handles: map[uint64]uint64{},
		mapped: map[uint64]placement{}, granted: map[uint64][]int{}, failing: map[vmm.Op]map[int]error{}, calls: map[vmm.Op]int{},
		before: map[vmm.Op]func(){}, fds: map[int]uint64{},
	}
}

func openRig(t *testing.T, d *rig, config arena.Config) *arena.Arena {
	t.Helper()
	device, err := vmm.NewDevice(d, 0)
	require.NoError(t, err)
	_, err = device.Probe()
	require.NoError(t, err)
	d.places = base // what the probe reserved has gone back
	return openConfig(t, device, 256, config)
}

// fail has the nth next call of an operation fail.
func (d *rig) fail(op vmm.Op, nth int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failing[op] == nil {
		d.failing[op] = map[int]error{}
	}
	d.failing[op][d.calls[op]+nth] = err
}

// enter begins a call: with the lock held when it does not fail.
func (d *rig) enter(op vmm.Op) error {
	d.mu.Lock()
	hook := d.before[op]
	d.mu.Unlock()
	if hook != nil {
		hook()
	}
	d.mu.Lock()
	d.calls[op]++
	if err := d.failing[op][d.calls[op]]; err != nil {
		d.mu.Unlock()
		return err
	}
	return nil
}

func (d *rig) called(op vmm.Op) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[op]
}

func (d *rig) left() (handles, mappings int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.handles), len(d.mapped)
}

func (d *rig) Backend() string { return "rig" }

func (d *rig) Capabilities() vmm.Capabilities {
	return vmm.Capabilities{ExportIsFree: true, ReleaseWhileMapped: d.counts}
}

func (d *rig) Quirks() vmm.Quirks { return vmm.Quirks{} }

func (d *rig) Granularity(vmm.Granularity, uint64) (uint64, error) { return granule, nil }

func (d *rig) Attribute(which vmm.Attribute) (int, error) {
	switch {
	case which == vmm.AttributePosixFD && d.kind == vmm.HandleTypePosixFD, which == vmm.AttributeFabric && d.kind == vmm.HandleTypeFabric:
		return 1, nil
	}
	return 0, nil
}

func (d *rig) Reserve(size, _, _ uint64) (uint64, error) {
	if err := d.enter(vmm.OpReserve); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	va := d.places
	d.places += 1 << 40
	d.reserved[va] = size
	return va, nil
}

func (d *rig) Unreserve(va, size uint64) error {
	if err := d.enter(vmm.OpUnreserve); err != nil {
		return err
	}
	defer d.mu.Unlock()
	for at := range d.mapped {
		if at-va < size {
			d.t.Errorf("something is still mapped at %#x in what is given back", at)
		}
	}
	delete(d.reserved, va)
	return nil
}

func (d *rig) used() (bytes uint64) {
	for _, size := range d.handles {
		bytes += size
	}
	return bytes
}

func (d *rig) Create(size uint64, _ vmm.HandleType, _ bool) (uint64, error) {
	if err := d.enter(vmm.OpCreate); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	if d.memory != 0 && d.used()+size > d.memory {
		return 0, vmm.ClassOutOfMemory
	}
	d.last++
	d.handles[d.last] = size
	return d.last, nil
}

func (d *rig) Release(handle uint64) error {
	err := d.enter(vmm.OpRelease)
	if err != nil {
		d.mu.Lock()
	}
	defer d.mu.Unlock()
	if _, there := d.handles[handle]; !there {
		d.t.Errorf("released handle %d, which is gone", handle)
	}
	for va, p := range d.mapped {
		if p.handle == handle {
			d.t.Errorf("released handle %d, which is mapped at %#x", handle, va)
		}
	}
	delete(d.handles, handle)
	return err
}

func (d *rig) Map(va, size, handle uint64) error {
	if err := d.enter(vmm.OpMap); err != nil {
		return err
	}
	defer d.mu.Unlock()
	for start, p := range d.mapped {
		if start < va+size && va < start+p.size {
			d.t.Errorf("mapped %d bytes at %#x over others", size, va)
		}
	}
	if _, there := d.handles[handle]; !there {
		d.t.Errorf("mapped handle %d, which is gone", handle)
	}
	d.mapped[va] = placement{size: size, handle: handle}
	return nil
}

func (d *rig) Unmap(va, size uint64) error {
	if err := d.enter(vmm.OpUnmap); err != nil {
		return err
	}
	defer d.mu.Unlock()
	if d.mapped[va].size != size {
		d.t.Errorf("unmapped %d bytes at %#x, expected %+v", size, va, d.mapped[va])
	}
	delete(d.mapped, va)
	delete(d.granted, va)
	return nil
}

func (d *rig) Grant(va, size uint64, device int) error {
	if err := d.enter(vmm.OpGrant); err != nil {
		return err
	}
	defer d.mu.Unlock()
	if d.mapped[va].size != size {
		return errNotThere
	}
	d.granted[va] = append(d.granted[va], device)
	return nil
}

func (d *rig) reaches(va uint64, device int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.granted[va], device)
}

func (d *rig) MemoryInfo() (free, total uint64, err error) {
	if err := d.enter(vmm.OpMemoryInfo); err != nil {
		return 0, 0, err
	}
	defer d.mu.Unlock()
	return d.memory - d.used(), d.memory, nil
}

// descriptor is one that is open.
func (d *rig) descriptor() int {
	fd, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	require.NoError(d.t, err)
	return fd
}

// isOpen tells whether a descriptor is.
func isOpen(fd int) bool {
	var s syscall.Stat_t
	return syscall.Fstat(fd, &s) == nil
}

func (d *rig) ExportFD(handle uint64) (int, error) {
	if err := d.enter(vmm.OpExportFD); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	if _, there := d.handles[handle]; !there {
		return 0, vmm.ClassInvalidArgument
	}
	fd := d.descriptor()
	d.fds[fd] = handle
	return fd, nil
}

// ImportFD gives a new handle of a granule.
func (d *rig) ImportFD(fd int) (uint64, error) {
	if err := d.enter(vmm.OpImportFD); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	assert.True(d.t, isOpen(fd))
	d.last++
	d.handles[d.last] = granule
	return d.last, nil
}

func (d *rig) ExportFabric(handle uint64) (fabric [64]byte, err error) {
	if err := d.enter(vmm.OpExportFabric); err != nil {
		return fabric, err
	}
	defer d.mu.Unlock()
	fabric[0], fabric[63] = byte(handle), 1
	return fabric, nil
}

func (d *rig) ImportFabric([64]byte) (uint64, error) {
	if err := d.enter(vmm.OpImportFabric); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	d.last++
	d.handles[d.last] = granule
	return d.last, nil
}

func (d *rig) ExportDmabuf(va, size uint64, _ bool) (int, error) {
	if err := d.enter(vmm.OpExportDmabuf); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	if !d.dmabuf {
		return 0, vmm.ClassNotSupported
	}
	for at := va; at < va+size; {
		m, there := d.mapped[at]
		if !there {
			return 0, vmm.ClassInvalidArgument
		}
		at += m.size
	}
	fd := d.descriptor()
	d.fds[fd] = 0
	return fd, nil
}

func (d *rig) ExchangeCaptureMode(vmm.CaptureMode) (vmm.CaptureMode, error) {
	return 0, vmm.ClassNotSupported
}

func (d *rig) StreamCapturing(uint64) (bool, error) { return false, vmm.ClassNotSupported }

func (d *rig) SyncStream(uint64) error { return vmm.ClassNotSupported }

func (d *rig) SyncDevice() error { return vmm.ClassNotSupported }
