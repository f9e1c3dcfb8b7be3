package language

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// Schemas renders the JSON Schemas. A spec names its own in its first line:
//
//	# yaml-language-server: $schema=./abi.schema.json
func Schemas() []emit.File {
	var files []emit.File
	for _, k := range kinds() {
		files = append(files, emit.File{
			Path:    fmt.Sprintf("spec/%s.schema.json", k.Name),
			Content: document(k.Schema),
			Sources: []string{tables},
		})
	}
	return files
}

// document writes a schema as a file, with its header below the name of the dialect.
func document(schema specfile.Schema) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(struct {
		Dialect string `json:"$schema"` // in front of the schema's own
		Comment string `json:"$comment"`
		specfile.Schema
	}{schema.Dialect, emit.Notice(tables), schema})
	if err != nil {
		panic(fmt.Sprintf("the schema %q cannot be written: %v", schema.Title, err))
	}
	return b.Bytes()
}
