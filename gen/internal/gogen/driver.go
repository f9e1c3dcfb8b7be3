package gogen

import (
	"fmt"
	"slices"

	"github.com/dave/jennifer/jen"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/prose"
)

// driverFile renders a backend's driver: the contract's operations by the functions that it has.
func driverFile(c *ir.Contract, b *ir.Backend) emit.File {
	if b.Library != nil {
		return libraryDriverFile(c, b)
	}
	f := newFile(b.ImportPath(), b.Name, b.Provider.Package)
	f.PackageComment(docText(fmt.Sprintf("Package %s is the %s backend: %s", b.Name, b.Name, prose.Inside(b.Description))))
	add(f,
		backendConstant(b),
		driverType(b.Provider),
		driverAssertion(),
		driverOpen(openingOperation(c), b),
		driverBackend(),
		driverCapabilities(b.Capabilities),
		abilities(b),
		driverNoQuirks(),
		driverHostAbout(),
	)
	for _, binding := range b.Functions {
		add(f, boundMethod(binding, b.Result))
	}
	for _, o := range b.Unsupported {
		add(f, unsupportedMethod(o))
	}
	for _, e := range numberedEnums(b) {
		add(f, numberFunction(e))
	}
	place := b.Generated("driver")
	return file(place, f, driverOrigins(b), c.Pos.File, b.File)
}

// openingOperation finds the operation that makes a driver. Every contract has one.
func openingOperation(c *ir.Contract) *ir.Operation {
	i := slices.IndexFunc(c.Operations, func(o *ir.Operation) bool { return o.Opens })
	if i < 0 {
		panic("no operation of contract " + c.Name + " opens a driver")
	}
	return c.Operations[i]
}

// backendConstant renders
//
//	// Backend is the backend's name.
//	const Backend = "<backend>"
func backendConstant(b *ir.Backend) jen.Code {
	return doc("Backend is the backend's name.").Const().Id("Backend").Op("=").Lit(b.Name)
}

// driverType renders
//
//	// A Driver does the operations ...
//	type Driver struct {
//		driver *<provider>.<Type>
//	}
func driverType(p *ir.Provider) jen.Code {
	return doc(fmt.Sprintf("A Driver does the operations of the driver contract on one device, with the functions of "+
		"%s.%s. Its methods are safe for concurrent use.", p.PkgName, p.Type)).
		Type().Id("Driver").Struct(jen.Id("driver").Op("*").Qual(p.Package, p.Type))
}

// driverAssertion renders
//
//	var _ vmm.Driver = (*Driver)(nil)
//
//	// This code is of a generation that the packages below it must support.
//	const _ = vmm.SupportsGeneration1
func driverAssertion() jen.Code {
	return jen.Var().Id("_").Qual(vmmPath, "Driver").Op("=").Parens(jen.Op("*").Id("Driver")).Call(jen.Nil()).
		Line().Line().Add(doc("This code is of a generation that the packages below it must support.")).
		Const().Id("_").Op("=").Qual(vmmPath, "SupportsGeneration1")
}

// driverMethod renders the start of a method: func (d *Driver).
func driverMethod() *jen.Statement { return jen.Func().Params(jen.Id("d").Op("*").Id("Driver")) }

// driverOpen renders
//
//	// Open opens a device ...
//	func Open(device int, options Options) (*vmm.Device, error) {
//		if err := options.check(); err != nil {
//			return nil, vmm.Invalid(Backend, vmm.Error{Op: vmm.<Op>}, err)
//		}
//		driver, result := <provider>.<Open>(device, options.forDriver())
//		if result != <ok> {
//			return nil, failure("<Open>", result, vmm.Error{Op: vmm.<Op>})
//		}
//		return vmm.NewDevice(&Driver{driver: driver}, device)
//	}
func driverOpen(opening *ir.Operation, b *ir.Backend) jen.Code {
	return jen.Add(
		doc("Open opens a device by its ordinal, from 0, and asks it what an arena needs to know. The zero "+
			"Options are the defaults. Its errors are of type *vmm.Error."),
		jen.Func().Id("Open").
			Params(jen.Id("device").Int(), jen.Id("options").Id("Options")).
			Params(jen.Op("*").Qual(vmmPath, "Device"), jen.Error()).
			Block(
				jen.If(jen.Err().Op(":=").Id("options").Dot("check").Call(), jen.Err().Op("!=").Nil()).Block(
					jen.Return(jen.Nil(), jen.Qual(vmmPath, "Invalid").Call(jen.Id("Backend"), about(opening), jen.Err())),
				),
				jen.List(jen.Id("driver"), jen.Id("result")).Op(":=").
					Qual(b.Provider.Package, b.Provider.Open).Call(jen.Id("device"), jen.Id("options").Dot("forDriver").Call()),
				jen.If(jen.Id("result").Op("!=").Add(number(b.Result.OK))).Block(
					jen.Return(jen.Nil(), failure(b.Provider.Open, opening)),
				),
				jen.Return(jen.Qual(vmmPath, "NewDevice").Call(
					jen.Op("&").Id("Driver").Values(keyed(jen.Id("driver"), jen.Id("driver"))),
					jen.Id("device"),
				)),
			),
	)
}

// driverBackend renders
//
//	// Backend is the backend's name.
//	func (d *Driver) Backend() string { return Backend }
func driverBackend() jen.Code {
	return doc("Backend is the backend's name.").
		Add(driverMethod()).Id("Backend").Params().String().Block(jen.Return(jen.Id("Backend")))
}

// driverNoQuirks renders
//
//	// Quirks says ...
//	func (d *Driver) Quirks() vmm.Quirks { return vmm.Quirks{} }
func driverNoQuirks() jen.Code {
	return doc("Quirks says what the driver's version cannot do or does wrong: nothing.").
		Add(driverMethod()).Id("Quirks").Params().Qual(vmmPath, "Quirks").Block(jen.Return(jen.Qual(vmmPath, "Quirks").Values()))
}

// driverHostAbout renders
//
//	// About says ...
//	func (d *Driver) About() vmm.About { return vmm.About{HostMemory: d.driver.HostMemory()} }
func driverHostAbout() jen.Code {
	return doc("About says what the driver is: no library.").
		Add(driverMethod()).Id("About").Params().Qual(vmmPath, "About").Block(jen.Return(
		jen.Qual(vmmPath, "About").Values(keyed(jen.Id("HostMemory"), jen.Id("d").Dot("driver").Dot("HostMemory").Call()))))
}

func driverOrigins(b *ir.Backend) []emit.Origin {
	origins := []emit.Origin{{Name: "Driver", Pos: b.Pos}, {Name: "Open", Pos: b.Pos}}
	for _, v := range b.Functions {
		origins = append(origins, emit.Origin{Name: "Driver." + v.Does.GoName, Pos: v.Pos})
	}
	for _, o := range b.Unsupported {
		origins = append(origins, emit.Origin{Name: "Driver." + o.GoName, Pos: o.Pos})
	}
	for _, e := range numberedEnums(b) {
		origins = append(origins, emit.Origin{Name: numberName(e), Pos: e.Pos})
	}
	return origins
}
