package ir

import (
	"fmt"
	"go/token"
	"slices"
	"strings"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// libraryTypes are the types of values that only a library's function can carry.
var libraryTypes = []string{flagType, textType, memoryType, fabricType}

// providerTypes are what a provider's function can take.
var providerTypes = []string{"int32", "uint32", "int64", "uint64"}

// bindings resolves the driver's functions, in the order of the contract's operations. A function whose
// operation is unsupported is resolved like the others, and then put aside: one line takes an operation away.
func (r *backendResolver) bindings() {
	done := newScope("operation", r.mistakes)
	lacking := newScope("operation", r.mistakes)
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
			lacking.claim(o.Name, fmt.Sprintf("%q under unsupported", o.Name), name.Pos)
			unsupported[o] = true
		}
	}
	for _, o := range r.contract.Operations {
		switch {
		case unsupported[o]:
			r.backend.Unsupported = append(r.backend.Unsupported, o)
			if bound[o] != nil {
				r.backend.Idle = append(r.backend.Idle, bound[o])
			}
		case bound[o] != nil:
			r.backend.Functions = append(r.backend.Functions, bound[o])
		case o.Opens:
		case len(r.decl.Functions.Items) > 0:
			r.mistakes.Add(r.decl.Functions.Pos, "no function does operation %q, expected one, or its name under unsupported", o.Name)
		}
	}
}

// binding resolves one function of the driver.
func (r *backendResolver) binding(d specfile.Binding) *Binding {
	b := &Binding{Pos: d.Name.Pos, Name: d.Name.Value, Does: r.operation(d.Does)}
	if r.lib != nil {
		r.cFunction(b, d)
	} else {
		r.providerFunction(b, d)
	}
	if b.Does != nil {
		r.checkCarried(b, d)
	} else if d.Ignores.Given() && !d.Does.Given() {
		r.mistakes.Add(d.Ignores.Pos, "function %q does no operation, expected no inputs that it ignores", b.Name)
	}
	return b
}

// providerFunction resolves a method of the provider.
func (r *backendResolver) providerFunction(b *Binding, d specfile.Binding) {
	if !token.IsExported(b.Name) {
		r.mistakes.Add(b.Pos, "function %q is not exported, expected a name with a capital letter: it is a method of the provider", b.Name)
	}
	what := fmt.Sprintf("function %q", b.Name)
	if !d.Does.Given() {
		r.mistakes.Add(d.Pos, "%s does no operation, expected the key %q", what, "does")
	}
	r.refuse(what, key{"symbol", d.Symbol.Place}, key{"since", d.Since.Place}, key{"optional", d.Optional.Place},
		key{"returns", d.Returns.Place}, key{"within", d.Within.Place}, key{"from", d.From.Place}, key{"plays", d.Plays.Place})
	r.params(b, d, r.providerParam)
}

// params resolves the parameters of a function.
func (r *backendResolver) params(b *Binding, d specfile.Binding, resolve func(specfile.BoundParam, *Binding) *BoundParam) {
	names := newScope("name", r.mistakes)
	for _, dp := range d.Params.Items {
		if dp.Name.Valid {
			names.claim(dp.Name.Value, fmt.Sprintf("parameter %q", dp.Name.Value), dp.Name.Pos)
			b.Params = append(b.Params, resolve(dp, b))
		}
	}
}

// providerParam resolves one parameter of a provider's function.
func (r *backendResolver) providerParam(d specfile.BoundParam, b *Binding) *BoundParam {
	p := &BoundParam{Pos: d.Name.Pos, Name: d.Name.Value, GoType: d.Type.Value}
	what := fmt.Sprintf("parameter %q", p.Name)
	if token.IsKeyword(p.Name) {
		r.mistakes.Add(p.Pos, "%s has the name of a word of Go", what)
	}
	r.refuse(what, key{"declared", d.Declared.Place}, key{"fields", d.Fields.Place}, key{"chain", d.Chain.Place},
		key{"out", d.Out.Place}, key{"count", d.Count.Place})
	t := r.providerType(d.Type)
	r.checkValue(what, d.Role, d.Value)
	switch {
	case !d.Role.Valid:
	case d.Role.Value == roleConst:
		r.providerConstant(p, d, t)
	case b.Does != nil:
		p.Bound = r.bind(d.Role, b.Does, []string{roleConst})
		r.checkProviderType(p, d, t)
	}
	return p
}

// providerType finds a type that a provider's function can take, nil when there is none, which is reported.
func (r *backendResolver) providerType(name specfile.Text) *Type {
	if !name.Valid {
		return nil
	}
	if !slices.Contains(providerTypes, name.Value) {
		r.mistakes.Add(name.Pos, "unknown type %q%s", name.Value, diag.Expected(name.Value, providerTypes))
		return nil
	}
	return builtin(name.Value)
}

// checkValue refuses a value beside a role that has none.
func (r *backendResolver) checkValue(what string, role specfile.Text, value specfile.Literal) {
	switch {
	case !role.Valid:
	case role.Value == roleConst && !value.Given():
		r.mistakes.Add(role.Pos, "%s is a constant without a value", what)
	case role.Value != roleConst && value.Given():
		r.mistakes.Add(value.Pos, "%s has a value, expected none but for the role const", what)
	}
}

// providerConstant gives a parameter the number that it always has.
func (r *backendResolver) providerConstant(p *BoundParam, d specfile.BoundParam, t *Type) {
	p.Kind, p.Const = BoundConst, new(int64)
	if !d.Value.Valid {
		return
	}
	number, _ := r.number(d.Value, nil)
	if number == nil {
		return
	}
	p.Const = number
	if t != nil && !holds(t, *number) {
		r.mistakes.Add(d.Value.Pos, "the value %d does not fit into type %q", *number, t.Name)
	}
}

// bind finds the input or output of the operation that a role names. The names of other roles are
// for suggestions.
func (r *backendResolver) bind(role specfile.Text, o *Operation, others []string) Bound {
	name, out := strings.CutPrefix(role.Value, outPrefix)
	input, output := named(o.Inputs, name), named(o.Outputs, name)
	switch {
	case out && output != nil:
		return Bound{Kind: BoundOutput, Output: output}
	case out && input != nil:
		r.mistakes.Add(role.Pos, "%q is an input of operation %q, expected the role %s", name, o.Name, name)
		return Bound{Kind: BoundInput, Input: input}
	case out || input == nil && output == nil:
		return r.unknownRole(role, o, others)
	case output != nil:
		r.mistakes.Add(role.Pos, "%q is an output of operation %q, expected the role %s%s", name, o.Name, outPrefix, name)
		return Bound{Kind: BoundOutput, Output: output}
	default:
		return Bound{Kind: BoundInput, Input: input}
	}
}

// unknownRole reports a role that an operation does not have. It returns the one that was likely
// meant, so that it is not missed too.
func (r *backendResolver) unknownRole(role specfile.Text, o *Operation, others []string) Bound {
	var known []string
	for _, v := range o.Inputs {
		known = append(known, v.Name)
	}
	for _, v := range o.Outputs {
		known = append(known, outPrefix+v.Name)
	}
	known = append(known, others...)
	r.mistakes.Add(role.Pos, "operation %q has no role %q%s", o.Name, role.Value, diag.Expected(role.Value, known))
	nearest, out := strings.CutPrefix(diag.Nearest(role.Value, known), outPrefix)
	if output := named(o.Outputs, nearest); out && output != nil {
		return Bound{Kind: BoundOutput, Output: output}
	}
	if input := named(o.Inputs, nearest); !out && input != nil {
		return Bound{Kind: BoundInput, Input: input}
	}
	return Bound{}
}

// named finds a value by its name, nil when there is none.
func named(values []*Value, name string) *Value {
	i := slices.IndexFunc(values, func(v *Value) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	return values[i]
}

// checkProviderType refuses a type that cannot hold all that the operation's input or output can
// be, and finds the driver's numbers of an enum.
func (r *backendResolver) checkProviderType(p *BoundParam, d specfile.BoundParam, t *Type) {
	v := p.carries()
	switch {
	case v == nil || t == nil:
	case slices.Contains(libraryTypes, v.Type) || v.Enum != nil && v == p.Output:
		r.mistakes.Add(d.Role.Pos, "parameter %q carries type %s, expected a library: a provider's function cannot take that", p.Name, v.Type)
	case v == p.Input && v.Enum != nil:
		p.Enum = r.enumMap(v.Enum, d.Role)
		r.checkNumbers(p.Enum, d.Type, func(n *EnumMapValue) bool { return holds(t, n.Number) })
	case v.GoType == "uint64" && t.Name != "uint64":
		r.mistakes.Add(d.Type.Pos, "parameter %q carries type %s, expected uint64, found %s", p.Name, v.Type, t.Name)
	}
}

// enumMap finds the driver's numbers for an input that is an enum, nil when there are none, which is reported.
func (r *backendResolver) enumMap(e *Enum, role specfile.Text) *EnumMap {
	i := slices.IndexFunc(r.backend.Enums, func(m *EnumMap) bool { return m.Enum == e })
	if i < 0 {
		r.mistakes.Add(role.Pos, "enum %q has no numbers here, expected them under enums", e.Name)
		return nil
	}
	r.carried[r.backend.Enums[i]] = true
	return r.backend.Enums[i]
}

// checkNumbers refuses a type that does not hold all of an enum's numbers.
func (r *backendResolver) checkNumbers(m *EnumMap, typeName specfile.Text, fits func(*EnumMapValue) bool) {
	if m == nil {
		return
	}
	for _, v := range m.Values {
		if !fits(v) {
			r.mistakes.Add(typeName.Pos, "the number %d of %s %q does not fit into type %q", v.Number, m.Enum.Name, v.Value.Name, typeName.Value)
		}
	}
}

// carries is the input or output of the operation that goes here, or nil.
func (b *Bound) carries() *Value {
	if b.Input != nil {
		return b.Input
	}
	return b.Output
}

// checkCarried sees to it that something carries each input and output of the operation, but for
// the inputs that the driver does not need.
func (r *backendResolver) checkCarried(b *Binding, d specfile.Binding) {
	carriers := map[*Value]int{}
	for slot := range b.slots() {
		carriers[slot.Input]++
		carriers[slot.Output]++
	}
	names := newScope("name", r.mistakes)
	ignored := map[*Value]bool{}
	for _, name := range d.Ignores.Items {
		v := find(r.mistakes, "input", name, b.Does.Inputs, func(v *Value) string { return v.Name })
		if v == nil {
			continue
		}
		names.claim(v.Name, fmt.Sprintf("input %q", v.Name), name.Pos)
		if carriers[v] > 0 {
			r.mistakes.Add(name.Pos, "input %q is ignored, and a parameter carries it", v.Name)
		}
		ignored[v] = true
	}
	for _, v := range b.Does.Inputs {
		switch {
		case ignored[v]:
			b.Ignores = append(b.Ignores, v)
		case carriers[v] == 0:
			r.mistakes.Add(b.Pos, "no parameter of function %q has the role %s, expected one, or the input under ignores", b.Name, v.Name)
		}
	}
	slices.SortFunc(b.Ignores, func(a, b *Value) int { return strings.Compare(a.Name, b.Name) })
	for _, v := range b.Does.Outputs {
		if carriers[v] != 1 {
			r.mistakes.Add(b.Pos, "%d parameters of function %q have the role %s%s, expected one", carriers[v], b.Name, outPrefix, v.Name)
		}
	}
}
