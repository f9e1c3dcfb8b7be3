package ir

import (
	"iter"
	"slices"
)

// A slot is a place that a value goes to or comes from: a parameter, or a field of a struct that
// one points to.
type slot struct {
	path string // prop.location.id
	typ  *CType
	*Bound
}

// slots goes through the slots of a function, in order.
func (b *Binding) slots() iter.Seq[slot] {
	return func(yield func(slot) bool) {
		for _, p := range b.Params {
			if !yield(slot{p.Name, p.Type, &p.Bound}) || p.Fill != nil && !p.Fill.slots(p.Name, yield) {
				return
			}
		}
	}
}

// slots yields the fields that are filled, those of the chain after its own. What a field carries
// is the same in each layout, so the first stands for all.
func (f *Fill) slots(path string, yield func(slot) bool) bool {
	for _, layout := range f.Layouts[:min(1, len(f.Layouts))] {
		for _, field := range layout.Fields {
			if !yield(slot{path + "." + field.Path, field.Type, &field.Bound}) {
				return false
			}
		}
	}
	for _, link := range f.Chain {
		if !link.slots(path+"."+link.Type.Name, yield) {
			return false
		}
	}
	return true
}

// Counts tells whether a parameter is how many items another one has room for.
func (b *Binding) Counts(param string) bool {
	return slices.ContainsFunc(b.Params, func(p *BoundParam) bool { return p.Kind == BoundItems && p.Of == param })
}

// Bounds goes through what the parameters of a function carry, and the fields of the structs that they point to.
func (b *Binding) Bounds() iter.Seq[*Bound] {
	return func(yield func(*Bound) bool) {
		for slot := range b.slots() {
			if !yield(slot.Bound) {
				return
			}
		}
	}
}
