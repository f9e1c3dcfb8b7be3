package arena_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
)

func TestNewReservesRoundedTotal(t *testing.T) {
	for name, tc := range map[string]struct {
		config         arena.Config
		total, granule uint64
	}{
		"one byte":                {arena.Config{Total: 1}, 2 * mib, 2 * mib},
		"one granule":             {arena.Config{Total: 2 * mib}, 2 * mib, 2 * mib},
		"one byte more":           {arena.Config{Total: 2*mib + 1}, 4 * mib, 2 * mib},
		"the minimum granule":     {arena.Config{Total: 1, Minimum: true}, 4 * kib, 4 * kib},
		"a granule of the caller": {arena.Config{Total: 1, Granule: 8 * kib}, 8 * kib, 8 * kib},
		"that wins over minimum":  {arena.Config{Total: 1, Granule: 8 * kib, Minimum: true}, 8 * kib, 8 * kib},
		"the usual size":          {arena.Config{Total: arena.DefaultTotal}, 4 << 40, 2 * mib},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.minimum, f.recommended = 4*kib, 2*mib
			f.onReserve = func(size, granule, hint uint64) error {
				assert.Equal(t, tc.total, size)
				assert.Equal(t, tc.granule, granule)
				assert.Equal(t, uint64(0x1234), hint)
				return nil
			}
			tc.config.Hint, tc.config.Device = 0x1234, 3
			a, err := arena.New(f, tc.config)
			require.NoError(t, err)
			assert.Equal(t, arena.Stats{Device: 3, Base: base, Total: tc.total, Granule: tc.granule}, a.Stats())
			assert.Equal(t, uint64(base), a.Base())
			assert.Equal(t, tc.total, a.Total())
			assert.Equal(t, tc.granule, a.Granule())
			assert.Equal(t, 3, a.Device())
			assert.False(t, a.Closed())
			require.NoError(t, a.Release())
			assert.Equal(t, calls{reserve: 1, unreserve: 1}, f.counted())
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		config arena.Config
		own    uint64 // the backend's own granule
		target error
		text   string
	}{
		"no total":                  {arena.Config{}, granule, arena.ErrInvalidArgument, "total must be positive, got 0"},
		"a negative total":          {arena.Config{Total: -1}, granule, arena.ErrInvalidArgument, "total must be positive, got -1"},
		"no granule at all":         {arena.Config{Total: 1}, 0, arena.ErrInvalidArgument, "granule must be a power of two, got 0"},
		"an odd granule":            {arena.Config{Total: 1, Granule: 3 * granule}, granule, arena.ErrInvalidArgument, "power of two, got 196608"},
		"an odd granule of its own": {arena.Config{Total: 1}, 3, arena.ErrInvalidArgument, "power of two, got 3"},
		"a granule below the least": {arena.Config{Total: 1, Granule: granule / 2}, granule, arena.ErrInvalidArgument, "at least the driver's minimum of 65536 bytes, got 32768"},
		"a total that overflows":    {arena.Config{Total: math.MaxInt64}, granule, arena.ErrOverflow, "total of 9223372036854775807 bytes"},
		"a granule that overflows":  {arena.Config{Total: 1, Granule: 1 << 63}, granule, arena.ErrOverflow, "total of 1 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.minimum, f.recommended = tc.own, tc.own
			a, err := arena.New(f, tc.config)
			assert.Nil(t, a)
			require.ErrorIs(t, err, tc.target)
			assert.ErrorContains(t, err, tc.text)
			assert.Equal(t, calls{}, f.counted(), "the backend was called")
		})
	}
}

func TestNewTellsThatDriverRefusesAmount(t *testing.T) {
	f := newFake(t)
	f.onReserve = func(_, _, _ uint64) error { return errDriver }
	a, err := arena.New(f, arena.Config{Total: 16 << 40})
	assert.Nil(t, a)
	require.ErrorIs(t, err, errDriver)
	assert.ErrorContains(t, err, "reserve 17592186044416 bytes of addresses")
	assert.ErrorContains(t, err, "fewer may work")
	assert.Equal(t, calls{reserve: 1}, f.counted(), "no smaller size is tried")
}

func TestNewGivesReservationBackWhenItFailsLater(t *testing.T) {
	for name, undo := range map[string]error{"undone": nil, "not undone": errDriver} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.base = math.MaxUint64 - granule + 1 // one granule fits, two do not
			f.onUnreserve = func() error { return undo }
			_, err := arena.New(f, arena.Config{Total: 2 * granule})
			require.ErrorIs(t, err, arena.ErrInvalidArgument)
			assert.ErrorContains(t, err, "the range of 131072 bytes from 0xffffffffffff0000 on does not fit into 64 bits")
			assert.Equal(t, calls{reserve: 1, unreserve: 1}, f.counted())
			if undo != nil {
				assert.ErrorIs(t, err, undo)
			}
		})
	}
}

func TestCallbacks(t *testing.T) {
	allocate := func(va, size uint64) (uint64, error) { return va + size, nil }
	var released []arena.Allocation
	release := func(va, size, handle uint64) error {
		released = append(released, arena.Allocation{VA: va, Size: size, Handle: handle})
		return nil
	}
	for name, c := range map[string]*arena.Callbacks{
		"no function": {Base: base},
		"no allocate": {Base: base, OnRelease: release},
		"no release":  {Base: base, OnAllocate: allocate},
	} {
		_, err := arena.New(c, arena.Config{Total: 1, Granule: granule})
		require.ErrorIs(t, err, arena.ErrInvalidArgument, name)
	}

	c := &arena.Callbacks{Base: base + 1, OnAllocate: allocate, OnRelease: release}
	a, err := arena.New(c, arena.Config{Total: 2 * granule, Granule: granule})
	require.NoError(t, err)
	va := malloc(t, a, 1)
	assert.Equal(t, uint64(base+1), va, "the base is the caller's, whatever it is")
	_, err = a.Allocate(arena.Request{Size: 1, Align: 2})
	require.ErrorIs(t, err, arena.ErrInvalidArgument, "an alignment that the base does not have")
	require.NoError(t, a.Free(va))
	require.NoError(t, a.Release())
	assert.Equal(t, []arena.Allocation{{VA: va, Size: granule, Handle: va + granule}}, released)
}

func TestArenasShareNothing(t *testing.T) {
	first, second := newFake(t), newFake(t) // at the same base
	a, b := open(t, first, 4), open(t, second, 4)
	va := malloc(t, a, 1)
	require.NoError(t, b.Free(va))
	assert.Equal(t, uint64(1), a.Live())
	assert.Equal(t, uint64(1), b.Stats().UnknownFrees)
	require.NoError(t, a.Release())
	assert.Equal(t, uint64(base), malloc(t, b, 1))
	assert.False(t, b.Closed())
}
