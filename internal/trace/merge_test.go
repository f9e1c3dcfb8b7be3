package trace

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

// areaOf is how much the shades cover. Each is counted in full parts.
func areaOf(shades []shade) (sum float64) {
	for _, s := range shades {
		sum += (s.x1 - s.x0) * (s.y1 - s.y0) * float64(s.level) / full
	}
	return sum
}

func TestMergeKeepsWhatIsLargeEnough(t *testing.T) {
	rects := []rect{{0, 0, 10, 10}, {20, 5, 21, 100}, {99, 0, 100, 1}}
	var expected []shade
	for _, r := range rects {
		expected = append(expected, shade{r, full})
	}
	assert.Equal(t, expected, merge(rects, 100, 100, 1))
	assert.Empty(t, merge([]rect{{5, 5, 5, 50}, {5, 5, 50, 5}}, 100, 100, 1), "what has no area")
}

// What is merged covers as much as it did before.
func TestMergeKeepsAreas(t *testing.T) {
	const width, height, step = 300, 200, 1.0
	for name, shape := range map[string]func(r *rand.Rand) (w, h float64){
		"narrow": func(r *rand.Rand) (w, h float64) { return 0.5, 5 + 20*r.Float64() },
		"low":    func(r *rand.Rand) (w, h float64) { return 5 + 20*r.Float64(), 0.5 },
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			var rects []rect
			var sum float64
			for x := 0.; x < width-30; x += 30 { // apart, as no two allocations overlap
				for y := 0.; y < height-30; y += 30 {
					w, h := shape(random)
					r := rect{x + random.Float64(), y + random.Float64(), 0, 0}
					r.x1, r.y1 = r.x0+w, r.y0+h
					rects = append(rects, r)
					sum += w * h
				}
			}
			assert.InEpsilon(t, sum, areaOf(merge(rects, width, height, step)), 0.1)
		})
	}
}

// Neighbours that together cover cells become one rectangle.
func TestMergeJoins(t *testing.T) {
	var rects []rect
	for i := range 400 { // columns of a quarter, side by side, with no room between
		x := 10 + float64(i)/4
		rects = append(rects, rect{x, 20, x + 0.25, 80})
	}
	assert.Equal(t, []shade{{rect{10, 20, 110, 80}, full}}, merge(rects, 200, 100, 1))
	dots := []rect{{10, 20, 10.5, 20.5}, {10.5, 20.5, 11, 21}, {11, 20.25, 11.5, 20.75}, {11.25, 20, 11.75, 20.25}}
	assert.Equal(t, []shade{{rect{10, 20, 11, 21}, full / 2}, {rect{11, 20, 12, 21}, 3}}, merge(dots, 200, 100, 1))
	half := merge([]rect{{10, 20, 10.5, 80}}, 200, 100, 1)
	assert.Equal(t, []shade{{rect{10, 20, 11, 80}, full / 2}}, half)
}

func TestMergeStaysOnThePage(t *testing.T) {
	for _, s := range merge([]rect{{99.9, 0, 100, 100}, {0, 99.9, 100, 100}}, 100, 100, 0.7) {
		assert.LessOrEqual(t, s.x1, 100.)
		assert.LessOrEqual(t, s.y1, 100.)
	}
}

// Without merging, what is drawn of a trace are its lifetimes.
func TestRectanglesAreLifetimes(t *testing.T) {
	const base = 1 << 20
	h := (&Trace{Arena: Arena{Base: base, Total: 1 << 30}, Events: []Event{
		{Seq: 1, NS: 10, Kind: Mapped, Address: base, Size: 100},
		{Seq: 2, NS: 15, Kind: Prefetched, Address: base + 100, Size: 100},
		{Seq: 3, NS: 16, Kind: Prefetched, Address: base + 200, Size: 100},
		{Seq: 4, NS: 20, Kind: Malloc, Address: base + 10, Size: 50},
		{Seq: 5, NS: 30, Kind: Malloc, Address: base + 110, Size: 40},
		{Seq: 6, NS: 40, Kind: Free, Address: base + 10, Size: 50},
		{Seq: 7, NS: 45, Kind: Unmapped, Address: base, Size: 100},
		{Seq: 8, NS: 60, Kind: Closed},
	}}).History()
	same := func(s Span, from, to uint64) rect {
		return rect{float64(s.Address - base), float64(from), float64(s.Address - base + s.Size), float64(to)}
	}
	layers := memoryMap{base, h}.layers(same)
	var found [][]rect
	for _, l := range layers {
		found = append(found, l.rects)
	}
	assert.Equal(t, [][]rect{
		{{0, 10, 100, 45}, {100, 30, 200, 60}}, // slabs, the second from its first use on
		{{100, 15, 200, 30}},                   // mapped ahead, until then
		{{200, 16, 300, 60}},                   // mapped ahead for nothing
		{{10, 20, 60, 40}},
		{{110, 30, 150, 60}},
	}, found)
}

func TestTexts(t *testing.T) {
	for bytes, expected := range map[float64]string{
		0: "0 bytes", 1: "1 bytes", 1023: "1023 bytes", 1024: "1 KiB", 1536: "1.5 KiB", 64 << 20: "64 MiB", 5 << 40: "5 TiB",
	} {
		assert.Equal(t, expected, sizeText(bytes))
	}
	assert.Equal(t, "closed; reset; failed: 1 KiB; 2 others", labelText([]string{"closed", "reset", "closed", "failed: 1 KiB", "a", "b"}))
}

func TestTicks(t *testing.T) {
	labels := func(s scale, low, high float64) (all []string) {
		for _, tick := range s.Ticks(low, high) {
			all = append(all, tick.Label)
		}
		return all
	}
	assert.Equal(t, []string{"0", "256", "512", "768"}, labels(scale{sizes[2], binary, 4}, 0, 900<<20))
	assert.Equal(t, []string{"0.5", "1", "1.5", "2"}, labels(scale{times[3], decimal, 4}, 0.3e9, 2.1e9))
}
