package gogen

import (
	"testing"

	"github.com/arenagen/arenagen/gen/internal/ir"
)

func TestResultTable(t *testing.T) {
	assertRenders(t, `
// results is what the driver's codes are called and mean.
var results = vmm.Results{
	100: {Name: "NO_DEVICE", Class: vmm.ClassNoDevice},
	2:   {Name: "NO_MEMORY", Class: vmm.ClassOutOfMemory},
	-1:  {Name: "NO_DEVICE_EITHER", Class: vmm.ClassNoDevice},
}
`, resultTable(&ir.Result{Codes: []*ir.Code{
		{Name: "NO_DEVICE", Value: 100, Class: &ir.Class{GoName: "ClassNoDevice"}},
		{Name: "NO_MEMORY", Value: 2, Class: &ir.Class{GoName: "ClassOutOfMemory"}},
		{Name: "NO_DEVICE_EITHER", Value: -1, Class: &ir.Class{GoName: "ClassNoDevice"}},
	}}))
}

func TestFailureFunction(t *testing.T) {
	const want = `
// failure is the error for a driver's function that answered a code.
func failure(function string, result hostvmm.Result, about vmm.Error) error {
	return results.Failure(Backend, function, int64(result), about)
}
`
	for _, typ := range []string{"hostvmm.Result", "Result"} {
		assertRenders(t, want, failureFunction(&ir.Backend{Provider: hostvmm, Result: &ir.Result{Type: typ}}))
	}
}
