package arena

// Ranges are the free parts of mapped memory, ordered by address. The lowest that is large enough is found, taken and given back
// in logarithmic time: a treap, each node of which knows the largest range below it. It has no pointers, so the collector never looks at it.
type ranges struct {
	nodes []rangeNode // 0 is no node
	root  uint32
	spare uint32 // nodes to use again, linked by right
	count int
	bytes uint64
}

// A rangeNode is one free range.
type rangeNode struct {
	start, size uint64
	largest     uint64 // size of the largest range at or below this node
	left, right uint32
	priority    uint32
}

// insert adds a range that touches no other.
func (r *ranges) insert(start, size uint64) {
	if len(r.nodes) == 0 {
		r.nodes = make([]rangeNode, 1)
	}
	i := r.spare
	if i != 0 {
		r.spare = r.nodes[i].right
	} else {
		i = uint32(len(r.nodes))
		r.nodes = append(r.nodes, rangeNode{})
	}
	// The address decides the shape, so that the same calls give the same tree.
	r.nodes[i] = rangeNode{start: start, size: size, largest: size, priority: uint32(hash(start+1) >> 32)}
	r.root = r.enter(r.root, i)
	r.count++
	r.bytes += size
}

// enter puts a node into a tree.
func (r *ranges) enter(tree, i uint32) uint32 {
	n, t := &r.nodes[i], &r.nodes[tree]
	switch {
	case tree == 0:
		return i
	case n.priority > t.priority:
		n.left, n.right = r.split(tree, n.start)
		r.update(i)
		return i
	case n.start < t.start:
		t.left = r.enter(t.left, i)
	default:
		t.right = r.enter(t.right, i)
	}
	r.update(tree)
	return tree
}

// remove takes out the range that begins at start, which is there.
func (r *ranges) remove(start uint64) (size uint64) {
	var it uint32
	r.root, it = r.leave(r.root, start)
	size = r.nodes[it].size
	r.nodes[it] = rangeNode{right: r.spare}
	r.spare = it
	r.count--
	r.bytes -= size
	return size
}

// leave takes a node out of a tree.
func (r *ranges) leave(tree uint32, start uint64) (rest, it uint32) {
	t := &r.nodes[tree]
	switch {
	case t.start == start:
		return r.join(t.left, t.right), tree
	case start < t.start:
		t.left, it = r.leave(t.left, start)
	default:
		t.right, it = r.leave(t.right, start)
	}
	r.update(tree)
	return tree, it
}

// change gives the range that begins at start another beginning and another size. It stays between its neighbours.
func (r *ranges) change(start, to, size uint64) {
	r.bytes += size - r.set(r.root, start, to, size)
}

// set is change for a tree, and returns the size that the range had.
func (r *ranges) set(tree uint32, start, to, size uint64) (before uint64) {
	t := &r.nodes[tree]
	switch {
	case t.start == start:
		before = t.size
		t.start, t.size = to, size
	case start < t.start:
		before = r.set(t.left, start, to, size)
	default:
		before = r.set(t.right, start, to, size)
	}
	r.update(tree)
	return before
}

// merge adds a range that may touch others, of which those inside [low, high) become one with it.
func (r *ranges) merge(start, size, low, high uint64) {
	end := start + size
	var above uint64
	if end < high {
		above = r.at(end)
	}
	below, length, touches := r.before(start)
	touches = touches && below >= low && below+length == start
	switch {
	case touches:
		if above > 0 {
			r.remove(end)
		}
		r.change(below, below, length+size+above)
	case above > 0:
		r.change(end, start, size+above)
	default:
		r.insert(start, size)
	}
}

// carve takes the lowest room for an allocation out of the ranges, all of which begin at multiples of unit.
func (r *ranges) carve(size, align, unit uint64) (at uint64, ok bool) {
	// For more than the unit a range must be so much larger that it holds in any case.
	start, found, ok := r.first(size + align - unit)
	if !ok {
		return 0, false
	}
	at = (start + align - 1) &^ (align - 1)
	rest := start + found - at - size
	switch {
	case at > start:
		r.change(start, start, at-start)
		if rest > 0 {
			r.insert(at+size, rest)
		}
	case rest > 0:
		r.change(start, at+size, rest)
	default:
		r.remove(start)
	}
	return at, true
}

// first finds the lowest range of at least so many bytes.
func (r *ranges) first(size uint64) (start, found uint64, ok bool) {
	i := r.root
	if i == 0 || r.nodes[i].largest < size {
		return 0, 0, false
	}
	for {
		n := &r.nodes[i]
		switch {
		case n.left != 0 && r.nodes[n.left].largest >= size:
			i = n.left
		case n.size >= size:
			return n.start, n.size, true
		default:
			i = n.right
		}
	}
}

// before finds the last range that begins below an address.
func (r *ranges) before(at uint64) (start, size uint64, ok bool) {
	for i := r.root; i != 0; {
		n := &r.nodes[i]
		if n.start < at {
			start, size, ok = n.start, n.size, true
			i = n.right
		} else {
			i = n.left
		}
	}
	return start, size, ok
}

// at finds the size of the range that begins at an address, or 0.
func (r *ranges) at(start uint64) uint64 {
	for i := r.root; i != 0; {
		switch n := &r.nodes[i]; {
		case n.start == start:
			return n.size
		case n.start < start:
			i = n.right
		default:
			i = n.left
		}
	}
	return 0
}

// largest is the size of the largest range.
func (r *ranges) largest() uint64 {
	if r.root == 0 {
		return 0
	}
	return r.nodes[r.root].largest
}

// split parts a tree into what begins below an address, and the rest.
func (r *ranges) split(i uint32, at uint64) (low, high uint32) {
	if i == 0 {
		return 0, 0
	}
	if r.nodes[i].start < at {
		low, high = r.split(r.nodes[i].right, at)
		r.nodes[i].right = low
		r.update(i)
		return i, high
	}
	low, high = r.split(r.nodes[i].left, at)
	r.nodes[i].left = high
	r.update(i)
	return low, i
}

// join puts two trees together, the first of which is lower.
func (r *ranges) join(low, high uint32) uint32 {
	switch {
	case low == 0:
		return high
	case high == 0:
		return low
	case r.nodes[low].priority > r.nodes[high].priority:
		r.nodes[low].right = r.join(r.nodes[low].right, high)
		r.update(low)
		return low
	default:
		r.nodes[high].left = r.join(low, r.nodes[high].left)
		r.update(high)
		return high
	}
}

func (r *ranges) update(i uint32) {
	n := &r.nodes[i]
	// Node 0 has no range, so its largest is 0.
	n.largest = max(n.size, r.nodes[n.left].largest, r.nodes[n.right].largest)
}
