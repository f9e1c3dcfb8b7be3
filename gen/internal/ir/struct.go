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
			f := &Field{
				Pos:         d.Name.Pos,
				Name:        d.Name.Value,
				GoName:      exported(d.Name.Value),
				Type:        t,
				Count:       int(d.Count.Value),
				Description: d.Description.Value,
			}
			if d.Since.Valid {
				r.checkSince(d.Since)
				f.Since = d.Since.Value.String()
			}
			r.checkGrowth(s, f, d)
			r.setDefault(s, f, d)
			s.Fields = append(s.Fields, f)
		}
	}
	r.checkDefaults(s, decls)
}

// checkGrowth sees to it that a struct can grow, and grows at its end.
func (r *abiResolver) checkGrowth(s *Struct, f *Field, d specfile.Field) {
	if f.Since != "" && !s.Sized {
		r.mistakes.Add(d.Since.Pos, "field %q came later, and struct %q does not start with %s, expected one that can grow", f.Name, s.Name, sizeField)
	}
	if len(s.Fields) == 0 {
		return
	}
	last := s.Fields[len(s.Fields)-1]
	if last.Since != "" && (f.Since == "" || d.Since.Value.Compare(sinceOf(last)) < 0) {
		r.mistakes.AddRelated(f.Pos, last.Pos, "this field came later", "field %q stands behind one that came later, expected it before", f.Name)
	}
}

// sinceOf is the version that brought a field which came later.
func sinceOf(f *Field) specfile.VersionNumber {
	var v specfile.VersionNumber
	_, _ = fmt.Sscanf(f.Since, "%d.%d", &v.Major, &v.Minor)
	return v
}

// checkOlder sees to it that no field that came later lies in the padding of an earlier version.
func (r *abiResolver) checkOlder(s *Struct) {
	for i, f := range s.Fields[min(1, len(s.Fields)):] {
		if f.Since != s.Fields[i].Since && !slices.Contains(s.Older, f.Offset) {
			r.mistakes.Add(f.Pos, "field %q lies in what was padding at the end of struct %q before, expected another field to fill that", f.Name, s.Name)
		}
	}
}

// checkSizeField refuses a struct_size that a caller of another version could not find.
func (r *abiResolver) checkSizeField(index int, d specfile.Field) {
	switch {
	case index > 0:
		r.mistakes.Add(d.Name.Pos, "%s must be the first field", sizeField)
	case d.Type.Valid && d.Type.Value != "uint32":
		r.mistakes.Add(d.Type.Pos, "%s must be a uint32", sizeField)
	case d.Count.Given():
		r.mistakes.Add(d.Count.Pos, "%s must be a uint32, expected no count", sizeField)
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

// setDefault gives a field its default, in C and as a number.
func (r *abiResolver) setDefault(s *Struct, f *Field, d specfile.Field) {
	literal := d.Default
	if !literal.Valid {
		return
	}
	expected := ""
	switch {
	case d.Count.Given():
		r.mistakes.Add(literal.Pos, "field %q is an array, expected no default", f.Name)
		return
	case s.Sized && f.Name == sizeField:
		f.Default, expected = "sizeof("+s.CName+")", `"sizeof"`
	case f.Type.Kind == KindEnum:
		r.setEnumerator(f, literal)
		return
	case f.Type.Kind == KindScalar:
		r.setNumber(f, literal)
		return
	case f.Type.Kind == KindHandle:
		f.Default, f.Number, expected = "0", "0", `"0"`
	default:
		f.Default, f.Number, expected = "NULL", "0", "null"
	}
	if literal.String() != expected {
		r.mistakes.Add(literal.Pos, "the default of type %q must be %s, found %s", f.Type.Name, expected, literal)
	}
}

// setEnumerator gives a field the value of an enum as its default. That there is none is reported.
func (r *abiResolver) setEnumerator(f *Field, literal specfile.Literal) {
	e := r.enums[f.Type.Name]
	var names []string
	for _, v := range e.Values {
		if v.Name == literal.Value {
			f.Default, f.Number = v.CName, fmt.Sprint(v.Value)
			return
		}
		names = append(names, v.Name)
	}
	r.mistakes.Add(literal.Pos, "enum %q has no value %s%s", e.Name, literal, diag.Expected(literal.Value, names))
}

// setNumber gives a field a number as its default. That it does not fit is reported.
func (r *abiResolver) setNumber(f *Field, literal specfile.Literal) {
	if signed(f.Type) {
		if n, err := specfile.ParseInteger(literal.Value); err == nil && holds(f.Type, n) {
			f.Default, f.Number = cInteger(n), fmt.Sprint(n)
			return
		}
	} else if n, err := specfile.ParseSize(literal.Value); err == nil && n>>(8*f.Type.Size) == 0 {
		f.Default, f.Number = cUnsigned(n), fmt.Sprint(n)
		return
	}
	r.mistakes.Add(literal.Pos, "the default of type %q must be a number that fits into it, found %s", f.Type.Name, literal)
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
