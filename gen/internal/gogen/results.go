package gogen

import (
	"fmt"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
)

// resultsFile renders what a driver's functions answer.
func resultsFile(b *ir.Backend) emit.File {
	f := newFile(backendPath(b), b.Name, b.Provider.Package)
	add(f, resultTable(b.Result), failureFunction(b))
	origins := []emit.Origin{{Name: "results", Pos: b.Result.Pos}, {Name: "failure", Pos: b.Result.Pos}}
	place := fmt.Sprintf("backends/%s/zz_generated_results.go", b.Name)
	return file(place, f, origins, b.File)
}

// resultTable renders
//
//	// results is what the driver's codes are called and mean.
//	var results = vmm.Results{
//		<code>: {Name: "<NAME>", Class: vmm.<Class>},
//	}
func resultTable(r *ir.Result) jen.Code {
	entries := make([]jen.Code, len(r.Codes))
	for i, c := range r.Codes {
		entries[i] = keyed(number(c.Value), jen.Values(
			keyed(jen.Id("Name"), jen.Lit(c.Name)),
			keyed(jen.Id("Class"), jen.Qual(vmmPath, c.Class.GoName)),
		))
	}
	return doc("results is what the driver's codes are called and mean.").
		Var().Id("results").Op("=").Qual(vmmPath, "Results").Add(list(entries...))
}

// failureFunction renders
//
//	// failure is the error for a driver's function that answered a code.
//	func failure(function string, result <Result>, about vmm.Error) error {
//		return results.Failure(Backend, function, int64(result), about)
//	}
func failureFunction(b *ir.Backend) jen.Code {
	return doc("failure is the error for a driver's function that answered a code.").
		Func().Id("failure").
		Params(jen.Id("function").String(), jen.Id("result").Add(resultType(b)), jen.Id("about").Qual(vmmPath, "Error")).
		Error().
		Block(jen.Return(jen.Id("results").Dot("Failure").Call(
			jen.Id("Backend"), jen.Id("function"), jen.Int64().Call(jen.Id("result")), jen.Id("about"),
		)))
}

// resultType renders the type of a result, which is the provider's.
func resultType(b *ir.Backend) *jen.Statement {
	return jen.Qual(b.Provider.Package, strings.TrimPrefix(b.Result.Type, b.Provider.PkgName+"."))
}
