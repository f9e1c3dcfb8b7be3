package ir

import (
	"fmt"
	"slices"
	"strings"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// cBuiltins are the types of C that a driver's functions and structs can have without a
// declaration. Sizes are those of 64-bit Linux, the same on amd64 and arm64.
var cBuiltins = []*CType{
	{Name: "int8", Kind: CInt, C: "int8_t", Size: 1, Align: 1},
	{Name: "uint8", Kind: CUint, C: "uint8_t", Size: 1, Align: 1},
	{Name: "int16", Kind: CInt, C: "int16_t", Size: 2, Align: 2},
	{Name: "uint16", Kind: CUint, C: "uint16_t", Size: 2, Align: 2},
	{Name: "int32", Kind: CInt, C: "int32_t", Size: 4, Align: 4},
	{Name: "uint32", Kind: CUint, C: "uint32_t", Size: 4, Align: 4},
	{Name: "int64", Kind: CInt, C: "int64_t", Size: 8, Align: 8},
	{Name: "uint64", Kind: CUint, C: "uint64_t", Size: 8, Align: 8},
	{Name: "char", Kind: CInt, C: "char", Size: 1, Align: 1},
	{Name: "unsigned char", Kind: CUint, C: "unsigned char", Size: 1, Align: 1},
	{Name: "unsigned short", Kind: CUint, C: "unsigned short", Size: 2, Align: 2},
	{Name: "int", Kind: CInt, C: "int", Size: 4, Align: 4},
	{Name: "unsigned int", Kind: CUint, C: "unsigned int", Size: 4, Align: 4},
	{Name: "unsigned long long", Kind: CUint, C: "unsigned long long", Size: 8, Align: 8},
	{Name: "size_t", Kind: CUint, C: "size_t", Size: 8, Align: 8},
	{Name: "void *", Kind: CPointer, C: "void *", Size: 8, Align: 8},
	{Name: "const void *", Kind: CPointer, C: "const void *", Size: 8, Align: 8},
	{Name: "const char *", Kind: CText, C: "const char *", Size: 8, Align: 8},
}

// constPrefix says that a driver only reads a struct.
const constPrefix = "const "

// A cTypes has the types of a driver's header by their names, and what has been used of them.
type cTypes struct {
	mistakes *diag.List
	versions versionChecker
	cNames   *scope // of the header
	byName   map[string]*CType
	names    []string // in the order of declaration, for suggestions
	declared []declaredType
	values   map[string]*CValue
	named    []string // the names of values, for suggestions
	used     map[any]bool
	bodies   map[*CType]func() // of structs that are not resolved yet
}

// A declaredType is a type and its declaration.
type declaredType struct {
	*CType
	decl specfile.CType
}

func newCTypes(mistakes *diag.List, versions versionChecker) *cTypes {
	t := &cTypes{
		mistakes: mistakes,
		versions: versions,
		cNames:   newScope("C name", mistakes),
		byName:   map[string]*CType{},
		values:   map[string]*CValue{},
		used:     map[any]bool{},
		bodies:   map[*CType]func(){},
	}
	for _, b := range cBuiltins {
		t.add(b)
	}
	return t
}

func (r *cTypes) add(t *CType) {
	r.byName[t.Name] = t
	r.names = append(r.names, t.Name)
}

// lookup finds a type that a declaration names, nil when there is none, which is reported.
func (r *cTypes) lookup(name specfile.Text) *CType {
	if !name.Valid {
		return nil
	}
	t := r.byName[name.Value]
	if t == nil {
		r.mistakes.Add(name.Pos, "unknown type %q%s", name.Value, diag.Expected(name.Value, r.names))
		t = r.byName[diag.Nearest(name.Value, r.names)]
	}
	r.used[t] = true
	return t
}

// value finds a named number of a type, nil when there is none, which is reported.
func (r *cTypes) value(name specfile.Text, t *CType) *CValue {
	v := r.values[name.Value]
	if v == nil {
		known := r.named
		if t != nil {
			known = valueNames(t)
		}
		r.mistakes.Add(name.Pos, "unknown value %q%s", name.Value, diag.Expected(name.Value, known))
		v = r.values[diag.Nearest(name.Value, known)]
	} else if t != nil && v.Type != t {
		r.mistakes.Add(name.Pos, "%q is a value of type %q, expected one of type %q", v.Name, v.Type.Name, t.Name)
	}
	r.used[v] = true
	return v
}

func valueNames(t *CType) []string {
	names := make([]string, len(t.Values))
	for i, v := range t.Values {
		names[i] = v.Name
	}
	return names
}

// A cTypeKey is a key of a type, and the kinds that need it or can have it.
type cTypeKey struct {
	name          string
	place         specfile.Place
	needs, allows []CTypeKind
}

func cTypeKeys(d specfile.CType) []cTypeKey {
	numbers, structs := []CTypeKind{CInt, CUint}, []CTypeKind{CStruct}
	whole := structs
	if d.Layouts.Given() {
		whole = nil
	}
	return []cTypeKey{
		{"bits", d.Bits.Place, numbers, nil},
		{"values", d.Values.Place, nil, []CTypeKind{CInt, CUint, CEnum}},
		{"size", d.Size.Place, whole, nil},
		{"fields", d.Fields.Place, whole, nil},
		{"layouts", d.Layouts.Place, nil, structs},
		{"partial", d.Partial.Place, nil, structs},
		{"tag", d.Tag.Place, nil, structs},
		{"next", d.Next.Place, nil, structs},
	}
}

// declare resolves the types of a header.
func (r *cTypes) declare(decls []specfile.Entry[specfile.CType]) {
	for _, d := range decls {
		name, kind := d.Key, d.Value.Kind
		if !name.Valid || !kind.Valid {
			continue
		}
		what := fmt.Sprintf("type %q", name.Value)
		if r.byName[name.Value] != nil {
			r.mistakes.Add(name.Pos, "%s has the name of a built-in type", what)
			continue
		}
		r.cNames.claim(name.Value, what, name.Pos)
		t := &CType{Pos: name.Pos, Name: name.Value, Kind: CTypeKind(kind.Value), C: name.Value}
		r.add(t)
		r.declared = append(r.declared, declaredType{t, d.Value})
		r.checkKeys(t, d.Value)
		switch t.Kind {
		case CInt, CUint:
			t.Size = r.bytes(d.Value.Bits)
		case CEnum:
			t.Size = 4
		case CPointer:
			t.Size = 8
		}
		t.Align = t.Size
		r.resolveValues(t, d.Value.Values.Items)
		if t.Kind == CStruct {
			r.bodies[t] = func() { r.resolveStruct(t, d.Value) }
		}
	}
	for _, t := range r.declared {
		r.complete(t.CType)
	}
	for _, t := range r.declared {
		r.resolveTag(t.CType, t.decl.Tag)
	}
}

// checkKeys refuses keys that a kind of type does not have, and misses those that it needs.
func (r *cTypes) checkKeys(t *CType, d specfile.CType) {
	for _, key := range cTypeKeys(d) {
		needed := slices.Contains(key.needs, t.Kind)
		switch given := key.place.Given(); {
		case given && !needed && !slices.Contains(key.allows, t.Kind):
			r.mistakes.Add(key.place.Pos, "type %q of kind %s has the key %q, expected none", t.Name, t.Kind, key.name)
		case !given && needed:
			r.mistakes.Add(t.Pos, "type %q of kind %s has no key %q, expected one", t.Name, t.Kind, key.name)
		}
	}
}

// bytes is the size of a number with so many bits.
func (r *cTypes) bytes(bits specfile.Integer) int {
	if bits.Valid && !slices.Contains([]int64{8, 16, 32, 64}, bits.Value) {
		r.mistakes.Add(bits.Pos, "a number of %d bits, expected 8, 16, 32 or 64", bits.Value)
	}
	return int(bits.Value) / 8
}

// resolveValues resolves the named numbers of a type.
func (r *cTypes) resolveValues(t *CType, decls []specfile.CValue) {
	for _, d := range decls {
		if !d.Name.Valid {
			continue
		}
		v := &CValue{Pos: d.Name.Pos, Name: d.Name.Value, Value: d.Value.Value, Since: r.versions.since(d.Since), Type: t}
		if !r.cNames.claim(v.Name, fmt.Sprintf("value %q", v.Name), v.Pos) {
			continue
		}
		if d.Value.Valid && t.Size > 0 && !holdsC(t, v.Value) {
			r.mistakes.Add(d.Value.Pos, "the value %d does not fit into type %q", v.Value, t.Name)
		}
		t.Values = append(t.Values, v)
		r.values[v.Name] = v
		r.named = append(r.named, v.Name)
	}
	slices.SortStableFunc(t.Values, func(a, b *CValue) int { return int(a.Value - b.Value) })
}

// isNumber tells whether a type is a number.
func isNumber(t *CType) bool { return t.Kind == CInt || t.Kind == CUint || t.Kind == CEnum }

// holdsC tells whether a number fits into a type that is one.
func holdsC(t *CType, n int64) bool {
	bits := 8 * t.Size
	if t.Kind == CUint {
		return n >= 0 && n>>bits == 0
	}
	return n>>(bits-1) == 0 || n>>(bits-1) == -1
}

// alike tells whether a value of one type can be passed as one of another: numbers of the same size
// can, and anything as itself.
func alike(a, b *CType) bool { return a == b || isNumber(a) && isNumber(b) && a.Size == b.Size }

// carries64 tells whether a type holds a number of 64 bits that has no sign.
func carries64(t *CType) bool { return t.Kind == CUint && t.Size == 8 }

// cDeclaration declares a name of a type in C.
func cDeclaration(c, name string) string {
	if strings.HasSuffix(c, "*") {
		return c + name
	}
	return c + " " + name
}

// pointerTo is the C type of a pointer to a type.
func pointerTo(c string) string {
	if strings.HasSuffix(c, "*") {
		return c + "*"
	}
	return c + " *"
}
