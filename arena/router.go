package arena

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// MaxDevices is how many devices can have an active arena of their own: ordinals 0 to 63.
const MaxDevices = 64

// A Router knows arenas by their addresses, and which of them serves a device. New
// memory comes from the active arena; a free goes to the arena of its address, whichever is
// active then. Malloc and Free take no lock here. The zero Router is ready to use.
type Router struct {
	active    [MaxDevices]atomic.Pointer[Arena]
	activeAny atomic.Pointer[Arena]
	routes    atomic.Pointer[[]route] // never written once it is published

	mu sync.Mutex // serialises Add and Remove

	noActive    atomic.Uint64
	unrouted    atomic.Uint64
	otherDevice atomic.Uint64
}

// A route is the range of one arena. Routes are sorted by base; ranges may overlap.
type route struct {
	base, end uint64 // the last address of the range is end-1
	reach     uint64 // the largest end of this route and those before it
	arena     *Arena
}

// Add makes an arena known. Adding it twice is the same as once; nil is none.
func (r *Router) Add(a *Arena) {
	if a == nil {
		return
	}
	r.change(func(routes []route) []route {
		if slices.ContainsFunc(routes, func(x route) bool { return x.arena == a }) {
			return routes
		}
		return append(routes, route{base: a.base, end: a.base + a.total, arena: a})
	})
}

// Remove forgets an arena, and clears it where it is active.
func (r *Router) Remove(a *Arena) {
	for i := range r.active {
		r.active[i].CompareAndSwap(a, nil)
	}
	r.activeAny.CompareAndSwap(a, nil)
	r.change(func(routes []route) []route {
		return slices.DeleteFunc(routes, func(x route) bool { return x.arena == a })
	})
}

// change publishes a changed copy of the routes.
func (r *Router) change(edit func([]route) []route) {
	r.mu.Lock()
	defer r.mu.Unlock()
	routes := edit(slices.Clone(r.all()))
	slices.SortStableFunc(routes, func(x, y route) int { return cmp.Compare(x.base, y.base) })
	var reach uint64
	for i := range routes {
		reach = max(reach, routes[i].end)
		routes[i].reach = reach
	}
	r.routes.Store(&routes)
}

func (r *Router) all() []route {
	if routes := r.routes.Load(); routes != nil {
		return *routes
	}
	return nil
}

// SetActive makes an arena the one that serves a device, 0 to MaxDevices-1, in place of the
// one before; nil clears this device's place only. An arena that was closed stops serving.
func (r *Router) SetActive(device int, a *Arena) error {
	if device < 0 || device >= MaxDevices {
		return invalid("device must be 0 to %d, got %d", MaxDevices-1, device)
	}
	r.active[device].Store(a)
	return nil
}

// SetActiveAny makes an arena the one that serves every device that has none of its own; nil
// clears this place only.
func (r *Router) SetActiveAny(a *Arena) { r.activeAny.Store(a) }

// Active is the arena that would serve a device: its own while that is open, else the one for any device, or nil.
func (r *Router) Active(device int) *Arena {
	own := r.own(device)
	if own != nil && !own.Closed() {
		return own
	}
	// A closed arena still answers, with ErrClosed, when there is no other.
	return cmp.Or(r.activeAny.Load(), own)
}

func (r *Router) own(device int) *Arena {
	if uint(device) < MaxDevices {
		return r.active[device].Load()
	}
	return nil
}

// Malloc allocates from the arena that serves a device. Without one it fails with ErrNoActiveArena,
// otherwise like Arena.Allocate.
func (r *Router) Malloc(device int, req Request) (uint64, error) {
	a := r.Active(device)
	if a == nil {
		r.noActive.Add(1)
		return 0, ErrNoActiveArena
	}
	return a.Allocate(req)
}

// Free frees an address in the arena that it belongs to. Where ranges overlap, that is the
// one with an allocation there, the active arena first. An address that is nobody's changes
// nothing and is counted. The device is a hint that is counted when it is wrong. An error is what
// the backend failed, as in Arena.Free.
func (r *Router) Free(device int, va uint64) error {
	a, err := r.free(device, va)
	switch {
	case a != nil && a.device != device:
		a.otherDevice.Add(1)
		r.otherDevice.Add(1)
	case a == nil && va != 0:
		r.unrouted.Add(1)
	}
	return err
}

func (r *Router) free(device int, va uint64) (*Arena, error) {
	active := r.Active(device)
	if active != nil {
		if found, err := active.free(va); found {
			return active, err
		}
	}
	for a := range r.candidates(va) {
		if a == active {
			continue
		}
		if found, err := a.free(va); found {
			return a, err
		}
	}
	return nil, nil
}

// Of is the arena that an address belongs to, or nil. Where ranges overlap, it is the one with a
// live allocation that begins there, the one active for any device first, else any of them.
func (r *Router) Of(va uint64) *Arena {
	if active := r.activeAny.Load(); active != nil && active.owns(va) {
		return active
	}
	var some *Arena
	for a := range r.candidates(va) {
		if a.owns(va) {
			return a
		}
		some = cmp.Or(some, a)
	}
	return some
}

// candidates yields the arenas whose range holds an address.
func (r *Router) candidates(va uint64) func(yield func(*Arena) bool) {
	return func(yield func(*Arena) bool) {
		routes := r.all()
		i, _ := slices.BinarySearchFunc(routes, va, func(x route, va uint64) int {
			if x.base <= va {
				return -1
			}
			return 1
		})
		// The routes before i begin at or below va; none before a reach of va or less can hold it.
		for i--; i >= 0 && routes[i].reach > va; i-- {
			if routes[i].end > va && !yield(routes[i].arena) {
				return
			}
		}
	}
}

// DeviceTotals are the counters of a device's arenas at one moment, closed ones included.
type DeviceTotals struct {
	Arenas           int
	Used             uint64 // bytes of addresses that they handed out
	Mapped           uint64 // sum of the live allocations' rounded sizes, in bytes
	Live             uint64 // live allocations
	Handles          uint64 // physical handles that these have
	Held             uint64 // bytes of memory that no allocation has: free in slabs, mapped ahead, or in a cache
	Failed           uint64 // allocations that the backend failed
	OtherDeviceFrees uint64 // frees through the router that named another device than this one, which the allocation was on
}

// DeviceTotals adds the counters of a device's arenas up.
func (r *Router) DeviceTotals(device int) DeviceTotals {
	var t DeviceTotals
	for _, route := range r.all() {
		a := route.arena
		if a.device != device {
			continue
		}
		s := a.Stats()
		t.Arenas++
		t.Used += s.Used
		t.Mapped += s.Mapped
		t.Live += s.Live
		t.Handles += a.LiveHandles()
		t.Held += a.SlabStats().Free + a.CacheStats().Bytes
		t.Failed += s.Failed
		t.OtherDeviceFrees += a.otherDevice.Load()
	}
	return t
}

// Diagnostics are a router's counters.
type Diagnostics struct {
	Arenas      int    // arenas that are known
	NoActive    uint64 // allocations that found no active arena
	Unrouted    uint64 // frees of addresses that no arena knows
	OtherDevice uint64 // frees that named another device than their arena's
}

// Diagnostics reads the counters.
func (r *Router) Diagnostics() Diagnostics {
	return Diagnostics{
		Arenas:      len(r.all()),
		NoActive:    r.noActive.Load(),
		Unrouted:    r.unrouted.Load(),
		OtherDevice: r.otherDevice.Load(),
	}
}
