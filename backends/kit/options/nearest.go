package options

import "slices"

// nearest is the known name that a name is most likely a slip of, the first of
// equals, or "" when none is near.
func nearest(name string, known []string) string {
	found, best := "", len(name)/3+1
	for _, candidate := range known {
		if d := distance(name, candidate); d <= best && (d < best || found == "") {
			found, best = candidate, d
		}
	}
	return found
}

// distance counts the letters to add, drop or change that turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // row[j] is the distance of a[:i] to b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0]++
		for j := range len(b) {
			change := corner
			if a[i] != b[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = slices.Min([]int{change, row[j] + 1, corner + 1})
		}
	}
	return row[len(b)]
}
