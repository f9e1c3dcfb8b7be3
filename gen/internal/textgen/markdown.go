package textgen

import (
	"bytes"
	"regexp"
	"strings"
	"unicode"

	"github.com/arenagen/arenagen/gen/internal/prose"
)

var markdownMarks = strings.NewReplacer(
	"&", "&amp;", "<", "&lt;", ">", "&gt;",
	`\`, `\\`, "`", "\\`", "*", `\*`, "[", `\[`, "]", `\]`, "|", `\|`, "~", `\~`, "$", `\$`,
)

// What makes a list, a heading or a rule of the line that it begins.
var markdownStart = regexp.MustCompile(`^(#|[-+=]|\d+[.)])`)

// markdownText writes a description so that it reads in a paragraph or a table as it does in
// the spec, in one line.
func markdownText(text string) string {
	text = escapeUnderscores(markdownMarks.Replace(prose.Line(text)))
	if at := markdownStart.FindStringIndex(text); at != nil {
		text = text[:at[1]-1] + `\` + text[at[1]-1:]
	}
	return text
}

// escapeUnderscores escapes the underscores that could begin or end an emphasis: those that do
// not stand inside a word, as in close_and_drain.
func escapeUnderscores(text string) string {
	runes := []rune(text)
	inWord := func(i int) bool {
		return i >= 0 && i < len(runes) && (unicode.IsLetter(runes[i]) || unicode.IsDigit(runes[i]))
	}
	var b strings.Builder
	for i, r := range runes {
		if r == '_' && !(inWord(i-1) && inWord(i+1)) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// markdownCode writes a name or a piece of C as code, also inside a table.
func markdownCode(text string) string {
	text = strings.ReplaceAll(prose.Line(text), "|", `\|`)
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		return fence + " " + text + " " + fence
	}
	return fence + text + fence
}

var emptyLines = regexp.MustCompile(`\n{3,}`)

// oneEmptyLine leaves one empty line where a template left several, and none at the end.
func oneEmptyLine(page []byte) []byte {
	return append(bytes.TrimSpace(emptyLines.ReplaceAll(page, []byte("\n\n"))), '\n')
}
