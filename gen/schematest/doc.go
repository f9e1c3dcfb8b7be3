// Package schematest checks what the generator writes with tools of others: the JSON Schemas with
// a validator, and the pages with a parser of Markdown. It is a module of its own, so that the
// generator does not depend on them. It holds tests only.
package schematest
