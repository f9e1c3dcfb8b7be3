package vmm_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena/vmm"
)

func TestErrorText(t *testing.T) {
	for want, e := range map[string]*vmm.Error{
		"cuda: create: unknown": {Backend: "cuda", Op: vmm.OpCreate},
		"cuda: create of 4096 bytes: out of memory (cuMemCreate answered CUDA_ERROR_OUT_OF_MEMORY, 2)": {
			Backend: "cuda", Op: vmm.OpCreate, Size: 4096, Function: "cuMemCreate", Name: "CUDA_ERROR_OUT_OF_MEMORY", Code: 2,
			Class: vmm.ClassOutOfMemory,
		},
		"hip: map of 4096 bytes at 0x10000 with handle 0x4d: unknown (hipMemMap answered a code without a name, -9): try again": {
			Backend: "hip", Op: vmm.OpMap, Size: 4096, VA: 0x10000, Handle: 77, Function: "hipMemMap", Code: -9,
			Class: vmm.ClassUnknown, Detail: "try again",
		},
	} {
		assert.EqualError(t, e, want)
	}
}

func TestErrorIsItsClass(t *testing.T) {
	err := fmt.Errorf("around it: %w", &vmm.Error{Class: vmm.ClassDeviceLost, Op: vmm.OpMap})
	require.ErrorIs(t, err, vmm.ClassDeviceLost)
	assert.NotErrorIs(t, err, vmm.ClassUnknown)
	assert.EqualError(t, vmm.ClassDeviceLost, "device lost")
	assert.Equal(t, "export_fd", vmm.OpExportFD.String())
}
