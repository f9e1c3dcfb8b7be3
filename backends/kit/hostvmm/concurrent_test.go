package hostvmm_test

import (
	"encoding/binary"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/arenagen/arenagen/backends/kit/hostvmm"
)

const workers, rounds = 8, 100

// Every worker makes and ends allocations in its own part of one reservation,
// and reserves and frees addresses of its own meanwhile.
func TestConcurrentAllocations(t *testing.T) {
	for name, options := range map[string]hostvmm.Options{
		"host":             {},
		"host with log":    {Log: 16},
		"host in a budget": {Capacity: workers * granule},
		"record":           {Mode: hostvmm.Record},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, options)
			va := reserve(t, d, workers*granule)
			concurrently(func(worker uint64) {
				for round := range uint64(rounds) {
					at := va + worker*granule
					handle, handleType := uint64(0), int32(round%2)
					assert.Equal(t, hostvmm.Success, d.MemCreate(&handle, granule, handleType, 0))
					assert.Equal(t, hostvmm.Success, d.MemMap(at, granule, 0, handle, 0))
					assert.Equal(t, hostvmm.Success, d.MemSetAccess(at, granule, hostvmm.AccessReadWrite, 0))
					if options.Mode == hostvmm.Host {
						word := hostvmm.Bytes(at, granule)[granule-8:]
						assert.Zero(t, binary.NativeEndian.Uint64(word))
						binary.NativeEndian.PutUint64(word, handle)
						assert.Equal(t, handle, binary.NativeEndian.Uint64(word))
					}
					assert.Equal(t, hostvmm.Success, d.MemRelease(handle))
					assert.Equal(t, hostvmm.Success, d.MemUnmap(at, granule))
					d.Snapshot()

					var own uint64
					assert.Equal(t, hostvmm.Success, d.MemAddressReserve(&own, granule, 0, 0, 0))
					assert.Equal(t, hostvmm.Success, d.MemAddressFree(own, granule))
				}
			})
		})
	}
}

// Of several workers that do the same thing at once, one succeeds.
func TestConcurrentClaims(t *testing.T) {
	d := open(t, hostvmm.Options{})
	var va uint64
	assert.Equal(t, hostvmm.Success, d.MemAddressReserve(&va, granule, 0, 0, 0))
	handle := create(t, d, granule, hostvmm.HandleTypeNone)
	for _, step := range []struct {
		name string
		call func() hostvmm.Result
	}{
		{"map", func() hostvmm.Result { return d.MemMap(va, granule, 0, handle, 0) }},
		{"release", func() hostvmm.Result { return d.MemRelease(handle) }},
		{"unmap", func() hostvmm.Result { return d.MemUnmap(va, granule) }},
		{"free", func() hostvmm.Result { return d.MemAddressFree(va, granule) }},
	} {
		var results [workers]hostvmm.Result
		concurrently(func(worker uint64) { results[worker] = step.call() })
		counts := map[hostvmm.Result]int{}
		for _, r := range results {
			counts[r]++
		}
		assert.Equal(t, map[hostvmm.Result]int{hostvmm.Success: 1, hostvmm.ErrorInvalidValue: workers - 1}, counts, step.name)
	}
}

func concurrently(work func(worker uint64)) {
	var group sync.WaitGroup
	for worker := range uint64(workers) {
		group.Go(func() { work(worker) })
	}
	group.Wait()
}
