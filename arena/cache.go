package arena

import (
	"container/list"
	"sync"
)

// A cache keeps handles that are not mapped, by their size, so that the next allocation of that size need not create one.
type cache struct {
	budget uint64 // bytes

	mu sync.Mutex
	// The fields below are guarded by mu. No call to the backend is made under it.
	age    list.List                  // of cached, the longest unused first
	bySize map[uint64][]*list.Element // the last is the latest
	counts cacheCounts
}

// A cached handle is one that is not mapped.
type cached struct{ size, handle uint64 }

// cacheCounts are a cache's share of MemoryStats.
type cacheCounts struct {
	bytes, peak           uint64
	kept, taken, returned uint64 // handles that came in, that were mapped again, that went back to the driver
}

// take takes a handle of a size out, the one that was used last.
func (c *cache) take(size uint64) (handle uint64, ok bool) {
	if c.budget == 0 {
		return 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	same := c.bySize[size]
	if len(same) == 0 {
		return 0, false
	}
	c.counts.taken++
	return c.remove(same[len(same)-1]).handle, true
}

// put keeps a handle, which fits into the budget, and gives those back that do not any more.
func (c *cache) put(size, handle uint64) (evicted []cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bySize == nil {
		c.bySize = make(map[uint64][]*list.Element)
	}
	c.bySize[size] = append(c.bySize[size], c.age.PushBack(cached{size, handle}))
	c.counts.bytes += size
	c.counts.kept++
	evicted = c.shrinkTo(c.budget)
	c.counts.peak = max(c.counts.peak, c.counts.bytes)
	return evicted
}

// shrink takes handles out until at most so many bytes are left.
func (c *cache) shrink(keep uint64) []cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shrinkTo(keep)
}

func (c *cache) shrinkTo(keep uint64) (evicted []cached) {
	for c.counts.bytes > keep {
		evicted = append(evicted, c.remove(c.age.Front()))
	}
	c.counts.returned += uint64(len(evicted))
	return evicted
}

func (c *cache) remove(e *list.Element) cached {
	it := c.age.Remove(e).(cached)
	same := c.bySize[it.size]
	for i := range same {
		if same[i] == e {
			same = append(same[:i], same[i+1:]...)
			break
		}
	}
	if len(same) == 0 {
		delete(c.bySize, it.size)
	} else {
		c.bySize[it.size] = same
	}
	c.counts.bytes -= it.size
	return it
}

// CacheStats are the counters of the cache of handles, at one moment. They balance: Kept = Reused + Trimmed + Handles.
type CacheStats struct {
	Budget  uint64 `json:"budget"`  // bytes
	Bytes   uint64 `json:"bytes"`   // that it holds
	Peak    uint64 `json:"peak"`    // the most bytes that it held since the last ResetPeaks
	Handles uint64 `json:"handles"` // that it holds
	Kept    uint64 `json:"kept"`    // handles that came into it
	Reused  uint64 `json:"reused"`  // handles that were mapped again
	Trimmed uint64 `json:"trimmed"` // handles that went back to the driver
}

// CacheStats reads the counters of the cache of handles.
func (a *Arena) CacheStats() CacheStats {
	c := &a.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.counts
	return CacheStats{
		Budget: c.budget, Bytes: n.bytes, Peak: n.peak, Handles: uint64(c.age.Len()),
		Kept: n.kept, Reused: n.taken, Trimmed: n.returned,
	}
}

func (c *cache) resetPeak() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.peak = c.counts.bytes
}
