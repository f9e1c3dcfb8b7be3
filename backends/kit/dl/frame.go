package dl

import (
	"bytes"
	"unsafe"
)

const (
	// MaxArgs is how many arguments a function can have: integers and pointers.
	MaxArgs = 6
	// ScratchSize is how many bytes a call can pass by pointer.
	ScratchSize = scratchWords * wordSize

	scratchWords = 5
	wordSize     = 8
)

// A Frame is the arguments of one call, and what it passes by pointer: structs, and room for what the function
// stores. It lives on the caller's stack.
type Frame struct {
	// Args are the arguments in their order.
	Args [MaxArgs]uint64
	// Pointers has a bit for each argument that is an offset into Scratch: the function gets the address of that.
	Pointers uint64
	// Scratch is what such arguments point to, as words.
	Scratch [scratchWords]uint64
}

// Point makes an argument a pointer into the frame's Scratch.
func (f *Frame) Point(arg, offset int) {
	f.Args[arg] = uint64(offset)
	f.Pointers |= 1 << arg
}

// Put8 stores a value in Scratch, where nothing was stored before. Offsets are multiples of the value's size. Words are
// written whole: what is read in another width than it was written makes a processor wait.
func (f *Frame) Put8(offset int, value uint8) { f.put(offset, uint64(value)) }

// Put16 is Put8 for 16 bits.
func (f *Frame) Put16(offset int, value uint16) { f.put(offset, uint64(value)) }

// Put32 is Put8 for 32 bits.
func (f *Frame) Put32(offset int, value uint32) { f.put(offset, uint64(value)) }

// Put64 is Put8 for 64 bits.
func (f *Frame) Put64(offset int, value uint64) { f.put(offset, value) }

// All platforms of this project have the lowest byte of a word first.
func (f *Frame) put(offset int, value uint64) {
	f.Scratch[offset/wordSize] |= value << (8 * (offset % wordSize))
}

// Get32 reads 32 bits of Scratch.
func (f *Frame) Get32(offset int) uint32 {
	return uint32(f.Scratch[offset/wordSize] >> (8 * (offset % wordSize)))
}

// Get64 reads 64 bits of Scratch, at a multiple of 8.
func (f *Frame) Get64(offset int) uint64 { return f.Scratch[offset/wordSize] }

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
