package gogen

import (
	"fmt"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/prose"
)

// abiFile renders the types of the ABI as package capi has them.
func abiFile(abi *ir.ABI) emit.File {
	f := newFile(capiPath, "capi")
	for _, h := range abi.Handles {
		add(f, handle(h))
	}
	for _, e := range abi.Enums {
		add(f, numbers(e))
	}
	for _, s := range abi.Structs {
		add(f, mirror(s))
	}
	add(f, callbacks(abi.Callbacks))
	return file("backends/kit/capi/zz_generated_abi.go", f, abiOrigins(abi), abi.Pos.File)
}

func abiOrigins(abi *ir.ABI) []emit.Origin {
	var origins []emit.Origin
	for _, h := range abi.Handles {
		origins = append(origins, emit.Origin{Name: h.GoName, Pos: h.Pos})
	}
	origins = append(origins, enumOrigins(abi.Enums)...)
	for _, s := range abi.Structs {
		origins = append(origins, emit.Origin{Name: s.GoName, Pos: s.Pos})
		for _, f := range s.Fields {
			origins = append(origins, emit.Origin{Name: s.GoName + "." + f.GoName, Pos: f.Pos})
		}
	}
	for _, c := range abi.Callbacks {
		origins = append(origins, emit.Origin{Name: "Callbacks." + c.GoName, Pos: c.Pos})
	}
	return origins
}

// handle renders
//
//	// <Handle> <names an object>.
//	type <Handle> uint64
func handle(h *ir.Handle) jen.Code {
	return doc(h.GoName + " " + prose.Inside(h.Description)).Type().Id(h.GoName).Uint64()
}

// mirror renders a struct that lies in memory as the C one does.
//
//	// <Struct> holds <description>
//	type <Struct> struct {
//		// <description>
//		<Field> <type>
//		_       [<n>]byte
//	}
func mirror(s *ir.Struct) jen.Code {
	var fields []jen.Code
	end := 0
	for _, f := range s.Fields {
		fields = append(fields, padding(f.Offset-end), doc(f.Description).Id(f.GoName).Add(fieldType(f)))
		end = f.Offset + f.Size
	}
	fields = append(fields, padding(s.Size-end))
	return doc(saying(s.GoName, "holds", s.Description)).Type().Id(s.GoName).Struct(fields...)
}

// padding renders _ [<n>]byte, or nothing.
func padding(n int) jen.Code {
	if n == 0 {
		return nil
	}
	return jen.Id("_").Index(number(n)).Byte()
}

func fieldType(f *ir.Field) *jen.Statement {
	t := &jen.Statement{}
	if f.Count > 0 {
		t.Index(number(f.Count))
	}
	name, pointer := strings.CutPrefix(f.Type.Go, "*")
	if pointer {
		t.Op("*")
	}
	return t.Id(name)
}

// callbacks renders how Go calls the caller's functions.
//
//	type Callbacks interface {
//		// <Callback> calls a function of type <c_callback>.
//		<Callback>(function uintptr, <inputs>) (<outputs>, result <type>)
//	}
func callbacks(all []*ir.Callback) jen.Code {
	methods := make([]jen.Code, len(all))
	for i, c := range all {
		methods[i] = doc(fmt.Sprintf("%s calls a function of type %s.", c.GoName, c.CName)).Add(callback(c))
	}
	return doc("Callbacks calls the caller's C functions. A library's package main implements it.").
		Type().Id("Callbacks").Interface(methods...)
}

func callback(c *ir.Callback) jen.Code {
	inputs := []variable{{"function", jen.Uintptr()}}
	var outputs []variable
	for _, p := range c.Params {
		v := variable{p.GoName, jen.Id(p.Type.Go)}
		if p.Role == ir.RoleOut {
			outputs = append(outputs, v)
		} else {
			inputs = append(inputs, v)
		}
	}
	if c.Returns.Kind != ir.KindVoid {
		outputs = append(outputs, variable{"result", jen.Id(c.Returns.Go)})
	}
	return jen.Id(c.GoName).Params(variables(inputs...)...).Params(variables(outputs...)...)
}
