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
	ScratchSize = scratchWords * wordSize

	scratchWords = 8
	wordSize     = 8
)

// A Frame is the arguments of one call, and what it passes by pointer: structs, and room for what the function
// stores. It lives on the caller's stack.
type Frame struct {
	// Args are the arguments in their order.
	Args [MaxArgs]uint64
	// Pointers has a bit for each argument, and above those for each word of Scratch, that is an offset into Scratch: the
	// function gets the address of that.
	Pointers uint64
	// Scratch is what such arguments point to, as words.
	Scratch [scratchWords]uint64
}

// Point makes an argument a pointer into the frame's Scratch.
func (f *Frame) Point(arg, offset int) {
	f.Args[arg] = uint64(offset)
	f.Pointers |= 1 << arg
}

// Link makes a word of Scratch a pointer to another place in it: a struct that points to the next one. What the word
// holds after the call means nothing.
func (f *Frame) Link(offset, to int) {
	f.Put64(offset, uint64(to))
	f.Pointers |= 1 << (MaxArgs + offset/wordSize)
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

// Items calls a function that stores how many items there are in a number of 32 bits, which is at an offset of Scratch, and
// then, in the array that an argument is to point to, the items: once to be told the number, once for the items. Each
// has so many bytes, 4 or 8. The result is that of the last call. No item is told unless both results are ok.
func (f Function) Items(frame *Frame, arg, offset, width int, ok int32) (items []uint64, result int32) {
	first := *frame
	if result = int32(f.Call(frame)); result != ok {
		return nil, result
	}
	memory := make(Memory, width*int(frame.Get32(offset)))
	if len(memory) == 0 {
		return nil, result
	}
	count := frame.Get32(offset)
	*frame = first
	frame.Put32(offset, count)
	if result = int32(f.CallWith(frame, arg, memory)); result != ok {
		return nil, result
	}
	// There may be fewer by now.
	for i := range min(int(frame.Get32(offset)), int(count)) {
		item := uint64(memory.Get32(i * width))
		if width == wordSize {
			item = memory.Get64(i * width)
		}
		items = append(items, item)
	}
	return items, result
}

// Memory is what a call passes by pointer and has no room for in a frame's Scratch. It is zero at first.
type Memory []byte

// Put8 stores a value.
func (m Memory) Put8(offset int, value uint8) { m[offset] = value }

// Put16 is Put8 for 16 bits.
func (m Memory) Put16(offset int, value uint16) { binary.LittleEndian.PutUint16(m[offset:], value) }

// Put32 is Put8 for 32 bits.
func (m Memory) Put32(offset int, value uint32) { binary.LittleEndian.PutUint32(m[offset:], value) }

// Put64 is Put8 for 64 bits.
func (m Memory) Put64(offset int, value uint64) { binary.LittleEndian.PutUint64(m[offset:], value) }

// Get32 reads 32 bits.
func (m Memory) Get32(offset int) uint32 { return binary.LittleEndian.Uint32(m[offset:]) }

// Get64 reads 64 bits.
func (m Memory) Get64(offset int) uint64 { return binary.LittleEndian.Uint64(m[offset:]) }

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
