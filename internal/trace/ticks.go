package trace

import (
	"fmt"
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// A unit is how a scale is told.
type unit struct {
	name string
	size float64
}

var (
	sizes = []unit{{"bytes", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}}
	times = []unit{{"ns", 1}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}}
)

// unitOf is the largest unit of which there are two at least.
func unitOf(units []unit, most float64) unit {
	u := units[0]
	for _, next := range units {
		if most >= 2*next.size {
			u = next
		}
	}
	return u
}

// sizeText is a size for a sentence. Sizes below zero do not occur in what an arena wrote.
func sizeText(bytes float64) string {
	u := sizes[0]
	for _, next := range sizes {
		if bytes >= next.size {
			u = next
		}
	}
	return strconv.FormatFloat(math.Round(bytes/u.size*100)/100, 'f', -1, 64) + " " + u.name
}

// A scale marks an axis in a unit, at steps that are round in it.
type scale struct {
	unit  unit
	steps func(least float64) float64 // the next round step
	most  float64                     // how many steps there is room for
}

// Ticks implements plot.Ticker.
func (s scale) Ticks(low, high float64) []plot.Tick {
	step := s.steps((high-low)/s.most/s.unit.size) * s.unit.size
	var ticks []plot.Tick
	for at := math.Ceil(low/step) * step; at <= high+step*1e-9 && len(ticks) < 100; at += step {
		ticks = append(ticks, plot.Tick{Value: at, Label: strconv.FormatFloat(at/s.unit.size, 'f', -1, 64)})
	}
	return ticks
}

// binary is the power of two from which on there is room, decimal the 1, 2 or 5 times a power of ten.
func binary(least float64) float64 { return math.Exp2(math.Ceil(math.Log2(least))) }

func decimal(least float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, n := range []float64{1, 2, 5} {
		if n*power >= least {
			return n * power
		}
	}
	return 10 * power
}

func count(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
