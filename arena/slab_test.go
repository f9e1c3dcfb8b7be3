package arena_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

const slabSize = 16 * granule

func openWith(t *testing.T, b arena.Backend, granules int64, p arena.Placement) *arena.Arena {
	t.Helper()
	a, err := arena.New(b, arena.Config{Total: granules * granule, Placement: p})
	require.NoError(t, err)
	return a
}

func (f *fake) handlesNow() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.placements)
}

func TestSlabsNeedFewHandles(t *testing.T) {
	f := newFake(t)
	a := openWith(t, f, 1024, arena.Slab(slabSize-1)) // rounded up to the granule
	var bytes, large uint64
	vas := map[uint64]bool{}
	for i := range 400 {
		size := int64(1 + i*997%(2*granule))
		if i%100 == 99 {
			size, large = slabSize+1, large+1
		} else {
			bytes += uint64(size+arena.SlabUnit-1) &^ (arena.SlabUnit - 1)
		}
		va := malloc(t, a, size)
		assert.Zero(t, va%arena.SlabUnit)
		vas[va] = true
	}
	assert.Len(t, vas, 400)
	s := a.SlabStats()
	assert.LessOrEqual(t, float64(s.Count), float64((bytes+slabSize-1)/slabSize)*1.1+1)
	assert.Equal(t, s.Count+int(large), f.handlesNow())
	assert.Equal(t, uint64(f.handlesNow()), a.LiveHandles())
	assert.Equal(t, bytes, s.Live)
	assert.Equal(t, s.Mapped, s.Live+s.Free)
	assert.Equal(t, uint64(s.Count)*slabSize+large*(slabSize+granule), a.Used(), "the range is dense")
	require.NoError(t, a.Close())
	assert.Zero(t, f.handlesNow())
	assertBalance(t, a.Stats())
	require.NoError(t, a.Release())
}

func TestRoomInSlabsIsFoundAgain(t *testing.T) {
	f := newFake(t)
	a := openWith(t, f, 64, arena.Slab(slabSize))
	var vas []uint64
	for range 16 {
		vas = append(vas, malloc(t, a, granule))
	}
	assert.Equal(t, 1, f.handlesNow())
	for _, i := range []int{3, 9, 4, 5} {
		require.NoError(t, a.Free(vas[i]))
	}
	assert.Equal(t, uint64(3*granule), a.SlabStats().Largest, "neighbours grow together")
	assert.Equal(t, vas[3], malloc(t, a, 2*granule), "the lowest that fits")
	assert.Equal(t, vas[5], malloc(t, a, granule))
	assert.Equal(t, vas[9], malloc(t, a, granule))
	assert.Equal(t, uint64(slabSize), a.Used())
	assert.NotEqual(t, vas[0], malloc(t, a, 1), "there is no room: another slab")
	assert.Equal(t, 2, f.handlesNow())
	require.NoError(t, a.Release())
}

func TestEmptySlabIsReleased(t *testing.T) {
	f := newFake(t)
	a := openWith(t, f, 64, arena.Slab(slabSize))
	one, two := malloc(t, a, 100), malloc(t, a, 100)
	require.NoError(t, a.Free(one))
	assert.Equal(t, 1, f.handlesNow())
	require.NoError(t, a.Free(two))
	assert.Zero(t, f.handlesNow())
	assert.Equal(t, arena.SlabStats{Size: slabSize, Made: 1, Gone: 1}, a.SlabStats())
	require.NoError(t, a.Free(two))
	assert.Equal(t, uint64(1), a.Stats().UnknownFrees)
	assert.Equal(t, uint64(base+slabSize), malloc(t, a, 100), "its addresses are not given out again")
	require.NoError(t, a.Release())
}

func TestAlignmentInSlabs(t *testing.T) {
	f := newFake(t)
	a := openWith(t, f, 64, arena.Slab(slabSize))
	malloc(t, a, 1)
	for align := uint64(1); align <= granule; align *= 2 {
		va, err := a.Allocate(arena.Request{Size: 700, Align: align})
		require.NoError(t, err)
		assert.Zero(t, va%align)
		malloc(t, a, 1)
	}
	_, err := a.Allocate(arena.Request{Size: 1, Align: 2 * granule})
	require.ErrorIs(t, err, arena.ErrInvalidArgument)
	require.NoError(t, a.Release())
}

func TestLastSlabMayBeSmaller(t *testing.T) {
	f := newFake(t)
	a := openWith(t, f, 20, arena.Slab(slabSize))
	malloc(t, a, slabSize)
	malloc(t, a, granule)
	assert.Equal(t, uint64(20*granule), a.SlabStats().Mapped)
	malloc(t, a, 3*granule)
	_, err := a.Malloc(1)
	require.ErrorIs(t, err, arena.ErrExhausted)
	assert.ErrorContains(t, err, "1310720 bytes in slabs 0 are free")
	require.NoError(t, a.Release())
}

func TestSingle(t *testing.T) {
	f := newFake(t)
	a := openWith(t, f, 16, arena.Single())
	assert.Equal(t, 1, f.handlesNow(), "it is made up front")
	first, length := a.RegisteredRange()
	assert.Equal(t, []uint64{base, 16 * granule}, []uint64{first, length})
	va := malloc(t, a, 10*granule)
	_, err := a.Malloc(7 * granule)
	require.ErrorIs(t, err, arena.ErrExhausted)
	assert.ErrorContains(t, err, "458752 bytes")
	assert.ErrorContains(t, err, "393216 are free, the largest piece has 393216")
	_, err = a.Malloc(17 * granule)
	require.ErrorIs(t, err, arena.ErrExhausted)
	require.NoError(t, a.Free(va))
	assert.Equal(t, 1, f.handlesNow(), "it stays")
	assert.Equal(t, va, malloc(t, a, 16*granule))
	assert.Equal(t, "a single handle", a.Placement().String())
	require.NoError(t, a.Close())
	assert.Zero(t, f.handlesNow())
	assertBalance(t, a.Stats())
	require.NoError(t, a.Release())
}

func TestSingleThatCannotBeMade(t *testing.T) {
	f := newFake(t)
	f.onAllocate = func(_, _ uint64) error { return errDriver }
	_, err := arena.New(f, arena.Config{Total: 16 * granule, Placement: arena.Single()})
	require.ErrorIs(t, err, errDriver)
	assert.ErrorContains(t, err, "make the single handle of 1048576 bytes")
	assert.Zero(t, f.reserved)
}

func TestSlabThatCannotBeMade(t *testing.T) {
	f := newFake(t)
	a := openWith(t, f, 64, arena.Slab(slabSize))
	f.onAllocate = func(_, _ uint64) error { return errDriver }
	_, err := a.Malloc(1)
	require.ErrorIs(t, err, errDriver)
	f.onAllocate = nil
	assert.Equal(t, uint64(base+slabSize), malloc(t, a, 1), "the addresses are lost on purpose")
	assert.Equal(t, uint64(1), a.Stats().Failed)
	require.NoError(t, a.Release())
}

func TestSlabThatCannotBeReleasedIsQuarantined(t *testing.T) {
	for name, p := range map[string]arena.Placement{"slab": arena.Slab(slabSize), "single": arena.Single()} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			a := openWith(t, f, 64, p)
			malloc(t, a, 1)
			malloc(t, a, 1)
			f.onRelease = func(_, _, _ uint64) error { return vmm.ErrQuarantined }
			require.ErrorIs(t, a.Close(), vmm.ErrQuarantined)
			assertBalance(t, a.Stats())
			assert.Equal(t, uint64(1), a.Stats().Quarantined)
			f.onRelease = nil
			require.NoError(t, a.Release())
			assert.Zero(t, f.handlesNow())
			assertBalance(t, a.Stats())
		})
	}
}

func TestDrainOfSlabsHandsHandlesOver(t *testing.T) {
	for name, p := range map[string]arena.Placement{"slabs": arena.Slab(slabSize), "single": arena.Single()} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			a := openWith(t, f, 256, p)
			for range 100 {
				malloc(t, a, granule)
			}
			want := []uint64{base}
			if name == "slabs" {
				large := malloc(t, a, slabSize+1)
				want = []uint64{base, base + slabSize, base + 2*slabSize, base + 3*slabSize, base + 4*slabSize, base + 5*slabSize, base + 6*slabSize, large}
			}
			drained, err := a.CloseAndDrain()
			require.NoError(t, err)
			var starts []uint64
			for _, d := range drained {
				starts = append(starts, d.VA)
				assert.Equal(t, d.Handle, f.placements[d.VA].handle)
				assert.Equal(t, d.Size, f.placements[d.VA].size)
			}
			assert.Equal(t, want, starts)
			clear(f.placements)
			require.NoError(t, a.Release())
		})
	}
}

func TestPlacementsThatCannotBe(t *testing.T) {
	for name, tc := range map[string]struct {
		backend   arena.Backend
		placement arena.Placement
	}{
		"no size":             {newFake(t), arena.Slab(0)},
		"more than is there":  {newFake(t), arena.Slab(65 * granule)},
		"more than 64 bits":   {newFake(t), arena.Slab(1<<64 - 1)},
		"a granule too small": {&arena.Callbacks{Base: base, OnAllocate: noMemory, OnRelease: noRelease}, arena.Slab(4096)},
		"a base in between":   {&arena.Callbacks{Base: base + 8, OnAllocate: noMemory, OnRelease: noRelease}, arena.Slab(4096)},
	} {
		t.Run(name, func(t *testing.T) {
			config := arena.Config{Total: 64 * granule, Placement: tc.placement}
			switch name {
			case "a granule too small":
				config.Granule = 64
			case "a base in between":
				config.Granule = granule
			}
			_, err := arena.New(tc.backend, config)
			require.ErrorIs(t, err, arena.ErrInvalidArgument)
		})
	}
}

func noMemory(_, _ uint64) (uint64, error) { return 0, nil }

func noRelease(_, _, _ uint64) error { return nil }

// TestSlabsAgainstModel allocates and frees in no order, and checks after each step that live allocations lie apart, each whole in
// what is mapped.
func TestSlabsAgainstModel(t *testing.T) {
	for _, p := range []arena.Placement{arena.Slab(slabSize), arena.Slab(granule), arena.Single()} {
		t.Run(p.String(), func(t *testing.T) {
			random := newRandom(t)
			f := newFake(t)
			a := openWith(t, f, 1<<20, p)
			if p == arena.Single() {
				require.NoError(t, a.Release())
				f = newFake(t)
				a = openWith(t, f, 256, p)
			}
			type live struct{ va, size uint64 }
			var all []live
			var bytes uint64
			for range 5000 {
				if random.IntN(100) < 48 && len(all) > 0 {
					i := random.IntN(len(all))
					require.NoError(t, a.Free(all[i].va))
					bytes -= all[i].size
					all = slices.Delete(all, i, i+1)
				} else {
					size := int64(1 + random.IntN(1<<random.IntN(18)))
					va, err := a.Malloc(size)
					if err != nil {
						require.ErrorIs(t, err, arena.ErrExhausted)
						continue
					}
					rounded := uint64(size+arena.SlabUnit-1) &^ (arena.SlabUnit - 1)
					if p == arena.Slab(granule) && size > granule {
						rounded = uint64(size+granule-1) &^ (granule - 1)
					}
					i, found := slices.BinarySearchFunc(all, va, func(l live, at uint64) int { return int(l.va) - int(at) })
					require.False(t, found)
					require.True(t, i == 0 || all[i-1].va+all[i-1].size <= va, "it overlaps what is below")
					require.True(t, i == len(all) || va+rounded <= all[i].va, "it overlaps what is above")
					all = slices.Insert(all, i, live{va, rounded})
					bytes += rounded
					require.True(t, f.covers(va, rounded))
				}
				require.Equal(t, bytes, a.Mapped())
				require.Equal(t, uint64(len(all)), a.Live())
				require.Equal(t, uint64(f.handlesNow()), a.LiveHandles())
			}
			for _, l := range all {
				require.NoError(t, a.Free(l.va))
			}
			if p != arena.Single() {
				assert.Zero(t, f.handlesNow())
			}
			assertBalance(t, a.Stats())
			require.NoError(t, a.Release())
			assert.Zero(t, f.handlesNow())
		})
	}
}

// covers tells whether one handle is behind a range.
func (f *fake) covers(va, size uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for start, p := range f.placements {
		if start <= va && va+size <= start+p.size {
			return true
		}
	}
	return false
}

func TestThreadsInSlabs(t *testing.T) {
	for _, p := range []arena.Placement{arena.Slab(slabSize), arena.Single()} {
		t.Run(p.String(), func(t *testing.T) {
			f := newFake(t)
			a := openWith(t, f, 1<<12, p)
			var mu sync.Mutex
			owners := map[uint64]int{}
			var wait sync.WaitGroup
			for thread := range 8 {
				wait.Go(func() {
					random := newRandom(t)
					var mine []uint64
					for range 500 {
						if random.IntN(2) == 0 && len(mine) > 0 {
							i := random.IntN(len(mine))
							mu.Lock()
							delete(owners, mine[i])
							mu.Unlock()
							assert.NoError(t, a.Free(mine[i]))
							mine = slices.Delete(mine, i, i+1)
							continue
						}
						va, err := a.Malloc(int64(1 + random.IntN(3*granule)))
						if !assert.NoError(t, err) {
							return
						}
						mu.Lock()
						assert.NotContains(t, owners, va)
						owners[va] = thread
						mu.Unlock()
						mine = append(mine, va)
					}
				})
			}
			wait.Wait()
			assert.Equal(t, uint64(len(owners)), a.Live())
			require.NoError(t, a.Close())
			assertBalance(t, a.Stats())
			require.NoError(t, a.Release())
			assert.Zero(t, f.handlesNow())
		})
	}
}

func TestCloseWaitsForASlab(t *testing.T) {
	f := newFake(t)
	a := openWith(t, f, 64, arena.Slab(slabSize))
	g, entered := newGate(), make(chan struct{})
	f.onAllocate = func(_, _ uint64) error { close(entered); g.park(); return nil }
	allocating := background(func() error { _, err := a.Malloc(1); return err })
	<-entered
	closing := background(a.Close)
	for !a.Closed() {
	}
	assertRunning(t, closing)
	_, err := a.Malloc(1)
	require.ErrorIs(t, err, arena.ErrClosed)
	g.open()
	require.NoError(t, <-allocating)
	require.NoError(t, <-closing)
	assert.Zero(t, f.handlesNow())
	assert.Equal(t, uint64(1), a.Stats().Released)
	require.NoError(t, a.Release())
}
