package ir

import (
	"fmt"
	"go/token"
	"slices"
	"strings"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// The roles of a driver function's parameter that are no input's name.
const (
	roleConst = "const"
	outPrefix = "out."
)

// driverTypes are what a driver's function can take.
var driverTypes = []string{"int32", "uint32", "int64", "uint64"}

// bindings resolves the driver's functions, in the order of the contract's operations.
func (r *backendResolver) bindings() {
	done := newScope("operation", r.mistakes)
	bound := map[*Operation]*Binding{}
	for _, d := range r.decl.Functions.Items {
		if !d.Name.Valid {
			continue
		}
		b := r.binding(d)
		if b.Does != nil && done.claim(b.Does.Name, fmt.Sprintf("function %q", b.Name), d.Does.Pos) {
			bound[b.Does] = b
		}
	}
	unsupported := map[*Operation]bool{}
	for _, name := range r.decl.Unsupported.Items {
		if o := r.operation(name); o != nil {
			done.claim(o.Name, fmt.Sprintf("%q under unsupported", o.Name), name.Pos)
			unsupported[o] = true
		}
	}
	for _, o := range r.contract.Operations {
		switch {
		case bound[o] != nil:
			r.backend.Functions = append(r.backend.Functions, bound[o])
		case o.Opens:
		case unsupported[o]:
			r.backend.Unsupported = append(r.backend.Unsupported, o)
		case len(r.decl.Functions.Items) > 0:
			r.mistakes.Add(r.decl.Functions.Pos, "no function does operation %q, expected one, or its name under unsupported", o.Name)
		}
	}
}

// binding resolves one function of the driver.
func (r *backendResolver) binding(d specfile.Binding) *Binding {
	b := &Binding{Pos: d.Name.Pos, Name: d.Name.Value, Does: r.operation(d.Does)}
	if !token.IsExported(b.Name) {
		r.mistakes.Add(b.Pos, "function %q is not exported, expected a name with a capital letter: it is a method of the provider", b.Name)
	}
	names := newScope("name", r.mistakes)
	for _, dp := range d.Params.Items {
		if dp.Name.Valid {
			names.claim(dp.Name.Value, fmt.Sprintf("parameter %q", dp.Name.Value), dp.Name.Pos)
			b.Params = append(b.Params, r.boundParam(dp, b.Does))
		}
	}
	if b.Does != nil {
		r.checkCarried(b, d)
	}
	return b
}

// boundParam resolves one parameter of a function that does operation o, nil when that is unknown.
func (r *backendResolver) boundParam(d specfile.BoundParam, o *Operation) *BoundParam {
	p := &BoundParam{Pos: d.Name.Pos, Name: d.Name.Value, GoType: d.Type.Value}
	if language := keywordOf(p.Name); language == "C" || language == "Go" {
		r.mistakes.Add(p.Pos, "parameter %q has the name of a word of %s", p.Name, language)
	}
	t := r.driverType(d.Type)
	if d.Role.Valid && d.Role.Value != roleConst && d.Value.Given() {
		r.mistakes.Add(d.Value.Pos, "parameter %q has a value, expected none but for the role const", p.Name)
	}
	switch {
	case !d.Role.Valid:
	case d.Role.Value == roleConst:
		r.constant(p, d, t)
	case o != nil:
		r.bind(p, d.Role, o)
		r.checkWidth(p, d, t)
	}
	return p
}

// driverType finds a type that a driver's function can take, nil when there is none, which is reported.
func (r *backendResolver) driverType(name specfile.Text) *Type {
	if !name.Valid {
		return nil
	}
	if !slices.Contains(driverTypes, name.Value) {
		r.mistakes.Add(name.Pos, "unknown type %q%s", name.Value, diag.Expected(name.Value, driverTypes))
		return nil
	}
	return builtin(name.Value)
}

// constant gives a parameter the number that it always has.
func (r *backendResolver) constant(p *BoundParam, d specfile.BoundParam, t *Type) {
	switch {
	case !d.Value.Given():
		r.mistakes.Add(d.Role.Pos, "parameter %q is a constant without a value", p.Name)
	case t != nil && !holds(t, d.Value.Value):
		r.mistakes.Add(d.Value.Pos, "the value %d does not fit into type %q", d.Value.Value, t.Name)
	}
	p.Const = &d.Value.Value
}

// bind connects a parameter with the input or output of the operation that its role names.
func (r *backendResolver) bind(p *BoundParam, role specfile.Text, o *Operation) {
	name, out := strings.CutPrefix(role.Value, outPrefix)
	input, output := named(o.Inputs, name), named(o.Outputs, name)
	switch {
	case out && output != nil:
		p.Output = output
	case out && input != nil:
		r.mistakes.Add(role.Pos, "%q is an input of operation %q, expected the role %s", name, o.Name, name)
		p.Input = input
	case out || input == nil && output == nil:
		r.unknownRole(p, role, o)
	case output != nil:
		r.mistakes.Add(role.Pos, "%q is an output of operation %q, expected the role %s%s", name, o.Name, outPrefix, name)
		p.Output = output
	default:
		p.Input = input
	}
}

// unknownRole reports a role that an operation does not have. The parameter gets
// the one that was likely meant, so that it is not missed too.
func (r *backendResolver) unknownRole(p *BoundParam, role specfile.Text, o *Operation) {
	var known []string
	for _, v := range o.Inputs {
		known = append(known, v.Name)
	}
	for _, v := range o.Outputs {
		known = append(known, outPrefix+v.Name)
	}
	known = append(known, roleConst)
	r.mistakes.Add(role.Pos, "operation %q has no role %q%s", o.Name, role.Value, diag.Expected(role.Value, known))
	nearest, out := strings.CutPrefix(diag.Nearest(role.Value, known), outPrefix)
	if out {
		p.Output = named(o.Outputs, nearest)
	} else {
		p.Input = named(o.Inputs, nearest)
	}
}

// named finds a value by its name, nil when there is none.
func named(values []*Value, name string) *Value {
	i := slices.IndexFunc(values, func(v *Value) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	return values[i]
}

// checkWidth refuses a driver's type that cannot hold all that the operation's
// input or output can be, and finds the driver's numbers of an enum.
func (r *backendResolver) checkWidth(p *BoundParam, d specfile.BoundParam, t *Type) {
	v := p.Input
	if v == nil {
		v = p.Output
	}
	switch {
	case v == nil || t == nil:
	case v == p.Input && v.Enum != nil:
		r.bindEnum(p, d, t)
	case v.GoType == "uint64" && t.Name != "uint64":
		r.mistakes.Add(d.Type.Pos, "parameter %q carries type %s, expected uint64, found %s", p.Name, v.Type, t.Name)
	}
}

// bindEnum finds the driver's numbers for an input that is an enum.
func (r *backendResolver) bindEnum(p *BoundParam, d specfile.BoundParam, t *Type) {
	e := p.Input.Enum
	i := slices.IndexFunc(r.backend.Enums, func(m *EnumMap) bool { return m.Enum == e })
	if i < 0 {
		r.mistakes.Add(d.Role.Pos, "enum %q has no numbers here, expected them under enums", e.Name)
		return
	}
	p.Enum = r.backend.Enums[i]
	for _, v := range p.Enum.Values {
		if !holds(t, v.Number) {
			r.mistakes.Add(d.Type.Pos, "the number %d of %s %q does not fit into type %q", v.Number, e.Name, v.Value.Name, t.Name)
		}
	}
}

// checkCarried sees to it that a parameter carries each input and output of the
// operation, but for the inputs that the driver does not need.
func (r *backendResolver) checkCarried(b *Binding, d specfile.Binding) {
	carriers := map[*Value]int{}
	for _, p := range b.Params {
		carriers[p.Input]++
		carriers[p.Output]++
	}
	ignored := map[*Value]bool{}
	for _, name := range d.Ignores.Items {
		v := find(r.mistakes, "input", name, b.Does.Inputs, func(v *Value) string { return v.Name })
		if v != nil && carriers[v] > 0 {
			r.mistakes.Add(name.Pos, "input %q is ignored, and a parameter carries it", v.Name)
		}
		ignored[v] = true
	}
	for _, v := range b.Does.Inputs {
		if carriers[v] == 0 && !ignored[v] {
			r.mistakes.Add(b.Pos, "no parameter of function %q has the role %s, expected one, or the input under ignores", b.Name, v.Name)
		}
	}
	for _, v := range b.Does.Outputs {
		if carriers[v] != 1 {
			r.mistakes.Add(b.Pos, "%d parameters of function %q have the role %s%s, expected one", carriers[v], b.Name, outPrefix, v.Name)
		}
	}
}
