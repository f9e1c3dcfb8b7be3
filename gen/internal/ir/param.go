package ir

import (
	"fmt"
	"slices"

	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// roles says which kinds of type can go which way.
type roles map[ParamRole][]TypeKind

var functionRoles = roles{
	RoleValue:  {KindScalar, KindPointer, KindText, KindHandle, KindEnum, KindCallback},
	RoleIn:     {KindStruct},
	RoleOut:    {KindScalar, KindPointer, KindHandle, KindEnum, KindStruct},
	RoleInOut:  {KindStruct},
	RoleBuffer: {KindScalar, KindChar, KindHandle, KindEnum, KindStruct},
}

var callbackRoles = roles{
	RoleValue: {KindScalar, KindPointer, KindText, KindHandle, KindEnum},
	RoleOut:   {KindScalar, KindPointer, KindHandle, KindEnum},
}

// returnable are the kinds of type that a result can have.
var returnable = []TypeKind{KindVoid, KindScalar, KindPointer, KindText, KindHandle, KindEnum}

// params resolves the parameters of a function or callback.
func (r *abiResolver) params(decls []specfile.Param, allowed roles) []*Param {
	goNames := newScope("Go name", r.mistakes)
	var params []*Param
	for _, d := range decls {
		if !d.Name.Valid {
			continue
		}
		r.checkWord("parameter", d.Name)
		goNames.claim(local(d.Name.Value), fmt.Sprintf("parameter %q", d.Name.Value), d.Name.Pos)
		if t := r.lookup(d.Type); t != nil {
			p := &Param{
				Pos:         d.Name.Pos,
				Name:        d.Name.Value,
				GoName:      local(d.Name.Value),
				Type:        t,
				Role:        RoleValue,
				CountParam:  d.Count.Value,
				Description: d.Description.Value,
			}
			if d.Role.Given() {
				p.Role = ParamRole(d.Role.Value)
			}
			if d.Role.Valid == d.Role.Given() {
				r.checkRole(p, d, allowed)
			}
			params = append(params, p)
		}
	}
	for _, d := range decls {
		if d.Role.Valid == d.Role.Given() {
			r.checkCount(d, decls)
		}
	}
	return params
}

// checkRole refuses a type that cannot go the way that its parameter says.
func (r *abiResolver) checkRole(p *Param, d specfile.Param, allowed roles) {
	sized := p.Type.Kind == KindStruct && r.structs[p.Type.Name].Sized
	switch kinds, ok := allowed[p.Role]; {
	case !ok:
		r.mistakes.Add(d.Role.Pos, "a callback's parameter cannot have the role %s, expected out or none", p.Role)
	case p.Type.Kind == KindStruct && p.Role == RoleValue:
		r.mistakes.Add(d.Type.Pos, "struct %q cannot go by value, expected a role", p.Type.Name)
	case !slices.Contains(kinds, p.Type.Kind) && p.Role == RoleValue:
		r.mistakes.Add(d.Type.Pos, "a parameter cannot be of type %q", p.Type.Name)
	case !slices.Contains(kinds, p.Type.Kind):
		r.mistakes.Add(d.Role.Pos, "type %q cannot have the role %s", p.Type.Name, p.Role)
	case p.Role == RoleInOut && !sized:
		r.mistakes.Add(d.Role.Pos, "struct %q cannot have the role inout, expected one that starts with %s", p.Type.Name, sizeField)
	case (p.Role == RoleOut || p.Role == RoleBuffer) && sized:
		r.mistakes.Add(d.Role.Pos, "struct %q starts with %s, expected the role in or inout", p.Type.Name, sizeField)
	}
}

// checkCount finds the parameter that says how many entries a buffer has.
func (r *abiResolver) checkCount(d specfile.Param, all []specfile.Param) {
	buffer := d.Role.Value == string(RoleBuffer)
	switch {
	case d.Count.Given() && !buffer:
		r.mistakes.Add(d.Count.Pos, "parameter %q has a count, expected one for a buffer only", d.Name.Value)
	case !buffer:
	case !d.Count.Given():
		r.mistakes.Add(d.Role.Pos, "buffer %q has no count, expected the name of the parameter that says how many fit", d.Name.Value)
	case !slices.ContainsFunc(all, func(c specfile.Param) bool {
		return c.Name.Value == d.Count.Value && c.Type.Value == "size" && !c.Role.Given()
	}):
		r.mistakes.Add(d.Count.Pos, "count is %q, expected a parameter of the same function with the type size and no role", d.Count.Value)
	}
}

// result resolves the type that a function or callback answers with.
func (r *abiResolver) result(d specfile.Text, what string, allowed []TypeKind) *Type {
	t := r.lookup(d)
	if t != nil && !slices.Contains(allowed, t.Kind) {
		r.mistakes.Add(d.Pos, "%s cannot return the type %q", what, t.Name)
	}
	return t
}

// goResult resolves the type that a function answers with when Go does: one that
// the guard has a value of for a call that cannot go through.
func (r *abiResolver) goResult(d specfile.Text) *Type {
	t := r.lookup(d)
	if t != nil && t.Name != statusName && t.Kind != KindPointer && t.Kind != KindVoid {
		r.mistakes.Add(d.Pos, "a function that Go answers cannot return the type %q, expected status, pointer or void", t.Name)
	}
	return t
}
