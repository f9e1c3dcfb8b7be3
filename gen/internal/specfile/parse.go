package specfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/arenagen/arenagen/gen/internal/diag"
)

// maxDepth is how deep lists and mappings can be nested. The deepest file of ours has 6.
const maxDepth = 16

// parse turns a text into its root node. It returns nil when the text is not one
// YAML document, which it reports.
func (w *walker) parse(text []byte) *yaml.Node {
	if !w.clean(text) {
		return nil
	}
	loader, err := yaml.NewLoader(bytes.NewReader(text), yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthFunc(checkDepth))))
	if err != nil {
		w.syntax(err)
		return nil
	}
	var document, next yaml.Node
	switch err := loader.Load(&document); {
	case errors.Is(err, io.EOF):
		w.mistakes.Add(w.start(), "the file is empty, expected a mapping")
		return nil
	case err != nil:
		w.syntax(err)
		return nil
	}
	switch err := loader.Load(&next); {
	case err == nil:
		w.mistakes.Add(w.pos(&next), "a second document, expected one in a file")
	case !errors.Is(err, io.EOF):
		w.syntax(err)
	}
	root := document.Content[0]
	w.refuse(root)
	return root
}

// checkDepth bounds the nesting.
func checkDepth(depth int, _ *yaml.DepthContext) error {
	if depth > maxDepth {
		return fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	return nil
}

// syntax reports what the parser found.
func (w *walker) syntax(err error) {
	var load *yaml.LoadError
	if !errors.As(err, &load) || load.Mark.Line == 0 {
		w.mistakes.Add(w.start(), "YAML syntax: %v", err)
		return
	}
	pos := w.mark(load.Mark)
	if load.ContextMark.Line == 0 || load.ContextMark == load.Mark {
		w.mistakes.Add(pos, "YAML syntax: %s", load.Message)
		return
	}
	w.mistakes.AddRelated(pos, w.mark(load.ContextMark), load.ContextMsg, "YAML syntax: %s", load.Message)
}

// start is where a file starts.
func (w *walker) start() diag.Pos { return diag.Pos{File: w.file, Line: 1, Column: 1} }

// mark is a place that the parser names.
func (w *walker) mark(m yaml.Mark) diag.Pos {
	return diag.Pos{File: w.file, Line: m.Line, Column: m.Column}
}

// clean tells whether a text is of a sane size and has only characters that look
// the same in every editor and every version of YAML; it reports the first that is not.
func (w *walker) clean(text []byte) bool {
	if len(text) > MaxFileSize {
		w.mistakes.Add(w.start(), "the file is larger than %d bytes", MaxFileSize)
		return false
	}
	pos := w.start()
	for rest := text; len(rest) > 0; {
		r, length := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && length == 1:
			w.mistakes.Add(pos, "the byte 0x%02x is not UTF-8", rest[0])
			return false
		case r == '\n':
			pos.Line, pos.Column = pos.Line+1, 0
		case r != '\t' && !printable(r):
			w.mistakes.Add(pos, "the character %U is not allowed, expected plain UTF-8 text", r)
			return false
		}
		pos.Column++
		rest = rest[length:]
	}
	return true
}

// printable tells whether a character is seen as itself: no control character, no
// line break but \n, no byte order mark, nothing that changes the direction of the text.
func printable(r rune) bool {
	return ' ' <= r && r <= '~' || !unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control, unicode.Noncharacter_Code_Point) && r != '\ufeff'
}

// refuse reports what YAML can do and spec files do not, in a node and all below it.
func (w *walker) refuse(n *yaml.Node) {
	if reason := refusal(n); reason != "" {
		w.mistakes.Add(w.pos(n), "%s", reason)
	}
	if n.Anchor != "" {
		w.mistakes.Add(w.pos(n), "the anchor &%s is not allowed, expected a plain value", n.Anchor)
	}
	for _, child := range n.Content {
		w.refuse(child)
	}
}

// refusal says why a node cannot be read at all, or "" when it can.
func refusal(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.AliasNode:
		return fmt.Sprintf("the alias *%s is not allowed, expected the value itself", n.Value)
	case n.Style&yaml.TaggedStyle != 0:
		return fmt.Sprintf("the tag %s is not allowed, expected a plain value", n.Tag)
	case n.Tag == tagMerge:
		return "the merge key << is not allowed, expected the keys themselves"
	case len(n.Value) > maxText:
		return fmt.Sprintf("a value of %d bytes, expected at most %d", len(n.Value), maxText)
	case strings.ContainsFunc(n.Value, func(r rune) bool { return r != '\n' && r != '\t' && !printable(r) }):
		return fmt.Sprintf("%q has a character that is not allowed, expected plain text", n.Value)
	}
	return ""
}
