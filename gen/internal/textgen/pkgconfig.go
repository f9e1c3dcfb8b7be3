package textgen

import (
	"path"
	"strings"
	"text/template"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/prose"
)

// pkgConfigFile renders what pkg-config tells about a library.
func pkgConfigFile(m *ir.Model, l *ir.SharedLibrary) emit.File {
	data := struct {
		ABI     *ir.ABI
		Library *ir.SharedLibrary
	}{m.ABI, l}
	functions := template.FuncMap{"value": pkgConfigValue}
	return textFile(path.Join(l.Folder, l.Target+".pc"), "pkgconfig.tmpl", functions, data, append([]string{m.ABI.Pos.File}, l.Sources...)...)
}

// What means something in the value of a field.
var pkgConfigMarks = strings.NewReplacer("$", "$$", "#", `\#`)

// pkgConfigValue writes a text as a field's value.
func pkgConfigValue(text string) string { return pkgConfigMarks.Replace(prose.Line(text)) }
