package ir

import (
	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// A Version is the version of a driver.
type Version = specfile.VersionNumber

// Versions are those from one version on and before another one. A nil bound is none.
type Versions struct {
	From   *Version `json:",omitempty"`
	Before *Version `json:",omitempty"`
}

// A Library is a vendor's library that is the driver.
type Library struct {
	Pos      diag.Pos `json:"-"`
	Names    []string // tried in this order
	Override string   // the environment variable that names another file
	Header   *Header
	Version  *DriverVersion `json:",omitempty"` // nil: nothing depends on it
	Types    []*CType       // sorted by name
	Helpers  []*Binding     // the functions that do no operation, sorted by name
	State    []*State       // what opening keeps, sorted by name
	Open     []*Step
	Scopes   []*Scope      // sorted by name
	Quirks   []*QuirkValue // in the order of the contract, then of versions
}

// A Header is where the vendor declares a library.
type Header struct {
	Include string
	Version string `json:",omitempty"` // the macro that says which version it is
	Define  string `json:",omitempty"` // a macro that must be defined before it
	Debian  string `json:",omitempty"`
	PyPI    string `json:",omitempty"`
}

// A DriverVersion is how a library tells its version: a number, in which each part is
// multiplied with a factor.
type DriverVersion struct {
	Function            *Binding `dump:"name"` // its one parameter with BoundOut is the number
	Major, Minor, Patch int64    // the factors; Patch is 0 where the number has none
	Oldest              Version
}

// A CTypeKind tells what a CType is.
type CTypeKind string

// The kinds of a CType.
const (
	CInt     CTypeKind = "int"
	CUint    CTypeKind = "uint"
	CEnum    CTypeKind = "enum"    // 32 bits
	CPointer CTypeKind = "pointer" // to something that only the driver knows
	CText    CTypeKind = "text"    // const char *
	CStruct  CTypeKind = "struct"
)

// A CType is a type of a driver's header.
type CType struct {
	Pos     diag.Pos `json:"-"`
	Name    string   // CUdeviceptr, uint64, size_t
	Kind    CTypeKind
	C       string    // CUdeviceptr, uint64_t, size_t
	Size    int       // in bytes; of a struct, that of its newest layout
	Align   int       // in bytes
	Values  []*CValue `json:",omitempty"` // sorted by number
	Layouts []*Layout `json:",omitempty"` // of a struct, the oldest first
	Partial bool      `json:",omitempty"` // only some of its fields are known
	Tag     *Tag      `json:",omitempty"` // of a struct that says which one it is
	Next    string    `json:",omitempty"` // the field that points to the next struct
}

// A CValue is a named number of a driver's header.
type CValue struct {
	Pos   diag.Pos `json:"-"`
	Name  string
	Value int64
	Since *Version `json:",omitempty"` // nil: as long as the driver
	Type  *CType   `json:"-"`
}

// A Tag is the field of a struct that says which one it is.
type Tag struct {
	Field string
	Value *CValue
}

// A Layout is where the fields of a struct are, in some versions of a driver.
type Layout struct {
	Versions Versions  `json:",omitempty"`
	Size     int       // in bytes
	Fields   []*CField // in the order of memory
}

// A CField is a field of a Layout.
type CField struct {
	Pos    diag.Pos `json:"-"`
	Name   string
	Type   *CType `dump:"name"`
	Count  int    `json:",omitempty"` // > 0: an array of so many
	Offset int    // in bytes
	Size   int    // of the whole field in bytes
	Union  string `json:",omitempty"` // the field that it shares its bytes with
}

// A CFunction is what is known about a function of a library only.
type CFunction struct {
	Symbol    string   // cuMemGetInfo_v2: what the library exports
	Signature string   // as C declares it
	Since     *Version `json:",omitempty"` // nil: as long as the driver
	From      *Version `json:",omitempty"` // the first version in which it does its operation, nil: all
	Optional  bool     `json:",omitempty"` // it may be missing
	Text      bool     `json:",omitempty"` // it returns a text, not a result
	Within    string   `json:",omitempty"` // the scope that its call needs
}

// A BoundKind says what a parameter, a field or an argument carries.
type BoundKind string

// What parameters, fields of structs and arguments of steps carry.
const (
	BoundConst    BoundKind = "const"
	BoundInput    BoundKind = "input"     // of the operation
	BoundOutput   BoundKind = "output"    // of the operation, by pointer
	BoundInOut    BoundKind = "inout"     // an input by pointer, and an output after the call
	BoundState    BoundKind = "state"     // kept from opening
	BoundStateOut BoundKind = "out_state" // to be kept, by pointer
	BoundStruct   BoundKind = "struct"    // by pointer
	BoundCount    BoundKind = "count"     // how many structs another parameter points to
	BoundLength   BoundKind = "length"    // how many bytes another parameter points to
	BoundItems    BoundKind = "items"     // an array for as many as another parameter says, or null to be told how many
	BoundDiscard  BoundKind = "discard"   // an output that nobody needs, by pointer
	BoundIn       BoundKind = "in"        // what a step says
	BoundOut      BoundKind = "out"       // where a step says, by pointer
	BoundCode     BoundKind = "code"      // the result that is asked about
	BoundText     BoundKind = "text"      // its name or text, by pointer
	BoundNext     BoundKind = "next"      // of a field: the next struct of a chain, or null

	// Of arguments only.
	BoundLocal    BoundKind = "local"     // kept until the scope ends
	BoundLocalOut BoundKind = "out_local" // to be kept until then
	BoundItem     BoundKind = "item"      // the item of an enumeration that is asked about
)

// A Bound is what a parameter, a field or an argument carries.
type Bound struct {
	Kind   BoundKind
	Input  *Value   `json:",omitempty" dump:"name"` // of BoundInput and BoundInOut
	Enum   *EnumMap `json:",omitempty"`             // the driver's numbers of an input that is an enum
	Output *Value   `json:",omitempty" dump:"name"` // of BoundOutput and BoundInOut
	Const  *int64   `json:",omitempty"`             // of BoundConst
	Value  *CValue  `json:",omitempty" dump:"name"` // of BoundConst: the number's name, if it has one
	Of     string   `json:",omitempty"`             // the state, the local, or the parameter that is counted or counts
	Fill   *Fill    `json:",omitempty"`             // of BoundStruct
}

// A Fill is a struct as a call passes it: zero, but for some fields.
type Fill struct {
	Type    *CType        `dump:"name"`
	Layouts []*LayoutFill // one for each layout of the type
	Chain   []*Link       `json:",omitempty"`
}

// A LayoutFill is what is filled in one layout of a struct.
type LayoutFill struct {
	Versions Versions     `json:",omitempty"`
	Size     int          // of the struct in bytes
	Fields   []*FieldFill // in the order of memory
}

// A FieldFill is a field that is filled, or read after the call.
type FieldFill struct {
	Path   string // location.id
	Offset int    // in bytes, from the start of the outermost struct
	Width  int    // in bytes
	Type   *CType `dump:"name"`
	Bound
}

// A Link is a struct that the one before it points to.
type Link struct {
	When *When `json:",omitempty"` // nil: always
	Fill
}

// A When is a condition on an input of an operation.
type When struct {
	Input *Value     `dump:"name"`
	Is    *EnumValue `dump:"name"`
}

// A State is something that opening a device keeps.
type State struct {
	Pos  diag.Pos `json:"-"`
	Name string
	Type *CType `dump:"name"`
}

// A Scope is what some functions need around their call, on the thread that calls. Afterwards the
// steps are undone in reverse.
type Scope struct {
	Pos   diag.Pos `json:"-"`
	Name  string
	Steps []*Step
}

// A Step is a part of opening a device, or of entering a scope. Exactly one of Call, Enumerate
// and Attempt is set. When a step fails, those before it are undone in reverse.
type Step struct {
	Pos       diag.Pos   `json:"-"`
	Versions  Versions   `json:",omitempty"` // that need it
	Call      *CallStep  `json:",omitempty"`
	Enumerate *Enumerate `json:",omitempty"`
	Attempt   *Attempt   `json:",omitempty"`
}

// A CallStep calls a function.
type CallStep struct {
	Call
	Otherwise *Otherwise `json:",omitempty"`             // how it fails when an expectation does
	Accept    []*Code    `json:",omitempty" dump:"name"` // results that are no failure
	Undo      *Call      `json:",omitempty"`
}

// A Call is a call of a helper.
type Call struct {
	Function *Binding    `dump:"name"`
	Args     []*Argument // of BoundIn and BoundOut, sorted by path
}

// An Argument is what a step gives to a parameter, or to a field of one, or expects of it.
type Argument struct {
	Path   string // of the parameter, or of a field of it: props.type
	Expect bool   `json:",omitempty"` // an output that must be Const
	Bound
}

// An Otherwise is a failure.
type Otherwise struct {
	Class   *Class `dump:"name"`
	Message string
}

// An Enumerate asks for the number of items, then for the items, and takes one: that with the
// ordinal of the device, or the first.
type Enumerate struct {
	Call
	Where   *Call  `json:",omitempty"` // the items that count; nil: all
	Ordinal bool   `json:",omitempty"` // not the first
	Into    string // the state
}

// An Attempt does steps, and when they fail with one of some classes, others instead.
type Attempt struct {
	Try     []*Step
	On      []*Class `dump:"name"`
	Instead []*Step
}

// A QuirkValue is a quirk of a library and the versions that have it.
type QuirkValue struct {
	Pos      diag.Pos `json:"-"`
	Quirk    *Quirk   `dump:"name"`
	Bytes    uint64   `json:",omitempty"` // of a quirk of type bytes
	Versions Versions `json:",omitempty"`
}
