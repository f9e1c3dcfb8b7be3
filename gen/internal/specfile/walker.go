package specfile

import (
	"iter"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/arenagen/arenagen/gen/internal/diag"
)

// A walker goes through one file and collects what is wrong with it.
type walker struct {
	file     string
	mistakes *diag.List
}

// pos is where a node starts.
func (w *walker) pos(n *yaml.Node) diag.Pos {
	return diag.Pos{File: w.file, Line: n.Line, Column: n.Column}
}

// is tells whether a node is of a kind, and reports it otherwise. Label names
// the node, and what says what is expected.
func (w *walker) is(n *yaml.Node, kind yaml.Kind, label, what string) bool {
	switch {
	case refusal(n) != "": // reported when the file was parsed
		return false
	case n.Kind != kind:
		w.expected(n, label, what, "")
		return false
	}
	return true
}

// expected reports a node that is something else than what was expected. Detail
// is the end of the message.
func (w *walker) expected(n *yaml.Node, label, what, detail string) {
	w.mistakes.Add(w.pos(n), "%s must be %s, found %s%s", label, what, found(n), detail)
}

// pairs goes through the keys and values of a mapping. It reports keys that are
// no names, and keys that were there before, and leaves them out.
func (w *walker) pairs(n *yaml.Node, what string) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		first := map[string]*yaml.Node{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			if !w.is(key, yaml.ScalarNode, "a key of "+what, "a name") {
				continue
			}
			if before := first[key.Value]; before != nil {
				w.mistakes.AddRelated(w.pos(key), w.pos(before), "first given here", "duplicate key %s in %s", quote(key.Value), what)
				continue
			}
			first[key.Value] = key
			if !yield(key, value) {
				return
			}
		}
	}
}

// nouns say what a plain value is.
var nouns = map[string]string{
	tagInteger:    "the number ",
	"!!float":     "the number ",
	tagBool:       "the truth value ",
	"!!timestamp": "the date ",
}

// found says what a node is.
func found(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == tagNull:
		return "nothing"
	case n.Tag == tagText:
		return "the text " + quote(n.Value)
	default:
		return nouns[n.Tag] + shorten(n.Value)
	}
}

// maxShown is how many bytes of a value a message shows.
const maxShown = 64

// quote puts a value into quotes for a message.
func quote(value string) string { return strconv.Quote(shorten(value)) }

func shorten(value string) string {
	if len(value) <= maxShown {
		return value
	}
	return strings.ToValidUTF8(value[:maxShown], "") + "..."
}
