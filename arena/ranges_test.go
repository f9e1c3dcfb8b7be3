package arena

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRangesAgainstModel compares with a sorted slice, over operations in no order.
func TestRangesAgainstModel(t *testing.T) {
	type free struct{ start, size uint64 }
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var r ranges
	var model []free
	for step := range 20_000 {
		if random.IntN(2) == 0 || len(model) == 0 {
			start := uint64(random.IntN(1 << 20))
			if _, found := slices.BinarySearchFunc(model, start, func(f free, at uint64) int { return int(f.start) - int(at) }); found {
				continue
			}
			f := free{start, uint64(1 + random.IntN(1000))}
			r.insert(f.start, f.size)
			model = append(model, f)
			slices.SortFunc(model, func(a, b free) int { return int(a.start) - int(b.start) })
		} else {
			i := random.IntN(len(model))
			require.Equal(t, model[i].size, r.remove(model[i].start))
			model = slices.Delete(model, i, i+1)
		}
		size, at := uint64(random.IntN(1100)), uint64(random.IntN(1<<20))
		if i := slices.IndexFunc(model, func(f free) bool { return f.size >= size }); i < 0 {
			_, _, ok := r.first(size)
			require.False(t, ok)
		} else {
			start, found, ok := r.first(size)
			require.True(t, ok)
			require.Equal(t, model[i], free{start, found}, "step %d", step)
		}
		if i := slices.IndexFunc(model, func(f free) bool { return f.start >= at }); i != 0 && len(model) > 0 {
			last := model[len(model)-1]
			if i > 0 {
				last = model[i-1]
			}
			start, found, ok := r.before(at)
			require.True(t, ok)
			require.Equal(t, last, free{start, found})
		} else {
			_, _, ok := r.before(at)
			require.False(t, ok)
		}
		var bytes, largest uint64
		for _, f := range model {
			bytes += f.size
			largest = max(largest, f.size)
		}
		require.Equal(t, bytes, r.bytes)
		require.Equal(t, largest, r.largest())
		require.Equal(t, len(model), r.count)
		if len(model) > 0 {
			f := model[random.IntN(len(model))]
			require.Equal(t, f.size, r.at(f.start))
			require.Zero(t, r.at(1<<20))
		}
	}
}

func TestRangesUseTheirNodesAgain(t *testing.T) {
	var r ranges
	for range 10 {
		for i := range uint64(100) {
			r.insert(i*10, 5)
		}
		for i := range uint64(100) {
			r.remove(i * 10)
		}
	}
	assert.Len(t, r.nodes, 101)
	assert.Zero(t, r.largest())
	_, _, ok := r.first(0)
	assert.False(t, ok)
}
