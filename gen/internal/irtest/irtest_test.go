package irtest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/gen/internal/ir"
)

func TestDescribe(t *testing.T) {
	model, err := ir.Load("../../..")
	require.NoError(t, err)
	before := dump(t, model)
	Describe(model, "What it is.")
	after := dump(t, model)
	assert.Positive(t, described(t, before, after))
}

func dump(t *testing.T, model *ir.Model) (dumped any) {
	t.Helper()
	text, err := json.Marshal(model)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &dumped))
	return dumped
}

// described counts the texts that changed, and sees that nothing else did.
func described(t *testing.T, before, after any) (count int) {
	t.Helper()
	switch after := after.(type) {
	case map[string]any:
		before := before.(map[string]any)
		require.Len(t, after, len(before))
		for key, value := range after {
			if key == "Description" || key == "Title" {
				assert.Equal(t, "What it is.", value)
				count++
			} else {
				count += described(t, before[key], value)
			}
		}
	case []any:
		for i, value := range after {
			count += described(t, before.([]any)[i], value)
		}
	default:
		assert.Equal(t, before, after)
	}
	return count
}
