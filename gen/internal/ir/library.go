package ir

import (
	"cmp"
	"fmt"
	"go/token"
	"slices"
	"strings"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// A libraryResolver has what only a backend with a library has.
type libraryResolver struct {
	library   *Library
	versions  versionChecker
	types     *cTypes
	result    *CType              // what functions return, nil when that is unknown
	functions map[string]*Binding // all of them
	siblings  map[string]*Binding // the first entry for each name
	symbols   *scope              // what they are called in the library
	called    map[*Binding]bool   // the helpers that something needs
	uses      []stateUse          // of what opening keeps
	entered   map[string]bool     // the scopes that functions need
}

// A key is a key of a declaration and whether it is there.
type key struct {
	name  string
	place specfile.Place
}

// player sees to it that either a Go type or a library plays the driver, and that a backend has
// what belongs to the one that does.
func (r *backendResolver) player() {
	d := r.decl
	switch {
	case d.Provider.Given() && d.Library.Given():
		r.mistakes.AddRelated(d.Library.Pos, d.Provider.Pos, "the provider is here", "a backend has a provider or a library, found both")
	case !d.Provider.Given() && !d.Library.Given():
		r.mistakes.Add(d.Pos, "there is neither a provider nor a library, expected one of them")
	}
	if d.Library.Given() {
		r.openLibrary()
		return
	}
	r.provider()
	r.refuse("the backend", key{"header", d.Header.Place}, key{"version", d.Version.Place}, key{"types", d.Types.Place},
		key{"open", d.Open.Place}, key{"scopes", d.Scopes.Place}, key{"quirks", d.Quirks.Place})
	r.refuse("the result", key{"name", d.Result.Name.Place}, key{"text", d.Result.Text.Place}, key{"clear", d.Result.Clear.Place})
}

// refuse reports keys that only a backend with a library can have.
func (r *backendResolver) refuse(what string, keys ...key) {
	for _, k := range keys {
		if k.place.Given() {
			r.mistakes.Add(k.place.Pos, "%s has the key %q, which is for a library, expected none beside a provider", what, k.name)
		}
	}
}

// openLibrary resolves what a library is, and its types.
func (r *backendResolver) openLibrary() {
	d := r.decl
	r.lib = &libraryResolver{
		library:   &Library{Pos: d.Library.Pos, Override: d.Library.Override.Value},
		versions:  versionChecker{mistakes: r.mistakes, known: d.Version.Given(), oldest: d.Version.Oldest},
		functions: map[string]*Binding{},
		siblings:  map[string]*Binding{},
		symbols:   newScope("symbol", r.mistakes),
		called:    map[*Binding]bool{},
		entered:   map[string]bool{},
	}
	r.backend.Library = r.lib.library
	names := newScope("name", r.mistakes)
	for _, name := range d.Library.Linux.Items {
		if name.Valid {
			names.claim(name.Value, fmt.Sprintf("library %q", name.Value), name.Pos)
			r.lib.library.Names = append(r.lib.library.Names, name.Value)
		}
	}
	if !d.Header.Given() {
		r.mistakes.Add(d.Pos, "the key %q is missing beside a library", "header")
	}
	r.lib.library.Header = &Header{Include: d.Header.Include.Value, Version: d.Header.Version.Value, Define: d.Header.Define.Value, Debian: d.Header.Debian.Value, PyPI: d.Header.PyPI.Value}
	r.lib.types = newCTypes(r.mistakes, r.lib.versions)
	r.lib.types.declare(d.Types.Items)
	for _, t := range r.lib.types.declared {
		r.lib.library.Types = append(r.lib.library.Types, t.CType)
	}
	slices.SortFunc(r.lib.library.Types, func(a, b *CType) int { return cmp.Compare(a.Name, b.Name) })
}

// driverVersion resolves how a library tells its version.
func (r *backendResolver) driverVersion() {
	d := r.decl.Version
	if !d.Given() {
		return
	}
	e := d.Encoding
	v := &DriverVersion{
		Function: r.helper(d.Function),
		Major:    e.Major.Value, Minor: e.Minor.Value, Patch: e.Patch.Value,
		Oldest: d.Oldest.Value,
	}
	r.lib.library.Version = v
	for _, pair := range [][2]specfile.Integer{{e.Major, e.Minor}, {e.Minor, e.Patch}} {
		if pair[0].Valid && pair[1].Valid && pair[0].Value <= pair[1].Value {
			r.mistakes.AddRelated(pair[1].Pos, pair[0].Pos, "the one before it is this", "the factor is %d, expected a smaller one than that of the part before", pair[1].Value)
		}
	}
	if v.Function != nil && (shapeOf(v.Function) != "out" || !tellsNumber(v.Function)) {
		r.mistakes.Add(d.Function.Pos, "function %q cannot tell the version, expected one that returns a result and has one parameter that is not const, a number with the role out", v.Function.Name)
	}
}

// tellsNumber tells whether all that a function stores where a step says are numbers.
func tellsNumber(b *Binding) bool {
	return !slices.ContainsFunc(b.Params, func(p *BoundParam) bool { return p.Kind == BoundOut && p.Type != nil && !isNumber(p.Type) })
}

// resultFunctions resolves what a library says about its results.
func (r *backendResolver) resultFunctions() {
	d, result := r.decl.Result, r.backend.Result
	result.Name = r.teller(d.Name)
	result.Text = r.teller(d.Text)
	if result.Clear = r.helper(d.Clear); result.Clear != nil && shapeOf(result.Clear) != "" {
		r.mistakes.Add(d.Clear.Pos, "function %q cannot take a failure back, expected one that returns a result and has no parameters that are not const", result.Clear.Name)
	}
}

// teller finds a function that tells something about a result.
func (r *backendResolver) teller(name specfile.Text) *Binding {
	b := r.helper(name)
	if b != nil && shapeOf(b) != "code text" {
		r.mistakes.Add(name.Pos, "function %q tells nothing about a result, expected one with the role code, and with out.text or a text that it returns", b.Name)
	}
	return b
}

// shapeOf names what the parameters of a function carry that are not const, sorted, and what it
// returns if that is a text.
func shapeOf(b *Binding) string {
	var kinds []string
	for _, p := range b.Params {
		if p.Kind != BoundConst {
			kinds = append(kinds, string(p.Kind))
		}
	}
	if b.C.Text {
		kinds = append(kinds, string(BoundText))
	}
	slices.Sort(kinds)
	return strings.Join(kinds, " ")
}

// helper finds a function of the library that does no operation, nil when there is none, which is reported.
func (r *backendResolver) helper(name specfile.Text) *Binding {
	b := r.function(name)
	if b != nil && b.Does != nil {
		r.mistakes.Add(name.Pos, "function %q does operation %q, expected one that does none", b.Name, b.Does.Name)
		return nil
	}
	return b
}

// function finds a function of the library, nil when there is none, which is reported.
func (r *backendResolver) function(name specfile.Text) *Binding {
	if !name.Valid {
		return nil
	}
	b := r.lib.functions[name.Value]
	if b == nil {
		known := r.functionNames()
		r.mistakes.Add(name.Pos, "unknown function %q%s", name.Value, diag.Expected(name.Value, known))
		b = r.lib.functions[diag.Nearest(name.Value, known)]
	}
	if b != nil {
		r.lib.called[b] = true
	}
	return b
}

func (r *backendResolver) functionNames() []string {
	var names []string
	for _, d := range r.decl.Functions.Items {
		if d.Name.Valid {
			names = append(names, d.Name.Value)
		}
	}
	return names
}

// played sees to it that either all helpers play something or none does, so that none is forgotten.
func (r *backendResolver) played() {
	var first *Binding
	for _, b := range r.lib.library.Helpers {
		if b.Plays != nil && first == nil {
			first = b
		}
	}
	for _, b := range r.lib.library.Helpers {
		if first != nil && b.Plays == nil {
			r.mistakes.AddRelated(b.Pos, first.Pos, "another one does", "function %q has no key %q, expected one, or none at all", b.Name, "plays")
		}
	}
}

// helpers lists the functions that do no operation, and reports those that nothing calls.
func (r *backendResolver) helpers() {
	for _, d := range r.decl.Functions.Items {
		b := r.lib.functions[d.Name.Value]
		if b == nil || d.Does.Given() || b.Pos != d.Name.Pos {
			continue
		}
		r.lib.library.Helpers = append(r.lib.library.Helpers, b)
		if !r.lib.called[b] {
			r.mistakes.Add(b.Pos, "function %q does no operation and nothing calls it, expected the key %q, or a step that calls it", b.Name, "does")
		}
	}
	for _, b := range r.backend.Idle {
		if r.lib.called[b] {
			r.mistakes.Add(b.Pos, "function %q is called by a step, expected its operation %q not to be unsupported", b.Name, b.Does.Name)
		}
	}
	slices.SortFunc(r.lib.library.Helpers, func(a, b *Binding) int { return cmp.Compare(a.Name, b.Name) })
	r.played()
}

// driverNames are what a generated driver has besides its functions, its state and the operations.
var driverNames = []string{
	"about", "askVersion", "failure", "functions", "open", "opening", ordinalState, "symbols", "version",
	"About", "Backend", "Capabilities", "Quirks",
}

// checkNames sees to it that functions are called like nothing else that a generated driver or simulator has.
func (r *backendResolver) checkNames() {
	taken := slices.Clone(driverNames)
	for _, s := range r.lib.library.State {
		taken = append(taken, s.Name)
	}
	for _, o := range r.contract.Operations {
		taken = append(taken, o.GoName)
	}
	for _, b := range r.lib.functions {
		if token.IsKeyword(b.Name) || slices.Contains(taken, b.Name) || InC(b.Name) {
			r.mistakes.Add(b.Pos, "a function cannot be called %q: in generated code that is something else", b.Name)
		} else if InC(b.C.Symbol) {
			r.mistakes.Add(b.Pos, "function %q cannot have the symbol %q: in generated code that is something else", b.Name, b.C.Symbol)
		}
	}
}

// unused reports what is declared and nothing needs: it is likely a slip, and nobody would notice
// that it is wrong.
func (r *backendResolver) unused() {
	types := r.lib.types
	for _, t := range types.declared {
		if !types.used[t.CType] {
			r.mistakes.Add(t.Pos, "type %q is not used", t.Name)
		}
		for _, v := range t.Values {
			if !types.used[v] {
				r.mistakes.Add(v.Pos, "value %q is not used", v.Name)
			}
		}
		if !t.Partial {
			continue
		}
		for _, layout := range t.Layouts {
			for _, f := range layout.Fields {
				if !types.used[f] {
					r.mistakes.Add(f.Pos, "field %q of partial struct %q is not used", f.Name, t.Name)
				}
			}
		}
	}
}
