package arena_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
)

func regionsOf(t *testing.T, a *arena.Arena, kind arena.RegionKind) []arena.Region {
	t.Helper()
	regions, err := a.Regions(kind)
	require.NoError(t, err)
	return regions
}

// bare is regions as granules from the base on: begin and end.
func bare(regions []arena.Region) (spans [][2]uint64) {
	for _, r := range regions {
		spans = append(spans, [2]uint64{(r.Base - base) / granule, (r.Base + r.Length - base) / granule})
	}
	return spans
}

func TestRegionsOfAnEmptyArena(t *testing.T) {
	a := open(t, newFake(t), 64)
	for kind := arena.RegionsDmabuf; kind <= arena.RegionsHoles; kind++ {
		assert.Empty(t, regionsOf(t, a, kind))
	}
	for _, kind := range []arena.RegionKind{arena.RegionsHoles + 1, 255} {
		_, err := a.Regions(kind)
		require.ErrorIs(t, err, arena.ErrInvalidArgument)
	}
	require.NoError(t, a.Release())
}

func TestRunsMergeAndSplit(t *testing.T) {
	f := newFake(t)
	a := open(t, f, 64)
	vas := []uint64{malloc(t, a, 1), malloc(t, a, 2*granule), malloc(t, a, 1), malloc(t, a, 3*granule), malloc(t, a, 1)}
	first := handleOf(t, a, vas[0])
	assert.Equal(t, [][2]uint64{{0, 8}}, bare(regionsOf(t, a, arena.RegionsDmabuf)))
	assert.Zero(t, regionsOf(t, a, arena.RegionsDmabuf)[0].Handle, "it has several")
	require.NoError(t, a.Free(vas[1]))
	runs := regionsOf(t, a, arena.RegionsDmabuf)
	assert.Equal(t, [][2]uint64{{0, 1}, {3, 8}}, bare(runs))
	assert.Equal(t, first, runs[0].Handle, "it has one")
	require.NoError(t, a.Free(vas[4]))
	assert.Equal(t, [][2]uint64{{0, 1}, {3, 7}}, bare(regionsOf(t, a, arena.RegionsDmabuf)))
	assert.Equal(t, [][2]uint64{{1, 3}, {7, 8}}, bare(regionsOf(t, a, arena.RegionsHoles)))
	assert.Equal(t, [][2]uint64{{0, 8}}, bare(regionsOf(t, a, arena.RegionsWhole)))
	for _, kind := range []arena.RegionKind{arena.RegionsPosixFD, arena.RegionsFabric, arena.RegionsIPC} {
		regions := regionsOf(t, a, kind)
		assert.Equal(t, [][2]uint64{{0, 1}, {3, 4}, {4, 7}}, bare(regions), "one for each handle")
		for _, r := range regions {
			assert.Equal(t, f.placements[r.Base], placement{size: r.Length, handle: r.Handle})
			assert.Zero(t, r.Offset)
			assert.Zero(t, r.Exports, "this backend has no way to give it away")
		}
	}
	require.NoError(t, a.Release())
}

func TestRunsAreCutToPages(t *testing.T) {
	const small = 4 * kib
	f := newFake(t)
	f.minimum, f.recommended = small, small
	f.base = base + 3*small
	a := open(t, f, 256)
	vas := mallocs(t, a, 70) // pages of 64 KiB: 13 granules to the first, then 3 whole ones and 9
	require.NoError(t, a.Free(vas[40]))
	assert.Equal(t, []arena.Region{
		{Base: f.base, Length: 40 * small}, {Base: f.base + 41*small, Length: 29 * small},
	}, a.Runs(small))
	assert.Equal(t, []arena.Region{
		{Base: base + 64*kib, Length: 64 * kib, Offset: 13 * small},
		{Base: base + 3*64*kib, Length: 64 * kib, Offset: 4 * small},
	}, a.Runs(64*kib))
	for _, i := range []int{14, 50} { // no whole page is left in either
		require.NoError(t, a.Free(vas[i]))
	}
	assert.Empty(t, a.Runs(64*kib))
	assert.Len(t, a.Runs(small), 4)
	assert.Empty(t, a.Runs(gib))
	require.NoError(t, a.Release())
}

func TestRegionsOfSlabs(t *testing.T) {
	f := newFake(t)
	a := openWith(t, f, 256, arena.Slab(slabSize))
	var vas []uint64
	for range 3 {
		vas = append(vas, malloc(t, a, slabSize/2+1))
		malloc(t, a, 1)
	}
	large := malloc(t, a, slabSize+1)
	assert.Len(t, regionsOf(t, a, arena.RegionsIPC), 4, "one for each slab, and what is larger")
	assert.Len(t, regionsOf(t, a, arena.RegionsDmabuf), 1)
	require.NoError(t, a.Free(vas[0]))
	assert.Len(t, regionsOf(t, a, arena.RegionsDmabuf), 1, "the slab is there, with what is small")
	assert.Empty(t, regionsOf(t, a, arena.RegionsHoles))
	require.NoError(t, a.Free(large))
	assert.Equal(t, [][2]uint64{{0, 48}}, bare(regionsOf(t, a, arena.RegionsDmabuf)))
	assert.Equal(t, [][2]uint64{{48, 65}}, bare(regionsOf(t, a, arena.RegionsHoles)))
	require.NoError(t, a.Release())
}

func TestRegionOfASingleHandle(t *testing.T) {
	f := newFake(t)
	a := openWith(t, f, 16, arena.Single())
	for range 2 {
		for kind := arena.RegionsDmabuf; kind <= arena.RegionsWhole; kind++ {
			regions := regionsOf(t, a, kind)
			assert.Equal(t, [][2]uint64{{0, 16}}, bare(regions))
			if kind != arena.RegionsWhole {
				assert.Equal(t, uint64(1001), regions[0].Handle)
			}
		}
		assert.Empty(t, regionsOf(t, a, arena.RegionsHoles))
		malloc(t, a, 1)
	}
	require.NoError(t, a.Close())
	assert.Empty(t, regionsOf(t, a, arena.RegionsDmabuf), "nothing is mapped any more")
	require.NoError(t, a.Release())
}

func TestRegionsAfterTheEnd(t *testing.T) {
	for end := range endings {
		f := newFake(t)
		a := open(t, f, 16)
		mallocs(t, a, 3)
		require.NoError(t, endWith(a, end).err)
		assert.Empty(t, regionsOf(t, a, arena.RegionsDmabuf))
		assert.Empty(t, regionsOf(t, a, arena.RegionsIPC))
		assert.Equal(t, [][2]uint64{{0, 3}}, bare(regionsOf(t, a, arena.RegionsHoles)))
		clear(f.placements)
		require.NoError(t, a.Release())
	}
}

// TestRunsAndHolesMakeUpTheRange allocates, fails and frees at random: whole = runs + holes, exactly, and runs do not touch.
func TestRunsAndHolesMakeUpTheRange(t *testing.T) {
	for _, config := range []arena.Config{
		{}, {Reuse: true}, {Placement: arena.Slab(4 * granule)}, {Placement: arena.Slab(4 * granule), Reuse: true, Cache: 8 * granule},
	} {
		t.Run(fmt.Sprintf("%v, reuse %t", config.Placement, config.Reuse), func(t *testing.T) {
			random := newRandom(t)
			v := newVault(t)
			v.onAllocate = func(_, _ uint64) error {
				if random.IntN(8) == 0 {
					return errDriver
				}
				return nil
			}
			a := openConfig(t, v, 1<<13, config)
			var live []uint64
			for range 1500 {
				if random.IntN(100) < 45 && len(live) > 0 {
					i := random.IntN(len(live))
					require.NoError(t, a.Free(live[i]))
					live = slices.Delete(live, i, i+1)
				} else if va, err := a.Malloc(1 + random.Int64N(6*granule)); err == nil {
					live = append(live, va)
				}
				whole := regionsOf(t, a, arena.RegionsWhole)
				runs, holes := regionsOf(t, a, arena.RegionsDmabuf), regionsOf(t, a, arena.RegionsHoles)
				if len(whole) == 0 {
					require.Empty(t, runs)
					require.Empty(t, holes)
					continue
				}
				require.Equal(t, a.Used(), whole[0].Length)
				var mapped uint64
				all := slices.Concat(runs, holes)
				slices.SortFunc(all, func(x, y arena.Region) int { return int(x.Base) - int(y.Base) })
				end := whole[0].Base
				for _, r := range all {
					require.Equal(t, end, r.Base)
					end += r.Length
				}
				require.Equal(t, whole[0].Base+whole[0].Length, end)
				for i, r := range runs {
					mapped += r.Length
					require.True(t, i == 0 || runs[i-1].Base+runs[i-1].Length < r.Base, "they touch: they are one")
				}
				var handles uint64
				for _, r := range regionsOf(t, a, arena.RegionsPosixFD) {
					handles += r.Length
					require.Equal(t, v.placements[r.Base], placement{size: r.Length, handle: r.Handle})
				}
				require.Equal(t, mapped, handles)
				require.Len(t, v.placements, len(regionsOf(t, a, arena.RegionsPosixFD)))
			}
			require.NoError(t, a.Release())
		})
	}
}

// What regions say while threads are at work is never out of order, and never overlaps.
func TestRegionsWhileThreadsAreAtWork(t *testing.T) {
	v := newVault(t)
	slow(v.fake)
	a := openConfig(t, v, 512, arena.Config{Reuse: true, Placement: arena.Slab(2 * granule), Prefetch: 8 * granule})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 400 {
				va, err := a.Malloc(3 * granule / 2)
				if assert.NoError(t, err) {
					assert.NoError(t, a.Free(va))
				}
			}
		})
	}
	over := make(chan struct{})
	watched := background(func() error {
		for {
			select {
			case <-over:
				return nil
			default:
			}
			for kind := arena.RegionsDmabuf; kind <= arena.RegionsHoles; kind++ {
				regions, err := a.Regions(kind)
				if err != nil {
					return err
				}
				end := uint64(base)
				for _, r := range regions {
					if r.Base < end || r.Length == 0 || r.Base+r.Length > base+a.Total() {
						return fmt.Errorf("kind %d has %+v after %#x", kind, r, end)
					}
					end = r.Base + r.Length
				}
			}
		}
	})
	all.Wait()
	close(over)
	require.NoError(t, <-watched)
	require.NoError(t, a.Release())
}
