package arena

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// keysAt finds keys whose home in a table of so many places is a given one.
func keysAt(places, home, n int) []uint64 {
	t := table{places: make([]record, places)}
	var keys []uint64
	for key := uint64(1); len(keys) < n; key++ {
		if t.home(hash(key)) == home {
			keys = append(keys, key)
		}
	}
	return keys
}

func (t *table) add(key uint64) { t.insert(record{key: key, size: key * 10}, hash(key)) }

func (t *table) drop(key uint64) { t.remove(t.find(key, hash(key))) }

// holds checks that a table has these keys, with their records, and no others.
func holds(t *testing.T, table *table, keys ...uint64) {
	t.Helper()
	require.Equal(t, len(keys), table.count)
	for _, key := range keys {
		i := table.find(key, hash(key))
		require.GreaterOrEqual(t, i, 0, "key %d", key)
		require.Equal(t, record{key: key, size: key * 10}, table.places[i])
	}
	places := 0
	for _, r := range table.places {
		if r.key != 0 {
			places++
		}
	}
	require.Equal(t, len(keys), places)
}

func TestTableEmpty(t *testing.T) {
	var table table
	assert.Equal(t, -1, table.find(1, hash(1)))
	table.prune()
	holds(t, &table)
}

// Every order of removing keys that collide, from every place that they can begin at: most of them go round the end.
func TestTableCollisions(t *testing.T) {
	for home := range minPlaces {
		same := keysAt(minPlaces, home, 3)
		next := keysAt(minPlaces, (home+1)%minPlaces, 2)
		keys := append(same, next...)
		permutations(len(keys), func(order []int) {
			var table table
			for _, key := range keys {
				table.add(key)
			}
			left := append([]uint64(nil), keys...)
			holds(t, &table, left...)
			for _, i := range order {
				table.drop(keys[i])
				require.Equal(t, -1, table.find(keys[i], hash(keys[i])))
				left = without(left, keys[i])
				holds(t, &table, left...)
			}
		})
	}
}

func without(keys []uint64, key uint64) []uint64 {
	var left []uint64
	for _, k := range keys {
		if k != key {
			left = append(left, k)
		}
	}
	return left
}

// permutations calls f with every order of 0 to n-1.
func permutations(n int, f func(order []int)) {
	var extend func(order []int)
	extend = func(order []int) {
		if len(order) == n {
			f(order)
			return
		}
	next:
		for i := range n {
			for _, j := range order {
				if i == j {
					continue next
				}
			}
			extend(append(order, i))
		}
	}
	extend(make([]int, 0, n))
}

func TestTableGrowsAndShrinks(t *testing.T) {
	const n = 20_000
	var table table
	most := 0
	for key := uint64(1); key <= n; key++ {
		before := len(table.places)
		table.add(key)
		require.LessOrEqual(t, 8*table.count, 7*len(table.places), "a probe must end at an empty place")
		require.LessOrEqual(t, len(table.places), max(minPlaces, before+before/2), "it never doubles")
		if table.count > 1000 {
			most = max(most, 32*len(table.places)/table.count)
		}
	}
	assert.LessOrEqual(t, most, 55, "bytes for a record")
	for key := uint64(1); key <= n; key++ {
		table.drop(key)
		require.LessOrEqual(t, len(table.places), max(minPlaces, 4*table.count))
		require.Equal(t, -1, table.find(key, hash(key)))
		require.Equal(t, key < n, table.find(n, hash(n)) >= 0, "the last one")
	}
	assert.Len(t, table.places, minPlaces)
	holds(t, &table)
}

func TestTableKeepsItsSizeInSteadyState(t *testing.T) {
	for live := range uint64(300) {
		var table table
		for key := uint64(1); key <= live; key++ {
			table.add(key)
		}
		table.add(live + 1)
		table.drop(live + 1)
		places := len(table.places)
		for range 3 {
			table.add(live + 1)
			table.drop(live + 1)
			require.Len(t, table.places, places, "%d live records", live)
		}
	}
}

func TestTableAgainstMap(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		var table table
		want := map[uint64]bool{}
		keys := 1 + random.Uint64N(1<<random.IntN(12))
		for range 5000 {
			key := (1 + random.Uint64N(keys)) << random.IntN(3) // steps as sizes make them
			if i := table.find(key, hash(key)); want[key] {
				require.GreaterOrEqual(t, i, 0, "seed %d", seed)
				table.remove(i)
				delete(want, key)
			} else {
				require.Equal(t, -1, i, "seed %d", seed)
				table.add(key)
				want[key] = true
			}
			require.Equal(t, len(want), table.count, "seed %d", seed)
		}
		for key := range want {
			i := table.find(key, hash(key))
			require.Equal(t, record{key: key, size: key * 10}, table.places[i], "seed %d", seed)
		}
	}
}

func TestTableFindsMarkedRecords(t *testing.T) {
	const n = 1000
	var table table
	marks := []uint64{0, markFreed, markSettled, markBits}
	for key := uint64(1); key <= n; key++ {
		table.add(key)
		table.places[table.find(key, hash(key))].key |= marks[key%4] // it is moved about with its mark
	}
	for key := uint64(1); key <= n; key++ {
		i := table.find(key, hash(key))
		require.GreaterOrEqual(t, i, 0)
		require.Equal(t, key|marks[key%4], table.places[i].key)
	}

	table.prune()
	require.Equal(t, n/4*3, table.count)
	for key := uint64(1); key <= n; key++ {
		i := table.find(key, hash(key))
		if marks[key%4] == markBits {
			require.Equal(t, -1, i)
			continue
		}
		require.Equal(t, record{key: key | marks[key%4], size: key * 10}, table.places[i])
		table.remove(i)
	}
	assert.Zero(t, table.count)
}

// Sizes of any power of two spread over all shards and places.
func TestHashSpreads(t *testing.T) {
	for step := uint64(1); step < 1<<40; step *= 4 {
		var shards [shardCount]int
		homes := table{places: make([]record, 64)}
		var places [64]int
		const n = 64 * 100
		for i := range uint64(n) {
			h := hash(1 + i*step)
			shards[h>>(64-shardBits)]++
			places[homes.home(h)]++
		}
		for _, count := range shards {
			require.InDelta(t, n/shardCount, count, n/shardCount/2, "step %d", step)
		}
		for _, count := range places {
			require.InDelta(t, n/64, count, n/64/2, "step %d", step)
		}
	}
}
