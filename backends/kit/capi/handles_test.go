package capi

import (
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
)

func newArena(t *testing.T) *arena.Arena {
	t.Helper()
	a, err := arena.New(&arena.Callbacks{
		Base:       1 << 40,
		OnAllocate: func(_, _ uint64) (uint64, error) { return 1, nil },
		OnRelease:  func(_, _, _ uint64) error { return nil },
	}, arena.Config{Total: 1 << 20, Granule: 4096})
	require.NoError(t, err)
	return a
}

func TestHandlesFindWhatTheyWereGivenFor(t *testing.T) {
	var h handles
	first, second := newArena(t), newArena(t)
	one, two := h.add(first), h.add(second)
	assert.NotEqual(t, one, two)
	assert.Same(t, first, h.get(one))
	assert.Same(t, second, h.get(two))
	assert.Equal(t, one, h.find(first))
	assert.Zero(t, h.find(newArena(t)))
}

func TestAHandleThatWasGivenBackStaysInvalid(t *testing.T) {
	var h handles
	a := newArena(t)
	stale := h.add(a)
	require.True(t, h.remove(stale))
	assert.Nil(t, h.get(stale))
	assert.False(t, h.remove(stale), "a second time")
	assert.Zero(t, h.find(a))

	again := h.add(a)
	assert.Equal(t, uint32(stale), uint32(again), "the place is used again")
	assert.NotEqual(t, stale, again)
	assert.Nil(t, h.get(stale))
	assert.Same(t, a, h.get(again))
}

func TestMadeUpHandlesFindNothing(t *testing.T) {
	var h handles
	for _, made := range []Arena{0, 1, 1 << 32, 1<<32 | 1, math.MaxUint64} {
		assert.Nil(t, h.get(made), "%#x in an empty table", uint64(made))
		assert.False(t, h.remove(made))
	}
	given := h.add(newArena(t))
	for _, made := range []Arena{0, given + 1, given - 1, given + 1<<32, given - 1<<32, ^given, math.MaxUint64, 1} {
		assert.Nil(t, h.get(made), "%#x", uint64(made))
	}
}

func TestAPlaceWithoutGenerationsLeftIsNotUsedAgain(t *testing.T) {
	var h handles
	h.remove(h.add(newArena(t)))
	h.all()[0].generation = math.MaxUint32
	last := h.add(newArena(t))
	require.Equal(t, Arena(math.MaxUint32)<<32|1, last)
	require.True(t, h.remove(last))
	assert.Equal(t, Arena(1)<<32|2, h.add(newArena(t)))
}

func TestHandlesAreSafeForConcurrentUse(t *testing.T) {
	var h handles
	a := newArena(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				handle := h.add(a)
				if h.get(handle) != a {
					t.Error("a handle that was just given finds something else")
				}
				if !h.remove(handle) || h.get(handle) != nil {
					t.Error("a handle that was given back is still valid")
				}
			}
		})
	}
	wg.Wait()
	assert.Zero(t, h.find(a))
}
