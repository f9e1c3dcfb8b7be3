package textgen

import (
	"fmt"
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
	for _, b := range m.Backends {
		place := path.Join(libraryFolder(m, b), fmt.Sprintf("%s_%s.pc", m.ABI.Name, b.Name))
		data := struct {
			ABI     *ir.ABI
			Backend *ir.Backend
		}{m.ABI, b}
		files = append(files, textFile(place, "pkgconfig.tmpl", functions, data, specABI, b.File))
	}
	return files
}

// What means something in the value of a field.
var pkgConfigMarks = strings.NewReplacer("$", "$$", "#", `\#`)

// pkgConfigValue writes a text as a field's value.
func pkgConfigValue(text string) string { return pkgConfigMarks.Replace(prose.Line(text)) }
