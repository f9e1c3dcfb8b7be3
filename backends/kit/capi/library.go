package capi

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
	"github.com/arenagen/arenagen/backends/kit/doctor"
	"github.com/arenagen/arenagen/backends/kit/registry"
)

// A Library is what stands behind the exports of one shared library. Each export
// has a method here, with the ABI's types; pointers are never nil, except a buffer's, sized structs are whole, and
// what they point to is zero: the guard in front saw to that. Its methods are safe for concurrent use.
type Library struct {
	backends  []registry.Backend
	callbacks Callbacks
	router    arena.Router
	handles   handles
	faults    atomic.Uint64

	mu      sync.Mutex
	devices map[deviceKey]arena.Backend // opened ones; guarded by mu
}

type deviceKey struct {
	backend string
	device  int32
	options string
}

// New returns a library with some backends, and makes the Go runtime below it independent of
// settings that the environment has for other Go programs.
func New(backends []registry.Backend, callbacks Callbacks) *Library {
	debug.SetGCPercent(100)
	debug.SetMemoryLimit(math.MaxInt64)
	runtime.SetDefaultGOMAXPROCS()
	return &Library{backends: backends, callbacks: callbacks, devices: make(map[deviceKey]arena.Backend)}
}

// device opens a device of a backend once for each set of options.
func (l *Library) device(b registry.Backend, ordinal int32, options string) (arena.Backend, error) {
	key := deviceKey{b.Name, ordinal, options}
	l.mu.Lock()
	defer l.mu.Unlock()
	if device, ok := l.devices[key]; ok {
		return device, nil
	}
	device, err := b.Open(int(ordinal), options)
	if err != nil {
		return nil, err
	}
	l.devices[key] = device
	return device, nil
}

// ArenaCreate opens a device and reserves addresses on it.
func (l *Library) ArenaCreate(options *ArenaOptions, handle *Arena) error {
	text, err := textAt("backend_options", options.BackendOptions)
	if err != nil {
		return err
	}
	switch options.Granularity {
	case GranularityRecommended, GranularityMinimum:
	default:
		return invalid("granularity must be %d or %d, got %d",
			GranularityRecommended, GranularityMinimum, options.Granularity)
	}
	name, err := textAt("backend", options.Backend)
	if err != nil {
		return err
	}
	if options.Drain < DrainUsual || options.Drain > DrainDevice {
		return invalid("drain must be from %d to %d, got %d", DrainUsual, DrainDevice, options.Drain)
	}
	placement, err := placementOf(options.Placement, options.SlabSize)
	if err != nil {
		return err
	}
	device, err := l.choose(name, options.Device, text)
	if err != nil {
		return err
	}
	for name, value := range map[string]int32{"reuse": options.Reuse, "exportable": options.Exportable} {
		if value < 0 || value > 1 {
			return invalid("%s must be 0 or 1, got %d", name, value)
		}
	}
	if d, ok := device.(*vmm.Device); ok && options.Exportable == 1 {
		device = d.Exportable()
	}
	return l.create(device, arena.Config{
		Total:   options.Total,
		Granule: options.Granule,
		Minimum: options.Granularity == GranularityMinimum,
		Hint:    options.BaseHint,
		Device:  int(options.Device),
		Drain:   vmm.Drain(options.Drain),

		Placement: placement,
		Cache:     options.Cache,
		Prefetch:  options.Prefetch,
		Reuse:     options.Reuse == 1,
		Peers:     ordinals(options.Peers),
		Events:    int(options.Events),
	}, handle)
}

// ordinals are the devices of a mask.
func ordinals(mask uint64) (devices []int) {
	for ; mask != 0; mask &= mask - 1 {
		devices = append(devices, bits.TrailingZeros64(mask))
	}
	return devices
}

// placementOf is the core's placement for that of the interface.
func placementOf(kind Placement, slab uint64) (arena.Placement, error) {
	if kind != PlacementSlab && slab != 0 {
		return arena.Placement{}, invalid("slab_size must be 0 unless placement is %d, got %d", PlacementSlab, slab)
	}
	switch kind {
	case PlacementPerAllocation:
		return arena.PerAllocation(), nil
	case PlacementSlab:
		return arena.Slab(slab), nil
	case PlacementSingle:
		return arena.Single(), nil
	}
	return arena.Placement{}, invalid("placement must be from %d to %d, got %d", PlacementPerAllocation, PlacementSingle, kind)
}

// placements are the interface's numbers for the core's placements.
var placements = map[arena.PlacementKind]Placement{
	arena.InHandlesOfTheirOwn: PlacementPerAllocation,
	arena.InSlabs:             PlacementSlab,
	arena.InSingle:            PlacementSingle,
}

// auto is what a caller names who leaves the backend to the library, as is no name at all.
const auto = "auto"

// choose opens a device of the backend with a name, or of the first that has one that can be used.
func (l *Library) choose(name string, ordinal int32, options string) (arena.Backend, error) {
	if name != "" && name != auto {
		i := slices.IndexFunc(l.backends, func(b registry.Backend) bool { return b.Name == name })
		if i < 0 {
			return nil, invalid("this library has no backend %q, expected %s", name, strings.Join(l.names(), ", "))
		}
		return l.device(l.backends[i], ordinal, options)
	}
	var refusals []error
	for _, b := range l.backends {
		if !b.Auto {
			continue
		}
		device, err := l.device(b, ordinal, options)
		if err == nil {
			return device, nil
		}
		refusals = append(refusals, err)
	}
	if len(refusals) == 1 {
		return nil, refusals[0]
	}
	return nil, &NoBackendError{Refusals: refusals}
}

func (l *Library) names() []string {
	names := []string{auto}
	for _, b := range l.backends {
		names = append(names, b.Name)
	}
	return names
}

// ArenaDevice tells what an arena's device is.
func (l *Library) ArenaDevice(handle Arena, info *DeviceInfo) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	device, ok := a.Backend().(*vmm.Device)
	if !ok {
		return fmt.Errorf("an arena over callbacks has no device: %w", vmm.ClassNotSupported)
	}
	probe, err := device.Probe()
	if err != nil {
		return err
	}
	about := device.Driver().About()
	info.Device = int32(device.Ordinal())
	fill(info.Backend[:], device.Driver().Backend())
	fill(info.Library[:], about.Library)
	fill(info.DriverVersion[:], about.Version)
	fill(info.Properties[:], probe.String())
	name, err := device.Driver().DeviceName()
	if err != nil && !errors.Is(err, vmm.ClassNotSupported) {
		return err
	}
	fill(info.Name[:], name)
	info.HostMemory = flag(about.HostMemory)
	return nil
}

// ArenaCreateCallbacks makes an arena over functions of the caller's.
func (l *Library) ArenaCreateCallbacks(options *CallbackOptions, handle *Arena) error {
	if options.Allocate == 0 || options.Release == 0 {
		return invalid("allocate and release must not be NULL")
	}
	if options.Base == 0 {
		return invalid("base must not be 0: the first allocation would be NULL")
	}
	o := *options
	backend := &arena.Callbacks{
		Base: o.Base,
		OnAllocate: func(va, size uint64) (uint64, error) {
			memory, result := l.callbacks.AllocateCallback(o.Allocate, o.User, va, size)
			return memory, callbackResult("allocate", result, va, size)
		},
		OnRelease: func(va, size, memory uint64) error {
			return callbackResult("release", l.callbacks.ReleaseCallback(o.Release, o.User, va, size, memory), va, size)
		},
	}
	return l.create(backend, arena.Config{Total: o.Total, Granule: o.Granule, Device: int(o.Device)}, handle)
}

func (l *Library) create(backend arena.Backend, config arena.Config, handle *Arena) error {
	a, err := arena.New(backend, config)
	if err != nil {
		return err
	}
	l.router.Add(a)
	*handle = l.handles.add(a)
	return nil
}

// arena finds the arena of a handle.
func (l *Library) arena(handle Arena) (*arena.Arena, error) {
	if a := l.handles.get(handle); a != nil {
		return a, nil
	}
	return nil, &HandleError{Handle: handle}
}

// ArenaClose closes an arena.
func (l *Library) ArenaClose(handle Arena) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	return a.Close()
}

// ArenaCloseAndDrain closes an arena and hands its live allocations over.
func (l *Library) ArenaCloseAndDrain(handle Arena, buffer *Allocation, capacity uintptr, count *uintptr) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	if buffer == nil {
		*count = uintptr(a.LiveHandles())
		return nil
	}
	drained, err := a.CloseAndDrainInto(func(n int) ([]arena.Allocation, error) {
		*count = uintptr(n)
		if uintptr(n) > capacity {
			return nil, &BufferTooSmallError{What: "live allocations", Needed: n, Given: capacity}
		}
		// The two types have the same layout.
		return unsafe.Slice((*arena.Allocation)(unsafe.Pointer(buffer)), n), nil
	})
	if drained != nil {
		*count = uintptr(len(drained))
	}
	return err
}

// ArenaStop closes an arena and settles nothing.
func (l *Library) ArenaStop(handle Arena, milliseconds int64) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	if milliseconds < 0 || milliseconds > math.MaxInt64/int64(time.Millisecond) {
		return invalid("milliseconds must be 0 to %d, got %d", math.MaxInt64/int64(time.Millisecond), milliseconds)
	}
	return a.Stop(time.Duration(milliseconds) * time.Millisecond)
}

// ArenaReset has an empty arena start over.
func (l *Library) ArenaReset(handle Arena) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	return a.Reset()
}

// ArenaRelease closes an arena if it is open, and gives the handle and the addresses back. The handle is
// gone also after a failure, unless that is arena.ErrBusy.
func (l *Library) ArenaRelease(handle Arena) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	err = a.Release()
	if isBusy(err) {
		return err
	}
	if !l.handles.remove(handle) {
		return &HandleError{Handle: handle} // another thread released it at the same time
	}
	l.router.Remove(a)
	return err
}

// ArenaMalloc allocates from an arena.
func (l *Library) ArenaMalloc(handle Arena, size int64, align uint64, stream uintptr, address *uintptr) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	va, err := a.Allocate(arena.Request{Size: size, Align: align, Stream: uint64(stream)})
	*address = uintptr(va)
	return err
}

// ArenaFree frees an allocation of an arena.
func (l *Library) ArenaFree(handle Arena, address uintptr) error {
	a, err := l.arena(handle)
	if err != nil || address == 0 {
		return err
	}
	return a.Free(uint64(address))
}

// ArenaAllocation finds the live allocation that begins at an address.
func (l *Library) ArenaAllocation(handle Arena, address uintptr, allocation *Allocation) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	if found, ok := a.Allocation(uint64(address)); ok {
		*allocation = Allocation{Address: found.VA, Size: found.Size, Handle: found.Handle}
	}
	return nil
}

// ArenaOf finds the arena of an address.
func (l *Library) ArenaOf(address uintptr, handle *Arena) error {
	if a := l.router.Of(uint64(address)); a != nil {
		*handle = l.handles.find(a)
	}
	return nil
}

// ArenaRegisteredRange is the range to register with a transport.
func (l *Library) ArenaRegisteredRange(handle Arena, base *uintptr, length *uint64) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	first, bytes := a.RegisteredRange()
	*base, *length = uintptr(first), bytes
	return nil
}

// ArenaUsed is the bytes up to the highest address handed out.
func (l *Library) ArenaUsed(handle Arena, bytes *uint64) error {
	return ask(l, handle, bytes, (*arena.Arena).Used)
}

// ArenaMapped is the sum of the live allocations' sizes.
func (l *Library) ArenaMapped(handle Arena, bytes *uint64) error {
	return ask(l, handle, bytes, (*arena.Arena).Mapped)
}

// ArenaLive is the number of live allocations.
func (l *Library) ArenaLive(handle Arena, count *uint64) error {
	return ask(l, handle, count, (*arena.Arena).Live)
}

// ArenaIsClosed tells whether an arena is closed.
func (l *Library) ArenaIsClosed(handle Arena, closed *int32) error {
	return ask(l, handle, closed, func(a *arena.Arena) int32 { return flag(a.Closed()) })
}

// ask stores what an arena answers.
func ask[T any](l *Library, handle Arena, answer *T, question func(*arena.Arena) T) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	*answer = question(a)
	return nil
}

// ArenaStats reads an arena's counters.
func (l *Library) ArenaStats(handle Arena, stats *Stats) error {
	return ask(l, handle, stats, func(a *arena.Arena) Stats {
		s, slabs, placed, cache := a.Stats(), a.SlabStats(), a.Placement(), a.CacheStats()
		return Stats{
			StructSize:     stats.StructSize,
			Device:         int32(s.Device),
			Closed:         flag(s.Closed),
			NearlyFull:     flag(s.NearlyFull()),
			Base:           s.Base,
			Total:          s.Total,
			Granule:        s.Granule,
			Used:           s.Used,
			Mapped:         s.Mapped,
			Live:           s.Live,
			Created:        s.Created,
			Released:       s.Released,
			Quarantined:    s.Quarantined,
			HandedOver:     s.HandedOver,
			Failed:         s.Failed,
			Refused:        s.Refused,
			UnknownFrees:   s.UnknownFrees,
			LateFrees:      s.LateFrees,
			FailedReleases: s.FailedReleases,
			Deferred:       s.Deferred,
			Placement:      placements[placed.Kind()],
			SlabSize:       slabSize(placed, slabs),
			Handles:        a.LiveHandles(),
			Slabs:          uint64(slabs.Count),
			SlabMapped:     slabs.Mapped,
			SlabFree:       slabs.Free,
			SlabLargest:    slabs.Largest,
			PeakMapped:     s.Peak,
			SlabAhead:      slabs.Ahead,
			SlabsMade:      slabs.Made,
			SlabsGone:      slabs.Gone,
			CacheBytes:     cache.Bytes,
			CachePeak:      cache.Peak,
			CacheHandles:   cache.Handles,
			CacheKept:      cache.Kept,
			CacheReused:    cache.Reused,
			CacheTrimmed:   cache.Trimmed,
		}
	})
}

// slabSize is how large slabs are, in an arena that has slabs.
func slabSize(placed arena.Placement, slabs arena.SlabStats) uint64 {
	if placed.Kind() != arena.InSlabs {
		return 0
	}
	return slabs.Size
}

func flag(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// SetActive makes an arena the one that serves a device.
func (l *Library) SetActive(device int32, handle Arena) error {
	a, err := l.arenaOrNone(handle)
	if err != nil {
		return err
	}
	err = l.router.SetActive(int(device), a)
	l.forgetReleased(handle, a)
	return err
}

// SetActiveAny makes an arena the one that serves every device without one of its own.
func (l *Library) SetActiveAny(handle Arena) error {
	a, err := l.arenaOrNone(handle)
	if err != nil {
		return err
	}
	l.router.SetActiveAny(a)
	l.forgetReleased(handle, a)
	return nil
}

// forgetReleased takes an arena out of the places where it was made active while another thread
// released it. A release ends the handle before it looks there, so one of the two sees the other.
func (l *Library) forgetReleased(handle Arena, a *arena.Arena) {
	if a != nil && l.handles.get(handle) != a {
		l.router.Remove(a)
	}
}

// arenaOrNone is the arena of a handle, or nil for 0.
func (l *Library) arenaOrNone(handle Arena) (*arena.Arena, error) {
	if handle == 0 {
		return nil, nil
	}
	return l.arena(handle)
}

// Diagnose reads the library's counters.
func (l *Library) Diagnose(diagnostics *Diagnostics) error {
	d := l.router.Diagnostics()
	*diagnostics = Diagnostics{
		StructSize:       diagnostics.StructSize,
		Arenas:           uint32(d.Arenas),
		NoActiveArena:    d.NoActive,
		UnroutedFrees:    d.Unrouted,
		OtherDeviceFrees: d.OtherDevice,
		RecoveredFaults:  l.faults.Load(),
	}
	return nil
}

// Doctor looks at every backend of the library.
func (l *Library) Doctor(buffer *byte, capacity uintptr, length *uintptr, usable *int32) error {
	report := doctor.Examine(l.backends)
	*usable = flag(report.Usable)
	return give(report.String(), buffer, capacity, length)
}

// give writes a text into the caller's buffer.
func give(text string, buffer *byte, capacity uintptr, length *uintptr) error {
	*length = uintptr(len(text))
	if uintptr(len(text)) > capacity {
		return &BufferTooSmallError{What: "bytes of text", Needed: len(text), Given: capacity}
	}
	copy(unsafe.Slice(buffer, len(text)), text)
	return nil
}

// Malloc allocates from the arena that serves a device.
func (l *Library) Malloc(size int64, device int32, stream uintptr) (uintptr, error) {
	va, err := l.router.Malloc(int(device), arena.Request{Size: size, Stream: uint64(stream)})
	return uintptr(va), err
}

// Free frees an address in the arena that it belongs to.
func (l *Library) Free(address uintptr, _ int64, device int32, _ uintptr) error {
	if address == 0 {
		return nil
	}
	return l.router.Free(int(device), uint64(address))
}

// Fault counts a panic that an export survived, and is the error for it.
func (l *Library) Fault(value any) error {
	l.faults.Add(1)
	return fmt.Errorf("%w: %v", errInternal, value)
}
