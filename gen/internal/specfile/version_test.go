package specfile_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/arenagen/arenagen/gen/internal/specfile"
)

func TestVersionNumbersAreOrderedByTheirParts(t *testing.T) {
	ordered := []specfile.VersionNumber{
		{Major: 9, Minor: 10}, {Major: 10, Minor: 2}, {Major: 10, Minor: 2, Patch: 1}, {Major: 10, Minor: 10}, {Major: 12},
	}
	for i, a := range ordered {
		for j, b := range ordered {
			assert.Equal(t, i < j, a.Compare(b) < 0, "%s and %s", a, b)
			assert.Equal(t, i == j, a.Compare(b) == 0, "%s and %s", a, b)
		}
	}
}

func TestVersionNumbersAsText(t *testing.T) {
	assert.Equal(t, "10.2", specfile.VersionNumber{Major: 10, Minor: 2}.String())
	assert.Equal(t, "6.4.43484", specfile.VersionNumber{Major: 6, Minor: 4, Patch: 43484}.String())
}
