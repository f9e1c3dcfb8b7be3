//go:build !cgo || arenagen_purego

package dl

import (
	"encoding/binary"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// A call is the memory of one call. It must not move, so it is not on a stack; it is used again, so that calls
// allocate nothing.
type call struct {
	args    [MaxArgs]uintptr
	scratch [scratchWords]uint64
}

// free are calls that are not used now. It is no sync.Pool: that forgets, and under the race detector on purpose.
var free struct {
	mu    sync.Mutex
	calls []*call
}

func take() *call {
	free.mu.Lock()
	defer free.mu.Unlock()
	last := len(free.calls) - 1
	if last < 0 {
		return new(call)
	}
	c := free.calls[last]
	free.calls = free.calls[:last]
	return c
}

func give(c *call) {
	free.mu.Lock()
	defer free.mu.Unlock()
	free.calls = append(free.calls, c)
}

// Call calls the function and returns its result, of which a function that returns 32 bits sets the
// lower half only. What it stored is in the frame's Scratch.
func (f Function) Call(frame *Frame) uint64 { return f.call(frame, -1, nil) }

// CallWith is Call with one argument that is the address of memory, which is the caller's.
func (f Function) CallWith(frame *Frame, arg int, memory []byte) uint64 {
	return f.call(frame, arg, memory)
}

// call lets memory escape, so that it does not move either.
func (f Function) call(frame *Frame, memoryArg int, memory []byte) uint64 {
	c := take()
	c.scratch = frame.Scratch
	for i := range c.scratch {
		if frame.Pointers>>(MaxArgs+i)&1 != 0 {
			c.scratch[i] += uint64(uintptr(unsafe.Pointer(&c.scratch)))
		}
	}
	for i, arg := range frame.Args {
		switch {
		case i == memoryArg:
			c.args[i] = uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
		case frame.Pointers>>i&1 != 0:
			c.args[i] = uintptr(unsafe.Pointer(&c.scratch)) + uintptr(arg)
		default:
			c.args[i] = uintptr(arg)
		}
	}
	result, _, _ := purego.SyscallN(uintptr(f), c.args[:]...)
	keep(memory)
	frame.Scratch = c.scratch
	give(c)
	return uint64(result)
}

var kept struct {
	mu     sync.Mutex
	memory []byte
}

// keep makes its argument one that escapes to the heap, and lives until now.
func keep(memory []byte) {
	if memory == nil {
		return
	}
	kept.mu.Lock()
	kept.memory = memory
	kept.memory = nil
	kept.mu.Unlock()
}

func load(name string) (uintptr, error) {
	// The loader keeps the reason of a failure for the thread, and it is asked for in a second call.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

func find(handle uintptr, symbol string) uintptr {
	address, err := purego.Dlsym(handle, symbol)
	if err != nil {
		return 0
	}
	return address
}

// The loader's list of libraries starts each entry with an address and the name.
const (
	requestLinkMap = 2
	nameOffset     = 8
)

func pathOf(handle uintptr, name string) string {
	address, err := purego.Dlsym(purego.RTLD_DEFAULT, "dlinfo")
	if err != nil {
		return name
	}
	var frame Frame
	frame.Args = [MaxArgs]uint64{uint64(handle), requestLinkMap}
	frame.Point(2, 0)
	if Function(address).Call(&frame)&0xffffffff != 0 || frame.Get64(0) == 0 {
		return name
	}
	entry := frame.Get64(0) + nameOffset
	if path := Text(*(*uint64)(*(*unsafe.Pointer)(unsafe.Pointer(&entry)))); path != "" {
		return path
	}
	return name
}

// environment reads a variable, unless the process runs with more rights than its user has.
func environment(name string) string {
	if secure() {
		return ""
	}
	return os.Getenv(name)
}

// secure tells whether the kernel says that the process runs with more rights than its user has. When it cannot
// be asked, it does.
func secure() bool {
	vector, err := os.ReadFile("/proc/self/auxv")
	if err != nil {
		return true
	}
	const secureKey = 23 // AT_SECURE
	for ; len(vector) >= 16; vector = vector[16:] {
		if binary.NativeEndian.Uint64(vector) == secureKey {
			return binary.NativeEndian.Uint64(vector[8:]) != 0
		}
	}
	return true
}
