package textgen

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/irtest"
	"github.com/arenagen/arenagen/gen/internal/prose"
)

// build compiles a C program and returns its file.
func build(t *testing.T, source string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(program+".c", []byte(source), 0o600))
	out, err := exec.Command("gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o", program, program+".c").CombinedOutput()
	require.NoError(t, err, "%s\n%s", source, out)
	return program
}

// TestCCommentIsAComment puts comments between declarations, each of which the last line needs.
func TestCCommentIsAComment(t *testing.T) {
	var declarations, sum strings.Builder
	texts := slices.Sorted(maps.Values(irtest.HostileTexts()))
	for i, text := range texts {
		fmt.Fprintf(&declarations, "%s\nstatic int a%d;\n%s\nstatic int b%d;\n", cComment("", text), i, cComment("  ", text, text), i)
		fmt.Fprintf(&sum, " + a%d + b%d", i, i)
	}
	build(t, declarations.String()+"int main(void) { return 0"+sum.String()+"; }\n")
}

func TestCStringSaysTheText(t *testing.T) {
	var want, literals strings.Builder
	for _, text := range irtest.HostileTexts() {
		text = text[:min(len(text), 400)] // C99 promises no more than 4095 characters
		want.WriteString(prose.Line(text) + "\n")
		literals.WriteString("puts(" + cString(text) + ");\n")
	}
	program := build(t, "#include <stdio.h>\nint main(void)\n{\n"+literals.String()+"return 0;\n}\n")
	said, err := exec.Command(program).Output()
	require.NoError(t, err)
	assert.Equal(t, want.String(), string(said))
}

func TestCComment(t *testing.T) {
	assert.Equal(t, "  /* Short. */", cComment("  ", "Short."))
	assert.Equal(t, "/*\n * One.\n * Two.\n */", cComment("", "One.", "Two."))
	long := "word word word word word word word word word word word word word word word word word word word word"
	assert.Equal(t, "/*\n"+
		" * word word word word word word word word word word word word word word word word word word word\n"+
		" * word\n"+
		" */", cComment("", long))
}

// The types that the tests below use.
var (
	u64     = &ir.Type{Name: "uint64", Kind: ir.KindScalar, C: "uint64_t", Cgo: "uint64_t"}
	pointer = &ir.Type{Name: "pointer", Kind: ir.KindPointer, C: "void *", Cgo: "uintptr_t"}
	options = &ir.Type{Name: "options", Kind: ir.KindStruct, C: "x_options", Cgo: "x_options"}
)

func TestCParameters(t *testing.T) {
	tests := map[string]struct {
		params     []*ir.Param
		parameters string
		arguments  string
	}{
		"none":        {nil, "void", ""},
		"value":       {[]*ir.Param{{Name: "n", Type: u64, Role: ir.RoleValue}}, "uint64_t n", "n"},
		"address":     {[]*ir.Param{{Name: "p", Type: pointer, Role: ir.RoleValue}}, "void *p", "(uintptr_t)p"},
		"out":         {[]*ir.Param{{Name: "n", Type: u64, Role: ir.RoleOut}}, "uint64_t *n", "n"},
		"out address": {[]*ir.Param{{Name: "p", Type: pointer, Role: ir.RoleOut}}, "void **p", "(uintptr_t *)p"},
		"in":          {[]*ir.Param{{Name: "o", Type: options, Role: ir.RoleIn}}, "const x_options *o", "(x_options *)o"},
		"inout":       {[]*ir.Param{{Name: "o", Type: options, Role: ir.RoleInOut}}, "x_options *o", "o"},
		"two": {
			[]*ir.Param{{Name: "p", Type: pointer, Role: ir.RoleValue}, {Name: "n", Type: u64, Role: ir.RoleValue}},
			"void *p, uint64_t n", "(uintptr_t)p, n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.parameters, cParameters(test.params))
			assert.Equal(t, test.arguments, cArguments(test.params))
		})
	}
}

func TestCInitialiser(t *testing.T) {
	fields := []*ir.Field{{Name: "struct_size", Default: "sizeof(x)"}, {Name: "device", Default: "0"}}
	assert.Equal(t, `\
  { \
    sizeof(x), /* struct_size */ \
    0 /* device */ \
  }`, cInitialiser(fields))
}

func TestArticle(t *testing.T) {
	assert.Equal(t, "an arenagen_x", article("arenagen_x"))
	assert.Equal(t, "a mx_x", article("mx_x"))
}
