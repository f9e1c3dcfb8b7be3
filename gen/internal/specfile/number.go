package specfile

import (
	"errors"
	"math/bits"
	"strconv"
	"strings"
)

// units are the suffixes of a size, each a power of two.
var units = []struct {
	suffix string
	shift  int
}{
	{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}, {"PiB", 50}, {"EiB", 60},
}

var errWide = errors.New("it does not fit into 64 bits")

// ParseSize reads a number of bytes: a plain number such as 65536 or 0x10000, or
// one with a unit, such as 64KiB, 2MiB or 4TiB. An error says what is wrong with
// the text, and does not repeat it.
func ParseSize(text string) (uint64, error) {
	digits, shift := text, 0
	for _, u := range units {
		if rest, found := strings.CutSuffix(text, u.suffix); found {
			digits, shift = rest, u.shift
		}
	}
	n, err := parseUnsigned(digits)
	if err != nil {
		return 0, err
	}
	if bits.Len64(n)+shift > 64 {
		return 0, errWide
	}
	return n << shift, nil
}

// ParseInteger reads what ParseSize reads, with a sign.
func ParseInteger(text string) (int64, error) {
	digits, negative := strings.CutPrefix(text, "-")
	n, err := ParseSize(digits)
	switch {
	case err != nil:
		return 0, err
	case negative && n <= 1<<63:
		return -int64(n), nil
	case !negative && n < 1<<63:
		return int64(n), nil
	default:
		return 0, errWide
	}
}

// parseUnsigned reads decimal digits, or hexadecimal ones after 0x. Other forms
// that YAML knows are refused, since its versions read some of them differently.
func parseUnsigned(text string) (uint64, error) {
	digits, base := text, 10
	if rest, found := strings.CutPrefix(text, "0x"); found {
		digits, base = rest, 16
	}
	n, err := strconv.ParseUint(digits, base, 64)
	switch {
	case err == nil && base == 10 && len(digits) > 1 && digits[0] == '0':
		return 0, errors.New("it has a leading zero")
	case err == nil:
		return n, nil
	case errors.Is(err, strconv.ErrRange):
		return 0, errWide
	default:
		return 0, errors.New("it is not written in decimal or hexadecimal digits")
	}
}
