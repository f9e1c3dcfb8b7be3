package gogen

import (
	"testing"

	"github.com/dave/jennifer/jen"
	"github.com/stretchr/testify/assert"

	"github.com/arenagen/arenagen/gen/internal/ir"
)

// The types and the parts of an ABI that the tests below use.
var (
	exportStatus  = &ir.Type{Name: "status", Kind: ir.KindEnum, C: "x_status", Cgo: "x_status", Go: "Status"}
	exportHandle  = &ir.Type{Name: "arena", Kind: ir.KindHandle, C: "x_arena", Cgo: "x_arena", Go: "Arena"}
	exportOptions = &ir.Type{Name: "options", Kind: ir.KindStruct, C: "x_options", Cgo: "x_options", Go: "Options"}
	exportPointer = &ir.Type{Name: "pointer", Kind: ir.KindPointer, C: "void *", Cgo: "uintptr_t", Go: "uintptr"}
	exportSsize   = &ir.Type{Name: "ssize", Kind: ir.KindScalar, C: "ssize_t", Cgo: "ssize_t", Go: "int64"}
	exportU64     = &ir.Type{Name: "uint64", Kind: ir.KindScalar, C: "uint64_t", Cgo: "uint64_t", Go: "uint64"}
	exportI32     = &ir.Type{Name: "int32", Kind: ir.KindScalar, C: "int32_t", Cgo: "int32_t", Go: "int32"}
	exportVoid    = &ir.Type{Name: "void", Kind: ir.KindVoid, C: "void"}

	exportABI = &ir.ABI{Name: "x", Status: &ir.Enum{CName: "x_status"}}
)

func param(name string, t *ir.Type, role ir.ParamRole) *ir.Param {
	return &ir.Param{Name: name, GoName: name, Type: t, Role: role}
}

func TestExport(t *testing.T) {
	tests := map[string]struct {
		function *ir.Function
		want     string
	}{
		"status, by value": {
			&ir.Function{Symbol: "x_close", GoName: "Close", ExportName: "goClose", Returns: exportStatus, Params: []*ir.Param{
				param("a", exportHandle, ir.RoleValue),
				param("n", exportSsize, ir.RoleValue),
			}}, `
// goClose answers x_close.
//
//export goClose
func goClose(a C.x_arena, n C.ssize_t) (status C.x_status) {
	capi.MakeRoom()
	defer recovered("x_close", &status)
	return answer("x_close", library.Close(capi.Arena(a), int64(n)))
}`,
		},
		"status, by pointer": {
			&ir.Function{Symbol: "x_open", GoName: "Open", ExportName: "goOpen", Returns: exportStatus, Params: []*ir.Param{
				param("o", exportOptions, ir.RoleIn),
				param("a", exportHandle, ir.RoleOut),
				param("p", exportPointer, ir.RoleOut),
			}}, `
// goOpen answers x_open.
//
//export goOpen
func goOpen(o *C.x_options, a *C.x_arena, p *C.uintptr_t) (status C.x_status) {
	capi.MakeRoom()
	defer recovered("x_open", &status)
	return answer("x_open", library.Open(
		(*capi.Options)(unsafe.Pointer(o)),
		(*capi.Arena)(unsafe.Pointer(a)),
		(*uintptr)(unsafe.Pointer(p)),
	))
}`,
		},
		"an address": {
			&ir.Function{Symbol: "mx_malloc", GoName: "Malloc", ExportName: "goMalloc", Returns: exportPointer, Params: []*ir.Param{
				param("size", exportSsize, ir.RoleValue),
				param("stream", exportPointer, ir.RoleValue),
			}}, `
// goMalloc answers mx_malloc.
//
//export goMalloc
func goMalloc(size C.ssize_t, stream C.uintptr_t) (value C.uintptr_t) {
	capi.MakeRoom()
	defer recovered("mx_malloc", nil)
	result, err := library.Malloc(int64(size), uintptr(stream))
	answer("mx_malloc", err)
	return C.uintptr_t(result)
}`,
		},
		"nothing": {
			&ir.Function{Symbol: "mx_free", GoName: "Free", ExportName: "goFree", Returns: exportVoid, Params: []*ir.Param{
				param("address", exportPointer, ir.RoleValue),
			}}, `
// goFree answers mx_free.
//
//export goFree
func goFree(address C.uintptr_t) {
	capi.MakeRoom()
	defer recovered("mx_free", nil)
	answer("mx_free", library.Free(uintptr(address)))
}`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { assertRenders(t, test.want, export(test.function)) })
	}
}

func TestExportCannotReturnAText(t *testing.T) {
	text := &ir.Type{Name: "text", Kind: ir.KindText}
	assert.PanicsWithValue(t, "an export through Go cannot return text", func() {
		export(&ir.Function{Returns: text})
	})
}

func TestExportsCallback(t *testing.T) {
	assertRenders(t, `
func (callbacks) AllocateCallback(function, user uintptr, size uint64) (handle uint64, result int32) {
	answer := C.x_allocate_callback_call(C.uintptr_t(function), C.uintptr_t(user), C.uint64_t(size))
	return uint64(answer.handle), int32(answer.result)
}`, exportsCallback(&ir.Callback{CName: "x_allocate_callback", GoName: "AllocateCallback", Returns: exportI32, Params: []*ir.Param{
		param("user", exportPointer, ir.RoleValue),
		param("size", exportU64, ir.RoleValue),
		param("handle", exportU64, ir.RoleOut),
	}}))
}

func TestExportsFrame(t *testing.T) {
	backend := &ir.Backend{Tree: ir.Project, Name: "stub", Title: "Host memory"}
	vendor := &ir.Backend{Tree: ir.Project, Name: "cuda", Title: "CUDA", Library: &ir.Library{}}
	tests := map[string]struct {
		code jen.Code
		want string
	}{
		"library": {exportsLibrary(&ir.SharedLibrary{Backends: []*ir.Backend{backend}}), `
var library = capi.New([]registry.Backend{
	{Name: stub.Backend, Title: "Host memory", Auto: true, Abilities: stub.Abilities, Open: openStub},
}, callbacks{})`},
		"all": {exportsLibrary(&ir.SharedLibrary{Backends: []*ir.Backend{vendor, backend}}), `
var library = capi.New(all.Backends(), callbacks{})`},
		"registered": {jen.Var().Id("x").Op("=").Add(registered([]*ir.Backend{vendor, backend})), `
var x = []registry.Backend{
	{Name: cuda.Backend, Title: "CUDA", Override: cuda.Override, Auto: true, Abilities: cuda.Abilities, Open: openCuda},
	{Name: stub.Backend, Title: "Host memory", Abilities: stub.Abilities, Open: openStub},
}`},
		"main": {exportsMain(), `func main() {}`},
		"ready": {exportsReady(), `
// goReady returns when the Go runtime is up. The guard calls it once, while the library loads.
//
//export goReady
func goReady() {}`},
		"answer": {exportsAnswer(exportABI), `
// answer is the status of an error, which becomes the calling thread's last one.
func answer(operation string, err error) C.x_status {
	if err == nil {
		return 0
	}
	failure := capi.Explain(operation, err)
	C.x_note((*C.x_error)(unsafe.Pointer(&failure)))
	return C.x_status(failure.Status)
}`},
		"recovered": {exportsRecovered(exportABI), `
// recovered ends an export in which something panicked. The status is nil where the export answers
// none.
func recovered(operation string, status *C.x_status) {
	if value := recover(); value != nil {
		failed := answer(operation, library.Fault(value))
		if status != nil {
			*status = failed
		}
	}
}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { assertRendersIn(t, "example.com/lib", test.want, test.code) })
	}
	assertRendersIn(t, "example.com/lib", `
func openStub(device int, text string) (*vmm.Device, error) {
	options, err := stub.ParseOptions(text)
	if err != nil {
		return nil, err
	}
	return stub.Open(device, options)
}`, openRegistered(backend))
}
