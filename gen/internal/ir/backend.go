package ir

import (
	"cmp"
	"fmt"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// folders are the names that no backend can have: they are something else below backends/.
var folders = []string{"all", "kit", "sim"}

// noPackages are names that the code around a backend's package has, and those that the go command and Go give a meaning.
var noPackages = []string{
	"abi", "answer", "device", "documentation", "init", "internal", "library", "main", "options", "recovered", "registry",
	"testdata", "text", "vendor",
}

// A backendResolver makes a Backend out of its declaration.
type backendResolver struct {
	mistakes *diag.List
	decl     *specfile.Backend
	contract *Contract
	backend  *Backend
	lib      *libraryResolver // nil with a provider
	carried  map[*EnumMap]bool
}

// resolveBackend resolves one of spec/backends and adds what is wrong to mistakes.
func resolveBackend(decl *specfile.Backend, tree Tree, contract *Contract, mistakes *diag.List) *Backend {
	r := &backendResolver{
		mistakes: mistakes,
		decl:     decl,
		contract: contract,
		carried:  map[*EnumMap]bool{},
		backend: &Backend{
			Pos:         decl.Name.Pos,
			Tree:        tree,
			File:        decl.Pos.File,
			Name:        decl.Name.Value,
			Title:       decl.Title.Value,
			Description: decl.Description.Value,
		},
	}
	r.checkName()
	r.checkContract()
	r.player()
	r.result()
	r.options()
	r.enums()
	r.bindings()
	r.checkEnums()
	r.capabilities()
	if r.lib != nil {
		r.driverVersion()
		r.resultFunctions()
		r.steps()
		r.helpers()
		r.quirks()
		r.checkNames()
		r.unused()
	}
	return r.backend
}

// checkName sees to it that the name is that of the file, and can be that of a Go package.
func (r *backendResolver) checkName() {
	name := r.decl.Name
	file := strings.TrimSuffix(path.Base(r.backend.File), ".yaml")
	switch {
	case !name.Valid:
	case name.Value != file:
		r.mistakes.Add(name.Pos, "the backend is %q, expected the name of the file, %q", name.Value, file)
	case slices.Contains(folders, name.Value):
		r.mistakes.Add(name.Pos, "a backend cannot be called %q: backends/%s is something else", name.Value, name.Value)
	case token.IsKeyword(name.Value) || types.Universe.Lookup(name.Value) != nil || slices.Contains(packages, name.Value) || slices.Contains(noPackages, name.Value):
		r.mistakes.Add(name.Pos, "a backend cannot be called %q: in generated code that is something else", name.Value)
	}
}

func (r *backendResolver) checkContract() {
	name := r.decl.Implements
	if name.Valid && r.contract.Name != "" && name.Value != r.contract.Name {
		r.mistakes.Add(name.Pos, "unknown contract %q, expected %q", name.Value, r.contract.Name)
	}
}

// openFunction is the function of a provider's package that opens a device:
//
//	func Open(ordinal int, options Options) (*Type, Result)
const openFunction = "Open"

func (r *backendResolver) provider() {
	d := r.decl.Provider
	p := &Provider{Pos: d.Pos, Package: d.Package.Value, PkgName: path.Base(d.Package.Value), Type: d.Type.Value, Open: openFunction}
	r.backend.Provider = p
	if d.Package.Valid && !token.IsIdentifier(p.PkgName) {
		r.mistakes.Add(d.Package.Pos, "the last element of the import path is %q, expected the name of the package", p.PkgName)
	}
	if d.Type.Valid && !token.IsExported(p.Type) {
		r.mistakes.Add(d.Type.Pos, "type %q is not exported, expected a name with a capital letter", p.Type)
	}
}

func (r *backendResolver) result() {
	d := r.decl.Result
	r.backend.Result = &Result{Pos: d.Type.Pos, Type: d.Type.Value, OK: d.OK.Value}
	r.resultType(d.Type)
	names, numbers := newScope("name", r.mistakes), newScope("number", r.mistakes)
	if r.lib != nil {
		names = r.lib.types.cNames
	}
	if d.OK.Valid {
		numbers.claim(fmt.Sprint(d.OK.Value), "ok", d.OK.Pos)
	}
	for _, dc := range d.Codes.Items {
		if !dc.Name.Valid {
			continue
		}
		c := &Code{Pos: dc.Name.Pos, Name: dc.Name.Value, Value: dc.Value.Value, Class: r.class(dc.Class)}
		r.backend.Result.Codes = append(r.backend.Result.Codes, c)
		what := fmt.Sprintf("result code %q", c.Name)
		names.claim(c.Name, what, c.Pos)
		if r.lib != nil {
			c.Since = r.lib.versions.since(dc.Since)
		} else {
			r.refuse(what, key{"since", dc.Since.Place})
		}
		if dc.Value.Valid {
			numbers.claim(fmt.Sprint(c.Value), what, dc.Value.Pos)
		}
	}
	slices.SortStableFunc(r.backend.Result.Codes, func(a, b *Code) int { return cmp.Compare(a.Value, b.Value) })
}

// resultType sees to it that the type of the results is the provider's, or one of the library's.
func (r *backendResolver) resultType(d specfile.Text) {
	if !d.Valid {
		return
	}
	if r.lib != nil {
		r.lib.result = r.lib.types.lookup(d)
		if t := r.lib.result; t != nil && (t.Size != 4 || !isNumber(t)) {
			r.mistakes.Add(d.Pos, "the type of the result is %q, expected an enum or a number of 32 bits", t.Name)
		}
		return
	}
	pkg, _, qualified := strings.Cut(d.Value, ".")
	if r.decl.Provider.Package.Valid && (!qualified || pkg != r.backend.Provider.PkgName) {
		r.mistakes.AddRelated(d.Pos, r.decl.Provider.Package.Pos, "the package is here",
			"the type of the result is %q, expected one of the provider's package %s", d.Value, r.backend.Provider.PkgName)
	}
}

// class finds a class of the contract, as find does.
func (r *backendResolver) class(name specfile.Text) *Class {
	return find(r.mistakes, "class", name, r.contract.Classes, func(c *Class) string { return c.Name })
}

// operation finds an operation of the contract that a function can do, as find does.
func (r *backendResolver) operation(name specfile.Text) *Operation {
	o := find(r.mistakes, "operation", name, r.contract.Operations, func(o *Operation) string { return o.Name })
	if o != nil && o.Opens {
		r.mistakes.Add(name.Pos, "operation %q makes the driver, which no function does, expected another one", o.Name)
		return nil
	}
	return o
}

// find finds what has a name. When nothing has, it reports that and returns the
// one that was likely meant, so that it is not missed too, or nil.
func find[T any](mistakes *diag.List, what string, name specfile.Text, all []*T, nameOf func(*T) string) *T {
	if !name.Valid {
		return nil
	}
	known := make([]string, len(all))
	for i, one := range all {
		known[i] = nameOf(one)
	}
	i := slices.Index(known, name.Value)
	if i < 0 {
		mistakes.Add(name.Pos, "unknown %s %q%s", what, name.Value, diag.Expected(name.Value, known))
		i = slices.Index(known, diag.Nearest(name.Value, known))
	}
	if i < 0 {
		return nil
	}
	return all[i]
}

// enums resolves the driver's numbers, in the order of the contract.
func (r *backendResolver) enums() {
	maps := map[*Enum]*EnumMap{}
	for _, d := range r.decl.Enums.Items {
		e := find(r.mistakes, "enum", d.Key, r.contract.Enums, func(e *Enum) string { return e.Name })
		if e != nil {
			maps[e] = &EnumMap{Pos: d.Key.Pos, Enum: e, Values: r.enumNumbers(e, d.Value)}
		}
	}
	for _, e := range r.contract.Enums {
		if m := maps[e]; m != nil {
			r.backend.Enums = append(r.backend.Enums, m)
		}
	}
}

// enumNumbers resolves the driver's numbers of one enum, in the order of the contract.
func (r *backendResolver) enumNumbers(e *Enum, decls specfile.Entries[specfile.Literal]) []*EnumMapValue {
	numbers := newScope("number", r.mistakes)
	var values []*EnumMapValue
	for _, d := range decls.Items {
		v := find(r.mistakes, "value of enum "+e.Name, d.Key, e.Values, func(v *EnumValue) string { return v.Name })
		if v == nil || !d.Value.Valid {
			continue
		}
		number, named := r.number(d.Value, nil)
		if number == nil {
			continue
		}
		numbers.claim(fmt.Sprint(*number), fmt.Sprintf("value %q", v.Name), d.Value.Pos)
		values = append(values, &EnumMapValue{Value: v, Number: *number, Named: named})
	}
	slices.SortFunc(values, func(a, b *EnumMapValue) int { return int(a.Value.Value - b.Value.Value) })
	return values
}

// number reads a number or, with a library, the name of one of the values of a type, or of any
// type if that is nil. It returns nil for what is neither, which is reported.
func (r *backendResolver) number(d specfile.Literal, t *CType) (number *int64, named *CValue) {
	n, err := specfile.ParseInteger(d.Value)
	switch {
	case err == nil:
		return &n, nil
	case d.Null || r.lib == nil || !token.IsIdentifier(d.Value):
		r.mistakes.Add(d.Pos, "expected a number, found %s", d)
		return nil, nil
	}
	named = r.lib.types.value(d.Text, t)
	if named == nil {
		return nil, nil
	}
	return &named.Value, named
}

// checkEnums reports numbers that no function takes.
func (r *backendResolver) checkEnums() {
	for _, m := range r.backend.Enums {
		if !r.carried[m] {
			r.mistakes.Add(m.Pos, "no parameter carries the numbers of enum %q", m.Enum.Name)
		}
	}
}

// capabilities resolves the backend's answers, in the order of the contract.
func (r *backendResolver) capabilities() {
	answers := map[*Capability]bool{}
	for _, d := range r.decl.Capabilities.Items {
		c := find(r.mistakes, "capability", d.Key, r.contract.Capabilities, func(c *Capability) string { return c.Name })
		if c != nil {
			answers[c] = d.Value.Value
		}
	}
	pos := r.decl.Pos
	if r.decl.Capabilities.Given() {
		pos = r.decl.Capabilities.Pos
	}
	for _, c := range r.contract.Capabilities {
		value, stated := answers[c]
		if !stated {
			r.mistakes.Add(pos, "capability %q is not stated, expected true or false", c.Name)
		}
		r.backend.Capabilities = append(r.backend.Capabilities, &CapabilityValue{Capability: c, Value: value})
	}
}
