package language

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// cutEntry takes a declaration out of a text: the one line that begins with start, what is
// indented below it, up to its closing bracket, and in Go and C the comment above it. All languages
// here indent, and generated files do it without exception.
func cutEntry(text, start string) (string, error) {
	lines := strings.Split(text, "\n")
	at, err := find(lines, start)
	if err != nil {
		return "", err
	}
	first, end := at, at+1
	for first > 0 && isComment(lines[first-1]) {
		first--
	}
	if end < len(lines) && lines[end] == "{" { // a function in C
		end++
	}
	for end < len(lines) && (blank(lines[end]) || indent(lines[end]) > indent(lines[at])) {
		end++
	}
	if end < len(lines) && closes(lines[end]) && indent(lines[end]) == indent(lines[at]) {
		end++
	}
	return dedent(lines[first:end]), nil
}

// cutBlock takes all lines around the one that begins with start, up to empty ones.
func cutBlock(text, start string) (string, error) {
	lines := strings.Split(text, "\n")
	at, err := find(lines, start)
	if err != nil {
		return "", err
	}
	first, end := at, at+1
	for first > 0 && !blank(lines[first-1]) {
		first--
	}
	for end < len(lines) && !blank(lines[end]) {
		end++
	}
	return dedent(lines[first:end]), nil
}

// find is the index of the one line that begins with start, apart from its indentation. Where
// start ends with a word, the word ends there too.
func find(lines []string, start string) (int, error) {
	pattern := `^\s*` + regexp.QuoteMeta(start)
	if endsInWord.MatchString(start) {
		pattern += `\b`
	}
	begins := regexp.MustCompile(pattern).MatchString
	at := slices.IndexFunc(lines, begins)
	if at < 0 {
		return 0, fmt.Errorf("no line begins with %q", start)
	}
	if again := slices.IndexFunc(lines[at+1:], begins); again >= 0 {
		return 0, fmt.Errorf("the lines %d and %d begin with %q, expected one", at+1, at+again+2, start)
	}
	return at, nil
}

var endsInWord = regexp.MustCompile(`\w$`)

func blank(line string) bool { return strings.TrimSpace(line) == "" }

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

// isComment tells whether a line is a comment in Go or C, or the middle of one.
func isComment(line string) bool { return startsWithAny(line, "//", "/*", "*") }

// closes tells whether a line ends what was indented above it.
func closes(line string) bool { return startsWithAny(line, "}", ")", "]") }

func startsWithAny(line string, starts ...string) bool {
	return slices.ContainsFunc(starts, func(start string) bool {
		return strings.HasPrefix(strings.TrimLeft(line, " \t"), start)
	})
}

// dedent joins lines without the indentation of the first, and without empty ones at the end.
func dedent(lines []string) string {
	width := indent(lines[0])
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(line[min(width, indent(line)):] + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}
