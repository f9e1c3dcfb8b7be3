package specfile_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/gen/internal/specfile"
)

func TestParseSize(t *testing.T) {
	tests := []struct {
		text string
		want uint64
	}{
		{"0", 0},
		{"65536", 65536},
		{"0x10", 16},
		{"0xffffffffffffffff", math.MaxUint64},
		{"18446744073709551615", math.MaxUint64},
		{"64KiB", 64 << 10},
		{"2MiB", 2 << 20},
		{"1GiB", 1 << 30},
		{"4TiB", 4 << 40},
		{"1PiB", 1 << 50},
		{"15EiB", 15 << 60},
		{"0EiB", 0},
		{"16777215TiB", 16777215 << 40},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, err := specfile.ParseSize(tt.text)
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestParseInteger(t *testing.T) {
	tests := []struct {
		text string
		want int64
	}{
		{"0", 0},
		{"-0", 0},
		{"-1", -1},
		{"9223372036854775807", math.MaxInt64},
		{"-9223372036854775808", math.MinInt64},
		{"-8EiB", math.MinInt64},
		{"-0x10", -16},
		{"4TiB", 4 << 40},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, err := specfile.ParseInteger(tt.text)
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestNumbersThatAreNone(t *testing.T) {
	const (
		wide   = "it does not fit into 64 bits"
		zero   = "it has a leading zero"
		digits = "it is not written in decimal or hexadecimal digits"
	)
	tests := []struct {
		text    string
		size    string // "" where it is one
		integer string
	}{
		{"", digits, digits},
		{"-", digits, digits},
		{"--1", digits, digits},
		{"-1", digits, ""},
		{"+1", digits, digits},
		{" 1", digits, digits},
		{"1 KiB", digits, digits},
		{"1_000", digits, digits},
		{"1.5", digits, digits},
		{"1e3", digits, digits},
		{"0x", digits, digits},
		{"0x-1", digits, digits},
		{"0o10", digits, digits},
		{"0b1", digits, digits},
		{"KiB", digits, digits},
		{"1KB", digits, digits},
		{"1kib", digits, digits},
		{"1KiBMiB", digits, digits},
		{"٣", digits, digits},
		{"010", zero, zero},
		{"00", zero, zero},
		{"01KiB", zero, zero},
		{"18446744073709551616", wide, wide},
		{"16EiB", wide, wide},
		{"16777216TiB", wide, wide},
		{"9223372036854775808", "", wide},
		{"8EiB", "", wide},
		{"-9223372036854775809", digits, wide},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			_, err := specfile.ParseSize(tt.text)
			assertError(t, tt.size, err)
			_, err = specfile.ParseInteger(tt.text)
			assertError(t, tt.integer, err)
		})
	}
}

// assertError compares an error's text, "" for none.
func assertError(t *testing.T, want string, err error) {
	t.Helper()
	if want == "" {
		assert.NoError(t, err)
	} else {
		assert.EqualError(t, err, want)
	}
}
