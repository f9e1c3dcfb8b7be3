// Package metrics gives the counters of arenas to Prometheus.
//
//	collector := metrics.New()
//	prometheus.MustRegister(collector)
//	err := collector.Add("weights", a)
//
// Names begin with arenagen_. What ends in _bytes is in bytes and everything else a count; what ends in _total only grows while its
// arena or router stays collected. An arena's metrics have the labels arena, the name it was added under, and device, its ordinal; those of a tag
// also tag, a number from 1 to arena.MaxTags-1; a router's have the label router.
package metrics

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/arenagen/arenagen/arena"
)

// ErrName says that a name is empty, not UTF-8, which Prometheus demands of a label, or taken.
var ErrName = errors.New("a name must be UTF-8 and not empty, and names one arena or one router")

// A Collector is a prometheus.Collector of arenas and routers, by names of the caller's that become the label arena or router. It reads the
// counters when it is scraped, waits for no call to a driver, and its methods are safe for concurrent use. The
// zero Collector is ready to use; it must not be copied after that. It keeps what is collected from being garbage, until Remove.
type Collector struct {
	mu      sync.Mutex
	arenas  map[string]*arena.Arena  // guarded by mu
	routers map[string]*arena.Router // guarded by mu
}

var _ prometheus.Collector = (*Collector)(nil)

// New makes a Collector of nothing yet.
func New() *Collector { return new(Collector) }

// Add has an arena collected under a name, until Remove. It fails with ErrName, and with arena.ErrInvalidArgument for nil. A closed or
// released arena still has its counters.
func (c *Collector) Add(name string, a *arena.Arena) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.arenas == nil {
		c.arenas = make(map[string]*arena.Arena)
	}
	return add(c.arenas, name, a)
}

// AddRouter has a router collected under a name, until Remove. It fails like Add. A router may have the name of an arena.
func (c *Collector) AddRouter(name string, r *arena.Router) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.routers == nil {
		c.routers = make(map[string]*arena.Router)
	}
	return add(c.routers, name, r)
}

func add[T any](all map[string]*T, name string, one *T) error {
	if _, taken := all[name]; taken || name == "" || !utf8.ValidString(name) {
		return fmt.Errorf("%q: %w", name, ErrName)
	}
	if one == nil {
		return fmt.Errorf("%q is nil: %w", name, arena.ErrInvalidArgument)
	}
	all[name] = one
	return nil
}

// Remove forgets the arena and the router with a name, if there are such. A scrape that is under way may still show them.
func (c *Collector) Remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.arenas, name)
	delete(c.routers, name)
}

// A metric is one number of a T.
type metric[T any] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(T) uint64
}

// reading is what an arena's metrics are read from, at one scrape.
type reading struct {
	stats arena.Stats
	slabs arena.SlabStats
	cache arena.CacheStats
	live  uint64 // handles
}

var arenaLabels = []string{"arena", "device"}

func gauge[T any](name, help string, labels []string, of func(T) uint64) metric[T] {
	return metric[T]{prometheus.NewDesc("arenagen_"+name, help, labels, nil), prometheus.GaugeValue, of}
}

func counter[T any](name, help string, labels []string, of func(T) uint64) metric[T] {
	return metric[T]{prometheus.NewDesc("arenagen_"+name+"_total", help, labels, nil), prometheus.CounterValue, of}
}

var arenaMetrics = []metric[reading]{
	gauge("reserved_bytes", "Addresses that are reserved.", arenaLabels, func(r reading) uint64 { return r.stats.Total }),
	gauge("used_bytes", "Addresses from the base up to the highest one given out.", arenaLabels, func(r reading) uint64 { return r.stats.Used }),
	gauge("mapped_bytes", "Memory of the live allocations.", arenaLabels, func(r reading) uint64 { return r.stats.Mapped }),
	gauge("mapped_peak_bytes", "The most memory that allocations had since the peaks were reset.", arenaLabels, func(r reading) uint64 { return r.stats.Peak }),
	gauge("allocations", "Live allocations.", arenaLabels, func(r reading) uint64 { return r.stats.Live }),
	gauge("allocations_quarantined", "Allocations whose memory could not be given back.", arenaLabels, func(r reading) uint64 { return r.stats.Quarantined }),
	gauge("allocations_deferred", "Freed allocations that wait for a stream that is being captured.", arenaLabels, func(r reading) uint64 { return r.stats.Deferred }),
	gauge("closed", "1 when the arena is closed.", arenaLabels, func(r reading) uint64 { return truth(r.stats.Closed) }),
	gauge("nearly_full", "1 when 80% of the reservation is used.", arenaLabels, func(r reading) uint64 { return truth(r.stats.NearlyFull()) }),
	gauge("handles", "Physical handles that live allocations have.", arenaLabels, func(r reading) uint64 { return r.live }),
	gauge("slabs", "Slabs that are mapped.", arenaLabels, func(r reading) uint64 { return uint64(r.slabs.Count) }),
	gauge("slab_mapped_bytes", "Memory behind the slabs.", arenaLabels, func(r reading) uint64 { return r.slabs.Mapped }),
	gauge("slab_free_bytes", "Memory behind the slabs that no allocation has.", arenaLabels, func(r reading) uint64 { return r.slabs.Free }),
	gauge("slab_largest_free_bytes", "The largest piece of what is free in the slabs.", arenaLabels, func(r reading) uint64 { return r.slabs.Largest }),
	gauge("slab_ahead_bytes", "Slabs that were mapped ahead and have no allocation yet.", arenaLabels, func(r reading) uint64 { return r.slabs.Ahead }),
	gauge("cache_bytes", "Memory of the handles in the cache.", arenaLabels, func(r reading) uint64 { return r.cache.Bytes }),
	gauge("cache_peak_bytes", "The most memory that the cache held since the peaks were reset.", arenaLabels, func(r reading) uint64 { return r.cache.Peak }),
	gauge("cache_budget_bytes", "Memory that the cache may hold.", arenaLabels, func(r reading) uint64 { return r.cache.Budget }),
	gauge("cache_handles", "Handles in the cache.", arenaLabels, func(r reading) uint64 { return r.cache.Handles }),
	counter("created", "Allocations that succeeded.", arenaLabels, func(r reading) uint64 { return r.stats.Created }),
	counter("released", "Allocations whose memory was given back.", arenaLabels, func(r reading) uint64 { return r.stats.Released }),
	counter("handed_over", "Allocations that a drain gave to its caller.", arenaLabels, func(r reading) uint64 { return r.stats.HandedOver }),
	counter("failed", "Allocations that the backend failed.", arenaLabels, func(r reading) uint64 { return r.stats.Failed }),
	counter("refused", "Allocations that were refused before the backend was asked.", arenaLabels, func(r reading) uint64 { return r.stats.Refused }),
	counter("unknown_frees", "Frees of addresses that name no live allocation.", arenaLabels, func(r reading) uint64 { return r.stats.UnknownFrees }),
	counter("late_frees", "Frees after close.", arenaLabels, func(r reading) uint64 { return r.stats.LateFrees }),
	counter("failed_releases", "Releases that the backend failed.", arenaLabels, func(r reading) uint64 { return r.stats.FailedReleases }),
	counter("slabs_made", "Slabs that were mapped.", arenaLabels, func(r reading) uint64 { return r.slabs.Made }),
	counter("cache_reused", "Handles of the cache that were mapped again.", arenaLabels, func(r reading) uint64 { return r.cache.Reused }),
	counter("cache_trimmed", "Handles that went from the cache back to the driver.", arenaLabels, func(r reading) uint64 { return r.cache.Trimmed }),
}

var tagLabels = []string{"arena", "device", "tag"}

var tagMetrics = []metric[arena.TagStats]{
	gauge("tag_allocations", "Live allocations of a tag.", tagLabels, func(t arena.TagStats) uint64 { return t.Live }),
	gauge("tag_mapped_bytes", "Memory of a tag's live allocations.", tagLabels, func(t arena.TagStats) uint64 { return t.Mapped }),
	gauge("tag_mapped_peak_bytes", "The most memory that a tag had since the peaks were reset.", tagLabels, func(t arena.TagStats) uint64 { return t.PeakMapped }),
}

var routerLabels = []string{"router"}

var routerMetrics = []metric[arena.Diagnostics]{
	gauge("router_arenas", "Arenas that a router knows.", routerLabels, func(d arena.Diagnostics) uint64 { return uint64(d.Arenas) }),
	counter("router_no_active_arena", "Allocations that found no active arena.", routerLabels, func(d arena.Diagnostics) uint64 { return d.NoActive }),
	counter("router_unrouted_frees", "Frees of addresses that no arena knows.", routerLabels, func(d arena.Diagnostics) uint64 { return d.Unrouted }),
	counter("router_other_device_frees", "Frees that named another device than their arena's.", routerLabels, func(d arena.Diagnostics) uint64 { return d.OtherDevice }),
}

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// Describe sends what there can be, whether or not anything is collected yet.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	describe(to, arenaMetrics)
	describe(to, tagMetrics)
	describe(to, routerMetrics)
}

func describe[T any](to chan<- *prometheus.Desc, metrics []metric[T]) {
	for _, m := range metrics {
		to <- m.desc
	}
}

// Collect reads the counters. An arena's own are read together, and balance as Stats says; those of its slabs, cache and tags a moment later. A
// tag has metrics once it had an allocation, unless the peaks were reset since it had its last.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	arenas, routers := c.named()
	for name, a := range arenas {
		device := strconv.Itoa(a.Device())
		collect(to, arenaMetrics, reading{a.Stats(), a.SlabStats(), a.CacheStats(), a.LiveHandles()}, name, device)
		for tag := arena.Tag(1); tag < arena.MaxTags; tag++ {
			// Those that were never used would only fill the page.
			if t, err := a.Tag(tag); err == nil && t != (arena.TagStats{}) {
				collect(to, tagMetrics, t, name, device, strconv.Itoa(int(tag)))
			}
		}
	}
	for name, r := range routers {
		collect(to, routerMetrics, r.Diagnostics(), name)
	}
}

func collect[T any](to chan<- prometheus.Metric, metrics []metric[T], from T, labels ...string) {
	for _, m := range metrics {
		to <- prometheus.MustNewConstMetric(m.desc, m.kind, float64(m.of(from)), labels...)
	}
}

// named copies what there is, so that nothing is waited for under the lock.
func (c *Collector) named() (map[string]*arena.Arena, map[string]*arena.Router) {
	c.mu.Lock()
	defer c.mu.Unlock()
	arenas, routers := make(map[string]*arena.Arena, len(c.arenas)), make(map[string]*arena.Router, len(c.routers))
	for name, a := range c.arenas {
		arenas[name] = a
	}
	for name, r := range c.routers {
		routers[name] = r
	}
	return arenas, routers
}
