// Package prose handles the descriptions of the specs as text for people. They
// are data: what comes out of here is one line, or several, of printable
// characters, whatever went in. Comment marks and the like are the renderers' care.
package prose

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line is a text in one line of printable characters, its words separated by single spaces.
func Line(text string) string {
	printable := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(printable), " ")
}

// Wrap is Line broken between words into lines of at most width characters. A word
// that is longer has a line of its own. There is always a line.
func Wrap(text string, width int) []string {
	var lines []string
	line, used := "", 0
	for _, word := range strings.Split(Line(text), " ") {
		length := utf8.RuneCountInString(word)
		switch {
		case used == 0:
			line, used = word, length
		case used+1+length <= width:
			line, used = line+" "+word, used+1+length
		default:
			lines = append(lines, line)
			line, used = word, length
		}
	}
	return append(lines, line)
}

// FirstSentence is the text up to the first period that a new sentence follows. The
// period of an abbreviation such as e.g. is none.
func FirstSentence(text string) string {
	words := strings.Split(Line(text), " ")
	for i, word := range words[1:] {
		if endsSentence(words[i]) && startsSentence(word) {
			return strings.Join(words[:i+1], " ")
		}
	}
	return strings.Join(words, " ")
}

func endsSentence(word string) bool { return strings.Index(word, ".") == len(word)-1 }

func startsSentence(word string) bool {
	first, _ := utf8.DecodeRuneInString(word)
	return unicode.IsUpper(first) || unicode.IsDigit(first)
}

// Inside is a sentence as it goes on after other words: its first letter is a small one,
// unless its first word is all capitals or has digits, such as POSIX.
func Inside(sentence string) string {
	sentence = Line(sentence)
	_, size := utf8.DecodeRuneInString(sentence)
	second, _ := utf8.DecodeRuneInString(sentence[size:])
	if unicode.IsUpper(second) || unicode.IsDigit(second) {
		return sentence
	}
	return strings.ToLower(sentence[:size]) + sentence[size:]
}

// FirstWord is the first word of a text in small letters.
func FirstWord(text string) string {
	word, _, _ := strings.Cut(Line(text), " ")
	return strings.ToLower(word)
}

// Bytes is a number of bytes as the specs write it, in the largest unit that it is whole in: 64KiB.
func Bytes(n uint64) string {
	unit := 0
	for n != 0 && n%1024 == 0 {
		n /= 1024
		unit++
	}
	return fmt.Sprint(n) + byteUnits[unit]
}

var byteUnits = []string{"", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
