package arena

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNilRing(t *testing.T) {
	for _, count := range []int{0, -1} {
		r := newRing(count)
		require.Nil(t, r)
		r.write(Event{})
		events, missed := r.read(0, 10)
		assert.Empty(t, events)
		assert.Zero(t, missed)
	}
}

func TestRingIsRoundedUp(t *testing.T) {
	for count, places := range map[int]int{1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 1 << 12: 1 << 12} {
		assert.Len(t, newRing(count).places, places)
	}
}

func TestRingTellsWhatItMissed(t *testing.T) {
	for _, places := range []int{1, 2, 4, 8} {
		r := newRing(places)
		events, missed := r.read(0, 100)
		assert.Empty(t, events)
		assert.Zero(t, missed)
		for n := range 20 {
			r.write(Event{Address: uint64(n + 1)})
			events, missed := r.read(0, 100)
			require.Len(t, events, min(n+1, places))
			assert.Equal(t, uint64(max(0, n+1-places)), missed)
			for i, e := range events {
				assert.Equal(t, missed+uint64(i)+1, e.Seq)
				assert.Equal(t, e.Seq, e.Address)
			}
		}
		events, missed = r.read(19, 100)
		require.Len(t, events, 1)
		assert.Zero(t, missed)
		events, missed = r.read(20, 100)
		assert.Empty(t, events)
		assert.Zero(t, missed)
		for _, beyond := range []uint64{21, 1 << 40, 1<<64 - 1} {
			events, missed = r.read(beyond, 100)
			assert.Empty(t, events)
			assert.Zero(t, missed)
		}
		events, missed = r.read(20-uint64(places), 1)
		require.Len(t, events, 1, "at most so many")
		assert.Equal(t, 21-uint64(places), events[0].Seq)
		assert.Zero(t, missed)
		for _, none := range []int{0, -1} {
			events, _ = r.read(0, none)
			assert.Empty(t, events)
		}
	}
}

func TestRingKeepsAllOfAnEvent(t *testing.T) {
	r := newRing(4)
	e := Event{
		Time: 3 * time.Hour, Kind: EventClosed, Tag: MaxTags - 1, Address: 1<<64 - 1, Size: 1<<63 + 1, Handle: 1<<64 - 2, Took: 77 * time.Hour,
	}
	r.write(e)
	events, _ := r.read(0, 1)
	e.Seq = 1
	assert.Equal(t, []Event{e}, events)
}

// A reader waits for an event that is being written, but for none that never will be.
func TestRingGoesOnPastWhatWasDropped(t *testing.T) {
	const places = 4
	r := newRing(places)
	r.write(Event{Address: 1})
	stuck := r.last.Add(1) // its writer sleeps
	r.places[stuck%places].state.Store(2*stuck - 1)
	r.write(Event{Address: 3})
	events, missed := r.read(0, 10)
	assert.Len(t, events, 1, "up to the one that is being written")
	assert.Zero(t, missed)
	for n := range uint64(places) {
		r.write(Event{Address: 4 + n}) // 6 finds the place still being written
	}
	var got []uint64
	after, total := uint64(1), uint64(0)
	for range 10 {
		events, missed := r.read(after, 10)
		for _, e := range events {
			got = append(got, e.Seq)
			after = e.Seq
		}
		if len(events) > 0 {
			total += missed
		}
	}
	assert.Equal(t, []uint64{4, 5, 7}, got)
	assert.Equal(t, uint64(2+1), total, "2, 3 and 6")

	// The sleeper wakes up: what it writes is too old for anybody.
	r.places[stuck%places].state.Store(2 * stuck)
	r.write(Event{Address: 8})
	events, missed = r.read(after, 10)
	require.Len(t, events, 1)
	assert.Equal(t, uint64(8), events[0].Seq)
	assert.Zero(t, missed)
	for range places {
		r.write(Event{})
	}
	events, _ = r.read(8, 10)
	assert.Len(t, events, places, "the place is used again")
}

// TestThreadsAndARing has writers that lap each other and readers that follow, one of them slow.
func TestThreadsAndARing(t *testing.T) {
	const writers = 6
	each := 20_000
	if testing.Short() {
		each = 1000
	}
	for _, places := range []int{1, 4, 64, 4096} {
		r := newRing(places)
		var writing sync.WaitGroup
		for w := range uint64(writers) {
			writing.Go(func() {
				for n := range uint64(each) {
					// All of it can be told from one of its parts.
					mark := w<<32 | n
					r.write(Event{Address: mark, Size: mark * 3, Handle: ^mark, Took: time.Duration(mark & 0xffff), Kind: EventKind(1 + mark%10)})
				}
			})
		}
		over := make(chan struct{})
		var reading sync.WaitGroup
		for reader := range 2 {
			reading.Go(func() {
				last, ended := uint64(0), false
				for {
					events, missed := r.read(last, 100)
					for i, e := range events {
						want := last + 1
						if i == 0 {
							want += missed
						}
						if e.Seq != want || e.Size != e.Address*3 || e.Handle != ^e.Address || e.Took != time.Duration(e.Address&0xffff) ||
							e.Kind != EventKind(1+e.Address%10) {
							t.Errorf("%+v, expected number %d", e, want)
							return
						}
						last = e.Seq
					}
					if ended && len(events) == 0 {
						break
					}
					select {
					case <-over:
						ended = true
					default:
					}
					if reader == 0 {
						runtime.Gosched()
					}
				}
				// What is not there was dropped.
				for seq := last + 1; seq <= r.last.Load(); seq++ {
					if !r.dropped(seq) {
						t.Errorf("the reader ended at %d of %d", last, r.last.Load())
						return
					}
				}
			})
		}
		writing.Wait()
		close(over)
		reading.Wait()
		assert.Equal(t, uint64(writers*each), r.last.Load())
	}
}
