package gogen

import (
	"testing"

	"github.com/arenagen/arenagen/gen/internal/ir"
)

func TestClasses(t *testing.T) {
	assertRendersIn(t, vmmPath, `
// A Class is what a driver's answer means. It is an error, so that errors.Is finds it.
type Class uint8

// The classes.
const (
	// No memory is left.
	ClassOutOfMemory Class = iota
	// Nobody knows.
	ClassUnknown
)

var classNames = [...]string{
	ClassOutOfMemory: "out of memory",
	ClassUnknown:     "unknown",
}
`, classes([]*ir.Class{
		{Name: "out_of_memory", GoName: "ClassOutOfMemory", Description: "No memory is left."},
		{Name: "unknown", GoName: "ClassUnknown", Description: "Nobody knows."},
	})...)
}
