package gogen

import (
	"fmt"

	"github.com/dave/jennifer/jen"

	"github.com/arenagen/arenagen/gen/internal/ir"
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
	}
	body = append(body, scopeSteps(result).list(s.Steps)...)
	body = append(body, jen.Return(jen.Id("do").Call()))
	return doc(fmt.Sprintf("%s does something within the scope %s, on one thread, whose state is as it was afterwards.", scopeName(s.Name), s.Name)).
		Add(driverMethod()).Id(scopeName(s.Name)).
		Params(jen.Id("op").Qual(vmmPath, "Op"), jen.Id("do").Func().Params().Error()).
		Params(jen.Err().Error()).
		Block(body...)
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
