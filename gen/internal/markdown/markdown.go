// Package markdown writes texts so that they mean nothing in a Markdown page but what they
// say: a description cannot break out of the paragraph, the table or the code that it is in.
package markdown

import (
	"bytes"
	"regexp"
	"strings"
	"unicode"

	"github.com/arenagen/arenagen/gen/internal/prose"
)

var marks = strings.NewReplacer(
	"&", "&amp;", "<", "&lt;", ">", "&gt;",
	`\`, `\\`, "`", "\\`", "*", `\*`, "[", `\[`, "]", `\]`, "|", `\|`, "~", `\~`, "$", `\$`,
)

// What makes a list, a heading or a rule of the line that it begins, and what ends a heading.
var (
	start = regexp.MustCompile(`^(#|[-+=]|\d+[.)])`)
	end   = regexp.MustCompile(` #+$`)
)

// Text writes a description so that it reads in a paragraph or a table as it does in
// the spec, in one line.
func Text(text string) string {
	text = escapeUnderscores(marks.Replace(prose.Line(text)))
	if at := start.FindStringIndex(text); at != nil {
		text = text[:at[1]-1] + `\` + text[at[1]-1:]
	}
	if at := end.FindStringIndex(text); at != nil {
		text = text[:at[0]] + ` \` + text[at[0]+1:]
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
		if r == '_' && (!inWord(i-1) || !inWord(i+1)) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Code writes a name or a piece of C as code, also inside a table.
func Code(text string) string {
	text = strings.ReplaceAll(prose.Line(text), "|", `\|`)
	fence := fenceFor(text, "`")
	if len(fence) > 1 {
		return fence + " " + text + " " + fence
	}
	return fence + text + fence
}

// Block writes lines as a block of code in a language, as they are.
func Block(language, code string) string {
	fence := fenceFor(code, "```")
	return fence + language + "\n" + code + "\n" + fence
}

// fenceFor is a fence, or one that is longer than all that stand in the text.
func fenceFor(text, fence string) string {
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence
}

var emptyLines = regexp.MustCompile(`\n{3,}`)

// OneEmptyLine leaves one empty line where a template left several, and none at the end.
func OneEmptyLine(page []byte) []byte {
	return append(bytes.TrimSpace(emptyLines.ReplaceAll(page, []byte("\n\n"))), '\n')
}
