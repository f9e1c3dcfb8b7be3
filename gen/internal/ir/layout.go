package ir

import (
	"fmt"
	"slices"
	"strings"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// complete resolves the body of a struct, once. A struct that contains itself is seen to by
// resolveField.
func (r *cTypes) complete(t *CType) {
	if body := r.bodies[t]; body != nil {
		delete(r.bodies, t)
		body()
	}
}

// resolveStruct resolves the layouts of a struct.
func (r *cTypes) resolveStruct(t *CType, d specfile.CType) {
	t.Partial = d.Partial.Value
	t.Next = d.Next.Value
	layouts := d.Layouts.Items
	if len(layouts) == 0 {
		layouts = []specfile.Layout{{Size: d.Size, Fields: d.Fields}}
	}
	var ranges []versionRange
	for _, dl := range layouts {
		layout := r.resolveLayout(t, dl)
		t.Layouts = append(t.Layouts, layout)
		ranges = append(ranges, versionRange{layout.Versions, dl.Versions, dl.Place})
		t.Size = layout.Size
	}
	if d.Layouts.Given() {
		r.versions.checkSequence(fmt.Sprintf("layouts of struct %q", t.Name), ranges)
	}
	for _, layout := range t.Layouts {
		if t.Next != "" {
			r.checkLinkField(t, layout, d.Next, "pointer", func(f *CField) bool { return f.Type.Kind == CPointer })
		}
	}
}

// checkLinkField sees to it that a struct has a field of some kind.
func (r *cTypes) checkLinkField(t *CType, layout *Layout, name specfile.Text, kind string, fits func(*CField) bool) *CField {
	if !name.Valid {
		return nil
	}
	i := slices.IndexFunc(layout.Fields, func(f *CField) bool { return f.Name == name.Value })
	switch {
	case i < 0:
		r.mistakes.Add(name.Pos, "struct %q has no field %q%s", t.Name, name.Value, diag.Expected(name.Value, fieldNames(layout)))
		return nil
	case !fits(layout.Fields[i]):
		r.mistakes.Add(name.Pos, "field %q of struct %q is of type %q, expected a %s", name.Value, t.Name, layout.Fields[i].Type.Name, kind)
		return nil
	}
	r.used[layout.Fields[i]] = true
	return layout.Fields[i]
}

func fieldNames(layout *Layout) []string {
	names := make([]string, len(layout.Fields))
	for i, f := range layout.Fields {
		names[i] = f.Name
	}
	return names
}

// resolveTag resolves how a struct says which one it is.
func (r *cTypes) resolveTag(t *CType, d specfile.Tag) {
	if t.Kind != CStruct || !d.Field.Valid || !d.Value.Valid {
		return
	}
	for _, layout := range t.Layouts {
		if f := r.checkLinkField(t, layout, d.Field, "number", func(f *CField) bool { return isNumber(f.Type) }); f != nil {
			if v := r.value(d.Value, f.Type); v != nil {
				t.Tag = &Tag{Field: f.Name, Value: v}
			}
		}
	}
}

// resolveLayout resolves the fields of a struct and sees to it that they are where C puts them.
func (r *cTypes) resolveLayout(t *CType, d specfile.Layout) *Layout {
	layout := &Layout{Versions: r.versions.versions(d.Versions), Size: int(d.Size.Value)}
	names := newScope("name", r.mistakes)
	checker := layoutChecker{mistakes: r.mistakes, what: t, align: 1}
	for _, df := range d.Fields.Items {
		if !df.Name.Valid {
			continue
		}
		names.claim(df.Name.Value, fmt.Sprintf("field %q", df.Name.Value), df.Name.Pos)
		f := r.resolveField(t, df)
		if f == nil {
			checker.unknown = true
			continue
		}
		checker.place(f, df, layout.Fields)
		layout.Fields = append(layout.Fields, f)
	}
	checker.finish(d.Size)
	t.Align = max(t.Align, checker.align)
	return layout
}

// resolveField resolves a field, nil when its type is unknown, which is reported.
func (r *cTypes) resolveField(owner *CType, d specfile.CField) *CField {
	t := r.lookup(d.Type)
	if t == nil || !d.Offset.Valid {
		return nil
	}
	r.complete(t)
	if t.Kind == CStruct {
		switch {
		case t == owner || t.Layouts == nil:
			r.mistakes.Add(d.Type.Pos, "struct %q contains itself by field %q", owner.Name, d.Name.Value)
			return nil
		case len(t.Layouts) > 1 || t.Partial:
			r.mistakes.Add(d.Type.Pos, "field %q is of type %q, expected a struct with one layout that has all its fields", d.Name.Value, t.Name)
			return nil
		}
	}
	if t.Size == 0 {
		return nil // wrong itself
	}
	f := &CField{
		Pos: d.Name.Pos, Name: d.Name.Value, Type: t,
		Count: int(d.Count.Value), Offset: int(d.Offset.Value), Union: d.Union.Value,
	}
	f.Size = t.Size * max(f.Count, 1)
	return f
}

// A layoutChecker sees to it that the fields of a struct are where C puts them.
type layoutChecker struct {
	mistakes *diag.List
	what     *CType
	last     *CField // the one that ends last
	end      int     // where it ends
	align    int
	unknown  bool // the type of a field is unknown, so nothing can be said about the end
}

// place checks the offset of the next field.
func (c *layoutChecker) place(f *CField, d specfile.CField, before []*CField) {
	want := roundUp(c.end, f.Type.Align)
	switch {
	case d.Union.Given():
		c.placeInUnion(f, d.Union, d.Offset, before)
	case f.Offset%f.Type.Align != 0:
		c.mistakes.Add(d.Offset.Pos, "field %q of type %q is at %d, expected a multiple of %d", f.Name, f.Type.Name, f.Offset, f.Type.Align)
	case f.Offset < c.end:
		c.mistakes.AddRelated(d.Offset.Pos, c.last.Pos, fmt.Sprintf("field %q ends at %d", c.last.Name, c.end),
			"field %q is at %d, where another one is, expected it at %d", f.Name, f.Offset, want)
	case f.Offset > want && !c.what.Partial && !c.unknown:
		c.mistakes.Add(d.Offset.Pos, "field %q is at %d, expected it at %d: a struct whose other fields are left out is partial", f.Name, f.Offset, want)
	}
	if end := f.Offset + f.Size; end > c.end {
		c.last, c.end = f, end
	}
	c.align = max(c.align, f.Type.Align)
}

// placeInUnion checks the offset of a field that shares its bytes with one before it.
func (c *layoutChecker) placeInUnion(f *CField, union specfile.Text, offset specfile.Integer, before []*CField) {
	if !union.Valid {
		return
	}
	i := slices.IndexFunc(before, func(b *CField) bool { return b.Name == union.Value && b.Union == "" })
	if i < 0 {
		var known []string
		for _, b := range before {
			if b.Union == "" {
				known = append(known, b.Name)
			}
		}
		c.mistakes.Add(union.Pos, "field %q is in a union with %q%s", f.Name, union.Value, diag.Expected(union.Value, known))
	} else if f.Offset != before[i].Offset {
		c.mistakes.AddRelated(offset.Pos, before[i].Pos, fmt.Sprintf("field %q is at %d", before[i].Name, before[i].Offset),
			"field %q is at %d, expected it where the field is that it is in a union with", f.Name, f.Offset)
	}
}

// finish checks the size of the struct.
func (c *layoutChecker) finish(size specfile.Integer) {
	if !size.Valid || c.unknown || c.last == nil {
		return
	}
	want := roundUp(c.end, c.align)
	expected := fmt.Sprintf("expected %d: a struct whose other fields are left out is partial", want)
	switch {
	case int(size.Value) < c.end:
		expected = fmt.Sprintf("expected at least %d", want)
	case int(size.Value)%c.align != 0:
		expected = fmt.Sprintf("expected a multiple of %d", c.align)
	case int(size.Value) == want || c.what.Partial:
		return
	}
	c.mistakes.AddRelated(size.Pos, c.last.Pos, fmt.Sprintf("field %q ends at %d", c.last.Name, c.end),
		"struct %q has %d bytes, %s", c.what.Name, size.Value, expected)
}

// find finds a field by its path from the start of the struct, and its offset. A field that is an
// array cannot be found, since it would be several. What there is instead is for suggestions.
func (l *Layout) find(path string) (f *CField, offset int, instead []string) {
	for _, candidate := range l.Fields {
		rest, inside := strings.CutPrefix(path, candidate.Name+".")
		switch {
		case candidate.Count > 0:
			continue
		case candidate.Name == path:
			return candidate, candidate.Offset, nil
		case inside && candidate.Type.Kind == CStruct:
			f, offset, instead = candidate.Type.Layouts[0].find(rest)
			for i := range instead {
				instead[i] = candidate.Name + "." + instead[i]
			}
			return f, candidate.Offset + offset, instead
		}
		instead = append(instead, candidate.Name)
	}
	return nil, 0, instead
}
