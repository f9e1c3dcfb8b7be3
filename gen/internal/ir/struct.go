package ir

import (
	"fmt"
	"math"
	"slices"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// fieldKinds are the kinds of type that a field can have, elementKinds those of an array.
var (
	fieldKinds   = []TypeKind{KindScalar, KindChar, KindPointer, KindText, KindHandle, KindEnum, KindCallback}
	elementKinds = []TypeKind{KindScalar, KindChar}
)

// resolveStruct resolves the fields of a struct, all but their layout.
func (r *abiResolver) resolveStruct(s *Struct, decls []specfile.Field) {
	goNames := newScope("Go name", r.mistakes)
	for i, d := range decls {
		if !d.Name.Valid {
			continue
		}
		r.checkWord("field", d.Name)
		goNames.claim(exported(d.Name.Value), fmt.Sprintf("field %q", d.Name.Value), d.Name.Pos)
		if d.Name.Value == sizeField {
			r.checkSizeField(i, d)
		}
		if t := r.lookup(d.Type); t != nil && r.checkFieldType(t, d) {
			s.Fields = append(s.Fields, &Field{
				Pos:         d.Name.Pos,
				Name:        d.Name.Value,
				GoName:      exported(d.Name.Value),
				Type:        t,
				Count:       int(d.Count.Value),
				Default:     r.initialiser(s, d, t),
				Description: d.Description.Value,
			})
		}
	}
	r.checkDefaults(s, decls)
}

// checkSizeField refuses a struct_size that a caller of another version could not find.
func (r *abiResolver) checkSizeField(index int, d specfile.Field) {
	switch {
	case index > 0:
		r.mistakes.Add(d.Name.Pos, "%s must be the first field", sizeField)
	case d.Type.Valid && d.Type.Value != "uint32" || d.Count.Given():
		r.mistakes.Add(d.Type.Pos, "%s must be a uint32", sizeField)
	}
}

// checkFieldType tells whether a field can have a type, and reports it when it cannot.
func (r *abiResolver) checkFieldType(t *Type, d specfile.Field) bool {
	switch {
	case !slices.Contains(fieldKinds, t.Kind):
		r.mistakes.Add(d.Type.Pos, "a field cannot be of type %q", t.Name)
	case d.Count.Given() && !slices.Contains(elementKinds, t.Kind):
		r.mistakes.Add(d.Count.Pos, "a field of type %q cannot have a count, expected char or a number", t.Name)
	case t.Kind == KindChar && !d.Count.Given():
		r.mistakes.Add(d.Type.Pos, "a field of type char needs a count: it is for arrays only")
	default:
		return true
	}
	return false
}

// checkDefaults sees to it that all fields have a default when one has.
func (r *abiResolver) checkDefaults(s *Struct, decls []specfile.Field) {
	i := slices.IndexFunc(decls, func(d specfile.Field) bool { return d.Default.Given() })
	if i < 0 {
		return
	}
	s.HasDefaults = true
	s.InitName = upper(s.CName, "init")
	r.cNames.claim(s.InitName, fmt.Sprintf("the initialiser of struct %q", s.Name), s.Pos)
	for _, d := range decls {
		if d.Name.Valid && !d.Default.Given() {
			r.mistakes.AddRelated(d.Name.Pos, decls[i].Default.Pos, "this field has one",
				"field %q has no default, expected one on every field of struct %q or on none", d.Name.Value, s.Name)
		}
	}
}

// initialiser is the default of a field in C, "" when it has none.
func (r *abiResolver) initialiser(s *Struct, d specfile.Field, t *Type) string {
	literal := d.Default
	if !literal.Valid {
		return ""
	}
	text, expected := "", ""
	switch {
	case d.Count.Given():
		r.mistakes.Add(literal.Pos, "field %q is an array, expected no default", d.Name.Value)
		return ""
	case s.Sized && d.Name.Value == sizeField:
		text, expected = "sizeof("+s.CName+")", `"sizeof"`
	case t.Kind == KindEnum:
		return r.enumerator(literal, r.enums[t.Name])
	case t.Kind == KindScalar:
		return r.number(literal, t)
	case t.Kind == KindHandle:
		text, expected = "0", `"0"`
	default:
		text, expected = "NULL", "null"
	}
	if literal.String() != expected {
		r.mistakes.Add(literal.Pos, "the default of type %q must be %s, found %s", t.Name, expected, literal)
	}
	return text
}

// enumerator is the C name of an enum's value, "" when there is none, which is reported.
func (r *abiResolver) enumerator(literal specfile.Literal, e *Enum) string {
	var names []string
	for _, v := range e.Values {
		if v.Name == literal.Value {
			return v.CName
		}
		names = append(names, v.Name)
	}
	r.mistakes.Add(literal.Pos, "enum %q has no value %s%s", e.Name, literal, diag.Expected(literal.Value, names))
	return ""
}

// number is a number in C, "" when it does not fit into a type, which is reported.
func (r *abiResolver) number(literal specfile.Literal, t *Type) string {
	if signed(t) {
		if n, err := specfile.ParseInteger(literal.Value); err == nil && holds(t, n) {
			return cInteger(n)
		}
	} else if n, err := specfile.ParseSize(literal.Value); err == nil && n>>(8*t.Size) == 0 {
		return cUnsigned(n)
	}
	r.mistakes.Add(literal.Pos, "the default of type %q must be a number that fits into it, found %s", t.Name, literal)
	return ""
}

// cInteger writes a number in C so that it has a type that holds it.
func cInteger(n int64) string {
	switch {
	case n == math.MinInt64:
		return "INT64_MIN"
	case n == int64(int32(n)):
		return fmt.Sprint(n)
	default:
		return fmt.Sprintf("INT64_C(%d)", n)
	}
}

// cUnsigned is cInteger for numbers without a sign.
func cUnsigned(n uint64) string {
	if n <= math.MaxInt32 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("UINT64_C(%d)", n)
}
