package gogen

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/arenagen/arenagen/gen/internal/ir"
)

// The roles of a driver's parameters.
func in(goType string, v *ir.Value) *ir.BoundParam {
	p := &ir.BoundParam{Name: v.Name, GoType: goType, Bound: ir.Bound{Kind: ir.BoundInput, Input: v}}
	if v.Enum != nil {
		p.Enum = driverHandleType
	}
	return p
}

func out(goType string, v *ir.Value) *ir.BoundParam {
	return &ir.BoundParam{Name: v.Name, GoType: goType, Bound: ir.Bound{Kind: ir.BoundOutput, Output: v}}
}

func constant64(n int64) *ir.BoundParam {
	return &ir.BoundParam{Name: "flags", GoType: "uint64", Bound: ir.Bound{Kind: ir.BoundConst, Const: &n}}
}

func TestBoundMethod(t *testing.T) {
	size, va, hint, align := byteValue("size"), address("va"), address("hint"), byteValue("align")
	handle, fd, count, total := handleValue("handle"), integer("fd"), integer("count"), byteValue("total")
	first, second := enumValue("first", "first", handleType), enumValue("second", "second", handleType)
	kind := enumValue("handle_type", "handleType", handleType)

	reserve := operation("reserve", "Reserve", "Reserves addresses. Nothing backs them.",
		[]*ir.Value{size, align, hint}, []*ir.Value{va})
	tests := map[string]struct {
		does   *ir.Operation
		params []*ir.BoundParam
		want   string
	}{
		"outputs first": {
			does:   reserve,
			params: []*ir.BoundParam{out("uint64", va), in("uint64", size), in("uint64", align), in("uint64", hint), constant64(0)},
			want: `
// Reserve reserves addresses. It calls Call.
func (d *Driver) Reserve(size, align, hint uint64) (va uint64, err error) {
	if result := d.driver.Call(&va, size, align, hint, 0); result != 0 {
		return 0, failure("Call", result, vmm.Error{Op: vmm.OpReserve, Size: size, VA: hint})
	}
	return va, nil
}`,
		},
		"the same in another order": {
			does:   reserve,
			params: []*ir.BoundParam{constant64(-7), in("uint64", hint), in("uint64", size), out("uint64", va)},
			want: `
// Reserve reserves addresses. It calls Call.
func (d *Driver) Reserve(size, _, hint uint64) (va uint64, err error) {
	if result := d.driver.Call(-7, hint, size, &va); result != 0 {
		return 0, failure("Call", result, vmm.Error{Op: vmm.OpReserve, Size: size, VA: hint})
	}
	return va, nil
}`,
		},
		"no output": {
			does:   operation("map", "Map", "Maps it", []*ir.Value{va, size, handle}, nil),
			params: []*ir.BoundParam{in("uint64", handle), in("uint64", va)},
			want: `
// Map maps it. It calls Call.
func (d *Driver) Map(va, size, handle uint64) error {
	if result := d.driver.Call(handle, va); result != 0 {
		return failure("Call", result, vmm.Error{Op: vmm.OpMap, VA: va, Size: size, Handle: handle})
	}
	return nil
}`,
		},
		"types that differ": {
			does:   operation("ask", "Ask", "Asks.", []*ir.Value{handle, count}, []*ir.Value{fd, total, va}),
			params: []*ir.BoundParam{out("uint64", va), out("int32", fd), in("int64", handle), in("uint32", count), out("int64", total)},
			want: `
// Ask asks. It calls Call.
func (d *Driver) Ask(handle uint64, count int) (fd int, total, va uint64, err error) {
	var fd32 int32
	var total64 int64
	if result := d.driver.Call(&va, &fd32, int64(handle), uint32(count), &total64); result != 0 {
		return 0, 0, 0, failure("Call", result, vmm.Error{Op: vmm.OpAsk, Handle: handle})
	}
	return int(fd32), uint64(total64), va, nil
}`,
		},
		"an enum": {
			does:   operation("create", "Create", "Creates it.", []*ir.Value{size, kind}, []*ir.Value{handle}),
			params: []*ir.BoundParam{in("uint32", kind), in("uint64", size), in("uint32", kind), out("uint64", handle)},
			want: `
// Create creates it. It calls Call.
func (d *Driver) Create(size uint64, handleType vmm.HandleType) (handle uint64, err error) {
	handleTypeNumber, ok := numberOfHandleType(handleType)
	if !ok {
		return 0, vmm.NoNumber(Backend, "Call", handleType, vmm.Error{Op: vmm.OpCreate, Size: size})
	}
	if result := d.driver.Call(uint32(handleTypeNumber), size, uint32(handleTypeNumber), &handle); result != 0 {
		return 0, failure("Call", result, vmm.Error{Op: vmm.OpCreate, Size: size})
	}
	return handle, nil
}`,
		},
		"two enums": {
			does:   operation("turn", "Turn", "Turns it.", []*ir.Value{first, second}, nil),
			params: []*ir.BoundParam{in("int64", second), in("int32", first)},
			want: `
// Turn turns it. It calls Call.
func (d *Driver) Turn(first, second vmm.HandleType) error {
	secondNumber, ok := numberOfHandleType(second)
	if !ok {
		return vmm.NoNumber(Backend, "Call", second, vmm.Error{Op: vmm.OpTurn})
	}
	firstNumber, ok := numberOfHandleType(first)
	if !ok {
		return vmm.NoNumber(Backend, "Call", first, vmm.Error{Op: vmm.OpTurn})
	}
	if result := d.driver.Call(secondNumber, int32(firstNumber)); result != 0 {
		return failure("Call", result, vmm.Error{Op: vmm.OpTurn})
	}
	return nil
}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			binding := &ir.Binding{Name: "Call", Does: tt.does, Params: tt.params}
			assertRenders(t, tt.want, boundMethod(binding, &ir.Result{OK: 0}))
		})
	}
}

func TestBoundMethodKnowsTheDriversSuccess(t *testing.T) {
	binding := &ir.Binding{Name: "Stop", Does: operation("stop", "Stop", "Stops.", nil, nil)}
	assertRenders(t, `
// Stop stops. It calls Stop.
func (d *Driver) Stop() error {
	if result := d.driver.Stop(); result != 1 {
		return failure("Stop", result, vmm.Error{Op: vmm.OpStop})
	}
	return nil
}
`, boundMethod(binding, &ir.Result{OK: 1}))
}

func TestBoundMethodPanicsOnImpossibleModels(t *testing.T) {
	needsOutput := operation("ask", "Ask", "Asks.", nil, []*ir.Value{integer("answer")})
	assert.PanicsWithValue(t, "Call gives no answer", func() {
		boundMethod(&ir.Binding{Name: "Call", Does: needsOutput}, &ir.Result{})
	})
	assert.PanicsWithValue(t, "no role for parameter flags", func() {
		boundMethod(&ir.Binding{
			Name: "Call", Does: operation("go", "Go", "Goes.", nil, nil), Params: []*ir.BoundParam{{Name: "flags"}},
		}, &ir.Result{})
	})
}

func TestUnsupportedMethod(t *testing.T) {
	assertRenders(t, `
// ExportFD exports a handle. The driver cannot do it.
func (d *Driver) ExportFD(_ vmm.HandleType, handle, _ uint64) (fd int, err error) {
	return 0, vmm.Unsupported(Backend, vmm.Error{Op: vmm.OpExportFD, Handle: handle}, "no function of the driver does this")
}

// Reset resets all. The driver cannot do it.
func (d *Driver) Reset() error {
	return vmm.Unsupported(Backend, vmm.Error{Op: vmm.OpReset}, "no function of the driver does this")
}
`,
		unsupportedMethod(operation("export_fd", "ExportFD", "Exports a handle. The caller closes it.",
			[]*ir.Value{enumValue("kind", "kind", handleType), handleValue("handle"), handleValue("other")},
			[]*ir.Value{integer("fd")})),
		unsupportedMethod(operation("reset", "Reset", "Resets all.", nil, nil)),
	)
}
