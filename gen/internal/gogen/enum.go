package gogen

import (
	"fmt"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/prose"
)

// choice renders an enum whose numbers are positions, as those of the contract and
// of a backend's options are.
//
//	// <Enum> says which <description>
//	type <Enum> uint8
//
//	// The values of <Enum>.
//	const (
//		// <description>
//		<Value> <Enum> = iota
//		// <description>
//		<Value>
//	)
func choice(e *ir.Enum) jen.Code {
	return jen.Add(enumType(e, jen.Uint8())).Line().Line().
		Add(positions("The values of "+e.GoName+".", e.GoName, enumConstants(e)))
}

// numbers renders an enum whose values have numbers of their own, as those of the ABI have.
//
//	// <Enum> says what <description>
//	type <Enum> int32
//
//	// The values of <Enum>.
//	const (
//		// <description>
//		<Value> <Enum> = <number>
//	)
func numbers(e *ir.Enum) jen.Code {
	var definitions []jen.Code
	for _, v := range e.Values {
		definitions = append(definitions,
			doc(v.Description).Id(v.GoName).Id(e.GoName).Op("=").Add(number(v.Value)))
	}
	return jen.Add(enumType(e, jen.Int32())).Line().Line().
		Add(doc("The values of " + e.GoName + ".")).Const().Defs(definitions...)
}

// enumType renders the type alone.
func enumType(e *ir.Enum, underlying jen.Code) *jen.Statement {
	return doc(saying(e.GoName, "is", e.Description)).Type().Id(e.GoName).Add(underlying)
}

// saying begins a description with a name: "<name> says which ..." where it is a
// question, else "<name> <verb> ...".
func saying(name, verb, description string) string {
	switch prose.FirstWord(description) {
	case "how", "what", "when", "where", "whether", "which", "who", "why":
		verb = "says"
	}
	return fmt.Sprintf("%s %s %s", name, verb, prose.Inside(description))
}

// A constant is one of a type's values, without its number.
type constant struct {
	name        string
	description string // "" is none
}

func enumConstants(e *ir.Enum) []constant {
	constants := make([]constant, len(e.Values))
	for i, v := range e.Values {
		constants[i] = constant{v.GoName, v.Description}
	}
	return constants
}

// positions renders constants that are numbered from 0.
//
//	// <title>
//	const (
//		// <description>
//		<Constant> <Type> = iota
//		// <description>
//		<Constant>
//	)
func positions(title, typ string, constants []constant) jen.Code {
	var definitions []jen.Code
	for i, c := range constants {
		definition := &jen.Statement{}
		if c.description != "" {
			definition.Add(doc(c.description))
		}
		definition.Id(c.name)
		if i == 0 {
			definition.Id(typ).Op("=").Iota()
		}
		definitions = append(definitions, definition)
	}
	return doc(title).Const().Defs(definitions...)
}

// choiceNames renders the names of a contract's enum.
//
//	var <enum>Names = [...]string{
//		<Value>: "<value>",
//	}
func choiceNames(e *ir.Enum) jen.Code {
	return names(namesOf(e), enumConstants(e), func(i int) string { return e.Values[i].Name })
}

// choiceString renders
//
//	// String is the value's name in the contract.
//	func (v <Enum>) String() string { return nameOf(<enum>Names[:], v) }
func choiceString(e *ir.Enum) jen.Code {
	return doc("String is the value's name in the contract.").
		Func().Params(jen.Id("v").Id(e.GoName)).Id("String").Params().String().
		Block(jen.Return(jen.Id("nameOf").Call(jen.Id(namesOf(e)).Index(jen.Op(":")), jen.Id("v"))))
}

func namesOf(e *ir.Enum) string { return strings.ToLower(e.GoName[:1]) + e.GoName[1:] + "Names" }

// names renders the texts of constants.
//
//	var <variable> = [...]string{
//		<Constant>: "<text>",
//	}
func names(variable string, constants []constant, text func(i int) string) jen.Code {
	entries := make([]jen.Code, len(constants))
	for i, c := range constants {
		entries[i] = keyed(jen.Id(c.name), jen.Lit(text(i)))
	}
	return jen.Var().Id(variable).Op("=").Index(jen.Op("...")).String().Add(list(entries...))
}
