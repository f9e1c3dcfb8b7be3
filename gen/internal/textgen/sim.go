package textgen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
)

// simContractFiles render the contract's numbers for the core of the driver simulators, where there are any.
func simContractFiles(m *ir.Model) []emit.File {
	if !slices.ContainsFunc(m.Backends, func(b *ir.Backend) bool { return b.Library != nil }) {
		return nil
	}
	return []emit.File{textFile("backends/sim/c/zz_generated_contract.h", "sim_contract.tmpl", simFunctions, m.Contract, m.Contract.Pos.File)}
}

// simFile renders the entry points of a simulator of a vendor's library.
func simFile(m *ir.Model, b *ir.Backend) emit.File {
	return textFile(b.Simulator(), "sim_driver.tmpl", simFunctions, simPage{Contract: m.Contract, Backend: b}, m.Contract.Pos.File, b.File)
}

var simFunctions = template.FuncMap{"upper": strings.ToUpper}

// A simPage is what the entry points of a simulator are rendered from.
type simPage struct {
	Contract *ir.Contract
	Backend  *ir.Backend
}

// A simEntry is one exported function: what it does, or the several things that it does.
type simEntry struct {
	Symbol string
	Name   string
	Params string // as C declares them
	Names  string // what they are called, for passing them on
	Text   *ir.Binding
	Calls  []simCall
}

// A simCall is one thing that an entry does.
type simCall struct {
	name   string   // of the function
	Op     string   // SIM_OP_CREATE
	Suffix string   // _create, where the entry does several things
	When   string   // in C: that it is this one
	Refuse []string // in C: what is refused
	Before []string // statements that fill the arguments
	After  []string // statements that store what came of it
	Answer string   // in C: what it answers without asking the core, or ""
	// Instant is, in C, where the handle goes that the function makes, or NULL; "" where it always does its work.
	Instant string
}

// Entries are the exported functions, by name.
func (p simPage) Entries() []simEntry {
	var all []*ir.Binding
	for _, b := range slices.Concat(p.Backend.Library.Helpers, p.Backend.Functions) {
		all = append(all, renamed(b))
	}
	slices.SortStableFunc(all, func(a, b *ir.Binding) int { return strings.Compare(a.Name, b.Name) })
	var entries []simEntry
	for i := 0; i < len(all); {
		end := i + 1
		for end < len(all) && all[end].Name == all[i].Name {
			end++
		}
		entries = append(entries, p.entry(all[i:end]))
		i = end
	}
	return entries
}

// simLocals are the names that each function of a simulator has for itself.
var simLocals = []string{"a", "class", "code", "wrong"}

// renamed is a function whose parameters are called like nothing else that its simulation mentions. C does not mind what
// they are called.
func renamed(b *ir.Binding) *ir.Binding {
	other := func(name string) string {
		if slices.Contains(simLocals, name) || ir.InC(name) {
			return name + "_"
		}
		return name
	}
	copied := *b
	copied.Params = nil
	for _, p := range b.Params {
		param := *p
		param.Name, param.Of = other(p.Name), other(p.Of)
		copied.Params = append(copied.Params, &param)
	}
	return &copied
}

// entry renders the bindings of one function. An operation comes before a helper of the same name.
func (p simPage) entry(bindings []*ir.Binding) simEntry {
	first := bindings[0]
	e := simEntry{Symbol: first.C.Symbol, Name: first.Name}
	var params, names []string
	for _, param := range first.Params {
		params = append(params, simType(param)+param.Name)
		names = append(names, param.Name)
	}
	e.Params, e.Names = cmp.Or(strings.Join(params, ", "), "void"), strings.Join(names, ", ")
	if first.C.Text {
		e.Text = first
		return e
	}
	operations := slices.DeleteFunc(slices.Clone(bindings), func(b *ir.Binding) bool { return b.Does == nil })
	if len(operations) == 0 {
		operations = bindings[:1]
	}
	for _, b := range operations {
		c := p.call(b)
		if len(operations) > 1 {
			c.Suffix = "_" + b.Does.Name
			c.When = strings.Join(constants(b), " && ")
		}
		e.Calls = append(e.Calls, c)
	}
	return e
}

// constants are the conditions that the constant parameters of a function hold.
func constants(b *ir.Binding) []string {
	var conditions []string
	for _, param := range b.Params {
		if param.Kind == ir.BoundConst {
			conditions = append(conditions, fmt.Sprintf("%s == %d", simNumber(param), *param.Const))
		}
	}
	return conditions
}

// simType declares a parameter: its size and whether it is a pointer is all that counts.
func simType(p *ir.BoundParam) string {
	pointer := strings.Contains(p.C, "*")
	switch {
	case p.Kind == ir.BoundText:
		return "const char **"
	case pointer || p.Type.Kind == ir.CPointer:
		if strings.HasPrefix(p.C, "const ") {
			return "const void *"
		}
		return "void *"
	case p.Type.Kind == ir.CUint:
		return fmt.Sprintf("uint%d_t ", 8*p.Type.Size)
	default:
		return fmt.Sprintf("int%d_t ", 8*p.Type.Size)
	}
}

// simNumber is a parameter as a number.
func simNumber(p *ir.BoundParam) string {
	if strings.Contains(simType(p), "*") {
		return "(uintptr_t)" + p.Name
	}
	return p.Name
}

// call renders what a function does.
func (p simPage) call(b *ir.Binding) simCall {
	c := simCall{name: b.Name, Op: "SIM_OP_" + strings.ToUpper(opName(b))}
	if b.Does == nil && b.Plays != nil {
		switch b.Plays.Name {
		case "last_error":
			c.Answer = "sim_last_error()"
			return c
		case "driver_version":
			c.Before = append(c.Before, "a.version = sim_version();")
		}
	}
	if b.Does != nil && slices.Contains(instantOperations, b.Does.Name) {
		c.Instant = "NULL"
	}
	in, out := 0, 0
	for _, param := range b.Params {
		switch {
		case b.Does != nil:
			if c.Instant != "" && param.Output != nil {
				c.Instant = param.Name
			}
			p.operationParam(&c, b, param)
		case b.Plays != nil:
			p.helperParam(&c, b, param, &in, &out)
		}
	}
	return c
}

// instantOperations are those that can answer at once and do nothing, for measuring what a call costs.
var instantOperations = []string{"create", "map", "grant", "unmap", "release"}

func opName(b *ir.Binding) string {
	switch {
	case b.Does != nil:
		return b.Does.Name
	case b.Plays != nil:
		return b.Plays.Name
	default:
		return "open"
	}
}

// helperParam renders a parameter of a helper: inputs and outputs are known by their position.
func (p simPage) helperParam(c *simCall, b *ir.Binding, param *ir.BoundParam, in, out *int) {
	switch param.Kind {
	case ir.BoundConst:
		c.Refuse = append(c.Refuse, fmt.Sprintf("%s != %d", simNumber(param), *param.Const))
	case ir.BoundItems:
		c.items(param, b.Plays.Outputs[*out])
		*out++
	case ir.BoundStruct:
		c.Refuse = append(c.Refuse, "!"+param.Name)
		for _, f := range param.Fill.Layouts[0].Fields {
			switch f.Kind {
			case ir.BoundConst:
				c.Refuse = append(c.Refuse, fmt.Sprintf("%s && sim_load(%s, %d, %d) != %d", param.Name, param.Name, f.Offset, f.Width, *f.Const))
			case ir.BoundOut:
				value := p.told(b, b.Plays.Outputs[*out], param.Name+"."+f.Path)
				*out++
				c.After = append(c.After, fmt.Sprintf("sim_store(%s, %d, %d, %s);", param.Name, f.Offset, f.Width, value))
			}
		}
	case ir.BoundIn, ir.BoundState, ir.BoundCode:
		name := b.Plays.Inputs[*in]
		*in++
		c.take(name, simNumber(param), isPointer(param))
		if name == "attribute" {
			c.Before = append(c.Before, "a.which = sim_attribute_of(a.attribute);")
		}
	case ir.BoundText:
		c.Refuse = append(c.Refuse, "!"+param.Name)
		c.After = append(c.After, fmt.Sprintf("*%s = sim_name_of((int32_t)a.result);", param.Name))
	default:
		if b.Counts(param.Name) {
			return
		}
		name := b.Plays.Outputs[*out]
		*out++
		c.output(param, p.told(b, name, param.Name))
	}
}

// told is an output of a helper as the driver has it. What a device must be to be taken is known by what opening expects.
func (p simPage) told(b *ir.Binding, name, path string) string {
	if name != "usable" {
		return "(uint64_t)a." + name
	}
	expected := int64(1)
	for _, s := range p.Backend.Library.Open {
		if s.Enumerate == nil || s.Enumerate.Where == nil || s.Enumerate.Where.Function != b {
			continue
		}
		for _, arg := range s.Enumerate.Where.Args {
			if arg.Path == path && arg.Const != nil {
				expected = *arg.Const
			}
		}
	}
	return fmt.Sprintf("(uint64_t)(a.usable ? %d : %d)", expected, expected+1)
}

func isPointer(param *ir.BoundParam) bool { return strings.Contains(simType(param), "*") }

// simObjects are what drivers have pointers to and the core has numbers of.
var simObjects = []string{"driver", "device"}

// take gives the core something that it is told: a pointer to an object as the object's number.
func (c *simCall) take(name, value string, pointer bool) {
	if !pointer || !slices.Contains(simObjects, name) {
		c.Before = append(c.Before, fmt.Sprintf("a.%s = %s;", name, value))
		return
	}
	c.Before = append(c.Before, fmt.Sprintf("wrong |= (a.%s = sim_index(SIM_%s, %s)) < 0;", name, strings.ToUpper(name), value))
}

// items stores objects, as many as there is room for, and how many there are.
func (c *simCall) items(param *ir.BoundParam, object string) {
	c.Refuse = append(c.Refuse, "!"+param.Of)
	c.After = append(c.After, fmt.Sprintf("sim_list(SIM_%s, %s, %s);", strings.ToUpper(object), param.Of, param.Name))
}

// meaning is what something that opening keeps is to the simulator: what the helper gives that it comes from, "" where
// that is unknown.
func (p simPage) meaning(state string) string {
	if state == "ordinal" {
		return state
	}
	for _, s := range p.Backend.Library.Open {
		switch {
		case s.Enumerate != nil && s.Enumerate.Into == state && s.Enumerate.Function.Does != nil:
			return "device"
		case s.Enumerate != nil && s.Enumerate.Into == state && s.Enumerate.Function.Plays != nil:
			return s.Enumerate.Function.Plays.Outputs[0]
		case s.Call != nil && s.Call.Function.Plays != nil:
			out := 0
			for _, param := range s.Call.Function.Params {
				switch {
				case param.Kind == ir.BoundStateOut && param.Of == state:
					return s.Call.Function.Plays.Outputs[out]
				case param.Kind == ir.BoundStateOut || param.Kind == ir.BoundOut || param.Kind == ir.BoundDiscard:
					out++
				}
			}
		}
	}
	return ""
}

// state gives the core what opening has kept. A context is one that the call names, and not the thread's.
func (p simPage) state(c *simCall, of, value string, pointer bool) {
	switch meaning := p.meaning(of); meaning {
	case "":
	case "context":
		c.Before = append(c.Before, "wrong |= !"+value+";", "a.within = "+value+";")
	default:
		c.take(meaning, value, pointer)
	}
}

// output stores an output, unless it is not wanted.
func (c *simCall) output(param *ir.BoundParam, value string) {
	store := fmt.Sprintf("sim_store(%s, 0, %d, %s);", param.Name, param.Type.Size, value)
	if param.Kind == ir.BoundDiscard {
		store = fmt.Sprintf("if (%s) %s", param.Name, store)
	} else {
		c.Refuse = append(c.Refuse, "!"+param.Name)
	}
	c.After = append(c.After, store)
}

// operationParam renders a parameter of an operation.
func (p simPage) operationParam(c *simCall, b *ir.Binding, param *ir.BoundParam) {
	v := param.Input
	switch {
	case param.Kind == ir.BoundConst:
		c.Refuse = append(c.Refuse, fmt.Sprintf("%s != %d", simNumber(param), *param.Const))
	case param.Kind == ir.BoundCount:
		c.Refuse = append(c.Refuse, param.Name+" != 1")
	case param.Kind == ir.BoundItems:
		c.items(param, "device")
	case b.Counts(param.Name):
	case param.Kind == ir.BoundLength:
		p.lengthParam(c, b, param)
	case param.Kind == ir.BoundStruct:
		c.Refuse = append(c.Refuse, "!"+param.Name)
		p.structParam(c, param)
	case param.Kind == ir.BoundState:
		p.state(c, param.Of, simNumber(param), isPointer(param))
	case param.Kind == ir.BoundInOut:
		c.input(v, fmt.Sprintf("sim_load(%s, 0, %d)", param.Name, param.Type.Size))
		c.output(param, numberOf(param.Output))
	case v != nil && v.Type == "memory":
		c.Refuse = append(c.Refuse, "!"+param.Name)
		c.Before = append(c.Before, fmt.Sprintf("a.memory = (void *)%s;", param.Name))
	case v != nil && param.Count > 0:
		c.Refuse = append(c.Refuse, "!"+param.Name)
		c.Before = append(c.Before, fmt.Sprintf("memcpy(a.%s, %s, %d);", v.Name, param.Name, param.Count))
	case v != nil:
		c.input(v, simNumber(param))
	case param.Output != nil && param.Output.Type == "text":
		c.Refuse = append(c.Refuse, "!"+param.Name)
	case param.Output != nil && param.Count > 0:
		c.Refuse = append(c.Refuse, "!"+param.Name)
		c.After = append(c.After, fmt.Sprintf("memcpy(%s, a.%s, %d);", param.Name, param.Output.Name, param.Count))
	case param.Output != nil:
		c.output(param, numberOf(param.Output))
	}
}

// lengthParam renders how long host memory is, or the room for a text.
func (p simPage) lengthParam(c *simCall, b *ir.Binding, param *ir.BoundParam) {
	i := slices.IndexFunc(b.Params, func(o *ir.BoundParam) bool { return o.Name == param.Of })
	if of := b.Params[i]; of.Output != nil {
		c.After = append(c.After, fmt.Sprintf("sim_store_text(%s, (size_t)%s, sim_device_name);", of.Name, param.Name))
		return
	}
	c.Before = append(c.Before, fmt.Sprintf("a.memory_length = %s;", simNumber(param)))
}

// input gives the core an input. A number that is none of an enum's is refused.
func (c *simCall) input(v *ir.Value, value string) { c.Before = append(c.Before, inputOf(v, value)...) }

func inputOf(v *ir.Value, value string) []string {
	statements := []string{fmt.Sprintf("a.%s = %s;", v.Name, enumOf(v, value))}
	if v.Enum != nil {
		statements = append(statements, fmt.Sprintf("wrong |= a.%s < 0;", v.Name))
	}
	return statements
}

// enumOf is an input as the core has it: an enum as its position.
func enumOf(v *ir.Value, code string) string {
	switch {
	case v.Enum != nil:
		return "sim_" + v.Enum.Name + "_of(" + code + ")"
	case strings.Contains(code, "uintptr_t") && v.GoType == "int":
		return "(int64_t)" + code
	default:
		return code
	}
}

// numberOf is an output as the driver has it.
func numberOf(v *ir.Value) string {
	if v.Enum != nil {
		return fmt.Sprintf("(uint64_t)sim_number_of_%s(a.%s)", v.Enum.Name, v.Name)
	}
	return "(uint64_t)a." + v.Name
}

// structParam renders the fields of a struct, for each of its layouts that differs.
func (p simPage) structParam(c *simCall, param *ir.BoundParam) {
	layouts := param.Fill.Layouts
	for i, link := range param.Fill.Chain {
		p.link(c, param, i, link)
	}
	for i, layout := range layouts {
		statements := p.fields(c, layout, param.Name)
		switch {
		case len(layouts) == 1:
			c.Before = append(c.Before, statements...)
			return
		case i < len(layouts)-1:
			next := layouts[i+1].Versions.From
			lead := "} else if"
			if i == 0 {
				lead = "if"
			}
			c.Before = append(c.Before, fmt.Sprintf("%s (sim_before(%d, %d, %d)) {", lead, next.Major, next.Minor, next.Patch))
		default:
			c.Before = append(c.Before, "} else {")
		}
		for _, s := range statements {
			c.Before = append(c.Before, "  "+s)
		}
	}
	c.Before = append(c.Before, "}")
}

// fields renders what the fields of a struct tell, and stores those that are outputs.
func (p simPage) fields(c *simCall, layout *ir.LayoutFill, in string) []string {
	var statements []string
	for _, f := range layout.Fields {
		load := fmt.Sprintf("sim_load(%s, %d, %d)", in, f.Offset, f.Width)
		switch {
		case f.Kind == ir.BoundConst:
			statements = append(statements, fmt.Sprintf("wrong |= %s != %d;", load, *f.Const))
		case f.Kind == ir.BoundState:
			state := simCall{}
			p.state(&state, f.Of, load, f.Type.Kind == ir.CPointer)
			statements = append(statements, state.Before...)
		case f.Input != nil:
			statements = append(statements, inputOf(f.Input, load)...)
		case f.Output != nil:
			c.After = append(c.After, fmt.Sprintf("sim_store(%s, %d, %d, %s);", in, f.Offset, f.Width, numberOf(f.Output)))
		}
	}
	return statements
}

// link renders a struct that another one points to. One that is always passed must be there.
func (p simPage) link(c *simCall, param *ir.BoundParam, i int, link *ir.Link) {
	name := fmt.Sprintf("%s%d", param.Name, i+1)
	tag := param.Fill.Type.Tag
	layout := param.Type.Layouts[0]
	c.Before = append(c.Before, fmt.Sprintf("void *%s = sim_linked(%s, %d, %d, %d);", name, param.Name,
		offsetOf(layout, tag.Field), offsetOf(layout, param.Fill.Type.Next), link.Type.Tag.Value.Value))
	statements := p.fields(c, link.Layouts[0], name)
	if link.When == nil {
		c.Before = append(c.Before, fmt.Sprintf("if (!%s) return (int32_t)sim_leave(%s, \"%s\", SIM_CLASS_INVALID_ARGUMENT);", name, c.Op, c.name))
		c.Before = append(c.Before, statements...)
		return
	}
	c.Before = append(c.Before, fmt.Sprintf("if (%s) {", name))
	for _, s := range statements {
		c.Before = append(c.Before, "  "+s)
	}
	c.Before = append(c.Before, "}")
}

func offsetOf(layout *ir.Layout, field string) int {
	i := slices.IndexFunc(layout.Fields, func(f *ir.CField) bool { return f.Name == field })
	return layout.Fields[i].Offset
}

// Codes are the driver's codes by class, in the order of the contract: the first of each class that every version has.
func (p simPage) Codes() []int64 {
	first := func(class string) (int64, bool) {
		for _, c := range p.Backend.Result.Codes {
			if c.Class.Name == class && c.Since == nil {
				return c.Value, true
			}
		}
		return 0, false
	}
	var codes []int64
	for _, class := range p.Contract.Classes {
		code, ok := first(class.Name)
		if !ok {
			if code, ok = first("not_supported"); !ok {
				code = p.Backend.Result.Codes[0].Value
			}
		}
		codes = append(codes, code)
	}
	return codes
}

// Enums are the driver's numbers.
func (p simPage) Enums() []*ir.EnumMap { return p.Backend.Enums }

// Version is the newest version that the backend's file speaks of, as the driver tells it.
func (p simPage) Version() int64 {
	v := p.Backend.Library.Version
	if v == nil {
		return 0
	}
	newest := v.Oldest
	take := func(one *ir.Version) {
		if one != nil && one.Compare(newest) > 0 {
			newest = *one
		}
	}
	for _, t := range p.Backend.Library.Types {
		for _, layout := range t.Layouts {
			take(layout.Versions.From)
		}
		for _, value := range t.Values {
			take(value.Since)
		}
	}
	for _, f := range p.Backend.Functions {
		take(f.C.Since)
		take(f.C.From)
	}
	for _, q := range p.Backend.Library.Quirks {
		take(q.Versions.From)
	}
	return newest.Major*v.Major + newest.Minor*v.Minor + newest.Patch*v.Patch
}

// NeedsContext tells whether a thread has nothing current until a context is made so.
func (p simPage) NeedsContext() bool {
	return slices.ContainsFunc(p.Backend.Library.Helpers, func(b *ir.Binding) bool {
		return b.Plays != nil && b.Plays.Name == "context_push"
	})
}
