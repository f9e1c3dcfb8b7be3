package hostvmm_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/backends/kit/hostvmm"
)

// The spec of the stub backend lists the driver's results for everybody else.
func TestResultsAreThoseOfTheSpec(t *testing.T) {
	spec, err := os.ReadFile("../../../spec/backends/stub.yaml")
	require.NoError(t, err)
	listed := map[string]int{}
	for _, match := range regexp.MustCompile(`name: (HOSTVMM_\w+), value: (\d+)`).FindAllStringSubmatch(string(spec), -1) {
		listed[match[1]] = number(t, match[2])
	}

	known := map[string]int{}
	for _, r := range []hostvmm.Result{
		hostvmm.ErrorInvalidValue, hostvmm.ErrorOutOfMemory, hostvmm.ErrorNoDevice, hostvmm.ErrorInvalidDevice,
		hostvmm.ErrorOperatingSystem, hostvmm.ErrorDeviceLost, hostvmm.ErrorNotPermitted, hostvmm.ErrorNotSupported,
	} {
		known[r.String()] = int(r)
	}
	assert.Equal(t, listed, known)
}

func TestResultString(t *testing.T) {
	assert.Equal(t, "HOSTVMM_SUCCESS", hostvmm.Success.String())
	assert.Equal(t, "HOSTVMM_RESULT(-7)", hostvmm.Result(-7).String())
}
