package dl

import (
	"bytes"
	"encoding/binary"
	"unsafe"
)

const (
	// MaxArgs is how many arguments a function can have: integers and pointers.
	MaxArgs = 6
	// ScratchSize is how many bytes a call can pass by pointer.
	ScratchSize = 64
)

// A Frame is the arguments of one call, and what it passes by pointer: structs, and room for what the function
// stores. It lives on the caller's stack.
type Frame struct {
	// Args are the arguments in their order.
	Args [MaxArgs]uint64
	// Pointers has a bit for each argument that is an offset into Scratch: the function gets the address of that.
	Pointers uint64
	// Scratch is what such arguments point to. It is aligned to 8 bytes.
	Scratch [ScratchSize]byte
}

// Point makes an argument a pointer into the frame's Scratch.
func (f *Frame) Point(arg, offset int) {
	f.Args[arg] = uint64(offset)
	f.Pointers |= 1 << arg
}

// Put8 to Put64 store a value in Scratch.
func (f *Frame) Put8(offset int, value uint8) { f.Scratch[offset] = value }

// Put16 stores 16 bits.
func (f *Frame) Put16(offset int, value uint16) {
	binary.NativeEndian.PutUint16(f.Scratch[offset:], value)
}

// Put32 stores 32 bits.
func (f *Frame) Put32(offset int, value uint32) {
	binary.NativeEndian.PutUint32(f.Scratch[offset:], value)
}

// Put64 stores 64 bits.
func (f *Frame) Put64(offset int, value uint64) {
	binary.NativeEndian.PutUint64(f.Scratch[offset:], value)
}

// Get32 reads 32 bits of Scratch.
func (f *Frame) Get32(offset int) uint32 { return binary.NativeEndian.Uint32(f.Scratch[offset:]) }

// Get64 reads 64 bits of Scratch.
func (f *Frame) Get64(offset int) uint64 { return binary.NativeEndian.Uint64(f.Scratch[offset:]) }

// Flag is a truth value as C has it.
func Flag(set bool) uint64 {
	if set {
		return 1
	}
	return 0
}

// TextIn is the text in a buffer that a function wrote to: up to a zero, or all of it.
func TextIn(buffer []byte) string {
	if end := bytes.IndexByte(buffer, 0); end >= 0 {
		buffer = buffer[:end]
	}
	return string(buffer)
}

// TextOf is the text that a function returns for a code: const char *f(code).
func (f Function) TextOf(code int32) string {
	return Text(f.Call(&Frame{Args: [MaxArgs]uint64{uint64(code)}}))
}

// StoredTextOf is the text that a function stores for a code: result f(code, const char **text).
func (f Function) StoredTextOf(code int32) string {
	frame := Frame{Args: [MaxArgs]uint64{uint64(code)}}
	frame.Point(1, 0)
	f.Call(&frame)
	return Text(frame.Get64(0))
}

// Text reads a text that C keeps; it is "" for 0.
func Text(address uint64) string {
	if address == 0 {
		return ""
	}
	start := *(*unsafe.Pointer)(unsafe.Pointer(&address))
	n := 0
	for *(*byte)(unsafe.Add(start, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(start), n))
}
