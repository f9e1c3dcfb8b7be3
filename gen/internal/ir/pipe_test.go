package ir_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/gen/internal/ir"
)

// A named pipe would make a loader that opens it wait for ever.
func TestANamedPipeIsNotRead(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(folder, tiny(t)))
	require.NoError(t, syscall.Mkfifo(filepath.Join(folder, "spec/backends/pipe.yaml"), 0o600))
	_, err := ir.Load(folder)
	assert.ErrorContains(t, err, "read spec/backends/pipe.yaml: it is no regular file")
}
