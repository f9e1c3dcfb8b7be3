package prose

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/arenagen/arenagen/gen/internal/ir"
)

func TestAmount(t *testing.T) {
	assert.Equal(t, "64KiB", Amount(&ir.Option{Type: "bytes"}, 64<<10))
	assert.Equal(t, "65536", Amount(&ir.Option{Type: "uint"}, 64<<10))
}

func TestPairs(t *testing.T) {
	all := []*ir.Option{
		{Name: "mode", DefaultText: "host"},
		{Name: "granule", DefaultText: "2MiB"},
		{Name: "log", DefaultText: "0"},
	}
	assert.Equal(t, "mode=host,granule=2MiB", Pairs(all))
	assert.Equal(t, "mode=host", Pairs(all[:1]))
	assert.Empty(t, Pairs(nil))
}
