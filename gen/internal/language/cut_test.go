package language

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	yamlText = `# The file.
functions:
  - name: open
    params:
      - {name: a}

  - name: open_all
    params: []
last: 1
`
	goText = `// T is a type.
type T struct {
	// A is a field.
	// It has two lines.
	A int
	B string
}

// M does it.
func (t *T) M() {
	if true {

		return
	}
}

func F() {}
`
	cText = `#ifdef X

/*
 * Opens.
 */
int x_open(void);

/* Numbers. */
typedef int x_number;
enum {
  X_ONE = 1,
};

int x_open(int a)
{
  int b;

  return b;
}
`
	pythonText = `class A(enum.IntEnum):
    """A."""

    ONE = 1


class B:
    pass
`
)

func TestCutEntry(t *testing.T) {
	tests := map[string]struct{ text, start, want string }{
		"an entry of a list":        {yamlText, "- name: open", "- name: open\n  params:\n    - {name: a}"},
		"a word that another holds": {yamlText, "- name: open_all", "- name: open_all\n  params: []"},
		"a key":                     {yamlText, "last", "last: 1"},
		"a list":                    {yamlText, "functions:", "functions:\n  - name: open\n    params:\n      - {name: a}\n\n  - name: open_all\n    params: []"},
		"a Go type":                 {goText, "type T", "// T is a type.\ntype T struct {\n\t// A is a field.\n\t// It has two lines.\n\tA int\n\tB string\n}"},
		"a field":                   {goText, "A int", "// A is a field.\n// It has two lines.\nA int"},
		"a Go method":               {goText, "func (t *T) M(", "// M does it.\nfunc (t *T) M() {\n\tif true {\n\n\t\treturn\n\t}\n}"},
		"a Go function in a line":   {goText, "func F", "func F() {}"},
		"a prototype":               {cText, "int x_open(void)", "/*\n * Opens.\n */\nint x_open(void);"},
		"a C function":              {cText, "int x_open(int", "int x_open(int a)\n{\n  int b;\n\n  return b;\n}"},
		"a Python class":            {pythonText, "class A", "class A(enum.IntEnum):\n    \"\"\"A.\"\"\"\n\n    ONE = 1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := cutEntry(tt.text, tt.start)
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestCutBlock(t *testing.T) {
	got, err := cutBlock(cText, "X_ONE")
	require.NoError(t, err)
	assert.Equal(t, "/* Numbers. */\ntypedef int x_number;\nenum {\n  X_ONE = 1,\n};", got)
	got, err = cutBlock("a", "a")
	require.NoError(t, err)
	assert.Equal(t, "a", got)
}

func TestCutNothing(t *testing.T) {
	for _, cut := range []func(text, start string) (string, error){cutEntry, cutBlock} {
		_, err := cut(yamlText, "- name: opne")
		require.EqualError(t, err, `no line begins with "- name: opne"`)
		_, err = cut(yamlText, "- name")
		require.EqualError(t, err, `the lines 3 and 7 begin with "- name", expected one`)
	}
}
