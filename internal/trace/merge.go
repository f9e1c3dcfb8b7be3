package trace

import "math"

// A rect is a rectangle on the page, with y down.
type rect struct{ x0, y0, x1, y1 float64 }

// full is the level of a rectangle that is covered all over.
const full = 8

// A shade is a rectangle of which level parts in full are covered.
type shade struct {
	rect
	level int
}

// merge keeps rectangles that are at least a step wide and high. The smaller ones are added up in square cells of a
// step, and cells that are covered alike become one rectangle: as many small allocations look from afar. All lie
// between zero and the width and height.
func merge(rects []rect, width, height, step float64) []shade {
	var shades []shade
	var cells *grid
	for _, r := range rects {
		switch {
		case r.x1 <= r.x0 || r.y1 <= r.y0:
		case r.x1-r.x0 >= step && r.y1-r.y0 >= step:
			shades = append(shades, shade{r, full})
		default:
			if cells == nil {
				cells = newGrid(width, height, step)
			}
			cells.add(r)
		}
	}
	if cells == nil {
		return shades
	}
	return append(shades, cells.shades(width, height)...)
}

// A grid adds up how much of each cell is covered. A long run of cells costs two entries: where it begins to be
// covered, and where it ends.
type grid struct {
	step        float64
	cols, rows  int
	cell        []float64 // covered of this cell alone
	down, right []float64 // by how much more is covered from this cell on, downwards and to the right
}

func newGrid(width, height, step float64) *grid {
	g := &grid{step: step, cols: int(width/step) + 2, rows: int(height/step) + 2}
	n := g.cols * g.rows
	g.cell, g.down, g.right = make([]float64, n), make([]float64, n), make([]float64, n)
	return g
}

// add takes a rectangle that is narrower or lower than a cell, so that it touches two columns or two rows at most.
func (g *grid) add(r rect) {
	r = rect{r.x0 / g.step, r.y0 / g.step, r.x1 / g.step, r.y1 / g.step}
	if r.x1-r.x0 < 1 {
		for c := int(r.x0); c <= int(r.x1); c++ {
			g.run(g.down, c, g.cols, r.y0, r.y1, overlap(c, r.x0, r.x1))
		}
		return
	}
	for row := int(r.y0); row <= int(r.y1); row++ {
		g.run(g.right, row*g.cols, 1, r.x0, r.x1, overlap(row, r.y0, r.y1))
	}
}

// overlap is how much of cell i lies between two places.
func overlap(i int, from, to float64) float64 {
	return max(0, min(to, float64(i+1))-max(from, float64(i)))
}

// run covers a share of the cells between two places, which lie a stride apart.
func (g *grid) run(slope []float64, first, stride int, from, to, share float64) {
	i, j := int(from), int(to)
	if i == j {
		g.cell[first+i*stride] += share * (to - from)
		return
	}
	g.cell[first+i*stride] += share * (float64(i+1) - from)
	g.cell[first+j*stride] += share * (to - float64(j))
	slope[first+(i+1)*stride] += share
	slope[first+j*stride] -= share
}

// shades are the covered cells, joined downwards, and then with what is alike in the column to the left.
func (g *grid) shades(width, height float64) []shade {
	g.sum()
	var shades []shade
	left := map[[3]int]int{} // from the rows and level of a run to its place in shades
	for c := range g.cols {
		here := map[[3]int]int{}
		for _, run := range g.runs(c) {
			i, joined := left[run]
			if !joined {
				i = len(shades)
				shades = append(shades, shade{rect{x0: float64(c) * g.step, y0: float64(run[0]) * g.step}, run[2]})
			}
			shades[i].x1, shades[i].y1 = min(float64(c+1)*g.step, width), min(float64(run[1])*g.step, height)
			here[run] = i
		}
		left = here
	}
	return shades
}

// sum makes of the slopes what is covered of each cell.
func (g *grid) sum() {
	for i := range g.cell {
		if i >= g.cols {
			g.down[i] += g.down[i-g.cols]
		}
		if i%g.cols > 0 {
			g.right[i] += g.right[i-1]
		}
		g.cell[i] += g.down[i] + g.right[i]
	}
}

// runs are the runs of a column's cells with one level, as first row, the row after the last, and level.
func (g *grid) runs(c int) [][3]int {
	var runs [][3]int
	for row := range g.rows {
		l := level(g.cell[row*g.cols+c])
		if n := len(runs); n > 0 && runs[n-1][1] == row && runs[n-1][2] == l {
			runs[n-1][1]++
		} else if l > 0 {
			runs = append(runs, [3]int{row, row + 1, l})
		}
	}
	return runs
}

// level is never zero where there is something. What is less than this is left over from adding and taking away.
func level(covered float64) int {
	const nothing = 1e-9
	if covered < nothing {
		return 0
	}
	return int(min(full, max(1, math.Round(covered*full))))
}
