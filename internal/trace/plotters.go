package trace

import (
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	pixel    = 0.75   // in points, at the size that the picture has
	smallest = 1. / 3 // pixels; what is narrower is merged
	most     = 20000  // rectangles
)

// A memoryMap draws what was mapped and allocated: a plot.Plotter.
type memoryMap struct {
	base uint64
	h    *History
}

// A layer is what has one colour. Later ones lie over earlier ones.
type layer struct {
	color color.NRGBA
	rects []rect
}

// firstLive is the first layer of allocations, which lie over all that is mapped.
const firstLive = 3

// Plot implements plot.Plotter.
func (m memoryMap) Plot(c draw.Canvas, p *plot.Plot) {
	size := c.Size()
	place := func(s Span, from, to uint64) rect {
		x := func(address uint64) float64 { return p.X.Norm(float64(address-m.base)) * float64(size.X) }
		y := func(ns uint64) float64 { return (1 - p.Y.Norm(float64(ns))) * float64(size.Y) }
		return rect{x(s.Address), y(from), x(s.Address + s.Size), y(to)}
	}
	layers := m.layers(place)
	for i, shades := range mergeLayers(layers, float64(size.X), float64(size.Y)) {
		if i == firstLive {
			m.drawEdges(c, place)
		}
		drawShades(c, layers[i].color, shades)
	}
	drawFrame(c)
	m.drawMarks(c, p)
}

// layers are the mappings by what they were for, and the allocations.
func (m memoryMap) layers(place func(s Span, from, to uint64) rect) []layer {
	slab, ahead, unused := layer{color: slabColor}, layer{color: aheadColor}, layer{color: unusedColor}
	live := [2]layer{{color: liveColors[0]}, {color: liveColors[1]}}
	for _, p := range m.h.Mappings {
		switch {
		case !p.Ahead:
			slab.rects = append(slab.rects, place(p.Span, p.From, p.To))
		case p.Used:
			ahead.rects = append(ahead.rects, place(p.Span, p.From, p.FirstUse))
			slab.rects = append(slab.rects, place(p.Span, p.FirstUse, p.To))
		default:
			unused.rects = append(unused.rects, place(p.Span, p.From, p.To))
		}
	}
	for i, a := range m.h.Allocations {
		r := place(a, a.From, a.To)
		l := &live[i%2]
		if r.x1-r.x0 < pixel { // too narrow to be told apart, and to be merged with all its neighbours
			l = &live[0]
		}
		l.rects = append(l.rects, r)
	}
	return []layer{slab, ahead, unused, live[0], live[1]}
}

// mergeLayers merges as much as it takes to have few enough rectangles.
func mergeLayers(layers []layer, width, height float64) [][]shade {
	for step := smallest * pixel; ; step *= 1.5 {
		merged, n := make([][]shade, len(layers)), 0
		for i, l := range layers {
			merged[i] = merge(l.rects, width, height, step)
			n += len(merged[i])
		}
		if n <= most {
			return merged
		}
	}
}

// drawShades draws a path for each level, which makes a file a tenth of what a path for each rectangle would.
func drawShades(c draw.Canvas, col color.NRGBA, shades []shade) {
	var paths [full + 1]vg.Path
	for _, s := range shades {
		paths[s.level] = append(paths[s.level], onPage(c, s.rect).Path()...)
	}
	for level, path := range paths {
		if len(path) > 0 {
			col.A = uint8(0xff * level / full)
			c.SetColor(col)
			c.Fill(path)
		}
	}
}

func onPage(c draw.Canvas, r rect) vg.Rectangle {
	return vg.Rectangle{
		Min: vg.Point{X: c.Min.X + vg.Length(r.x0), Y: c.Max.Y - vg.Length(r.y1)},
		Max: vg.Point{X: c.Min.X + vg.Length(r.x1), Y: c.Max.Y - vg.Length(r.y0)},
	}
}

// drawEdges outlines handles where there is room, as neighbours would look like one.
func (m memoryMap) drawEdges(c draw.Canvas, place func(s Span, from, to uint64) rect) {
	const room = 4 * pixel
	var path vg.Path
	for _, p := range m.h.Mappings {
		if r := place(p.Span, p.From, p.To); r.x1-r.x0 >= room && r.y1-r.y0 >= room {
			path = append(path, onPage(c, r).Path()...)
		}
	}
	if len(path) > 0 {
		c.SetLineStyle(draw.LineStyle{Color: edgeColor, Width: 0.4})
		c.Stroke(path)
	}
}

func drawFrame(c draw.Canvas) {
	c.SetLineStyle(draw.LineStyle{Color: faint, Width: 0.5})
	c.Stroke(c.Path())
}

// A label is what is written of marks that lie so close that they share a line.
type label struct {
	y     vg.Length
	texts []string
	color color.Color
}

// drawMarks draws a line across for each moment with a mark, and says what it was.
func (m memoryMap) drawMarks(c draw.Canvas, p *plot.Plot) {
	const lineHeight = 11
	_, y := p.Transforms(&c)
	var labels []label
	last := vg.Length(-1)
	for _, mark := range m.h.Marks {
		at := y(float64(mark.NS))
		col := markColor(mark)
		if last < 0 || last-at >= smallest*pixel {
			c.StrokeLine2(draw.LineStyle{Color: col, Width: 0.8, Dashes: []vg.Length{4, 2}}, c.Min.X, at, c.Max.X, at)
			last = at
		}
		m.drawPlace(c, p, mark, at)
		if n := len(labels); n > 0 && labels[n-1].y-at < lineHeight {
			labels[n-1].texts = append(labels[n-1].texts, markText(mark))
			continue
		}
		labels = append(labels, label{at, []string{markText(mark)}, col})
	}
	for _, l := range labels {
		drawLabel(c, l)
	}
}

// drawPlace draws where an allocation failed, which loses its addresses, as far as that is on the map.
func (m memoryMap) drawPlace(c draw.Canvas, p *plot.Plot, mark Event, y vg.Length) {
	if mark.Kind != Failed || mark.Address < m.base {
		return
	}
	x, _ := p.Transforms(&c)
	from, to := x(float64(mark.Address-m.base)), x(float64(mark.Address-m.base)+float64(mark.Size))
	from, to = max(from, c.Min.X), min(to, c.Max.X)
	if from < to {
		c.StrokeLine2(draw.LineStyle{Color: failedColor, Width: 3}, from, y, to, y)
	}
}

func markColor(e Event) color.Color {
	if e.Kind == Failed || e.Kind == OutOfMemory {
		return failedColor
	}
	return ink
}

func markText(e Event) string {
	switch e.Kind {
	case Failed:
		return "failed: " + sizeText(float64(e.Size))
	case OutOfMemory:
		return "the driver was out of memory"
	}
	return e.Kind
}

// drawLabel writes on white at the right end of a line, below it where it would leave the map.
func drawLabel(c draw.Canvas, l label) {
	style := textStyle(9, l.color)
	text := labelText(l.texts)
	width := style.Width(text)
	y := min(max(l.y+2, c.Min.Y+2), c.Max.Y-10)
	fill(c, color.NRGBA{0xff, 0xff, 0xff, 0xe0}, vg.Rectangle{
		Min: vg.Point{X: c.Max.X - width - 6, Y: y - 2}, Max: vg.Point{X: c.Max.X - 1, Y: y + 8},
	})
	c.FillText(style, vg.Point{X: c.Max.X - width - 3, Y: y}, text)
}

// labelText tells each text once, and of many only that there are more.
func labelText(texts []string) string {
	const told = 3
	var different []string
	for _, s := range texts {
		if !slices.Contains(different, s) {
			different = append(different, s)
		}
	}
	if n := len(different); n > told {
		different = append(different[:told], count(uint64(n-told), "other"))
	}
	return strings.Join(different, "; ")
}

// An area draws an amount over time, from the left: a plot.Plotter.
type area struct {
	h      *History
	color  color.Color
	amount func(Sample) int64
}

// Plot implements plot.Plotter.
func (a area) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var path vg.Path
	path.Move(vg.Point{X: c.Min.X, Y: c.Max.Y})
	at := c.Max.Y
	for _, s := range a.steps(x, y) {
		path.Line(vg.Point{X: s.X, Y: at})
		path.Line(s)
		at = s.Y
	}
	path.Line(vg.Point{X: c.Min.X, Y: at})
	path.Close()
	c.SetColor(a.color)
	c.Fill(path)
	drawFrame(c)
}

// steps are the amounts and down to where each reaches. Of what lies within a fraction of a pixel the most is kept.
func (a area) steps(x, y func(float64) vg.Length) []vg.Point {
	var steps []vg.Point
	top := y(float64(a.h.From))
	for i, s := range a.h.Samples {
		end := a.h.end()
		if i+1 < len(a.h.Samples) {
			end = float64(a.h.Samples[i+1].NS)
		}
		amount, bottom := x(float64(max(0, a.amount(s)))), y(end)
		n := len(steps)
		if n > 0 && steps[n-1].Y-bottom < smallest*pixel && top-steps[n-1].Y < smallest*pixel {
			steps[n-1] = vg.Point{X: max(steps[n-1].X, amount), Y: bottom}
			continue
		}
		if n > 0 {
			top = steps[n-1].Y
		}
		steps = append(steps, vg.Point{X: amount, Y: bottom})
	}
	return steps
}
