package trace_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/internal/trace"
	"github.com/arenagen/arenagen/internal/trace/tracetest"
)

const slab = tracetest.Slab

func load(t *testing.T, s *tracetest.Script) *trace.Trace {
	t.Helper()
	loaded, err := trace.Load(s.JSON())
	require.NoError(t, err)
	return loaded
}

// A chromeEvent is an event of the Trace Event Format, as its document describes it.
type chromeEvent struct {
	Name  string         `json:"name"`
	Cat   string         `json:"cat"`
	Ph    string         `json:"ph"`
	TS    *float64       `json:"ts"`
	Dur   *float64       `json:"dur"`
	PID   *int           `json:"pid"`
	TID   *int           `json:"tid"`
	Scope string         `json:"s"`
	ID    string         `json:"id"`
	Args  map[string]any `json:"args"`
}

func (e chromeEvent) bytes() uint64 {
	n, _ := e.Args["bytes"].(float64)
	return uint64(n)
}

func chrome(t *testing.T, loaded *trace.Trace) []chromeEvent {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, trace.WriteChrome(&b, loaded))
	var file struct {
		TraceEvents     []chromeEvent `json:"traceEvents"`
		DisplayTimeUnit string        `json:"displayTimeUnit"`
	}
	require.NoError(t, json.Unmarshal(b.Bytes(), &file))
	assert.Equal(t, "ms", file.DisplayTimeUnit)
	return file.TraceEvents
}

func wellFormed(t *testing.T, text []byte) {
	t.Helper()
	decoder := xml.NewDecoder(bytes.NewReader(text))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}

func svg(t *testing.T, loaded *trace.Trace) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, trace.WriteSVG(&b, loaded))
	wellFormed(t, b.Bytes())
	return b.Bytes()
}

// A random load: what is mapped, live and cached by a count that is as simple as can be.
type counted struct {
	*tracetest.Script
	random        *rand.Rand
	mapped, live  map[uint64]uint64 // sizes, by offset
	cached        []uint64          // handles
	area          float64           // bytes × ns of allocations that ended
	began         map[uint64]uint64 // ns, by offset
	mallocs, maps int
	peakMapped    uint64
}

func newCounted(seed uint64) *counted {
	return &counted{
		Script: tracetest.NewScript(), random: rand.New(rand.NewPCG(seed, 1)),
		mapped: map[uint64]uint64{}, live: map[uint64]uint64{}, began: map[uint64]uint64{},
	}
}

func total(sizes map[uint64]uint64) (sum uint64) {
	for _, n := range sizes {
		sum += n
	}
	return sum
}

func (c *counted) step() {
	offset := c.random.Uint64N(16) * slab
	_, mapped := c.mapped[offset]
	_, live := c.live[offset]
	switch n := c.random.IntN(6); {
	case !mapped && len(c.cached) > 0 && n < 2:
		handle := c.cached[0]
		c.cached = c.cached[1:]
		c.mapped[offset] = slab
		c.Tell("reused", offset, slab, handle, 10)
		c.maps++
	case !mapped:
		c.mapped[offset] = slab
		c.Map([]string{"mapped", "prefetched"}[n%2], offset, slab)
		c.maps++
	case live:
		c.Tell("free", offset, c.live[offset], 0, 0)
		c.area += float64(c.live[offset]) * float64(c.last()-c.began[offset])
		delete(c.live, offset)
	case n < 4:
		c.live[offset] = 1 + c.random.Uint64N(slab)
		c.Tell("malloc", offset, c.live[offset], 0, 0)
		c.began[offset] = c.last()
		c.mallocs++
	case n == 4:
		delete(c.mapped, offset)
		c.cached = append(c.cached, c.Unmap("cached", offset, slab))
	default:
		delete(c.mapped, offset)
		c.Unmap("unmapped", offset, slab)
	}
	c.Pass(c.random.Uint64N(100))
	c.peakMapped = max(c.peakMapped, total(c.mapped))
}

func (c *counted) last() uint64 { return c.Events[len(c.Events)-1].NS }

func TestHistoryOfARandomLoad(t *testing.T) {
	for seed := range uint64(3) {
		c := newCounted(seed)
		for range 600 {
			c.step()
		}
		loaded := load(t, c.Script)
		h := loaded.History()
		end := h.Samples[len(h.Samples)-1]
		assert.EqualValues(t, total(c.mapped), end.Mapped)
		assert.EqualValues(t, total(c.live), end.Live)
		assert.EqualValues(t, len(c.cached)*slab, end.Cached)
		assert.EqualValues(t, c.peakMapped, h.Peak.Mapped)
		assert.Len(t, h.Allocations, c.mallocs)
		assert.Len(t, h.Mappings, c.maps)
		open, area := 0, 0.
		for _, a := range h.Allocations {
			if a.Open {
				open++
				assert.Equal(t, c.last(), a.To)
			} else {
				area += float64(a.Size) * float64(a.To-a.From)
			}
		}
		assert.Len(t, c.live, open)
		assert.InEpsilon(t, c.area, area, 1e-9)
		checkChrome(t, chrome(t, loaded), end)
		svg(t, loaded)
	}
}

// checkChrome checks what the format's document and Perfetto demand, and how the counters end.
func checkChrome(t *testing.T, events []chromeEvent, end trace.Sample) {
	t.Helper()
	last := map[string]uint64{}
	open := map[string]int{}
	over := map[int]float64{} // when the last of a thread's complete events ends
	named := map[int]bool{}
	for _, e := range events {
		require.NotNil(t, e.PID)
		require.NotNil(t, e.TID)
		require.NotNil(t, e.TS)
		switch e.Ph {
		case "M":
			named[*e.TID] = named[*e.TID] || e.Name == "thread_name"
			continue
		case "X":
			require.NotNil(t, e.Dur)
			assert.GreaterOrEqual(t, *e.TS+1e-3, over[*e.TID], "two events of a thread overlap")
			over[*e.TID] = *e.TS + *e.Dur
		case "i":
			assert.Equal(t, "t", e.Scope)
			assert.Contains(t, e.Args, "size")
		case "b":
			assert.NotEmpty(t, e.Cat)
			open[e.Cat+e.Name+e.ID]++
			assert.Equal(t, 1, open[e.Cat+e.Name+e.ID])
		case "e":
			open[e.Cat+e.Name+e.ID]--
			assert.Equal(t, 0, open[e.Cat+e.Name+e.ID])
		case "C":
			last[e.Name] = e.bytes()
		default:
			assert.Fail(t, "unexpected phase", e.Ph)
		}
		assert.True(t, named[*e.TID], "thread %d has no name yet", *e.TID)
	}
	assert.EqualValues(t, map[string]uint64{"mapped": uint64(end.Mapped), "live": uint64(end.Live), "cached": uint64(end.Cached)}, last)
}

func TestPrefetchedIsUsedByTheFirstAllocationInIt(t *testing.T) {
	s := tracetest.NewScript()
	for i := range uint64(5) {
		s.Map("prefetched", i*slab, slab)
	}
	s.Pass(100)
	s.Tell("malloc", slab+4096, 4096, 0, 0)
	used := s.Events[len(s.Events)-1].NS
	s.Pass(100)
	s.Tell("malloc", 3*slab-1, 2, 0, 0) // in the last byte of one and the first of the next
	s.Pass(100)
	s.Tell("mapped", 4*slab, slab, 5, 0) // the one that was mapped ahead, which somebody wanted now
	h := load(t, s).History()
	require.Len(t, h.Mappings, 5)
	assert.Equal(t, 5, h.Handles)
	for i, expected := range []bool{false, true, true, true, true} {
		assert.True(t, h.Mappings[i].Ahead)
		assert.Equal(t, expected, h.Mappings[i].Used, "mapping %d", i)
	}
	assert.Equal(t, used, h.Mappings[1].FirstUse)
}

// What ends without having begun was there before the trace.
func TestEndsOfWhatWasMissed(t *testing.T) {
	s := tracetest.NewScript()
	s.Missed = 40
	s.Tell("malloc", 3*slab, 100, 0, 0)
	s.Pass(10)
	s.Tell("free", 0, 4096, 0, 0)
	s.Unmap("cached", slab, slab)
	s.Tell("unmapped", slab, slab, 0, 0) // of the same handle: it is told of once
	s.Tell("reused", 2*slab, slab, 1, 10)
	s.Tell("reused", 4*slab, slab, 2, 10) // which must have been cached before
	s.Tell("free", 0, 4096, 0, 0)         // a second one is a mistake of the program's
	loaded := load(t, s)
	h := loaded.History()
	assert.EqualValues(t, 40, loaded.Missed)
	assert.Equal(t, trace.Sample{NS: h.From, Mapped: slab, Live: 4096, Cached: slab}, h.Samples[0])
	end := h.Samples[len(h.Samples)-1]
	assert.EqualValues(t, 2*slab, end.Mapped)
	assert.EqualValues(t, 100, end.Live)
	assert.Zero(t, end.Cached)
	require.Len(t, h.Allocations, 2)
	assert.True(t, h.Allocations[1].Before)
	assert.Equal(t, h.From, h.Allocations[1].From)
	require.Len(t, h.Mappings, 3)
	checkChrome(t, chrome(t, loaded), end)
	assert.Contains(t, string(svg(t, loaded)), "40 events missed")
}

// Threads call the driver at once. Each event that took time has a thread of its own for that time.
func TestCallsAtOnceLieSideBySide(t *testing.T) {
	s := tracetest.NewScript()
	for i := range uint64(4) {
		s.Tell("mapped", i*slab, slab, i+1, 0)
		s.Events[i].NS, s.Events[i].Took = 1_000_000+i, 500_000
	}
	s.Events[3].Took = 9_000_000 // longer than the arena is there, by a coarse clock
	loaded := load(t, s)
	h := loaded.History()
	threads := map[int]bool{}
	events := chrome(t, loaded)
	for _, e := range events {
		if e.Ph == "X" {
			threads[*e.TID] = true
			assert.GreaterOrEqual(t, *e.TS, 0.)
		}
	}
	assert.Len(t, threads, 4)
	checkChrome(t, events, h.Samples[len(h.Samples)-1])
}

// Two threads may take the time in one order and their numbers in the other.
func TestTimeDoesNotGoBack(t *testing.T) {
	s := tracetest.NewScript()
	s.Tell("reused", 0, slab, 1, 0) // told before what it takes was told of
	s.Tell("cached", slab, slab, 1, 0)
	s.Tell("closed", 0, 0, 0, 0)
	s.Events[0].NS, s.Events[1].NS, s.Events[2].NS = 30, 20, 40
	loaded := load(t, s)
	for i, expected := range []uint64{30, 30, 40} {
		assert.Equal(t, expected, loaded.Events[i].NS)
	}
	h := loaded.History()
	assert.Zero(t, h.Peak.Cached, "it was never in the cache for longer than a moment")
	assert.Zero(t, h.Samples[len(h.Samples)-1].Cached)
}

func TestImportedIsMapped(t *testing.T) {
	s := tracetest.NewScript()
	s.Tell("imported", 0, slab, 1, 20)
	s.Unmap("unmapped", 0, slab)
	h := load(t, s).History()
	assert.EqualValues(t, slab, h.Peak.Mapped)
	require.Len(t, h.Mappings, 1)
	assert.False(t, h.Mappings[0].Before)
}

func TestUnknownKindsAreKept(t *testing.T) {
	s := tracetest.NewScript()
	s.Tell("levitated", 0, 7, 0, 0)
	s.Tell("granted", 0, slab, 0, 25)
	var kinds []string
	for _, e := range chrome(t, load(t, s)) {
		if e.Ph == "i" || e.Ph == "X" {
			kinds = append(kinds, e.Ph+" "+e.Name)
		}
	}
	assert.ElementsMatch(t, []string{"i levitated", "X granted"}, kinds)
}

func TestPicturesOfLittle(t *testing.T) {
	for name, script := range map[string]func(s *tracetest.Script){
		"nothing":             func(*tracetest.Script) {},
		"one event":           func(s *tracetest.Script) { s.Map("mapped", 0, slab) },
		"no size":             func(s *tracetest.Script) { s.Tell("malloc", 0, 0, 0, 0) },
		"failures only":       func(s *tracetest.Script) { s.Tell("failed", 0, 1<<63, 0, 0); s.Tell("reset", 0, 0, 0, 0) },
		"an address far away": func(s *tracetest.Script) { s.Tell("malloc", tracetest.Total-1, 1, 0, 0) },
		"years": func(s *tracetest.Script) {
			s.Pass(1 << 50)
			s.Map("mapped", 0, slab)
			s.Pass(1 << 50)
			s.Tell("closed", 0, 0, 0, 0)
		},
		"all in one moment": func(s *tracetest.Script) {
			for i := range uint64(9) {
				s.Tell("mapped", i*slab, slab, i, 0)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := tracetest.NewScript()
			script(s)
			loaded := load(t, s)
			text := string(svg(t, loaded))
			assert.NotContains(t, text, "NaN")
			assert.NotContains(t, text, "Inf")
			chrome(t, loaded)
		})
	}
}

// However many allocations there are, the picture stays small.
func TestPictureOfMuch(t *testing.T) {
	s := tracetest.NewScript()
	random := rand.New(rand.NewPCG(3, 3))
	for i := range uint64(700) {
		s.Map("mapped", i*slab, slab)
		for j := range uint64(30) {
			s.Tell("malloc", i*slab+j*(2<<20), 1+random.Uint64N(2<<20), 0, 0)
			s.Pass(random.Uint64N(50))
		}
		for j := range uint64(30) {
			if random.IntN(2) == 0 {
				s.Tell("free", i*slab+j*(2<<20), 0, 0, 0)
				s.Pass(random.Uint64N(50))
			}
		}
	}
	text := svg(t, load(t, s))
	assert.Less(t, bytes.Count(text, []byte("Z")), 20100) // each rectangle is closed
	assert.Less(t, len(text), 2<<20)
}

// A writer that fails is told of.
func TestWritersThatFail(t *testing.T) {
	loaded := load(t, tracetest.Sample())
	for _, write := range []func(io.Writer, *trace.Trace) error{trace.WriteChrome, trace.WriteSVG} {
		assert.ErrorIs(t, write(broken{}, loaded), errBroken)
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func FuzzLoad(f *testing.F) {
	f.Add(tracetest.Sample().JSON())
	s := tracetest.NewScript()
	for i, kind := range []string{
		"mapped", "prefetched", "unmapping", "unmapped", "malloc", "free", "failed", "cached", "reused", "trimmed", "out_of_memory",
		"granted", "closed", "reset",
	} {
		s.Tell(kind, uint64(i%3)*slab, slab, 1, uint64(i%2))
	}
	f.Add(s.JSON())
	f.Add([]byte(`{"format":"arenagen-trace","version":1,"arena":{"base":0,"total":1},"missed":0,"events":[{"seq":1,"ns":0,"kind":"x"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		loaded, err := trace.Load(text)
		if err != nil {
			require.ErrorIs(t, err, trace.ErrFormat)
			require.NotContains(t, fmt.Sprint(err), "\n")
			return
		}
		var b bytes.Buffer
		require.NoError(t, trace.WriteChrome(&b, loaded))
		require.True(t, json.Valid(b.Bytes()))
		b.Reset()
		require.NoError(t, trace.WriteSVG(&b, loaded))
		wellFormed(t, b.Bytes())
	})
}
