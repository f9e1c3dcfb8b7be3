package arena_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

func tagStats(t *testing.T, a *arena.Arena, tag arena.Tag) arena.TagStats {
	t.Helper()
	s, err := a.Tag(tag)
	require.NoError(t, err)
	return s
}

func tagged(t *testing.T, a *arena.Arena, tag arena.Tag, size int64) uint64 {
	t.Helper()
	va, err := a.Allocate(arena.Request{Size: size, Tag: tag})
	require.NoError(t, err)
	return va
}

func TestTagsCount(t *testing.T) {
	f := newFake(t)
	a := open(t, f, 64)
	one := tagged(t, a, 1, 2*granule)
	last := tagged(t, a, arena.MaxTags-1, 1)
	none := tagged(t, a, 0, 1)
	assert.Equal(t, arena.TagStats{Live: 1, Mapped: 2 * granule, PeakMapped: 2 * granule}, tagStats(t, a, 1))
	assert.Equal(t, arena.TagStats{Live: 1, Mapped: granule, PeakMapped: granule}, tagStats(t, a, arena.MaxTags-1))
	assert.Zero(t, tagStats(t, a, 2))

	require.NoError(t, a.SetTag(1))
	own := tagged(t, a, 0, 1)
	other := tagged(t, a, 2, 1)
	assert.Equal(t, arena.TagStats{Live: 2, Mapped: 3 * granule, PeakMapped: 3 * granule}, tagStats(t, a, 1))
	assert.Equal(t, uint64(1), tagStats(t, a, 2).Live, "a request's own tag goes first")
	require.NoError(t, a.SetTag(0))
	tagged(t, a, 0, 1)
	assert.Equal(t, uint64(2), tagStats(t, a, 1).Live)

	require.NoError(t, a.Free(one))
	require.NoError(t, a.Free(one))
	assert.Equal(t, arena.TagStats{Live: 1, Mapped: granule, PeakMapped: 3 * granule}, tagStats(t, a, 1))
	for _, va := range []uint64{own, last, none, other} {
		require.NoError(t, a.Free(va))
	}
	for tag := arena.Tag(1); tag < arena.MaxTags; tag++ {
		s := tagStats(t, a, tag)
		assert.Zero(t, s.Live+s.Mapped)
	}
	require.NoError(t, a.Release())
}

func TestTagsThatThereAreNot(t *testing.T) {
	a := open(t, newFake(t), 8)
	for _, tag := range []arena.Tag{arena.MaxTags, 17, 64, 128, 255} {
		before := a.Stats()
		_, err := a.Allocate(arena.Request{Size: 1, Tag: tag})
		require.ErrorIs(t, err, arena.ErrInvalidArgument)
		before.Refused++
		assert.Equal(t, before, a.Stats())
		require.ErrorIs(t, a.SetTag(tag), arena.ErrInvalidArgument)
		_, err = a.Tag(tag)
		require.ErrorIs(t, err, arena.ErrInvalidArgument)
	}
	_, err := a.Tag(0)
	require.ErrorIs(t, err, arena.ErrInvalidArgument)
	require.NoError(t, a.Release())
}

func TestPeaks(t *testing.T) {
	f := newFake(t)
	a := open(t, f, 64)
	vas := []uint64{tagged(t, a, 3, granule), tagged(t, a, 3, 4*granule), tagged(t, a, 4, granule)}
	require.NoError(t, a.Free(vas[1]))
	assert.Equal(t, uint64(6*granule), a.Stats().Peak)
	assert.Equal(t, uint64(5*granule), tagStats(t, a, 3).PeakMapped)
	a.ResetPeaks()
	assert.Equal(t, uint64(2*granule), a.Stats().Peak)
	assert.Equal(t, uint64(granule), tagStats(t, a, 3).PeakMapped)
	tagged(t, a, 3, granule)
	assert.Equal(t, uint64(3*granule), a.Stats().Peak)
	assert.Equal(t, uint64(2*granule), tagStats(t, a, 3).PeakMapped)
	require.NoError(t, a.Close())
	assert.Equal(t, arena.TagStats{PeakMapped: 2 * granule}, tagStats(t, a, 3), "what the close released is not live")
	assert.Equal(t, uint64(3*granule), a.Stats().Peak)
	assert.Contains(t, a.Snapshot().Tags, arena.Tag(3))
	a.ResetPeaks()
	assert.Zero(t, a.Stats().Peak)
	assert.Empty(t, a.Snapshot().Tags)
	require.NoError(t, a.Release())
}

func TestFailedAllocationsHaveNoTag(t *testing.T) {
	for _, fate := range []error{errDriver, vmm.ErrQuarantined} {
		f := newFake(t)
		a := open(t, f, 64)
		f.onAllocate = func(_, _ uint64) error { return fate }
		_, err := a.Allocate(arena.Request{Size: 1, Tag: 5})
		require.ErrorIs(t, err, fate)
		assert.Zero(t, tagStats(t, a, 5))
		assert.Zero(t, a.Stats().Peak)
		f.onAllocate = nil
		require.NoError(t, a.Release())
		assert.Zero(t, tagStats(t, a, 5))
	}
}

func TestTagsInEveryPlacementAndEnd(t *testing.T) {
	for name, p := range map[string]arena.Placement{
		"per allocation": arena.PerAllocation(), "slabs": arena.Slab(slabSize), "single": arena.Single(),
	} {
		for end := range endings {
			t.Run(name+"/"+end, func(t *testing.T) {
				f := newFake(t)
				a := openWith(t, f, 128, p)
				for tag := arena.Tag(1); tag < arena.MaxTags; tag++ {
					tagged(t, a, tag, 1000)
					require.NoError(t, a.Free(tagged(t, a, tag, 3000)))
					assert.Equal(t, uint64(1), tagStats(t, a, tag).Live)
				}
				require.NoError(t, endWith(a, end).err)
				for tag := arena.Tag(1); tag < arena.MaxTags; tag++ {
					s := tagStats(t, a, tag)
					assert.Zero(t, s.Live+s.Mapped)
				}
				clear(f.placements)
				require.NoError(t, a.Release())
			})
		}
	}
}

// No counter is ever less than nothing, and no peak below what it is the peak of. Threads free what is not theirs, as soon as it is there.
func TestThreadsAndTags(t *testing.T) {
	f := newFake(t)
	slow(f)
	a := openConfig(t, f, 32, arena.Config{Reuse: true})
	const sane = 32 * granule
	var all sync.WaitGroup
	over := make(chan struct{})
	thieves := background(func() error {
		for {
			select {
			case <-over:
				return nil
			default:
				if err := a.Free(base + rand.Uint64N(32)*granule); err != nil {
					return err
				}
			}
		}
	})
	for range 4 {
		all.Go(func() {
			var mine []uint64
			for range 2000 {
				va, err := a.Allocate(arena.Request{Size: 1 + rand.Int64N(2*granule), Tag: arena.Tag(rand.IntN(4))})
				if err == nil {
					mine = append(mine, va)
				}
				if len(mine) > 3 || err != nil && len(mine) > 0 {
					assert.NoError(t, a.Free(mine[0]))
					mine = slices.Delete(mine, 0, 1)
				}
				if rand.IntN(100) == 0 {
					a.ResetPeaks()
				}
				s := tagStats(t, a, arena.Tag(1+rand.IntN(3)))
				assert.LessOrEqual(t, s.Live, uint64(64))
				assert.LessOrEqual(t, s.Mapped, uint64(2*sane))
				assert.LessOrEqual(t, s.Mapped, s.PeakMapped)
				assert.LessOrEqual(t, s.PeakMapped, uint64(2*sane))
				assert.LessOrEqual(t, a.Stats().Peak, uint64(2*sane))
			}
		})
	}
	all.Wait()
	close(over)
	require.NoError(t, <-thieves)
	require.NoError(t, a.Close())
	for tag := arena.Tag(1); tag < 4; tag++ {
		s := tagStats(t, a, tag)
		assert.Zero(t, s.Live+s.Mapped)
	}
	require.NoError(t, a.Release())
}
