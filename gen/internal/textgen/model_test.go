package textgen

import (
	"strings"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/ir"
)

// smallABI is an ABI with one thing of each kind, all with the same description.
func smallABI(description string) *ir.ABI {
	scalar := func(c, python string, size int) *ir.Type {
		return &ir.Type{Kind: ir.KindScalar, C: c, Python: python, Size: size, Align: size}
	}
	var (
		void    = &ir.Type{Kind: ir.KindVoid, C: "void", Python: "None"}
		uint32s = scalar("uint32_t", "c_uint32", 4)
		size    = scalar("size_t", "c_size_t", 8)
		char    = &ir.Type{Kind: ir.KindChar, C: "char", Python: "c_char", Size: 1, Align: 1}
		text    = &ir.Type{Kind: ir.KindText, C: "const char *", Python: "c_char_p", Size: 8, Align: 8}
		pointer = &ir.Type{Kind: ir.KindPointer, C: "void *", Python: "c_void_p", Size: 8, Align: 8}
		arena   = &ir.Type{Kind: ir.KindHandle, C: "box_arena", Go: "Arena", Python: "c_uint64", Size: 8, Align: 8}
		status  = &ir.Type{Kind: ir.KindEnum, C: "box_status", Python: "c_int32", Size: 4, Align: 4}
		notify  = &ir.Type{Kind: ir.KindCallback, C: "box_notify", Python: "Notify", Size: 8, Align: 8}
		options = &ir.Type{Kind: ir.KindStruct, C: "box_options", Python: "Options", Size: 16, Align: 8}
	)
	param := func(name string, t *ir.Type, role ir.ParamRole) *ir.Param {
		return &ir.Param{Name: name, Type: t, Role: role, Description: description}
	}
	statuses := &ir.Enum{
		Name: "status", CName: "box_status", GoName: "Status", Description: description,
		Values: []*ir.EnumValue{{Name: "ok", CName: "BOX_OK", Value: 0, Description: description}},
	}
	buffer := param("arenas", arena, ir.RoleBuffer)
	buffer.CountParam = "capacity"
	return &ir.ABI{
		Pos: diag.Pos{File: "spec/abi.yaml"}, Name: "box", Description: description, Major: 2, Minor: 1, Release: "2.1.0",
		Handles: []*ir.Handle{{Name: "arena", CName: "box_arena", GoName: "Arena", Description: description}},
		Enums:   []*ir.Enum{statuses},
		Status:  statuses,
		Structs: []*ir.Struct{{
			Name: "options", CName: "box_options", GoName: "Options", Description: description,
			Size: 16, Align: 8, HasDefaults: true, InitName: "BOX_OPTIONS_INIT",
			Fields: []*ir.Field{
				{Name: "struct_size", Type: uint32s, Offset: 0, Size: 4, Default: "sizeof(box_options)", Description: description},
				{Name: "name", Type: char, Count: 4, Offset: 4, Size: 4, Default: "{0}", Description: description},
				{Name: "notify", Type: notify, Offset: 8, Size: 8, Default: "NULL", Description: description},
			},
		}},
		Callbacks: []*ir.Callback{{
			Name: "notify", CName: "box_notify", GoName: "Notify", Description: description, Returns: void,
			Params: []*ir.Param{param("user", pointer, ir.RoleValue), param("arena", arena, ir.RoleOut)},
		}},
		Functions: []*ir.Function{
			{Name: "version", Symbol: "box_version", Since: "1.0", Answer: "c", Description: description, Returns: text},
			{
				Name: "open", Symbol: "box_open", Since: "2.1", Answer: "go", Description: description, Returns: status,
				Params: []*ir.Param{param("options", options, ir.RoleIn), buffer, param("capacity", size, ir.RoleValue)},
			},
		},
	}
}

// smallContract is a contract with an operation of each kind.
func smallContract(description string) *ir.Contract {
	kind := &ir.Enum{
		Name: "kind", GoName: "Kind", Description: description,
		Values: []*ir.EnumValue{
			{Name: "near", GoName: "KindNear", Value: 0, Description: description},
			{Name: "far", GoName: "KindFar", Value: 1, Description: description},
		},
	}
	value := func(name, typ string) *ir.Value { return &ir.Value{Name: name, Type: typ, Description: description} }
	return &ir.Contract{
		Pos: diag.Pos{File: "spec/vmm.yaml"}, Name: "mem", Description: description,
		Classes:      []*ir.Class{{Name: "unknown", GoName: "ClassUnknown", Description: description}},
		Enums:        []*ir.Enum{kind},
		Capabilities: []*ir.Capability{{Name: "fast", Description: description}, {Name: "slow", Description: description}},
		Operations: []*ir.Operation{
			{Name: "open", Opens: true, Description: description},
			{
				Name: "create", Description: description,
				Inputs:  []*ir.Value{value("size", "bytes"), {Name: "kind", Type: "kind", Enum: kind, Description: description}},
				Outputs: []*ir.Value{value("handle", "handle")},
			},
			{Name: "export", Description: description, Outputs: []*ir.Value{value("fd", "int")}},
		},
	}
}

// smallBackend binds smallContract, without one operation and one number.
func smallBackend(c *ir.Contract, description string) *ir.Backend {
	create, kinds := c.Operations[1], &ir.EnumMap{
		Enum:   c.Enums[0],
		Values: []*ir.EnumMapValue{{Value: c.Enums[0].Values[1], Number: -5}},
	}
	flags := int64(3)
	return &ir.Backend{
		Tree: ir.Project, File: "spec/backends/toy.yaml", Name: "toy", Title: strings.TrimSuffix(description, "."), Description: description,
		Provider: &ir.Provider{Open: "OpenToy"},
		Result: &ir.Result{OK: 1, Codes: []*ir.Code{
			{Name: "TOY_BROKEN", Value: -7, Class: c.Classes[0]},
		}},
		Options: []*ir.Option{
			{
				Name: "mode", GoName: "Mode", Type: "enum", DefaultText: "host", Description: description,
				Values: []*ir.EnumValue{{Name: "host", Description: description}, {Name: "record", Description: description}},
			},
			{Name: "capacity", GoName: "Capacity", Type: "bytes", DefaultText: "1GiB", Default: 1 << 30, Min: 64 << 10, Description: description},
		},
		Enums: []*ir.EnumMap{kinds},
		Functions: []*ir.Binding{{Name: "ToyCreate", Does: create, Params: []*ir.BoundParam{
			{Name: "flags", Bound: ir.Bound{Const: &flags}},
			{Name: "k", Bound: ir.Bound{Input: create.Inputs[1], Enum: kinds}},
			{Name: "bytes", Bound: ir.Bound{Input: create.Inputs[0]}},
			{Name: "out", Bound: ir.Bound{Output: create.Outputs[0]}},
		}}},
		Unsupported: []*ir.Operation{c.Operations[2]},
		Capabilities: []*ir.CapabilityValue{
			{Capability: c.Capabilities[0], Value: true},
			{Capability: c.Capabilities[1], Value: false},
		},
	}
}
