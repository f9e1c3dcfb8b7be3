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

// capabilityList renders
//
//	// List are the capabilities by name.
//	func (c Capabilities) List() []Capability {
//		return []Capability{
//			{"<capability>", c.<Capability>},
//		}
//	}
func capabilityList(all []*ir.Capability) jen.Code {
	entries := make([]jen.Code, len(all))
	for i, c := range all {
		entries[i] = jen.Values(jen.Lit(c.Name), jen.Id("c").Dot(c.GoName))
	}
	return doc("List are the capabilities by name, in the order of the contract.").
		Func().Params(jen.Id("c").Id("Capabilities")).Id("List").Params().Index().Id("Capability").
		Block(jen.Return(jen.Index().Id("Capability").Add(list(entries...))))
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

// abilities renders what a backend can do, as far as its file tells.
//
//	// Abilities says what the backend can do.
//	func Abilities() vmm.Abilities {
//		return vmm.Abilities{
//			Capabilities: (*Driver)(nil).Capabilities(),
//			Unsupported:  []vmm.Op{vmm.<Op>},
//			Ignores: []vmm.Input{
//				{Op: vmm.<Op>, Name: "<input>"},
//			},
//		}
//	}
func abilities(b *ir.Backend) jen.Code {
	entries := []jen.Code{keyed(jen.Id("Capabilities"), jen.Parens(jen.Op("*").Id("Driver")).Call(jen.Nil()).Dot("Capabilities").Call())}
	var unsupported, ignored []jen.Code
	for _, o := range b.Unsupported {
		unsupported = append(unsupported, jen.Qual(vmmPath, o.OpName))
	}
	for _, f := range b.Functions {
		for _, v := range f.Ignores {
			ignored = append(ignored, jen.Values(keyed(jen.Id("Op"), jen.Qual(vmmPath, f.Does.OpName)), keyed(jen.Id("Name"), jen.Lit(v.Name))))
		}
	}
	if len(unsupported) > 0 {
		entries = append(entries, keyed(jen.Id("Unsupported"), jen.Index().Qual(vmmPath, "Op").Add(list(unsupported...))))
	}
	if len(ignored) > 0 {
		entries = append(entries, keyed(jen.Id("Ignores"), jen.Index().Qual(vmmPath, "Input").Add(list(ignored...))))
	}
	return doc("Abilities says what the backend can do, as far as its file tells: it needs no driver.").
		Func().Id("Abilities").Params().Qual(vmmPath, "Abilities").
		Block(jen.Return(jen.Qual(vmmPath, "Abilities").Add(list(entries...))))
}

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
