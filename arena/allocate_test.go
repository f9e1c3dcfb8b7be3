package arena_test

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

func TestAllocateGivesNextAddresses(t *testing.T) {
	f := newFake(t)
	a := open(t, f, 16)
	next := uint64(base)
	var mapped uint64
	for i, tc := range []struct {
		size    int64
		rounded uint64
	}{
		{1, granule},
		{granule - 1, granule},
		{granule, granule},
		{granule + 1, 2 * granule},
		{3 * granule, 3 * granule},
	} {
		va, err := a.Malloc(tc.size)
		require.NoError(t, err)
		assert.Equal(t, next, va, "address of %d bytes", tc.size)
		next += tc.rounded
		mapped += tc.rounded
		assert.Equal(t, placement{size: tc.rounded, handle: uint64(1001 + i)}, f.placements[va])
		assert.Equal(t, next-base, a.Used())
		assert.Equal(t, mapped, a.Mapped())
		assert.Equal(t, uint64(i+1), a.Live())
	}
	first, length := a.RegisteredRange()
	assert.Equal(t, uint64(base), first)
	assert.Equal(t, uint64(8*granule), length)
}

func TestAllocateTakesAlignmentsUpToGranule(t *testing.T) {
	a := open(t, newFake(t), 64)
	for align := uint64(1); align <= granule; align *= 2 {
		va, err := a.Allocate(arena.Request{Size: 1, Align: align})
		require.NoError(t, err)
		assert.Zero(t, va%align)
	}
}

func TestAllocateRefusesAndNothingChanges(t *testing.T) {
	for name, tc := range map[string]struct {
		request arena.Request
		target  error
		text    string
	}{
		"no size":                    {arena.Request{Size: 0}, arena.ErrInvalidArgument, "size must be positive, got 0"},
		"a negative size":            {arena.Request{Size: -5}, arena.ErrInvalidArgument, "size must be positive, got -5"},
		"the least size":             {arena.Request{Size: math.MinInt64}, arena.ErrInvalidArgument, "size must be positive"},
		"a size that overflows":      {arena.Request{Size: math.MaxInt64}, arena.ErrOverflow, "allocation of 9223372036854775807 bytes: size overflows"},
		"the least that overflows":   {arena.Request{Size: math.MaxInt64 - granule + 2}, arena.ErrOverflow, "overflows"},
		"the most that does not":     {arena.Request{Size: math.MaxInt64 - granule + 1}, arena.ErrExhausted, "would exceed"},
		"a granule too much":         {arena.Request{Size: 7*granule + 1}, arena.ErrExhausted, "allocation of 458753 bytes (524288 rounded) at offset 65536 would exceed reserved range of 524288 bytes"},
		"an alignment above granule": {arena.Request{Size: 1, Align: 2 * granule}, arena.ErrInvalidArgument, "alignment must be a power of two up to the granule of 65536 bytes"},
		"an odd alignment":           {arena.Request{Size: 1, Align: 3}, arena.ErrInvalidArgument, "got 3"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			a := open(t, f, 8)
			malloc(t, a, 1)
			before, asked := a.Stats(), f.counted()
			va, err := a.Allocate(tc.request)
			require.ErrorIs(t, err, tc.target)
			assert.ErrorContains(t, err, tc.text)
			assert.Zero(t, va)
			before.Refused++
			assert.Equal(t, before, a.Stats(), "the refusal changed something")
			assert.Equal(t, asked, f.counted(), "the backend was asked")
			assert.Equal(t, uint64(base+granule), malloc(t, a, 7*granule), "the room is still there")
		})
	}
}

func TestExhaustedErrorTellsFigures(t *testing.T) {
	a := open(t, newFake(t), 4)
	malloc(t, a, 3*granule)
	_, err := a.Malloc(granule + 1)
	exhausted := new(arena.ExhaustedError)
	require.ErrorAs(t, err, &exhausted)
	assert.Equal(t, arena.ExhaustedError{
		Size: granule + 1, Rounded: 2 * granule, Offset: 3 * granule, Total: 4 * granule,
	}, *exhausted)
	assert.NotErrorIs(t, err, vmm.ClassOutOfMemory, "an exhausted range is not a device out of memory")
}

func TestAllocateOnClosedArena(t *testing.T) {
	f := newFake(t)
	a := open(t, f, 4)
	require.NoError(t, a.Close())
	for _, size := range []int64{1, 100 * granule} { // closed comes before exhausted
		_, err := a.Malloc(size)
		require.ErrorIs(t, err, arena.ErrClosed)
		assert.EqualError(t, err, "arena is closed")
	}
	assert.Equal(t, uint64(2), a.Stats().Refused)
	assert.Zero(t, f.counted().allocate)
}

func TestFailedAllocationLosesItsAddressesOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		fail   func() error
		target error
	}{
		"an error": {func() error { return &vmm.Error{Class: vmm.ClassOutOfMemory} }, vmm.ClassOutOfMemory},
		"a panic":  {func() error { panic(errDriver) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			a := open(t, f, 8)
			kept := malloc(t, a, 1)
			before := a.Stats()

			f.onAllocate = func(_, _ uint64) error { return tc.fail() }
			va, err := a.Malloc(2 * granule)
			assert.Zero(t, va)
			if tc.target != nil {
				require.ErrorIs(t, err, tc.target)
			} else {
				panicked := new(arena.PanicError)
				require.ErrorAs(t, err, &panicked)
				assert.ErrorContains(t, err, "the backend panicked: "+fmt.Sprint(panicked.Value))
			}
			before.Used += 2 * granule
			before.Failed++
			assert.Equal(t, before, a.Stats())

			f.onAllocate = nil
			assert.Equal(t, kept+3*granule, malloc(t, a, 1), "the next allocation works, behind the lost addresses")
			require.NoError(t, a.Free(kept+granule))
			assert.Equal(t, uint64(1), a.Stats().UnknownFrees, "the lost address is nobody's")
			require.NoError(t, a.Release())
			assert.False(t, f.isReserved())
		})
	}
}

func TestAllocationThatCannotBeUndoneIsQuarantined(t *testing.T) {
	f := newFake(t)
	a := open(t, f, 8)
	f.onAllocate = func(_, _ uint64) error { return fmt.Errorf("%w: %w", vmm.ErrQuarantined, errDriver) }
	va, err := a.Malloc(1)
	require.ErrorIs(t, err, errDriver)
	assert.Zero(t, va)
	s := a.Stats()
	assertBalance(t, s)
	assert.Equal(t, uint64(1), s.Failed)
	assert.Equal(t, uint64(1), s.Created)
	assert.Equal(t, uint64(1), s.Quarantined)
	assert.Zero(t, s.Live)
	assert.Zero(t, s.Mapped)
	assert.Equal(t, []uint64{base}, f.live())

	require.NoError(t, a.Free(base), "it was never given out")
	assert.Equal(t, uint64(1), a.Stats().UnknownFrees)
	require.NoError(t, a.Close(), "close retries it")
	s = a.Stats()
	assertBalance(t, s)
	assert.Zero(t, s.Quarantined)
	assert.Equal(t, uint64(1), s.Released)
	assert.Empty(t, f.live())
	assert.False(t, f.isReserved())
}

func TestNearlyFull(t *testing.T) {
	for _, total := range []int64{1, 4, 5, 9, 10, 100} {
		f := newFake(t)
		f.minimum, f.recommended = 1, 1
		a := open(t, f, total)
		for used := int64(0); used <= total; used++ {
			assert.Equal(t, 10*used >= 8*total, a.Stats().NearlyFull(), "%d of %d bytes", used, total)
			if used < total {
				require.NoError(t, a.Free(malloc(t, a, 1)))
			}
		}
		assert.True(t, a.Stats().NearlyFull(), "it stays: what is freed does not come back")
	}
}

func TestConcurrentAllocationsNeverShareAddresses(t *testing.T) {
	const threads, each = 8, 200
	f := newFake(t)
	a := open(t, f, threads*each*3/2) // sizes are 1 and 2 granules
	var all sync.WaitGroup
	for thread := range threads {
		all.Go(func() {
			last := uint64(0)
			for i := range each {
				va, err := a.Malloc(int64(1 + (thread+i)%2*granule))
				assert.NoError(t, err)
				assert.Greater(t, va, last, "addresses ascend")
				last = va
			}
		})
	}
	all.Wait()
	s := a.Stats()
	assertBalance(t, s)
	assert.Equal(t, s.Total, s.Used, "every granule was given out, once")
	assert.Equal(t, s.Total, s.Mapped)
	assert.Len(t, f.live(), threads*each)
	_, err := a.Malloc(1)
	require.ErrorIs(t, err, arena.ErrExhausted)
	require.NoError(t, a.Release())
}
