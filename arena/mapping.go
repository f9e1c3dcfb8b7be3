package arena

import (
	"cmp"
	"slices"
)

// A mapping is a handle that is mapped for live allocations, or ahead of some.
type mapping struct {
	start, size uint64
	handle      uint64
	birth       uint64
}

// The birth of a record is where it comes from: the epoch in which it was mapped, and below that these.
const (
	epochShift  = 8
	importedBit = 1 << 7 // its memory is another process's
	inSlabBit   = 1 << 6 // it has no handle of its own
	trimmedBit  = 1 << 5 // its handle is not kept
	tagMask     = MaxTags - 1
)

// birthOf is the birth of what is mapped now.
func (a *Arena) birthOf(tag Tag) uint64 { return a.epoch.Load()<<epochShift | uint64(tag) }

// generation tells mappings at one address apart.
func (m mapping) generation() uint64 { return m.birth >> epochShift }

// mappings are those of this moment, by address.
func (a *Arena) mappings() []mapping {
	all := a.slabs.mappings()
	for i := range a.shards {
		s := &a.shards[i]
		s.mu.Lock()
		for _, r := range s.table.places {
			if r.key != 0 && r.key&markBits == 0 && r.birth&inSlabBit == 0 {
				all = append(all, a.mappingOf(r))
			}
		}
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(x, y mapping) int { return cmp.Compare(x.start, y.start) })
	return all
}

// mappingOf is the mapping of a record that has a handle of its own.
func (a *Arena) mappingOf(r record) mapping { return mapping{a.address(r), r.size, r.handle, r.birth} }

// mappingAt is the mapping in which a live allocation begins at an address, or which begins there itself.
func (a *Arena) mappingAt(va uint64) (m mapping, ok bool) {
	if m, ok = a.slabs.mappingAt(va); ok {
		return m, true
	}
	r, ok := a.live(va)
	return a.mappingOf(r), ok
}

// stillThere tells whether a mapping was not taken away meanwhile.
func (a *Arena) stillThere(m mapping) bool {
	now, ok := a.mappingAt(m.start)
	return ok && now == m
}

// mappings are the slabs.
func (s *slabs) mappings() (all []mapping) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.mapped {
		all = append(all, b.mapping())
	}
	return all
}

// mappingAt is the slab that an address lies in.
func (s *slabs) mappingAt(va uint64) (m mapping, ok bool) {
	if s == nil {
		return mapping{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.holding(va); i >= 0 {
		return s.mapped[i].mapping(), true
	}
	return mapping{}, false
}

func (b slab) mapping() mapping { return mapping{b.start, b.size, b.handle, b.birth} }
