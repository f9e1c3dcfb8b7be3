package ir

import (
	"cmp"

	"github.com/arenagen/arenagen/gen/internal/diag"
)

// A scope is a set of names that must differ.
type scope struct {
	kind     string // "C name"
	holders  map[string]holder
	mistakes *diag.List
}

// A holder is what has a name.
type holder struct {
	pos  diag.Pos
	what string // struct "error"
}

func newScope(kind string, mistakes *diag.List) *scope {
	return &scope{kind: kind, holders: map[string]holder{}, mistakes: mistakes}
}

// claim takes a name for what is declared at pos, and reports it when the name is
// taken: at the later place, whichever order the claims come in. It tells whether
// the name was free.
func (s *scope) claim(name, what string, pos diag.Pos) bool {
	second := holder{pos, what}
	first, taken := s.holders[name]
	if !taken {
		s.holders[name] = second
		return true
	}
	if before(second.pos, first.pos) {
		first, second = second, first
		s.holders[name] = first
	}
	if first.what == second.what {
		s.mistakes.AddRelated(second.pos, first.pos, "first declared here", "%s is declared twice", second.what)
		return false
	}
	s.mistakes.AddRelated(second.pos, first.pos, first.what+" has it",
		"%s has the %s %s, which is taken", second.what, s.kind, name)
	return false
}

func before(a, b diag.Pos) bool {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column)) < 0
}
