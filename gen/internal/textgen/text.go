package textgen

import (
	"maps"
	"text/template"

	"github.com/arenagen/arenagen/gen/internal/emit"
)

// textFile renders an output from a template, to which "header" is its header.
func textFile(place, name string, functions template.FuncMap, data any, sources ...string) emit.File {
	all := template.FuncMap{"header": func() string { return emit.Header(place, sources...) }}
	maps.Copy(all, functions)
	return emit.File{Path: place, Content: render(name, all, data), Sources: sources}
}
