package ir

import (
	"cmp"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// A versionChecker resolves versions of a driver and refuses those that mean nothing for it.
type versionChecker struct {
	mistakes *diag.List
	known    bool // the driver tells its version
	oldest   specfile.Scalar[Version]
}

// A versionRange is a range, how it was declared, and of what.
type versionRange struct {
	Versions
	decl specfile.Versions
	of   specfile.Place
}

// since resolves a version that brought something, nil for none.
func (c versionChecker) since(d specfile.Scalar[Version]) *Version {
	if !d.Valid {
		return nil
	}
	c.needVersion(d.Place)
	return &d.Value
}

func (c versionChecker) needVersion(p specfile.Place) {
	if !c.known {
		c.mistakes.Add(p.Pos, "the driver does not tell its version, expected none here, or how it does under version")
	}
}

// versions resolves a range, and refuses one that no version of the driver is in.
func (c versionChecker) versions(d specfile.Versions) Versions {
	if !d.Given() {
		return Versions{}
	}
	c.needVersion(d.Place)
	var v Versions
	if d.From.Valid {
		v.From = &d.From.Value
	}
	if d.Before.Valid {
		v.Before = &d.Before.Value
	}
	switch {
	case !d.From.Given() && !d.Before.Given():
		c.mistakes.Add(d.Pos, "a range of versions without a bound, expected from, before or both")
	case v.From != nil && v.Before != nil && v.From.Compare(*v.Before) >= 0:
		c.mistakes.Add(d.Before.Pos, "no version is from %s on and before %s", v.From, v.Before)
	case v.Before != nil && c.oldest.Valid && v.Before.Compare(c.oldest.Value) <= 0:
		c.mistakes.AddRelated(d.Before.Pos, c.oldest.Pos, "the oldest is this", "no version that can be used is before %s", v.Before)
	case v.From != nil && c.oldest.Valid && v.From.Compare(c.oldest.Value) <= 0:
		c.mistakes.AddRelated(d.From.Pos, c.oldest.Pos, "the oldest is this", "every version that can be used is from %s on, expected no such bound", v.From)
	}
	return v
}

// checkSequence sees to it that ranges follow each other without gaps, from the oldest version on.
func (c versionChecker) checkSequence(what string, ranges []versionRange) {
	for i, r := range ranges {
		switch first, last := i == 0, i == len(ranges)-1; {
		case first && r.From != nil:
			c.mistakes.Add(r.decl.From.Pos, "the %s start at %s, expected the first to have no such bound", what, r.From)
		case !first && (r.From == nil || ranges[i-1].Before == nil || r.From.Compare(*ranges[i-1].Before) != 0):
			c.mistakes.AddRelated(r.of.Pos, ranges[i-1].of.Pos, "the one before it is here",
				"the %s do not follow each other, expected each to start where the one before it ends", what)
		case last && r.Before != nil:
			c.mistakes.Add(r.decl.Before.Pos, "the %s end before %s, expected the last to have no such bound", what, r.Before)
		}
	}
}

// later is a version or the oldest that can be used, whichever is later; nil when that is not known.
func (c versionChecker) later(v *Version) *Version {
	if !c.oldest.Valid || v != nil && v.Compare(c.oldest.Value) > 0 {
		return v
	}
	return &c.oldest.Value
}

// overlaps tells whether a version is in both of two ranges.
func (v Versions) overlaps(other Versions) bool {
	return (v.Before == nil || other.From == nil || other.From.Compare(*v.Before) < 0) &&
		(other.Before == nil || v.From == nil || v.From.Compare(*other.Before) < 0)
}

// compare orders ranges by where they start.
func (v Versions) compare(other Versions) int {
	var first Version
	return cmp.Or(v.From, &first).Compare(*cmp.Or(other.From, &first))
}
