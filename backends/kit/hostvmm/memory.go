package hostvmm

import (
	"maps"
	"math"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// A memory is some physical memory: a part of a file. It lives as long as its
// handle or a mapping refers to it.
type memory struct {
	fd         int
	offset     uint64
	size       uint64
	exportable bool // the file is its own, else it is the store's
	imported   bool // it was created elsewhere, and counts there
	references int  // the handle, and each mapping
}

func (m *memory) backing() backing { return fileBacking(m.fd, m.offset) }

// A store is the memory side of a device: all physical memory and the handles
// that name it. Its lock is the innermost one.
type store struct {
	capacity uint64 // bytes, 0 is no bound

	mu      sync.Mutex
	handles map[uint64]*memory
	last    uint64 // the latest handle
	created uint64 // bytes that exist and were created here
	shared  sharedFile
}

func newStore(capacity uint64) store {
	return store{
		capacity: capacity,
		handles:  map[uint64]*memory{},
		shared:   newSharedFile(),
	}
}

// create makes memory and a handle that refers to it.
func (s *store) create(size uint64, exportable bool) (uint64, Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if size > s.capacityLeft() {
		return 0, ErrorOutOfMemory
	}
	m, err := s.allocate(size, exportable)
	if err != nil {
		return 0, resultOf(err)
	}
	s.created += size
	return s.name(m), Success
}

// adopt makes a handle that refers to memory which exists already: a file that
// is the store's from now on.
func (s *store) adopt(fd int, size uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.name(&memory{fd: fd, size: size, exportable: true, imported: true, references: 1})
}

// name makes a handle of a memory. The caller has the lock.
func (s *store) name(m *memory) uint64 {
	s.last++
	s.handles[s.last] = m
	return s.last
}

func (s *store) capacityLeft() uint64 {
	if s.capacity == 0 {
		return math.MaxUint64
	}
	return s.capacity - s.created
}

func (s *store) allocate(size uint64, exportable bool) (*memory, error) {
	m := &memory{size: size, exportable: exportable, references: 1}
	var err error
	if exportable {
		m.fd, err = createSealedFile(size)
	} else {
		m.offset, err = s.shared.take(size)
		m.fd = s.shared.fd
	}
	return m, err
}

// refer adds a reference to the memory of a handle, if the handle is live and
// has at least size bytes. The caller drops it.
func (s *store) refer(handle, size uint64) (*memory, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, live := s.handles[handle]
	if !live || size > m.size {
		return nil, false
	}
	m.references++
	return m, true
}

// release ends a handle.
func (s *store) release(handle uint64) Result {
	s.mu.Lock()
	m, live := s.handles[handle]
	delete(s.handles, handle)
	s.mu.Unlock()
	if !live {
		return ErrorInvalidValue
	}
	return s.drop(m)
}

// drop takes a reference away, and with the last one the memory.
func (s *store) drop(m *memory) Result {
	s.mu.Lock()
	m.references--
	last := m.references == 0
	s.mu.Unlock()
	if !last {
		return Success
	}
	return resultOf(s.free(m))
}

// free gives memory back that nothing refers to. Dropping the pages of a large
// memory takes a while, so it is done without the lock. Should the kernel refuse,
// the memory still exists: it stays counted, and its range is not used again.
func (s *store) free(m *memory) error {
	if m.exportable {
		if err := unix.Close(m.fd); err != nil {
			return err
		}
	} else if err := dropPages(m.fd, m.offset, m.size); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !m.imported {
		s.created -= m.size
	}
	if !m.exportable {
		s.shared.give(m.offset, m.size)
	}
	return nil
}

// export returns a new descriptor of an exportable handle's file.
func (s *store) export(handle uint64) (int32, Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, live := s.handles[handle]
	if !live || !m.exportable {
		return 0, ErrorInvalidValue
	}
	fd, err := unix.FcntlInt(uintptr(m.fd), unix.F_DUPFD_CLOEXEC, 0)
	return int32(fd), resultOf(err)
}

// usage tells how many handles are live and how many bytes exist.
func (s *store) usage() (handles int, created uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.handles), s.created
}

func (s *store) liveHandles() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.handles))
}

func (s *store) close() Result {
	result := Success
	for _, handle := range s.liveHandles() {
		result = firstFailure(result, s.release(handle))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return firstFailure(result, resultOf(s.shared.close()))
}
