package language

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/arenagen/arenagen/gen/internal/markdown"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// A table lists the keys of a mapping.
type table struct {
	Places []string // where the mapping stands: "functions[].params[]", "" for the whole file
	Keys   []key
	schema specfile.Schema
}

// A key is a row of a table, as Markdown but for its name.
type key struct {
	Name     string
	Required bool
	Takes    string
	Meaning  string
}

// tablesOf lists the mappings of a kind of file, each before those inside it. Mappings that are
// alike share a table.
func tablesOf(schema specfile.Schema) []table {
	var found []table
	collect("", schema, &found)
	return found
}

func collect(place string, schema specfile.Schema, found *[]table) {
	schema.Description = "" // of the key that has the mapping
	switch values, free := schema.AdditionalProperties.(*specfile.Schema); {
	case schema.Items != nil:
		collect(place+"[]", *schema.Items, found)
	case free:
		collect(place+".NAME", *values, found)
	case schema.Properties == nil:
	case !shared(place, schema, *found):
		*found = append(*found, table{Places: []string{place}, Keys: keysOf(schema), schema: schema})
		for _, name := range names(schema) {
			collect(strings.TrimPrefix(place+"."+name, "."), schema.Properties[name], found)
		}
	}
}

// shared adds a place to the table of a mapping that is alike, if there is one.
func shared(place string, schema specfile.Schema, found []table) bool {
	i := slices.IndexFunc(found, func(t table) bool { return reflect.DeepEqual(t.schema, schema) })
	if i < 0 {
		return false
	}
	found[i].Places = append(found[i].Places, place)
	return true
}

// names are the keys of a mapping: the required ones as the loader has them, then the others.
func names(schema specfile.Schema) []string {
	optional := slices.DeleteFunc(slices.Sorted(maps.Keys(schema.Properties)), func(name string) bool {
		return slices.Contains(schema.Required, name)
	})
	return slices.Concat(schema.Required, optional)
}

func keysOf(schema specfile.Schema) []key {
	var keys []key
	for _, name := range names(schema) {
		value := schema.Properties[name]
		keys = append(keys, key{
			Name:     name,
			Required: slices.Contains(schema.Required, name),
			Takes:    takes(value),
			Meaning:  markdown.Text(value.Description),
		})
	}
	return keys
}

// takes says what a value can be.
func takes(s specfile.Schema) string {
	switch values, free := s.AdditionalProperties.(*specfile.Schema); {
	case len(s.Enum) > 0:
		return oneOf(s.Enum)
	case s.Items != nil && s.Items.Properties != nil:
		return "a list of mappings"
	case s.Items != nil:
		return "a list, each " + takes(*s.Items)
	case free:
		return "names, each with " + takes(*values)
	case s.Pattern != "":
		return form(s.Pattern)
	case s.Minimum != nil && s.Maximum != nil:
		return between(*s.Minimum, *s.Maximum)
	default:
		return typeWords(s.Types)
	}
}

func between(minimum, maximum int64) string {
	if minimum == math.MinInt32 && maximum == math.MaxInt32 {
		return "a number of 32 bits"
	}
	return fmt.Sprintf("a number from %d to %d", minimum, maximum)
}

// oneOf lists words as code.
func oneOf(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = markdown.Code(word)
	}
	return strings.Join(quoted, ", ")
}

// words are what the types of JSON Schema are called here.
var words = map[string]string{
	"boolean": "`true` or `false`",
	"integer": "a number",
	"null":    "`null`",
	"object":  "a mapping",
	"string":  "a text",
}

func typeWords(types []string) string {
	said := make([]string, len(types))
	for i, t := range types {
		said[i] = words[t]
	}
	return strings.Join(said, " or ")
}

// forms says what texts that match an expression are called in the manual.
var forms = map[string]string{
	`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`: "a path",
	`^[a-z][a-z0-9]*$`:                                             "a word",
	`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`:                                "a name",
	`^[A-Za-z_][A-Za-z0-9_]*$`:                                     "an identifier",
	`^([a-z][a-z0-9]*\.)?[A-Za-z_][A-Za-z0-9_]*$`:                  "a type",
	`^[a-z][a-z0-9]*(_[a-z0-9]+)*(\.[A-Za-z_][A-Za-z0-9_]*){0,2}$`: "a role",
	`^[A-Za-z_][A-Za-z0-9_]*( [A-Za-z_][A-Za-z0-9_]*)*( \*)?$`:     "a type",
	`^[A-Za-z0-9_][A-Za-z0-9_.+-]*\.so(\.[0-9]+)*$`:                "the name of a library",
	`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`:                                "the name of a variable",
	`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*\.h$`:                      "the name of a header",
	`^[a-z0-9][a-z0-9.+-]+$`:                                       "the name of a package",
	`^state\.[a-z][a-z0-9]*(_[a-z0-9]+)*$`:                         "`state.NAME`",
	`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*))?$`:       "a version",
	`^[a-z][a-z0-9]*(_[a-z0-9]+)+$`:                                "a symbol",
	`^[a-z0-9][a-z0-9.-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)+$`:          "an import path",
	`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$`:                           "a version",
	`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$`:          "a release",
	`^(0x[0-9a-fA-F]+|[0-9]+)([KMGTPE]iB)?$`:                       "a size",
}

// form is what the texts that match an expression are called, or the expression itself.
func form(pattern string) string {
	if said, ok := forms[pattern]; ok {
		return said
	}
	return "a text of the form " + markdown.Code(pattern)
}
