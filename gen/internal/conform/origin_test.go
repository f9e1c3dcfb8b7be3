package conform

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/gen/internal/emit"
)

// lineOf is the number of the line that holds mark.
func lineOf(t *testing.T, content, mark string) int {
	t.Helper()
	before, _, found := strings.Cut(content, mark)
	require.True(t, found, "no line with %q", mark)
	return strings.Count(before, "\n") + 1
}

func TestGoDeclaration(t *testing.T) {
	const content = `package p

import "fmt" // an import

var one, two = 1, 2

const (
	Three = 3 // a constant
	Four  = 4
)

type Driver struct {
	Handle uint64 // a field
	fmt.Stringer // embedded
}

type Backend interface {
	Create() error // a method
}

type Number int // a number

func (d *Driver) Create() error {
	return nil // in Create
}

func (d Driver) Release() {
	// in Release
}

func (b Box[T]) Open() {
	// in a generic
}

func Open() {
	// in Open
}

// between
`
	tests := []struct{ mark, want string }{
		{"an import", ""},
		{"var one", "one"},
		{"a constant", "Three"},
		{"type Driver", "Driver"},
		{"a field", "Driver.Handle"},
		{"embedded", "Driver"},
		{"a method", "Backend.Create"},
		{"a number", "Number"},
		{"in Create", "Driver.Create"},
		{"in Release", "Driver.Release"},
		{"in a generic", "Box[T].Open"},
		{"in Open", "Open"},
		{"between", ""},
	}
	for _, test := range tests {
		assert.Equal(t, test.want, goDeclaration([]byte(content), lineOf(t, content, test.mark)), test.mark)
	}
}

func TestCDeclaration(t *testing.T) {
	const content = `/* Code generated */
#include "x.h"

typedef int32_t arena_status;
enum {
  ARENA_OK = 0, /* enumerator */
};

typedef struct arena_error {
  arena_status status; /* field */
} arena_error;

static int helper(void)
{
  return 0; /* in helper */
}

arena_status arena_close(arena_handle arena)
{
  arena_error *error; /* in close */
  return 0;
}
`
	file := emit.File{Content: []byte(content)}
	for _, name := range []string{"arena_status", "ARENA_OK", "arena_error", "arena_handle", "arena_close"} {
		file.Origins = append(file.Origins, emit.Origin{Name: name})
	}
	tests := []struct{ mark, want string }{
		{"Code generated", ""},
		{"typedef int32_t", "arena_status"},
		{"enumerator", "ARENA_OK"},
		{"/* field", "arena_error"},
		{"in helper", ""},
		{"arena_status arena_close", "arena_close"},
		{"in close", "arena_close"},
	}
	for _, test := range tests {
		assert.Equal(t, test.want, cDeclaration(file, lineOf(t, content, test.mark)), test.mark)
	}
	assert.Equal(t, "arena_close", cDeclaration(file, 1000), "a line beyond the end")
}
