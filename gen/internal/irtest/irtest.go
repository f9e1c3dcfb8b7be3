// Package irtest helps the tests of what is rendered from a model.
package irtest

import (
	"reflect"
	"strings"

	"github.com/arenagen/arenagen/gen/internal/ir"
)

// HostileTexts are descriptions that mean something in Go, C, Python or Markdown, or to a tool that
// reads one of them, by what they are.
func HostileTexts() map[string]string {
	return map[string]string{
		"an export":              "//export x",
		"a line with an export":  "a\n//export x\nfunc init() { panic(1) }",
		"a Go directive":         "//go:build ignore\n\n//go:embed x",
		"an old constraint":      "a long line " + strings.Repeat("of words ", 12) + "+build ignore\n\n// +build ignore",
		"a line directive":       "/*line x.go:1*/ //line x.go:1",
		"the end of a comment":   "*/ int x; /*",
		"ends in each other":     "**//**/ /*/ nested */*/* ///",
		"a docstring's end":      `""" + str(1) + """ ''' "`,
		"quotes":                 `"a" 'b' "`,
		"backticks":              "`x` ``y`` ```\ncode\n```",
		"a format":               "%d %s %n %! 80%",
		"a backslash at the end": `a \`,
		"backslashes":            `\N{x} \x \u12 \n \\ \" \`,
		"line breaks":            "a\nb\r\nc\rd\v\fe\u0085f\u2028g\u2029h",
		"control characters":     "a\x00b\x01c\x1b[31md\x7fe\u202ef\u200bg\ufeffh",
		"not UTF-8":              "uno\xff\xfedue\xc3",
		"a long line":            strings.Repeat("x", 10_000),
		"many words":             strings.Repeat("word ", 2_000),
		"trigraphs":              "??/ ??) ??/\n ??' *??/",
		"HTML":                   "<script>alert(1)</script> <!-- --> &lt; <b> --> <br",
		"a table":                "a | b |\n|---|---|\n| c |",
		"links":                  "[x](y) ![x](y) <http://x> [x]: y\n\n[^1]: z",
		"emphasis":               "*a* **b** _c_ __d__ ~~e~~ $f$",
		"blocks":                 "# a\n## b #\n- c\n1. d\n> e\n\n    f\n===\n---",
		"a heading's end":        "C ##",
		"a macro":                "#define x y \\\n#include <x> ${prefix} $(x) \\#",
		"nothing":                "",
		"only spaces":            " \n\t ",
		"other alphabets":        "größer, 大, 🦫, e\u0301",
	}
}

// Describe gives everything in a model that has a text for people the same one.
func Describe(m *ir.Model, text string) {
	describe(reflect.ValueOf(m), text, map[any]bool{})
}

func describe(v reflect.Value, text string, seen map[any]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && !seen[v.Interface()] {
			seen[v.Interface()] = true
			describe(v.Elem(), text, seen)
		}
	case reflect.Slice:
		for i := range v.Len() {
			describe(v.Index(i), text, seen)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name == "Description" || name == "Title" {
				v.Field(i).SetString(text)
			} else {
				describe(v.Field(i), text, seen)
			}
		}
	}
}
