package arena_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

// A vault is a fake whose handles can be kept unmapped and reached by other devices. It checks what goes with that: mappings lie
// apart, what is attached is a handle of this size that is mapped nowhere, what is destroyed is mapped nowhere and goes once, and when the
// reservation goes back no handle is left.
type vault struct {
	*fake
	onAttach  func(va, size, handle uint64) error
	onDetach  func(va, size uint64) error
	onDestroy func(handle uint64) error
	onGrant   func(va, size uint64, device int) error

	// The fields below are guarded by mu.
	loose   map[uint64]uint64 // sizes of handles that are mapped nowhere
	granted map[uint64][]int  // devices, by the address of a mapping
	kept    keeping
	limit   uint64 // bytes that the device has, or 0 for any
}

// keeping counts the calls that came in.
type keeping struct{ attach, detach, destroy, grant int }

func newVault(t *testing.T) *vault {
	t.Helper()
	return &vault{fake: newFake(t), loose: make(map[uint64]uint64), granted: make(map[uint64][]int)}
}

var (
	errNotThere = errors.New("nothing is mapped there")
	errMemory   = fmt.Errorf("the vault is full: %w", vmm.ClassOutOfMemory)
)

// inUse is the bytes of all handles. The caller holds mu.
func (v *vault) inUse() (bytes uint64) {
	for _, p := range v.placements {
		bytes += p.size
	}
	for _, size := range v.loose {
		bytes += size
	}
	return bytes
}

// apart checks that nothing is mapped in a range. The caller holds mu.
func (v *vault) apart(va, size uint64) {
	for start, p := range v.placements {
		if start < va+size && va < start+p.size {
			v.t.Errorf("%d bytes at %#x overlap the %d bytes at %#x", size, va, p.size, start)
		}
	}
	if va < v.base || va+size > v.base+v.reserved {
		v.t.Errorf("%d bytes at %#x lie outside the reservation", size, va)
	}
}

func (v *vault) Allocate(va, size uint64) (uint64, error) {
	v.mu.Lock()
	v.apart(va, size)
	full := v.limit != 0 && v.inUse()+size > v.limit
	v.mu.Unlock()
	if full {
		v.count(func(c *calls) { c.allocate++ })
		return 0, errMemory
	}
	return v.fake.Allocate(va, size)
}

func (v *vault) Release(va, size, handle uint64) error {
	err := v.fake.Release(va, size, handle)
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, there := v.placements[va]; !there {
		delete(v.granted, va)
	}
	return err
}

func (v *vault) Unreserve(base, size uint64) error {
	v.mu.Lock()
	assert.Empty(v.t, v.loose, "handles are left when the reservation goes back")
	v.mu.Unlock()
	return v.fake.Unreserve(base, size)
}

func (v *vault) Attach(va, size, handle uint64) error {
	var failure error
	if v.onAttach != nil {
		failure = v.onAttach(va, size, handle)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.kept.attach++
	was, loose := v.loose[handle]
	if !loose || was != size {
		v.t.Errorf("attached handle %d of %d bytes, expected one of %d that is mapped nowhere", handle, size, was)
	}
	v.apart(va, size)
	if failure != nil && !errors.Is(failure, vmm.ErrQuarantined) {
		return failure
	}
	delete(v.loose, handle)
	v.placements[va] = placement{size: size, handle: handle}
	return failure
}

func (v *vault) Detach(va, size uint64) error {
	if v.onDetach != nil {
		if err := v.onDetach(va, size); err != nil {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.kept.detach++
			return err
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.kept.detach++
	was, there := v.placements[va]
	if !there || was.size != size {
		v.t.Errorf("detached %d bytes at %#x, expected %+v", size, va, was)
	}
	delete(v.placements, va)
	delete(v.granted, va)
	v.loose[was.handle] = was.size
	return nil
}

// Destroy fails as the hook says. The handle is gone all the same.
func (v *vault) Destroy(handle uint64) error {
	var failure error
	if v.onDestroy != nil {
		failure = v.onDestroy(handle)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.kept.destroy++
	if _, loose := v.loose[handle]; !loose {
		v.t.Errorf("destroyed handle %d, which is mapped or gone", handle)
	}
	delete(v.loose, handle)
	return failure
}

// Grant fails where nothing is mapped: whoever grants what others free must expect that.
func (v *vault) Grant(va, size uint64, device int) error {
	if v.onGrant != nil {
		if err := v.onGrant(va, size, device); err != nil {
			return err
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.kept.grant++
	if v.reserved == 0 {
		v.t.Errorf("granted %d bytes at %#x after the reservation went back", size, va)
	}
	if was, there := v.placements[va]; !there || was.size != size {
		return errNotThere
	}
	v.granted[va] = append(v.granted[va], device)
	return nil
}

func (v *vault) keeping() keeping {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.kept
}

func (v *vault) looseNow() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.loose)
}

// openConfig makes an arena of so many granules over a backend.
func openConfig(t *testing.T, b arena.Backend, granules int64, config arena.Config) *arena.Arena {
	t.Helper()
	config.Total = granules * granule
	a, err := arena.New(b, config)
	require.NoError(t, err)
	return a
}

// first fails the first call with an error and lets the others pass.
func first(err error) func() error {
	var passed atomic.Bool
	return func() error {
		if passed.CompareAndSwap(false, true) {
			return err
		}
		return nil
	}
}

// assertCacheBalance checks what holds in every cache at every moment.
func assertCacheBalance(t *testing.T, s arena.CacheStats) {
	t.Helper()
	assert.Equal(t, s.Kept, s.Reused+s.Trimmed+s.Handles, "the counters do not balance: %+v", s)
	assert.LessOrEqual(t, s.Bytes, s.Budget)
	assert.LessOrEqual(t, s.Bytes, s.Peak)
}

func errorsIsAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}
