package specfile_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/gen/internal/specfile"
)

func schemas() map[string]specfile.Schema {
	return map[string]specfile.Schema{
		"abi":     specfile.ABIFormat.Schema(),
		"vmm":     specfile.ContractFormat.Schema(),
		"backend": specfile.BackendFormat.Schema(),
	}
}

// TestSchemaDescribesEveryKey walks all keys of all mappings.
func TestSchemaDescribesEveryKey(t *testing.T) {
	for name, schema := range schemas() {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, "http://json-schema.org/draft-07/schema#", schema.Dialect)
			assert.NotEmpty(t, schema.Title)
			checkSchema(t, name, schema)
		})
	}
}

func checkSchema(t *testing.T, path string, s specfile.Schema) {
	t.Helper()
	for key, property := range s.Properties {
		assert.NotEmpty(t, property.Description, "%s.%s has no description", path, key)
		checkSchema(t, path+"."+key, property)
	}
	for _, key := range s.Required {
		assert.Contains(t, s.Properties, key, "%s requires a key that it does not have", path)
	}
	if s.Properties != nil {
		assert.Equal(t, false, s.AdditionalProperties, "%s has other keys", path)
	}
	if s.Items != nil {
		checkSchema(t, path+"[]", *s.Items)
	}
	if values, ok := s.AdditionalProperties.(*specfile.Schema); ok {
		checkSchema(t, path+"{}", *values)
	}
}

func TestSchemaIsJSON(t *testing.T) {
	schema := specfile.ContractFormat.Schema()
	text, err := json.Marshal(schema.Properties["capabilities"])
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"description": "What an arena may rely on; every backend states each.",
		"type": ["array"],
		"minItems": 1,
		"items": {
			"type": ["object"],
			"additionalProperties": false,
			"required": ["name", "description"],
			"properties": {
				"name": {
					"description": "Its name.",
					"type": ["string"],
					"pattern": "^[a-z][a-z0-9]*(_[a-z0-9]+)*$",
					"maxLength": 128
				},
				"description": {
					"description": "What holds when a backend has it.",
					"type": ["string"],
					"minLength": 1,
					"maxLength": 65536
				}
			}
		}
	}`, string(text))
}
