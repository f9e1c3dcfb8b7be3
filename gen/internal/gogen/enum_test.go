package gogen

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/arenagen/arenagen/gen/internal/ir"
)

func TestChoice(t *testing.T) {
	assertRendersIn(t, vmmPath, `
// HandleType says how a handle can be exported.
type HandleType uint8

// The values of HandleType.
const (
	// Not at all.
	HandleTypeNone HandleType = iota
	// As a file descriptor.
	HandleTypePosixFD
	// Across machines.
	HandleTypeFabric
)
`, choice(handleType))
}

func TestNumberedEnum(t *testing.T) {
	assertRendersIn(t, capiPath, `
// Status is the answer of a call. 0 is success.
type Status int32

// The values of Status.
const (
	// Success.
	StatusOK Status = 0
	// It is closed.
	StatusClosed Status = 7
	// It never happens.
	StatusNever Status = -1
)
`, numbers(&ir.Enum{
		GoName:      "Status",
		Description: "The answer of a call. 0 is success.",
		Values: []*ir.EnumValue{
			{GoName: "StatusOK", Value: 0, Description: "Success."},
			{GoName: "StatusClosed", Value: 7, Description: "It is closed."},
			{GoName: "StatusNever", Value: -1, Description: "It never happens."},
		},
	}))
}

func TestSaying(t *testing.T) {
	tests := []struct{ description, want string }{
		{"Which one is meant.", "Kind says which one is meant."},
		{"What a call answers.", "Kind says what a call answers."},
		{"The last failure.", "Kind holds the last failure."},
		{"POSIX numbers.", "Kind holds POSIX numbers."},
		{"Somewhat odd.", "Kind holds somewhat odd."},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, saying("Kind", "holds", tt.description))
	}
}
