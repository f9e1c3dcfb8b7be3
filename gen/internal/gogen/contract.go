package gogen

import (
	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
)

// contractFile renders the part of package vmm that the contract makes.
func contractFile(c *ir.Contract) emit.File {
	f := newFile(vmmPath, "vmm")
	add(f, classes(c.Classes)...)
	for _, e := range c.Enums {
		add(f, choice(e), choiceNames(e), choiceString(e))
	}
	add(f, capabilities(c.Capabilities), capabilityList(c.Capabilities), quirks(c.Quirks))
	add(f, operations(c.Operations)...)
	add(f, driverInterface(c.Operations))
	return file("arena/vmm/zz_generated_contract.go", f, contractOrigins(c), c.Pos.File)
}

func contractOrigins(c *ir.Contract) []emit.Origin {
	var origins []emit.Origin
	for _, class := range c.Classes {
		origins = append(origins, emit.Origin{Name: class.GoName, Pos: class.Pos})
	}
	origins = append(origins, enumOrigins(c.Enums)...)
	for _, capability := range c.Capabilities {
		origins = append(origins, emit.Origin{Name: "Capabilities." + capability.GoName, Pos: capability.Pos})
	}
	for _, quirk := range c.Quirks {
		origins = append(origins, emit.Origin{Name: "Quirks." + quirk.GoName, Pos: quirk.Pos})
	}
	for _, o := range c.Operations {
		origins = append(origins, emit.Origin{Name: o.OpName, Pos: o.Pos})
		if !o.Opens {
			origins = append(origins, emit.Origin{Name: "Driver." + o.GoName, Pos: o.Pos})
		}
	}
	return origins
}

func enumOrigins(enums []*ir.Enum) []emit.Origin {
	var origins []emit.Origin
	for _, e := range enums {
		origins = append(origins, emit.Origin{Name: e.GoName, Pos: e.Pos})
		for _, v := range e.Values {
			origins = append(origins, emit.Origin{Name: v.GoName, Pos: v.Pos})
		}
	}
	return origins
}
