// Package options reads the options of a backend from a text such as
// "mode=record,granule=64KiB", and checks options that came another way. What can be set is a
// table of [Option], generated from the backend's spec.
package options

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/arenagen/arenagen/arena/vmm"
)

// An Option is one thing that can be set. Enum, Uint and Bytes make them.
type Option struct {
	name     string
	expected string // what a value must be, for errors
	parse    func(text string) (number uint64, ok bool)
	accepts  func(number uint64) bool
	get      func() uint64
	set      func(number uint64)
}

// An Error is an option that cannot be taken. errors.Is finds vmm.ClassInvalidArgument in it.
type Error struct {
	Option    string // its name, empty where the text has none
	Character int    // where in the text the fault is, from 1; 0 when there was no text
	Problem   string // what was found and what was expected
}

func (e *Error) Error() string {
	if e.Character == 0 {
		return "options: " + e.Problem
	}
	return fmt.Sprintf("options, character %d: %s", e.Character, e.Problem)
}

// Unwrap is vmm.ClassInvalidArgument.
func (e *Error) Unwrap() error { return vmm.ClassInvalidArgument }

// Parse sets options from a text of name=value pairs, separated by commas. Spaces around names
// and values do not count, and a text without anything else sets nothing. The error is an *Error;
// after one, the options before the fault are set.
func Parse(text string, table ...Option) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	p := parser{text: text, table: table, set: make(map[string]int)}
	start := 0
	for pair := range strings.SplitSeq(text, ",") {
		if err := p.pair(start, start+len(pair)); err != nil {
			return err
		}
		start += len(pair) + len(",")
	}
	return nil
}

// Check finds a value that its option does not take. Zero stands for the default and is always
// taken. The error is an *Error.
func Check(table ...Option) error {
	for _, o := range table {
		if number := o.get(); number != 0 && !o.accepts(number) {
			return &Error{Option: o.name, Problem: fmt.Sprintf("%s must be %s, got %d", o.name, o.expected, number)}
		}
	}
	return nil
}

// A parser works through one text. Places in the text are in bytes from 0.
type parser struct {
	text  string
	table []Option
	set   map[string]int // where each option was set that has been
}

// pair sets what text[start:end], name=value, says.
func (p *parser) pair(start, end int) error {
	name, value, found := strings.Cut(p.text[start:end], "=")
	nameAt, name := start+leadingSpaces(name), strings.TrimSpace(name)
	if !found || name == "" {
		return p.fault(nameAt, "", "expected name=value, found %q", strings.TrimSpace(p.text[start:end]))
	}
	option, err := p.find(name, nameAt)
	if err != nil {
		return err
	}
	valueAt, value := end-len(value)+leadingSpaces(value), strings.TrimSpace(value)
	number, ok := option.parse(value)
	if !ok || !option.accepts(number) {
		return p.fault(valueAt, name, "%s must be %s, found %q", name, option.expected, value)
	}
	option.set(number)
	return nil
}

// find gives the option with a name, and notes that it is set.
func (p *parser) find(name string, at int) (Option, error) {
	if first, twice := p.set[name]; twice {
		return Option{}, p.fault(at, name, "%s is set twice, first at character %d", name, p.character(first))
	}
	p.set[name] = at
	var known []string
	for _, o := range p.table {
		if o.name == name {
			return o, nil
		}
		known = append(known, o.name)
	}
	return Option{}, p.fault(at, name, "there is no option %q%s", name, whatThereIs(name, known))
}

// whatThereIs is the end of a message about a name that is none of those known.
func whatThereIs(name string, known []string) string {
	if len(known) == 0 {
		return "; there are none"
	}
	all := strings.Join(known, ", ")
	if nearest := nearest(name, known); nearest != "" {
		return fmt.Sprintf("; did you mean %q? There are: %s", nearest, all)
	}
	return "; there are: " + all
}

func (p *parser) fault(at int, option, format string, args ...any) error {
	return &Error{Option: option, Character: p.character(at), Problem: fmt.Sprintf(format, args...)}
}

// character counts the characters of the text up to a place, from 1.
func (p *parser) character(at int) int { return utf8.RuneCountInString(p.text[:at]) + 1 }

func leadingSpaces(text string) int {
	return len(text) - len(strings.TrimLeftFunc(text, unicode.IsSpace))
}
