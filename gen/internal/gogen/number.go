package gogen

import (
	"fmt"
	"slices"

	"github.com/dave/jennifer/jen"

	"github.com/arenagen/arenagen/gen/internal/ir"
)

// numberName is the function that knows the driver's numbers for an enum of the contract.
func numberName(e *ir.EnumMap) string { return "numberOf" + e.Enum.GoName }

// enumNumber is the variable that holds the driver's number for an input.
func enumNumber(input *ir.Value) string { return input.GoName + "Number" }

// numberedEnums are the enums of which a function of the backend takes the number.
func numberedEnums(b *ir.Backend) []*ir.EnumMap {
	var numbered []*ir.EnumMap
	for _, e := range b.Enums {
		takes := func(b *ir.Bound) bool { return b.Enum == e && b.Input != nil }
		if bindsAny(b, takes) {
			numbered = append(numbered, e)
		}
	}
	return numbered
}

// bindsAny tells whether any function of a backend carries something.
func bindsAny(b *ir.Backend, something func(*ir.Bound) bool) bool {
	for _, f := range b.Functions {
		for bound := range f.Bounds() {
			if something(bound) {
				return true
			}
		}
	}
	return false
}

// enumNumbers renders, for each input that is an enum,
//
//	<input>Number, ok := numberOf<Enum>(<input>)
//	if !ok {
//		return <zeros>, vmm.NoNumber(Backend, "<Function>", <input>, <about>)
//	}
func enumNumbers(b *ir.Binding) []jen.Code {
	var codes []jen.Code
	var done []*ir.Value
	for p := range b.Bounds() {
		if p.Enum == nil || p.Input == nil || slices.Contains(done, p.Input) {
			continue
		}
		done = append(done, p.Input)
		input := jen.Id(p.Input.GoName)
		unknown := jen.Qual(vmmPath, "NoNumber").Call(jen.Id("Backend"), jen.Lit(b.Name), input, about(b.Does))
		codes = append(codes,
			jen.List(jen.Id(enumNumber(p.Input)), jen.Id("ok")).Op(":=").Id(numberName(p.Enum)).Call(input),
			jen.If(jen.Op("!").Id("ok")).Block(jen.Return(failing(b.Does, unknown)...)),
		)
	}
	return codes
}

// numberFunction renders
//
//	// numberOf<Enum> is the driver's number for a value, if it has one.
//	func numberOf<Enum>(value vmm.<Enum>) (number int64, ok bool) {
//		switch value {
//		case vmm.<Value>:
//			return <number>, true
//		}
//		return 0, false
//	}
func numberFunction(e *ir.EnumMap) jen.Code {
	cases := make([]jen.Code, len(e.Values))
	for i, v := range e.Values {
		cases[i] = jen.Case(jen.Qual(vmmPath, v.Value.GoName)).Block(jen.Return(number(v.Number), jen.True()))
	}
	return doc(fmt.Sprintf("%s is the driver's number for a value, if it has one.", numberName(e))).
		Func().Id(numberName(e)).
		Params(jen.Id("value").Qual(vmmPath, e.Enum.GoName)).
		Params(jen.Id("number").Int64(), jen.Id("ok").Bool()).
		Block(
			jen.Switch(jen.Id("value")).Block(cases...),
			jen.Return(number(0), jen.False()),
		)
}
