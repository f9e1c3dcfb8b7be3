package arena

import "math/bits"

// A record is one allocation. It has no pointers, so the collector never looks at it.
type record struct {
	key    uint64 // granules from the base, plus 1; 0 is an empty place; plus marks after close
	size   uint64 // rounded, in bytes
	handle uint64
	stream uint64
	birth  uint64 // its epoch, tag and kind
}

// Marks on the key of a record that was live when its arena closed. It is forgotten
// when it has both.
const (
	markFreed   = 1 << 63 // the late free of its address arrived
	markSettled = 1 << 62 // its memory was released or handed over
	markBits    = markFreed | markSettled
)

// A table finds records by key. It is an open-addressed hash table that probes
// linearly, moves records back on removal instead of leaving tombstones, and grows by half: at
// worst 69 bytes for a record in a large table, and no moment at which it doubles.
type table struct {
	places []record
	count  int
}

const minPlaces = 8

// hash spreads keys that come in arithmetic progressions of any step.
func hash(key uint64) uint64 {
	key *= 0x9e3779b97f4a7c15
	key ^= key >> 32
	return key * 0xd6e8feb86659fd93
}

// home is where a record with this hash wants to be. The top bits choose the shard,
// the ones below them the place.
func (t *table) home(h uint64) int {
	high, _ := bits.Mul64(h<<shardBits, uint64(len(t.places)))
	return int(high)
}

// next is the place after i.
func (t *table) next(i int) int {
	if i++; i < len(t.places) {
		return i
	}
	return 0
}

// find returns the place of key, or -1.
func (t *table) find(key, h uint64) int {
	if t.count == 0 {
		return -1
	}
	for i := t.home(h); t.places[i].key != 0; i = t.next(i) {
		if t.places[i].key&^markBits == key {
			return i
		}
	}
	return -1
}

// insert adds a record whose key is not there yet.
func (t *table) insert(r record, h uint64) {
	if 8*(t.count+1) > 7*len(t.places) {
		t.resize(max(minPlaces, len(t.places)+len(t.places)/2))
	}
	t.put(r, h)
	t.count++
}

func (t *table) put(r record, h uint64) {
	i := t.home(h)
	for t.places[i].key != 0 {
		i = t.next(i)
	}
	t.places[i] = r
}

// remove takes the record at place i out.
func (t *table) remove(i int) {
	for j := t.next(i); t.places[j].key != 0; j = t.next(j) {
		if home := t.home(hash(t.places[j].key &^ markBits)); !within(i, home, j) {
			t.places[i] = t.places[j]
			i = j
		}
	}
	t.places[i] = record{}
	t.count--
	if len(t.places) > minPlaces && 4*t.count < len(t.places) {
		t.resize(max(minPlaces, len(t.places)/2))
	}
}

// prune forgets the records that have both marks.
func (t *table) prune() {
	kept := table{}
	for _, r := range t.places {
		if r.key != 0 && r.key&markBits != markBits {
			kept.insert(r, hash(r.key&^markBits))
		}
	}
	*t = kept
}

// within tells whether place x comes after i and not after j, going round.
func within(i, x, j int) bool {
	if i <= j {
		return i < x && x <= j
	}
	return i < x || x <= j
}

func (t *table) resize(places int) {
	old := t.places
	t.places = make([]record, places)
	for _, r := range old {
		if r.key != 0 {
			t.put(r, hash(r.key&^markBits))
		}
	}
}
