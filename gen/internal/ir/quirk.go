package ir

import (
	"slices"

	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// quirkBool is the type of a quirk that a driver has or has not. The other type is bytes.
const quirkBool = "bool"

// quirks resolves what some versions of the library cannot do, in the order of the contract.
func (r *backendResolver) quirks() {
	values := &r.lib.library.Quirks
	for _, d := range r.decl.Quirks.Items {
		q := find(r.mistakes, "quirk", d.Name, r.contract.Quirks, func(q *Quirk) string { return q.Name })
		if q == nil {
			continue
		}
		v := &QuirkValue{Pos: d.Name.Pos, Quirk: q, Versions: r.lib.versions.versions(d.Versions)}
		r.quirkValue(v, d.Value)
		for _, before := range *values {
			if before.Quirk == q && before.Versions.overlaps(v.Versions) {
				r.mistakes.AddRelated(v.Pos, before.Pos, "the other one is here", "quirk %q has two values for some version", q.Name)
				break
			}
		}
		*values = append(*values, v)
	}
	slices.SortStableFunc(*values, func(a, b *QuirkValue) int {
		if a.Quirk != b.Quirk {
			return slices.Index(r.contract.Quirks, a.Quirk) - slices.Index(r.contract.Quirks, b.Quirk)
		}
		return a.Versions.compare(b.Versions)
	})
}

// quirkValue reads the value of a quirk.
func (r *backendResolver) quirkValue(v *QuirkValue, d specfile.Text) {
	if !d.Valid {
		return
	}
	if v.Quirk.Type == quirkBool {
		if d.Value != "true" {
			r.mistakes.Add(d.Pos, "quirk %q is %q, expected true, or no such quirk", v.Quirk.Name, d.Value)
		}
		return
	}
	var err error
	if v.Bytes, err = specfile.ParseSize(d.Value); err != nil {
		r.mistakes.Add(d.Pos, "quirk %q must be a size such as 64KiB, found %q: %v", v.Quirk.Name, d.Value, err)
	} else if v.Bytes == 0 {
		r.mistakes.Add(d.Pos, "quirk %q is 0, expected a size above it, or no such quirk", v.Quirk.Name)
	}
}
