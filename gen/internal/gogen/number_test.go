package gogen

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/arenagen/arenagen/gen/internal/ir"
)

func TestNumberFunction(t *testing.T) {
	assertRenders(t, `
// numberOfHandleType is the driver's number for a value, if it has one.
func numberOfHandleType(value vmm.HandleType) (number int64, ok bool) {
	switch value {
	case vmm.HandleTypeNone:
		return 0, true
	case vmm.HandleTypeFabric:
		return 1099511627776, true
	}
	return 0, false
}
`, numberFunction(driverHandleType))
}

func TestNumberedEnums(t *testing.T) {
	kind := enumValue("kind", "kind", handleType)
	taken, ignored := driverHandleType, &ir.EnumMap{Enum: &ir.Enum{GoName: "Granularity"}}
	backend := &ir.Backend{
		Enums: []*ir.EnumMap{ignored, taken},
		Functions: []*ir.Binding{
			{Params: []*ir.BoundParam{constant64(0)}},
			{Params: []*ir.BoundParam{constant64(0), in("int32", kind)}},
		},
	}
	assert.Equal(t, []*ir.EnumMap{taken}, numberedEnums(backend))
}
