package trace

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// The one process of a Chrome trace, and its threads. Zero means something of its own to Perfetto.
const (
	process     = 1
	allocations = 1   // the thread of mallocs and frees
	others      = 2   // the thread of all else that takes no time
	prefetcher  = 100 // the first of the threads on which the prefetcher calls the driver
	driver      = 200 // the first of those on which everybody else does
)

// A chromeEvent is an event as the Trace Event Format has it. Times are in microseconds.
type chromeEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"`
	Time     float64        `json:"ts"`
	Duration float64        `json:"dur,omitempty"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Scope    string         `json:"s,omitempty"`
	ID       string         `json:"id,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

// WriteChrome writes a trace in the JSON object format that Perfetto and chrome://tracing open.
func WriteChrome(w io.Writer, t *Trace) error {
	h := t.History()
	events := slices.Concat(driverCalls(t.Events), instants(t.Events), lifetimes(h), counters(h.Samples))
	// Viewers do not ask for this order, but those which read events as they come show more in it.
	slices.SortStableFunc(events, func(a, b chromeEvent) int { return cmp.Compare(a.Time, b.Time) })
	return writeChrome(w, t, append(names(t.Arena, events), events...))
}

// writeChrome writes an event per line. The time unit is not "ns", which makes old Perfettos take ts for nanoseconds.
func writeChrome(w io.Writer, t *Trace, events []chromeEvent) error {
	out := bufio.NewWriter(w)
	fmt.Fprint(out, `{"traceEvents":[`)
	for i, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("an event for Perfetto: %w", err)
		}
		separator := "\n"
		if i > 0 {
			separator = ",\n"
		}
		fmt.Fprintf(out, "%s%s", separator, line)
	}
	fmt.Fprintf(out, "\n],\"displayTimeUnit\":\"ms\",\"otherData\":{\"missed\":\"%d\"}}\n", t.Missed)
	return out.Flush() // with the first error of all that was written
}

func micros(ns uint64) float64 { return float64(ns) / 1000 }

func hex(n uint64) string { return fmt.Sprintf("%#x", n) }

// argsOf are strings where a number could be more than a viewer's JavaScript holds.
func argsOf(e Event) map[string]any {
	args := map[string]any{"seq": e.Seq, "size": e.Size}
	if e.Address != 0 {
		args["address"] = hex(e.Address)
	}
	if e.Handle != 0 {
		args["handle"] = hex(e.Handle)
	}
	if e.Tag != "" && e.Tag != "0" {
		args["tag"] = e.Tag.String()
	}
	return args
}

// driverCalls are the events that took time. A viewer shows those of one thread only if none overlaps another, so
// that what threads of the program did at once lies side by side.
func driverCalls(events []Event) []chromeEvent {
	var calls []chromeEvent
	var ahead, wanted lanes
	for _, e := range byBeginning(events) {
		var thread int
		if e.Kind == Prefetched {
			thread = prefetcher + min(ahead.take(e), driver-prefetcher-1)
		} else {
			thread = driver + wanted.take(e)
		}
		calls = append(calls, chromeEvent{
			Name: e.Kind, Category: "driver", Phase: "X", Time: micros(e.began()), Duration: micros(e.NS - e.began()),
			Process: process, Thread: thread, Args: argsOf(e),
		})
	}
	return calls
}

func byBeginning(events []Event) []Event {
	var took []Event
	for _, e := range events {
		if e.NS > e.began() {
			took = append(took, e)
		}
	}
	slices.SortStableFunc(took, func(a, b Event) int { return cmp.Compare(a.began(), b.began()) })
	return took
}

// lanes hold when the last event of each is over.
type lanes []uint64

// take is the first lane that is free when an event begins. Events are given in the order in which they began.
func (l *lanes) take(e Event) int {
	for i, end := range *l {
		if end <= e.began() {
			(*l)[i] = e.NS
			return i
		}
	}
	*l = append(*l, e.NS)
	return len(*l) - 1
}

func instants(events []Event) []chromeEvent {
	var all []chromeEvent
	for _, e := range events {
		thread := others
		if e.Kind == Malloc || e.Kind == Free {
			thread = allocations
		} else if e.Took > 0 && e.NS > 0 {
			continue // shown with its duration
		}
		all = append(all, chromeEvent{
			Name: e.Kind, Category: "arena", Phase: "i", Scope: "t", Time: micros(e.NS),
			Process: process, Thread: thread, Args: argsOf(e),
		})
	}
	return all
}

// lifetimes have one name for all of a category, as a viewer makes a track for each name.
func lifetimes(h *History) []chromeEvent {
	var all []chromeEvent
	for _, a := range h.Allocations {
		all = append(all, lifetime("allocation", a, map[string]any{})...)
	}
	for _, m := range h.Mappings {
		all = append(all, lifetime("mapping", m.Span, map[string]any{"handle": hex(m.Handle), "ahead": m.Ahead})...)
	}
	return all
}

// lifetime has no end where the trace has none.
func lifetime(name string, s Span, args map[string]any) []chromeEvent {
	args["address"], args["size"], args["before_trace"] = hex(s.Address), s.Size, s.Before
	begin := chromeEvent{
		Name: name, Category: name, Phase: "b", Time: micros(s.From), Process: process, Thread: allocations,
		ID: fmt.Sprintf("%#x+%d", s.Address, s.Seq), Args: args,
	}
	if s.Open {
		return []chromeEvent{begin}
	}
	end := begin
	end.Phase, end.Time, end.Args = "e", micros(s.To), nil
	return []chromeEvent{begin, end}
}

func counters(samples []Sample) []chromeEvent {
	var all []chromeEvent
	var last Sample
	for i, s := range samples {
		for _, c := range []struct {
			name     string
			was, now int64
		}{{"mapped", last.Mapped, s.Mapped}, {"live", last.Live, s.Live}, {"cached", last.Cached, s.Cached}} {
			if i == 0 || c.was != c.now {
				all = append(all, chromeEvent{
					Name: c.name, Phase: "C", Time: micros(s.NS), Process: process, Thread: allocations,
					Args: map[string]any{"bytes": c.now},
				})
			}
		}
		last = s
	}
	return all
}

// names are the metadata of the process and of each thread that has an event.
func names(a Arena, events []chromeEvent) []chromeEvent {
	all := []chromeEvent{metadata("process_name", allocations, "name", fmt.Sprintf("arena on device %d", a.Device))}
	threads := map[int]bool{}
	for _, e := range events {
		threads[e.Thread] = true
	}
	sorted := make([]int, 0, len(threads))
	for thread := range threads {
		sorted = append(sorted, thread)
	}
	slices.Sort(sorted)
	for _, thread := range sorted {
		all = append(all,
			metadata("thread_name", thread, "name", threadName(thread)),
			metadata("thread_sort_index", thread, "sort_index", thread))
	}
	return all
}

func metadata(name string, thread int, key string, value any) chromeEvent {
	return chromeEvent{Name: name, Phase: "M", Process: process, Thread: thread, Args: map[string]any{key: value}}
}

func threadName(thread int) string {
	switch {
	case thread == allocations:
		return "malloc and free"
	case thread == others:
		return "other events"
	case thread < driver:
		return numbered("prefetcher", thread-prefetcher)
	}
	return numbered("driver calls", thread-driver)
}

func numbered(name string, n int) string {
	if n == 0 {
		return name
	}
	return fmt.Sprintf("%s, at the same time %d", name, n+1)
}
