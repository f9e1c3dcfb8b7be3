package textgen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/markdown"
	"github.com/arenagen/arenagen/gen/internal/prose"
)

// referenceFiles renders a reference page for the ABI and for the contract.
func referenceFiles(m *ir.Model) []emit.File {
	return []emit.File{
		page("docs/reference/abi.md", "reference_abi.tmpl", m.ABI, m.ABI.Pos.File),
		page(placeOfContract(m.Contract), "reference_contract.tmpl", contractPageOf(m), m.Contract.Pos.File, ir.Project.Specs),
	}
}

// placeOfContract is the reference page of the contract.
func placeOfContract(c *ir.Contract) string { return fmt.Sprintf("docs/reference/%s.md", c.Name) }

// backendPageFile renders the reference page of a backend.
func backendPageFile(m *ir.Model, b *ir.Backend) emit.File {
	data := backendPage{ABI: m.ABI, Contract: m.Contract, Backend: b}
	return page(b.Page(), "reference_backend.tmpl", data, b.File, m.Contract.Pos.File)
}

func page(place, templateName string, data any, sources ...string) emit.File {
	f := textFile(place, templateName, pageFunctions, data, sources...)
	f.Content = markdown.OneEmptyLine(f.Content)
	return f
}

var pageFunctions = template.FuncMap{
	"text":         markdown.Text,
	"code":         markdown.Code,
	"prototype":    cPrototype,
	"parameters":   cParameters,
	"fieldType":    cFieldType,
	"direction":    direction,
	"optionValues": optionValues,
	"pairs":        prose.Pairs,
}

// cPrototype writes a function as its header declares it, with its parameters in lines of their
// own where one line is too long.
func cPrototype(f *ir.Function) string {
	const width = 80
	parameters := cParameters(f.Params)
	line := fmt.Sprintf("%s(%s);", cDeclare(f.Returns.C, f.Symbol), parameters)
	if len(line) <= width {
		return line
	}
	return fmt.Sprintf("%s(\n    %s);", cDeclare(f.Returns.C, f.Symbol), strings.ReplaceAll(parameters, ", ", ",\n    "))
}

// cFieldType writes the type of a field.
func cFieldType(f *ir.Field) string {
	if f.Count > 0 {
		return fmt.Sprintf("%s[%d]", f.Type.C, f.Count)
	}
	return f.Type.C
}

// direction says which way a parameter goes.
func direction(p *ir.Param) string {
	switch p.Role {
	case ir.RoleOut:
		return "out"
	case ir.RoleInOut:
		return "in, out"
	case ir.RoleBuffer:
		return "out, " + markdown.Code(p.CountParam) + " entries"
	default:
		return "in"
	}
}

// optionValues says what an option can be.
func optionValues(o *ir.Option) string {
	if len(o.Values) > 0 {
		words := make([]string, len(o.Values))
		for i, v := range o.Values {
			words[i] = markdown.Code(v.Name) + ": " + markdown.Text(v.Description)
		}
		return strings.Join(words, "<br>")
	}
	kind := "a number"
	if o.Type == "bytes" {
		kind = "a size"
	}
	switch {
	case o.Min > 0 && o.Max > 0:
		return fmt.Sprintf("%s from %s to %s", kind, prose.Amount(o, o.Min), prose.Amount(o, o.Max))
	case o.Min > 0:
		return fmt.Sprintf("%s of at least %s", kind, prose.Amount(o, o.Min))
	case o.Max > 0:
		return fmt.Sprintf("%s up to %s", kind, prose.Amount(o, o.Max))
	default:
		return kind
	}
}

// A contractPage is what the contract's reference page is rendered from.
type contractPage struct {
	*ir.Contract
	Backends []backendPage
}

func contractPageOf(m *ir.Model) contractPage {
	page := contractPage{Contract: m.Contract}
	for _, b := range m.Backends {
		page.Backends = append(page.Backends, backendPage{ABI: m.ABI, Contract: m.Contract, Backend: b})
	}
	return page
}

// A backendPage is what a backend's reference page is rendered from.
type backendPage struct {
	ABI      *ir.ABI
	Contract *ir.Contract
	Backend  *ir.Backend
}

// Call shows the driver's function that does an operation with the roles of its parameters, or
// nothing when none does it.
func (p backendPage) Call(o *ir.Operation) string {
	if o.Opens && p.Backend.Library != nil {
		return p.opening()
	}
	if o.Opens {
		return p.Backend.Provider.Open
	}
	i := slices.IndexFunc(p.Backend.Functions, func(b *ir.Binding) bool { return b.Does == o })
	if i < 0 {
		return ""
	}
	b := p.Backend.Functions[i]
	parameters := make([]string, len(b.Params))
	for i, param := range b.Params {
		parameters[i] = param.Name + ": " + role(param)
	}
	return fmt.Sprintf("%s(%s)", b.Name, strings.Join(parameters, ", "))
}

// opening lists the functions of the library that open a device.
func (p backendPage) opening() string {
	return strings.Join(stepNames(p.Backend.Library.Open), ", ")
}

// stepNames are the functions that steps call, in their order.
func stepNames(steps []*ir.Step) []string {
	var names []string
	for _, s := range steps {
		switch {
		case s.Call != nil:
			names = append(names, s.Call.Function.Name)
		case s.Enumerate != nil:
			names = append(names, s.Enumerate.Function.Name)
			if s.Enumerate.Where != nil {
				names = append(names, s.Enumerate.Where.Function.Name)
			}
		default:
			names = append(names, stepNames(s.Attempt.Try)...)
			instead := strings.Join(stepNames(s.Attempt.Instead), ", ")
			names[len(names)-1] += " (or else " + instead + ")"
		}
	}
	return names
}

// Since is from which version of the driver on an operation is there, or that its function may be missing, or nothing.
func (p backendPage) Since(o *ir.Operation) string {
	for _, b := range p.Backend.Functions {
		if b.Does != o || b.C == nil {
			continue
		}
		since := cmp.Or(b.C.From, b.C.Since)
		switch {
		case since != nil && b.C.Optional:
			return since.String() + ", where the library has it"
		case since != nil:
			return since.String()
		case b.C.Optional:
			return "where the library has it"
		}
	}
	return ""
}

// Does says whether the backend does an operation, and from when on.
func (p backendPage) Does(o *ir.Operation) string {
	since := p.Since(o)
	switch {
	case slices.Contains(p.Backend.Unsupported, o):
		return "no"
	case since == "":
		return "yes"
	default:
		return "yes (" + since + ")"
	}
}

// Has says whether the backend has a capability.
func (p backendPage) Has(c *ir.Capability) string {
	for _, v := range p.Backend.Capabilities {
		if v.Capability == c && v.Value {
			return "yes"
		}
	}
	return "no"
}

// role is where a parameter's value comes from, as the specs write it.
func role(p *ir.BoundParam) string {
	switch {
	case p.Kind == ir.BoundInOut:
		return p.Input.Name + " and out." + p.Output.Name
	case p.Value != nil:
		return p.Value.Name
	case p.Const != nil:
		return fmt.Sprint(*p.Const)
	case p.Output != nil:
		return "out." + p.Output.Name
	case p.Input != nil:
		return p.Input.Name
	case p.Fill != nil:
		return fields(p.Fill)
	case p.Of != "":
		return string(p.Kind) + "." + p.Of
	default:
		return string(p.Kind)
	}
}

// fields are what is filled in a struct, in its newest layout.
func fields(f *ir.Fill) string {
	var filled []string
	for _, field := range f.Layouts[len(f.Layouts)-1].Fields {
		value := role(&ir.BoundParam{Bound: field.Bound})
		if field.Kind == ir.BoundNext {
			value = chained(f.Chain)
		}
		filled = append(filled, field.Path+": "+value)
	}
	return "{" + strings.Join(filled, ", ") + "}"
}

// chained are the structs that one points to, one after the other.
func chained(chain []*ir.Link) string {
	links := make([]string, len(chain))
	for i, link := range chain {
		links[i] = link.Type.Name + " " + fields(&link.Fill)
		if link.When != nil {
			links[i] += fmt.Sprintf(" where %s is %s", link.When.Input.Name, link.When.Is.Name)
		}
	}
	return strings.Join(links, ", then ")
}

// Number is the driver's number for a value of an enum of the contract, or nothing when it has none.
func (p backendPage) Number(e *ir.Enum, v *ir.EnumValue) string {
	for _, numbers := range p.Backend.Enums {
		for _, n := range numbers.Values {
			if numbers.Enum == e && n.Value == v {
				return fmt.Sprint(n.Number)
			}
		}
	}
	return ""
}
