package gogen

import (
	"testing"

	"github.com/dave/jennifer/jen"
	"github.com/stretchr/testify/assert"

	"github.com/arenagen/arenagen/gen/internal/ir"
)

// The types of a small vendor.
var (
	toyInt     = &ir.CType{Name: "int", Kind: ir.CInt, C: "int", Size: 4}
	toySize    = &ir.CType{Name: "size_t", Kind: ir.CUint, C: "size_t", Size: 8}
	toyPointer = &ir.CType{Name: "toyContext", Kind: ir.CPointer, C: "toyContext", Size: 8}
	toyChar    = &ir.CType{Name: "char", Kind: ir.CInt, C: "char", Size: 1}
	toyResult  = &ir.Result{Type: "toyResult"}
)

func fixed(n int64) *int64 { return &n }

// value is an input or output with the same name in Go.
func value(name, typ, goType string) *ir.Value {
	return &ir.Value{Name: name, GoName: name, Type: typ, GoType: goType}
}

func toyParam(name string, t *ir.CType, b ir.Bound) *ir.BoundParam {
	return &ir.BoundParam{Name: name, Type: t, Bound: b}
}

func toyFunction(name string, does *ir.Operation, params ...*ir.BoundParam) *ir.Binding {
	return &ir.Binding{Name: name, Does: does, Params: params, C: &ir.CFunction{Symbol: name + "_v2"}}
}

// block renders statements within a function, for comparison.
func block(codes ...jen.Code) jen.Code { return jen.Func().Id("f").Params().Block(codes...) }

func TestCall(t *testing.T) {
	size := value("size", "bytes", "uint64")
	flag := value("rdma", "flag", "bool")
	handle := value("handle", "handle", "uint64")
	create := operation("create", "Create", "Creates memory.", []*ir.Value{size, flag}, []*ir.Value{handle})
	old := &ir.Version{Major: 1, Minor: 2}
	props := &ir.Fill{Layouts: []*ir.LayoutFill{
		{Versions: ir.Versions{Before: old}, Size: 8, Fields: []*ir.FieldFill{
			{Path: "flag", Offset: 0, Width: 1, Type: toyChar, Bound: ir.Bound{Kind: ir.BoundInput, Input: flag}},
		}},
		{Versions: ir.Versions{From: old}, Size: 16, Fields: []*ir.FieldFill{
			{Path: "kind", Offset: 0, Width: 4, Type: toyInt, Bound: ir.Bound{Kind: ir.BoundConst, Const: fixed(-1)}},
			{Path: "zero", Offset: 4, Width: 4, Type: toyInt, Bound: ir.Bound{Kind: ir.BoundConst, Const: fixed(0)}},
			{Path: "where.device", Offset: 8, Width: 4, Type: toyInt, Bound: ir.Bound{Kind: ir.BoundState, Of: "device"}},
		}},
	}}
	c := newCall(toyFunction("toyCreate", create,
		toyParam("out", toySize, ir.Bound{Kind: ir.BoundOutput, Output: handle}),
		toyParam("bytes", toySize, ir.Bound{Kind: ir.BoundInput, Input: size}),
		toyParam("props", nil, ir.Bound{Kind: ir.BoundStruct, Fill: props}),
		toyParam("count", toySize, ir.Bound{Kind: ir.BoundCount, Of: "props"}),
		toyParam("flags", toySize, ir.Bound{Kind: ir.BoundConst, Const: fixed(0)}),
		toyParam("context", toyPointer, ir.Bound{Kind: ir.BoundState, Of: "main_context"}),
	), nil)
	assertRenders(t, `
func f() {
	frame.Point(0, 0)    // out
	frame.Args[1] = size // bytes
	frame.Point(2, 8)    // props
	if d.version.Before(dl.Version{Major: 1, Minor: 2}) {
		frame.Put8(8, uint8(dl.Flag(rdma))) // flag
	} else {
		frame.Put32(8, 4294967295)        // kind
		frame.Put32(16, uint32(d.device)) // where.device
	}
	frame.Args[3] = 1             // count
	frame.Args[5] = d.mainContext // context
	if result := int32(d.toyCreate.Call(&frame)); result != 0 {
		return nil
	}
}`, block(append(c.fill, c.answered(0, nil, jen.Nil()))...))
	assertRenders(t, `
func f() {
	frame.Get64(0)
}`, block(c.outputs[0].value()))
}

func TestCallWithMemory(t *testing.T) {
	memory := value("memory", "memory", "[]byte")
	name := value("name", "text", "string")
	c := newCall(toyFunction("toyCopy", operation("copy", "Copy", "Copies.", []*ir.Value{memory}, nil),
		toyParam("to", toyPointer, ir.Bound{Kind: ir.BoundInput, Input: memory}),
		toyParam("bytes", toySize, ir.Bound{Kind: ir.BoundLength, Of: "to"}),
	), nil)
	assertRenders(t, `
func f() {
	frame.Args[1] = uint64(len(memory)) // bytes
	d.toyCopy.CallWith(&frame, 0, memory)
}`, block(append(c.fill, c.invoke())...))

	text := toyParam("text", toyChar, ir.Bound{Kind: ir.BoundOutput, Output: name})
	text.Count = 64
	c = newCall(toyFunction("toyName", operation("name", "Name", "Tells a name.", nil, []*ir.Value{name}),
		text, toyParam("room", toyInt, ir.Bound{Kind: ir.BoundLength, Of: "text"})), nil)
	assertRenders(t, `
func f() {
	textBuffer := make([]byte, 64)
	frame.Args[1] = 64 // room
	dl.TextIn(textBuffer)
}`, block(append(c.fill, c.outputs[0].value())...))
}

func TestLibraryMethod(t *testing.T) {
	free := value("free", "bytes", "uint64")
	info := operation("memory_info", "MemoryInfo", "Tells how much there is.", nil, []*ir.Value{free})
	f := toyFunction("toyInfo", info, toyParam("free", toySize, ir.Bound{Kind: ir.BoundOutput, Output: free}))
	f.C.Optional, f.C.From = true, &ir.Version{Major: 2}
	assertRenders(t, `
// MemoryInfo tells how much there is. It calls toyInfo.
func (d *Driver) MemoryInfo() (free uint64, err error) {
	if d.toyInfo == 0 {
		return 0, vmm.Unsupported(Backend, vmm.Error{Op: vmm.OpMemoryInfo}, "the library has no function toyInfo_v2")
	}
	if d.version.Before(dl.Version{Major: 2, Minor: 0}) {
		return 0, vmm.Unsupported(Backend, vmm.Error{Op: vmm.OpMemoryInfo}, "toyInfo does this from version 2.0 on")
	}
	var frame dl.Frame
	frame.Point(0, 0) // free
	if result := int32(d.toyInfo.Call(&frame)); result != 0 {
		return 0, d.failure("toyInfo", result, vmm.Error{Op: vmm.OpMemoryInfo})
	}
	return frame.Get64(0), nil
}`, libraryMethod(f, &ir.Backend{Result: toyResult}))

	f.C = &ir.CFunction{Symbol: "toyInfo", Within: "current_context"}
	assertRenders(t, `
// MemoryInfo tells how much there is. It calls toyInfo.
func (d *Driver) MemoryInfo() (free uint64, err error) {
	err = d.withinCurrentContext(vmm.OpMemoryInfo, func() error {
		var frame dl.Frame
		frame.Point(0, 0) // free
		if result := int32(d.toyInfo.Call(&frame)); result != 0 {
			return d.failure("toyInfo", result, vmm.Error{Op: vmm.OpMemoryInfo})
		}
		free = frame.Get64(0)
		return nil
	})
	return free, err
}`, libraryMethod(f, &ir.Backend{Result: toyResult}))
}

func TestScope(t *testing.T) {
	push := toyFunction("toyPush", nil, toyParam("context", toyPointer, ir.Bound{Kind: ir.BoundIn}))
	retain := toyFunction("toyRetain", nil, toyParam("context", toyPointer, ir.Bound{Kind: ir.BoundOut}))
	pop := toyFunction("toyPop", nil, toyParam("context", toyPointer, ir.Bound{Kind: ir.BoundDiscard}))
	scope := &ir.Scope{Name: "current_context", Steps: []*ir.Step{
		{Call: &ir.CallStep{Call: ir.Call{Function: retain, Args: []*ir.Argument{{Path: "context", Bound: ir.Bound{Kind: ir.BoundLocalOut, Of: "context"}}}}}},
		{Call: &ir.CallStep{
			Call: ir.Call{Function: push, Args: []*ir.Argument{{Path: "context", Bound: ir.Bound{Kind: ir.BoundLocal, Of: "context"}}}},
			Undo: &ir.Call{Function: pop},
		}},
	}}
	assertRenders(t, `
// withinCurrentContext does something within the scope current_context, on one thread, whose state
// is as it was afterwards.
func (d *Driver) withinCurrentContext(op vmm.Op, do func() error) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var frame dl.Frame
	frame.Point(0, 0) // context
	if result := int32(d.toyRetain.Call(&frame)); result != 0 {
		return d.failure("toyRetain", result, vmm.Error{Op: op})
	}
	context := frame.Get64(0)

	frame = dl.Frame{}
	frame.Args[0] = context // context
	if result := int32(d.toyPush.Call(&frame)); result != 0 {
		return d.failure("toyPush", result, vmm.Error{Op: op})
	}
	defer func() {
		var frame dl.Frame
		frame.Point(0, 0) // context
		if result := int32(d.toyPop.Call(&frame)); result != 0 {
			err = errors.Join(err, d.failure("toyPop", result, vmm.Error{Op: op}))
		}
	}()
	return do()
}`, scopeMethod(scope, toyResult))
}

func TestOpenSteps(t *testing.T) {
	ask := toyFunction("toyAsk", nil,
		toyParam("answer", toyInt, ir.Bound{Kind: ir.BoundOut}), toyParam("what", toyInt, ir.Bound{Kind: ir.BoundIn}))
	step := &ir.Step{
		Versions: ir.Versions{From: &ir.Version{Major: 5, Minor: 3}},
		Call: &ir.CallStep{
			Call: ir.Call{Function: ask, Args: []*ir.Argument{
				{Path: "answer", Expect: true, Bound: ir.Bound{Kind: ir.BoundConst, Const: fixed(1)}},
				{Path: "what", Bound: ir.Bound{Kind: ir.BoundConst, Const: fixed(89)}},
			}},
			Otherwise: &ir.Otherwise{Class: &ir.Class{GoName: "ClassNotSupported"}, Message: "It cannot."},
			Accept:    []*ir.Code{{Value: 7}},
		},
	}
	assertRenders(t, `
func f() {
	var frame dl.Frame
	if !d.version.Before(dl.Version{Major: 5, Minor: 3}) {
		frame.Point(0, 0)  // answer
		frame.Args[1] = 89 // what
		if result := int32(d.toyAsk.Call(&frame)); result != 0 && result != 7 {
			return d.failure("toyAsk", result, vmm.Error{Op: op})
		}
		if value := int32(frame.Get32(0)); value != 1 {
			return &vmm.Error{Backend: Backend, Op: op, Class: vmm.ClassNotSupported, Detail: "it cannot"}
		}
	}
}`, block(scopeSteps(toyResult).list([]*ir.Step{step})...))
}

func TestQuirks(t *testing.T) {
	lib := &ir.Library{Quirks: []*ir.QuirkValue{
		{Quirk: &ir.Quirk{GoName: "MaxHandle", Type: "bytes"}, Bytes: 2 << 30, Versions: ir.Versions{Before: &ir.Version{Major: 6, Minor: 4, Patch: 1}}},
		{Quirk: &ir.Quirk{GoName: "UnmapKeepsMemory", Type: "bool"}},
	}}
	assertRenders(t, `
// Quirks says what the driver's version cannot do or does wrong.
func (d *Driver) Quirks() vmm.Quirks {
	var quirks vmm.Quirks
	if d.version.Before(dl.Version{Major: 6, Minor: 4, Patch: 1}) {
		quirks.MaxHandle = 2 << 30
	}
	quirks.UnmapKeepsMemory = true
	return quirks
}`, driverQuirks(lib))
}

func TestLibraryFailure(t *testing.T) {
	ask := toyFunction("toyText", nil)
	ask.C.Text = true
	result := &ir.Result{Name: toyFunction("toyName", nil), Text: ask, Clear: toyFunction("toyClear", nil)}
	assertRenders(t, `
// failure is the error for a function of the library that answered a code, with the driver's own
// words for it. The driver must not keep the failure for the host program.
func (d *Driver) failure(function string, result int32, about vmm.Error) error {
	about.Name = d.toyName.StoredTextOf(result)
	about.Detail = d.toyText.TextOf(result)
	d.toyClear.Call(&dl.Frame{})
	return results.Failure(Backend, function, int64(result), about)
}`, libraryFailure(&ir.Backend{Result: result}))
}

func TestSymbols(t *testing.T) {
	b := &ir.Backend{Library: &ir.Library{Helpers: []*ir.Binding{toyFunction("toyB", nil)}}, Functions: []*ir.Binding{
		toyFunction("toyA", &ir.Operation{}), toyFunction("toyA", &ir.Operation{}),
	}}
	b.Functions[0].C.Optional = true
	assertRenders(t, `
// symbols are what the library exports the functions as.
func (f *functions) symbols() []dl.Symbol {
	return []dl.Symbol{
		{Name: "toyA_v2", To: &f.toyA, Optional: true},
		{Name: "toyB_v2", To: &f.toyB},
	}
}`, symbolsMethod(b))
	assert.Len(t, everyFunction(b), 2)
}
