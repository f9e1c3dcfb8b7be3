package gogen

import (
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
)

// resultsFile renders what a driver's functions answer.
func resultsFile(b *ir.Backend) emit.File {
	f := newFile(b.ImportPath(), b.Name, providerPackages(b)...)
	failure, name := failureFunction, "failure"
	if b.Library != nil {
		failure, name = libraryFailure, "Driver.failure"
	}
	add(f, resultTable(b.Result), failure(b))
	origins := []emit.Origin{{Name: "results", Pos: b.Result.Pos}, {Name: name, Pos: b.Result.Pos}}
	place := b.Generated("results")
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

// libraryFailure renders
//
//	// failure is the error for a function of the library that answered a code.
//	func (d *Driver) failure(function string, result int32, about vmm.Error) error {
//		about.Name = d.<name>.<Ask>(result)
//		about.Detail = d.<text>.<Ask>(result)
//		d.<clear>.Call(&dl.Frame{})
//		return results.Failure(Backend, function, int64(result), about)
//	}
func libraryFailure(b *ir.Backend) jen.Code {
	says := "failure is the error for a function of the library that answered a code, with the driver's own words for it."
	var body []jen.Code
	if b.Result.Name != nil {
		body = append(body, jen.Id("about").Dot("Name").Op("=").Add(asked(b.Result.Name)))
	}
	if b.Result.Text != nil {
		body = append(body, jen.Id("about").Dot("Detail").Op("=").Add(asked(b.Result.Text)))
	}
	if b.Result.Clear != nil {
		says += " The driver must not keep the failure for the host program."
		body = append(body, jen.Id("d").Dot(b.Result.Clear.Name).Dot("Call").Call(jen.Op("&").Qual(dlPath, "Frame").Values()))
	}
	body = append(body, jen.Return(jen.Id("results").Dot("Failure").Call(
		jen.Id("Backend"), jen.Id("function"), jen.Int64().Call(jen.Id("result")), jen.Id("about"),
	)))
	return doc(says).
		Add(driverMethod()).Id("failure").
		Params(jen.Id("function").String(), jen.Id("result").Int32(), jen.Id("about").Qual(vmmPath, "Error")).
		Error().Block(body...)
}

// asked renders what a function tells about a result: d.<function>.TextOf(result), or StoredTextOf where it
// stores the text instead of returning it.
func asked(f *ir.Binding) jen.Code {
	method := "StoredTextOf"
	if f.C.Text {
		method = "TextOf"
	}
	return jen.Id("d").Dot(f.Name).Dot(method).Call(jen.Id("result"))
}

// resultType renders the type of a result, which is the provider's.
func resultType(b *ir.Backend) *jen.Statement {
	return jen.Qual(b.Provider.Package, strings.TrimPrefix(b.Result.Type, b.Provider.PkgName+"."))
}
