package textgen

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/ir"
)

// vendorModel is a model with one small vendor, whose functions show what simulators, checks and scripts are made of.
func vendorModel() *ir.Model {
	i, size, pointer := &ir.CType{Name: "int", Kind: ir.CInt, C: "int", Size: 4}, &ir.CType{Name: "size_t", Kind: ir.CUint, C: "size_t", Size: 8}, &ir.CType{Name: "void *", Kind: ir.CPointer, C: "void *", Size: 8}
	zero, one, two := new(int64), int64(1), int64(2)
	since := &ir.Version{Major: 2, Minor: 1}
	bytes, handle := &ir.Value{Name: "size", Type: "bytes", GoType: "uint64"}, &ir.Value{Name: "handle", Type: "handle", GoType: "uint64"}
	fd := &ir.Value{Name: "fd", Type: "int", GoType: "int"}
	create := &ir.Operation{Name: "create", Inputs: []*ir.Value{bytes}, Outputs: []*ir.Value{handle}}
	export, exportNew := &ir.Operation{Name: "export_fd", Outputs: []*ir.Value{fd}}, &ir.Operation{Name: "export_new", Outputs: []*ir.Value{fd}}
	begin := &ir.Helper{Name: "initialize"}
	props := &ir.CType{Name: "toyProps", Kind: ir.CStruct, C: "toyProps", Size: 8, Layouts: []*ir.Layout{{Versions: ir.Versions{From: since}, Size: 8, Fields: []*ir.CField{
		{Name: "kind", Type: i, Offset: 4, Size: 4},
	}}}}
	device := &ir.CType{Name: "toyDevice", Kind: ir.CInt, C: "toyDevice", Size: 4}
	mode := &ir.CType{Name: "toyMode", Kind: ir.CEnum, C: "toyMode", Size: 4, Values: []*ir.CValue{{Name: "TOY_FAST", Value: 3, Since: since}}}
	fill := &ir.Fill{Type: props, Layouts: []*ir.LayoutFill{{Size: 8, Fields: []*ir.FieldFill{{Path: "kind", Offset: 4, Width: 4, Type: i, Bound: ir.Bound{Kind: ir.BoundConst, Const: &two}}}}}}
	exports := func(o *ir.Operation, kind *int64) *ir.Binding {
		return &ir.Binding{Name: "toyExport", Does: o, C: &ir.CFunction{Symbol: "toyExport_v2", Signature: "toyResult toyExport(void *fd, int kind)"}, Params: []*ir.BoundParam{
			{Name: "fd", C: "void *fd", Type: i, Bound: ir.Bound{Kind: ir.BoundOutput, Output: fd}},
			{Name: "kind", C: "int kind", Type: i, Bound: ir.Bound{Kind: ir.BoundConst, Const: kind}},
		}}
	}
	start := &ir.Binding{Name: "toyBegin", Plays: begin, C: &ir.CFunction{Symbol: "toyBegin", Signature: "toyResult toyBegin(int flags)"}, Params: []*ir.BoundParam{
		{Name: "flags", C: "int flags", Type: i, Bound: ir.Bound{Kind: ir.BoundConst, Const: zero}},
	}}
	return &ir.Model{
		Contract: &ir.Contract{
			Pos:     diag.Pos{File: "spec/vmm.yaml"},
			Classes: []*ir.Class{{Name: "unknown"}, {Name: "out_of_memory"}}, Operations: []*ir.Operation{create, export, exportNew}, Helpers: []*ir.Helper{begin},
			Enums: []*ir.Enum{{Name: "mode", Values: []*ir.EnumValue{{Name: "fast"}}}},
		},
		Backends: []*ir.Backend{{
			Tree: ir.Project, Name: "toy", File: "spec/backends/toy.yaml",
			Library: &ir.Library{
				Names: []string{"libtoy.so.1", "libtoy.so"}, Override: "TOY_LIBRARY", Header: &ir.Header{Include: "toy.h", Version: "TOY_VERSION", Define: "TOY"},
				Version: &ir.DriverVersion{Major: 1000, Minor: 10, Oldest: ir.Version{Major: 1}}, Types: []*ir.CType{device, mode, props},
				Helpers: []*ir.Binding{start}, Open: []*ir.Step{{Call: &ir.CallStep{Call: ir.Call{Function: start}}}},
			},
			Result: &ir.Result{Codes: []*ir.Code{{Name: "TOY_FULL", Value: 2, Class: &ir.Class{Name: "out_of_memory"}}, {Name: "TOY_ODD", Value: 9, Since: since, Class: &ir.Class{Name: "unknown"}}}},
			Functions: []*ir.Binding{
				{Name: "toyCreate", Does: create, C: &ir.CFunction{Symbol: "toyCreate", Signature: "toyResult toyCreate(void **handle, size_t size, const void *props)", Since: since}, Params: []*ir.BoundParam{
					{Name: "handle", C: "void **handle", Type: pointer, Bound: ir.Bound{Kind: ir.BoundOutput, Output: handle}},
					{Name: "class", C: "size_t class", Type: size, Bound: ir.Bound{Kind: ir.BoundInput, Input: bytes}},
					{Name: "props", C: "const void *props", Type: props, Bound: ir.Bound{Kind: ir.BoundStruct, Fill: fill}},
				}},
				exports(export, &one), exports(exportNew, &two),
			},
		}},
	}
}

func TestSimulators(t *testing.T) {
	model := vendorModel()
	files := append(simContractFiles(model), simFile(model, model.Backends[0]))
	require.Len(t, files, 2)
	assert.Equal(t, "backends/sim/c/zz_generated_contract.h", files[0].Path)
	assert.Contains(t, string(files[0].Content), `enum sim_op {
  SIM_OP_CREATE,
  SIM_OP_EXPORT_FD,
  SIM_OP_EXPORT_NEW,
  SIM_OP_INITIALIZE,
  SIM_OPS
};`)
	assert.Equal(t, "backends/sim/c/zz_generated_toy.c", files[1].Path)
	text := string(files[1].Content)
	assert.Contains(t, text, `static const int64_t sim_codes[] = {
    2, /* unknown */
    2, /* out_of_memory */
};`, "a code that only newer versions have stands for no class")
	assert.Contains(t, text, ".version = 2010,\n    .major = 1000,\n    .minor = 10,")
	assert.Contains(t, text, `int32_t toyBegin(int32_t flags) {
  int64_t code = 0;
  if (sim_enter(SIM_OP_INITIALIZE, "toyBegin", &code)) return (int32_t)code;
  struct sim_args a = sim_nothing;
  int wrong = 0;
  wrong |= flags != 0;
  if (wrong) return (int32_t)sim_leave(SIM_OP_INITIALIZE, "toyBegin", SIM_CLASS_INVALID_ARGUMENT);
  enum sim_class class = wrong ? SIM_CLASS_INVALID_ARGUMENT : sim_do(SIM_OP_INITIALIZE, &a);
  return (int32_t)sim_leave(SIM_OP_INITIALIZE, "toyBegin", class);
}`)
	assert.Contains(t, text, `int32_t toyCreate(void *handle, uint64_t class_, const void *props) {
  if (sim_instant) return sim_at_once(SIM_OP_CREATE, handle);
  int64_t code = 0;
  if (sim_enter(SIM_OP_CREATE, "toyCreate", &code)) return (int32_t)code;
  struct sim_args a = sim_nothing;
  int wrong = 0;
  wrong |= !handle;
  wrong |= !props;
  if (wrong) return (int32_t)sim_leave(SIM_OP_CREATE, "toyCreate", SIM_CLASS_INVALID_ARGUMENT);
  a.size = class_;
  wrong |= sim_load(props, 4, 4) != 2;
  enum sim_class class = wrong ? SIM_CLASS_INVALID_ARGUMENT : sim_do(SIM_OP_CREATE, &a);
  if (class == SIM_CLASS_NONE) {
    sim_store(handle, 0, 8, (uint64_t)a.handle);
  }
  return (int32_t)sim_leave(SIM_OP_CREATE, "toyCreate", class);
}`)
	assert.Contains(t, text, `int32_t toyExport_v2(void *fd, int32_t kind) {
  if (kind == 1) return toyExport_export_fd(fd, kind);
  if (kind == 2) return toyExport_export_new(fd, kind);
  return (int32_t)sim_leave(SIM_OP_EXPORT_FD, "toyExport", SIM_CLASS_INVALID_ARGUMENT);
}`)
}

func TestVendorChecks(t *testing.T) {
	file := vendorFile(vendorModel().Backends[0])
	assert.Equal(t, "tests/vendor/checks/zz_generated_toy.c", file.Path)
	text := string(file.Content)
	for _, lines := range []string{
		"#define TOY\n#include <toy.h>\n_Static_assert(TOY_VERSION > 0, ",
		"_Static_assert(sizeof(toyDevice) == 4, \"the size of toyDevice\");\n_Static_assert((toyDevice)-1 < 0, \"the sign of toyDevice\");\n#endif",
		"#if TOY_VERSION >= 2010\n_Static_assert(TOY_FAST == 3, \"TOY_FAST\");\n#endif",
		"#if TOY_VERSION >= 2010\n_Static_assert(sizeof(toyProps) == 8, \"the size of toyProps\");\n_Static_assert(offsetof(toyProps, kind) == 4, \"toyProps.kind\");",
		"#if 1\n_Static_assert(TOY_FULL == 2, \"TOY_FULL\");\n#endif",
		"#if TOY_VERSION >= 2010\n" +
			"_Static_assert(__builtin_types_compatible_p(__typeof__(&toyCreate), toyResult (*)(void **handle, size_t size, const void *props)) || " +
			"__builtin_types_compatible_p(__typeof__(&toyCreate), toyResult (*)(void **handle, size_t size, void *props)), " +
			"\"toyResult toyCreate(void **handle, size_t size, const void *props)\");\n" +
			"_Static_assert(__builtin_strcmp(NAME(toyCreate), \"toyCreate\") == 0, \"the symbol of toyCreate\");\n#endif",
		"_Static_assert(__builtin_strcmp(NAME(toyExport), \"toyExport_v2\") == 0, \"the symbol of toyExport\");",
	} {
		assert.Contains(t, text, lines)
	}
}

func TestGPUDrivers(t *testing.T) {
	files := gpuCheckFiles(vendorModel())
	require.Len(t, files, 1)
	assert.Contains(t, string(files[0].Content), `    "toy": {
        "libraries": ["libtoy.so.1", "libtoy.so"],
        "override": "TOY_LIBRARY",
        "calls": [
            ("open", "toyBegin", [("value", 0)]),
            ("create", "toyCreate", [("out", "handle", 8), ("value", "size"), ("struct", 8, [(4, 4, 2)])]),
        ],
    },`)
}
