package emit

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/gen/internal/diag"
)

const facts = `
enumerator ARENA_OK 0
struct arena_allocation size 24 align 8
field arena_allocation.address offset 0 uint64_t
function arena_close arena_handle -> arena_status
`

func TestCheckABI(t *testing.T) {
	tests := []struct {
		name   string
		before string
		after  string
		want   []string
	}{
		{name: "only comments and order", before: "abi arena 1.0" + facts, after: "# text\nabi arena 1.0\nfunction arena_close arena_handle -> arena_status\n" + facts},
		{name: "a new minor version", before: "abi arena 1.0" + facts, after: "abi arena 1.1" + facts},
		{name: "an addition with a new minor version", before: "abi arena 1.0" + facts, after: "abi arena 1.1" + facts + "enumerator ARENA_CLOSED 3\n"},
		{name: "anything with a new major version", before: "abi arena 1.7" + facts, after: "abi arena 2.0\nenumerator ARENA_OK 1\n"},
		{
			name: "an addition with the same version", before: "abi arena 1.0" + facts, after: "abi arena 1.0" + facts + "enumerator ARENA_CLOSED 3\n",
			want: []string{`spec/abi.yaml:9:3: ABI addition: "enumerator ARENA_CLOSED 3" is new: raise the minor version above 0`},
		},
		{
			name: "a change", before: "abi arena 1.0\nenumerator ARENA_CLOSED 3\n", after: "abi arena 1.1\nenumerator ARENA_CLOSED 4\n",
			want: []string{`spec/abi.yaml:9:3: ABI break: "enumerator ARENA_CLOSED 3" is now "enumerator ARENA_CLOSED 4": raise the major version above 1`},
		},
		{
			name: "removals", before: "abi arena 1.0" + facts, after: "abi arena 1.0\nenumerator ARENA_OK 0\nfunction arena_close arena_handle -> arena_status\n",
			want: []string{
				`spec/abi.yaml:20:3: ABI break: "field arena_allocation.address offset 0 uint64_t" is gone: raise the major version above 1`,
				`spec/abi.yaml:20:3: ABI break: "struct arena_allocation size 24 align 8" is gone: raise the major version above 1`,
			},
		},
		{
			name: "a removal without a known place", before: "abi arena 1.0\nfunction arena_gone void\n", after: "abi arena 1.0\n",
			want: []string{`spec/abi.yaml: ABI break: "function arena_gone void" is gone: raise the major version above 1`},
		},
		{
			name: "the minor version back", before: "abi arena 1.2" + facts, after: "abi arena 1.1" + facts,
			want: []string{`spec/abi.yaml: the ABI version went back from 1.2 to 1.1`},
		},
		{
			name: "the major version back", before: "abi arena 2.0" + facts, after: "abi arena 1.9",
			want: []string{`spec/abi.yaml: the ABI version went back from 2.0 to 1.9`},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			after := output("include/arena.abi", test.after)
			after.Origins = []Origin{
				{Name: "ARENA_CLOSED", Pos: diag.Pos{File: source, Line: 9, Column: 3}},
				{Name: "arena_allocation", Pos: diag.Pos{File: source, Line: 20, Column: 3}},
			}
			module := newModule(t, map[string]string{after.Path: Header(after.Path, source) + test.before})
			err := compare(t, module, after).CheckABI()
			if len(test.want) == 0 {
				require.NoError(t, err)
				return
			}
			var mistakes *diag.Error
			require.ErrorAs(t, err, &mistakes)
			var got []string
			for _, mistake := range mistakes.Diagnostics {
				got = append(got, mistake.String())
			}
			assert.Equal(t, test.want, got)
		})
	}
}

func TestCheckABI_comparesListingsOnly(t *testing.T) {
	module := newModule(t, map[string]string{"a.md": "abi arena 1.0\nfunction x\n"})
	plan := compare(t, module, output("a.md", "abi arena 1.0\n"), output("new.abi", "abi arena 0.1\n"))
	require.NoError(t, plan.CheckABI())
}

func TestCheckABI_noListing(t *testing.T) {
	tests := []struct{ name, before, after, want string }{
		{"nothing in the tree", "# text\n", "abi arena 1.0\n", "x.abi in the tree: an ABI listing without facts"},
		{"no version", "abi arena 1.0\n", "function x\n", `x.abi as rendered: an ABI listing begins with "abi name major.minor", not with "function x"`},
		{"half a version", "abi arena 1\n", "abi arena 1.0\n", `x.abi in the tree: an ABI listing begins with "abi name major.minor", not with "abi arena 1"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			plan := compare(t, newModule(t, map[string]string{"x.abi": test.before}), output("x.abi", test.after))
			require.EqualError(t, plan.CheckABI(), test.want)
		})
	}
}
