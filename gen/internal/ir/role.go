package ir

import (
	"fmt"
	"slices"
	"strings"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// The roles of what is no input or output of an operation.
const (
	roleConst   = "const"
	roleStruct  = "struct"
	roleDiscard = "discard"
	roleIn      = "in"
	roleOut     = "out"
	roleCode    = "code"
	roleText    = "out.text"

	outPrefix      = "out."
	statePrefix    = "state."
	stateOutPrefix = "out.state."
	countPrefix    = "count."
	lengthPrefix   = "length."
	itemsPrefix    = "items."
	localPrefix    = "local."
)

// reservedNames cannot be the names of inputs and outputs, since they are other roles.
var reservedNames = []string{roleConst, roleStruct, roleDiscard}

// plainRoles are the roles that say all by themselves.
var plainRoles = map[string]BoundKind{
	roleIn: BoundIn, roleOut: BoundOut, roleDiscard: BoundDiscard, roleCode: BoundCode, roleText: BoundText,
}

// fabricBytes is how large a fabric handle is.
const fabricBytes = 64

// A place is a parameter, or a field of a struct that one points to, and what it is declared to carry.
type place struct {
	what     string // parameter "size"
	field    bool   // not a parameter
	typeName specfile.Text
	typ      *CType // nil when it is unknown
	role     specfile.Text
	value    specfile.Literal
	count    int      // > 0: it points to so many
	from     *Version // the oldest version in which it is needed, nil where that is not known
}

// otherRoles are the roles that a place can have beside inputs, outputs and states.
func (p place) otherRoles(helper bool) []string {
	roles := []string{roleConst}
	if helper {
		roles = append(roles, roleIn, roleOut)
	}
	if p.field {
		return roles
	}
	roles = append(roles, roleStruct, roleDiscard)
	if helper {
		roles = append(roles, roleCode, roleText)
	}
	return roles
}

// cBound resolves what a place carries. A role that only a parameter can have is its caller's.
func (r *backendResolver) cBound(p place, b *Binding, d specfile.Binding) Bound {
	r.checkValue(p.what, p.role, p.value)
	if !p.role.Valid {
		return Bound{}
	}
	role := p.role.Value
	helper := !d.Does.Given()
	switch kind, plain := plainRoles[role]; {
	case role == roleConst:
		return r.constant(p)
	case plain && slices.Contains(p.otherRoles(helper), role):
		r.checkPlain(p, kind)
		return Bound{Kind: kind}
	case helper && strings.HasPrefix(role, stateOutPrefix):
		return Bound{Kind: BoundStateOut, Of: strings.TrimPrefix(role, stateOutPrefix)}
	case strings.HasPrefix(role, statePrefix):
		return r.stateBound(p)
	case helper:
		r.mistakes.Add(p.role.Pos, "%s of a function that does no operation has no role %q%s", p.what, role, diag.Expected(role, p.otherRoles(true)))
		return Bound{}
	case b.Does == nil: // unknown, and reported
		return Bound{}
	}
	bound := r.bind(p.role, b.Does, p.otherRoles(false))
	r.checkType(p, &bound)
	return bound
}

// constant resolves what is always the same: a number or one of the type's values, null for a pointer.
func (r *backendResolver) constant(p place) Bound {
	bound := Bound{Kind: BoundConst, Const: new(int64)}
	t, d := p.typ, p.value
	if !d.Valid || t == nil {
		return bound
	}
	if !isNumber(t) {
		if !d.Null {
			r.mistakes.Add(d.Pos, "%s is of type %q, expected null, found %s", p.what, t.Name, d)
		}
		return bound
	}
	if number, value := r.number(d, t); number != nil {
		bound.Const, bound.Value = number, value
		switch {
		case value == nil && !holdsC(t, *number):
			r.mistakes.Add(d.Pos, "the value %d does not fit into type %q", *number, t.Name)
		case value != nil && value.Since != nil && p.from != nil && value.Since.Compare(*p.from) > 0:
			r.mistakes.AddRelated(d.Pos, value.Pos, fmt.Sprintf("it is there since %s", value.Since),
				"%q is needed from version %s on, expected a value that is there", value.Name, p.from)
		}
	}
	return bound
}

// checkPlain refuses a type that cannot have such a role.
func (r *backendResolver) checkPlain(p place, kind BoundKind) {
	switch {
	case p.typ == nil:
	case kind == BoundCode && p.typ != r.lib.result && r.lib.result != nil:
		r.mistakes.Add(p.typeName.Pos, "%s is a result, expected type %q, found %q", p.what, r.lib.result.Name, p.typ.Name)
	case kind == BoundText && p.typ.Kind != CText:
		r.mistakes.Add(p.typeName.Pos, "%s is a text, expected type %q, found %q", p.what, "const char *", p.typ.Name)
	}
}

// A stateUse is a place that needs what opening keeps.
type stateUse struct {
	place
	name string
}

func (r *backendResolver) stateBound(p place) Bound {
	name := strings.TrimPrefix(p.role.Value, statePrefix)
	r.lib.uses = append(r.lib.uses, stateUse{p, name})
	return Bound{Kind: BoundState, Of: name}
}

// checkType refuses a type that cannot hold all that the operation's input or output can be, and
// finds the driver's numbers of an enum.
func (r *backendResolver) checkType(p place, bound *Bound) {
	v, t := bound.carries(), p.typ
	if v == nil || t == nil {
		return
	}
	expected := ""
	output := bound.Output != nil
	switch {
	case v.Type == fabricType && (p.field || t.Name != "unsigned char" || p.count != fabricBytes):
		expected = fmt.Sprintf("unsigned char with a count of %d", fabricBytes)
	case v.Type == textType && (p.field || t.Name != "char" || p.count == 0):
		expected = "char with a count"
	case v.Type == fabricType || v.Type == textType:
	case p.count > 0:
		expected = "one value, not several"
	case v.Type == memoryType && (p.field || t.Kind != CPointer):
		expected = "a pointer"
	case v.Type == flagType && !isNumber(t):
		expected = "a number"
	case v.Type == "bytes" && !carries64(t):
		expected = "a number of 64 bits without a sign"
	case (v.Type == "address" || v.Type == "handle" || v.Type == "stream") && !carries64(t) && t.Kind != CPointer:
		expected = "a pointer, or a number of 64 bits without a sign"
	case v.Type == "int" && !output && t.Kind == CPointer: // a number in the place of a pointer
	case v.Type == "int" && (!isNumber(t) || t.Size < 4):
		expected = "a number of at least 32 bits"
	case v.Enum != nil && !isNumber(t):
		expected = "a number"
	}
	switch {
	case expected != "":
		r.mistakes.Add(p.typeName.Pos, "%s carries type %s, expected %s, found %q", p.what, v.Type, expected, t.Name)
	case v.Enum != nil:
		bound.Enum = r.enumMap(v.Enum, p.role)
		r.checkNumbers(bound.Enum, p.typeName, func(n *EnumMapValue) bool {
			return holdsC(t, n.Number) && (n.Named == nil || n.Named.Type == t)
		})
	}
}
