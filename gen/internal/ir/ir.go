// Package ir is the resolved model between the specs and everything that is
// rendered from them: names computed, types resolved, order fixed. It is plain
// data and can be dumped as JSON. It knows no YAML and no rendering.
package ir

import (
	"slices"

	"github.com/arenagen/arenagen/gen/internal/diag"
)

// A Model is everything that the specs say.
type Model struct {
	ABI      *ABI
	Contract *Contract
	Backends []*Backend // sorted by name
}

// An ABI is the C surface of every shared library.
type ABI struct {
	Pos         diag.Pos `json:"-"`
	Name        string   // "arenagen": the prefix of C names
	Description string
	Major       int
	Minor       int
	Release     string // "0.1.0"
	Handles     []*Handle
	Enums       []*Enum
	Structs     []*Struct
	Callbacks   []*Callback
	Functions   []*Function
	Status      *Enum `dump:"name"` // the enum named status
}

// A Handle is an opaque 64-bit number that names an object.
type Handle struct {
	Pos         diag.Pos `json:"-"`
	Name        string   // arena
	CName       string   // arenagen_arena
	GoName      string   // Arena
	Description string
}

// An Enum is a set of named numbers. In the contract the numbers are positions.
type Enum struct {
	Pos         diag.Pos `json:"-"`
	Name        string   // status, handle_type
	CName       string   // arenagen_status
	GoName      string   // Status, HandleType
	Description string
	Values      []*EnumValue
}

// Value is the value of a name, nil when there is none.
func (e *Enum) Value(name string) *EnumValue {
	i := slices.IndexFunc(e.Values, func(v *EnumValue) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	return e.Values[i]
}

// An EnumValue is one number of an Enum.
type EnumValue struct {
	Pos         diag.Pos `json:"-"`
	Name        string   // invalid_argument
	CName       string   // ARENAGEN_STATUS_INVALID_ARGUMENT: prefix, enum, value
	GoName      string   // StatusInvalidArgument
	Value       int64
	Description string
}

// A Struct crosses the C border by pointer. Its layout is the C one, computed here.
type Struct struct {
	Pos         diag.Pos `json:"-"`
	Name        string   // arena_options
	CName       string   // arenagen_arena_options
	GoName      string   // ArenaOptions
	Description string
	Fields      []*Field
	Size        int   // bytes
	Align       int   // bytes
	Older       []int `json:",omitempty"` // what its size was in earlier versions of the interface
	Sized       bool  // the first field is struct_size
	HasDefaults bool  // ARENAGEN_<NAME>_INIT exists
	InitName    string
}

// A Field is one field of a Struct.
type Field struct {
	Pos         diag.Pos `json:"-"`
	Name        string   // struct_size
	GoName      string   // StructSize
	Since       string   `json:",omitempty"` // the version that brought it, where that is later than the struct's first
	Type        *Type
	Count       int // > 0: an array of so many
	Offset      int
	Size        int    // of the whole field
	Default     string // a C initialiser: "sizeof(arenagen_arena_options)", "0", "NULL", "INT64_C(4398046511104)"
	Number      string // the default as a decimal number, "0" for NULL; "" for sizeof and without a default
	Description string
}

// A Callback is a C function type of the caller's.
type Callback struct {
	Pos         diag.Pos `json:"-"`
	Name        string   // allocate_callback
	CName       string   // arenagen_allocate_callback
	GoName      string   // AllocateCallback
	Description string
	Params      []*Param
	Returns     *Type
}

// A Function is one export.
type Function struct {
	Pos         diag.Pos `json:"-"`
	Name        string   // arena_create
	Symbol      string   // arenagen_arena_create, mx_malloc
	GoName      string   // ArenaCreate: the method of capi.Library
	ExportName  string   // goArenaCreate: the Go export behind the guard
	Since       string
	Answer      string // "c" or "go"
	Description string
	Params      []*Param
	Returns     *Type
}

// ParamRole says which way a parameter goes.
type ParamRole string

// The roles of a parameter.
const (
	RoleValue  ParamRole = "value"  // by value
	RoleIn     ParamRole = "in"     // const T *
	RoleOut    ParamRole = "out"    // T *, written
	RoleInOut  ParamRole = "inout"  // T *, a sized struct: struct_size is read, the rest written
	RoleBuffer ParamRole = "buffer" // T *, as many as the parameter CountParam says
)

// A Param is one parameter of a Function or Callback.
type Param struct {
	Pos         diag.Pos `json:"-"`
	Name        string
	GoName      string // local name in Go, lowerCamel, never a keyword
	Type        *Type
	Role        ParamRole
	CountParam  string // for RoleBuffer
	Description string
}

// A TypeKind tells what a Type is.
type TypeKind string

// The kinds of a Type.
const (
	KindVoid     TypeKind = "void"
	KindScalar   TypeKind = "scalar"  // int32, uint64, size, ...
	KindChar     TypeKind = "char"    // char, in arrays only
	KindPointer  TypeKind = "pointer" // void *: a device address or an opaque pointer
	KindText     TypeKind = "text"    // const char *
	KindHandle   TypeKind = "handle"
	KindEnum     TypeKind = "enum"
	KindStruct   TypeKind = "struct"
	KindCallback TypeKind = "callback"
)

// A Type is a type of the C surface and what it is called in each language.
type Type struct {
	Name   string // as in the spec
	Kind   TypeKind
	C      string // int32_t, arenagen_arena, void *
	Go     string // in package capi: int32, uint64, Arena, ArenaOptions
	Cgo    string // in an export's signature: int32_t, arenagen_arena, uintptr_t (pointers travel as numbers)
	Python string // ctypes name: c_int32, or the class of a struct
	Size   int
	Align  int
}

// A Contract is what every backend must bind.
type Contract struct {
	Pos          diag.Pos `json:"-"`
	Name         string
	Description  string
	Classes      []*Class
	Enums        []*Enum
	Capabilities []*Capability
	Quirks       []*Quirk `json:",omitempty"`
	Operations   []*Operation
	Helpers      []*Helper `json:",omitempty"`
}

// A Class is what a driver's answer means to our users.
type Class struct {
	Pos         diag.Pos `json:"-"`
	Name        string   // out_of_memory
	GoName      string   // ClassOutOfMemory
	Description string
}

// A Capability is a fact about a driver that the arena may rely on.
type Capability struct {
	Pos         diag.Pos `json:"-"`
	Name        string
	GoName      string // ReleaseWhileMapped
	Description string
}

// A Quirk is a limit or a fault that some versions of a driver have.
type Quirk struct {
	Pos         diag.Pos `json:"-"`
	Name        string   // reserve_alignment
	GoName      string   // ReserveAlignment
	Type        string   // bool, bytes
	Description string
}

// An Operation is one thing that a driver does for an arena.
type Operation struct {
	Pos         diag.Pos `json:"-"`
	Name        string   // create
	GoName      string   // Create
	OpName      string   // OpCreate
	Opens       bool     // it makes the driver: it has no method and no binding
	Description string
	Inputs      []*Value
	Outputs     []*Value
}

// A Helper is something that drivers need beside the operations. A simulator plays it.
type Helper struct {
	Pos         diag.Pos `json:"-"`
	Name        string   // context_push
	Description string
	Inputs      []string `json:",omitempty"` // in the order of the function's parameters
	Outputs     []string `json:",omitempty"`
}

// A Value is an input or an output of an Operation.
type Value struct {
	Pos         diag.Pos `json:"-"`
	Name        string   // handle_type
	GoName      string   // handleType
	Type        string   // bytes, address, handle, stream, int, flag, text, memory, fabric_handle, or the name of a contract enum
	GoType      string   // uint64, int, bool, string, []byte, [64]byte, HandleType
	Enum        *Enum    `json:",omitempty" dump:"name"`
	Description string
}

// A Backend binds one driver to the contract.
type Backend struct {
	Pos          diag.Pos `json:"-"`
	Tree         Tree     `json:"-"`
	File         string   // spec/backends/stub.yaml
	Name         string   // stub: the package's name too
	Title        string
	Description  string
	Provider     *Provider `json:",omitempty"` // nil with a Library
	Library      *Library  `json:",omitempty"` // nil with a Provider
	Result       *Result
	Options      []*Option
	Enums        []*EnumMap
	Functions    []*Binding         // in the order of the contract's operations
	Idle         []*Binding         `json:",omitempty"` // whose operations are unsupported: nothing calls them
	Unsupported  []*Operation       `dump:"name"`
	Capabilities []*CapabilityValue // in the order of the contract
}

// A Provider is a Go type that plays the driver.
type Provider struct {
	Pos     diag.Pos `json:"-"`
	Package string   // import path
	PkgName string   // hostvmm
	Type    string   // Driver
	Open    string   // the function that opens: Open
}

// A Result is how a driver's functions answer.
type Result struct {
	Pos   diag.Pos `json:"-"`
	Type  string
	OK    int64
	Name  *Binding `json:",omitempty" dump:"name"` // of a library: gives the name of a number
	Text  *Binding `json:",omitempty" dump:"name"` // of a library: gives its text
	Clear *Binding `json:",omitempty" dump:"name"` // of a library: takes the failure back that it keeps for a thread
	Codes []*Code  // sorted by number
}

// A Code is one number that a driver answers.
type Code struct {
	Pos   diag.Pos `json:"-"`
	Name  string
	Value int64
	Since *Version `json:",omitempty"` // of a library; nil: as long as the driver
	Class *Class   `dump:"name"`
}

// An Option is something that a user sets when a device is opened.
type Option struct {
	Pos         diag.Pos     `json:"-"`
	Name        string       // min_granule
	GoName      string       // MinGranule
	Type        string       // enum, uint, bytes
	GoType      string       // Mode, uint64
	Values      []*EnumValue // of an enum: GoName ModeHost, Value 0, 1, ... in spec order
	Default     uint64       // of an enum: the value's number
	DefaultText string       // as in the spec
	Min, Max    uint64       // of uint and bytes; Max 0 means no bound
	Description string
}

// An EnumMap gives the driver's numbers for a contract enum. A value that is missing is not supported.
type EnumMap struct {
	Pos    diag.Pos        `json:"-"`
	Enum   *Enum           `dump:"name"`
	Values []*EnumMapValue // in the contract's order
}

// An EnumMapValue is one pair of an EnumMap.
type EnumMapValue struct {
	Value  *EnumValue `dump:"name"`
	Number int64
	Named  *CValue `json:",omitempty" dump:"name"` // the number's name, if it has one
}

// A CapabilityValue is a backend's answer to a capability.
type CapabilityValue struct {
	Capability *Capability `dump:"name"`
	Value      bool
}

// A Binding is a function of the driver.
type Binding struct {
	Pos    diag.Pos   `json:"-"`
	Name   string     // MemCreate, cuMemCreate: the driver's own name
	Does   *Operation `json:",omitempty" dump:"name"` // nil for a helper of a library
	Plays  *Helper    `json:",omitempty" dump:"name"` // of a helper: what a simulator does for it; nil: nothing
	Params []*BoundParam
	C      *CFunction `json:",omitempty"` // of a library

	Ignores []*Value `json:",omitempty" dump:"name"` // the inputs that the function does not need, by name
}

// A BoundParam is one parameter of a driver function.
type BoundParam struct {
	Pos    diag.Pos `json:"-"`
	Name   string
	GoType string `json:",omitempty"`             // of a provider: uint64, int32
	C      string `json:",omitempty"`             // of a library, as C declares it: const CUmemAllocationProp *prop
	Type   *CType `json:",omitempty" dump:"name"` // of a library: what C points to or has
	Count  int    `json:",omitempty"`             // > 0: it points to so many
	Bound
}
