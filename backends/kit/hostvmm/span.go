package hostvmm

import (
	"cmp"
	"slices"
)

// A span is the range [start, start+size) and what it stands for.
type span[V any] struct {
	start, size uint64
	value       V
}

func (s span[V]) end() uint64 { return s.start + s.size }

// Spans are disjoint spans in ascending order.
type spans[V any] []span[V]

// search returns the index of the first span that begins at start or later, and
// whether it begins at start.
func (s spans[V]) search(start uint64) (int, bool) {
	return slices.BinarySearchFunc(s, start, func(one span[V], start uint64) int {
		return cmp.Compare(one.start, start)
	})
}

// around returns the span that contains all of [start, start+size).
func (s spans[V]) around(start, size uint64) (span[V], bool) {
	i, found := s.search(start)
	if !found {
		i--
	}
	if i < 0 || start+size > s[i].end() {
		return span[V]{}, false
	}
	return s[i], true
}

// isFree says whether no span overlaps [start, start+size).
func (s spans[V]) isFree(start, size uint64) bool {
	i, _ := s.search(start)
	before := i == 0 || s[i-1].end() <= start
	after := i == len(s) || start+size <= s[i].start
	return before && after
}

// run returns the indices [i, j) of the spans that make up [start, start+size)
// exactly, without a hole.
func (s spans[V]) run(start, size uint64) (i, j int, ok bool) {
	i, ok = s.search(start)
	if !ok {
		return 0, 0, false
	}
	end := start
	for j = i; j < len(s) && s[j].start == end && end < start+size; j++ {
		end = s[j].end()
	}
	return i, j, end == start+size
}

// insert adds a span to a range that is free.
func (s *spans[V]) insert(one span[V]) {
	i, _ := s.search(one.start)
	*s = slices.Insert(*s, i, one)
}

// remove takes the spans with the indices [i, j) out.
func (s *spans[V]) remove(i, j int) { *s = slices.Delete(*s, i, j) }
