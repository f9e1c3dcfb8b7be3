package gogen

import (
	"github.com/dave/jennifer/jen"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
)

// allFile renders the list of every backend.
//
//	// Backends are all backends, those that drive devices first. One without devices is not taken unless it is named.
//	func Backends() []registry.Backend {
//		return <registered>
//	}
func allFile(all *ir.SharedLibrary) emit.File {
	var packages []string
	for _, b := range all.Backends {
		packages = append(packages, b.ImportPath())
	}
	f := newFile(allPath, "all", packages...)
	add(f, doc("Backends are all backends, those that drive devices first. One without devices is not taken unless it is named.").
		Func().Id("Backends").Params().Index().Qual(registryPath, "Backend").
		Block(jen.Return(registered(all.Backends))))
	for _, b := range all.Backends {
		add(f, openRegistered(b))
	}
	return file("backends/all/zz_generated_backends.go", f, nil, all.Sources...)
}

// registered renders
//
//	[]registry.Backend{
//		{Name: <backend>.Backend, Title: "<title>", Override: <backend>.Override, Auto: true, Abilities: <backend>.Abilities, Open: open<Backend>},
//	}
//
// Override only where there is a library, and Auto where there is one or no other backend.
func registered(backends []*ir.Backend) jen.Code {
	var entries []jen.Code
	for _, b := range backends {
		entry := []jen.Code{
			keyed(jen.Id("Name"), jen.Qual(b.ImportPath(), "Backend")),
			keyed(jen.Id("Title"), jen.Lit(b.Title)),
		}
		if b.Library != nil {
			entry = append(entry, keyed(jen.Id("Override"), jen.Qual(b.ImportPath(), "Override")))
		}
		if b.Library != nil || len(backends) == 1 {
			entry = append(entry, keyed(jen.Id("Auto"), jen.True()))
		}
		entry = append(entry,
			keyed(jen.Id("Abilities"), jen.Qual(b.ImportPath(), "Abilities")),
			keyed(jen.Id("Open"), jen.Id(openName(b))),
		)
		entries = append(entries, jen.Values(entry...))
	}
	return jen.Index().Qual(registryPath, "Backend").Add(list(entries...))
}

// openName is the function that opens a device of a backend.
func openName(b *ir.Backend) string { return "open" + ir.GoExported(b.Name) }

// openRegistered renders
//
//	func open<Backend>(device int, text string) (*vmm.Device, error) {
//		options, err := <backend>.ParseOptions(text)
//		if err != nil {
//			return nil, err
//		}
//		return <backend>.Open(device, options)
//	}
func openRegistered(b *ir.Backend) jen.Code {
	return jen.Func().Id(openName(b)).Params(jen.Id("device").Int(), jen.Id("text").String()).
		Params(jen.Op("*").Qual(vmmPath, "Device"), jen.Error()).Block(
		jen.List(jen.Id("options"), jen.Err()).Op(":=").Qual(b.ImportPath(), "ParseOptions").Call(jen.Id("text")),
		jen.If(jen.Err().Op("!=").Nil()).Block(jen.Return(jen.Nil(), jen.Err())),
		jen.Return(jen.Qual(b.ImportPath(), "Open").Call(jen.Id("device"), jen.Id("options"))),
	)
}
