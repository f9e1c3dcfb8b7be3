package main

import (
	"math/bits"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/backends/stub"
)

// A load is the allocations of a measurement.
type load struct {
	n       int
	granule int64 // bytes
	size    pattern
}

// A pattern gives the size in bytes, from 1 byte to 1 GiB, of allocation number i, counted from 0. The
// sum of a million of them fits into the 128 TiB of addresses that a process has.
type pattern func(granule int64, i int) int64

const (
	mib int64 = 1 << 20
	gib int64 = 1 << 30
)

var patterns = map[string]pattern{
	// One granule each.
	"granule": func(granule int64, _ int) int64 { return granule },
	// 64 MiB each.
	"equal": func(int64, int) int64 { return 64 * mib },
	// Half are one granule, a quarter two, an eighth four, up to 1 GiB.
	"halving": func(granule int64, i int) int64 { return min(granule<<bits.TrailingZeros(uint(i)+1), gib) },
	// Every 16th is 1 GiB, the others are one granule.
	"large": func(granule int64, i int) int64 {
		if i%16 == 0 {
			return gib
		}
		return granule
	},
	// From 1 byte to 128 MiB in no order, hardly one a multiple of the granule.
	"spread": func(_ int64, i int) int64 { return 1 + int64(uint64(i)*0x9e3779b97f4a7c15>>37) },
}

// reserved is the sum of the load's sizes, each rounded up to the granule.
func (l load) reserved() int64 {
	var sum int64
	for i := range l.n {
		sum += (l.size(l.granule, i) + l.granule - 1) / l.granule * l.granule
	}
	return sum
}

// open makes an arena in record mode with room for the load so many times.
func (l load) open(times int64) (*arena.Arena, error) {
	granule := uint64(l.granule)
	device, err := stub.Open(0, stub.Options{Mode: stub.ModeRecord, MinGranule: granule, Granule: granule})
	if err != nil {
		return nil, err
	}
	return arena.New(device, arena.Config{Total: times * l.reserved(), Granule: granule})
}

// allocate makes the load's allocations and stores their addresses.
func (l load) allocate(a *arena.Arena, addresses []uint64) (err error) {
	for i := range l.n {
		if addresses[i], err = a.Malloc(l.size(l.granule, i)); err != nil {
			return err
		}
	}
	return nil
}
