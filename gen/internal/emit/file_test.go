package emit

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/arenagen/arenagen/gen/internal/diag"
)

func TestFile_Origin(t *testing.T) {
	driver := diag.Pos{File: "spec/vmm.yaml", Line: 3, Column: 5}
	create := diag.Pos{File: "spec/vmm.yaml", Line: 40, Column: 7}
	file := File{
		Sources: []string{"spec/backends/stub.yaml", "spec/vmm.yaml"},
		Origins: []Origin{{Name: "Driver", Pos: driver}, {Name: "Driver.Create", Pos: create}},
	}
	tests := []struct {
		name string
		want diag.Pos
	}{
		{"Driver", driver},
		{"Driver.Create", create},
		{"Driver.Release", driver},
		{"Other", diag.Pos{File: "spec/backends/stub.yaml"}},
		{"Other.Create", diag.Pos{File: "spec/backends/stub.yaml"}},
		{"", diag.Pos{File: "spec/backends/stub.yaml"}},
	}
	for _, test := range tests {
		assert.Equal(t, test.want, file.Origin(test.name), test.name)
	}
}
