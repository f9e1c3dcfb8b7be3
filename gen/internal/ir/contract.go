package ir

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// Types of values with rules of their own.
const (
	flagType   = "flag"
	textType   = "text"
	memoryType = "memory"
	fabricType = "fabric_handle"
)

// unknownClass is the class of a result that a backend does not list.
const unknownClass = "unknown"

// valueTypes are the types of inputs and outputs that every contract has, and what they are in Go.
var valueTypes = []struct{ name, goType string }{
	{"bytes", "uint64"},
	{"address", "uint64"},
	{"handle", "uint64"},
	{"stream", "uint64"},
	{"int", "int"},
	{"flag", "bool"},
	{"text", "string"},
	{"memory", "[]byte"},
	{"fabric_handle", "[64]byte"},
}

// A contractResolver makes a Contract out of its declaration.
type contractResolver struct {
	mistakes *diag.List
	contract *Contract
	goNames  *scope // of package vmm
}

// resolveContract resolves spec/vmm.yaml and adds what is wrong to mistakes.
func resolveContract(decl *specfile.Contract, mistakes *diag.List) *Contract {
	r := &contractResolver{
		mistakes: mistakes,
		contract: &Contract{Pos: decl.Name.Pos, Name: decl.Name.Value, Description: decl.Description.Value},
		goNames:  newScope("Go name", mistakes),
	}
	r.classes(decl)
	r.enums(decl)
	r.capabilities(decl)
	r.quirks(decl)
	r.operations(decl)
	r.helpers(decl)
	return r.contract
}

func (r *contractResolver) classes(decl *specfile.Contract) {
	for _, d := range decl.Classes.Items {
		if !d.Name.Valid {
			continue
		}
		c := &Class{Pos: d.Name.Pos, Name: d.Name.Value, GoName: "Class" + exported(d.Name.Value), Description: d.Description.Value}
		if r.goNames.claim(c.GoName, fmt.Sprintf("class %q", c.Name), c.Pos) {
			r.contract.Classes = append(r.contract.Classes, c)
		}
	}
	known := slices.ContainsFunc(r.contract.Classes, func(c *Class) bool { return c.Name == unknownClass })
	if len(decl.Classes.Items) > 0 && !known {
		r.mistakes.Add(decl.Classes.Pos, "there is no class %q, expected it for results that a backend does not list", unknownClass)
	}
}

func (r *contractResolver) enums(decl *specfile.Contract) {
	for _, d := range decl.Enums.Items {
		if !d.Name.Valid {
			continue
		}
		e := &Enum{Pos: d.Name.Pos, Name: d.Name.Value, GoName: exported(d.Name.Value), Description: d.Description.Value}
		what := fmt.Sprintf("enum %q", e.Name)
		if slices.ContainsFunc(valueTypes, func(t struct{ name, goType string }) bool { return t.name == e.Name }) {
			r.mistakes.Add(e.Pos, "%s has the name of a built-in type", what)
		}
		if r.goNames.claim(e.GoName, what, e.Pos) {
			e.Values = r.enumValues(e, d.Values.Items)
			r.contract.Enums = append(r.contract.Enums, e)
		}
	}
}

func (r *contractResolver) enumValues(e *Enum, decls []specfile.EnumValue) []*EnumValue {
	var values []*EnumValue
	for i, d := range decls {
		if !d.Name.Valid {
			continue
		}
		v := &EnumValue{Pos: d.Name.Pos, Name: d.Name.Value, GoName: e.GoName + exported(d.Name.Value), Value: int64(i), Description: d.Description.Value}
		if r.goNames.claim(v.GoName, fmt.Sprintf("value %q of enum %q", v.Name, e.Name), v.Pos) {
			values = append(values, v)
		}
	}
	return values
}

func (r *contractResolver) capabilities(decl *specfile.Contract) {
	names := newScope("Go name", r.mistakes)
	for _, d := range decl.Capabilities.Items {
		if !d.Name.Valid {
			continue
		}
		c := &Capability{Pos: d.Name.Pos, Name: d.Name.Value, GoName: exported(d.Name.Value), Description: d.Description.Value}
		if names.claim(c.GoName, fmt.Sprintf("capability %q", c.Name), c.Pos) {
			r.contract.Capabilities = append(r.contract.Capabilities, c)
		}
	}
}

func (r *contractResolver) quirks(decl *specfile.Contract) {
	names := newScope("Go name", r.mistakes)
	for _, d := range decl.Quirks.Items {
		if !d.Name.Valid {
			continue
		}
		q := &Quirk{Pos: d.Name.Pos, Name: d.Name.Value, GoName: exported(d.Name.Value), Type: d.Type.Value, Description: d.Description.Value}
		if names.claim(q.GoName, fmt.Sprintf("quirk %q", q.Name), q.Pos) {
			r.contract.Quirks = append(r.contract.Quirks, q)
		}
	}
}

func (r *contractResolver) operations(decl *specfile.Contract) {
	var opening *Operation
	for _, d := range decl.Operations.Items {
		if !d.Name.Valid {
			continue
		}
		goNames := newScope("Go name", r.mistakes)
		o := &Operation{
			Pos:         d.Name.Pos,
			Name:        d.Name.Value,
			GoName:      exported(d.Name.Value),
			OpName:      "Op" + exported(d.Name.Value),
			Description: d.Description.Value,
			Opens:       d.Opens.Value,
			Inputs:      r.values("input", d.Inputs.Items, goNames),
			Outputs:     r.values("output", d.Outputs.Items, goNames),
		}
		r.checkOperation(o)
		switch {
		case !o.Opens:
		case opening == nil:
			opening = o
		default:
			r.mistakes.AddRelated(o.Pos, opening.Pos, "the other one is here", "operation %q makes the driver too, expected one that does", o.Name)
		}
		if r.goNames.claim(o.OpName, fmt.Sprintf("operation %q", o.Name), o.Pos) {
			r.contract.Operations = append(r.contract.Operations, o)
		}
	}
	if len(decl.Operations.Items) > 0 && opening == nil {
		r.mistakes.Add(decl.Operations.Pos, "no operation makes the driver, expected one with opens: true")
	}
}

// checkOperation refuses inputs and outputs that nothing could carry.
func (r *contractResolver) checkOperation(o *Operation) {
	if o.Opens && len(o.Inputs)+len(o.Outputs) > 0 {
		r.mistakes.Add(o.Pos, "operation %q makes the driver, expected no inputs and outputs", o.Name)
	}
	for _, v := range o.Outputs {
		if v.Type == memoryType {
			r.mistakes.Add(v.Pos, "output %q cannot be of type %q: memory is the caller's", v.Name, v.Type)
		}
	}
	for _, v := range o.Inputs {
		if v.Type == textType {
			r.mistakes.Add(v.Pos, "input %q cannot be of type %q", v.Name, v.Type)
		}
	}
}

func (r *contractResolver) helpers(decl *specfile.Contract) {
	names := newScope("name", r.mistakes)
	for _, d := range decl.Helpers.Items {
		if !d.Name.Valid {
			continue
		}
		h := &Helper{Pos: d.Name.Pos, Name: d.Name.Value, Description: d.Description.Value, Inputs: valid(d.Inputs), Outputs: valid(d.Outputs)}
		if names.claim(h.Name, fmt.Sprintf("helper %q", h.Name), h.Pos) {
			r.contract.Helpers = append(r.contract.Helpers, h)
		}
	}
	slices.SortFunc(r.contract.Helpers, func(a, b *Helper) int { return cmp.Compare(a.Name, b.Name) })
}

// valid are the texts of a list that are as they should be.
func valid(list specfile.List[specfile.Text]) []string {
	var texts []string
	for _, text := range list.Items {
		if text.Valid {
			texts = append(texts, text.Value)
		}
	}
	return texts
}

// values resolves the inputs or outputs of an operation.
func (r *contractResolver) values(what string, decls []specfile.Value, goNames *scope) []*Value {
	var values []*Value
	for _, d := range decls {
		v := r.value(d)
		if v != nil && goNames.claim(v.GoName, fmt.Sprintf("%s %q", what, v.Name), v.Pos) {
			values = append(values, v)
		}
	}
	return values
}

// value resolves an input or output, nil when its type is unknown, which is reported.
func (r *contractResolver) value(d specfile.Value) *Value {
	if !d.Name.Valid || !d.Type.Valid {
		return nil
	}
	if slices.Contains(reservedNames, d.Name.Value) {
		r.mistakes.Add(d.Name.Pos, "%q cannot be a name here: in a backend's file it is something else", d.Name.Value)
	}
	v := &Value{Pos: d.Name.Pos, Name: d.Name.Value, GoName: local(d.Name.Value), Type: d.Type.Value, Description: d.Description.Value}
	var known []string
	for _, t := range valueTypes {
		if t.name == v.Type {
			v.GoType = t.goType
			return v
		}
		known = append(known, t.name)
	}
	for _, e := range r.contract.Enums {
		if e.Name == v.Type {
			v.GoType, v.Enum = e.GoName, e
			return v
		}
		known = append(known, e.Name)
	}
	r.mistakes.Add(d.Type.Pos, "unknown type %q%s", v.Type, diag.Expected(v.Type, known))
	return nil
}
