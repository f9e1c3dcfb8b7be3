package textgen

import (
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
)

// gpuCheckFiles render the vendors' own calls as data of Python: scripts/gpu_check.py times them beside ours.
func gpuCheckFiles(m *ir.Model) []emit.File {
	var drivers []gpuDriver
	sources := []string{m.Contract.Pos.File}
	for _, b := range m.Backends {
		if b.Library != nil {
			drivers = append(drivers, gpuDriver{b})
			sources = append(sources, b.File)
		}
	}
	if len(drivers) == 0 {
		return nil
	}
	functions := template.FuncMap{"quote": func(text string) string { return fmt.Sprintf("%q", text) }}
	return []emit.File{textFile("scripts/gpu_drivers.py", "gpu_drivers.tmpl", functions, drivers, sources...)}
}

// A gpuDriver is one vendor's.
type gpuDriver struct{ *ir.Backend }

// timedOperations are those of an allocation.
var timedOperations = []string{"reserve", "unreserve", "create", "release", "map", "unmap", "grant"}

// Calls are the functions that open a device, and then those that are timed.
func (d gpuDriver) Calls() []gpuCall {
	var calls []gpuCall
	for _, s := range d.Library.Open {
		switch {
		case s.Call != nil:
			calls = append(calls, gpuCall{Does: "open", Function: s.Call.Function, args: s.Call.Args})
		case s.Enumerate != nil:
			calls = append(calls, gpuCall{Does: "open", Function: s.Enumerate.Function, args: s.Enumerate.Args, into: s.Enumerate.Into})
		}
	}
	for _, f := range d.Functions {
		if slices.Contains(timedOperations, f.Does.Name) {
			calls = append(calls, gpuCall{Does: f.Does.Name, Function: f})
		}
	}
	return calls
}

// A gpuCall is a function and what its parameters are.
type gpuCall struct {
	Does     string
	Function *ir.Binding
	args     []*ir.Argument
	into     string // the state that the first item goes to, of a function that gives several
}

// Params are the parameters as tuples: ("value", name or number), ("out", name, bytes), ("struct", bytes, fields), and
// ("room", bytes) and ("items", name, bytes) for how many items there is room for, one, and where that goes.
func (c gpuCall) Params() []string {
	params := make([]string, len(c.Function.Params))
	for i, p := range c.Function.Params {
		b := p.Bound
		for _, a := range c.args {
			if a.Path == p.Name && !a.Expect {
				b = a.Bound
			}
		}
		switch b.Kind {
		case ir.BoundItems:
			params[i] = fmt.Sprintf(`("items", %q, %d)`, c.into, p.Type.Size)
		case ir.BoundStruct:
			newest := p.Fill.Layouts[len(p.Fill.Layouts)-1]
			var fields []string
			for _, f := range newest.Fields {
				fields = append(fields, fmt.Sprintf("(%d, %d, %s)", f.Offset, f.Width, gpuValue(f.Bound)))
			}
			params[i] = fmt.Sprintf(`("struct", %d, [%s])`, newest.Size, strings.Join(fields, ", "))
		case ir.BoundOutput, ir.BoundStateOut, ir.BoundOut:
			name := b.Of
			if b.Output != nil {
				name = b.Output.Name
			}
			if c.Function.Counts(p.Name) {
				params[i] = fmt.Sprintf(`("room", %d)`, p.Type.Size)
				break
			}
			params[i] = fmt.Sprintf(`("out", %q, %d)`, name, p.Type.Size)
		default:
			params[i] = fmt.Sprintf(`("value", %s)`, gpuValue(b))
		}
	}
	return params
}

// gpuValue is a number, or the name of what is put there.
func gpuValue(b ir.Bound) string {
	switch {
	case b.Kind == ir.BoundCount:
		return "1"
	case b.Kind == ir.BoundNext:
		return "0"
	case b.Const != nil:
		return fmt.Sprint(*b.Const)
	case b.Input != nil && b.Input.Type == "handle_type" || b.Input != nil && b.Input.GoType == "bool":
		return "0"
	case b.Input != nil:
		return fmt.Sprintf("%q", b.Input.Name)
	default:
		return fmt.Sprintf("%q", b.Of)
	}
}
