package capi

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
	"github.com/arenagen/arenagen/backends/kit/options"
)

func TestEachReasonHasItsStatus(t *testing.T) {
	driver := func(class vmm.Class) error { return &vmm.Error{Op: vmm.OpCreate, Class: class} }
	tests := []struct {
		err  error
		want Status
	}{
		{arena.ErrInvalidArgument, StatusInvalidArgument},
		{arena.ErrOverflow, StatusOverflow},
		{arena.ErrClosed, StatusClosed},
		{&arena.ExhaustedError{}, StatusExhausted},
		{arena.ErrNoActiveArena, StatusNoActiveArena},
		{arena.ErrBusy, StatusBusy},
		{fmt.Errorf("%w: %w", arena.ErrDeviceLost, driver(vmm.ClassOutOfMemory)), StatusDeviceLost},
		{&BufferTooSmallError{}, StatusBufferTooSmall},
		{&HandleError{}, StatusInvalidHandle},
		{&CallbackError{Code: 7}, StatusCallback},
		{&options.Error{}, StatusInvalidArgument},
		{driver(vmm.ClassOutOfMemory), StatusOutOfMemory},
		{driver(vmm.ClassNotSupported), StatusNotSupported},
		{driver(vmm.ClassNotPermitted), StatusNotPermitted},
		{driver(vmm.ClassUnavailable), StatusUnavailable},
		{driver(vmm.ClassNoDevice), StatusNoDevice},
		{driver(vmm.ClassDeviceLost), StatusDeviceLost},
		{driver(vmm.ClassUnknown), StatusDriver},
		{driver(vmm.ClassInvalidArgument), StatusDriver},
		{&vmm.Error{Op: vmm.OpOpen, Class: vmm.ClassInvalidArgument}, StatusInvalidArgument},
		{errors.New("something else"), StatusInternal},
		{new(Library).Fault("a panic"), StatusInternal},
	}
	for _, test := range tests {
		for _, err := range []error{test.err, fmt.Errorf("wrapped: %w", test.err), &arena.CloseError{First: test.err}} {
			assert.Equal(t, test.want, statusOf(err), "%v", err)
		}
	}
}

func TestExplainTellsWhatTheDriverSaid(t *testing.T) {
	e := Explain("arenagen_arena_malloc", fmt.Errorf("in between: %w", &vmm.Error{
		Backend: "stub", Op: vmm.OpCreate, Function: "MemCreate",
		Code: 2, Name: "HOSTVMM_ERROR_OUT_OF_MEMORY", Class: vmm.ClassOutOfMemory, VA: 0x7000, Size: 4096,
	}))
	assert.Equal(t, StatusOutOfMemory, e.Status)
	assert.Equal(t, int64(2), e.DriverCode)
	assert.Equal(t, uint64(0x7000), e.Address)
	assert.Equal(t, uint64(4096), e.Size)
	assert.Equal(t, "HOSTVMM_ERROR_OUT_OF_MEMORY", textOf(e.DriverName[:]))
	assert.Equal(t, "arenagen_arena_malloc", textOf(e.Operation[:]))
	assert.Contains(t, textOf(e.Text[:]), "in between: stub: create of 4096 bytes")
}

func TestExplainTellsWhatACallbackAnswered(t *testing.T) {
	e := Explain("mx_malloc", &CallbackError{Callback: "allocate", Code: -5, VA: 0x1000, Size: 8192})
	assert.Equal(t, StatusCallback, e.Status)
	assert.Equal(t, int64(-5), e.DriverCode)
	assert.Equal(t, uint64(0x1000), e.Address)
	assert.Equal(t, uint64(8192), e.Size)
}

func TestTextsAreCutBetweenCharactersAndEnd(t *testing.T) {
	for n := range 10 {
		text := strings.Repeat("x", 500+n) + strings.Repeat("語", 20)
		e := Explain(strings.Repeat("o", 100), errors.New(text))
		said := textOf(e.Text[:])
		assert.True(t, utf8.ValidString(said), "%q", said[490:])
		assert.True(t, strings.HasPrefix(text, said))
		assert.Greater(t, len(said), len(e.Text)-4)
		assert.Zero(t, e.Text[len(e.Text)-1])
		assert.Len(t, textOf(e.Operation[:]), len(e.Operation)-1)
	}
}

// textOf reads a zero-terminated text.
func textOf(array []byte) string {
	before, _, _ := bytes.Cut(array, []byte{0})
	return string(before)
}
