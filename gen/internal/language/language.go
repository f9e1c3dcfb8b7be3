// Package language renders what describes the language of the specs itself: a JSON Schema for
// each kind of spec file, which editors complete and check with, and the manual. Both follow
// from the tables that the loader reads files by, so they cannot disagree with it.
//
// It stands beside package textgen, not in it: nothing here depends on what a spec says, only on
// what one can say. The manual also quotes specs and outputs, so it is rendered after them.
package language

import "github.com/arenagen/arenagen/gen/internal/specfile"

// tables is where the language is defined, below the root.
const tables = "gen/internal/specfile"

// A kind is one kind of spec file.
type kind struct {
	Name   string // abi: its schema is spec/abi.schema.json
	Files  string // which files are of this kind
	Schema specfile.Schema
}

// kinds are all of them, in the order in which a reader meets them.
func kinds() []kind {
	return []kind{
		{"vmm", "spec/vmm.yaml", specfile.ContractFormat.Schema()},
		{"backend", "spec/backends/NAME.yaml", specfile.BackendFormat.Schema()},
		{"abi", "spec/abi.yaml", specfile.ABIFormat.Schema()},
	}
}
