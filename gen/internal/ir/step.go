package ir

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// The words of steps.
const (
	ordinalState     = "ordinal" // the state that is there before the first step
	itemWord         = "item"
	takeOrdinal      = "ordinal"
	unsupportedClass = "not_supported" // of the call of a function that is missing
)

// A keeper knows the values that steps keep under names.
type keeper struct {
	prefix string // state. or local.
	kept   map[string]*State
	read   map[string]bool
}

func newKeeper(prefix string) *keeper {
	return &keeper{prefix: prefix, kept: map[string]*State{}, read: map[string]bool{}}
}

// names are the full names of what is kept, sorted.
func (k *keeper) names() []string {
	var names []string
	for _, name := range k.sorted() {
		names = append(names, k.prefix+name)
	}
	return names
}

func (k *keeper) sorted() []string { return slices.Sorted(maps.Keys(k.kept)) }

// A stepResolver resolves a list of steps.
type stepResolver struct {
	*backendResolver
	state  *keeper
	locals *keeper         // nil when a device is opened
	set    map[string]bool // what is kept whichever way the steps took, by its name with the prefix
	tried  []*Class        // the classes of failure that another way is taken on
	from   *Version        // the oldest version that needs the step, nil where that is not known
}

// steps resolves how a device is opened, the scopes, and what both keep.
func (r *backendResolver) steps() {
	s := stepResolver{backendResolver: r, state: newKeeper(statePrefix), set: map[string]bool{statePrefix + ordinalState: true}}
	s.state.kept[ordinalState] = &State{Name: ordinalState, Type: r.lib.types.byName["int"]}
	s.state.read[ordinalState] = true
	r.lib.library.Open = s.resolve(r.decl.Open.Items)
	for _, d := range r.decl.Scopes.Items {
		if !d.Key.Valid {
			continue
		}
		if !r.lib.entered[d.Key.Value] {
			r.mistakes.Add(d.Key.Pos, "no function is within scope %q", d.Key.Value)
		}
		inner := s
		inner.locals, inner.set = newKeeper(localPrefix), maps.Clone(s.set)
		scope := &Scope{Pos: d.Key.Pos, Name: d.Key.Value, Steps: inner.resolve(d.Value.Items)}
		inner.checkRead(inner.locals)
		r.lib.library.Scopes = append(r.lib.library.Scopes, scope)
	}
	slices.SortFunc(r.lib.library.Scopes, func(a, b *Scope) int { return cmp.Compare(a.Name, b.Name) })
	for _, use := range r.lib.uses {
		s.checkUse(use)
	}
	s.checkRead(s.state)
	for _, name := range s.state.sorted() {
		if name != ordinalState {
			r.lib.library.State = append(r.lib.library.State, s.state.kept[name])
		}
	}
}

// checkUse sees to it that opening keeps what a function needs, of its type. Whether it is there
// when a step calls the function is seen to at the step.
func (s *stepResolver) checkUse(use stateUse) {
	if kept := s.find("no step", s.state, use.name, use.role.Place); kept != nil {
		s.checkKept(s.state, kept, use.place)
	}
}

// find finds what is kept under a name. When nothing is, it reports that no step of some does it,
// and returns what was likely meant, or nil.
func (s *stepResolver) find(none string, k *keeper, name string, at specfile.Place) *State {
	kept := k.kept[name]
	if kept == nil {
		known := k.names()
		s.mistakes.Add(at.Pos, "%s keeps %s%s%s", none, k.prefix, name, diag.Expected(k.prefix+name, known))
		kept = k.kept[strings.TrimPrefix(diag.Nearest(k.prefix+name, known), k.prefix)]
	}
	return kept
}

// checkKept refuses what is kept with another type than that of the place that it goes to.
func (s *stepResolver) checkKept(k *keeper, kept *State, to place) {
	k.read[kept.Name] = true
	if to.typ != nil && kept.Type != nil && !alike(to.typ, kept.Type) {
		s.mistakes.Add(to.role.Pos, "%s is of type %q, and %s%s of type %q", to.what, to.typ.Name, k.prefix, kept.Name, kept.Type.Name)
	}
}

// need finds what a step before has kept under a name, whichever way the steps took. When nothing
// is, it reports that and returns what was likely meant, or nil.
func (s *stepResolver) need(k *keeper, name string, at specfile.Place) *State {
	kept := s.find("no step before", k, name, at)
	if kept != nil && !s.set[k.prefix+kept.Name] {
		s.mistakes.Add(at.Pos, "%s%s is not kept before, in each way that the steps can take", k.prefix, kept.Name)
	}
	return kept
}

// checkRead reports what is kept and nothing needs.
func (s *stepResolver) checkRead(k *keeper) {
	for _, name := range k.sorted() {
		if !k.read[name] {
			s.mistakes.Add(k.kept[name].Pos, "nothing needs %s%s", k.prefix, name)
		}
	}
}

// resolve resolves steps in order.
func (s *stepResolver) resolve(decls []specfile.Step) []*Step {
	var steps []*Step
	same := newScope("call", s.mistakes)
	outer := s.from
	for _, d := range decls {
		step := &Step{Pos: d.Pos, Versions: s.lib.versions.versions(d.Versions)}
		if d.Call.Valid {
			text := callText(d) + in(step.Versions)
			same.claim(text, "step "+text, d.Pos)
		}
		if !s.checkKeys(d) {
			continue
		}
		set := s.set
		if d.Versions.Given() { // what it keeps is not there with other versions
			s.set = maps.Clone(set)
		}
		s.from = s.lib.versions.later(cmp.Or(step.Versions.From, outer))
		switch {
		case d.Call.Given():
			step.Call = s.callStep(d)
		case d.Enumerate.Given():
			step.Enumerate = s.enumerate(d)
		default:
			step.Attempt = s.attempt(d)
		}
		s.set, s.from = set, outer
		steps = append(steps, step)
	}
	return steps
}

// callText is a call as a text: steps with the same one do the same.
func callText(d specfile.Step) string {
	var args []string
	for _, arg := range d.Args.Items {
		args = append(args, arg.Key.Value+": "+arg.Value.Value)
	}
	slices.Sort(args)
	return fmt.Sprintf("%s(%s)", d.Call.Value, strings.Join(args, ", "))
}

// A stepKind is a key that says what a step does, and the keys beside it that are its own.
type stepKind struct {
	key
	needs, allows []key
}

func stepKinds(d specfile.Step) []stepKind {
	args := key{"args", d.Args.Place}
	return []stepKind{
		{key{"call", d.Call.Place}, nil, []key{args, {"expect", d.Expect.Place}, {"otherwise", d.Otherwise.Place}, {"accept", d.Accept.Place}, {"undo", d.Undo.Place}}},
		{key{"enumerate", d.Enumerate.Place}, []key{{"take", d.Take.Place}, {"into", d.Into.Place}}, []key{args, {"where", d.Where.Place}}},
		{key{"try", d.Try.Place}, []key{{"on", d.On.Place}, {"instead", d.Instead.Place}}, nil},
	}
}

// checkKeys tells whether a step is of one kind, and sees to it that it has the keys of that and no others.
func (s *stepResolver) checkKeys(d specfile.Step) bool {
	kinds := stepKinds(d)
	given := slices.DeleteFunc(slices.Clone(kinds), func(k stepKind) bool { return !k.place.Given() })
	switch len(given) {
	case 0:
		s.mistakes.Add(d.Pos, "the step does nothing, expected one of the keys call, enumerate and try")
		return false
	case 1:
	default:
		s.mistakes.AddRelated(given[1].place.Pos, given[0].place.Pos, "the first one is here", "the step has the keys %q and %q, expected one of them", given[0].name, given[1].name)
		return false
	}
	kind := given[0]
	own := slices.Concat(kind.needs, kind.allows)
	for _, k := range kind.needs {
		if !k.place.Given() {
			s.mistakes.Add(d.Pos, "the step has no key %q beside %q, expected one", k.name, kind.name)
		}
	}
	for _, other := range kinds {
		for _, k := range slices.Concat(other.needs, other.allows) {
			if k.place.Given() && !slices.Contains(own, k) {
				s.mistakes.Add(k.place.Pos, "the step has the key %q beside %q, expected none", k.name, kind.name)
			}
		}
	}
	return true
}

// callStep resolves a step that calls a function.
func (s *stepResolver) callStep(d specfile.Step) *CallStep {
	step := &CallStep{}
	if b := s.callable(d.Call); b != nil {
		step.Call = s.call(b, d.Call, d.Args, d.Expect, nil)
	}
	if d.Expect.Given() != d.Otherwise.Given() {
		given := d.Expect.Place
		if d.Otherwise.Given() {
			given = d.Otherwise.Place
		}
		s.mistakes.Add(given.Pos, "the step has one of the keys %q and %q, expected both or none", "expect", "otherwise")
	}
	if d.Otherwise.Given() {
		step.Otherwise = &Otherwise{Class: s.class(d.Otherwise.Class), Message: d.Otherwise.Message.Value}
	}
	names := newScope("name", s.mistakes)
	for _, name := range d.Accept.Items {
		if c := find(s.mistakes, "result code", name, s.backend.Result.Codes, func(c *Code) string { return c.Name }); c != nil {
			names.claim(c.Name, fmt.Sprintf("result code %q", c.Name), name.Pos)
			step.Accept = append(step.Accept, c)
		}
	}
	slices.SortFunc(step.Accept, func(a, b *Code) int { return cmp.Compare(a.Value, b.Value) })
	if d.Undo.Given() {
		if b := s.callable(d.Undo.Function); b != nil {
			undo := s.call(b, d.Undo.Function, d.Undo.Args, d.Undo.Expect, nil)
			step.Undo = &undo
			s.checkKeepsNothing(undo, d.Undo.Function)
		}
	}
	return step
}

// checkKeepsNothing refuses a call that keeps something for steps that come later, when none do.
func (s *stepResolver) checkKeepsNothing(c Call, function specfile.Text) {
	keeps := slices.ContainsFunc(c.Args, func(a *Argument) bool { return a.Kind == BoundStateOut || a.Kind == BoundLocalOut })
	for slot := range c.Function.slots() {
		keeps = keeps || slot.Kind == BoundStateOut
	}
	if keeps {
		s.mistakes.Add(function.Pos, "function %q keeps something, and no step comes after it, expected the role discard, or another function", c.Function.Name)
	}
}

// callable finds a function that a step can call, nil when there is none, which is reported.
func (s *stepResolver) callable(name specfile.Text) *Binding {
	b := s.helper(name)
	if b == nil {
		return nil
	}
	s.checkTried(b, name)
	for slot := range b.slots() {
		switch slot.Kind {
		case BoundCode, BoundText:
			s.mistakes.Add(name.Pos, "function %q tells something about a result, expected it under result only", b.Name)
			return nil
		case BoundItems:
			s.mistakes.Add(name.Pos, "function %q gives several items, expected the key %q instead", b.Name, "enumerate")
			return nil
		}
	}
	if b.C.Text {
		s.mistakes.Add(name.Pos, "function %q returns a text, expected one that returns a result", b.Name)
		return nil
	}
	return b
}

// checkTried sees to it that there is another way where a function is missing.
func (s *stepResolver) checkTried(b *Binding, name specfile.Text) {
	if b.C.Optional && !slices.ContainsFunc(s.tried, func(c *Class) bool { return c.Name == unsupportedClass }) {
		s.mistakes.Add(name.Pos, "function %q may be missing, expected its call under try, with %q under on", b.Name, unsupportedClass)
	}
}

// call resolves what a call gives to a function and expects of it. Item is the type of what is
// asked about in an enumeration, nil elsewhere.
func (s *stepResolver) call(b *Binding, function specfile.Text, args, expect specfile.Entries[specfile.Literal], item *CType) Call {
	c := Call{Function: b}
	var known []string
	for slot := range b.slots() {
		switch slot.Kind {
		case BoundState:
			s.need(s.state, slot.Of, function.Place)
		case BoundStateOut:
			s.keep(s.state, slot.Of, slot.typ, function)
		case BoundIn, BoundOut:
			known = append(known, slot.path)
			if a := s.argument(slot, function, args, expect, item); a != nil {
				c.Args = append(c.Args, a)
			}
		}
	}
	slices.SortFunc(c.Args, func(a, b *Argument) int { return cmp.Compare(a.Path, b.Path) })
	for _, given := range slices.Concat(args.Items, expect.Items) {
		if given.Key.Valid && !slices.Contains(known, given.Key.Value) {
			s.mistakes.Add(given.Key.Pos, "function %q has no argument %q%s", b.Name, given.Key.Value, diag.Expected(given.Key.Value, known))
		}
	}
	return c
}

// argument resolves what goes to a slot, or what is expected of it. That there is nothing is reported.
func (s *stepResolver) argument(slot slot, function specfile.Text, args, expect specfile.Entries[specfile.Literal], item *CType) *Argument {
	given, expected := entryOf(args, slot.path), entryOf(expect, slot.path)
	switch {
	case given == nil && expected == nil:
		s.mistakes.Add(function.Pos, "function %q has the argument %q, expected a value for it", function.Value, slot.path)
		return nil
	case given != nil && expected != nil:
		s.mistakes.AddRelated(expected.Key.Pos, given.Key.Pos, "it is kept here", "argument %q is kept and expected, expected one of them", slot.path)
		return nil
	case expected != nil && slot.Kind == BoundIn:
		s.mistakes.Add(expected.Key.Pos, "argument %q is no output, expected it under args", slot.path)
		return nil
	case expected != nil:
		p := place{what: fmt.Sprintf("argument %q", slot.path), typ: slot.typ, value: expected.Value, from: s.from}
		return &Argument{Path: slot.path, Expect: true, Bound: s.constant(p)}
	case !given.Value.Valid:
		return nil
	case slot.Kind == BoundOut:
		return s.output(slot, given.Value)
	default:
		return &Argument{Path: slot.path, Bound: s.input(slot, given.Value, item)}
	}
}

// output resolves where an output goes, nil when that is nowhere, which is reported.
func (s *stepResolver) output(slot slot, d specfile.Literal) *Argument {
	k, kind := s.state, BoundStateOut
	if s.locals != nil {
		k, kind = s.locals, BoundLocalOut
	}
	name, found := strings.CutPrefix(d.Value, k.prefix)
	if !found || !specfile.IsName(name) {
		s.mistakes.Add(d.Pos, "argument %q is an output, expected where it goes, such as %s%s, found %s", slot.path, k.prefix, "value", d)
		return nil
	}
	s.keep(k, name, slot.typ, d.Text)
	return &Argument{Path: slot.path, Bound: Bound{Kind: kind, Of: name}}
}

// input resolves what goes to a slot.
func (s *stepResolver) input(slot slot, d specfile.Literal, item *CType) Bound {
	what := fmt.Sprintf("argument %q", slot.path)
	to := place{what: what, typ: slot.typ, role: d.Text, value: d, from: s.from}
	if name, found := strings.CutPrefix(d.Value, statePrefix); found {
		return s.kept(s.state, BoundState, name, to)
	}
	if name, found := strings.CutPrefix(d.Value, localPrefix); found {
		if s.locals == nil {
			s.mistakes.Add(d.Pos, "%s is kept in a scope only, expected another value", d.Value)
			return Bound{}
		}
		return s.kept(s.locals, BoundLocal, name, to)
	}
	if d.Value == itemWord {
		switch {
		case item == nil:
			s.mistakes.Add(d.Pos, "there is no item here, expected it under where only")
		case slot.typ != nil && !alike(slot.typ, item):
			s.mistakes.Add(d.Pos, "%s is of type %q, and the item of type %q", what, slot.typ.Name, item.Name)
		}
		return Bound{Kind: BoundItem}
	}
	return s.constant(to)
}

// kept resolves what goes to a place from what a step before has kept.
func (s *stepResolver) kept(k *keeper, kind BoundKind, name string, to place) Bound {
	if kept := s.need(k, name, to.role.Place); kept != nil {
		s.checkKept(k, kept, to)
	}
	return Bound{Kind: kind, Of: name}
}

// keep notes that a step keeps something of some type.
func (s *stepResolver) keep(k *keeper, name string, t *CType, at specfile.Text) {
	before := k.kept[name]
	switch {
	case k == s.state && s.locals != nil:
		s.mistakes.Add(at.Pos, "a scope keeps %s%s, expected that when a device is opened only", k.prefix, name)
	case k == s.state && name == ordinalState:
		s.mistakes.Add(at.Pos, "%s%s is the number of the device, which no step changes, expected another name", k.prefix, name)
	case before == nil:
		k.kept[name] = &State{Pos: at.Pos, Name: name, Type: t}
	case s.set[k.prefix+name]:
		s.mistakes.AddRelated(at.Pos, before.Pos, "it is kept here", "%s%s is kept already, expected another name", k.prefix, name)
	case before.Type != nil && t != nil && !alike(before.Type, t):
		s.mistakes.AddRelated(at.Pos, before.Pos, fmt.Sprintf("there it is of type %q", before.Type.Name), "%s%s is of type %q here, expected the same everywhere", k.prefix, name, t.Name)
	}
	s.set[k.prefix+name] = true
}

func entryOf(entries specfile.Entries[specfile.Literal], name string) *specfile.Entry[specfile.Literal] {
	i := slices.IndexFunc(entries.Items, func(e specfile.Entry[specfile.Literal]) bool { return e.Key.Value == name })
	if i < 0 {
		return nil
	}
	return &entries.Items[i]
}

// enumerate resolves a step that takes one of several items, nil when its function cannot, which is reported.
func (s *stepResolver) enumerate(d specfile.Step) *Enumerate {
	b := s.function(d.Enumerate)
	if b == nil {
		return nil
	}
	s.checkTried(b, d.Enumerate)
	i := slices.IndexFunc(b.Params, func(p *BoundParam) bool { return p.Kind == BoundItems })
	takes := slices.ContainsFunc(b.Params, func(p *BoundParam) bool { return p.Kind == BoundInput })
	if i < 0 || takes {
		s.mistakes.Add(d.Enumerate.Pos, "function %q gives no items, expected one that has a parameter with the role items, and none that is an input of an operation", b.Name)
		return nil
	}
	if b.C.Within != "" {
		s.mistakes.Add(d.Enumerate.Pos, "function %q needs scope %q, expected one that needs none", b.Name, b.C.Within)
	}
	items := b.Params[i]
	e := &Enumerate{Ordinal: d.Take.Value == takeOrdinal, Into: strings.TrimPrefix(d.Into.Value, statePrefix)}
	counted := *b
	counted.Params = slices.DeleteFunc(slices.Clone(b.Params), func(p *BoundParam) bool { return p.Name == items.Of })
	e.Call = s.call(&counted, d.Enumerate, d.Args, specfile.Entries[specfile.Literal]{}, nil)
	e.Function = b
	if where := d.Where; where.Given() {
		if asked := s.callable(where.Function); asked != nil {
			c := s.call(asked, where.Function, where.Args, where.Expect, items.Type)
			e.Where = &c
			s.checkKeepsNothing(c, where.Function)
		}
	}
	if d.Into.Valid {
		s.keep(s.state, e.Into, items.Type, d.Into)
	}
	return e
}

// attempt resolves steps that have others instead.
func (s *stepResolver) attempt(d specfile.Step) *Attempt {
	a := &Attempt{}
	names := newScope("name", s.mistakes)
	for _, name := range d.On.Items {
		if c := s.class(name); c != nil {
			names.claim(c.Name, fmt.Sprintf("class %q", c.Name), name.Pos)
			a.On = append(a.On, c)
		}
	}
	slices.SortFunc(a.On, func(x, y *Class) int {
		return slices.Index(s.contract.Classes, x) - slices.Index(s.contract.Classes, y)
	})
	first, other := *s, *s
	first.set, other.set, first.tried = maps.Clone(s.set), maps.Clone(s.set), a.On
	a.Try = first.resolve(d.Try.Items)
	a.Instead = other.resolve(d.Instead.Items)
	for name := range first.set {
		if other.set[name] {
			s.set[name] = true
		}
	}
	return a
}
