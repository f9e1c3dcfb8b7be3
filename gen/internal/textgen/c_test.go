package textgen

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/prose"
)

// hostile are descriptions that mean something in C, Go, Python or Markdown.
var hostile = []string{
	"*/ int x; /*",
	"**//**/ /*/ nested",
	"//export x",
	"a line\nand another\r\nand a third",
	"a backslash at the end \\",
	"%d %s %n",
	"trigraphs ??/ ??)",
	"`backticks` and \"quotes\" and 'quotes'",
	"\x00 \x1b[31m \u202e",
	"wörter, 語, 🦫",
}

func TestCCommentIsAComment(t *testing.T) {
	for _, text := range hostile {
		for _, comment := range []string{cComment("", text), cComment("  ", text, text)} {
			source := comment + "\nint main(void) { return 0; }\n"
			file := filepath.Join(t.TempDir(), "comment.c")
			require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
			out, err := exec.Command("gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", file).CombinedOutput()
			assert.NoError(t, err, "%s\n%s", source, out)
		}
	}
}

func TestCStringSaysTheText(t *testing.T) {
	for _, text := range hostile {
		source := "#include <stdio.h>\nint main(void) { fputs(" + cString(text) + ", stdout); return 0; }\n"
		folder := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(folder, "string.c"), []byte(source), 0o600))
		build := exec.Command("gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-trigraphs", "-o", "string", "string.c")
		build.Dir = folder
		out, err := build.CombinedOutput()
		require.NoError(t, err, "%s\n%s", source, out)
		said, err := exec.Command(filepath.Join(folder, "string")).Output()
		require.NoError(t, err)
		assert.Equal(t, prose.Line(text), string(said))
	}
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
