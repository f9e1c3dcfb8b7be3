package options

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "", 3},
		{"same", "same", 0},
		{"granule", "granules", 1},
		{"granule", "grnule", 1},
		{"granule", "granula", 1},
		{"kitten", "sitting", 3},
		{"abc", "xyz", 3},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, distance(tt.a, tt.b), "%s to %s", tt.a, tt.b)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"mode", "devices", "granule", "min_granule"}
	assert.Equal(t, "mode", nearest("mod", known))
	assert.Equal(t, "granule", nearest("granul", known))
	assert.Equal(t, "min_granule", nearest("mingranule", known))
	assert.Empty(t, nearest("colour", known))
	assert.Empty(t, nearest("colour", nil))
	assert.Equal(t, "ab", nearest("ax", []string{"ab", "ac"}), "the first of equals")
}

func TestInUnits(t *testing.T) {
	tests := map[uint64]string{
		0: "0", 1: "1", 1023: "1023", 1 << 10: "1KiB", 1025: "1025", 64 << 10: "64KiB",
		3 << 20: "3MiB", 1536 << 10: "1536KiB", 4 << 40: "4TiB", 1 << 63: "8EiB",
	}
	for number, want := range tests {
		assert.Equal(t, want, inUnits(number))
		back, ok := parseBytes(want)
		assert.True(t, ok)
		assert.Equal(t, number, back)
	}
}
