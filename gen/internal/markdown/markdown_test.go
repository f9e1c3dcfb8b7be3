package markdown

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestText(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"plain":                {"The handle, 100% of it.", "The handle, 100% of it."},
		"line breaks":          {"a\n\n# b\n- c", "a # b - c"},
		"HTML":                 {"<script> & <!-- -->", "&lt;script&gt; &amp; &lt;!-- --&gt;"},
		"a table":              {"a | b", `a \| b`},
		"emphasis":             {"major * 65536 *x*", `major \* 65536 \*x\*`},
		"a link":               {"[a, b) and [c](d)", `\[a, b) and \[c\](d)`},
		"code":                 {"`x` and \\`", "\\`x\\` and \\\\\\`"},
		"inside a word":        {"close_and_drain 1_2", "close_and_drain 1_2"},
		"around a word":        {"_x_ __y__ a_", `\_x\_ \_\_y\_\_ a\_`},
		"strike and formula":   {"~~a~~ $b$", `\~\~a\~\~ \$b\$`},
		"a heading":            {"# a", `\# a`},
		"a list":               {"- a", `\- a`},
		"another list":         {"+ a", `\+ a`},
		"a numbered list":      {"12. a", `12\. a`},
		"also a list":          {"1) a", `1\) a`},
		"a number":             {"12 a", "12 a"},
		"a rule":               {"=== a", `\=== a`},
		"the end of a heading": {"C ##", `C \##`},
		"empty":                {"", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, Text(tt.text))
		})
	}
}

func TestCode(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"a name":      {"arena_create", "`arena_create`"},
		"a pointer":   {"void *", "`void *`"},
		"a table":     {"a|b", "`a\\|b`"},
		"backticks":   {"a`b", "`` a`b ``"},
		"more":        {"a``b`", "``` a``b` ```"},
		"line breaks": {"a\nb", "`a b`"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, Code(tt.text))
		})
	}
}

func TestOneEmptyLine(t *testing.T) {
	assert.Equal(t, "a\nb\n\nc\n\nd\n", string(OneEmptyLine([]byte("\n\na\nb\n\nc\n\n\n\nd\n\n"))))
}

func TestBlock(t *testing.T) {
	assert.Equal(t, "```yaml\na: 1\nb: 2\n```", Block("yaml", "a: 1\nb: 2"))
	assert.Equal(t, "````go\n```\n````", Block("go", "```"))
}
