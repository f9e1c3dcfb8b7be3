package options

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// A Range is what a number may be. A Max of 0 is no bound.
type Range struct {
	Min, Max uint64
}

func (r Range) holds(number uint64) bool {
	return r.Min <= number && (r.Max == 0 || number <= r.Max)
}

// within is " from 1 to 64", for a message, with the numbers as text.
func (r Range) within(text func(uint64) string) string {
	switch {
	case r.Min == 0 && r.Max == 0:
		return ""
	case r.Max == 0:
		return " of at least " + text(r.Min)
	default:
		return fmt.Sprintf(" from %s to %s", text(r.Min), text(r.Max))
	}
}

// Enum is an option whose value is one of a few words, which stand for 0, 1 and so on.
func Enum[E ~uint8](name string, value *E, words ...string) Option {
	return Option{
		name:     name,
		expected: "one of " + strings.Join(words, ", "),
		parse: func(text string) (uint64, bool) {
			i := slices.Index(words, text)
			return uint64(i), i >= 0
		},
		accepts: func(number uint64) bool { return number < uint64(len(words)) },
		get:     func() uint64 { return uint64(*value) },
		set:     func(number uint64) { *value = E(number) },
	}
}

// Uint is an option whose value is a decimal number.
func Uint(name string, value *uint64, r Range) Option {
	return number(name, value, r, "a number"+r.within(decimal), parseDecimal)
}

// Bytes is an option whose value is a number of bytes: 65536 or, with a unit, 64KiB, 2MiB, 4TiB.
func Bytes(name string, value *uint64, r Range) Option {
	return number(name, value, r, "a size such as 64KiB"+r.within(inUnits), parseBytes)
}

func number(name string, value *uint64, r Range, expected string, parse func(string) (uint64, bool)) Option {
	return Option{
		name:     name,
		expected: expected,
		parse:    parse,
		accepts:  r.holds,
		get:      func() uint64 { return *value },
		set:      func(number uint64) { *value = number },
	}
}

func decimal(number uint64) string { return strconv.FormatUint(number, 10) }

func parseDecimal(text string) (uint64, bool) {
	number, err := strconv.ParseUint(text, 10, 64)
	return number, err == nil
}

// units are the units of bytes. Each is 1024 times the one before; the first is 1 KiB.
var units = []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

func parseBytes(text string) (uint64, bool) {
	shift := 0
	for i, unit := range units {
		if digits, found := strings.CutSuffix(text, unit); found {
			text, shift = digits, 10*(i+1)
			break
		}
	}
	number, ok := parseDecimal(text)
	return number << shift, ok && bits.Len64(number)+shift <= 64
}

// inUnits writes a number of bytes in the largest unit that it is whole in.
func inUnits(number uint64) string {
	unit := min(bits.TrailingZeros64(number)/10, len(units))
	if number == 0 || unit == 0 {
		return decimal(number)
	}
	return decimal(number>>(10*unit)) + units[unit-1]
}
