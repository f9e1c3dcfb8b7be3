package gogen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/prose"
)

// boundMethod renders an operation that a function of the driver does.
//
//	// <Operation> <does it>. It calls <Function>.
//	func (d *Driver) <Operation>(<inputs>) (<outputs>, err error) {
//		<numbers of enums>
//		<outputs that the driver has as another type>
//		if result := d.driver.<Function>(<arguments>); result != <ok> {
//			return <zeros>, failure("<Function>", result, <about>)
//		}
//		return <outputs>, nil
//	}
func boundMethod(b *ir.Binding, result *ir.Result) jen.Code {
	call := jen.Id("d").Dot("driver").Dot(b.Name).Call(arguments(b.Params)...)
	var body []jen.Code
	body = append(body, enumNumbers(b)...)
	body = append(body, foreignOutputs(b.Params)...)
	body = append(body,
		jen.If(jen.Id("result").Op(":=").Add(call), jen.Id("result").Op("!=").Add(number(result.OK))).Block(
			jen.Return(failing(b.Does, failure(b.Name, b.Does))...),
		),
		jen.Return(append(results(b), jen.Nil())...),
	)
	used := reported(b.Does)
	for _, p := range b.Params {
		used = append(used, p.Input)
	}
	return operationMethod(b.Does, used, "It calls "+b.Name+".", body...)
}

// unsupportedMethod renders an operation that no function of the driver does.
//
//	// <Operation> <does it>. The driver cannot do it.
//	func (d *Driver) <Operation>(<inputs>) (<outputs>, err error) {
//		return <zeros>, vmm.Unsupported(Backend, <about>, "...")
//	}
func unsupportedMethod(o *ir.Operation) jen.Code {
	unsupported := jen.Qual(vmmPath, "Unsupported").
		Call(jen.Id("Backend"), about(o), jen.Lit("no function of the driver does this"))
	return operationMethod(o, reported(o), "The driver cannot do it.", jen.Return(failing(o, unsupported)...))
}

// operationMethod renders a method of Driver that uses some inputs, and whose documentation ends
// with a remark.
func operationMethod(o *ir.Operation, used []*ir.Value, remark string, body ...jen.Code) jen.Code {
	sentence := strings.TrimSuffix(prose.FirstSentence(o.Description), ".")
	return doc(fmt.Sprintf("%s %s. %s", o.GoName, prose.Inside(sentence), remark)).
		Add(driverMethod()).Add(signature(o, used)).Block(body...)
}

// failing are the results of an operation that failed: a zero for each output, and the error.
func failing(o *ir.Operation, err jen.Code) []jen.Code {
	var results []jen.Code
	for _, v := range o.Outputs {
		results = append(results, zero(v.GoType))
	}
	return append(results, err)
}

// zero is the zero of an output's type.
func zero(goType string) *jen.Statement {
	switch {
	case goType == "string":
		return jen.Lit("")
	case goType == "bool":
		return jen.False()
	case strings.HasPrefix(goType, "["):
		return jen.Id(goType).Values()
	default:
		return number(0)
	}
}

// failure renders failure("<function>", result, <about>).
func failure(function string, o *ir.Operation) *jen.Statement {
	return jen.Id("failure").Call(jen.Lit(function), jen.Id("result"), about(o))
}

// errorFields are the fields of vmm.Error that an input fills, by the input's type.
var errorFields = map[string]string{"address": "VA", "bytes": "Size", "handle": "Handle"}

// reported are the inputs that a failure of an operation tells about: the first of each type that
// vmm.Error has a field for, so a reservation's size and not its alignment.
func reported(o *ir.Operation) []*ir.Value {
	var inputs []*ir.Value
	for _, v := range o.Inputs {
		sameType := func(earlier *ir.Value) bool { return earlier.Type == v.Type }
		if errorFields[v.Type] != "" && !slices.ContainsFunc(inputs, sameType) {
			inputs = append(inputs, v)
		}
	}
	return inputs
}

// about renders what a failure of an operation is about.
//
//	vmm.Error{Op: vmm.<Op>, VA: <va>, Size: <size>, Handle: <handle>}
func about(o *ir.Operation) *jen.Statement {
	fields := []jen.Code{keyed(jen.Id("Op"), jen.Qual(vmmPath, o.OpName))}
	for _, v := range reported(o) {
		fields = append(fields, keyed(jen.Id(errorFields[v.Type]), jen.Id(v.GoName)))
	}
	return jen.Qual(vmmPath, "Error").Values(fields...)
}

// arguments renders what a driver's function is called with, in its own order.
func arguments(params []*ir.BoundParam) []jen.Code {
	codes := make([]jen.Code, len(params))
	for i, p := range params {
		codes[i] = argument(p)
	}
	return codes
}

// argument renders a number for a constant, &<output>, or an input as the driver has it.
func argument(p *ir.BoundParam) jen.Code {
	switch {
	case p.Const != nil:
		return number(*p.Const)
	case p.Output != nil:
		return jen.Op("&").Id(outputName(p))
	case p.Enum != nil:
		return converted(jen.Id(enumNumber(p.Input)), "int64", p.GoType)
	case p.Input != nil:
		return converted(jen.Id(p.Input.GoName), p.Input.GoType, p.GoType)
	default:
		panic("no role for parameter " + p.Name)
	}
}

// converted renders <value>, or <to>(<value>) where its type is another one.
func converted(value jen.Code, from, to string) jen.Code {
	if from == to {
		return value
	}
	return jen.Id(to).Call(value)
}

// outputName is the variable that a driver's function stores an output in: the operation's own
// where the driver has its type, else one named after the driver's type, such as count32.
func outputName(p *ir.BoundParam) string {
	if p.GoType == p.Output.GoType {
		return p.Output.GoName
	}
	return p.Output.GoName + strings.TrimLeft(p.GoType, "uint")
}

// foreignOutputs renders the variables that outputName needs and the operation does not have.
//
//	var <output>32 int32
func foreignOutputs(params []*ir.BoundParam) []jen.Code {
	var codes []jen.Code
	for _, p := range params {
		if p.Output != nil && p.GoType != p.Output.GoType {
			codes = append(codes, jen.Var().Id(outputName(p)).Id(p.GoType))
		}
	}
	return codes
}

// results renders the outputs of an operation as the contract has them.
func results(b *ir.Binding) []jen.Code {
	codes := make([]jen.Code, len(b.Does.Outputs))
	for i, v := range b.Does.Outputs {
		at := slices.IndexFunc(b.Params, func(p *ir.BoundParam) bool { return p.Output == v })
		if at < 0 || v.Enum != nil {
			panic(fmt.Sprintf("%s gives no %s", b.Name, v.Name))
		}
		p := b.Params[at]
		codes[i] = converted(jen.Id(outputName(p)), p.GoType, v.GoType)
	}
	return codes
}
