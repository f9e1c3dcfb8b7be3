package schematest

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// What a value is replaced by, one after the other: values of other kinds, and for a plain one also
// others that are plain.
var (
	kinds = []string{"~", "true", "7", "1.5", "word", "[]", "{}", "[word]", "{word: 7}"}
	plain = []string{
		"-1", "1.0", "010", "2026-01-01", "9223372036854775808", "10GiB", "Two Words", `""`, `"  "`, `"a\u202eb"`,
		"!!str word", "&word word", strings.Repeat("x", 129), strings.Repeat("ä", 100),
	}
)

// TestMutants changes specs that load, one node at a time: loader and schema agree on each. The
// cases have every key of the language.
func TestMutants(t *testing.T) {
	for _, name := range []string{"model.txtar", "library.txtar"} {
		files := specsOf(t, filepath.Join(root, "gen/testdata", name))
		for path := range files {
			t.Run(name+"/"+path, func(t *testing.T) { testMutants(t, overlay(t, files), path) })
		}
	}
}

// testMutants changes one file of specs that load.
func testMutants(t *testing.T, files fstest.MapFS, path string) {
	t.Helper()
	require.True(t, loads(files))
	k := kindAt(t, path)
	var document yaml.Node
	require.NoError(t, yaml.Unmarshal(files[path].Data, &document))
	m := mutator{seen: map[string]bool{}, try: func() {
		mutant, err := yaml.Marshal(&document)
		require.NoError(t, err)
		assertAgreement(t, k, string(mutant), func() bool {
			mutated := maps.Clone(files)
			mutated[path] = &fstest.MapFile{Data: mutant}
			return loads(mutated)
		})
	}}
	m.mutate(document.Content[0], "", k.shape)
}

// A mutator changes a node in each way, calls try, and changes it back.
type mutator struct {
	seen map[string]bool // the places that are done: what has the same place has the same shape
	try  func()
}

// mutate changes each node inside a mapping or list of some shape.
func (m mutator) mutate(n *yaml.Node, place string, shape specfile.Schema) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			inner, innerShape := below(place, shape, key.Value)
			if m.first(inner) {
				m.drop(n, i, 2)
				m.rename(key)
				m.replace(value)
			}
			m.mutate(value, inner, innerShape)
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			if m.first(place + "[]") {
				m.drop(n, i, 1)
				m.replace(item)
			}
			m.mutate(item, place+"[]", *shape.Items)
		}
	}
}

// below is the place and the shape of the value of a key.
func below(place string, shape specfile.Schema, key string) (string, specfile.Schema) {
	if values, free := shape.AdditionalProperties.(*specfile.Schema); free {
		return place + ".NAME", *values
	}
	return place + "." + key, shape.Properties[key]
}

// first tells whether a place is new.
func (m mutator) first(place string) bool {
	if m.seen[place] {
		return false
	}
	m.seen[place] = true
	return true
}

func (m mutator) drop(n *yaml.Node, at, count int) {
	whole := n.Content
	n.Content = append(append([]*yaml.Node{}, whole[:at]...), whole[at+count:]...)
	m.try()
	n.Content = whole
}

func (m mutator) rename(key *yaml.Node) {
	name := key.Value
	key.Value = "x" + name
	m.try()
	key.Value = name
}

func (m mutator) replace(n *yaml.Node) {
	strangers := kinds
	if n.Kind == yaml.ScalarNode {
		strangers = slices.Concat(kinds, plain)
	}
	original := *n
	for _, stranger := range strangers {
		var document yaml.Node
		if err := yaml.Unmarshal([]byte(stranger), &document); err != nil {
			panic(err) // the lists above are wrong
		}
		*n = *document.Content[0]
		m.try()
	}
	*n = original
}
