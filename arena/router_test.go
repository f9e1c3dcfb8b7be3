package arena_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

// at opens an arena of so many granules at a base, for a device.
func at(t *testing.T, base uint64, granules int64, device int) (*arena.Arena, *fake) {
	t.Helper()
	f := newFake(t)
	f.base = base
	a, err := arena.New(f, arena.Config{Total: granules * granule, Device: device})
	require.NoError(t, err)
	return a, f
}

func TestRouterMallocServesFromActiveArena(t *testing.T) {
	own, _ := at(t, base, 64, 1)
	other, _ := at(t, 2*base, 64, 0)
	for name, tc := range map[string]struct {
		own, any *arena.Arena
		device   int
		want     *arena.Arena
	}{
		"the device's own":               {own, nil, 1, own},
		"its own before any":             {own, other, 1, own},
		"any":                            {nil, other, 1, other},
		"another device's own is not":    {own, nil, 2, nil},
		"any for another device":         {own, other, 2, other},
		"none":                           {nil, nil, 1, nil},
		"any for a device without place": {nil, other, arena.MaxDevices, other},
		"any for a negative device":      {own, other, -1, other},
		"none for a negative device":     {own, nil, -1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var r arena.Router
			require.NoError(t, r.SetActive(1, tc.own))
			r.SetActiveAny(tc.any)
			assert.Same(t, tc.want, r.Active(tc.device))
			va, err := r.Malloc(tc.device, arena.Request{Size: 1})
			if tc.want == nil {
				require.ErrorIs(t, err, arena.ErrNoActiveArena)
				assert.NotErrorIs(t, err, vmm.ClassOutOfMemory)
				assert.Zero(t, va)
				assert.Equal(t, arena.Diagnostics{NoActive: 1}, r.Diagnostics())
				return
			}
			require.NoError(t, err)
			assert.True(t, tc.want.Contains(va))
			assert.Equal(t, arena.Diagnostics{}, r.Diagnostics())
		})
	}
}

func TestRouterMallocPassesRequestAndErrorsOn(t *testing.T) {
	a, _ := at(t, base, 4, 0)
	var r arena.Router
	r.SetActiveAny(a)
	_, err := r.Malloc(0, arena.Request{Size: 1, Align: 3})
	require.ErrorIs(t, err, arena.ErrInvalidArgument)
	_, err = r.Malloc(0, arena.Request{Size: 5 * granule})
	require.ErrorIs(t, err, arena.ErrExhausted)
}

func TestSetActiveReplacesAndClearsOnePlace(t *testing.T) {
	a, _ := at(t, base, 4, 0)
	b, _ := at(t, 2*base, 4, 0)
	var r arena.Router
	for device := range arena.MaxDevices {
		require.NoError(t, r.SetActive(device, a))
	}
	r.SetActiveAny(a)
	require.NoError(t, r.SetActive(1, b))
	assert.Same(t, b, r.Active(1))
	require.NoError(t, r.SetActive(1, nil))
	assert.Same(t, a, r.Active(1), "any")
	r.SetActiveAny(nil)
	assert.Nil(t, r.Active(1))
	for device := range arena.MaxDevices {
		if device != 1 {
			assert.Same(t, a, r.Active(device))
		}
	}
	for _, device := range []int{-1, arena.MaxDevices} {
		err := r.SetActive(device, a)
		require.ErrorIs(t, err, arena.ErrInvalidArgument)
		assert.ErrorContains(t, err, "device must be 0 to 63")
	}
}

func TestClosedArenaStopsServing(t *testing.T) {
	own, _ := at(t, base, 4, 0)
	other, _ := at(t, 2*base, 4, 0)
	var r arena.Router
	require.NoError(t, r.SetActive(0, own))
	require.NoError(t, own.Close())
	_, err := r.Malloc(0, arena.Request{Size: 1})
	require.ErrorIs(t, err, arena.ErrClosed, "there is no other")
	r.SetActiveAny(other)
	va, err := r.Malloc(0, arena.Request{Size: 1})
	require.NoError(t, err)
	assert.True(t, other.Contains(va))
	require.NoError(t, other.Close())
	_, err = r.Malloc(0, arena.Request{Size: 1})
	require.ErrorIs(t, err, arena.ErrClosed)
	assert.Zero(t, r.Diagnostics().NoActive)
}

func TestRouterFreeFindsArenaFromAddress(t *testing.T) {
	var r arena.Router
	a, _ := at(t, base, 8, 0)
	b, _ := at(t, 2*base, 8, 1)
	for _, x := range []*arena.Arena{b, a, a} { // a second Add does nothing
		r.Add(x)
	}
	assert.Equal(t, 2, r.Diagnostics().Arenas)
	for name, active := range map[string]*arena.Arena{"none": nil, "itself": a, "another": b} {
		t.Run(name, func(t *testing.T) {
			r.SetActiveAny(active)
			before := a.Live()
			va := malloc(t, a, 1)
			require.NoError(t, r.Free(0, va))
			assert.Equal(t, before, a.Live())
		})
	}
	assert.Zero(t, b.Stats().UnknownFrees, "asking is not freeing")
	assert.Equal(t, arena.Diagnostics{Arenas: 2}, r.Diagnostics())
}

func TestRouterFreeCountsWhatIsNobodys(t *testing.T) {
	var r arena.Router
	a, f := at(t, base, 8, 0)
	r.Add(a)
	r.SetActiveAny(a)
	live, freed := malloc(t, a, 2*granule), malloc(t, a, 1)
	require.NoError(t, r.Free(0, freed))
	for i, va := range []uint64{freed, live + 1, live + granule, base - 1, base + 8*granule, ^uint64(0)} {
		require.NoError(t, r.Free(0, va))
		assert.Equal(t, arena.Diagnostics{Arenas: 1, Unrouted: uint64(i + 1)}, r.Diagnostics())
	}
	before := r.Diagnostics()
	require.NoError(t, r.Free(0, 0), "a free of NULL is none")
	assert.Equal(t, before, r.Diagnostics())
	assert.Equal(t, []uint64{live}, f.live())
}

func TestRouterFreeTrustsNoHint(t *testing.T) {
	var r arena.Router
	a, f := at(t, base, 8, 3)
	r.Add(a)
	for i, device := range []int{3, 0, -7, 1000} {
		require.NoError(t, r.Free(device, malloc(t, a, 1)))
		assert.Equal(t, uint64(i), r.Diagnostics().OtherDevice)
	}
	assert.Empty(t, f.live())
}

func TestRouterFreeReportsFailedRelease(t *testing.T) {
	for name, active := range map[string]bool{"active": true, "not active": false} {
		t.Run(name, func(t *testing.T) {
			var r arena.Router
			a, f := at(t, base, 8, 0)
			r.Add(a)
			if active {
				r.SetActiveAny(a)
			}
			f.onRelease = func(_, _, _ uint64) error { return errDriver }
			require.ErrorIs(t, r.Free(0, malloc(t, a, 1)), errDriver)
			assert.Zero(t, r.Diagnostics().Unrouted)
		})
	}
}

func TestRouterOfCoincidingBases(t *testing.T) {
	var r arena.Router
	var arenas []*arena.Arena
	for range 3 {
		a, _ := at(t, base, 8, 0)
		r.Add(a)
		arenas = append(arenas, a)
	}
	for i, a := range arenas { // addresses base .. base+2 granules; each one more than the one before
		mallocs(t, a, i+1)
	}
	assert.Same(t, arenas[2], r.Of(base+2*granule), "the only one with an allocation there")
	r.SetActiveAny(arenas[0])
	assert.Same(t, arenas[0], r.Of(base), "the active one first")
	assert.Contains(t, arenas, r.Of(base+7*granule), "nobody's allocation: any of them")
	assert.Nil(t, r.Of(base+8*granule))
	assert.Nil(t, r.Of(base-1))

	require.NoError(t, r.Free(0, base))
	assert.Zero(t, arenas[0].Live(), "the active one first")
	require.NoError(t, r.Free(0, base))
	require.NoError(t, r.Free(0, base))
	assert.Equal(t, []uint64{1, 2}, []uint64{arenas[1].Live(), arenas[2].Live()}, "then the others by their records")
	require.NoError(t, r.Free(0, base))
	assert.Equal(t, uint64(1), r.Diagnostics().Unrouted)
	assert.Zero(t, arenas[0].Stats().UnknownFrees)
}

func TestRemoveForgetsAndClearsWhereActive(t *testing.T) {
	var r arena.Router
	a, _ := at(t, base, 8, 0)
	b, _ := at(t, 2*base, 8, 0)
	r.Add(a)
	r.Add(b)
	require.NoError(t, r.SetActive(0, a))
	require.NoError(t, r.SetActive(5, a))
	require.NoError(t, r.SetActive(6, b))
	r.SetActiveAny(a)
	va := malloc(t, a, 1)
	r.Remove(a)
	r.Remove(a)
	assert.Nil(t, r.Of(va))
	assert.Nil(t, r.Active(0))
	assert.Nil(t, r.Active(5))
	assert.Same(t, b, r.Active(6))
	require.NoError(t, r.Free(0, va))
	assert.Equal(t, arena.Diagnostics{Arenas: 1, Unrouted: 1}, r.Diagnostics())
	assert.Equal(t, uint64(1), a.Live())
}

// A late free must not meet somebody else's memory: the addresses come back only when it has
// arrived, or when the handle is released.
func TestLateFreeAndNewArenaAtTheSameAddress(t *testing.T) {
	for _, end := range []string{"Close", "CloseAndDrain", "Release"} {
		t.Run(end, func(t *testing.T) {
			var r arena.Router
			old, f := at(t, base, 8, 0)
			r.Add(old)
			r.SetActiveAny(old)
			vas := mallocs(t, old, 2)
			require.NoError(t, endings[end](old))
			clear(f.placements)
			if end != "Release" {
				require.NoError(t, r.Free(0, vas[0]))
				require.NoError(t, r.Free(0, vas[1]))
				require.NoError(t, r.Free(0, vas[1]), "an unknown one")
			}
			require.False(t, f.isReserved(), "now the driver may give them to another")

			young, g := at(t, base, 8, 0)
			r.Add(young) // the old one is still known, and active
			assert.Equal(t, uint64(base), malloc(t, young, 1))
			require.NoError(t, r.Free(0, base))
			assert.Empty(t, g.live(), "the free is the new arena's")
			assert.Zero(t, young.Live())

			r.Remove(old)
			malloc(t, young, 1)
			require.NoError(t, r.Free(0, base+granule))
			assert.Zero(t, young.Live())
		})
	}
}

// Ranges that overlap in any way are searched like a plain list.
func TestRouterAgainstList(t *testing.T) {
	random := newRandom(t)
	for range 100 {
		var r arena.Router
		var arenas []*arena.Arena
		for range 1 + random.IntN(12) {
			a, _ := at(t, uint64(1+random.IntN(40))*granule, int64(1+random.IntN(20)), 0)
			mallocs(t, a, random.IntN(int(a.Total()/granule)+1))
			r.Add(a)
			arenas = append(arenas, a)
			if random.IntN(4) == 0 {
				i := random.IntN(len(arenas))
				r.Remove(arenas[i])
				arenas = append(arenas[:i], arenas[i+1:]...)
			}
		}
		require.Equal(t, len(arenas), r.Diagnostics().Arenas)
		for va := uint64(0); va < 64*granule; va += granule / 2 {
			checkRoute(t, &r, arenas, va)
		}
	}
}

func checkRoute(t *testing.T, r *arena.Router, arenas []*arena.Arena, va uint64) {
	t.Helper()
	contains, owns, live := false, false, uint64(0)
	for _, a := range arenas {
		contains = contains || a.Contains(va)
		owns = owns || (va-a.Base() < a.Used() && (va-a.Base())%granule == 0)
		live += a.Live()
	}
	of := r.Of(va)
	require.Equal(t, contains, of != nil, "arena of %#x", va)
	if owns {
		require.Less(t, va-of.Base(), of.Used(), "%#x belongs to one that has it", va)
	}
	require.NoError(t, r.Free(0, va))
	if owns {
		live--
	}
	var left uint64
	for _, a := range arenas {
		left += a.Live()
	}
	require.Equal(t, live, left, "free of %#x", va)
}
