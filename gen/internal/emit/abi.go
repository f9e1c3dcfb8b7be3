package emit

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/arenagen/arenagen/gen/internal/diag"
)

// An ABI listing is an output whose name ends in ".abi". It holds everything
// that a program built against the library relies on, one fact a line:
//
//	abi arenagen 1.0
//	enumerator ARENAGEN_OK 0
//	field arenagen_allocation.address offset 0 uint64_t
//
// The first fact is the version. Every other one says what kind of thing it is
// about, then its name; the two together name one thing. A line that begins
// with "#" is a comment, and the order says nothing. A struct that may grow has
// no fact about its size.
const listingExt = ".abi"

// CheckABI compares the ABI listings with those in the tree, and is nil when a
// program built against the old ones runs with the new ones or the version says
// that it does not: facts go or change with a new major version only, and new
// ones come with a new minor version at least. A listing that the tree does not
// have is compared with nothing. The mistakes are a *diag.Error.
func (p *Plan) CheckABI() error {
	var mistakes diag.List
	for _, change := range p.Stale {
		if path.Ext(change.File.Path) != listingExt || change.Missing() {
			continue
		}
		before, err := parseListing(string(change.Old))
		if err != nil {
			return fmt.Errorf("%s in the tree: %w", change.File.Path, err)
		}
		after, err := parseListing(string(change.File.Content))
		if err != nil {
			return fmt.Errorf("%s as rendered: %w", change.File.Path, err)
		}
		compareListings(before, after, change.File, &mistakes)
	}
	return mistakes.Err()
}

func compareListings(before, after listing, file File, mistakes *diag.List) {
	gone := without(before.facts, after.facts)
	added := without(after.facts, before.facts)
	switch {
	case after.major > before.major:
	case after.major < before.major || after.minor < before.minor:
		mistakes.Add(file.Origin(after.name), "the ABI version went back from %s to %s", before.version(), after.version())
	case len(gone) > 0:
		for _, fact := range gone {
			mistakes.Add(file.Origin(fact.name), "ABI break: %s: raise the major version above %d", describe(fact, added), before.major)
		}
	case after.minor == before.minor:
		for _, fact := range added {
			mistakes.Add(file.Origin(fact.name), "ABI addition: %q is new: raise the minor version above %d", fact.line, before.minor)
		}
	}
}

// describe says what became of a fact that is gone.
func describe(gone fact, added []fact) string {
	i := slices.IndexFunc(added, func(f fact) bool { return f.kind == gone.kind && f.name == gone.name })
	if i < 0 {
		return fmt.Sprintf("%q is gone", gone.line)
	}
	return fmt.Sprintf("%q is now %q", gone.line, added[i].line)
}

// without returns the facts of a that b lacks.
func without(a, b []fact) []fact {
	return slices.DeleteFunc(slices.Clone(a), func(f fact) bool { return slices.Contains(b, f) })
}

// A listing is a parsed ABI listing.
type listing struct {
	name         string
	major, minor int
	facts        []fact // without the version
}

func (l listing) version() string { return fmt.Sprintf("%d.%d", l.major, l.minor) }

// A fact is one line of a listing.
type fact struct {
	line string
	kind string // enumerator, field
	name string // arenagen_allocation.address
}

func parseListing(text string) (listing, error) {
	var facts []fact
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := append(strings.Fields(line), "") // a fact of one word has no name
		facts = append(facts, fact{line: line, kind: words[0], name: words[1]})
	}
	if len(facts) == 0 {
		return listing{}, errors.New("an ABI listing without facts")
	}
	l := listing{facts: facts[1:]}
	if _, err := fmt.Sscanf(facts[0].line, "abi %s %d.%d", &l.name, &l.major, &l.minor); err != nil {
		return listing{}, fmt.Errorf(`an ABI listing begins with "abi name major.minor", not with %q`, facts[0].line)
	}
	return l, nil
}
