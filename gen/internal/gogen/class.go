package gogen

import (
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/arenagen/arenagen/gen/internal/ir"
)

// classes renders what a driver's answers mean.
//
//	// A Class is what a driver's answer means. ...
//	type Class uint8
//
//	// The classes.
//	const (
//		// <description>
//		<Class> Class = iota
//	)
//
//	var classNames = [...]string{
//		<Class>: "<name in words>",
//	}
func classes(all []*ir.Class) []jen.Code {
	constants := make([]constant, len(all))
	for i, c := range all {
		constants[i] = constant{c.GoName, c.Description}
	}
	return []jen.Code{
		doc("A Class is what a driver's answer means. It is an error, so that errors.Is finds it.").
			Type().Id("Class").Uint8(),
		positions("The classes.", "Class", constants),
		names("classNames", constants, func(i int) string { return strings.ReplaceAll(all[i].Name, "_", " ") }),
	}
}
