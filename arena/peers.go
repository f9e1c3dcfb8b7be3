package arena

import (
	"fmt"
	"slices"
	"time"

	"github.com/arenagen/arenagen/arena/vmm"
)

// Peers are the devices that reach the arena's memory beside its own.
func (a *Arena) Peers() []int {
	if peers := a.peers.Load(); peers != nil {
		return slices.Clone(*peers)
	}
	return nil
}

// AddPeer lets another device, 0 to MaxDevices-1, read and write all that the arena has mapped and will map. When the driver refuses that, which is
// the error, the arena's later allocations are without it again; what was granted before stays so. Adding a device
// twice is the same as once.
func (a *Arena) AddPeer(device int) error {
	if err := a.checkPeer(device); err != nil {
		return err
	}
	f, ok := a.admit()
	if !ok {
		return ErrClosed
	}
	defer a.land(f)
	// Nothing is mapped ahead meanwhile, and nobody else adds one.
	if !a.ahead.lock() {
		return fmt.Errorf("add device %d: %w", device, ErrBusy)
	}
	defer a.ahead.mu.Unlock()
	before := a.peers.Load()
	var devices []int
	if before != nil {
		devices = *before
	}
	if device == a.device || slices.Contains(devices, device) {
		return nil
	}
	devices = append(slices.Clone(devices), device)
	a.special.Store(true)
	a.peers.Store(&devices)
	// An allocation that is not among the mappings yet catches up when it is.
	granted := 0
	for _, m := range a.mappings() {
		err := a.callGrant(m.start, m.size, device)
		if err != nil && a.stillThere(m) {
			a.peers.Store(before)
			a.noteLoss(err)
			return fmt.Errorf("let device %d reach %d bytes at %#x, after %d mappings that it reaches now: %w", device, m.size, m.start, granted, err)
		}
		granted++
	}
	return nil
}

func (a *Arena) checkPeer(device int) error {
	if device < 0 || device >= MaxDevices {
		return invalid("a peer must be a device from 0 to %d, got %d", MaxDevices-1, device)
	}
	if a.keeper == nil {
		return fmt.Errorf("peers of an arena over callbacks: %w", vmm.ClassNotSupported)
	}
	return nil
}

// grantNew lets the peers reach what was just mapped. When one cannot, the memory is taken away again.
func (a *Arena) grantNew(va, size, handle uint64) error {
	if err := a.grantSince(nil, a.peers.Load(), va, size); err != nil {
		return joined(err, a.callRelease(va, size, handle))
	}
	return nil
}

// grantSince lets the peers reach a mapping that were not among those before.
func (a *Arena) grantSince(before, now *[]int, va, size uint64) error {
	if now == before || now == nil {
		return nil
	}
	for _, device := range *now {
		if before != nil && slices.Contains(*before, device) {
			continue
		}
		if err := a.callGrant(va, size, device); err != nil {
			return fmt.Errorf("let device %d reach %d bytes at %#x: %w", device, size, va, err)
		}
	}
	return nil
}

// An audience is who learns of a mapping when it is made. Who came meanwhile, and did not find it among the mappings, learns of it afterwards.
type audience struct {
	peers   *[]int
	changes *ring
}

func (a *Arena) audience() audience { return audience{a.peers.Load(), a.changes.Load()} }

// catchUp tells those of an allocation who came while it was made. One that a peer cannot reach is freed.
func (a *Arena) catchUp(told audience, r record) error {
	now := a.audience()
	if now == told {
		return nil
	}
	a.tellLate(told, now, a.mappingOf(r))
	if err := a.grantSince(told.peers, now.peers, a.address(r), r.size); err != nil {
		a.noteLoss(err)
		return joined(err, a.Free(a.address(r)))
	}
	return nil
}

// tellLate tells a mapping to who began to follow the changes while it was made.
func (a *Arena) tellLate(told, now audience, m mapping) {
	if now.changes != told.changes {
		now.changes.write(Event{
			Time: time.Duration(clock.refresh() - a.born), Kind: EventMapped, Address: m.start, Size: m.size, Handle: m.handle,
		})
	}
}

// addSlab enters a slab that was made, as slabs.add does, and tells those of it who came meanwhile. When a peer cannot reach it, its
// memory is taken away again.
func (a *Arena) addSlab(made slab, size uint64, told audience) error {
	for {
		now := a.audience()
		if err := a.grantSince(told.peers, now.peers, made.start, made.size); err != nil {
			return joined(err, a.callRelease(made.start, made.size, made.handle))
		}
		told.peers = now.peers
		if a.slabs.addIf(made, size, func() bool {
			// Who comes after this finds it.
			now = a.audience()
			if now.peers != told.peers {
				return false
			}
			a.tellLate(told, now, made.mapping())
			return true
		}) {
			return nil
		}
	}
}
