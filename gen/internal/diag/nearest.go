package diag

import (
	"fmt"
	"slices"
	"strings"
)

// How many names a message lists, and how many are compared for it.
const (
	maxListed   = 32
	maxCompared = 256
)

// Nearest returns the candidate that name is most likely a slip of, the first of
// equals, or "" when none is near or there are too many to compare.
func Nearest(name string, candidates []string) string {
	if len(candidates) > maxCompared {
		return ""
	}
	nearest, best := "", min(max(1, len(name)/3), len(name)-1)+1
	for _, c := range candidates {
		if d := distance(name, c, best); d < best {
			nearest, best = c, d
		}
	}
	return nearest
}

// DidYouMean is the end of a message about a name that is none of the
// candidates: a question when one of them is near, else nothing.
func DidYouMean(name string, candidates []string) string {
	if nearest := Nearest(name, candidates); nearest != "" {
		return fmt.Sprintf("; did you mean %q?", nearest)
	}
	return ""
}

// Expected is the end of a message about a name that is none of the candidates:
// the nearest of them, or all when none is near.
func Expected(name string, candidates []string) string {
	hint := DidYouMean(name, candidates)
	switch {
	case hint != "":
		return hint
	case len(candidates) == 0:
		return ", expected none"
	case len(candidates) > maxListed:
		return fmt.Sprintf(", expected one of %d others", len(candidates))
	default:
		return ", expected one of " + strings.Join(candidates, ", ")
	}
}

// distance counts the letters to add, drop, change or swap with their neighbour
// that turn a into b. Where they are limit or more, it may answer limit.
func distance(a, b string, limit int) int {
	if max(len(a), len(b))-min(len(a), len(b)) >= limit {
		return limit
	}
	before, previous, current := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range current {
		current[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, previous, current = previous, current, before
		current[0] = i
		for j := 1; j <= len(b); j++ {
			change := previous[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			current[j] = min(change, previous[j]+1, current[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		if slices.Min(current) >= limit {
			return limit
		}
	}
	return current[len(b)]
}
