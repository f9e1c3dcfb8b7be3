package arenatest

import "github.com/arenagen/arenagen/arena/vmm"

// A kind says what a word of a script stands for.
type kind int

const (
	number   kind = iota // 3, 64MiB, 2g; an address: p, p+4KiB, a+1g; an arena: a; none: 0
	newArena             // a name for the arena that the verb makes
	newValue             // a name for the first value that the verb gives
	word                 // one of some words, sent as its number
)

// A parameter is one argument of a verb. One with a default is written as name=value, others in their order.
type parameter struct {
	name      string
	kind      kind
	words     map[string]uint64
	optional  bool
	byDefault uint64
}

func arg(name string) parameter { return parameter{name: name} }
func option(name string, usual uint64) parameter {
	return parameter{name: name, optional: true, byDefault: usual}
}

var drains = map[string]uint64{"default": 0, "none": 1, "stream": 2, "device": 3}

// verbs are the operations that a script can name.
var verbs = map[string][]parameter{
	// A device is opened and addresses are reserved on it. Gives the handle, base, granule and total.
	"create": {
		{name: "arena", kind: newArena},
		arg("total"), option("device", 0), option("granule", 0), option("minimum", 0),
		{name: "drain", kind: word, words: drains, optional: true},
		// slab is the size of slabs, or 0 for a handle each; single=1 is one handle for the arena.
		option("slab", 0), option("single", 0), option("cache", 0), option("reuse", 0), option("peers", 0),
	},
	"malloc":  {arg("arena"), arg("size"), {name: "address", kind: newValue}, option("align", 0), option("stream", 0)},
	"free":    {arg("arena"), arg("address")},
	"close":   {arg("arena")},
	"drain":   {arg("arena"), arg("capacity")}, // gives the count
	"release": {arg("arena")},
	"used":    {arg("arena")},
	"mapped":  {arg("arena")},
	"live":    {arg("arena")},
	"closed":  {arg("arena")},
	"range":   {arg("arena")},              // gives base and length
	"trim":    {arg("arena"), arg("keep")}, // gives how many bytes went
	"reset":   {arg("arena")},
	// Gives how many regions of a kind there are, and how many bytes they have.
	"regions": {arg("arena"), {name: "kind", kind: word, words: regionKinds}},
	"peer":    {arg("arena"), arg("device")},
	// Gives how the arena's memory can be exported: 0 not, 1 as a file descriptor, 2 as a fabric handle.
	"exported": {arg("arena")},
	"stat":     {arg("arena"), {name: "counter", kind: word, words: counters}},
	"of":       {arg("address")}, // gives the arena, 0 for none

	// The C pair, and which arena serves it.
	"active":     {arg("device"), arg("arena")},
	"active_any": {arg("arena")},
	"mx_malloc":  {arg("device"), arg("size"), {name: "address", kind: newValue}, option("stream", 0)},
	"mx_free":    {arg("address"), option("device", 0)},

	// Threads allocate and free at the same time, each so many pairs.
	"storm": {arg("arena"), arg("threads"), arg("pairs")},

	// Memory that the host can touch: a pattern is written, and found again.
	"write": {arg("address"), arg("size")},
	"find":  {arg("address"), arg("size")},

	// The driver, where it is a simulator.
	"fail":       {{name: "operation", kind: word, words: operations}, arg("nth"), {name: "class", kind: word, words: classes}},
	"fail_not":   {},
	"refuse":     {{name: "handle type", kind: word, words: handleTypes}},
	"objects":    {},                                                   // gives how many reservations, handles and mappings there are
	"violations": {},                                                   // gives how often memory was unmapped under work that uses it
	"calls":      {{name: "operation", kind: word, words: operations}}, // gives how often it was called since it was asked
	"stream":     {{name: "stream", kind: newValue}},
	"busy":       {arg("stream"), arg("address"), arg("size")}, // work that uses a range is pending on it
	"capturing":  {arg("stream"), arg("on")},
	"gone":       {arg("stream")},

	// The process. The next operation is done by a forked child; its answer comes back.
	"fork": {},
	// Threads with small stacks, one after the other, each with one pair of the C pair.
	"threads": {arg("count"), arg("stack")},
}

// counters are the fields of arena.Stats, by the names that the C interface has for them.
var counters = numbered(
	"created", "released", "quarantined", "handed_over", "deferred", "failed", "refused", "unknown_frees", "late_frees",
	"failed_releases", "nearly_full", "handles", "slabs", "slab_free", "cache_bytes", "cache_reused", "cache_trimmed", "peak_mapped",
)

// regionKinds are those of arena.RegionKind, by the names that the C interface has for them.
var regionKinds = numbered("dmabuf", "posix_fd", "fabric", "cuda_ipc", "whole", "holes")

var (
	handleTypes = named(func(i uint8) string { return vmm.HandleType(i).String() }, uint8(vmm.HandleTypeFabric)+1)
	operations  = named(func(i uint8) string { return vmm.Op(i).String() }, uint8(vmm.OpStreamCapturing)+1)
	classes     = named(func(i uint8) string { return className(vmm.Class(i)) }, uint8(vmm.ClassDeviceLost)+1)
)

func numbered(names ...string) map[string]uint64 {
	numbers := make(map[string]uint64, len(names))
	for i, name := range names {
		numbers[name] = uint64(i)
	}
	return numbers
}

func named(name func(uint8) string, count uint8) map[string]uint64 {
	numbers := make(map[string]uint64, count)
	for i := range count {
		numbers[name(i)] = uint64(i)
	}
	return numbers
}
