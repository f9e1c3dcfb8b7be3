package language

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// small is a schema with a mapping that stands in two places.
func small() specfile.Schema {
	text := func(description string) specfile.Schema {
		return specfile.Schema{Types: []string{"string"}, Description: description}
	}
	point := specfile.Schema{
		Types:                []string{"object"},
		Properties:           map[string]specfile.Schema{"y": text("Down."), "x": text("Right | or not.")},
		Required:             []string{"y"},
		AdditionalProperties: false,
	}
	described := point
	described.Description = "One."
	return specfile.Schema{
		Types: []string{"object"},
		Properties: map[string]specfile.Schema{
			"points": {Types: []string{"array"}, Items: &point},
			"named":  {Types: []string{"object"}, AdditionalProperties: &point},
			"one":    described,
			"abc":    text("A text."),
		},
		Required: []string{"points", "abc"},
	}
}

func TestTablesOf(t *testing.T) {
	tables := tablesOf(small())
	require.Len(t, tables, 2)
	assert.Equal(t, []string{""}, tables[0].Places)
	assert.Equal(t, []key{
		{Name: "points", Required: true, Takes: "a list of mappings"},
		{Name: "abc", Required: true, Takes: "a text", Meaning: "A text."},
		{Name: "named", Takes: "names, each with a mapping"},
		{Name: "one", Takes: "a mapping", Meaning: "One."},
	}, tables[0].Keys)
	assert.Equal(t, []string{"points[]", "named.NAME", "one"}, tables[1].Places)
	assert.Equal(t, []key{
		{Name: "y", Required: true, Takes: "a text", Meaning: "Down."},
		{Name: "x", Takes: "a text", Meaning: `Right \| or not.`},
	}, tables[1].Keys)
}

func TestTakes(t *testing.T) {
	bounds := func(minimum, maximum int64) specfile.Schema {
		return specfile.Schema{Types: []string{"integer"}, Minimum: &minimum, Maximum: &maximum}
	}
	name := specfile.Schema{Types: []string{"string"}, Pattern: `^[a-z][a-z0-9]*(_[a-z0-9]+)*$`}
	tests := map[string]struct {
		schema specfile.Schema
		want   string
	}{
		"words":             {specfile.Schema{Enum: []string{"c", "go"}}, "`c`, `go`"},
		"a truth value":     {specfile.Schema{Types: []string{"boolean"}}, "`true` or `false`"},
		"a number":          {bounds(1, 9), "a number from 1 to 9"},
		"a 32-bit number":   {bounds(-1<<31, 1<<31-1), "a number of 32 bits"},
		"several":           {specfile.Schema{Types: []string{"integer", "string", "null"}}, "a number or a text or `null`"},
		"a known form":      {name, "a name"},
		"an unknown form":   {specfile.Schema{Types: []string{"string"}, Pattern: "^a|b$"}, "a text of the form `^a\\|b$`"},
		"a list":            {specfile.Schema{Items: &name}, "a list, each a name"},
		"names and numbers": {specfile.Schema{AdditionalProperties: &specfile.Schema{Types: []string{"integer"}}}, "names, each with a number"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, takes(tt.schema))
		})
	}
}

// TestForms sees to it that the manual has words for the expressions that there are, and for no others.
func TestForms(t *testing.T) {
	used := map[string]bool{}
	for _, k := range kinds() {
		walk(k.Schema, func(s specfile.Schema) {
			if s.Pattern != "" {
				used[s.Pattern] = true
				assert.Contains(t, forms, s.Pattern)
			}
		})
	}
	for pattern := range forms {
		assert.True(t, used[pattern], "no value has the form %s", pattern)
	}
}

// walk visits a schema and all inside it.
func walk(s specfile.Schema, visit func(specfile.Schema)) {
	visit(s)
	for _, property := range s.Properties {
		walk(property, visit)
	}
	if s.Items != nil {
		walk(*s.Items, visit)
	}
	if values, free := s.AdditionalProperties.(*specfile.Schema); free {
		walk(*values, visit)
	}
}
