// Package diag holds what is wrong with a spec: a position, a message, and a
// sorted list of them, and the nearest name to a misspelled one. It knows nothing else.
package diag

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Pos is a place in a file. Line and Column count from 1; 0 means unknown.
type Pos struct {
	File   string
	Line   int
	Column int
}

// String writes file:line:col, without the parts that are unknown.
func (p Pos) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	default:
		return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	}
}

// A Diagnostic is one mistake: what was found at Pos, and the other place where
// two collide.
type Diagnostic struct {
	Pos     Pos
	Message string
	Related *Related
}

// A Related place explains a Diagnostic.
type Related struct {
	Pos     Pos
	Message string
}

// String writes the mistake in one line, and the related place indented below it.
func (d Diagnostic) String() string {
	s := d.Pos.String() + ": " + d.Message
	if d.Related != nil {
		s += "\n\t" + d.Related.Pos.String() + ": " + d.Related.Message
	}
	return s
}

// MaxMistakes is how many mistakes a List keeps. It counts the others, so that a
// file of nothing but mistakes costs no more than one with many.
const MaxMistakes = 1000

// A List collects mistakes. The zero List is empty and ready to use.
type List struct {
	items []Diagnostic
	more  int // mistakes beyond MaxMistakes
}

// Add notes a mistake.
func (l *List) Add(pos Pos, format string, args ...any) {
	l.add(pos, nil, format, args)
}

// AddRelated notes a mistake that another place explains.
func (l *List) AddRelated(pos Pos, related Pos, relatedMessage string, format string, args ...any) {
	l.add(pos, &Related{Pos: related, Message: relatedMessage}, format, args)
}

func (l *List) add(pos Pos, related *Related, format string, args []any) {
	if len(l.items) == MaxMistakes {
		l.more++
		return
	}
	l.items = append(l.items, Diagnostic{Pos: pos, Message: fmt.Sprintf(format, args...), Related: related})
}

// Sorted returns the mistakes by file, line, column and text, each once.
func (l *List) Sorted() []Diagnostic {
	sorted := slices.Clone(l.items)
	slices.SortStableFunc(sorted, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(a.Pos.File, b.Pos.File),
			cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Column, b.Pos.Column),
			cmp.Compare(a.Message, b.Message),
		)
	})
	return slices.CompactFunc(sorted, func(a, b Diagnostic) bool { return a.String() == b.String() })
}

// Empty tells whether nothing is wrong.
func (l *List) Empty() bool { return len(l.items) == 0 }

// Err returns the list as an error, or nil when nothing is wrong.
func (l *List) Err() error {
	if l.Empty() {
		return nil
	}
	return &Error{Diagnostics: l.Sorted(), More: l.more}
}

// An Error is a list of mistakes. Its text has a line for each.
type Error struct {
	Diagnostics []Diagnostic
	More        int // mistakes that are not listed
}

func (e *Error) Error() string {
	lines := make([]string, len(e.Diagnostics))
	for i, d := range e.Diagnostics {
		lines[i] = d.String()
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more mistakes", e.More))
	}
	return strings.Join(lines, "\n")
}
