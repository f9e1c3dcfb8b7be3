package gogen

import (
	"fmt"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/prose"
)

// libraryDriverFile renders the driver of a backend that calls a vendor's library.
func libraryDriverFile(c *ir.Contract, b *ir.Backend) emit.File {
	f := newFile(b.ImportPath(), b.Name)
	f.PackageComment(docText(fmt.Sprintf("Package %s is the %s backend: %s", b.Name, b.Name, prose.Inside(b.Description))))
	add(f,
		backendConstant(b),
		libraryDriverType(b),
		driverAssertion(),
		libraryDriverOpen(openingOperation(c), b),
		driverBackend(),
		driverCapabilities(b.Capabilities),
		abilities(b),
		driverQuirks(b.Library),
		driverAbout(),
	)
	for _, binding := range b.Functions {
		add(f, libraryMethod(binding, b))
	}
	for _, o := range b.Unsupported {
		add(f, unsupportedMethod(o))
	}
	for _, e := range numberedEnums(b) {
		add(f, numberFunction(e))
	}
	for _, e := range valuedEnums(b) {
		add(f, valueFunction(e))
	}
	return file(b.Generated("driver"), f, driverOrigins(b), c.Pos.File, b.File)
}

// libraryDriverType renders
//
//	// A Driver does the operations ...
//	type Driver struct {
//		functions
//		about   vmm.About
//		version dl.Version
//		<state> <type>
//	}
func libraryDriverType(b *ir.Backend) jen.Code {
	fields := []jen.Code{jen.Id("functions"), jen.Id("about").Qual(vmmPath, "About")}
	if b.Library.Version != nil {
		fields = append(fields, jen.Id("version").Qual(dlPath, "Version"))
	}
	if keepsOrdinal(b) {
		fields = append(fields, jen.Id("ordinal").Int32())
	}
	if undoes(b) {
		fields = append(fields, jen.Id("opening").Qual(vmmPath, "Opening"))
	}
	for _, s := range b.Library.State {
		fields = append(fields, jen.Id(stateName(s.Name)).Id(stateType(s.Type)).Comment(s.Type.C))
	}
	return doc(fmt.Sprintf("A Driver does the operations of the driver contract on one device, with the functions of %s. "+
		"Its methods are safe for concurrent use.", b.Library.Names[0])).
		Type().Id("Driver").Struct(fields...)
}

// stateType is the type in Go of something that opening keeps.
func stateType(t *ir.CType) string {
	if t.Size == 8 {
		return "uint64"
	}
	return "int32"
}

// libraryDriverOpen renders
//
//	// Open opens a device ...
//	func Open(device int, options Options) (*vmm.Device, error) {
//		if err := options.check(); err != nil {
//			return nil, vmm.Invalid(Backend, vmm.Error{Op: vmm.<Op>}, err)
//		}
//		d, err := load()
//		if err != nil {
//			return nil, err
//		}
//		if err := d.askVersion(); err != nil {
//			return nil, err
//		}
//		if err := d.open(device); err != nil {
//			return nil, err
//		}
//		return vmm.NewDevice(d, device)
//	}
func libraryDriverOpen(opening *ir.Operation, b *ir.Backend) jen.Code {
	or := func(call *jen.Statement) jen.Code {
		return jen.If(jen.Err().Op(":=").Add(call), jen.Err().Op("!=").Nil()).Block(jen.Return(jen.Nil(), jen.Err()))
	}
	body := []jen.Code{
		jen.If(jen.Err().Op(":=").Id("options").Dot("check").Call(), jen.Err().Op("!=").Nil()).Block(
			jen.Return(jen.Nil(), jen.Qual(vmmPath, "Invalid").Call(jen.Id("Backend"), about(opening), jen.Err())),
		),
		jen.List(jen.Id("d"), jen.Err()).Op(":=").Id("load").Call(),
		jen.If(jen.Err().Op("!=").Nil()).Block(jen.Return(jen.Nil(), jen.Err())),
	}
	if b.Library.Version != nil {
		body = append(body, or(jen.Id("d").Dot("askVersion").Call()))
	}
	made := jen.Qual(vmmPath, "NewDevice").Call(jen.Id("d"), jen.Id("device"))
	if undoes(b) {
		failed := jen.Return(jen.Nil(), jen.Id("d").Dot("opening").Dot("Failed").Call(jen.Err()))
		body = append(body,
			jen.If(jen.Err().Op(":=").Id("d").Dot("open").Call(jen.Id("device")), jen.Err().Op("!=").Nil()).Block(failed),
			jen.List(jen.Id("opened"), jen.Err()).Op(":=").Add(made),
			jen.If(jen.Err().Op("!=").Nil()).Block(failed),
			jen.Return(jen.Id("opened"), jen.Nil()),
		)
	} else {
		body = append(body, or(jen.Id("d").Dot("open").Call(jen.Id("device"))), jen.Return(made))
	}
	return jen.Add(
		doc("Open loads the library, opens a device by its ordinal, from 0, and asks it what an arena needs to know. Its errors are of type *vmm.Error."),
		jen.Func().Id("Open").
			Params(jen.Id("device").Int(), jen.Id("options").Id("Options")).
			Params(jen.Op("*").Qual(vmmPath, "Device"), jen.Error()).
			Block(body...),
	)
}

// driverQuirks renders what the driver's version cannot do or does wrong.
//
//	func (d *Driver) Quirks() vmm.Quirks {
//		var quirks vmm.Quirks
//		if <versions> {
//			quirks.<Quirk> = <value>
//		}
//		return quirks
//	}
func driverQuirks(lib *ir.Library) jen.Code {
	body := []jen.Code{jen.Var().Id("quirks").Qual(vmmPath, "Quirks")}
	for _, q := range lib.Quirks {
		value := jen.Code(jen.True())
		if q.Quirk.Type == "bytes" {
			value = byteCount(q.Bytes)
		}
		body = append(body, versioned(q.Versions, []jen.Code{jen.Id("quirks").Dot(q.Quirk.GoName).Op("=").Add(value)})...)
	}
	body = append(body, jen.Return(jen.Id("quirks")))
	if len(lib.Quirks) == 0 {
		body = []jen.Code{jen.Return(jen.Qual(vmmPath, "Quirks").Values())}
	}
	return doc("Quirks says what the driver's version cannot do or does wrong.").
		Add(driverMethod()).Id("Quirks").Params().Qual(vmmPath, "Quirks").Block(body...)
}

// driverAbout renders
//
//	// About says which library was loaded, and its version.
//	func (d *Driver) About() vmm.About { return d.about }
func driverAbout() jen.Code {
	return doc("About says which library was loaded, and its version.").
		Add(driverMethod()).Id("About").Params().Qual(vmmPath, "About").Block(jen.Return(jen.Id("d").Dot("about")))
}

// libraryMethod renders an operation that a function of the library does.
//
//	// <Operation> <does it>. It calls <Function>.
//	func (d *Driver) <Operation>(<inputs>) (<outputs>, err error) {
//		<numbers of enums>
//		<refusals>
//		var frame dl.Frame
//		<arguments>
//		if result := int32(d.<function>.Call(&frame)); result != <ok> {
//			return <zeros>, d.failure("<Function>", result, <about>)
//		}
//		return <outputs>, nil
//	}
func libraryMethod(b *ir.Binding, backend *ir.Backend) jen.Code {
	c := newCall(b, nil)
	body := append(enumNumbers(b), libraryRefusals(b)...)
	if b.C.Within != "" {
		body = append(body, withinBody(b, c, backend.Result)...)
	} else {
		body = append(body, jen.Var().Id("frame").Qual(dlPath, "Frame"))
		body = append(body, c.fill...)
		failed := jen.Id("d").Dot("failure").Call(jen.Lit(b.Name), jen.Id("result"), about(b.Does))
		body = append(body, c.answered(backend.Result.OK, nil, failing(b.Does, failed)...))
		body = append(body, returned(b, c)...)
	}
	used := reported(b.Does)
	for bound := range b.Bounds() {
		used = append(used, bound.Input)
	}
	for _, p := range b.Params {
		if p.Fill == nil {
			continue
		}
		for _, link := range p.Fill.Chain {
			if link.When != nil {
				used = append(used, link.When.Input)
			}
		}
	}
	return operationMethod(b.Does, used, "It calls "+b.Name+".", body...)
}

// libraryRefusals render what is refused before the function is called.
//
//	if d.<function> == 0 {
//		return <zeros>, vmm.Unsupported(Backend, <about>, "...")
//	}
func libraryRefusals(b *ir.Binding) []jen.Code {
	var codes []jen.Code
	refuse := func(condition *jen.Statement, why string) {
		unsupported := jen.Qual(vmmPath, "Unsupported").Call(jen.Id("Backend"), about(b.Does), jen.Lit(why))
		codes = append(codes, jen.If(condition).Block(jen.Return(failing(b.Does, unsupported)...)))
	}
	if b.C.Optional {
		refuse(jen.Id("d").Dot(b.Name).Op("==").Lit(0), lacksFunction(b))
	}
	if b.C.From != nil {
		refuse(before(*b.C.From), fmt.Sprintf("%s does this from version %s on", b.Name, b.C.From))
	}
	return codes
}

// lacksFunction says why a function that may be missing is not called.
func lacksFunction(b *ir.Binding) string { return "the library has no function " + b.C.Symbol }

// returned renders what a method returns when the call succeeded.
func returned(b *ir.Binding, c *call) []jen.Code {
	var codes []jen.Code
	values := make([]jen.Code, len(b.Does.Outputs))
	for i, v := range b.Does.Outputs {
		values[i] = jen.Id(v.GoName) // memory of the method's own
		for _, o := range c.outputs {
			if o.bound.Output != v {
				continue
			}
			if v.Enum == nil {
				values[i] = o.value()
				break
			}
			codes = append(codes,
				jen.List(jen.Id(v.GoName), jen.Id("known")).Op(":=").Add(o.value()),
				jen.If(jen.Op("!").Id("known")).Block(jen.Return(failing(b.Does,
					jen.Qual(vmmPath, "NoValue").Call(jen.Id("Backend"), jen.Lit(b.Name), jen.Int64().Call(o.read()), about(b.Does)))...)),
			)
		}
	}
	if len(codes) > 0 { // the outputs are named results already
		codes[0] = jen.List(jen.Id(b.Does.Outputs[0].GoName), jen.Id("known")).Op(":=").Add(c.outputs[0].value())
	}
	return append(codes, jen.Return(append(values, jen.Nil())...))
}

// withinBody renders a call within a scope.
//
//	err = d.within<Scope>(vmm.<Op>, func() error {
//		var frame dl.Frame
//		<arguments>
//		if result := int32(d.<function>.Call(&frame)); result != <ok> {
//			return d.failure("<Function>", result, <about>)
//		}
//		<output> = <value>
//		return nil
//	})
//	return <outputs>, err
func withinBody(b *ir.Binding, c *call, result *ir.Result) []jen.Code {
	inner := append([]jen.Code{jen.Var().Id("frame").Qual(dlPath, "Frame")}, c.fill...)
	inner = append(inner, c.answered(result.OK, nil, jen.Id("d").Dot("failure").Call(jen.Lit(b.Name), jen.Id("result"), about(b.Does))))
	var values []jen.Code
	for _, o := range c.outputs {
		inner = append(inner, jen.Id(o.bound.Output.GoName).Op("=").Add(o.value()))
	}
	for _, v := range b.Does.Outputs {
		values = append(values, jen.Id(v.GoName))
	}
	inner = append(inner, jen.Return(jen.Nil()))
	call := jen.Id("d").Dot(scopeName(b.C.Within)).Call(jen.Qual(vmmPath, b.Does.OpName), jen.Func().Params().Error().Block(inner...))
	if len(values) == 0 {
		return []jen.Code{jen.Return(call)}
	}
	return []jen.Code{jen.Err().Op("=").Add(call), jen.Return(append(values, jen.Err())...)}
}

// valueName is the function that knows which value of an enum of the contract a driver's number is.
func valueName(e *ir.Enum) string { return strings.ToLower(e.GoName[:1]) + e.GoName[1:] + "Of" }

// valuedEnums are the enums that a function of the backend gives the number of.
func valuedEnums(b *ir.Backend) []*ir.EnumMap {
	var valued []*ir.EnumMap
	for _, e := range b.Enums {
		if bindsAny(b, func(b *ir.Bound) bool { return b.Output != nil && b.Output.Enum == e.Enum }) {
			valued = append(valued, e)
		}
	}
	return valued
}

// valueFunction renders
//
//	// <enum>Of is the value that a number of the driver's means, if it means one.
//	func <enum>Of(number int64) (value vmm.<Enum>, known bool) {
//		switch number {
//		case <number>:
//			return vmm.<Value>, true
//		}
//		return 0, false
//	}
func valueFunction(e *ir.EnumMap) jen.Code {
	cases := make([]jen.Code, len(e.Values))
	for i, v := range e.Values {
		cases[i] = jen.Case(number(v.Number)).Block(jen.Return(jen.Qual(vmmPath, v.Value.GoName), jen.True()))
	}
	return doc(valueName(e.Enum)+" is the value that a number of the driver's means, if it means one.").
		Func().Id(valueName(e.Enum)).Params(jen.Id("number").Int64()).
		Params(jen.Id("value").Qual(vmmPath, e.Enum.GoName), jen.Id("known").Bool()).
		Block(jen.Switch(jen.Id("number")).Block(cases...), jen.Return(number(0), jen.False()))
}
