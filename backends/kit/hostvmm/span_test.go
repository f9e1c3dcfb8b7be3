package hostvmm

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSpansAround(t *testing.T) {
	s := spans[string]{{10, 5, "a"}, {15, 5, "b"}, {30, 5, "c"}}
	for _, tt := range []struct {
		start, size uint64
		want        string // "" is none
	}{
		{10, 5, "a"}, {10, 1, "a"}, {14, 1, "a"}, {12, 3, "a"}, {15, 5, "b"}, {34, 1, "c"},
		{9, 1, ""}, {9, 2, ""}, {10, 6, ""}, {14, 2, ""}, {20, 1, ""}, {29, 2, ""}, {34, 2, ""}, {35, 1, ""},
	} {
		got, found := s.around(tt.start, tt.size)
		assert.Equal(t, tt.want, got.value, "%+v", tt)
		assert.Equal(t, tt.want != "", found, "%+v", tt)
	}
	_, found := spans[string]{}.around(0, 1)
	assert.False(t, found)
}
