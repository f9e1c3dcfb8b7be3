package metrics_test

import (
	"bufio"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/backends/stub"
	"github.com/arenagen/arenagen/metrics"
)

// A service collects its arenas, and Prometheus asks it for the page.
func Example() {
	device, err := stub.Open(0, stub.Options{})
	check(err)
	a, err := arena.New(device, arena.Config{Total: 1 << 34})
	check(err)

	collector := metrics.New()
	check(collector.Add("weights", a))
	registry := prometheus.NewRegistry()
	check(registry.Register(collector))
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{})) // on loopback
	defer server.Close()

	_, err = a.Allocate(arena.Request{Size: 1 << 20, Tag: 1})
	check(err)

	page, err := http.Get(server.URL)
	check(err)
	lines := bufio.NewScanner(page.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "arenagen_tag_") || strings.HasPrefix(lines.Text(), "arenagen_created_total") {
			fmt.Println(lines.Text())
		}
	}
	check(lines.Err())
	check(page.Body.Close())

	collector.Remove("weights")
	check(a.Release())
	// Output:
	// arenagen_created_total{arena="weights",device="0"} 1
	// arenagen_tag_allocations{arena="weights",device="0",tag="1"} 1
	// arenagen_tag_mapped_bytes{arena="weights",device="0",tag="1"} 2.097152e+06
	// arenagen_tag_mapped_peak_bytes{arena="weights",device="0",tag="1"} 2.097152e+06
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
