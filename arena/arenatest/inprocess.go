package arenatest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

// InProcess is package arena itself, over a backend.
type InProcess struct {
	// Open opens a device of a driver that has nothing yet.
	Open func(device int) (arena.Backend, error)
	// Needs are what it can meet.
	Needs []string
	// Driver controls the driver, where that is a simulator, else it is nil.
	Driver Driver
}

// A Driver is the control of a driver simulator.
type Driver interface {
	// Session carries out the verbs that are the driver's.
	Session
	// Reset brings the driver back to how it was loaded.
	Reset()
}

// Has tells whether it meets a need.
func (p *InProcess) Has(need string) bool { return slices.Contains(p.Needs, need) }

// Start begins a case.
func (p *InProcess) Start(t *testing.T) Session {
	t.Helper()
	if p.Driver != nil {
		p.Driver.Reset()
	}
	s := &inProcess{subject: p}
	t.Cleanup(s.end)
	return s
}

type inProcess struct {
	subject *InProcess
	router  arena.Router
	arenas  []*arena.Arena // by handle, from 1
}

// end releases what a case left. What that fails says nothing about the case.
func (s *inProcess) end() {
	for _, a := range s.arenas {
		_ = a.Release()
	}
}

func (s *inProcess) arena(handle uint64) *arena.Arena {
	if handle == 0 || handle > uint64(len(s.arenas)) {
		return nil
	}
	return s.arenas[handle-1]
}

// Do carries a verb out.
func (s *inProcess) Do(verb string, args ...uint64) Answer {
	switch verb {
	case "create":
		return s.create(args)
	case "mx_malloc":
		va, err := s.router.Malloc(int(args[0]), arena.Request{Size: int64(args[1]), Stream: args[2]})
		return answer(err, va)
	case "mx_free":
		return answer(s.router.Free(int(args[1]), args[0]))
	case "active":
		return answer(s.router.SetActive(int(args[0]), s.arena(args[1])))
	case "active_any":
		s.router.SetActiveAny(s.arena(args[0]))
		return answer(nil)
	case "of":
		return answer(nil, uint64(slices.Index(s.arenas, s.router.Of(args[0]))+1))
	case "write":
		fill(hostMemory(args[0], args[1]), args[0])
		return answer(nil)
	case "find":
		return found(args[0], args[1])
	case "malloc", "free", "close", "drain", "release", "used", "mapped", "live", "closed", "range", "stat", "exported", "storm",
		"trim", "reset", "regions", "peer":
		return ask(s, verb, s.arena(args[0]), args[1:])
	default:
		return s.subject.Driver.Do(verb, args...)
	}
}

func (s *inProcess) create(args []uint64) Answer {
	total, device, granule, minimum, drain := args[0], args[1], args[2], args[3], args[4]
	backend, err := s.subject.Open(int(device))
	if err != nil {
		return answer(err)
	}
	slab, single, cache, reuse, peers := args[5], args[6], args[7], args[8], args[9]
	config := arena.Config{
		Total: int64(total), Granule: granule, Minimum: minimum != 0, Device: int(device), Drain: vmm.Drain(drain),
		Cache: cache, Reuse: reuse != 0,
	}
	switch {
	case slab != 0:
		config.Placement = arena.Slab(slab)
	case single != 0:
		config.Placement = arena.Single()
	}
	for peer := range arena.MaxDevices {
		if peers>>peer&1 != 0 {
			config.Peers = append(config.Peers, peer)
		}
	}
	a, err := arena.New(backend, config)
	if err != nil {
		return answer(err)
	}
	s.router.Add(a)
	s.arenas = append(s.arenas, a)
	return answer(nil, uint64(len(s.arenas)), a.Base(), a.Granule(), a.Total())
}

// ask carries out what is asked of one arena.
func ask(s *inProcess, verb string, a *arena.Arena, args []uint64) Answer {
	switch verb {
	case "malloc":
		va, err := a.Allocate(arena.Request{Size: int64(args[0]), Align: args[1], Stream: args[2]})
		return answer(err, va)
	case "free":
		return answer(a.Free(args[0]))
	case "close":
		return answer(a.Close())
	case "drain":
		return drain(a, args[0])
	case "release":
		err := a.Release()
		s.router.Remove(a)
		return answer(err)
	case "used":
		return answer(nil, a.Used())
	case "mapped":
		return answer(nil, a.Mapped())
	case "live":
		return answer(nil, a.Live())
	case "closed":
		return answer(nil, flag(a.Closed()))
	case "range":
		base, length := a.RegisteredRange()
		return answer(nil, base, length)
	case "exported":
		probe, err := a.Backend().(*vmm.Device).Probe()
		if err != nil {
			return answer(err)
		}
		return answer(nil, uint64(probe.HandleType))
	case "stat":
		return answer(nil, counter(a, args[0]))
	case "trim":
		released, err := a.Trim(args[0])
		return answer(err, released)
	case "reset":
		return answer(a.Reset())
	case "regions":
		return regions(a, args[0])
	case "peer":
		return answer(a.AddPeer(int(args[0])))
	default:
		return answer(storm(a, args[0], args[1]))
	}
}

var errTooSmall = errors.New("buffer too small")

// drain closes an arena and takes its allocations over, as the C interface does.
func drain(a *arena.Arena, capacity uint64) Answer {
	count := 0
	_, err := a.CloseAndDrainInto(func(n int) ([]arena.Allocation, error) {
		count = n
		if uint64(n) > capacity {
			return nil, errTooSmall
		}
		return make([]arena.Allocation, n), nil
	})
	return answer(err, uint64(count))
}

// storm has threads allocate and free at the same time.
func storm(a *arena.Arena, threads, pairs uint64) error {
	failures := make([]error, threads)
	var group sync.WaitGroup
	for i := range failures {
		group.Go(func() {
			for range pairs {
				va, err := a.Malloc(1)
				if err == nil {
					err = a.Free(va)
				}
				failures[i] = errors.Join(failures[i], err)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

func counter(a *arena.Arena, which uint64) uint64 {
	s, slabs, cache := a.Stats(), a.SlabStats(), a.CacheStats()
	return []uint64{
		s.Created, s.Released, s.Quarantined, s.HandedOver, s.Deferred, s.Failed, s.Refused, s.UnknownFrees, s.LateFrees,
		s.FailedReleases, flag(s.NearlyFull()),
		a.LiveHandles(), uint64(slabs.Count), slabs.Free, cache.Bytes, cache.Reused, cache.Trimmed, s.Peak,
	}[which]
}

func regions(a *arena.Arena, kind uint64) Answer {
	found, err := a.Regions(arena.RegionKind(kind))
	var bytes uint64
	for _, r := range found {
		bytes += r.Length
	}
	return answer(err, uint64(len(found)), bytes)
}

func flag(set bool) uint64 {
	if set {
		return 1
	}
	return 0
}

// hostMemory is device memory that the host can touch.
func hostMemory(address, size uint64) []byte {
	pointer := *(*unsafe.Pointer)(unsafe.Pointer(&address))
	return unsafe.Slice((*byte)(pointer), size)
}

// fill writes a pattern that differs from address to address.
func fill(memory []byte, address uint64) {
	for i := 0; i+8 <= len(memory); i += 8 {
		binary.NativeEndian.PutUint64(memory[i:], (address+uint64(i))*0x9e3779b97f4a7c15)
	}
}

func found(address, size uint64) Answer {
	expected := make([]byte, size)
	fill(expected, address)
	if !bytes.Equal(hostMemory(address, size), expected) {
		return Answer{Status: "fault", Text: "the memory does not hold what was written"}
	}
	return answer(nil)
}

// statuses pairs errors with the names that the C interface has for them. The first match counts.
var statuses = []struct {
	target error
	name   string
}{
	{arena.ErrDeviceLost, "device_lost"},
	{arena.ErrBusy, "busy"},
	{arena.ErrInFlight, "busy"},
	{arena.ErrNotEmpty, "not_empty"},
	{arena.ErrNotMapped, "not_mapped"},
	{arena.ErrClosed, "closed"},
	{arena.ErrExhausted, "exhausted"},
	{arena.ErrOverflow, "overflow"},
	{arena.ErrNoActiveArena, "no_active_arena"},
	{errTooSmall, "buffer_too_small"},
	{arena.ErrInvalidArgument, "invalid_argument"},
	{vmm.ClassDeviceLost, "device_lost"},
	{vmm.ClassOutOfMemory, "out_of_memory"},
	{vmm.ClassNotSupported, "not_supported"},
	{vmm.ClassNotPermitted, "not_permitted"},
	{vmm.ClassUnavailable, "unavailable"},
	{vmm.ClassTooOld, "driver_too_old"},
	{vmm.ClassNoDevice, "no_device"},
}

// answer is the answer for an error and values.
func answer(err error, values ...uint64) Answer {
	if err == nil {
		return Answer{Status: "ok", Values: values}
	}
	a := Answer{Status: "driver", Text: err.Error(), Values: values}
	for _, s := range statuses {
		if errors.Is(err, s.target) {
			a.Status = s.name
			return a
		}
	}
	return a
}

// className is a class as the scripts write it.
func className(c vmm.Class) string { return strings.ReplaceAll(c.Error(), " ", "_") }
