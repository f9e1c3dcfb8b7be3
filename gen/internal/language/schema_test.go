package language

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/gen/internal/emit"
)

// root is the project's.
const root = "../../.."

func TestSchemas(t *testing.T) {
	var paths []string
	for _, file := range Schemas() {
		paths = append(paths, file.Path)
		t.Run(file.Path, func(t *testing.T) {
			assert.True(t, emit.HasHeader(file.Content))
			assert.Contains(t, string(file.Content), emit.Notice(file.Sources...))
			assert.True(t, strings.HasPrefix(string(file.Content), "{\n  \"$schema\": \"http://json-schema.org/draft-07/schema#\",\n  \"$comment\": "))
			var schema map[string]any
			require.NoError(t, json.Unmarshal(file.Content, &schema))
			assertDescribed(t, "", schema)
		})
	}
	assert.ElementsMatch(t, []string{"spec/abi.schema.json", "spec/vmm.schema.json", "spec/backend.schema.json"}, paths)
}

// assertDescribed checks that each key of a mapping says what it means, at any depth.
func assertDescribed(t *testing.T, place string, value any) {
	t.Helper()
	schema, ok := value.(map[string]any)
	if !ok {
		return
	}
	properties, _ := schema["properties"].(map[string]any)
	for key, property := range properties {
		assert.NotEmpty(t, property.(map[string]any)["description"], "%s.%s has no description", place, key)
		assertDescribed(t, place+"."+key, property)
	}
	assertDescribed(t, place+"[]", schema["items"])
	assertDescribed(t, place+".NAME", schema["additionalProperties"])
}

func TestSchemasAreDeterministic(t *testing.T) {
	assert.Equal(t, Schemas(), Schemas())
}

// TestSpecsNameTheirSchema resolves what the first line of each spec says to editors.
func TestSpecsNameTheirSchema(t *testing.T) {
	wants := map[string]string{
		"spec/abi.yaml":               "spec/abi.schema.json",
		"spec/vmm.yaml":               "spec/vmm.schema.json",
		"spec/backends/*.yaml":        "spec/backend.schema.json",
		"gen/testdata/drivers/*.yaml": "spec/backend.schema.json",
	}
	var outputs []string
	for _, file := range Schemas() {
		outputs = append(outputs, file.Path)
	}
	for pattern, want := range wants {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, name := range names {
			content, err := os.ReadFile(name)
			require.NoError(t, err)
			first, _, _ := strings.Cut(string(content), "\n")
			reference, found := strings.CutPrefix(first, namesSchema)
			require.True(t, found, "%s names no schema", name)
			schema, err := filepath.Rel(root, path.Join(filepath.ToSlash(filepath.Dir(name)), reference))
			require.NoError(t, err)
			assert.Equal(t, want, filepath.ToSlash(schema), name)
			assert.Contains(t, outputs, filepath.ToSlash(schema), name)
		}
	}
}
