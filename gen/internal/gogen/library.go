package gogen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
)

// libraryFile renders how a vendor's library is loaded and a device is opened with it.
func libraryFile(b *ir.Backend) emit.File {
	f := newFile(b.ImportPath(), b.Name)
	lib := b.Library
	add(f,
		libraryNames(lib),
		functionsType(b),
		symbolsMethod(b),
		loadFunction(),
	)
	if lib.Version != nil {
		add(f, versionMethod(b))
	}
	add(f, openMethod(b))
	if undoes(b) {
		add(f, closeMethod())
	}
	for _, s := range lib.Scopes {
		add(f, scopeMethod(s, b.Result))
	}
	origins := []emit.Origin{
		{Name: "libraries", Pos: lib.Pos}, {Name: "functions", Pos: lib.Pos}, {Name: "load", Pos: lib.Pos},
		{Name: "Driver.open", Pos: b.Pos},
	}
	for _, s := range lib.Scopes {
		origins = append(origins, emit.Origin{Name: "Driver." + scopeName(s.Name), Pos: s.Pos})
	}
	return file(b.Generated("library"), f, origins, b.File)
}

// libraryNames renders
//
//	// libraries are the names of the vendor's library, in the order in which they are tried.
//	var libraries = []string{"<name>"}
//
//	// Override is the environment variable ...
//	const Override = "<VARIABLE>"
func libraryNames(lib *ir.Library) jen.Code {
	names := make([]jen.Code, len(lib.Names))
	for i, name := range lib.Names {
		names[i] = jen.Lit(name)
	}
	return jen.Add(
		doc("libraries are the names of the vendor's library, in the order in which they are tried."),
		jen.Var().Id("libraries").Op("=").Index().String().Values(names...), jen.Line(), jen.Line(),
		doc("Override is the environment variable that names another file in their place, as an absolute path."),
		jen.Const().Id("Override").Op("=").Lit(lib.Override),
	)
}

// everyFunction lists the library's functions by name, each once.
func everyFunction(b *ir.Backend) []*ir.Binding {
	all := slices.Concat(b.Library.Helpers, b.Functions)
	slices.SortStableFunc(all, func(x, y *ir.Binding) int { return strings.Compare(x.Name, y.Name) })
	return slices.CompactFunc(all, func(x, y *ir.Binding) bool { return x.Name == y.Name })
}

// functionsType renders
//
//	// functions are those of the library.
//	type functions struct {
//		<function> dl.Function
//	}
func functionsType(b *ir.Backend) jen.Code {
	var fields []jen.Code
	for _, f := range everyFunction(b) {
		fields = append(fields, jen.Id(f.Name).Qual(dlPath, "Function"))
	}
	return doc("functions are those of the library, by their names in its header.").Type().Id("functions").Struct(fields...)
}

// symbolsMethod renders
//
//	// symbols are what the library exports the functions as.
//	func (f *functions) symbols() []dl.Symbol {
//		return []dl.Symbol{
//			{Name: "<symbol>", To: &f.<function>},
//		}
//	}
func symbolsMethod(b *ir.Backend) jen.Code {
	var entries []jen.Code
	for _, f := range everyFunction(b) {
		entry := []jen.Code{
			keyed(jen.Id("Name"), jen.Lit(f.C.Symbol)),
			keyed(jen.Id("To"), jen.Op("&").Id("f").Dot(f.Name)),
		}
		if f.C.Optional {
			entry = append(entry, keyed(jen.Id("Optional"), jen.True()))
		}
		entries = append(entries, jen.Values(entry...))
	}
	return doc("symbols are what the library exports the functions as.").
		Func().Params(jen.Id("f").Op("*").Id("functions")).Id("symbols").Params().Index().Qual(dlPath, "Symbol").
		Block(jen.Return(jen.Index().Qual(dlPath, "Symbol").Add(list(entries...))))
}

// loadFunction renders
//
//	// load loads the library and finds its functions.
//	func load() (*Driver, error) {
//		library, err := dl.Open(libraries, Override)
//		if err != nil {
//			return nil, vmm.Refused(Backend, vmm.ClassUnavailable, err)
//		}
//		d := &Driver{about: vmm.About{Library: library.Path()}}
//		if err := library.Resolve(d.symbols()); err != nil {
//			return nil, vmm.Refused(Backend, vmm.ClassTooOld, err)
//		}
//		return d, nil
//	}
func loadFunction() jen.Code {
	refused := func(class string) jen.Code {
		return jen.Return(jen.Nil(), jen.Qual(vmmPath, "Refused").Call(jen.Id("Backend"), jen.Qual(vmmPath, class), jen.Err()))
	}
	return doc("load loads the library and finds its functions.").
		Func().Id("load").Params().Params(jen.Op("*").Id("Driver"), jen.Error()).Block(
		jen.List(jen.Id("library"), jen.Err()).Op(":=").Qual(dlPath, "Open").Call(jen.Id("libraries"), jen.Id("Override")),
		jen.If(jen.Err().Op("!=").Nil()).Block(refused("ClassUnavailable")),
		jen.Id("d").Op(":=").Op("&").Id("Driver").Values(keyed(jen.Id("about"),
			jen.Qual(vmmPath, "About").Values(keyed(jen.Id("Library"), jen.Id("library").Dot("Path").Call())))),
		jen.If(jen.Err().Op(":=").Id("library").Dot("Resolve").Call(jen.Id("d").Dot("symbols").Call()), jen.Err().Op("!=").Nil()).
			Block(refused("ClassTooOld")),
		jen.Return(jen.Id("d"), jen.Nil()),
	)
}

// versionMethod renders
//
//	// askVersion asks the driver for its version, which must be <oldest> or newer.
//	func (d *Driver) askVersion() error {
//		<call>
//		d.version = dl.DecodeVersion(<number>, <major>, <minor>, <patch>)
//		d.about.Version = d.version.String()
//		return d.version.AtLeast(...)
//	}
func versionMethod(b *ir.Backend) jen.Code {
	v := b.Library.Version
	c := newCall(v.Function, nil)
	opening := jen.Qual(vmmPath, "OpOpen")
	body := []jen.Code{jen.Var().Id("frame").Qual(dlPath, "Frame")}
	body = append(body, c.fill...)
	body = append(body,
		c.answered(b.Result.OK, nil, stepFailure(v.Function, opening)),
		jen.Id("d").Dot("version").Op("=").Qual(dlPath, "DecodeVersion").
			Call(jen.Int64().Call(c.outputs[0].read()), number(v.Major), number(v.Minor), number(v.Patch)),
		jen.Id("d").Dot("about").Dot("Version").Op("=").Id("d").Dot("version").Dot("String").Call(),
		jen.If(before(v.Oldest)).Block(
			jen.Return(jen.Qual(vmmPath, "Refused").Call(jen.Id("Backend"), jen.Qual(vmmPath, "ClassTooOld"),
				jen.Qual("fmt", "Errorf").Call(jen.Lit(fmt.Sprintf("%%s is version %%v, expected %s or newer", v.Oldest)),
					jen.Id("d").Dot("about").Dot("Library"), jen.Id("d").Dot("version")))),
		),
		jen.Return(jen.Nil()),
	)
	return doc(fmt.Sprintf("askVersion asks the driver for its version, which must be %s or newer.", v.Oldest)).
		Add(driverMethod()).Id("askVersion").Params().Error().Block(body...)
}

// openMethod renders the steps from the number of a device to one that can be used.
//
//	// open opens a device, step by step.
//	func (d *Driver) open(ordinal int) error {
//		d.ordinal = int32(ordinal)
//		<steps>
//		return nil
//	}
func openMethod(b *ir.Backend) jen.Code {
	var body []jen.Code
	if keepsOrdinal(b) {
		body = append(body, jen.Id("d").Dot("ordinal").Op("=").Int32().Call(jen.Id("ordinal")))
	}
	body = append(body, openingSteps(b.Result).list(b.Library.Open)...)
	body = append(body, jen.Return(jen.Nil()))
	return doc("open opens a device by its ordinal, step by step.").
		Add(driverMethod()).Id("open").Params(jen.Id("ordinal").Int()).Error().Block(body...)
}

// undoes tells whether opening a device does anything that is taken back, or has another way.
func undoes(b *ir.Backend) bool {
	return slices.ContainsFunc(b.Library.Open, func(s *ir.Step) bool {
		return s.Attempt != nil || s.Call != nil && s.Call.Undo != nil
	})
}

// closeMethod renders
//
//	// Close gives back what opening the device took.
//	func (d *Driver) Close() error { return d.opening.Close() }
func closeMethod() jen.Code {
	return doc("Close gives back what opening the device took. Nothing may use the device then.").
		Add(driverMethod()).Id("Close").Params().Error().Block(jen.Return(jen.Id("d").Dot("opening").Dot("Close").Call()))
}

// keepsOrdinal tells whether anything needs the number of the device.
func keepsOrdinal(b *ir.Backend) bool {
	return slices.ContainsFunc(everyFunction(b), func(f *ir.Binding) bool {
		return slices.ContainsFunc(f.Params, func(p *ir.BoundParam) bool { return p.Kind == ir.BoundState && p.Of == "ordinal" })
	})
}
