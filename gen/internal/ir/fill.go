package ir

import (
	"fmt"
	"slices"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// fillStruct resolves how a function fills a struct, and those that it points to.
func (r *backendResolver) fillStruct(t *CType, fields specfile.Entries[specfile.BoundField], chain specfile.List[specfile.Link],
	b *Binding, d specfile.Binding) *Fill {
	if t.Next == "" && chain.Given() {
		r.mistakes.AddRelated(chain.Pos, t.Pos, "the type is here", "struct %q points to no other, expected no chain, or the key %q of the type", t.Name, "next")
	}
	fill := r.fill(t, fields, len(chain.Items) > 0, b, d)
	types := newScope("type", r.mistakes)
	for i, dl := range chain.Items {
		if link := r.link(dl, i < len(chain.Items)-1, b, d); link != nil {
			types.claim(link.Type.Name, fmt.Sprintf("link %q", link.Type.Name), dl.Type.Pos)
			fill.Chain = append(fill.Chain, link)
		}
	}
	return fill
}

// fill resolves how a function fills a struct. Linked tells whether it points to another one.
func (r *backendResolver) fill(t *CType, fields specfile.Entries[specfile.BoundField], linked bool, b *Binding, d specfile.Binding) *Fill {
	fill := &Fill{Type: t}
	for _, layout := range t.Layouts {
		fill.Layouts = append(fill.Layouts, &LayoutFill{Versions: layout.Versions, Size: layout.Size})
	}
	for _, df := range fields.Items {
		if df.Key.Valid {
			r.fillField(fill, df, b, d)
		}
	}
	if tag := t.Tag; tag != nil {
		fill.set(tag.Field, Bound{Kind: BoundConst, Const: &tag.Value.Value, Value: tag.Value})
	}
	if linked && t.Next != "" {
		fill.set(t.Next, Bound{Kind: BoundNext})
	}
	for _, layout := range fill.Layouts {
		slices.SortStableFunc(layout.Fields, func(a, b *FieldFill) int { return a.Offset - b.Offset })
		r.checkShared(layout, fields)
	}
	return fill
}

// fillField fills one field in each layout of a struct.
func (r *backendResolver) fillField(fill *Fill, d specfile.Entry[specfile.BoundField], b *Binding, df specfile.Binding) {
	path := d.Key.Value
	var first *CField // in the first layout
	var bound Bound
	for i, layout := range fill.Type.Layouts {
		f, offset, instead := layout.find(path)
		switch {
		case f == nil:
			r.mistakes.Add(d.Key.Pos, "struct %q has no field %q%s%s", fill.Type.Name, path, in(layout.Versions), diag.Expected(path, instead))
			return
		case f.Type.Kind == CStruct:
			_, _, instead := layout.find(path + ".")
			r.mistakes.Add(d.Key.Pos, "field %q is a struct%s", path, diag.Expected("", instead))
			return
		case path == fill.Type.Next || fill.Type.Tag != nil && path == fill.Type.Tag.Field:
			r.mistakes.Add(d.Key.Pos, "field %q is filled by the type of the struct, expected others", path)
			return
		}
		r.lib.types.used[f] = true
		if first == nil {
			first = f
			bound = r.cBound(place{
				what:     fmt.Sprintf("field %q", path),
				field:    true,
				typeName: specfile.Text{Place: d.Key.Place, Value: f.Type.Name},
				typ:      f.Type, role: d.Value.Role, value: d.Value.Value, from: r.neededFrom(b),
			}, b, df)
		} else if !alike(first.Type, f.Type) {
			r.mistakes.Add(d.Key.Pos, "field %q is of type %q in one layout and of type %q in another, expected the same", path, first.Type.Name, f.Type.Name)
		}
		fill.Layouts[i].Fields = append(fill.Layouts[i].Fields, &FieldFill{Path: path, Offset: offset, Width: f.Type.Size, Type: f.Type, Bound: bound})
	}
}

// in is the end of a message about a layout that only some versions have.
func in(v Versions) string {
	switch {
	case v.From != nil && v.Before != nil:
		return fmt.Sprintf(" from version %s on and before %s", v.From, v.Before)
	case v.From != nil:
		return fmt.Sprintf(" from version %s on", v.From)
	case v.Before != nil:
		return fmt.Sprintf(" before version %s", v.Before)
	}
	return ""
}

// set fills a field that the type names itself.
func (f *Fill) set(name string, bound Bound) {
	for i, layout := range f.Type.Layouts {
		if field, offset, _ := layout.find(name); field != nil {
			f.Layouts[i].Fields = append(f.Layouts[i].Fields, &FieldFill{Path: name, Offset: offset, Width: field.Size, Type: field.Type, Bound: bound})
		}
	}
}

// checkShared refuses two fields of a union that are both filled.
func (r *backendResolver) checkShared(layout *LayoutFill, fields specfile.Entries[specfile.BoundField]) {
	for i := 1; i < len(layout.Fields); i++ {
		before, f := layout.Fields[i-1], layout.Fields[i]
		if f.Offset < before.Offset+before.Width {
			r.mistakes.Add(keyOf(fields, f.Path).Pos, "field %q shares its bytes with field %q, which is filled too", f.Path, before.Path)
		}
	}
}

func keyOf(fields specfile.Entries[specfile.BoundField], path string) specfile.Place {
	for _, d := range fields.Items {
		if d.Key.Value == path {
			return d.Key.Place
		}
	}
	return fields.Place
}

// link resolves a struct of a chain, nil when it cannot be one, which is reported. Linked tells
// whether another one follows.
func (r *backendResolver) link(d specfile.Link, linked bool, b *Binding, df specfile.Binding) *Link {
	t := r.lib.types.lookup(d.Type)
	switch {
	case t == nil:
		return nil
	case t.Kind != CStruct || t.Tag == nil || t.Next == "":
		r.mistakes.AddRelated(d.Type.Pos, t.Pos, "the type is here", "type %q cannot be a link of a chain, expected a struct with a tag and a next", t.Name)
		return nil
	}
	link := &Link{Fill: *r.fill(t, d.Fields, linked, b, df)}
	if d.When.Given() {
		link.When = r.when(d.When, b)
	}
	return link
}

// when resolves a condition, nil when it cannot be, which is reported.
func (r *backendResolver) when(d specfile.When, b *Binding) *When {
	if b.Does == nil {
		r.mistakes.Add(d.Pos, "function %q does no operation, expected no condition", b.Name)
		return nil
	}
	input := find(r.mistakes, "input", d.Input, b.Does.Inputs, func(v *Value) string { return v.Name })
	if input == nil {
		return nil
	}
	if input.Enum == nil {
		r.mistakes.Add(d.Input.Pos, "input %q is of type %s, expected one that is an enum", input.Name, input.Type)
		return nil
	}
	numbers := r.enumMap(input.Enum, d.Input)
	is := find(r.mistakes, "value of enum "+input.Enum.Name, d.Is, input.Enum.Values, func(v *EnumValue) string { return v.Name })
	if is == nil || numbers == nil {
		return nil
	}
	if !slices.ContainsFunc(numbers.Values, func(v *EnumMapValue) bool { return v.Value == is }) {
		r.mistakes.Add(d.Is.Pos, "%s %q has no number here, expected one under enums", input.Enum.Name, is.Name)
	}
	return &When{Input: input, Is: is}
}
