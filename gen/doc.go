// Package gen is the folder of the generator: what turns the specs below spec/ into
// code. It has no code of its own.
//
// Each room knows as little as it can:
//
//	cmd/arenagen        the command; it joins the rooms
//	internal/diag       a position, a message, a sorted list of them
//	internal/specfile   YAML to declarations, strictly; the only room that knows YAML
//	internal/ir         declarations to the model: names, types and layouts resolved
//	internal/gogen      model to Go; the only room that knows jennifer
//	internal/textgen    model to everything else, with templates
//	internal/language   the loader's tables to JSON Schemas and the manual of the specs
//	internal/prose      descriptions as text for people
//	internal/markdown   texts that mean nothing in Markdown but what they say
//	internal/emit       rendered files to the tree: header, format, compare, write
//	internal/conform    do the rendered files compile, before they are written
//
// Imports run one way: specfile and ir use diag; gogen and textgen use ir, language uses
// specfile, and all three use emit for what a file is; conform uses emit. Nothing here
// imports the arena, a backend, or anything that is generated, so the generator builds
// and runs while those are broken or missing. It meets them only through the files that
// it writes.
//
// One directive writes every output, so their order does not matter.
//
//go:generate go run ./cmd/arenagen generate --root ..
package gen
