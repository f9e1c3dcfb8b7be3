// Package tracetest makes a trace for tests and for the picture in the documentation.
package tracetest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
)

// What the sample's arena is.
const (
	Base    = 0x400000000000
	Total   = 4 << 40
	Granule = 2 << 20
	Slab    = 64 << 20
)

// An Event is one of a trace, as it is written.
type Event struct {
	Seq     uint64 `json:"seq"`
	NS      uint64 `json:"ns"`
	Kind    string `json:"kind"`
	Address uint64 `json:"address"`
	Size    uint64 `json:"size"`
	Handle  uint64 `json:"handle"`
	Tag     int64  `json:"tag"`
	Took    uint64 `json:"took"`
}

// A Script collects events: what happens, and when.
type Script struct {
	Events []Event
	Missed uint64
	now    uint64
	handle uint64
	slabs  map[uint64]uint64 // the handle that is mapped at an address
}

// NewScript begins some time after its arena was made.
func NewScript() *Script {
	return &Script{Events: []Event{}, now: 2_000_000, slabs: map[uint64]uint64{}}
}

// Pass lets time pass, in microseconds.
func (s *Script) Pass(micros uint64) { s.now += micros * 1000 }

// Tell adds an event. The driver took some microseconds for it, which pass.
func (s *Script) Tell(kind string, offset, size, handle, took uint64) {
	s.Pass(took)
	address := uint64(0)
	if kind != "closed" && kind != "reset" && kind != "trimmed" {
		address = Base + offset
	}
	s.Events = append(s.Events, Event{
		Seq: s.Missed + uint64(len(s.Events)) + 1, NS: s.now, Kind: kind, Address: address, Size: size, Handle: handle, Took: took * 1000,
	})
}

// Map maps a new handle, as the kind says: "mapped" or "prefetched".
func (s *Script) Map(kind string, offset, size uint64) {
	s.handle++
	s.slabs[offset] = s.handle
	s.Tell(kind, offset, size, s.handle, 900)
}

// Unmap takes a mapping away. The kind is what becomes of the handle: "unmapped" or "cached".
func (s *Script) Unmap(kind string, offset, size uint64) uint64 {
	handle := s.slabs[offset]
	delete(s.slabs, offset)
	s.Tell("unmapping", offset, size, handle, 0)
	s.Tell("unmapped", offset, size, handle, 350)
	if kind == "cached" {
		s.Tell("cached", offset, size, handle, 0)
	}
	return handle
}

// JSON is the trace as an arena writes it.
func (s *Script) JSON() []byte {
	text, err := json.Marshal(map[string]any{
		"format": "arenagen-trace", "version": 1, "missed": s.Missed,
		"arena": map[string]any{
			"device": 0, "closed": false, "base": uint64(Base), "total": uint64(Total), "granule": Granule, "used": 20 * Slab,
			"counter_of_a_later_version": 3,
		},
		"events": s.Events,
	})
	if err != nil { // numbers and strings only
		return []byte(fmt.Sprint(err))
	}
	return text
}

type piece struct{ offset, size uint64 }

// Sample is a model that is loaded tensor by tensor into slabs of 64 MiB, with a prefetcher some slabs ahead. Staging
// buffers are freed on the way, one slab empties and is unmapped, another goes to the cache and comes back where the
// first was, and an activation does not fit on the device.
func Sample() *Script {
	s, random := NewScript(), rand.New(rand.NewPCG(7, 11))
	l := loader{Script: s, random: random, live: map[uint64][]piece{}}
	l.load(11)
	l.empty(3, "unmapped")
	s.Pass(6000)
	l.empty(7, "cached")
	s.Pass(15000)
	s.Tell("out_of_memory", 14*Slab, 768<<20, 0, 0)
	s.Tell("failed", 14*Slab, 768<<20, 0, 0)
	s.Pass(8000)
	l.reuse(3)
	l.infer(3)
	l.thin(5)
	s.Pass(9000)
	l.empty(9, "cached")
	s.Pass(14000)
	s.Tell("trimmed", 0, Slab, 0, 240)
	s.Pass(10000)
	return s.end()
}

// end is an event of a kind that no version of the tool knows yet.
func (s *Script) end() *Script {
	s.Tell("kind_of_a_later_version", 0, 0, 0, 0)
	return s
}

type loader struct {
	*Script
	random *rand.Rand
	live   map[uint64][]piece // by slab
	mapped uint64             // slabs
}

// load fills some slabs. The prefetcher stays up to three ahead, and maps two that nothing comes for.
func (l *loader) load(slabs uint64) {
	l.Map("mapped", 0, Slab)
	l.mapped = 1
	for slab := range slabs {
		for l.mapped < min(slab+4, slabs+2) {
			l.Map("prefetched", l.mapped*Slab, Slab)
			l.mapped++
		}
		l.fill(slab)
	}
}

// fill allocates tensors in a slab until the next does not fit. Each fifth is staging, and freed soon.
func (l *loader) fill(slab uint64) {
	offset := uint64(0)
	for i := 0; ; i++ {
		size := l.tensor()
		if offset+size > Slab {
			return
		}
		l.Pass(20 + size>>14) // as fast as a disk reads
		p := piece{slab*Slab + offset, size}
		l.Tell("malloc", p.offset, size, 0, 0)
		l.live[slab] = append(l.live[slab], p)
		offset += size
		if i%5 == 4 {
			l.Pass(500)
			l.drop(slab, len(l.live[slab])-1)
		}
	}
}

func (l *loader) tensor() uint64 {
	sizes := []uint64{8 << 10, 64 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20}
	return sizes[l.random.IntN(len(sizes))]
}

func (l *loader) drop(slab uint64, i int) {
	p := l.live[slab][i]
	l.live[slab] = append(l.live[slab][:i:i], l.live[slab][i+1:]...)
	l.Tell("free", p.offset, p.size, 0, 0)
}

// empty frees all of a slab, which then goes.
func (l *loader) empty(slab uint64, kind string) {
	for len(l.live[slab]) > 0 {
		l.Pass(120)
		l.drop(slab, l.random.IntN(len(l.live[slab])))
	}
	l.Unmap(kind, slab*Slab, Slab)
}

// reuse maps the handle that went to the cache last at another place.
func (l *loader) reuse(slab uint64) {
	last := Event{}
	for _, e := range l.Events {
		if e.Kind == "cached" {
			last = e
		}
	}
	l.slabs[slab*Slab] = last.Handle
	l.Tell("reused", slab*Slab, Slab, last.Handle, 300)
}

// infer allocates activations that live for a moment only.
func (l *loader) infer(slab uint64) {
	for range 6 {
		for i := range uint64(4) {
			l.Tell("malloc", slab*Slab+i*(14<<20), 12<<20, 0, 0)
			l.Pass(900)
		}
		for i := range uint64(4) {
			l.Tell("free", slab*Slab+i*(14<<20), 12<<20, 0, 0)
			l.Pass(300)
		}
	}
}

// thin frees two of three in a slab, so that holes stay.
func (l *loader) thin(slab uint64) {
	for i := len(l.live[slab]) - 1; i >= 0; i-- {
		if i%3 != 0 {
			l.Pass(200)
			l.drop(slab, i)
		}
	}
}
