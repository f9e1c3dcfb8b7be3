package diag_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/gen/internal/diag"
)

func TestPos(t *testing.T) {
	tests := []struct {
		pos  diag.Pos
		want string
	}{
		{diag.Pos{File: "a.yaml"}, "a.yaml"},
		{diag.Pos{File: "a.yaml", Line: 3}, "a.yaml:3"},
		{diag.Pos{File: "a.yaml", Line: 3, Column: 7}, "a.yaml:3:7"},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, tt.pos.String())
	}
}

func at(file string, line, column int) diag.Pos {
	return diag.Pos{File: file, Line: line, Column: column}
}

func TestListIsSortedAndHasNothingTwice(t *testing.T) {
	var l diag.List
	assert.True(t, l.Empty())
	require.NoError(t, l.Err())
	l.Add(at("b", 1, 1), "one")
	l.Add(at("a", 10, 1), "two")
	l.Add(at("a", 9, 2), "three")
	l.Add(at("a", 9, 1), "%s", "zebra")
	l.AddRelated(at("a", 9, 1), at("a", 2, 3), "first here", "ant %d", 4)
	l.Add(at("a", 9, 2), "three")
	assert.False(t, l.Empty())
	assert.EqualError(t, l.Err(), strings.Join([]string{
		"a:9:1: ant 4",
		"\ta:2:3: first here",
		"a:9:1: zebra",
		"a:9:2: three",
		"a:10:1: two",
		"b:1:1: one",
	}, "\n"))
}

func TestListIsBounded(t *testing.T) {
	var l diag.List
	for i := range diag.MaxMistakes + 7 {
		l.Add(at("a", i+1, 1), "wrong")
	}
	var err *diag.Error
	require.ErrorAs(t, l.Err(), &err)
	assert.Len(t, err.Diagnostics, diag.MaxMistakes)
	assert.Equal(t, 7, err.More)
	assert.True(t, strings.HasSuffix(err.Error(), "\nand 7 more mistakes"))
}

func TestNearest(t *testing.T) {
	known := []string{"name", "type", "role", "description", "count", "uint32", "uint64", "x", "release_while_mapped"}
	tests := []struct {
		name string
		want string
	}{
		{"anme", "name"},              // swapped
		{"tpe", "type"},               // left out
		{"roles", "role"},             // added
		{"cound", "count"},            // changed
		{"descriptin", "description"}, // of a long word
		{"descrptoin", "description"}, // two slips
		{"uint23", "uint32"},          // nearer than uint64
		{"uint3", "uint32"},           // the first of equals
		{"release_while_mapped", "release_while_mapped"},
		{"relase_wile_maped", "release_while_mapped"},
		{"nmaee", ""}, // two slips in a short word
		{"z", ""},     // a word of one letter has no slips
		{"", ""},
		{"something", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, diag.Nearest(tt.name, known))
		})
	}
}

func TestNearestOfTooMany(t *testing.T) {
	var known []string
	for i := range 1000 {
		known = append(known, fmt.Sprintf("name%d", i))
	}
	assert.Equal(t, "name5", diag.Nearest("nmae5", known[:100]))
	assert.Empty(t, diag.Nearest("nmae5", known))
}

func TestHints(t *testing.T) {
	many := strings.Fields(strings.Repeat("word ", 33))
	assert.Equal(t, `; did you mean "type"?`, diag.DidYouMean("tpye", []string{"name", "type"}))
	assert.Empty(t, diag.DidYouMean("colour", []string{"name", "type"}))
	assert.Equal(t, `; did you mean "type"?`, diag.Expected("tpye", []string{"name", "type"}))
	assert.Equal(t, ", expected one of name, type", diag.Expected("colour", []string{"name", "type"}))
	assert.Equal(t, ", expected one of 33 others", diag.Expected("colour", many))
	assert.Equal(t, ", expected none", diag.Expected("colour", nil))
}
