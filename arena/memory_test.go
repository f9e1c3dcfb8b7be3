package arena_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

// weightless is a driver that keeps nothing: what allocates and what memory is used is the arena.
type weightless struct{ vmm.Driver }

func (weightless) Backend() string { return "weightless" }

func (weightless) Capabilities() vmm.Capabilities { return vmm.Capabilities{} }

func (weightless) Granularity(vmm.Granularity, uint64) (uint64, error) { return 4 * kib, nil }

func (weightless) Reserve(_, _, _ uint64) (uint64, error) { return base, nil }

func (weightless) Unreserve(_, _ uint64) error { return nil }

func (weightless) Create(uint64, vmm.HandleType, bool) (uint64, error) { return 1, nil }

func (weightless) Release(uint64) error { return nil }

func (weightless) Map(_, _, _ uint64) error { return nil }

func (weightless) Unmap(_, _ uint64) error { return nil }

func (weightless) Grant(_, _ uint64, _ int) error { return nil }

func (weightless) Quirks() vmm.Quirks { return vmm.Quirks{} }

func (weightless) Attribute(vmm.Attribute) (int, error) { return 0, vmm.ClassNotSupported }

func (weightless) ExchangeCaptureMode(vmm.CaptureMode) (vmm.CaptureMode, error) {
	return 0, vmm.ClassNotSupported
}

func (weightless) StreamCapturing(uint64) (bool, error) { return false, vmm.ClassNotSupported }

func (weightless) SyncStream(uint64) error { return vmm.ClassNotSupported }

func (weightless) SyncDevice() error { return vmm.ClassNotSupported }

func openWeightless(t *testing.T, config arena.Config) *arena.Arena {
	t.Helper()
	device, err := vmm.NewDevice(weightless{}, 0)
	require.NoError(t, err)
	a, err := arena.New(device, config)
	require.NoError(t, err)
	return a
}

func TestMallocAndFreeAllocateNothing(t *testing.T) {
	var r arena.Router
	var last *arena.Arena
	for range 10 {
		last = openWeightless(t, arena.Config{Total: 1 << 40})
		r.Add(last)
	}
	active := openWeightless(t, arena.Config{Total: 1 << 40})
	r.Add(active)
	r.SetActiveAny(active)
	for range 1000 {
		malloc(t, active, 1)
		malloc(t, last, 1)
	}
	for name, pair := range map[string]func(){
		"arena":  func() { va, _ := active.Malloc(1); _ = active.Free(va) },
		"router": func() { va, _ := r.Malloc(0, arena.Request{Size: 1, Stream: 7}); _ = r.Free(0, va) },
		"router, not active": func() {
			va, _ := last.Malloc(1)
			_ = r.Free(0, va)
		},
		"unknown free": func() { _ = r.Free(0, 1); _ = active.Free(1) },
		"reading":      func() { _ = active.Stats(); _ = active.Live(); _ = r.Of(base); _ = r.Diagnostics() },
	} {
		// The mean is rounded down, so that what the runtime allocates once in the background does not count.
		allocated := testing.AllocsPerRun(10, func() {
			for range 1000 {
				pair()
			}
		})
		assert.Zero(t, allocated, name)
	}
}

// heap is what a collection leaves.
func heap() int64 {
	runtime.GC()
	runtime.GC() // the first one may leave what a sweep before it had not reached
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestMemoryOfLiveAllocations(t *testing.T) {
	const most = 96 // bytes for each
	live := 1_000_000
	if raceEnabled {
		live = 100_000
	}
	for _, g := range []uint64{4 * kib, 2 * mib} {
		for name, size := range map[string]func() int64{
			"one granule": func() int64 { return 1 },
			"1 GiB":       func() int64 { return gib },
			"any size":    func() int64 { return 1 + rand.Int64N(gib) },
		} {
			t.Run(fmt.Sprintf("granule %d/%s", g, name), func(t *testing.T) {
				vas := make([]uint64, live)
				before := heap()
				a := openWeightless(t, arena.Config{Total: 1 << 54, Granule: g})
				assert.Less(t, heap()-before, int64(64*kib), "memory grows with what is allocated, not with what is reserved")
				for i := range vas {
					vas[i] = malloc(t, a, size())
				}
				assert.LessOrEqual(t, (heap()-before)/int64(live), int64(most))

				half := live / 2
				for _, va := range vas[:half] {
					require.NoError(t, a.Free(va))
				}
				assert.LessOrEqual(t, (heap()-before)/int64(live-half), int64(2*most), "it shrinks")
				require.NoError(t, a.Close())
				for _, va := range vas[half:] {
					require.NoError(t, a.Free(va))
				}
				assert.Less(t, heap()-before, int64(256*kib), "it comes back")
				require.NoError(t, a.Release())
				runtime.KeepAlive(vas)
			})
		}
	}
}

func TestReleaseForgetsRecords(t *testing.T) {
	before := heap()
	a := openWeightless(t, arena.Config{Total: 1 << 40})
	mallocs(t, a, 100_000)
	require.NoError(t, a.Release())
	assert.Less(t, heap()-before, int64(256*kib))
	runtime.KeepAlive(a)
}
