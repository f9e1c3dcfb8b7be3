package gogen

import (
	"slices"

	"github.com/dave/jennifer/jen"

	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/prose"
)

// operations renders the names of a contract's operations.
//
//	// An Op is an operation of the contract.
//	type Op uint8
//
//	// The operations. ...
//	const (
//		<Op> Op = iota
//	)
//
//	var opNames = [...]string{
//		<Op>: "<name>",
//	}
func operations(all []*ir.Operation) []jen.Code {
	constants := make([]constant, len(all))
	for i, o := range all {
		constants[i] = constant{name: o.OpName}
		if o.Opens {
			constants[i].description = o.Description
		}
	}
	return []jen.Code{
		doc("An Op is an operation of the contract.").Type().Id("Op").Uint8(),
		positions("The operations. Those that are methods of Driver are described there.", "Op", constants),
		names("opNames", constants, func(i int) string { return all[i].Name }),
	}
}

// signature renders an operation as a method without its receiver. Inputs that are not used
// have no name.
//
//	<Operation>(<inputs>) (<outputs>, err error)
func signature(o *ir.Operation, used []*ir.Value) *jen.Statement {
	inputs := make([]variable, len(o.Inputs))
	for i, v := range o.Inputs {
		inputs[i] = variable{"_", valueType(v)}
		if slices.Contains(used, v) {
			inputs[i].name = v.GoName
		}
	}
	method := jen.Id(o.GoName).Params(variables(inputs...)...)
	if len(o.Outputs) == 0 {
		return method.Error()
	}
	var outputs []variable
	for _, v := range o.Outputs {
		outputs = append(outputs, variable{v.GoName, valueType(v)})
	}
	return method.Params(variables(append(outputs, variable{"err", jen.Error()})...)...)
}

// valueType renders the type that the contract has for a value.
func valueType(v *ir.Value) *jen.Statement {
	if v.Enum != nil {
		return jen.Qual(vmmPath, v.GoType)
	}
	return jen.Id(v.GoType)
}

// driverInterface renders the contract itself.
//
//	type Driver interface {
//		Backend() string
//		Capabilities() Capabilities
//
//		// <Operation> <does it>.
//		<Operation>(<inputs>) (<outputs>, err error)
//	}
func driverInterface(all []*ir.Operation) jen.Code {
	methods := []jen.Code{
		doc("Backend is the backend's name.").Id("Backend").Params().String(),
		doc("Capabilities says what an arena may rely on.").Id("Capabilities").Params().Id("Capabilities"),
		doc("Quirks says what the driver's version cannot do or does wrong.").Id("Quirks").Params().Id("Quirks"),
		doc("About says what the driver is.").Id("About").Params().Id("About"),
		jen.Line(),
	}
	for _, o := range all {
		if !o.Opens {
			methods = append(methods, doc(o.GoName+" "+prose.Inside(o.Description)).Add(signature(o, o.Inputs)))
		}
	}
	return doc("A Driver does the operations of the contract on one device. Its errors are of type *Error. " +
		"All methods are safe for concurrent use.").
		Type().Id("Driver").Interface(methods...)
}
