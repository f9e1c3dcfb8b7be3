package specfile

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/arenagen/arenagen/gen/internal/diag"
)

// The bounds of a text in bytes, and of each part of a version.
const (
	maxName    = 128
	maxText    = 1 << 16
	maxVersion = 0xffff
)

// The tags that the parser gives to plain values.
const (
	tagText    = "!!str"
	tagInteger = "!!int"
	tagBool    = "!!bool"
	tagNull    = "!!null"
	tagMerge   = "!!merge"
)

// errForm is the error of a value that has not the expected form when there is
// no more to say about it.
var errForm = errors.New("")

// scalar is a value with one of the tags, which parse reads. What says what is expected.
func scalar[V any](what string, schema Schema, parse func(text string) (V, error), tags ...string) shape[Scalar[V]] {
	return shape[Scalar[V]]{schema: schema, read: func(w *walker, label string, n *yaml.Node, into *Scalar[V]) {
		into.place(w.pos(n))
		if !w.is(n, yaml.ScalarNode, label, what) {
			return
		}
		if !slices.Contains(tags, n.Tag) {
			w.expected(n, label, what, "")
			return
		}
		v, err := parse(n.Value)
		switch {
		case errors.Is(err, errForm):
			w.expected(n, label, what, "")
			return
		case err != nil:
			w.expected(n, label, what, ": "+err.Error())
			return
		}
		into.Value, into.Valid = v, true
	}}
}

// pattern is a text that matches an expression.
func pattern(expression, what string) shape[Text] {
	compiled := regexp.MustCompile(expression)
	schema := Schema{Types: []string{"string"}, Pattern: expression, MaxLength: maxName}
	return scalar(what, schema, func(text string) (string, error) {
		switch {
		case len(text) > maxName:
			return "", fmt.Errorf("it has %d bytes, expected at most %d", len(text), maxName)
		case !compiled.MatchString(text):
			return "", errForm
		}
		return text, nil
	}, tagText)
}

// anyText is a text of any form.
var anyText = scalar("a text", Schema{Types: []string{"string"}},
	func(text string) (string, error) { return text, nil }, tagText)

// choice is one of a few words.
func choice(words ...string) shape[Text] {
	return shape[Text]{schema: Schema{Enum: words}, read: func(w *walker, label string, n *yaml.Node, into *Text) {
		what := "one of " + strings.Join(words, ", ")
		anyText.read(w, label, n, into)
		if into.Valid && !slices.Contains(words, into.Value) {
			w.expected(n, label, what, diag.DidYouMean(into.Value, words))
			into.Value, into.Valid = "", false
		}
	}}
}

// prose is a text for people. It is data: what renders it sees to it that it stays a comment.
var prose = scalar("a text", Schema{Types: []string{"string"}, MinLength: 1, MaxLength: maxText},
	func(text string) (string, error) {
		text = strings.TrimSpace(text)
		if text == "" {
			return "", errors.New("it is empty")
		}
		return text, nil
	}, tagText)

// integer is a whole number between two bounds.
func integer(minimum, maximum int64) shape[Integer] {
	schema := Schema{Types: []string{"integer"}, Minimum: &minimum, Maximum: &maximum}
	what := fmt.Sprintf("a whole number from %d to %d", minimum, maximum)
	return scalar(what, schema, func(text string) (int64, error) {
		n, err := ParseInteger(text)
		if err == nil && (n < minimum || n > maximum) {
			err = errForm
		}
		return n, err
	}, tagInteger)
}

// size is a number of bytes, or of other things.
var size = scalar("a size such as 65536 or 64KiB",
	Schema{Types: []string{"integer", "string"}, Pattern: `^(0x[0-9a-fA-F]+|[0-9]+)([KMGTPE]iB)?$`},
	ParseSize, tagInteger, tagText)

// boolean is true or false.
var boolean = scalar("true or false", Schema{Types: []string{"boolean"}}, strconv.ParseBool, tagBool)

// literal is a number, a word or null.
var literal = shape[Literal]{
	schema: Schema{Types: []string{"integer", "string", "null"}, MinLength: 1, MaxLength: maxName},
	read: func(w *walker, label string, n *yaml.Node, into *Literal) {
		literalText.read(w, label, n, &into.Text)
		if into.Valid && n.Tag == tagNull {
			into.Value, into.Null = "", true
		}
	},
}

var literalText = scalar("a number, a word or null", Schema{}, func(text string) (string, error) {
	if len(text) > maxName {
		return "", fmt.Errorf("it has %d bytes, expected at most %d", len(text), maxName)
	}
	return text, nil
}, tagInteger, tagText, tagNull)

// setting is the value of a quirk.
var setting = scalar("a size such as 64KiB, or true or false",
	Schema{Types: []string{"integer", "string", "boolean"}},
	func(text string) (string, error) { return text, nil }, tagInteger, tagText, tagBool)

// versionNumber is a version in quotes, which would be a number without them.
var versionNumber = version(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$`, `a version in quotes such as "1.0"`)

// driverVersion is a version of a driver, which can have a patch.
var driverVersion = version(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*))?$`, `a version in quotes such as "10.2"`)

// version is a version of two or three parts that matches an expression.
func version(expression, what string) shape[Scalar[VersionNumber]] {
	compiled := regexp.MustCompile(expression)
	schema := Schema{Types: []string{"string"}, Pattern: expression, MaxLength: maxName}
	return scalar(what, schema, func(text string) (VersionNumber, error) {
		if !compiled.MatchString(text) {
			return VersionNumber{}, errForm
		}
		var parts [3]int64
		for i, part := range strings.Split(text, ".") {
			n, err := ParseInteger(part)
			if err != nil || n > maxVersion {
				return VersionNumber{}, errForm
			}
			parts[i] = n
		}
		return VersionNumber{parts[0], parts[1], parts[2]}, nil
	}, tagText)
}
