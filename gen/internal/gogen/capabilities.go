package gogen

import (
	"github.com/dave/jennifer/jen"

	"github.com/arenagen/arenagen/gen/internal/ir"
)

// capabilities renders what a contract lets an arena rely on.
//
//	// Capabilities are what an arena may rely on.
//	type Capabilities struct {
//		// <description>
//		<Capability> bool
//	}
func capabilities(all []*ir.Capability) jen.Code {
	fields := make([]jen.Code, len(all))
	for i, c := range all {
		fields[i] = doc(c.Description).Id(c.GoName).Bool()
	}
	return doc("Capabilities are what an arena may rely on.").Type().Id("Capabilities").Struct(fields...)
}

// quirks renders the limits and faults that some versions of drivers have.
//
//	// Quirks are ...
//	type Quirks struct {
//		// <description>
//		<Quirk> <type>
//	}
func quirks(all []*ir.Quirk) jen.Code {
	fields := make([]jen.Code, len(all))
	for i, q := range all {
		fields[i] = doc(q.Description).Id(q.GoName).Id(quirkTypes[q.Type])
	}
	return doc("Quirks are what a driver cannot do or does wrong in the version that was loaded. The zero Quirks are none.").
		Type().Id("Quirks").Struct(fields...)
}

// quirkTypes are the types of quirks in Go.
var quirkTypes = map[string]string{"bool": "bool", "bytes": "uint64"}

// driverCapabilities renders a backend's answer.
//
//	// Capabilities says what an arena may rely on.
//	func (d *Driver) Capabilities() vmm.Capabilities {
//		return vmm.Capabilities{
//			<Capability>: <true or false>,
//		}
//	}
func driverCapabilities(values []*ir.CapabilityValue) jen.Code {
	entries := make([]jen.Code, len(values))
	for i, v := range values {
		entries[i] = keyed(jen.Id(v.Capability.GoName), jen.Lit(v.Value))
	}
	return doc("Capabilities says what an arena may rely on.").
		Add(driverMethod()).Id("Capabilities").Params().Qual(vmmPath, "Capabilities").
		Block(jen.Return(jen.Qual(vmmPath, "Capabilities").Add(list(entries...))))
}
