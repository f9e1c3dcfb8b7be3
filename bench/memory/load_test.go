package main

import (
	"bytes"
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPatternsKeepTheirWord(t *testing.T) {
	const addresses = 128 << 40
	for name, size := range patterns {
		for _, granule := range []int64{4 << 10, 2 << 20} {
			t.Run(name+"/"+strconv.FormatInt(granule, 10), func(t *testing.T) {
				l := load{n: 1_000_000, granule: granule, size: size}
				assert.Less(t, l.reserved(), int64(addresses))
				least, most := gib, int64(0)
				for i := range l.n {
					least, most = min(least, size(granule, i)), max(most, size(granule, i))
				}
				assert.Positive(t, least)
				assert.LessOrEqual(t, most, gib)
			})
		}
	}
}

func TestMeasurements(t *testing.T) {
	for _, test := range []struct{ what, key string }{
		{"pairs", "pairs"},
		{"live", "live"},
		{"close", "live"},
	} {
		t.Run(test.what, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, run([]string{"-measure", test.what, "-n", "1000"}, &out))
			var result map[string]any
			require.NoError(t, json.Unmarshal(out.Bytes(), &result))
			assert.EqualValues(t, 1000, result[test.key])
		})
	}
}

func TestWrongUsage(t *testing.T) {
	for name, args := range map[string][]string{
		"what":   {"-measure", "nothing"},
		"sizes":  {"-measure", "pairs", "-sizes", "nothing"},
		"number": {"-measure", "pairs", "-n", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Error(t, run(args, new(bytes.Buffer)))
		})
	}
}
