package ir

import (
	"fmt"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// The types of an option.
const (
	optionEnum  = "enum"
	optionUint  = "uint"
	optionBytes = "bytes"
)

// options resolves what a user can set.
func (r *backendResolver) options() {
	names, goNames := newScope("Go name", r.mistakes), newScope("Go name", r.mistakes)
	for _, d := range r.decl.Options.Items {
		if !d.Name.Valid || !d.Type.Valid {
			continue
		}
		o := &Option{
			Pos:         d.Name.Pos,
			Name:        d.Name.Value,
			GoName:      exported(d.Name.Value),
			Type:        d.Type.Value,
			GoType:      "uint64",
			DefaultText: d.Default.Value,
			Min:         d.Min.Value,
			Max:         d.Max.Value,
			Description: d.Description.Value,
		}
		what := fmt.Sprintf("option %q", o.Name)
		names.claim(o.GoName, what, o.Pos)
		if o.Type == optionEnum {
			o.GoType = o.GoName
			goNames.claim(o.GoType, what, o.Pos)
			r.enumOption(o, d, goNames)
		} else {
			r.numberOption(o, d)
		}
		r.backend.Options = append(r.backend.Options, o)
	}
}

// enumOption resolves an option that is one of a few words.
func (r *backendResolver) enumOption(o *Option, d specfile.Option, goNames *scope) {
	if !d.Values.Given() {
		r.mistakes.Add(d.Type.Pos, "option %q is an enum without values, expected the words that it can be", o.Name)
	}
	for _, bound := range []specfile.Size{d.Min, d.Max} {
		if bound.Given() {
			r.mistakes.Add(bound.Pos, "option %q is an enum, expected no bounds", o.Name)
		}
	}
	var known []string
	found := false
	for i, dv := range d.Values.Items {
		if !dv.Name.Valid {
			continue
		}
		v := &EnumValue{Pos: dv.Name.Pos, Name: dv.Name.Value, GoName: o.GoName + exported(dv.Name.Value), Value: int64(i), Description: dv.Description.Value}
		o.Values = append(o.Values, v)
		known = append(known, v.Name)
		goNames.claim(v.GoName, fmt.Sprintf("value %q of option %q", v.Name, o.Name), v.Pos)
		if v.Name == d.Default.Value && !found {
			o.Default, found = uint64(i), true
		}
	}
	switch {
	case !d.Default.Valid || !d.Values.Given():
	case !found:
		r.mistakes.Add(d.Default.Pos, "option %q has no value %s%s", o.Name, d.Default, diag.Expected(d.Default.Value, known))
	case o.Default != 0:
		r.mistakes.Add(d.Default.Pos, "the default of option %q is %q, expected its first value, %q: that is the zero value in Go, which stands for the default", o.Name, d.Default.Value, known[0])
	}
}

// numberOption resolves an option that is a number or a size.
func (r *backendResolver) numberOption(o *Option, d specfile.Option) {
	if d.Values.Given() {
		r.mistakes.Add(d.Values.Pos, "option %q is no enum, expected no values", o.Name)
	}
	switch {
	case !d.Max.Valid:
	case o.Max == 0:
		r.mistakes.Add(d.Max.Pos, "option %q is at most 0, expected a larger bound, or none", o.Name)
	case o.Min > o.Max:
		r.mistakes.Add(d.Min.Pos, "option %q is at least %d and at most %d", o.Name, o.Min, o.Max)
	}
	if !d.Default.Valid {
		return
	}
	var err error
	o.Default, err = specfile.ParseSize(o.DefaultText)
	switch {
	case err != nil:
		r.mistakes.Add(d.Default.Pos, "the default of option %q must be a number, found %s", o.Name, d.Default)
	case o.Default < o.Min || o.Max > 0 && o.Default > o.Max:
		r.mistakes.Add(d.Default.Pos, "the default of option %q is %d, outside its bounds", o.Name, o.Default)
	case o.Default != 0 && o.Min == 0 && d.Min.Valid == d.Min.Given():
		r.mistakes.Add(d.Default.Pos, "the default of option %q is %d and it can be 0, expected a min above 0: in Go, 0 stands for the default", o.Name, o.Default)
	}
}
