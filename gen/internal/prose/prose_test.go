package prose

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLine(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"plain":              {"The arena.", "The arena."},
		"several lines":      {" The\n\tarena\r\nis  \v open. ", "The arena is open."},
		"other line breaks":  {"a\u0085b\u2028c\u2029d", "a b c d"},
		"control characters": {"a\x00b\x1b[31mc\x7f", "a b [31mc"},
		"hidden characters":  {"a\u202eb\ufeffc\u200bd", "a b c d"},
		"not UTF-8":          {"a\xffb", "a b"},
		"other alphabets":    {"größer 大", "größer 大"},
		"empty":              {"", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, Line(tt.text))
		})
	}
}

func TestWrap(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"short":                 {"one two", []string{"one two"}},
		"exactly the width":     {"12345 7890", []string{"12345 7890"}},
		"one more":              {"12345 78901", []string{"12345", "78901"}},
		"a long word":           {"a 12345678901 b", []string{"a", "12345678901", "b"}},
		"characters, not bytes": {"äöüäö üäöü", []string{"äöüäö üäöü"}},
		"empty":                 {"", []string{""}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, Wrap(tt.text, 10))
		})
	}
}

func TestFirstSentence(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"one":              {"Releases it.", "Releases it."},
		"two":              {"Releases it. The\nrest.", "Releases it."},
		"a number follows": {"Names it. 0 is none.", "Names it."},
		"an abbreviation":  {"A size, e.g. 64KiB. More.", "A size, e.g. 64KiB."},
		"periods in words": {`The release, for example "0.1.0".`, `The release, for example "0.1.0".`},
		"without a period": {"As a descriptor", "As a descriptor"},
		"empty":            {"", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, FirstSentence(tt.text))
		})
	}
}

func TestInside(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"a word":    {"Releases it.", "releases it."},
		"an A":      {"A handle.", "a handle."},
		"capitals":  {"POSIX handles.", "POSIX handles."},
		"a digit":   {"80% is used.", "80% is used."},
		"empty":     {"", ""},
		"one":       {"X", "x"},
		"an umlaut": {"Über", "über"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, Inside(tt.text))
		})
	}
}

func TestFirstWord(t *testing.T) {
	assert.Equal(t, "which", FirstWord(" Which\none."))
	assert.Empty(t, FirstWord(""))
	assert.False(t, strings.Contains(FirstWord("a\u00a0b"), "b"), "a hard space separates too")
}

func TestBytes(t *testing.T) {
	tests := map[uint64]string{
		0: "0", 1: "1", 1023: "1023", 1 << 10: "1KiB", 1025: "1025", 64 << 10: "64KiB",
		3 << 20: "3MiB", 4 << 40: "4TiB", 1 << 63: "8EiB",
	}
	for n, want := range tests {
		assert.Equal(t, want, Bytes(n))
	}
}
