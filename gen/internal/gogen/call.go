package gogen

import (
	"fmt"
	"slices"

	"github.com/dave/jennifer/jen"

	"github.com/arenagen/arenagen/gen/internal/ir"
)

// A call is the call of a library's function as statements in Go. What goes by pointer lies in the frame's Scratch,
// one after the other.
type call struct {
	function *ir.Binding
	args     []*ir.Argument // what a step says
	spill    *ir.BoundParam // a struct that Scratch has no room for, or nil
	next     int            // the first byte of Scratch that is free
	fill     []jen.Code     // the statements that fill the frame
	outputs  []output
	memory   *memory
}

// An output is something that the function stores.
type output struct {
	path   string
	in     string // what it lies in: the frame, or memory of its own
	typ    *ir.CType
	offset int
	bound  ir.Bound
}

const frameName = "frame"

// A memory is what does not lie in Scratch.
type memory struct {
	arg   int
	bytes jen.Code
}

// newCall lays a call out.
func newCall(b *ir.Binding, args []*ir.Argument) *call {
	c := &call{function: b, args: args, spill: spilled(b)}
	for i, p := range b.Params {
		c.param(i, p)
	}
	return c
}

// ScratchSize is dl.ScratchSize: how much a call can pass by pointer in its frame.
const ScratchSize = 64

// scratch is how many bytes of Scratch a parameter takes.
func scratch(p *ir.BoundParam) int {
	round := func(size int) int { return (size + 7) &^ 7 }
	switch {
	case p.Kind == ir.BoundStruct:
		total := round(largest(p.Fill))
		for _, link := range p.Fill.Chain {
			total += round(largest(&link.Fill))
		}
		return total
	case p.Count == 0 && isOutput(p.Kind):
		return round(p.Type.Size)
	}
	return 0
}

// largest is the size of a struct's largest layout.
func largest(f *ir.Fill) int {
	size := 0
	for _, layout := range f.Layouts {
		size = max(size, layout.Size)
	}
	return size
}

// spilled is the largest struct of a function that passes more by pointer than Scratch has room for.
func spilled(b *ir.Binding) *ir.BoundParam {
	total := 0
	var most *ir.BoundParam
	for _, p := range b.Params {
		total += scratch(p)
		if p.Kind == ir.BoundStruct && (most == nil || scratch(p) > scratch(most)) {
			most = p
		}
	}
	if total <= ScratchSize {
		return nil
	}
	return most
}

// TooLarge tells whether a function passes more by pointer than a call can: no more than one struct lies outside the
// frame, and that one points to no other.
func TooLarge(b *ir.Binding) bool {
	most := spilled(b)
	if most == nil {
		return false
	}
	total := -scratch(most)
	for _, p := range b.Params {
		total += scratch(p)
		if p.Count > 0 || p.Input != nil && p.Input.Type == "memory" {
			return true
		}
	}
	return total > ScratchSize || len(most.Fill.Chain) > 0
}

// bound is what a place carries: what a step says where the step decides.
func (c *call) bound(path string, b ir.Bound) ir.Bound {
	if b.Kind != ir.BoundIn && b.Kind != ir.BoundOut {
		return b
	}
	i := slices.IndexFunc(c.args, func(a *ir.Argument) bool { return a.Path == path })
	if i < 0 {
		return b
	}
	if c.args[i].Expect { // it is compared after the call
		return ir.Bound{Kind: ir.BoundOut, Const: c.args[i].Const}
	}
	return c.args[i].Bound
}

// param renders how one argument gets its value.
//
//	frame.Args[<i>] = <value> // <parameter>
//	frame.Point(<i>, <offset>) // <parameter>
func (c *call) param(i int, p *ir.BoundParam) {
	b := c.bound(p.Name, p.Bound)
	value := b.Input
	switch {
	case value != nil && value.Type == "memory":
		c.memory = &memory{i, jen.Id(value.GoName)}
		return
	case p.Count > 0:
		c.buffer(i, p, b)
		return
	case b.Kind == ir.BoundLength:
		c.set(i, p, c.length(b.Of))
		return
	case b.Kind == ir.BoundCount:
		c.set(i, p, number(1))
		return
	case b.Kind == ir.BoundStruct:
		c.structParam(i, p)
		return
	case b.Kind == ir.BoundItems: // null: to be told how many there are
		return
	case isOutput(b.Kind):
		offset := c.room(p.Type.Size)
		c.point(i, p, offset)
		if b.Kind == ir.BoundInOut {
			c.fill = append(c.fill, put(frameName, offset, p.Type.Size, enumOrInput(b)))
		}
		c.outputs = append(c.outputs, output{p.Name, frameName, p.Type, offset, b})
		return
	}
	if b.Kind == ir.BoundState && p.Type.Size == 8 { // it is kept as it is passed
		c.set(i, p, jen.Id("d").Dot(stateName(b.Of)))
		return
	}
	if code := source(b, 8); code != nil {
		c.set(i, p, code)
	}
}

// buffer renders an array that the function reads or writes: a text, or a fabric handle.
func (c *call) buffer(i int, p *ir.BoundParam, b ir.Bound) {
	switch {
	case b.Output != nil && b.Output.Type == "text":
		c.memory = &memory{i, jen.Id(p.Name + "Buffer")}
		c.fill = append(c.fill, jen.Id(p.Name+"Buffer").Op(":=").Make(jen.Index().Byte(), number(p.Count)))
		c.outputs = append(c.outputs, output{p.Name, frameName, p.Type, 0, b})
	case b.Output != nil:
		c.memory = &memory{i, jen.Id(b.Output.GoName).Index(jen.Op(":"))}
	default:
		c.memory = &memory{i, jen.Id(b.Input.GoName).Index(jen.Op(":"))}
	}
}

// length is how many bytes another parameter points to.
func (c *call) length(of string) jen.Code {
	for _, p := range c.function.Params {
		if p.Name == of && p.Count > 0 {
			return number(p.Count)
		}
		if p.Name == of {
			return jen.Uint64().Call(jen.Len(jen.Id(p.Input.GoName)))
		}
	}
	panic("no parameter " + of)
}

// structParam renders how a struct is filled, for each layout that differs.
//
//	frame.Point(<i>, <offset>) // <parameter>
//	if d.version.Before(<version>) {
//		frame.Put32(<offset>, <value>) // <field>
//	} else {
//		...
//	}
func (c *call) structParam(i int, p *ir.BoundParam) {
	if p == c.spill {
		in := p.Name + "Memory"
		c.fill = append(c.fill, jen.Id(in).Op(":=").Make(jen.Qual(dlPath, "Memory"), number(largest(p.Fill))))
		c.fill = append(c.fill, c.filled(p.Name, p.Fill, in, 0)...)
		c.memory = &memory{i, jen.Id(in)}
		return
	}
	offset := c.room(largest(p.Fill))
	c.point(i, p, offset)
	c.fill = append(c.fill, c.filled(p.Name, p.Fill, frameName, offset)...)
	c.chain(p, offset)
}

// chain renders the structs that one points to, where the call passes them.
//
//	if <input> == vmm.<Value> {
//		frame.Link(<offset>, <offset>) // <field>
//		frame.Put32(<offset>, <value>) // <field>
//	}
func (c *call) chain(p *ir.BoundParam, offset int) {
	if len(p.Fill.Chain) == 0 {
		return
	}
	next := number(offset + nextOffset(p.Fill)) // where the address of the next struct goes
	for i, link := range p.Fill.Chain {
		at := c.room(largest(&link.Fill))
		path := p.Name + "." + link.Type.Name
		more := i < len(p.Fill.Chain)-1
		codes := []jen.Code{jen.Id(frameName).Dot("Link").Call(next, number(at)).Comment(p.Fill.Type.Next)}
		codes = append(codes, c.filled(path, &link.Fill, frameName, at)...)
		if link.When == nil {
			c.fill = append(c.fill, codes...)
			if more {
				next = number(at + nextOffset(&link.Fill))
			}
			continue
		}
		if more { // what follows is linked to this one, or to the one before
			name := p.Name + "Next"
			if i == 0 || p.Fill.Chain[i-1].When == nil {
				c.fill = append(c.fill, jen.Id(name).Op(":=").Add(next))
				codes[0] = jen.Id(frameName).Dot("Link").Call(jen.Id(name), number(at)).Comment(p.Fill.Type.Next)
			}
			next = jen.Id(name)
			codes = append(codes, jen.Id(name).Op("=").Add(number(at+nextOffset(&link.Fill))))
		}
		is := jen.Id(link.When.Input.GoName).Op("==").Qual(vmmPath, link.When.Is.GoName)
		c.fill = append(c.fill, jen.If(is).Block(codes...))
	}
}

// HasOutputs tells whether a function stores something in a struct.
func HasOutputs(f *ir.Fill) bool {
	has := func(f *ir.Fill) bool {
		return slices.ContainsFunc(f.Layouts[0].Fields, func(field *ir.FieldFill) bool { return isOutput(field.Kind) })
	}
	return has(f) || slices.ContainsFunc(f.Chain, func(l *ir.Link) bool { return has(&l.Fill) })
}

// nextOffset is where in a struct the address of the next one is.
func nextOffset(f *ir.Fill) int {
	for _, field := range f.Layouts[0].Fields {
		if field.Path == f.Type.Next {
			return field.Offset
		}
	}
	panic("struct " + f.Type.Name + " points to no other")
}

// filled renders how the fields of a struct are filled, for each layout that differs.
func (c *call) filled(path string, fill *ir.Fill, in string, offset int) []jen.Code {
	layouts := distinct(fill.Layouts)
	var branches *jen.Statement
	for at, layout := range layouts {
		fields := c.fields(path, layout, in, offset)
		switch {
		case len(layouts) == 1:
			return fields
		case at == 0:
			branches = jen.If(before(*layouts[at+1].Versions.From)).Block(fields...)
		case at == len(layouts)-1:
			branches.Else().Block(fields...)
		default:
			branches.Else().If(before(*layouts[at+1].Versions.From)).Block(fields...)
		}
	}
	return []jen.Code{branches}
}

// distinct are the layouts that are filled in another way than the one before.
func distinct(layouts []*ir.LayoutFill) []*ir.LayoutFill {
	return slices.CompactFunc(slices.Clone(layouts), func(a, b *ir.LayoutFill) bool {
		return slices.EqualFunc(a.Fields, b.Fields, func(x, y *ir.FieldFill) bool {
			return x.Path == y.Path && x.Offset == y.Offset && x.Width == y.Width
		})
	})
}

func (c *call) fields(path string, layout *ir.LayoutFill, in string, offset int) []jen.Code {
	var codes []jen.Code
	for _, f := range layout.Fields {
		b := c.bound(path+"."+f.Path, f.Bound)
		switch {
		case b.Kind == ir.BoundNext: // null, but for what is linked
			continue
		case isOutput(b.Kind):
			c.outputs = append(c.outputs, output{path + "." + f.Path, in, f.Type, offset + f.Offset, b})
			continue
		}
		if value := source(b, f.Width); value != nil {
			codes = append(codes, put(in, offset+f.Offset, f.Width, value).Comment(f.Path))
		}
	}
	return codes
}

func (c *call) room(size int) int {
	offset := c.next
	c.next += (size + 7) &^ 7
	return offset
}

func (c *call) set(i int, p *ir.BoundParam, value jen.Code) {
	c.fill = append(c.fill, jen.Id("frame").Dot("Args").Index(number(i)).Op("=").Add(value).Comment(p.Name))
}

func (c *call) point(i int, p *ir.BoundParam, offset int) {
	c.fill = append(c.fill, jen.Id("frame").Dot("Point").Call(number(i), number(offset)).Comment(p.Name))
}

// put renders <frame or memory>.Put<bits>(<offset>, <value>).
func put(in string, offset, width int, value jen.Code) *jen.Statement {
	return jen.Id(in).Dot(fmt.Sprintf("Put%d", 8*width)).Call(number(offset), value)
}

func isOutput(kind ir.BoundKind) bool {
	switch kind {
	case ir.BoundOutput, ir.BoundInOut, ir.BoundStateOut, ir.BoundLocalOut, ir.BoundOut, ir.BoundDiscard, ir.BoundText:
		return true
	}
	return false
}

// enumOrInput is an input that goes by pointer.
func enumOrInput(b ir.Bound) jen.Code {
	b.Kind = ir.BoundInput
	return source(b, 4)
}

// source renders a value with so many bytes, nil where that is zero.
func source(b ir.Bound, width int) jen.Code {
	unsigned := fmt.Sprintf("uint%d", 8*width)
	switch b.Kind {
	case ir.BoundConst:
		if *b.Const == 0 {
			return nil
		}
		return number(uint64(*b.Const) << (64 - 8*width) >> (64 - 8*width))
	case ir.BoundState:
		return converted(jen.Id("d").Dot(stateName(b.Of)), "", unsigned)
	case ir.BoundItem:
		return converted(jen.Id("item"), "uint64", unsigned)
	case ir.BoundLocal:
		return converted(jen.Id(b.Of), "uint64", unsigned)
	case ir.BoundCode:
		return converted(jen.Id("result"), "int32", unsigned)
	case ir.BoundInput:
		switch {
		case b.Enum != nil:
			return converted(jen.Id(enumNumber(b.Input)), "int64", unsigned)
		case b.Input.GoType == "bool":
			return converted(jen.Qual(dlPath, "Flag").Call(jen.Id(b.Input.GoName)), "uint64", unsigned)
		default:
			return converted(jen.Id(b.Input.GoName), b.Input.GoType, unsigned)
		}
	}
	panic(fmt.Sprintf("no value of kind %s goes to a function", b.Kind))
}

// stateName is the field that keeps what opening keeps under a name.
func stateName(name string) string { return ir.GoLocal(name) }

// read renders an output as it lies in Scratch, or in memory.
func (o output) read() *jen.Statement {
	word := jen.Id(o.in).Dot("Get32").Call(number(o.offset))
	switch {
	case o.typ.Size == 8:
		return jen.Id(o.in).Dot("Get64").Call(number(o.offset))
	case o.typ.Size < 4 && o.typ.Kind == ir.CUint:
		return jen.Int32().Call(jen.Id(fmt.Sprintf("uint%d", 8*o.typ.Size)).Call(word))
	case o.typ.Size < 4:
		return jen.Int32().Call(jen.Id(fmt.Sprintf("int%d", 8*o.typ.Size)).Call(word))
	}
	return jen.Int32().Call(word)
}

// value renders an output as the contract has it.
func (o output) value() *jen.Statement {
	v := o.bound.Output
	switch {
	case v.Type == "text":
		return jen.Qual(dlPath, "TextIn").Call(jen.Id(o.path + "Buffer"))
	case v.Enum != nil:
		return jen.Id(valueName(v.Enum)).Call(jen.Int64().Call(o.read()))
	case v.GoType == "bool":
		return o.read().Op("!=").Lit(0)
	case v.GoType == "int":
		return jen.Int().Call(o.read())
	default:
		return o.read()
	}
}

// invoke renders the call: d.<function>.Call(&frame), with what the function returns.
func (c *call) invoke() *jen.Statement {
	function := jen.Id("d").Dot(c.function.Name)
	if c.memory != nil {
		return function.Dot("CallWith").Call(jen.Op("&").Id("frame"), number(c.memory.arg), c.memory.bytes)
	}
	return function.Dot("Call").Call(jen.Op("&").Id("frame"))
}

// answered renders
//
//	if result := int32(d.<function>.Call(&frame)); result != <ok> {
//		return <failed>
//	}
func (c *call) answered(ok int64, accepted []*ir.Code, failed ...jen.Code) *jen.Statement {
	condition := jen.Id("result").Op("!=").Add(number(ok))
	for _, code := range accepted {
		condition.Op("&&").Id("result").Op("!=").Add(number(code.Value))
	}
	return jen.If(jen.Id("result").Op(":=").Int32().Call(c.invoke()), condition).Block(jen.Return(failed...))
}
