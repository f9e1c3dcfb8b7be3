package arena

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/arenagen/arenagen/arena/vmm"
)

// ErrNotMapped says that no region of the arena begins at an address, or that it was taken away meanwhile.
var ErrNotMapped = errors.New("no region begins at the address")

// FabricHandle is what another process imports on any machine of the fabric.
type FabricHandle = [64]byte

// shared remembers which handles were given to other processes: such memory is not used for something else before it was released.
type shared struct {
	any     atomic.Bool // some were
	mu      sync.Mutex
	handles map[uint64]struct{} // guarded by mu

	trial  sync.Mutex
	dmabuf *bool // guarded by trial; whether mapped memory can be exported as a dmabuf, once that is known
}

func (s *shared) has(handle uint64) bool {
	if !s.any.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.handles[handle]
	return ok
}

func (s *shared) add(handle uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handles == nil {
		s.handles = make(map[uint64]struct{})
	}
	s.handles[handle] = struct{}{}
	s.any.Store(true)
}

func (s *shared) remove(handle uint64) {
	if !s.any.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.handles, handle)
}

// driver is the driver below, without which memory cannot be shared.
func (a *Arena) driver() (*vmm.Device, error) {
	device, ok := a.Backend().(*vmm.Device)
	if !ok {
		return nil, fmt.Errorf("sharing the memory of an arena over callbacks: %w", vmm.ClassNotSupported)
	}
	if lost := a.lost.Load(); lost != nil {
		return nil, lost.err
	}
	return device, nil
}

// ExportFD gives the memory of the region that begins at an address to another process, as a file descriptor that the caller
// closes. The region is one of RegionsPosixFD. The other process can use the memory also after it was freed here. It fails with ErrNotMapped,
// and with vmm.ClassNotSupported where the memory cannot be exported so.
func (a *Arena) ExportFD(va uint64) (fd int, err error) {
	err = a.export(va, func(device *vmm.Device, m mapping) (undo func() error, err error) {
		fd, err = device.Driver().ExportFD(m.handle)
		return func() error { return os.NewFile(uintptr(fd), "").Close() }, err
	})
	return fd, err
}

// ExportFabric is ExportFD for the processes of a fabric. The region is one of RegionsFabric.
func (a *Arena) ExportFabric(va uint64) (handle FabricHandle, err error) {
	err = a.export(va, func(device *vmm.Device, m mapping) (undo func() error, err error) {
		handle, err = device.Driver().ExportFabric(m.handle)
		return func() error { return nil }, err
	})
	return handle, err
}

// ExportDmabuf gives size bytes from an address on, which lie in one of RegionsDmabuf, to another device's driver as a dmabuf that the caller
// closes. Both are multiples of the host's page. pcie asks for the way over PCIe on machines with a faster one.
func (a *Arena) ExportDmabuf(va, size uint64, pcie bool) (fd int, err error) {
	device, err := a.driver()
	if err != nil {
		return 0, err
	}
	f, ok := a.admit()
	if !ok {
		return 0, ErrClosed
	}
	defer a.land(f)
	page := uint64(os.Getpagesize())
	if size == 0 || va%page != 0 || size%page != 0 {
		return 0, invalid("a dmabuf must begin at and have a multiple of %d bytes, got %#x and %d", page, va, size)
	}
	for _, r := range a.runs(page) {
		if va >= r.Base && va-r.Base < r.Length && size <= r.Length-(va-r.Base) {
			a.shareRange(va, size)
			return device.Driver().ExportDmabuf(va, size, pcie)
		}
	}
	return 0, fmt.Errorf("a dmabuf of %d bytes at %#x: %w", size, va, ErrNotMapped)
}

// shareRange remembers the handles behind a range as given away.
func (a *Arena) shareRange(va, size uint64) {
	for _, m := range a.mappings() {
		if a.cache.budget > 0 && m.start < va+size && va < m.start+m.size {
			a.shared.add(m.handle)
		}
	}
}

// export gives a handle away. Nothing holds the region meanwhile: when it was taken away, what was exported may be something else, and goes.
func (a *Arena) export(va uint64, by func(*vmm.Device, mapping) (undo func() error, err error)) error {
	device, err := a.driver()
	if err != nil {
		return err
	}
	f, ok := a.admit()
	if !ok {
		return ErrClosed
	}
	defer a.land(f)
	m, ok := a.mappingAt(va)
	if !ok || m.start != va {
		return fmt.Errorf("export at %#x: %w", va, ErrNotMapped)
	}
	if a.cache.budget > 0 {
		a.shared.add(m.handle)
	}
	undo, err := by(device, m)
	if err != nil {
		return err
	}
	if !a.stillThere(m) {
		return joined(fmt.Errorf("export at %#x: %w", va, ErrNotMapped), undo())
	}
	return nil
}

// ImportFD puts memory that another process exported, of size bytes, behind addresses of this arena, and returns the first. It is freed like
// an allocation. The file descriptor stays the caller's. It fails like Allocate, and with what the driver says of the descriptor.
func (a *Arena) ImportFD(fd int, size int64) (va uint64, err error) {
	return a.importHandle(size, func(device *vmm.Device) (uint64, error) { return device.Driver().ImportFD(fd) })
}

// ImportFabric is ImportFD for memory of a process of the fabric.
func (a *Arena) ImportFabric(handle FabricHandle, size int64) (va uint64, err error) {
	return a.importHandle(size, func(device *vmm.Device) (uint64, error) { return device.Driver().ImportFabric(handle) })
}

func (a *Arena) importHandle(size int64, by func(*vmm.Device) (uint64, error)) (uint64, error) {
	rounded, err := a.check(Request{Size: size})
	if err != nil {
		return 0, a.refuse(err)
	}
	device, err := a.driver()
	if err != nil {
		return 0, a.refuse(err)
	}
	f, va, err := a.addresses(size, rounded)
	if err != nil {
		return 0, a.refuse(err)
	}
	defer a.land(f)
	told, began := a.audience(), a.start()
	r := record{key: (va-a.base)>>a.shift + 1, size: rounded, birth: a.birthOf(0) | importedBit}
	r.handle, err = by(device)
	if err == nil {
		if err = a.attach(va, rounded, r.handle); err == nil && told.peers != nil {
			err = a.grantNew(va, rounded, r.handle)
		}
	}
	if began != 0 && err == nil {
		a.note(EventImported, Event{Address: va, Size: rounded, Handle: r.handle, Took: since(began)})
	}
	if err = a.record(r, err); err != nil {
		return 0, err
	}
	if err := a.catchUp(told, r); err != nil {
		return 0, err
	}
	return va, nil
}

// exportsOf are the ways in which a mapping can be given away.
func (a *Arena) exportsOf(m mapping) (exports Exports) {
	device, err := a.driver()
	if err != nil {
		return 0
	}
	probe, err := device.Probe()
	if err != nil {
		return 0
	}
	switch probe.HandleType {
	case vmm.HandleTypePosixFD:
		exports |= ExportsPosixFD
	case vmm.HandleTypeFabric:
		exports |= ExportsFabric
	}
	if a.shared.dmabufs(device, m) {
		exports |= ExportsDmabuf
	}
	return exports
}

// dmabufs tells whether mapped memory can be exported as a dmabuf. It is found out by doing, with the first mapping that is asked about.
func (s *shared) dmabufs(device *vmm.Device, m mapping) bool {
	s.trial.Lock()
	defer s.trial.Unlock()
	if s.dmabuf != nil {
		return *s.dmabuf
	}
	fd, err := device.Driver().ExportDmabuf(m.start, m.size, false)
	if err == nil {
		err = os.NewFile(uintptr(fd), "").Close()
	}
	works := err == nil
	// Another failure may be about this mapping, which may be gone by now.
	if works || errors.Is(err, vmm.ClassNotSupported) {
		s.dmabuf = &works
	}
	return works
}
