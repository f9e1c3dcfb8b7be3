package vmm_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena/vmm"
)

func TestFailure(t *testing.T) {
	results := vmm.Results{
		2:  {Name: "ERROR_OUT_OF_MEMORY", Class: vmm.ClassOutOfMemory},
		-7: {Name: "ERROR_NO_DEVICE", Class: vmm.ClassNoDevice},
	}
	about := vmm.Error{Op: vmm.OpCreate, Size: 4096}
	tests := map[string]struct {
		code  int64
		class vmm.Class
		text  string
	}{
		"a known code":     {2, vmm.ClassOutOfMemory, "toy: create of 4096 bytes: out of memory (ToyCreate answered ERROR_OUT_OF_MEMORY, 2)"},
		"a negative code":  {-7, vmm.ClassNoDevice, "toy: create of 4096 bytes: no device (ToyCreate answered ERROR_NO_DEVICE, -7)"},
		"an unlisted code": {999, vmm.ClassUnknown, "toy: create of 4096 bytes: unknown (ToyCreate answered a code without a name, 999)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := results.Failure("toy", "ToyCreate", tt.code, about)
			require.EqualError(t, err, tt.text)
			assert.ErrorIs(t, err, tt.class)
			var failure *vmm.Error
			require.ErrorAs(t, err, &failure)
			assert.Equal(t, tt.code, failure.Code)
			assert.Equal(t, "ToyCreate", failure.Function)
		})
	}
}

func TestRefusalsWithoutACall(t *testing.T) {
	tests := map[string]struct {
		err   error
		class vmm.Class
		text  string
	}{
		"unsupported": {
			vmm.Unsupported("toy", vmm.Error{Op: vmm.OpExportFD, Handle: 5}, "no function of the driver does this"),
			vmm.ClassNotSupported, "toy: export_fd with handle 0x5: not supported: no function of the driver does this",
		},
		"no number": {
			vmm.NoNumber("toy", "ToyCreate", vmm.HandleTypeFabric, vmm.Error{Op: vmm.OpCreate, Size: 4096}),
			vmm.ClassNotSupported, "toy: create of 4096 bytes: not supported: ToyCreate has no number for vmm.HandleType(2)",
		},
		"a value that is none": {
			vmm.NoNumber("toy", "ToyCreate", vmm.HandleType(200), vmm.Error{Op: vmm.OpCreate}),
			vmm.ClassNotSupported, "toy: create: not supported: ToyCreate has no number for vmm.HandleType(200)",
		},
		"invalid": {
			vmm.Invalid("toy", vmm.Error{Op: vmm.OpOpen}, errors.New("devices must be 1, got 2")),
			vmm.ClassInvalidArgument, "toy: open: invalid argument: devices must be 1, got 2",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.EqualError(t, tt.err, tt.text)
			assert.ErrorIs(t, tt.err, tt.class)
			var refusal *vmm.Error
			require.ErrorAs(t, tt.err, &refusal)
			assert.Equal(t, "toy", refusal.Backend)
			assert.Empty(t, refusal.Function, "the driver was not asked")
		})
	}
}
