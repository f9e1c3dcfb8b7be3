package gogen

import (
	"fmt"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/prose"
)

// optionsFile renders what can be set when a device of a backend is opened.
func optionsFile(b *ir.Backend) emit.File {
	f := newFile(b.ImportPath(), b.Name, providerPackages(b)...)
	add(f, optionsType(b.Options))
	for _, o := range b.Options {
		if len(o.Values) > 0 {
			add(f, choice(&ir.Enum{GoName: o.GoType, Description: o.Description, Values: o.Values}))
		}
	}
	add(f,
		parseOptions(b.Options),
		optionsCheck(),
		optionsTable(b.Options),
	)
	if b.Provider != nil {
		add(f, optionsForDriver(b))
	}
	place := b.Generated("options")
	return file(place, f, optionOrigins(b), b.File)
}

// providerPackages are the packages of a backend's provider.
func providerPackages(b *ir.Backend) []string {
	if b.Provider == nil {
		return nil
	}
	return []string{b.Provider.Package}
}

// optionsType renders
//
//	// Options are ...
//	type Options struct {
//		// <description> <range and default>
//		<Option> <type>
//	}
func optionsType(options []*ir.Option) jen.Code {
	fields := make([]jen.Code, len(options))
	for i, o := range options {
		fields[i] = doc(o.Description + " " + optionValues(o)).Id(o.GoName).Id(o.GoType)
	}
	return doc("Options are what can be set when a device is opened. The zero Options are the defaults.").
		Type().Id("Options").Struct(fields...)
}

// optionValues says which values an option takes and which is its default.
func optionValues(o *ir.Option) string {
	if len(o.Values) > 0 {
		return fmt.Sprintf("The default is %s.", o.Values[o.Default].GoName)
	}
	var sentences []string
	switch {
	case o.Min > 0 && o.Max > 0:
		sentences = append(sentences, fmt.Sprintf("From %s to %s.", prose.Amount(o, o.Min), prose.Amount(o, o.Max)))
	case o.Min > 0:
		sentences = append(sentences, fmt.Sprintf("At least %s.", prose.Amount(o, o.Min)))
	case o.Max > 0:
		sentences = append(sentences, fmt.Sprintf("At most %s.", prose.Amount(o, o.Max)))
	}
	if o.Default > 0 {
		sentences = append(sentences, fmt.Sprintf("0 means the default, %s.", prose.Amount(o, o.Default)))
	} else {
		sentences = append(sentences, "The default is 0.")
	}
	return strings.Join(sentences, " ")
}

// parseOptions renders
//
//	// ParseOptions reads options from a text ...
//	func ParseOptions(text string) (Options, error) {
//		var o Options
//		if err := options.Parse(text, o.table()...); err != nil {
//			return Options{}, err
//		}
//		return o, nil
//	}
func parseOptions(all []*ir.Option) jen.Code {
	return jen.Add(
		doc("ParseOptions reads options from a text of name=value pairs, separated by commas, "+
			optionExample(all)+"An empty text is the zero Options. Its errors are of type *options.Error."),
		jen.Func().Id("ParseOptions").Params(jen.Id("text").String()).Params(jen.Id("Options"), jen.Error()).Block(
			jen.Var().Id("o").Id("Options"),
			jen.If(
				jen.Err().Op(":=").Qual(optionsPath, "Parse").Call(jen.Id("text"), jen.Id("o").Dot("table").Call().Op("...")),
				jen.Err().Op("!=").Nil(),
			).Block(jen.Return(jen.Id("Options").Values(), jen.Err())),
			jen.Return(jen.Id("o"), jen.Nil()),
		),
	)
}

// optionExample shows how a text of options looks.
func optionExample(all []*ir.Option) string {
	if len(all) == 0 {
		return "of which this backend knows none. "
	}
	return fmt.Sprintf("such as %q. ", prose.Pairs(all))
}

// optionsCheck renders
//
//	// check finds a value that its option does not take.
//	func (o *Options) check() error { return options.Check(o.table()...) }
func optionsCheck() jen.Code {
	return doc("check finds a value that its option does not take.").
		Func().Params(jen.Id("o").Op("*").Id("Options")).Id("check").Params().Error().
		Block(jen.Return(jen.Qual(optionsPath, "Check").Call(jen.Id("o").Dot("table").Call().Op("..."))))
}

// optionsTable renders
//
//	// table lists the options by name, with what each takes and where it goes.
//	func (o *Options) table() []options.Option {
//		return []options.Option{
//			options.Enum("<name>", &o.<Option>, "<word>", ...),
//			options.Uint("<name>", &o.<Option>, options.Range{Min: <min>, Max: <max>}),
//		}
//	}
func optionsTable(all []*ir.Option) jen.Code {
	entries := make([]jen.Code, len(all))
	for i, o := range all {
		entries[i] = optionEntry(o)
	}
	return doc("table lists the options by name, with what each takes and where it goes.").
		Func().Params(jen.Id("o").Op("*").Id("Options")).Id("table").Params().Index().Qual(optionsPath, "Option").
		Block(jen.Return(jen.Index().Qual(optionsPath, "Option").Add(list(entries...))))
}

// optionKinds are the functions of package options that make an entry of the table.
var optionKinds = map[string]string{"enum": "Enum", "uint": "Uint", "bytes": "Bytes"}

func optionEntry(o *ir.Option) jen.Code {
	operands := []jen.Code{jen.Lit(o.Name), jen.Op("&").Id("o").Dot(o.GoName)}
	if len(o.Values) == 0 {
		operands = append(operands, optionRange(o))
	}
	for _, v := range o.Values {
		operands = append(operands, jen.Lit(v.Name))
	}
	return jen.Qual(optionsPath, optionKinds[o.Type]).Call(operands...)
}

// optionRange renders options.Range{Min: <min>, Max: <max>} without what is 0.
func optionRange(o *ir.Option) jen.Code {
	var bounds []jen.Code
	if o.Min > 0 {
		bounds = append(bounds, keyed(jen.Id("Min"), optionNumber(o, o.Min)))
	}
	if o.Max > 0 {
		bounds = append(bounds, keyed(jen.Id("Max"), optionNumber(o, o.Max)))
	}
	return jen.Qual(optionsPath, "Range").Values(bounds...)
}

// optionNumber renders a value of an option.
func optionNumber(o *ir.Option, n uint64) jen.Code {
	if o.Type == "bytes" {
		return byteCount(n)
	}
	return number(n)
}

// optionsForDriver renders
//
//	// forDriver gives the options as the driver takes them.
//	func (o *Options) forDriver() <provider>.Options {
//		return <provider>.Options{
//			<Enum>:   <provider>.<Enum>(o.<Enum>),
//			<Option>: cmp.Or(o.<Option>, <default>),
//		}
//	}
func optionsForDriver(b *ir.Backend) jen.Code {
	fields := make([]jen.Code, len(b.Options))
	for i, o := range b.Options {
		fields[i] = keyed(jen.Id(o.GoName), optionForDriver(b.Provider, o))
	}
	return doc("forDriver gives the options as the driver takes them.").
		Func().Params(jen.Id("o").Op("*").Id("Options")).Id("forDriver").Params().Qual(b.Provider.Package, "Options").
		Block(jen.Return(jen.Qual(b.Provider.Package, "Options").Add(list(fields...))))
}

// optionForDriver renders one option: an enum as the driver's type of the same name, a number
// with its default in place of 0.
func optionForDriver(p *ir.Provider, o *ir.Option) jen.Code {
	value := jen.Id("o").Dot(o.GoName)
	switch {
	case len(o.Values) > 0:
		return jen.Qual(p.Package, o.GoType).Call(value)
	case o.Default > 0:
		return jen.Qual("cmp", "Or").Call(value, optionNumber(o, o.Default))
	default:
		return value
	}
}

func optionOrigins(b *ir.Backend) []emit.Origin {
	var origins []emit.Origin
	for _, o := range b.Options {
		origins = append(origins, emit.Origin{Name: "Options." + o.GoName, Pos: o.Pos})
		for _, v := range o.Values {
			origins = append(origins, emit.Origin{Name: v.GoName, Pos: v.Pos})
		}
	}
	return origins
}
