package main

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"time"
)

// A pairsResult is what allocating and freeing at once costs in the steady state.
type pairsResult struct {
	Pairs       int    `json:"pairs"`
	Allocations uint64 `json:"heap_allocations"` // of the Go heap
}

// pairs allocates and frees each of the load's allocations in turn, once to get into the steady state and
// once to be counted. The first also leaves the runtime time to end what it does after a collection.
func (l load) pairs() (pairsResult, error) {
	a, err := l.open(2)
	if err != nil {
		return pairsResult{}, err
	}
	runtime.GC()
	var before, after runtime.MemStats
	for range 2 {
		runtime.ReadMemStats(&before)
		for i := range l.n {
			va, err := a.Malloc(l.size(l.granule, i))
			if err != nil {
				return pairsResult{}, err
			}
			if err := a.Free(va); err != nil {
				return pairsResult{}, err
			}
		}
		runtime.ReadMemStats(&after)
	}
	return pairsResult{Pairs: l.n, Allocations: after.Mallocs - before.Mallocs}, nil
}

// A liveResult is what a load costs while all of it is live, and what remains of that after all of it was
// freed. Bytes are what was added to the process.
type liveResult struct {
	Live     int   `json:"live"`
	Reserved int64 `json:"reserved"` // sum of the rounded sizes

	Heap     int64 `json:"heap"`     // of the Go heap, after a collection
	Resident int64 `json:"resident"` // of anonymous memory, after a collection
	Maps     int64 `json:"maps"`     // kernel mappings
	Peak     int64 `json:"peak"`     // the most that was resident while the load grew

	FreedHeap     int64 `json:"freed_heap"`
	FreedResident int64 `json:"freed_resident"`
}

func (l load) live() (result liveResult, err error) {
	a, err := l.open(1)
	if err != nil {
		return liveResult{}, err
	}
	addresses := make([]uint64, l.n)
	for i := range addresses {
		addresses[i] = 1 // the pages of the slice are there before
	}
	before, err := settled()
	if err != nil {
		return liveResult{}, err
	}
	if err := l.allocate(a, addresses); err != nil {
		return liveResult{}, err
	}
	peak, err := peakSince(before)
	if err != nil {
		return liveResult{}, err
	}
	full, err := settled()
	if err != nil {
		return liveResult{}, err
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(l.n, func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] })
	for _, va := range addresses {
		if err := a.Free(va); err != nil {
			return liveResult{}, err
		}
	}
	empty, err := settled()
	if err != nil {
		return liveResult{}, err
	}
	runtime.KeepAlive(addresses)
	runtime.KeepAlive(a)
	return liveResult{
		Live:          l.n,
		Reserved:      l.reserved(),
		Heap:          full.heap - before.heap,
		Resident:      full.resident - before.resident,
		Maps:          full.maps - before.maps,
		Peak:          peak,
		FreedHeap:     empty.heap - before.heap,
		FreedResident: empty.resident - before.resident,
	}, nil
}

// A closeResult is how long it takes to close an arena in which a load is live.
type closeResult struct {
	Live     int   `json:"live"`
	Median   int64 `json:"median_ns"`
	Repeated int   `json:"repeated"`
}

func (l load) close() (closeResult, error) {
	const repeats = 5
	addresses := make([]uint64, l.n)
	times := make([]int64, repeats)
	for i := range times {
		a, err := l.open(1)
		if err != nil {
			return closeResult{}, err
		}
		if err := l.allocate(a, addresses); err != nil {
			return closeResult{}, err
		}
		runtime.GC()
		started := time.Now()
		if err := a.Close(); err != nil {
			return closeResult{}, err
		}
		times[i] = time.Since(started).Nanoseconds()
		if err := a.Release(); err != nil {
			return closeResult{}, err
		}
	}
	slices.Sort(times)
	return closeResult{Live: l.n, Median: times[repeats/2], Repeated: repeats}, nil
}
