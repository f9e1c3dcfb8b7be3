package gogen

import (
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/prose"
)

// A stepper renders steps: those that open a device, or those of a scope.
type stepper struct {
	result *ir.Result
	op     jen.Code                  // during what
	undo   func(u *ir.Call) jen.Code // how a step is taken back
}

// openingSteps render what opens a device. It is taken back when the device is closed, or when opening it fails later on.
func openingSteps(result *ir.Result) stepper {
	s := stepper{result: result, op: jen.Qual(vmmPath, "OpOpen")}
	s.undo = s.undoLater
	return s
}

// scopeSteps render what a scope needs. It is taken back when that ends.
func scopeSteps(result *ir.Result) stepper {
	s := stepper{result: result, op: jen.Id("op")}
	s.undo = s.undoDeferred
	return s
}

// list renders steps one after the other.
//
//	var frame dl.Frame
//	<step>
//
//	frame = dl.Frame{}
//	<step>
func (s stepper) list(steps []*ir.Step) []jen.Code {
	var codes []jen.Code
	frame := false
	for i, step := range steps {
		if i > 0 {
			codes = append(codes, jen.Line())
		}
		calls := step.Attempt == nil
		switch {
		case calls && !frame:
			codes = append(codes, jen.Var().Id(frameName).Qual(dlPath, "Frame"))
			frame = true
		case calls:
			codes = append(codes, jen.Id(frameName).Op("=").Qual(dlPath, "Frame").Values())
		}
		codes = append(codes, versioned(step.Versions, s.step(step))...)
	}
	return codes
}

func (s stepper) step(step *ir.Step) []jen.Code {
	switch {
	case step.Call != nil:
		return s.call(step.Call)
	case step.Enumerate != nil:
		return s.enumerate(step.Enumerate)
	default:
		return []jen.Code{s.attempt(step.Attempt)}
	}
}

// call renders a step that calls a function, and what takes it back.
//
//	<arguments>
//	if result := int32(d.<function>.Call(&frame)); result != <ok> {
//		return d.failure("<function>", result, vmm.Error{Op: <op>})
//	}
//	d.<state> = <output>
//	<undo>
func (s stepper) call(step *ir.CallStep) []jen.Code {
	c := newCall(step.Function, step.Args)
	codes := append(s.missing(step.Function), c.fill...)
	codes = append(codes, c.answered(s.result.OK, step.Accept, stepFailure(step.Function, s.op)))
	codes = append(codes, s.kept(c, step.Otherwise)...)
	if step.Undo != nil {
		codes = append(codes, s.undo(step.Undo))
	}
	return codes
}

// kept renders what becomes of a step's outputs.
func (s stepper) kept(c *call, otherwise *ir.Otherwise) []jen.Code {
	var codes []jen.Code
	for _, o := range c.outputs {
		switch o.bound.Kind {
		case ir.BoundStateOut:
			codes = append(codes, jen.Id("d").Dot(stateName(o.bound.Of)).Op("=").Add(o.read()))
		case ir.BoundLocalOut:
			codes = append(codes, jen.Id(o.bound.Of).Op(":=").Add(widened(o)))
		case ir.BoundOut:
			if o.bound.Const != nil {
				codes = append(codes, s.expectation(o, otherwise))
			}
		}
	}
	return codes
}

// missing renders the refusal of a function that the library may lack.
//
//	if d.<function> == 0 {
//		return vmm.Unsupported(Backend, vmm.Error{Op: <op>}, "...")
//	}
func (s stepper) missing(b *ir.Binding) []jen.Code {
	if !b.C.Optional {
		return nil
	}
	return []jen.Code{jen.If(jen.Id("d").Dot(b.Name).Op("==").Lit(0)).Block(jen.Return(
		jen.Qual(vmmPath, "Unsupported").Call(jen.Id("Backend"), jen.Qual(vmmPath, "Error").Values(keyed(jen.Id("Op"), s.op)), jen.Lit(lacksFunction(b))),
	))}
}

// widened renders an output as 64 bits.
func widened(o output) *jen.Statement {
	if o.typ.Size == 8 {
		return o.read()
	}
	return jen.Uint64().Call(o.read())
}

// stepFailure renders d.failure("<function>", result, vmm.Error{Op: <op>}).
func stepFailure(b *ir.Binding, op jen.Code) jen.Code {
	return jen.Id("d").Dot("failure").Call(jen.Lit(b.Name), jen.Id("result"), jen.Qual(vmmPath, "Error").Values(keyed(jen.Id("Op"), op)))
}

// expectation renders
//
//	if value := <output>; value != <expected> {
//		return &vmm.Error{...}
//	}
func (s stepper) expectation(o output, otherwise *ir.Otherwise) jen.Code {
	return jen.If(jen.Id("value").Op(":=").Add(o.read()), jen.Id("value").Op("!=").Add(number(*o.bound.Const))).Block(
		jen.Return(jen.Op("&").Qual(vmmPath, "Error").Values(
			keyed(jen.Id("Backend"), jen.Id("Backend")),
			keyed(jen.Id("Op"), s.op),
			keyed(jen.Id("Class"), jen.Qual(vmmPath, otherwise.Class.GoName)),
			keyed(jen.Id("Detail"), jen.Lit(strings.TrimSuffix(prose.Inside(otherwise.Message), "."))),
		)),
	)
}

// enumerate renders a step that takes one of the items that a function gives.
//
//	<arguments>
//	if items, result := d.<function>.Items(&frame, <parameter>, <offset>, <width>, <ok>); result != <ok> {
//		return d.failure("<function>", result, vmm.Error{Op: <op>})
//	} else if err := vmm.Choose(&d.<state>, Backend, "<function>", items, <place>, <where>); err != nil {
//		return err
//	}
func (s stepper) enumerate(e *ir.Enumerate) []jen.Code {
	c := newCall(e.Function, e.Args)
	at, of := 0, 0 // the parameter of the items, and where their number is
	var items *ir.BoundParam
	for i, p := range e.Function.Params {
		if p.Kind == ir.BoundItems {
			at, items = i, p
		}
	}
	for _, o := range c.outputs {
		if o.path == items.Of {
			of = o.offset
		}
	}
	place, where := number(0), jen.Nil()
	if e.Ordinal {
		place = jen.Id("ordinal")
	}
	if e.Where != nil {
		where = s.where(e.Where)
	}
	list := jen.Id("d").Dot(e.Function.Name).Dot("Items").
		Call(jen.Op("&").Id(frameName), number(at), number(of), number(items.Type.Size), number(s.result.OK))
	choose := jen.Qual(vmmPath, "Choose").
		Call(jen.Op("&").Id("d").Dot(stateName(e.Into)), jen.Id("Backend"), jen.Lit(e.Function.Name), jen.Id("items"), place, where)
	codes := append(s.missing(e.Function), c.fill...)
	return append(codes,
		jen.If(jen.List(jen.Id("items"), jen.Id("result")).Op(":=").Add(list), jen.Id("result").Op("!=").Add(number(s.result.OK))).
			Block(jen.Return(stepFailure(e.Function, s.op))).
			Else().If(jen.Err().Op(":=").Add(choose), jen.Err().Op("!=").Nil()).Block(jen.Return(jen.Err())))
}

// where renders which items count.
//
//	func(item uint64) (bool, error) {
//		var frame dl.Frame
//		<arguments>
//		if result := int32(d.<function>.Call(&frame)); result != <ok> {
//			return false, d.failure("<function>", result, vmm.Error{Op: <op>})
//		}
//		return <output> == <expected>, nil
//	}
func (s stepper) where(asked *ir.Call) *jen.Statement {
	c := newCall(asked.Function, asked.Args)
	is := jen.True()
	expected := slices.DeleteFunc(slices.Clone(c.outputs), func(o output) bool { return o.bound.Const == nil })
	for i, o := range expected {
		one := o.read().Op("==").Add(number(*o.bound.Const))
		if i == 0 {
			is = one
		} else {
			is.Op("&&").Add(one)
		}
	}
	body := append([]jen.Code{jen.Var().Id(frameName).Qual(dlPath, "Frame")}, c.fill...)
	body = append(body, c.answered(s.result.OK, nil, jen.False(), stepFailure(asked.Function, s.op)), jen.Return(is, jen.Nil()))
	return jen.Func().Params(jen.Id("item").Uint64()).Params(jen.Bool(), jen.Error()).Block(body...)
}

// attempt renders steps that have others instead.
//
//	if err := d.opening.Either(func() error {
//		<steps>
//		return nil
//	}, func() error {
//		<steps>
//		return nil
//	}, vmm.<Class>); err != nil {
//		return err
//	}
func (s stepper) attempt(a *ir.Attempt) jen.Code {
	way := func(steps []*ir.Step) jen.Code {
		return jen.Func().Params().Error().Block(append(s.list(steps), jen.Return(jen.Nil()))...)
	}
	args := []jen.Code{way(a.Try), way(a.Instead)}
	for _, class := range a.On {
		args = append(args, jen.Qual(vmmPath, class.GoName))
	}
	return jen.If(jen.Err().Op(":=").Id("d").Dot("opening").Dot("Either").Call(args...), jen.Err().Op("!=").Nil()).
		Block(jen.Return(jen.Err()))
}

// undoLater renders the call that takes a step of opening back.
//
//	d.opening.Did(func() error {
//		var frame dl.Frame
//		<arguments>
//		if result := int32(d.<function>.Call(&frame)); result != <ok> {
//			return d.failure(...)
//		}
//		return nil
//	})
func (s stepper) undoLater(u *ir.Call) jen.Code {
	c := newCall(u.Function, u.Args)
	body := append([]jen.Code{jen.Var().Id(frameName).Qual(dlPath, "Frame")}, c.fill...)
	body = append(body, c.answered(s.result.OK, nil, stepFailure(u.Function, s.op)), jen.Return(jen.Nil()))
	return jen.Id("d").Dot("opening").Dot("Did").Call(jen.Func().Params().Error().Block(body...))
}

// undoDeferred renders the call that takes a step back when the scope ends. Its failure is told beside another one.
//
//	defer func() {
//		var frame dl.Frame
//		<arguments>
//		if result := int32(d.<function>.Call(&frame)); result != <ok> {
//			err = errors.Join(err, d.failure(...))
//		}
//	}()
func (s stepper) undoDeferred(u *ir.Call) jen.Code {
	c := newCall(u.Function, u.Args)
	body := append([]jen.Code{jen.Var().Id(frameName).Qual(dlPath, "Frame")}, c.fill...)
	body = append(body, jen.If(
		jen.Id("result").Op(":=").Int32().Call(c.invoke()),
		jen.Id("result").Op("!=").Add(number(s.result.OK)),
	).Block(jen.Err().Op("=").Qual("errors", "Join").Call(jen.Err(), stepFailure(u.Function, s.op))))
	return jen.Defer().Func().Params().Block(body...).Call()
}
