package gogen

import (
	"fmt"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/prose"
)

// scopeName is the method that does something within a scope.
func scopeName(name string) string { return "within" + ir.GoExported(name) }

// scopeMethod renders what some functions need around their call.
//
//	// within<Scope> calls do within <scope> ...
//	func (d *Driver) within<Scope>(op vmm.Op, do func() error) (err error) {
//		runtime.LockOSThread()
//		defer runtime.UnlockOSThread()
//		<steps>
//		return do()
//	}
func scopeMethod(s *ir.Scope, result *ir.Result) jen.Code {
	body := []jen.Code{
		jen.Qual("runtime", "LockOSThread").Call(),
		jen.Defer().Qual("runtime", "UnlockOSThread").Call(),
		jen.Var().Id("frame").Qual(dlPath, "Frame"),
	}
	for i, step := range s.Steps {
		body = append(body, callStep(step, result, jen.Id("op"), i == 0)...)
	}
	body = append(body, jen.Return(jen.Id("do").Call()))
	return doc(fmt.Sprintf("%s does something within the scope %s, on one thread, whose state is as it was afterwards.", scopeName(s.Name), s.Name)).
		Add(driverMethod()).Id(scopeName(s.Name)).
		Params(jen.Id("op").Qual(vmmPath, "Op"), jen.Id("do").Func().Params().Error()).
		Params(jen.Err().Error()).
		Block(body...)
}

// callStep renders a step that calls a function, and what takes it back.
//
//	frame = dl.Frame{}
//	<arguments>
//	if result := int32(d.<function>.Call(&frame)); result != <ok> {
//		return d.failure("<function>", result, vmm.Error{Op: <op>})
//	}
//	d.<state> = <output>
//	defer func() { <undo> }()
func callStep(s *ir.Step, result *ir.Result, op jen.Code, first bool) []jen.Code {
	step := s.Call
	c := newCall(step.Function, step.Args)
	var codes []jen.Code
	if !first {
		codes = append(codes, jen.Line(), jen.Id("frame").Op("=").Qual(dlPath, "Frame").Values())
	}
	codes = append(codes, c.fill...)
	codes = append(codes, c.answered(result.OK, step.Accept, stepFailure(step.Function, op)))
	for _, o := range c.outputs {
		switch o.bound.Kind {
		case ir.BoundStateOut:
			codes = append(codes, jen.Id("d").Dot(stateName(o.bound.Of)).Op("=").Add(o.read()))
		case ir.BoundLocalOut:
			codes = append(codes, jen.Id(o.bound.Of).Op(":=").Add(widened(o)))
		case ir.BoundOut:
			if o.bound.Const != nil {
				codes = append(codes, expectation(o, step.Otherwise, op))
			}
		}
	}
	if step.Undo != nil {
		codes = append(codes, undo(step.Undo, result, op))
	}
	return versioned(s.Versions, codes)
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
//		return vmm.Refused(Backend, <op>, vmm.<Class>, "<message>")
//	}
func expectation(o output, otherwise *ir.Otherwise, op jen.Code) jen.Code {
	return jen.If(jen.Id("value").Op(":=").Add(o.read()), jen.Id("value").Op("!=").Add(number(*o.bound.Const))).Block(
		jen.Return(jen.Op("&").Qual(vmmPath, "Error").Values(
			keyed(jen.Id("Backend"), jen.Id("Backend")),
			keyed(jen.Id("Op"), op),
			keyed(jen.Id("Class"), jen.Qual(vmmPath, otherwise.Class.GoName)),
			keyed(jen.Id("Detail"), jen.Lit(strings.TrimSuffix(prose.Inside(otherwise.Message), "."))),
		)),
	)
}

// undo renders the call that takes a step back when the scope ends. Its failure is told beside another one.
//
//	defer func() {
//		var frame dl.Frame
//		<arguments>
//		if result := int32(d.<function>.Call(&frame)); result != <ok> {
//			err = errors.Join(err, d.failure(...))
//		}
//	}()
func undo(u *ir.Call, result *ir.Result, op jen.Code) jen.Code {
	c := newCall(u.Function, u.Args)
	body := append([]jen.Code{jen.Var().Id("frame").Qual(dlPath, "Frame")}, c.fill...)
	body = append(body, jen.If(
		jen.Id("result").Op(":=").Int32().Call(c.invoke()),
		jen.Id("result").Op("!=").Add(number(result.OK)),
	).Block(jen.Err().Op("=").Qual("errors", "Join").Call(jen.Err(), stepFailure(u.Function, op))))
	return jen.Defer().Func().Params().Block(body...).Call()
}

// versioned renders statements for some versions only.
func versioned(v ir.Versions, codes []jen.Code) []jen.Code {
	var condition *jen.Statement
	switch {
	case v.From != nil && v.Before != nil:
		condition = jen.Op("!").Add(before(*v.From)).Op("&&").Add(before(*v.Before))
	case v.From != nil:
		condition = jen.Op("!").Add(before(*v.From))
	case v.Before != nil:
		condition = before(*v.Before)
	default:
		return codes
	}
	return []jen.Code{jen.If(condition).Block(codes...)}
}

// before renders d.version.Before(<version>).
func before(v ir.Version) *jen.Statement {
	return jen.Id("d").Dot("version").Dot("Before").Call(version(v))
}

// version renders dl.Version{Major: <major>, Minor: <minor>}.
func version(v ir.Version) *jen.Statement {
	parts := []jen.Code{keyed(jen.Id("Major"), number(v.Major)), keyed(jen.Id("Minor"), number(v.Minor))}
	if v.Patch != 0 {
		parts = append(parts, keyed(jen.Id("Patch"), number(v.Patch)))
	}
	return jen.Qual(dlPath, "Version").Values(parts...)
}
