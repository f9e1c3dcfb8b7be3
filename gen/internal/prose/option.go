package prose

import (
	"fmt"
	"strings"

	"github.com/arenagen/arenagen/gen/internal/ir"
)

// Amount is a value of an option that is a number, with a unit where it is a size.
func Amount(o *ir.Option, n uint64) string {
	if o.Type == "bytes" {
		return Bytes(n)
	}
	return fmt.Sprint(n)
}

// Pairs shows how options are written as a text, by the defaults of the first two: mode=host,devices=1.
func Pairs(options []*ir.Option) string {
	var pairs []string
	for _, o := range options[:min(2, len(options))] {
		pairs = append(pairs, o.Name+"="+o.DefaultText)
	}
	return strings.Join(pairs, ",")
}
