package metrics_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
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

func TestNames(t *testing.T) {
	a := newArena(t, arena.Config{})
	var c metrics.Collector
	require.NoError(t, c.Add("one", a))
	require.ErrorIs(t, c.Add("one", a), metrics.ErrName)
	require.ErrorIs(t, c.Add("", a), metrics.ErrName)
	require.ErrorIs(t, c.Add("nothing", nil), arena.ErrInvalidArgument)
	require.ErrorIs(t, c.AddRouter("nothing", nil), arena.ErrInvalidArgument)
	count := testutil.CollectAndCount(&c)
	c.Remove("one")
	assert.Zero(t, testutil.CollectAndCount(&c))
	require.NoError(t, c.Add("one", a))
	require.NoError(t, a.Close())
	assert.Equal(t, count, testutil.CollectAndCount(&c), "a closed arena has its counters")
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

func TestServed(t *testing.T) {
	var c metrics.Collector
	require.NoError(t, c.Add("weights", newArena(t, arena.Config{})))
	registry := prometheus.NewRegistry()
	registry.MustRegister(&c)
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer server.Close()
	answer, err := http.Get(server.URL)
	require.NoError(t, err)
	page, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	assert.Contains(t, string(page), `arenagen_reserved_bytes{arena="weights",device="0"} 1.7179869184e+10`)
}
