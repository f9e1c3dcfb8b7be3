package gogen

import (
	"slices"

	"github.com/dave/jennifer/jen"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
)

// exportsFile renders package main of a shared library.
func exportsFile(abi *ir.ABI, l *ir.SharedLibrary) emit.File {
	var packages []string
	for _, b := range l.Backends {
		packages = append(packages, b.ImportPath())
	}
	f := newFile(l.Import, "main", packages...)
	f.PackageComment("// Command lib" + l.Target + " is the shared library of " + carried(l) + ". It converts types")
	f.PackageComment("// and nothing else: capi.Library does the work, and the guard stands in front.")
	f.CgoPreamble(`#include "guard.h"`)
	add(f,
		exportsLibrary(l),
		exportsMain(),
		exportsReady(),
	)
	if len(l.Backends) == 1 {
		add(f, openRegistered(l.Backends[0]))
	}
	add(f, exportsAnswer(abi), exportsRecovered(abi))
	add(f, exportsCallbacks(abi.Callbacks)...)
	origins := []emit.Origin{}
	for _, function := range abi.Functions {
		if function.Answer == "go" {
			add(f, export(function))
			origins = append(origins, emit.Origin{Name: function.ExportName, Pos: function.Pos})
		}
	}
	return file(l.Folder+"/zz_generated_exports.go", f, origins, append([]string{abi.Pos.File}, l.Sources...)...)
}

// carried says which backends a library carries.
func carried(l *ir.SharedLibrary) string {
	if len(l.Backends) == 1 {
		return "the " + l.Name + " backend"
	}
	return "every backend"
}

// exportsLibrary renders, for a library of one backend,
//
//	var library = capi.New(<registered>, callbacks{})
//
// and for that of all
//
//	var library = capi.New(all.Backends(), callbacks{})
func exportsLibrary(l *ir.SharedLibrary) jen.Code {
	backends := jen.Qual(allPath, "Backends").Call()
	if len(l.Backends) == 1 {
		backends = jen.Add(registered(l.Backends))
	}
	return jen.Var().Id("library").Op("=").Qual(capiPath, "New").Call(backends, jen.Id("callbacks").Values())
}

// exportsMain renders the main function that a shared library must have and never calls.
func exportsMain() jen.Code { return jen.Func().Id("main").Params().Block() }

// exportsReady renders
//
//	//export goReady
//	func goReady() {}
func exportsReady() jen.Code {
	return jen.Add(
		doc("goReady returns when the Go runtime is up. The guard calls it once, while the library loads."),
		exportDirective("goReady"),
		jen.Func().Id("goReady").Params().Block(),
	)
}

// exportsAnswer renders
//
//	func answer(operation string, err error) C.<status> {
//		if err == nil {
//			return C.<OK>
//		}
//		failure := capi.Explain(operation, err)
//		C.<prefix>_note((*C.<error>)(unsafe.Pointer(&failure)))
//		return C.<status>(failure.Status)
//	}
func exportsAnswer(abi *ir.ABI) jen.Code {
	return jen.Add(
		doc("answer is the status of an error, which becomes the calling thread's last one."),
		jen.Func().Id("answer").Params(jen.Id("operation").String(), jen.Err().Error()).Add(cType(abi.Status.CName)).Block(
			jen.If(jen.Err().Op("==").Nil()).Block(jen.Return(jen.Lit(0))),
			jen.Id("failure").Op(":=").Qual(capiPath, "Explain").Call(jen.Id("operation"), jen.Err()),
			jen.Qual("C", abi.Name+"_note").Call(pointerTo(cType(abi.Name+"_error"), jen.Op("&").Id("failure"))),
			jen.Return(cType(abi.Status.CName).Call(jen.Id("failure").Dot("Status"))),
		),
	)
}

// exportsRecovered renders
//
//	func recovered(operation string, status *C.<status>) {
//		if value := recover(); value != nil {
//			failed := answer(operation, library.Fault(value))
//			if status != nil {
//				*status = failed
//			}
//		}
//	}
func exportsRecovered(abi *ir.ABI) jen.Code {
	return jen.Add(
		doc("recovered ends an export in which something panicked. The status is nil where the export answers none."),
		jen.Func().Id("recovered").Params(jen.Id("operation").String(), jen.Id("status").Op("*").Add(cType(abi.Status.CName))).Block(
			jen.If(jen.Id("value").Op(":=").Recover(), jen.Id("value").Op("!=").Nil()).Block(
				jen.Id("failed").Op(":=").Id("answer").Call(jen.Id("operation"), jen.Id("library").Dot("Fault").Call(jen.Id("value"))),
				jen.If(jen.Id("status").Op("!=").Nil()).Block(jen.Op("*").Id("status").Op("=").Id("failed")),
			),
		),
	)
}

// exportsCallbacks renders the type that calls the caller's functions, and a method for each kind:
//
//	type callbacks struct{}
//
//	func (callbacks) <Name>(function, user uintptr, ...) (<out> uint64, result int32) {
//		answer := C.<name>_call(C.uintptr_t(function), ...)
//		return uint64(answer.<out>), int32(answer.result)
//	}
func exportsCallbacks(all []*ir.Callback) []jen.Code {
	codes := []jen.Code{jen.Add(
		doc("callbacks calls the caller's functions, which are in C."),
		jen.Type().Id("callbacks").Struct(),
	)}
	for _, c := range all {
		codes = append(codes, exportsCallback(c))
	}
	return codes
}

func exportsCallback(c *ir.Callback) jen.Code {
	params := []variable{{"function", jen.Uintptr()}}
	arguments := []jen.Code{jen.Qual("C", "uintptr_t").Call(jen.Id("function"))}
	var results []variable
	var values []jen.Code
	for _, p := range c.Params {
		if p.Role == ir.RoleOut {
			results = append(results, variable{p.GoName, goType(p.Type)})
			values = append(values, goType(p.Type).Call(jen.Id("answer").Dot(p.Name)))
			continue
		}
		params = append(params, variable{p.GoName, goType(p.Type)})
		arguments = append(arguments, cType(p.Type.Cgo).Call(jen.Id(p.GoName)))
	}
	results = append(results, variable{"result", goType(c.Returns)})
	values = append(values, goType(c.Returns).Call(jen.Id("answer").Dot("result")))
	return jen.Func().Params(jen.Id("callbacks")).Id(c.GoName).
		Params(variables(params...)...).Params(variables(results...)...).Block(
		jen.Id("answer").Op(":=").Qual("C", c.CName+"_call").Call(arguments...),
		jen.Return(values...),
	)
}

// export renders one function behind the guard. By what it returns:
//
//	func <goName>(...) (status C.<status>) {
//		capi.MakeRoom()
//		defer recovered("<symbol>", &status)
//		return answer("<symbol>", library.<Name>(...))
//	}
//
//	func <goName>(...) (value C.uintptr_t) {
//		capi.MakeRoom()
//		defer recovered("<symbol>", nil)
//		result, err := library.<Name>(...)
//		answer("<symbol>", err)
//		return C.uintptr_t(result)
//	}
//
//	func <goName>(...) {
//		capi.MakeRoom()
//		defer recovered("<symbol>", nil)
//		answer("<symbol>", library.<Name>(...))
//	}
func export(f *ir.Function) jen.Code {
	operation := jen.Lit(f.Symbol)
	makeRoom := jen.Qual(capiPath, "MakeRoom").Call()
	call := jen.Id("library").Dot(f.GoName).Add(exportArguments(f.Params))
	function := jen.Func().Id(f.ExportName).Params(exportParams(f.Params)...)
	switch f.Returns.Kind {
	case ir.KindEnum:
		function.Params(jen.Id("status").Add(cType(f.Returns.Cgo))).Block(
			makeRoom,
			jen.Defer().Id("recovered").Call(operation, jen.Op("&").Id("status")),
			jen.Return(jen.Id("answer").Call(operation, call)),
		)
	case ir.KindVoid:
		function.Block(
			makeRoom,
			jen.Defer().Id("recovered").Call(operation, jen.Nil()),
			jen.Id("answer").Call(operation, call),
		)
	case ir.KindPointer:
		function.Params(jen.Id("value").Add(cType(f.Returns.Cgo))).Block(
			makeRoom,
			jen.Defer().Id("recovered").Call(operation, jen.Nil()),
			jen.List(jen.Id("result"), jen.Err()).Op(":=").Add(call),
			jen.Id("answer").Call(operation, jen.Err()),
			jen.Return(cType(f.Returns.Cgo).Call(jen.Id("result"))),
		)
	default:
		panic("an export through Go cannot return " + f.Returns.Name)
	}
	return jen.Add(doc(f.ExportName+" answers "+f.Symbol+"."), exportDirective(f.ExportName), function)
}

// exportParams renders the parameters as C has them.
func exportParams(params []*ir.Param) []jen.Code {
	codes := make([]jen.Code, len(params))
	for i, p := range params {
		codes[i] = jen.Id(p.GoName).Do(func(s *jen.Statement) {
			if p.Role != ir.RoleValue {
				s.Op("*")
			}
		}).Add(cType(p.Type.Cgo))
	}
	return codes
}

// exportArguments renders the parameters as capi.Library takes them: numbers by conversion, pointers by
// reinterpretation, since the types have the same layout. Pointers are long, so then each argument has a
// line.
func exportArguments(params []*ir.Param) jen.Code {
	layout := jen.Options{Open: "(", Close: ")", Separator: ","}
	codes := make([]jen.Code, len(params))
	for i, p := range params {
		if p.Role == ir.RoleValue {
			codes[i] = capiType(p.Type).Call(jen.Id(p.GoName))
			continue
		}
		codes[i] = pointerTo(capiType(p.Type), jen.Id(p.GoName))
		layout.Multi = true
	}
	return jen.Custom(layout, codes...)
}

// pointerTo renders (*<type>)(unsafe.Pointer(<value>)).
func pointerTo(target, value jen.Code) *jen.Statement {
	return jen.Parens(jen.Op("*").Add(target)).Call(jen.Qual("unsafe", "Pointer").Call(value))
}

// cType renders C.<name>.
func cType(name string) *jen.Statement { return jen.Qual("C", name) }

// goType renders a type that Go itself has.
func goType(t *ir.Type) *jen.Statement { return jen.Id(t.Go) }

// capiType renders a type of the ABI as package capi has it.
func capiType(t *ir.Type) *jen.Statement {
	if slices.Contains([]ir.TypeKind{ir.KindHandle, ir.KindEnum, ir.KindStruct}, t.Kind) {
		return jen.Qual(capiPath, t.Go)
	}
	return goType(t)
}
