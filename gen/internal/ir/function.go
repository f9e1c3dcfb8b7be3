package ir

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// cFunction resolves a function of the library.
func (r *backendResolver) cFunction(b *Binding, d specfile.Binding) {
	b.C = &CFunction{
		Symbol:   b.Name,
		Since:    r.lib.versions.since(d.Since),
		From:     r.lib.versions.since(d.From),
		Optional: d.Optional.Value,
		Text:     d.Returns.Valid,
		Within:   d.Within.Value,
	}
	what := fmt.Sprintf("function %q", b.Name)
	sibling := r.lib.siblings[b.Name]
	again := sibling != nil && sibling.Does != b.Does
	if !again && r.lib.types.cNames.claim(b.Name, what, b.Pos) || r.lib.functions[b.Name] == nil || again && b.Does == nil {
		r.lib.functions[b.Name] = b
	}
	symbol := d.Name
	if d.Symbol.Valid {
		b.C.Symbol, symbol = d.Symbol.Value, d.Symbol
		if b.C.Symbol == b.Name {
			r.mistakes.Add(d.Symbol.Pos, "%s has the symbol %q, expected none where it is the name", what, b.C.Symbol)
		}
	}
	if !again {
		r.lib.symbols.claim(b.C.Symbol, what, symbol.Pos)
		r.lib.siblings[b.Name] = b
	}
	oldest := r.decl.Version.Oldest
	if d.Since.Valid && oldest.Valid && d.Since.Value.Compare(oldest.Value) > 0 && !b.C.Optional {
		r.mistakes.AddRelated(d.Since.Pos, oldest.Pos, "the oldest is this",
			"%s is there since %s, and not with the oldest version that can be used, expected optional: true", what, d.Since.Value)
	}
	switch does := d.Does.Given(); {
	case d.Returns.Valid && does:
		r.mistakes.Add(d.Returns.Pos, "%s does an operation, expected it to return a result", what)
	case d.From.Given() && !does:
		r.mistakes.Add(d.From.Pos, "%s does no operation, expected no first version of one", what)
	case d.From.Valid && d.Since.Valid && d.From.Value.Compare(d.Since.Value) <= 0:
		r.mistakes.AddRelated(d.From.Pos, d.Since.Pos, "the function is there since then", "%s does its operation from version %s on, expected a later one than that of the function", what, d.From.Value)
	case d.Within.Given() && !does:
		r.mistakes.Add(d.Within.Pos, "%s does no operation, expected no scope", what)
	}
	r.checkScope(d.Within)
	r.params(b, d, func(dp specfile.BoundParam, b *Binding) *BoundParam { return r.cParam(dp, b, d) })
	r.checkCounts(b, d)
	b.C.Signature = r.signature(b, d)
	b.Plays = r.plays(b, d)
	if again {
		r.checkSame(b, sibling)
	}
}

// checkSame sees to it that two entries for one function say the same about it.
func (r *backendResolver) checkSame(b, before *Binding) {
	same := b.C.Symbol == before.C.Symbol && b.C.Signature == before.C.Signature && b.C.Optional == before.C.Optional &&
		(b.C.Since == nil) == (before.C.Since == nil) && (b.C.Since == nil || *b.C.Since == *before.C.Since)
	if !same {
		r.mistakes.AddRelated(b.Pos, before.Pos, "the other one is here", "function %q is another function here, expected the same symbol, parameters, since and optional", b.Name)
	}
}

// plays finds the helper of the contract that a function is, nil when it is none. Its parameters are
// the helper's inputs and outputs in their order, those that are constant apart.
func (r *backendResolver) plays(b *Binding, d specfile.Binding) *Helper {
	if d.Plays.Given() && d.Does.Given() {
		r.mistakes.Add(d.Plays.Pos, "function %q does an operation, expected it to play nothing", b.Name)
		return nil
	}
	h := find(r.mistakes, "helper", d.Plays, r.contract.Helpers, func(h *Helper) string { return h.Name })
	if h == nil {
		return nil
	}
	inputs, outputs := 0, 0
	if b.C.Text {
		outputs++
	}
	for slot := range b.slots() {
		switch {
		case b.Counts(slot.path): // it comes with the items
		case slot.Kind == BoundIn || slot.Kind == BoundState || slot.Kind == BoundCode:
			inputs++
		case byPointer[slot.Kind]:
			outputs++
		}
	}
	if inputs != len(h.Inputs) || outputs != len(h.Outputs) {
		r.mistakes.Add(d.Plays.Pos, "function %q has %d inputs and %d outputs, and helper %q has %d and %d", b.Name, inputs, outputs, h.Name, len(h.Inputs), len(h.Outputs))
	}
	return h
}

// neededFrom is the oldest version in which a function is called, nil when that is not known.
func (r *backendResolver) neededFrom(b *Binding) *Version {
	return r.lib.versions.later(cmp.Or(b.C.From, b.C.Since))
}

// checkScope sees to it that a scope exists.
func (r *backendResolver) checkScope(name specfile.Text) {
	if !name.Valid {
		return
	}
	var known []string
	for _, d := range r.decl.Scopes.Items {
		known = append(known, d.Key.Value)
	}
	if !slices.Contains(known, name.Value) {
		r.mistakes.Add(name.Pos, "unknown scope %q%s", name.Value, diag.Expected(name.Value, known))
	}
	r.lib.entered[name.Value] = true
}

// cParam resolves one parameter of a library's function.
func (r *backendResolver) cParam(d specfile.BoundParam, b *Binding, df specfile.Binding) *BoundParam {
	p := &BoundParam{Pos: d.Name.Pos, Name: d.Name.Value}
	what := fmt.Sprintf("parameter %q", p.Name)
	if slices.Contains(cKeywords, p.Name) {
		r.mistakes.Add(p.Pos, "%s has the name of a word of C", what)
	}
	role := d.Role.Value
	if role != roleStruct {
		for _, k := range []key{{"fields", d.Fields.Place}, {"chain", d.Chain.Place}} {
			if k.place.Given() && d.Role.Valid {
				r.mistakes.Add(k.place.Pos, "%s has the key %q, expected none but for the role struct", what, k.name)
			}
		}
	}
	name := d.Type
	constant := role == roleStruct && strings.HasPrefix(name.Value, constPrefix)
	if constant {
		name.Value = strings.TrimPrefix(name.Value, constPrefix)
	}
	p.Type = r.lib.types.lookup(name)
	if p.Type != nil && d.Role.Valid && (p.Type.Kind == CStruct) != (role == roleStruct) {
		r.mistakes.Add(d.Type.Pos, "%s with the role %s is of type %q, and a struct goes with the role struct only", what, role, p.Type.Name)
		p.Type = nil
	}
	p.Count = int(d.Count.Value)
	place := place{what: what, typeName: d.Type, typ: p.Type, role: d.Role, value: d.Value, count: p.Count, from: r.neededFrom(b)}
	switch {
	case role == roleStruct:
		r.checkValue(what, d.Role, d.Value)
		p.Bound = Bound{Kind: BoundStruct}
		if p.Type != nil {
			p.Fill = r.fillStruct(p.Type, d.Fields, d.Chain, b, df)
			r.checkConst(p, d.Type, constant)
		}
	case strings.HasPrefix(role, countPrefix):
		r.checkValue(what, d.Role, d.Value)
		p.Bound = Bound{Kind: BoundCount, Of: strings.TrimPrefix(role, countPrefix)}
	case strings.HasPrefix(role, lengthPrefix):
		r.checkValue(what, d.Role, d.Value)
		p.Bound = Bound{Kind: BoundLength, Of: strings.TrimPrefix(role, lengthPrefix)}
	case strings.HasPrefix(role, itemsPrefix):
		r.checkValue(what, d.Role, d.Value)
		p.Bound = Bound{Kind: BoundItems, Of: strings.TrimPrefix(role, itemsPrefix)}
	default:
		p.Bound = r.cBound(place, b, df)
	}
	r.inOut(p, b, d)
	if v := p.carries(); p.Count > 0 && (v == nil || v.Type != textType && v.Type != fabricType) {
		r.mistakes.Add(d.Count.Pos, "%s has the key %q, expected none but for a text or a fabric handle", what, "count")
	}
	p.C = r.declare(p, d, constant)
	return p
}

// inOut makes an input one that is an output after the call.
func (r *backendResolver) inOut(p *BoundParam, b *Binding, d specfile.BoundParam) {
	if !d.Out.Valid {
		return
	}
	if p.Kind != BoundInput {
		r.mistakes.Add(d.Out.Pos, "parameter %q has the key %q, expected none but for an input", p.Name, "out")
		return
	}
	output := find(r.mistakes, "output", d.Out, b.Does.Outputs, func(v *Value) string { return v.Name })
	if output == nil {
		return
	}
	p.Kind, p.Output = BoundInOut, output
	if output.Type != p.Input.Type {
		r.mistakes.Add(d.Out.Pos, "output %q is of type %s, and input %q of type %s, expected the same", output.Name, output.Type, p.Input.Name, p.Input.Type)
	}
}

// checkConst refuses outputs in a struct that the driver only reads.
func (r *backendResolver) checkConst(p *BoundParam, typeName specfile.Text, constant bool) {
	if !constant {
		return
	}
	for _, f := range p.Fill.Layouts[0].Fields {
		if byPointer[f.Kind] {
			r.mistakes.Add(typeName.Pos, "parameter %q is of type %q, and field %q is an output, expected a type without const", p.Name, typeName.Value, f.Path)
		}
	}
}

// byPointer are what a function is given a pointer for, to store something.
var byPointer = map[BoundKind]bool{
	BoundOutput: true, BoundInOut: true, BoundStateOut: true, BoundItems: true, BoundDiscard: true, BoundOut: true, BoundText: true,
}

// declare declares a parameter in C.
func (r *backendResolver) declare(p *BoundParam, d specfile.BoundParam, constant bool) string {
	pointer := byPointer[p.Kind] || p.Kind == BoundStruct || p.Count > 0
	if d.Declared.Given() && !pointer && p.Kind != "" {
		r.mistakes.Add(d.Declared.Pos, "parameter %q is declared as %q, expected that of a pointer only", p.Name, d.Declared.Value)
	}
	switch {
	case p.Type == nil:
		return ""
	case d.Declared.Valid:
		return cDeclaration(d.Declared.Value, p.Name)
	case constant:
		return cDeclaration(constPrefix+pointerTo(p.Type.C), p.Name)
	case pointer:
		return cDeclaration(pointerTo(p.Type.C), p.Name)
	default:
		return cDeclaration(p.Type.C, p.Name)
	}
}

// signature declares a function in C.
func (r *backendResolver) signature(b *Binding, d specfile.Binding) string {
	returns := r.decl.Result.Type.Value
	if d.Returns.Valid {
		returns = d.Returns.Value
	}
	params := make([]string, len(b.Params))
	for i, p := range b.Params {
		params[i] = p.C
	}
	if len(params) == 0 {
		params = []string{"void"}
	}
	return cDeclaration(returns, fmt.Sprintf("%s(%s)", b.Name, strings.Join(params, ", ")))
}

// checkCounts finds the parameters that others count, or that count others.
func (r *backendResolver) checkCounts(b *Binding, d specfile.Binding) {
	for _, dp := range d.Params.Items {
		i := slices.IndexFunc(b.Params, func(p *BoundParam) bool { return p.Pos == dp.Name.Pos })
		if i < 0 {
			continue
		}
		switch p := b.Params[i]; p.Kind {
		case BoundCount:
			r.checkNumber(p, dp.Type)
			r.checkOther(b, p, dp.Role, roleStruct, func(o *BoundParam) bool { return o.Kind == BoundStruct })
		case BoundLength:
			r.checkNumber(p, dp.Type)
			r.checkOther(b, p, dp.Role, "of type memory or text", func(o *BoundParam) bool {
				v := o.carries()
				return v != nil && (v.Type == memoryType || v.Type == textType)
			})
		case BoundItems:
			r.checkOther(b, p, dp.Role, "out or out.OUTPUT, and a number", func(o *BoundParam) bool {
				return (o.Kind == BoundOut || o.Kind == BoundOutput) && (o.Type == nil || isNumber(o.Type))
			})
		}
	}
}

func (r *backendResolver) checkNumber(p *BoundParam, typeName specfile.Text) {
	if p.Type != nil && !isNumber(p.Type) {
		r.mistakes.Add(typeName.Pos, "parameter %q is of type %q, expected a number", p.Name, p.Type.Name)
	}
}

// checkOther sees to it that a role names another parameter with some role.
func (r *backendResolver) checkOther(b *Binding, p *BoundParam, role specfile.Text, expected string, fits func(*BoundParam) bool) {
	var known []string
	for _, other := range b.Params {
		if fits(other) {
			known = append(known, other.Name)
		}
	}
	if !slices.Contains(known, p.Of) {
		r.mistakes.Add(role.Pos, "parameter %q is for %q, expected a parameter with the role %s%s", p.Name, p.Of, expected, diag.DidYouMean(p.Of, known))
	}
}
