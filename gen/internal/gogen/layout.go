package gogen

import (
	"github.com/dave/jennifer/jen"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
)

// layoutFile renders the proof that the structs of package capi lie in memory as those of
// C do. It is in a file of its own, since it is the one that needs package unsafe.
func layoutFile(abi *ir.ABI) emit.File {
	f := newFile(capiPath, "capi")
	add(f, layout(abi.Structs))
	return file("backends/kit/capi/zz_generated_layout.go", f, nil, abi.Pos.File)
}

// layout renders
//
//	func _() {
//		var zero [1]struct{}
//		_ = zero[unsafe.Sizeof(<Struct>{})-<size>]
//		_ = zero[unsafe.Offsetof(<Struct>{}.<Field>)-<offset>]
//	}
func layout(structs []*ir.Struct) jen.Code {
	body := []jen.Code{jen.Var().Id("zero").Index(number(1)).Struct()}
	for _, s := range structs {
		body = append(body, jen.Line(), mustBe(s.Size, "Sizeof", jen.Id(s.GoName).Values()))
		for _, f := range s.Fields {
			body = append(body, mustBe(f.Offset, "Offsetof", jen.Id(s.GoName).Values().Dot(f.GoName)))
		}
	}
	return doc("An error about an index below means that a struct does not lie in memory as it does in C. " +
		"The number in each line is the size or the offset that it has there.").
		Func().Id("_").Params().Block(body...)
}

// mustBe renders _ = zero[unsafe.<function>(<operand>)-<want>], which compiles when both are equal.
func mustBe(want int, function string, operand jen.Code) jen.Code {
	return jen.Id("_").Op("=").Id("zero").Index(jen.Qual("unsafe", function).Call(operand).Op("-").Add(number(want)))
}
