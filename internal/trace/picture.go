package trace

import (
	"bytes"
	"fmt"
	"image/color"
	"io"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The page, in points.
const (
	pageWidth, pageHeight = 960, 620
	margin                = 14
	headHeight            = 62
	heldWidth             = 150
	cachedWidth           = 84
	gap                   = 12
)

var (
	ink         = color.NRGBA{0x22, 0x22, 0x22, 0xff}
	faint       = color.NRGBA{0x66, 0x66, 0x66, 0xff}
	slabColor   = color.NRGBA{0xf3, 0xd0, 0x7a, 0xff} // mapped and holding nothing: the holes
	edgeColor   = color.NRGBA{0xb5, 0x86, 0x1f, 0xff}
	aheadColor  = color.NRGBA{0xa8, 0xdd, 0xb5, 0xff}
	unusedColor = color.NRGBA{0x4f, 0xae, 0x7c, 0xff}
	liveColors  = [2]color.NRGBA{{0x1f, 0x5f, 0xa8, 0xff}, {0x3f, 0x82, 0xcc, 0xff}} // in turn, to tell neighbours apart
	cachedColor = color.NRGBA{0x8a, 0x63, 0xb8, 0xff}
	failedColor = color.NRGBA{0xd0, 0x1c, 0x1c, 0xff}
)

// WriteSVG writes a picture of the memory that a trace tells of: addresses across, time down.
func WriteSVG(w io.Writer, t *Trace) error {
	h := t.History()
	c := vgsvg.New(pageWidth, pageHeight)
	page := draw.New(c)
	page.SetColor(color.White)
	page.Fill(page.Path())
	drawHead(draw.Crop(page, margin, -margin, pageHeight-headHeight-margin, -margin), t, h)
	drawPanels(draw.Crop(page, margin, -margin, margin, -headHeight-margin), t, h)
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return fmt.Errorf("the picture: %w", err)
	}
	_, err := w.Write(withFonts(b.Bytes()))
	return err
}

// withFonts names fonts of the same widths for those who lack the one that the library measured with.
func withFonts(svg []byte) []byte {
	return bytes.ReplaceAll(svg, []byte("font-family:Liberation Sans;"),
		[]byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;"))
}

func textStyle(size vg.Length, c color.Color) text.Style {
	return text.Style{
		Color: c, Font: font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size), Handler: plot.DefaultTextHandler,
	}
}

func bold(s text.Style) text.Style {
	s.Font.Weight = xfont.WeightBold
	return s
}

func drawHead(c draw.Canvas, t *Trace, h *History) {
	c.FillText(bold(textStyle(14, ink)), vg.Point{X: c.Min.X, Y: c.Max.Y - 13}, title(t, h))
	c.FillText(textStyle(10, faint), vg.Point{X: c.Min.X, Y: c.Max.Y - 30}, subtitle(t, h))
	drawLegend(c, c.Max.Y-52)
}

func title(t *Trace, h *History) string {
	return fmt.Sprintf("Memory of device %d: %s, peak mapped %s, peak live %s, peak cached %s; %s missed", t.Arena.Device,
		count(uint64(h.Handles), "handle"), sizeText(float64(h.Peak.Mapped)), sizeText(float64(h.Peak.Live)),
		sizeText(float64(h.Peak.Cached)), count(t.Missed, "event"))
}

func subtitle(t *Trace, h *History) string {
	var unused, failed uint64
	for _, m := range h.Mappings {
		if m.Ahead && !m.Used {
			unused++
		}
	}
	for _, m := range h.Marks {
		if m.Kind == Failed {
			failed++
		}
	}
	return fmt.Sprintf("%s in the picture, %d failed; %s mapped ahead and never used; %s",
		count(uint64(len(h.Allocations)), "allocation"), failed, count(unused, "handle"), count(uint64(len(t.Events)), "event"))
}

// drawLegend names the colours in a row.
func drawLegend(c draw.Canvas, y vg.Length) {
	style := textStyle(10, ink)
	x := c.Min.X
	for _, entry := range []struct {
		name   string
		colors []color.NRGBA
	}{
		{"allocated", liveColors[:]},
		{"mapped, free inside (a hole)", []color.NRGBA{slabColor}},
		{"mapped ahead, not used yet", []color.NRGBA{aheadColor}},
		{"mapped ahead, never used", []color.NRGBA{unusedColor}},
		{"cached: unmapped and kept", []color.NRGBA{cachedColor}},
		{"failed, or out of memory", []color.NRGBA{failedColor}},
	} {
		const side = 9
		for _, col := range entry.colors {
			fill(c, col, vg.Rectangle{Min: vg.Point{X: x, Y: y}, Max: vg.Point{X: x + side, Y: y + side}})
			x += side
		}
		c.FillText(style, vg.Point{X: x + 4, Y: y + 1}, entry.name)
		x += 4 + style.Width(entry.name) + 16
	}
}

func fill(c draw.Canvas, col color.Color, r vg.Rectangle) {
	c.SetColor(col)
	c.Fill(r.Path())
}

// drawPanels draws the map, and beside it how much was held and cached, on one scale of time.
func drawPanels(c draw.Canvas, t *Trace, h *History) {
	side := vg.Length(heldWidth + cachedWidth + gap)
	panels := []struct {
		plot   *plot.Plot
		canvas draw.Canvas
	}{
		{mapPlot(t, h), draw.Crop(c, 0, -side-gap, 0, 0)},
		{heldPlot(h), draw.Crop(c, c.Size().X-side, -cachedWidth-gap, 0, 0)},
		{cachedPlot(h), draw.Crop(c, c.Size().X-cachedWidth, 0, 0, 0)},
	}
	top := panels[0].plot.DataCanvas(panels[0].canvas)
	for _, p := range panels {
		here := p.plot.DataCanvas(p.canvas)
		p.canvas.Min.Y += top.Min.Y - here.Min.Y
		p.canvas.Max.Y += top.Max.Y - here.Max.Y
		p.plot.Draw(p.canvas)
	}
}

// newPlot has time downwards, from the beginning to the end of a history.
func newPlot(h *History) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font = textStyle(10, ink).Font
		axis.Label.TextStyle.Color = ink
		axis.Tick.Label.Font = textStyle(9, ink).Font
		axis.Tick.Label.Color = ink
		axis.Tick.Color, axis.Color = faint, faint
		axis.Padding = 0
	}
	p.Y.Scale = plot.InvertedScale{Normalizer: plot.LinearScale{}}
	p.Y.Min, p.Y.Max = float64(h.From), h.end()
	u := unitOf(times, p.Y.Max)
	p.Y.Tick.Marker = scale{unit: u, steps: decimal, most: 12}
	p.Y.Label.Text = "time since the arena was made, " + u.name
	return p
}

// end is where the axis of time ends, which must not be where it begins.
func (h *History) end() float64 { return max(float64(h.To), float64(h.From)+1) }

func setBytes(axis *plot.Axis, low, high, steps float64, what string) {
	u := unitOf(sizes, high)
	axis.Min, axis.Max = low, high
	axis.Tick.Marker = scale{unit: u, steps: binary, most: steps}
	axis.Label.Text = what + ", " + u.name
}

func mapPlot(t *Trace, h *History) *plot.Plot {
	p := newPlot(h)
	low, high := h.addresses(t.Arena)
	setBytes(&p.X, float64(low), float64(high), 10, "offset from the arena's base")
	p.Add(memoryMap{t.Arena.Base, h})
	return p
}

// addresses are the offsets between which something was mapped or allocated.
func (h *History) addresses(a Arena) (low, high uint64) {
	low = a.Total
	see := func(s Span) {
		low, high = min(low, s.Address-a.Base), max(high, s.Address-a.Base+s.Size)
	}
	for _, m := range h.Mappings {
		see(m.Span)
	}
	for _, s := range h.Allocations {
		see(s)
	}
	if high <= low { // nothing, or nothing of any size
		return 0, max(a.Granule, 1)
	}
	return low, high
}

func heldPlot(h *History) *plot.Plot {
	p := sidePlot(h)
	setBytes(&p.X, 0, max(1, float64(max(h.Peak.Mapped, h.Peak.Live))), 4, "mapped, allocated")
	p.Add(
		area{h, slabColor, func(s Sample) int64 { return s.Mapped }},
		area{h, liveColors[0], func(s Sample) int64 { return s.Live }},
	)
	return p
}

func cachedPlot(h *History) *plot.Plot {
	p := sidePlot(h)
	setBytes(&p.X, 0, max(1, float64(h.Peak.Cached)), 2, "cached")
	if h.Peak.Cached == 0 {
		p.X.Label.Text = "cached: none"
		p.X.Tick.Marker = scale{unit: sizes[0], steps: func(float64) float64 { return 2 }, most: 1}
	}
	p.Add(area{h, cachedColor, func(s Sample) int64 { return s.Cached }})
	return p
}

// sidePlot leaves the labels of time to the map.
func sidePlot(h *History) *plot.Plot {
	p := newPlot(h)
	p.Y.Tick.Marker = plot.ConstantTicks{}
	p.Y.Tick.Length = 0
	p.Y.Label.Text = ""
	return p
}
