package gogen

import (
	"testing"

	"github.com/arenagen/arenagen/gen/internal/ir"
)

// A small ABI, as package ir would make it.
var (
	goUint32  = &ir.Type{Kind: ir.KindScalar, Go: "uint32"}
	goUint64  = &ir.Type{Kind: ir.KindScalar, Go: "uint64"}
	goInt32   = &ir.Type{Kind: ir.KindScalar, Go: "int32"}
	goPointer = &ir.Type{Kind: ir.KindPointer, Go: "uintptr"}
	goText    = &ir.Type{Kind: ir.KindText, Go: "*byte"}
	goChar    = &ir.Type{Kind: ir.KindChar, Go: "byte"}
	goStatus  = &ir.Type{Kind: ir.KindEnum, Go: "Status"}
	goVoid    = &ir.Type{Kind: ir.KindVoid}
)

// holey needs padding between its fields and after them.
var holey = &ir.Struct{
	GoName:      "Holey",
	Description: "The fields with holes. Set it up.",
	Size:        48,
	Fields: []*ir.Field{
		{GoName: "StructSize", Type: goUint32, Offset: 0, Size: 4, Description: "Bytes of it."},
		{GoName: "Name", Type: goText, Offset: 8, Size: 8, Description: "Its name."},
		{GoName: "Status", Type: goStatus, Offset: 16, Size: 4, Description: "Its status."},
		{GoName: "Text", Type: goChar, Count: 3, Offset: 20, Size: 3, Description: "Three letters."},
		{GoName: "Numbers", Type: goUint64, Count: 2, Offset: 24, Size: 16, Description: "Two numbers."},
		{GoName: "Last", Type: goUint32, Offset: 40, Size: 4, Description: "The last one."},
	},
}

func TestHandle(t *testing.T) {
	assertRendersIn(t, capiPath, `
// Arena names an arena. 0 is none.
type Arena uint64
`, handle(&ir.Handle{GoName: "Arena", Description: "Names an arena. 0 is none."}))
}

func TestMirror(t *testing.T) {
	assertRendersIn(t, capiPath, `
// Holey holds the fields with holes. Set it up.
type Holey struct {
	// Bytes of it.
	StructSize uint32
	_          [4]byte
	// Its name.
	Name *byte
	// Its status.
	Status Status
	// Three letters.
	Text [3]byte
	_    [1]byte
	// Two numbers.
	Numbers [2]uint64
	// The last one.
	Last uint32
	_    [4]byte
}
`, mirror(holey))
}

func TestLayout(t *testing.T) {
	assertRendersIn(t, capiPath, `
// An error about an index below means that a struct does not lie in memory as it does in C. The
// number in each line is the size or the offset that it has there.
func _() {
	var zero [1]struct{}

	_ = zero[unsafe.Sizeof(Holey{})-48]
	_ = zero[unsafe.Offsetof(Holey{}.StructSize)-0]
	_ = zero[unsafe.Offsetof(Holey{}.Name)-8]
	_ = zero[unsafe.Offsetof(Holey{}.Status)-16]
	_ = zero[unsafe.Offsetof(Holey{}.Text)-20]
	_ = zero[unsafe.Offsetof(Holey{}.Numbers)-24]
	_ = zero[unsafe.Offsetof(Holey{}.Last)-40]

	_ = zero[unsafe.Sizeof(Small{})-8]
	_ = zero[unsafe.Offsetof(Small{}.All)-0]
}
`, layout([]*ir.Struct{holey, {GoName: "Small", Size: 8, Fields: []*ir.Field{{GoName: "All", Type: goUint64, Size: 8}}}}))
}

func TestCallbacks(t *testing.T) {
	param := func(name string, typ *ir.Type, role ir.ParamRole) *ir.Param {
		return &ir.Param{GoName: name, Type: typ, Role: role}
	}
	assertRendersIn(t, capiPath, `
// Callbacks calls the caller's C functions. A library's package main implements it.
type Callbacks interface {
	// Allocate calls a function of type arenagen_allocate.
	Allocate(function, user uintptr, size uint64) (handle uint64, result int32)
	// Forget calls a function of type arenagen_forget.
	Forget(function uintptr, count int32)
}
`, callbacks([]*ir.Callback{
		{GoName: "Allocate", CName: "arenagen_allocate", Returns: goInt32, Params: []*ir.Param{
			param("handle", goUint64, ir.RoleOut),
			param("user", goPointer, ir.RoleValue),
			param("size", goUint64, ir.RoleValue),
		}},
		{GoName: "Forget", CName: "arenagen_forget", Returns: goVoid, Params: []*ir.Param{
			param("count", goInt32, ir.RoleValue),
		}},
	}))
}
