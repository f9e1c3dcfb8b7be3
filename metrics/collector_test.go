package metrics_test

import (
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/backends/stub"
	"github.com/arenagen/arenagen/metrics"
)

const granule = 2 << 20

func newArena(t *testing.T, config arena.Config) *arena.Arena {
	t.Helper()
	device, err := stub.Open(0, stub.Options{Mode: stub.ModeRecord})
	require.NoError(t, err)
	config.Total = 1 << 34
	a, err := arena.New(device, config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Release()) })
	return a
}

func TestValuesAreTheStats(t *testing.T) {
	a := newArena(t, arena.Config{Cache: 4 * granule})
	require.NoError(t, a.SetTag(3))
	va, err := a.Malloc(granule)
	require.NoError(t, err)
	_, err = a.Malloc(3 * granule)
	require.NoError(t, err)
	require.NoError(t, a.Free(va))
	_, err = a.Malloc(0)
	require.Error(t, err)
	router := &arena.Router{}
	router.Add(a)
	require.NoError(t, router.Free(0, 1))

	var c metrics.Collector
	require.NoError(t, c.Add("weights", a))
	require.NoError(t, c.AddRouter("main", router))
	assert.NoError(t, testutil.CollectAndCompare(&c, strings.NewReader(`
# HELP arenagen_allocations Live allocations.
# TYPE arenagen_allocations gauge
arenagen_allocations{arena="weights",device="0"} 1
# HELP arenagen_cache_bytes Memory of the handles in the cache.
# TYPE arenagen_cache_bytes gauge
arenagen_cache_bytes{arena="weights",device="0"} 2.097152e+06
# HELP arenagen_created_total Allocations that succeeded.
# TYPE arenagen_created_total counter
arenagen_created_total{arena="weights",device="0"} 2
# HELP arenagen_mapped_peak_bytes The most memory that allocations had since the peaks were reset.
# TYPE arenagen_mapped_peak_bytes gauge
arenagen_mapped_peak_bytes{arena="weights",device="0"} 8.388608e+06
# HELP arenagen_refused_total Allocations that were refused before the backend was asked.
# TYPE arenagen_refused_total counter
arenagen_refused_total{arena="weights",device="0"} 1
# HELP arenagen_router_unrouted_frees_total Frees of addresses that no arena knows.
# TYPE arenagen_router_unrouted_frees_total counter
arenagen_router_unrouted_frees_total{router="main"} 1
# HELP arenagen_tag_mapped_bytes Memory of a tag's live allocations.
# TYPE arenagen_tag_mapped_bytes gauge
arenagen_tag_mapped_bytes{arena="weights",device="0",tag="3"} 6.291456e+06
`), "arenagen_allocations", "arenagen_cache_bytes", "arenagen_created_total", "arenagen_mapped_peak_bytes", "arenagen_refused_total",
		"arenagen_router_unrouted_frees_total", "arenagen_tag_mapped_bytes"))
	problems, err := testutil.CollectAndLint(&c)
	require.NoError(t, err)
	assert.Empty(t, problems)
}

// Every metric there is, against what it is read from.
func TestEveryMetric(t *testing.T) {
	a := newArena(t, arena.Config{Placement: arena.Slab(4 * granule), Cache: 16 * granule})
	require.NoError(t, a.SetTag(5))
	var addresses []uint64
	for _, size := range []int64{granule, 3 * granule, granule, 9 * granule, 512} {
		va, err := a.Malloc(size)
		require.NoError(t, err)
		addresses = append(addresses, va)
	}
	for _, va := range []uint64{addresses[0], addresses[3], a.Base() + a.Total() - granule} {
		require.NoError(t, a.Free(va))
	}
	router := &arena.Router{}
	router.Add(a)
	_, err := router.Malloc(0, arena.Request{Size: 1})
	require.ErrorIs(t, err, arena.ErrNoActiveArena)
	require.NoError(t, router.Free(1, addresses[1]))

	c := metrics.New()
	require.NoError(t, c.Add("weights", a))
	require.NoError(t, c.AddRouter("weights", router), "routers have names of their own")
	s, slabs, cache, d := a.Stats(), a.SlabStats(), a.CacheStats(), router.Diagnostics()
	tag, err := a.Tag(5)
	require.NoError(t, err)
	for _, number := range []uint64{s.UnknownFrees, slabs.Free, cache.Bytes, tag.Live, d.NoActive, d.OtherDevice} {
		require.NotZero(t, number)
	}
	want := expected(metrics.Invented{Stats: s, Slabs: slabs, Cache: cache, Live: a.LiveHandles()})
	maps.Copy(want, map[string]uint64{
		"arenagen_tag_allocations": tag.Live, "arenagen_tag_mapped_bytes": tag.Mapped, "arenagen_tag_mapped_peak_bytes": tag.PeakMapped,
		"arenagen_router_arenas": uint64(d.Arenas), "arenagen_router_no_active_arena_total": d.NoActive,
		"arenagen_router_unrouted_frees_total": d.Unrouted, "arenagen_router_other_device_frees_total": d.OtherDevice,
	})
	assert.Equal(t, want, values(t, c))
}

// With counters that all differ no two metrics can be mistaken for each other.
func TestEveryCounterHasItsMetric(t *testing.T) {
	var i metrics.Invented
	next := int64(1)
	var fill func(reflect.Value)
	fill = func(v reflect.Value) {
		switch {
		case v.Kind() == reflect.Struct:
			for n := range v.NumField() {
				fill(v.Field(n))
			}
		case v.CanUint():
			next *= 2
			v.SetUint(uint64(next))
		case v.CanInt():
			next *= 2
			v.SetInt(next)
		}
	}
	fill(reflect.ValueOf(&i).Elem())
	assert.Equal(t, expected(i), values(t, i))
	i.Stats = arena.Stats{Closed: true, Total: 10, Used: 5}
	assert.Equal(t, expected(i), values(t, i))
	i.Stats = arena.Stats{Total: 10, Used: 9}
	assert.Equal(t, expected(i), values(t, i))
}

// expected are an arena's metrics.
func expected(i metrics.Invented) map[string]uint64 {
	s, slabs, cache := i.Stats, i.Slabs, i.Cache
	truth := map[bool]uint64{true: 1}
	return map[string]uint64{
		"arenagen_reserved_bytes": s.Total, "arenagen_used_bytes": s.Used, "arenagen_mapped_bytes": s.Mapped, "arenagen_mapped_peak_bytes": s.Peak,
		"arenagen_allocations": s.Live, "arenagen_allocations_quarantined": s.Quarantined, "arenagen_allocations_deferred": s.Deferred,
		"arenagen_closed": truth[s.Closed], "arenagen_nearly_full": truth[s.NearlyFull()], "arenagen_handles": i.Live,
		"arenagen_created_total": s.Created, "arenagen_released_total": s.Released, "arenagen_handed_over_total": s.HandedOver,
		"arenagen_failed_total": s.Failed, "arenagen_refused_total": s.Refused, "arenagen_unknown_frees_total": s.UnknownFrees,
		"arenagen_late_frees_total": s.LateFrees, "arenagen_failed_releases_total": s.FailedReleases,
		"arenagen_slabs": uint64(slabs.Count), "arenagen_slab_mapped_bytes": slabs.Mapped, "arenagen_slab_free_bytes": slabs.Free,
		"arenagen_slab_largest_free_bytes": slabs.Largest, "arenagen_slab_ahead_bytes": slabs.Ahead, "arenagen_slabs_made_total": slabs.Made,
		"arenagen_cache_bytes": cache.Bytes, "arenagen_cache_peak_bytes": cache.Peak, "arenagen_cache_budget_bytes": cache.Budget,
		"arenagen_cache_handles": cache.Handles, "arenagen_cache_reused_total": cache.Reused, "arenagen_cache_trimmed_total": cache.Trimmed,
	}
}

// values are what a collector says, for each name once.
func values(t *testing.T, c prometheus.Collector) map[string]uint64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
	families, err := registry.Gather()
	require.NoError(t, err)
	all := make(map[string]uint64)
	for _, family := range families {
		require.Len(t, family.GetMetric(), 1, family.GetName())
		m := family.GetMetric()[0]
		all[family.GetName()] = uint64(m.GetGauge().GetValue() + m.GetCounter().GetValue())
	}
	return all
}

// What is refused is not collected either, or one name would fail the whole scrape.
func TestNames(t *testing.T) {
	a := newArena(t, arena.Config{})
	var c metrics.Collector
	require.NoError(t, c.Add("one", a))
	require.ErrorIs(t, c.Add("one", a), metrics.ErrName)
	require.ErrorIs(t, c.Add("", a), metrics.ErrName)
	require.ErrorIs(t, c.Add("not UTF-8: \xff", a), metrics.ErrName)
	require.ErrorIs(t, c.AddRouter("\xff", &arena.Router{}), metrics.ErrName)
	require.ErrorIs(t, c.Add("nothing", nil), arena.ErrInvalidArgument)
	require.ErrorIs(t, c.AddRouter("nothing", nil), arena.ErrInvalidArgument)
	count := testutil.CollectAndCount(&c)
	c.Remove("one")
	assert.Zero(t, testutil.CollectAndCount(&c))
	require.NoError(t, c.Add("one", a))
	require.NoError(t, a.Close())
	assert.Equal(t, count, testutil.CollectAndCount(&c), "a closed arena has its counters")
	require.NoError(t, a.Release())
	closed := values(t, &c)
	assert.EqualValues(t, 1, closed["arenagen_closed"])
	assert.EqualValues(t, 1<<34, closed["arenagen_reserved_bytes"])
}

// Scrapes go on while arenas are used, and come and go.
func TestScrapesBesideEverythingElse(t *testing.T) {
	var c metrics.Collector
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(&c))
	require.Error(t, registry.Register(&c))
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c"} {
		a := newArena(t, arena.Config{Placement: arena.Slab(8 * granule), Prefetch: 16 * granule, Cache: 16 * granule})
		all.Go(func() {
			for range 50 {
				assert.NoError(t, c.Add(name, a))
				for range 20 {
					va, err := a.Malloc(granule)
					assert.NoError(t, err)
					assert.NoError(t, a.Free(va))
				}
				c.Remove(name)
			}
			assert.NoError(t, a.Close())
		})
	}
	for range 50 {
		_, err := registry.Gather()
		require.NoError(t, err)
	}
	all.Wait()
}

// Scrapes go on while arenas are closed, drained and released.
func TestScrapesBesideTheEnd(t *testing.T) {
	var c metrics.Collector
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(&c))
	var all sync.WaitGroup
	over := make(chan struct{})
	all.Go(func() {
		for {
			_, err := registry.Gather()
			assert.NoError(t, err)
			select {
			case <-over:
				return
			default:
			}
		}
	})
	placements := []arena.Config{{}, {Placement: arena.Slab(8 * granule), Prefetch: 16 * granule}}
	ends := []func(*arena.Arena) error{
		(*arena.Arena).Close,
		(*arena.Arena).Release,
		func(a *arena.Arena) error { _, err := a.CloseAndDrain(); return err },
	}
	for i := range 60 {
		config := placements[i%2]
		config.Cache = 4 * granule
		a := newArena(t, config)
		require.NoError(t, a.SetTag(arena.Tag(i%arena.MaxTags)))
		require.NoError(t, c.Add("ending", a))
		for range 4 {
			_, err := a.Malloc(granule)
			require.NoError(t, err)
		}
		require.NoError(t, ends[i%3](a))
		c.Remove("ending")
	}
	close(over)
	all.Wait()
}
