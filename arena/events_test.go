package arena_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
)

// told is what events tell, without their times.
func told(events []arena.Event) (lines []string) {
	for _, e := range events {
		line := e.Kind.String()
		if e.Address != 0 {
			line += fmt.Sprintf(" %d+%d", (e.Address-base)/granule, e.Size/granule)
		}
		if e.Handle != 0 {
			line += fmt.Sprintf(" #%d", e.Handle-1000)
		}
		if e.Tag != 0 {
			line += fmt.Sprintf(" tag %d", e.Tag)
		}
		lines = append(lines, line)
	}
	return lines
}

// assertInOrder checks the numbers and times of events that follow one.
func assertInOrder(t *testing.T, after uint64, events []arena.Event) {
	t.Helper()
	for _, e := range events {
		after++
		assert.Equal(t, after, e.Seq)
		assert.GreaterOrEqual(t, e.Time, time.Duration(0))
		assert.GreaterOrEqual(t, e.Took, time.Duration(0))
	}
}

func TestEventsTellWhatHappened(t *testing.T) {
	v := newVault(t)
	a := openConfig(t, v, 64, arena.Config{Events: 100, Cache: 2 * granule})
	one := tagged(t, a, 3, 1)
	two := tagged(t, a, 0, 3*granule)
	require.NoError(t, a.Free(one))
	require.NoError(t, a.Free(two))
	malloc(t, a, 1)
	require.NoError(t, a.AddPeer(4))
	v.onAllocate = func(_, _ uint64) error { return errMemory }
	_, err := a.Malloc(2 * granule)
	require.Error(t, err)
	v.onAllocate = nil
	require.NoError(t, a.Free(base+4*granule))
	_, err = a.Trim(0)
	require.NoError(t, err)
	require.NoError(t, a.Reset())
	malloc(t, a, 1)
	require.NoError(t, a.Release())
	events, missed := a.Events(0, 1000)
	assert.Zero(t, missed)
	assertInOrder(t, 0, events)
	assert.Equal(t, []string{
		"mapped 0+1 #1", "malloc 0+1 #1 tag 3", "mapped 1+3 #2", "malloc 1+3 #2",
		"free 0+1 #1 tag 3", "unmapping 0+1 #1", "unmapped 0+1 #1", "cached 0+1 #1",
		"free 1+3 #2", "unmapping 1+3 #2", "unmapped 1+3 #2",
		"reused 4+1 #1", "malloc 4+1 #1", "granted 4+1",
		"out_of_memory 5+2", "failed 5+2",
		"free 4+1 #1", "unmapping 4+1 #1", "unmapped 4+1 #1", "cached 4+1 #1",
		"trimmed #1", "reset",
		"granted 0+1", "mapped 0+1 #3", "malloc 0+1 #3",
		"closed", "free 0+1 #3", "unmapping 0+1 #3", "unmapped 0+1 #3",
	}, told(events))

	some, missed := a.Events(10, 3)
	assert.Zero(t, missed)
	assert.Equal(t, events[10:13], some)
	none, missed := a.Events(uint64(len(events)), 10)
	assert.Empty(t, none)
	assert.Zero(t, missed)
}

func TestEventsOfSlabs(t *testing.T) {
	f := newFake(t)
	a := openConfig(t, f, 64, arena.Config{Events: 100, Placement: arena.Slab(4 * granule)})
	one, two := malloc(t, a, granule), malloc(t, a, granule)
	require.NoError(t, a.Free(one))
	require.NoError(t, a.Free(two))
	events, _ := a.Events(0, 100)
	assert.Equal(t, []string{
		"mapped 0+4 #1", "malloc 0+1", "malloc 1+1", "free 0+1", "free 1+1", "unmapping 0+4 #1", "unmapped 0+4 #1",
	}, told(events))
	require.NoError(t, a.Release())
}

func TestNoEvents(t *testing.T) {
	a := openConfig(t, newFake(t), 64, arena.Config{})
	malloc(t, a, 1)
	events, missed := a.Events(0, 10)
	assert.Empty(t, events)
	assert.Zero(t, missed)
	require.NoError(t, a.Release())
	for _, count := range []int{-1, arena.MaxEvents + 1, 1 << 60} {
		_, err := arena.New(newFake(t), arena.Config{Total: granule, Events: count})
		require.ErrorIs(t, err, arena.ErrInvalidArgument)
	}
}

func TestEventsThatWereMissed(t *testing.T) {
	a := openConfig(t, newFake(t), 64, arena.Config{Events: 5}) // 8
	mallocs(t, a, 10)
	events, missed := a.Events(0, 100)
	assert.Equal(t, uint64(12), missed)
	assert.Len(t, events, 8)
	assertInOrder(t, missed, events)
	require.NoError(t, a.Release())
}

func TestChangesFromTheFirstCallOn(t *testing.T) {
	v := newVault(t)
	a := openConfig(t, v, 64, arena.Config{Cache: 2 * granule})
	va := malloc(t, a, 1)
	changes, missed := a.Changes(0, 100)
	assert.Empty(t, changes)
	assert.Zero(t, missed)
	require.NoError(t, a.Free(va))
	tagged(t, a, 2, 1)
	changes, missed = a.Changes(0, 100)
	assert.Zero(t, missed)
	assertInOrder(t, 0, changes)
	assert.Equal(t, []string{"unmapping 0+1 #1", "unmapped 0+1 #1", "reused 1+1 #1"}, told(changes), "of mappings only")
	events, _ := a.Events(0, 100)
	assert.Empty(t, events, "those are something else")
	require.NoError(t, a.Release())
	changes, _ = a.Changes(3, 100)
	assert.Equal(t, []string{"unmapping 1+1 #1", "unmapped 1+1 #1"}, told(changes))
}

// Who begins to follow while an allocation is in the backend finds it neither among the regions nor told before: it is told afterwards.
func TestChangesTellWhatIsUnderWay(t *testing.T) {
	for name, config := range map[string]arena.Config{
		"per allocation": {}, "slabs": {Placement: arena.Slab(4 * granule)}, "events": {Events: 10}, "cache": {Cache: granule},
	} {
		t.Run(name, func(t *testing.T) {
			f := newVault(t)
			a := openConfig(t, f, 64, config)
			entered, g := make(chan struct{}), newGate()
			f.onAllocate = func(_, _ uint64) error { close(entered); g.park(); return nil }
			done := background(func() error { _, err := a.Malloc(1); return err })
			<-entered
			a.Changes(0, 100)
			regions, err := a.Regions(arena.RegionsIPC)
			require.NoError(t, err)
			require.Empty(t, regions)
			g.open()
			require.NoError(t, <-done)
			changes, _ := a.Changes(0, 100)
			require.NotEmpty(t, changes)
			assert.Equal(t, arena.EventMapped, changes[0].Kind)
			assert.Equal(t, uint64(base), changes[0].Address)
			assert.Equal(t, uint64(1001), changes[0].Handle)
			require.NoError(t, a.Release())
		})
	}
}

// TestFollowersKnowWhatIsMapped has threads allocate and free while others begin to follow at some moment. In the end each of those knows what is mapped.
func TestFollowersKnowWhatIsMapped(t *testing.T) {
	rounds := 100
	if raceEnabled {
		rounds = 20
	}
	for _, config := range []arena.Config{
		{},
		{Cache: 8 * granule},
		{Placement: arena.Slab(2 * granule)},
		{Placement: arena.Slab(2 * granule), Prefetch: 4 * granule, Reuse: true},
	} {
		t.Run(fmt.Sprintf("%v, cache %d, ahead %d", config.Placement, config.Cache, config.Prefetch), func(t *testing.T) {
			for range rounds {
				v := newVault(t)
				slow(v.fake)
				a := openConfig(t, v, 1<<12, config)
				var all sync.WaitGroup
				start := make(chan struct{})
				for range 3 {
					all.Go(func() {
						<-start
						var mine []uint64
						for range 60 {
							if len(mine) > 2 {
								assert.NoError(t, a.Free(mine[0]))
								mine = slices.Delete(mine, 0, 1)
							}
							va, err := a.Malloc(1 + rand.Int64N(3*granule))
							if assert.NoError(t, err) {
								mine = append(mine, va)
							}
						}
					})
				}
				known := map[uint64]uint64{}
				var last uint64
				follow := func() {
					changes, missed := a.Changes(last, 1<<20)
					assert.Zero(t, missed)
					for _, e := range changes {
						assert.Equal(t, last+1, e.Seq)
						last = e.Seq
						switch e.Kind {
						case arena.EventUnmapping:
							delete(known, e.Address)
						case arena.EventUnmapped:
						default:
							known[e.Address] = e.Handle
						}
					}
				}
				close(start)
				for range rand.IntN(50) {
					yield()
				}
				_, _ = a.Changes(0, 0)
				regions, err := a.Regions(arena.RegionsIPC)
				require.NoError(t, err)
				for _, r := range regions {
					known[r.Base] = r.Handle
				}
				all.Wait()
				for a.Prefetching() {
					yield()
				}
				follow()
				want := map[uint64]uint64{}
				v.mu.Lock()
				for va, p := range v.placements {
					want[va] = p.handle
				}
				v.mu.Unlock()
				assert.Equal(t, want, known)
				require.NoError(t, a.Release())
				if t.Failed() {
					return
				}
			}
		})
	}
}

// TestEventsWhileThreadsAreAtWork checks that the events of each address alternate and that nothing is told twice or lost.
func TestEventsWhileThreadsAreAtWork(t *testing.T) {
	const threads, each = 6, 500
	f := newFake(t)
	slow(f)
	a := openConfig(t, f, 1<<14, arena.Config{Events: 1 << 16})
	var all sync.WaitGroup
	for range threads {
		all.Go(func() {
			for range each {
				va, err := a.Malloc(1)
				if assert.NoError(t, err) {
					assert.NoError(t, a.Free(va))
				}
			}
		})
	}
	over := make(chan struct{})
	followed := background(func() (events []arena.Event) {
		for ended := false; ; {
			var last uint64
			if len(events) > 0 {
				last = events[len(events)-1].Seq
			}
			more, missed := a.Events(last, 64)
			assert.Zero(t, missed)
			assertInOrder(t, last, more)
			events = append(events, more...)
			if ended && len(more) == 0 {
				return events
			}
			select {
			case <-over:
				ended = true
			default:
			}
		}
	})
	all.Wait()
	close(over)
	events := <-followed
	assert.Len(t, events, threads*each*5)
	next := map[uint64]int{}
	kinds := []arena.EventKind{arena.EventMapped, arena.EventMalloc, arena.EventFree, arena.EventUnmapping, arena.EventUnmapped}
	for _, e := range events {
		if !assert.Equal(t, kinds[next[e.Address]], e.Kind) {
			break
		}
		next[e.Address]++
	}
	require.NoError(t, a.Release())
}

func TestTraceIsJSON(t *testing.T) {
	a := openConfig(t, newFake(t), 64, arena.Config{Events: 4})
	require.NoError(t, a.SetTag(2))
	mallocs(t, a, 3)
	var b bytes.Buffer
	require.NoError(t, a.WriteTrace(&b))
	var trace struct {
		Format string
		Missed uint64
		Arena  arena.Snapshot
		Events []struct {
			Seq, NS, Address, Size, Handle, Tag, Took uint64
			Kind                                      string
		}
	}
	require.NoError(t, json.Unmarshal(b.Bytes(), &trace))
	assert.Equal(t, "arenagen-trace", trace.Format)
	assert.Equal(t, uint64(2), trace.Missed)
	require.Len(t, trace.Events, 4)
	assert.Equal(t, []string{"mapped", "malloc", "mapped", "malloc"},
		[]string{trace.Events[0].Kind, trace.Events[1].Kind, trace.Events[2].Kind, trace.Events[3].Kind})
	assert.Equal(t, uint64(3), trace.Arena.Live)
	assert.Equal(t, uint64(3), trace.Arena.Tags[2].Live)
	last := uint64(0)
	for _, e := range trace.Events {
		assert.GreaterOrEqual(t, e.NS, last)
		last = e.NS
	}
	require.NoError(t, a.Release())

	b.Reset()
	none := openConfig(t, newFake(t), 64, arena.Config{})
	require.NoError(t, none.WriteTrace(&b))
	assert.True(t, json.Valid(b.Bytes()))
	require.NoError(t, none.Release())
}

func TestKindsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for kind := arena.EventMapped; kind <= arena.EventClosed; kind++ {
		name := kind.String()
		assert.NotEmpty(t, name)
		assert.NotEqual(t, "unknown", name)
		assert.False(t, seen[name])
		seen[name] = true
	}
	assert.Equal(t, "unknown", arena.EventKind(0).String())
	assert.Equal(t, "unknown", (arena.EventClosed + 1).String())
	assert.Equal(t, "unknown", arena.EventKind(255).String())
}
