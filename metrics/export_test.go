package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/arenagen/arenagen/arena"
)

// An Invented is a collector of one arena that there is not, with any counters.
type Invented struct {
	Stats arena.Stats
	Slabs arena.SlabStats
	Cache arena.CacheStats
	Live  uint64
}

// Describe is like that of a Collector.
func (i Invented) Describe(to chan<- *prometheus.Desc) { describe(to, arenaMetrics) }

// Collect is like that of a Collector.
func (i Invented) Collect(to chan<- prometheus.Metric) {
	collect(to, arenaMetrics, reading{i.Stats, i.Slabs, i.Cache, i.Live}, "invented", "0")
}
