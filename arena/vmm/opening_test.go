package vmm_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena/vmm"
)

func TestOpening(t *testing.T) {
	var undone []string
	var o vmm.Opening
	step := func(name string, err error) func() error {
		return func() error {
			o.Did(func() error {
				undone = append(undone, name)
				return err
			})
			return nil
		}
	}
	require.NoError(t, step("a", nil)())
	lacking := func() error {
		require.NoError(t, step("b", nil)())
		return vmm.Unsupported("toy", vmm.Error{Op: vmm.OpOpen}, "no")
	}
	require.NoError(t, o.Either(lacking, step("c", nil), vmm.ClassTooOld, vmm.ClassNotSupported))
	assert.Equal(t, []string{"b"}, undone, "what the first way did is taken back")
	require.ErrorIs(t, o.Either(lacking, step("d", nil), vmm.ClassTooOld), vmm.ClassNotSupported, "another failure is one")
	stuck := errors.New("stuck")
	require.NoError(t, step("e", stuck)())
	failed := errors.New("failed")
	err := o.Failed(failed)
	require.ErrorIs(t, err, failed)
	require.ErrorIs(t, err, stuck)
	assert.Equal(t, []string{"b", "e", "b", "c", "a"}, undone, "in reverse, also after a failure")
	require.NoError(t, o.Close())
	assert.Len(t, undone, 5, "once")
}

// Where taking back fails, nothing else is tried.
func TestOpeningThatCannotBeTakenBack(t *testing.T) {
	var o vmm.Opening
	stuck := errors.New("stuck")
	err := o.Either(func() error {
		o.Did(func() error { return stuck })
		return vmm.ClassNotSupported
	}, func() error {
		t.Error("tried")
		return nil
	}, vmm.ClassNotSupported)
	require.ErrorIs(t, err, vmm.ClassNotSupported)
	require.ErrorIs(t, err, stuck)
}

func TestChoose(t *testing.T) {
	even := func(item uint64) (bool, error) { return item%2 == 0, nil }
	var wide uint64
	require.NoError(t, vmm.Choose(&wide, "toy", "toyList", []uint64{1, 2, 3, 1 << 40}, 1, even))
	assert.Equal(t, uint64(1<<40), wide)
	var narrow int32
	require.NoError(t, vmm.Choose(&narrow, "toy", "toyList", []uint64{7}, 0, nil))
	assert.Equal(t, int32(7), narrow)
	for _, place := range []int{-1, 2} {
		err := vmm.Choose(&wide, "toy", "toyList", []uint64{1, 2, 4}, place, even)
		require.ErrorIs(t, err, vmm.ClassNoDevice)
		assert.ErrorContains(t, err, "toyList gave 3, of which 2 can be used")
	}
	stuck := errors.New("stuck")
	require.ErrorIs(t, vmm.Choose(&wide, "toy", "toyList", []uint64{1}, 0, func(uint64) (bool, error) { return false, stuck }), stuck)
	assert.Equal(t, uint64(1<<40), wide, "a refusal changes nothing")
}
