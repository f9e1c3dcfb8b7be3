package ir

import (
	"fmt"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// statusName is the enum that calls answer with, okName its value for success,
// and sizeField the first field of a struct that may grow.
const (
	statusName = "status"
	okName     = "ok"
	sizeField  = "struct_size"
)

// An abiResolver makes an ABI out of its declaration.
type abiResolver struct {
	mistakes *diag.List
	decl     *specfile.ABI
	abi      *ABI
	cNames   *scope // of the header
	goNames  *scope // of package capi
	methods  *scope // of capi.Library

	types     map[string]*Type
	typeNames []string // in the order of declaration, for suggestions
	enums     map[string]*Enum
	structs   map[string]*Struct
	bodies    []func() // resolve what may refer to any type
}

// resolveABI resolves spec/abi.yaml and adds what is wrong to mistakes.
func resolveABI(decl *specfile.ABI, mistakes *diag.List) *ABI {
	r := &abiResolver{
		mistakes: mistakes,
		decl:     decl,
		abi: &ABI{
			Pos:         decl.Name.Pos,
			Name:        decl.Name.Value,
			Description: decl.Description.Value,
			Major:       int(decl.Version.Major.Value),
			Minor:       int(decl.Version.Minor.Value),
			Release:     decl.Release.Value,
		},
		cNames:  newScope("C name", mistakes),
		goNames: newScope("Go name", mistakes),
		methods: newScope("Go name", mistakes),
		types:   map[string]*Type{},
		enums:   map[string]*Enum{},
		structs: map[string]*Struct{},
	}
	for _, t := range builtins {
		r.addType(t)
	}
	r.declareTypes()
	r.checkStatus()
	for _, resolve := range r.bodies {
		resolve()
	}
	for _, d := range decl.Functions.Items {
		if d.Name.Valid {
			r.abi.Functions = append(r.abi.Functions, r.function(d))
		}
	}
	return r.abi
}

// declareTypes makes every type known, so that the order of declaration does not matter.
func (r *abiResolver) declareTypes() {
	for _, d := range r.decl.Handles.Items {
		if r.claimType("handle", d.Name) {
			h := &Handle{Pos: d.Name.Pos, Name: d.Name.Value, CName: r.cName(d.Name), GoName: exported(d.Name.Value), Description: d.Description.Value}
			r.abi.Handles = append(r.abi.Handles, h)
			r.addType(handleType(h))
		}
	}
	for _, d := range r.decl.Enums.Items {
		if r.claimType("enum", d.Name) {
			e := r.enum(d)
			r.abi.Enums = append(r.abi.Enums, e)
			r.enums[e.Name] = e
			r.addType(enumType(e))
		}
	}
	for _, d := range r.decl.Callbacks.Items {
		if r.claimType("callback", d.Name) {
			c := &Callback{Pos: d.Name.Pos, Name: d.Name.Value, CName: r.cName(d.Name), GoName: exported(d.Name.Value), Description: d.Description.Value}
			r.abi.Callbacks = append(r.abi.Callbacks, c)
			r.addType(callbackType(c))
			r.bodies = append(r.bodies, func() { r.resolveCallback(c, d) })
		}
	}
	for _, d := range r.decl.Structs.Items {
		if r.claimType("struct", d.Name) {
			s := &Struct{Pos: d.Name.Pos, Name: d.Name.Value, CName: r.cName(d.Name), GoName: exported(d.Name.Value), Description: d.Description.Value}
			s.Sized = len(d.Fields.Items) > 0 && d.Fields.Items[0].Name.Value == sizeField
			r.abi.Structs = append(r.abi.Structs, s)
			r.structs[s.Name] = s
			t := structType(s)
			r.addType(t)
			r.bodies = append(r.bodies, func() {
				r.resolveStruct(s, d.Fields.Items)
				layOut(s)
				r.checkOlder(s)
				t.Size, t.Align = s.Size, s.Align
			})
		}
	}
}

// claimType takes the names of a type and tells whether it is the first with its name.
func (r *abiResolver) claimType(kind string, name specfile.Text) bool {
	if !name.Valid {
		return false
	}
	what := fmt.Sprintf("%s %q", kind, name.Value)
	r.checkWord(kind, name)
	if builtin(name.Value) != nil {
		r.mistakes.Add(name.Pos, "%s has the name of a built-in type", what)
		return false
	}
	if !r.cNames.claim(r.cName(name), what, name.Pos) {
		return false
	}
	r.goNames.claim(exported(name.Value), what, name.Pos)
	return true
}

func (r *abiResolver) addType(t *Type) {
	r.types[t.Name] = t
	r.typeNames = append(r.typeNames, t.Name)
}

// cName is the name in C of what has a name in the spec.
func (r *abiResolver) cName(name specfile.Text) string { return r.abi.Name + "_" + name.Value }

// checkWord reports a name that a language takes for itself.
func (r *abiResolver) checkWord(what string, name specfile.Text) {
	if language := keywordOf(name.Value); language != "" {
		r.mistakes.Add(name.Pos, "%s %q has the name of a word of %s", what, name.Value, language)
	}
}

// enum resolves an enum. Its C values have its name before theirs.
func (r *abiResolver) enum(d specfile.Enum) *Enum {
	e := &Enum{Pos: d.Name.Pos, Name: d.Name.Value, CName: r.cName(d.Name), GoName: exported(d.Name.Value), Description: d.Description.Value}
	numbers := newScope("number", r.mistakes)
	for _, dv := range d.Values.Items {
		if !dv.Name.Valid {
			continue
		}
		v := &EnumValue{
			Pos:         dv.Name.Pos,
			Name:        dv.Name.Value,
			CName:       upper(r.abi.Name, e.Name, dv.Name.Value),
			GoName:      e.GoName + exported(dv.Name.Value),
			Value:       dv.Value.Value,
			Description: dv.Description.Value,
		}
		e.Values = append(e.Values, v)
		what := fmt.Sprintf("value %q of enum %q", v.Name, e.Name)
		if r.cNames.claim(v.CName, what, v.Pos) {
			r.goNames.claim(v.GoName, what, v.Pos)
		}
		if dv.Value.Valid {
			numbers.claim(fmt.Sprint(v.Value), what, dv.Value.Pos)
		}
	}
	return e
}

// checkStatus finds the status enum, in which 0 is success.
func (r *abiResolver) checkStatus() {
	if len(r.decl.Enums.Items) == 0 {
		return
	}
	status := r.enums[statusName]
	if status == nil {
		r.mistakes.Add(r.decl.Enums.Pos, "there is no enum %q, expected one with the value %s: 0", statusName, okName)
		return
	}
	r.abi.Status = status
	switch ok := status.Value(okName); {
	case ok == nil:
		r.mistakes.Add(status.Pos, "enum %q has no value %q, expected %s: 0", statusName, okName, okName)
	case ok.Value != 0:
		r.mistakes.Add(ok.Pos, "value %q of enum %q is %d, expected 0", okName, statusName, ok.Value)
	}
	for _, v := range status.Values {
		if v.Value < 0 || v.Value > maxStatus {
			r.mistakes.Add(v.Pos, "value %q of enum %q is %d, expected 0 to %d: libraries have a table of them", v.Name, statusName, v.Value, maxStatus)
		}
	}
	for _, name := range guardStatuses {
		if status.Value(name) == nil {
			r.mistakes.Add(status.Pos, "enum %q has no value %q, expected one: every library answers it without asking Go", statusName, name)
		}
	}
}

// maxStatus bounds the table of statuses that every library has.
const maxStatus = 4095

// guardStatuses are what the guard in front of Go answers by itself, beside success.
var guardStatuses = []string{"invalid_argument", "forked", "second_library"}

// lookup finds the type that a declaration names, nil when there is none, which is reported.
func (r *abiResolver) lookup(name specfile.Text) *Type {
	if !name.Valid {
		return nil
	}
	t := r.types[name.Value]
	if t == nil {
		r.mistakes.Add(name.Pos, "unknown type %q%s", name.Value, diag.Expected(name.Value, r.typeNames))
	}
	return t
}

func (r *abiResolver) resolveCallback(c *Callback, d specfile.Callback) {
	c.Params = r.params(d.Params.Items, callbackRoles)
	c.Returns = r.result(d.Returns, "a callback", returnable)
}

func (r *abiResolver) function(d specfile.Function) *Function {
	f := &Function{
		Pos:         d.Name.Pos,
		Name:        d.Name.Value,
		Symbol:      r.cName(d.Name),
		GoName:      exported(d.Name.Value),
		ExportName:  "go" + exported(d.Name.Value),
		Since:       d.Since.Value.String(),
		Answer:      d.Answer.Value,
		Description: d.Description.Value,
	}
	name := d.Name
	if d.Symbol.Valid {
		f.Symbol, name = d.Symbol.Value, d.Symbol
	}
	r.checkWord("function", d.Name)
	what := fmt.Sprintf("function %q", f.Name)
	if r.cNames.claim(f.Symbol, what, name.Pos) {
		r.methods.claim(f.GoName, what, d.Name.Pos)
	}
	r.checkSince(d.Since)
	f.Params = r.params(d.Params.Items, functionRoles)
	if f.Answer == "go" {
		f.Returns = r.goResult(d.Returns)
	} else {
		f.Returns = r.result(d.Returns, "a function", returnable)
	}
	return f
}

// checkSince refuses versions that the interface has not reached.
func (r *abiResolver) checkSince(since specfile.Scalar[specfile.VersionNumber]) {
	major, minor := r.decl.Version.Major, r.decl.Version.Minor
	now := specfile.VersionNumber{Major: major.Value, Minor: minor.Value}
	if since.Valid && major.Valid && minor.Valid && since.Value.Compare(now) > 0 {
		r.mistakes.AddRelated(since.Pos, r.decl.Version.Pos, "the version is here",
			"since is %s, later than the version of the interface, %s", since.Value, now)
	}
}
