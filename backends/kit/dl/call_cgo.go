//go:build cgo && !arenagen_purego

package dl

/*
#cgo LDFLAGS: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>

#define ARGS 6
#define SCRATCH 8

typedef struct {
	uint64_t result, s0, s1, s2, s3, s4, s5, s6, s7;
} arenagen_answer;

typedef uint64_t (*arenagen_function)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

// On the platforms of this project a caller can pass more arguments than a function has.
#define ARG(i, arg) ((pointers >> i & 1) ? (uint64_t)(uintptr_t)((char *)s + arg) : arg)

// What goes by pointer comes and goes by value, so that no pointer of Go's is in the hands of the driver, which may call back.
static arenagen_answer arenagen_call(uintptr_t function, uint64_t pointers, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                                     uint64_t e, uint64_t f, uint64_t s0, uint64_t s1, uint64_t s2, uint64_t s3,
                                     uint64_t s4, uint64_t s5, uint64_t s6, uint64_t s7) {
	uint64_t s[SCRATCH] = {s0, s1, s2, s3, s4, s5, s6, s7};
	for (int i = 0; pointers >> ARGS && i < SCRATCH; i++) {
		if (pointers >> (ARGS + i) & 1) s[i] = (uint64_t)(uintptr_t)((char *)s + s[i]);
	}
	uint64_t result = ((arenagen_function)function)(ARG(0, a), ARG(1, b), ARG(2, c), ARG(3, d), ARG(4, e), ARG(5, f));
	return (arenagen_answer){result, s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]};
}

// Nothing goes by pointer.
static uint64_t arenagen_call_plain(uintptr_t function, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
                                    uint64_t f) {
	return ((arenagen_function)function)(a, b, c, d, e, f);
}

static arenagen_answer arenagen_call_memory(uintptr_t function, int arg, void *memory, uint64_t pointers, uint64_t a,
                                            uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t s0,
                                            uint64_t s1, uint64_t s2, uint64_t s3, uint64_t s4, uint64_t s5,
                                            uint64_t s6, uint64_t s7) {
	uint64_t args[] = {a, b, c, d, e, f};
	args[arg] = (uint64_t)(uintptr_t)memory;
	return arenagen_call(function, pointers, args[0], args[1], args[2], args[3], args[4], args[5], s0, s1, s2, s3, s4, s5,
	                     s6, s7);
}

static uintptr_t arenagen_load(const char *name, char **failure) {
	void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!handle) *failure = dlerror();
	return (uintptr_t)handle;
}

static uintptr_t arenagen_find(uintptr_t handle, const char *name) { return (uintptr_t)dlsym((void *)handle, name); }

static const char *arenagen_path(uintptr_t handle) {
	struct link_map *map = NULL;
	return dlinfo((void *)handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : NULL;
}
*/
import "C"

import (
	"errors"
	"unsafe"
)

// Call calls the function and returns its result, of which a function that returns 32 bits sets the
// lower half only. What it stored is in the frame's Scratch.
func (f Function) Call(frame *Frame) uint64 {
	a, s := &frame.Args, &frame.Scratch
	if frame.Pointers == 0 {
		return uint64(C.arenagen_call_plain(C.uintptr_t(f), C.uint64_t(a[0]), C.uint64_t(a[1]), C.uint64_t(a[2]), C.uint64_t(a[3]),
			C.uint64_t(a[4]), C.uint64_t(a[5])))
	}
	return frame.take(C.arenagen_call(C.uintptr_t(f), C.uint64_t(frame.Pointers),
		C.uint64_t(a[0]), C.uint64_t(a[1]), C.uint64_t(a[2]), C.uint64_t(a[3]), C.uint64_t(a[4]), C.uint64_t(a[5]),
		C.uint64_t(s[0]), C.uint64_t(s[1]), C.uint64_t(s[2]), C.uint64_t(s[3]), C.uint64_t(s[4]), C.uint64_t(s[5]), C.uint64_t(s[6]),
		C.uint64_t(s[7])))
}

// CallWith is Call with one argument that is the address of memory, which is the caller's.
func (f Function) CallWith(frame *Frame, arg int, memory []byte) uint64 {
	a, s := &frame.Args, &frame.Scratch
	return frame.take(C.arenagen_call_memory(C.uintptr_t(f), C.int(arg), unsafe.Pointer(unsafe.SliceData(memory)), C.uint64_t(frame.Pointers),
		C.uint64_t(a[0]), C.uint64_t(a[1]), C.uint64_t(a[2]), C.uint64_t(a[3]), C.uint64_t(a[4]), C.uint64_t(a[5]),
		C.uint64_t(s[0]), C.uint64_t(s[1]), C.uint64_t(s[2]), C.uint64_t(s[3]), C.uint64_t(s[4]), C.uint64_t(s[5]), C.uint64_t(s[6]),
		C.uint64_t(s[7])))
}

// take takes what a function stored over, and gives its result.
func (f *Frame) take(answer C.arenagen_answer) uint64 {
	f.Scratch = [scratchWords]uint64{uint64(answer.s0), uint64(answer.s1), uint64(answer.s2), uint64(answer.s3), uint64(answer.s4),
		uint64(answer.s5), uint64(answer.s6), uint64(answer.s7)}
	return uint64(answer.result)
}

func load(name string) (uintptr, error) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	var failure *C.char
	handle := C.arenagen_load(text, &failure)
	if handle == 0 {
		return 0, errors.New(C.GoString(failure))
	}
	return uintptr(handle), nil
}

func find(handle uintptr, symbol string) uintptr {
	text := C.CString(symbol)
	defer C.free(unsafe.Pointer(text))
	return uintptr(C.arenagen_find(C.uintptr_t(handle), text))
}

func pathOf(handle uintptr, name string) string {
	if path := C.arenagen_path(C.uintptr_t(handle)); path != nil && *path != 0 {
		return C.GoString(path)
	}
	return name
}

// environment reads a variable as C does, unless the process runs with more rights than its user has.
func environment(name string) string {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	return C.GoString(C.secure_getenv(text))
}
