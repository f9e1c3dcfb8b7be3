package textgen

import (
	"path"
	"strings"
	"text/template"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/prose"
)

// pkgConfigFiles renders what pkg-config tells about each backend's library.
func pkgConfigFiles(m *ir.Model) []emit.File {
	var files []emit.File
	functions := template.FuncMap{"value": pkgConfigValue}
	for _, l := range m.Libraries() {
		data := struct {
			ABI     *ir.ABI
			Library *ir.SharedLibrary
		}{m.ABI, l}
		files = append(files, textFile(path.Join(l.Folder, l.Target+".pc"), "pkgconfig.tmpl", functions, data, append([]string{specABI}, l.Sources...)...))
	}
	return files
}

// What means something in the value of a field.
var pkgConfigMarks = strings.NewReplacer("$", "$$", "#", `\#`)

// pkgConfigValue writes a text as a field's value.
func pkgConfigValue(text string) string { return pkgConfigMarks.Replace(prose.Line(text)) }
