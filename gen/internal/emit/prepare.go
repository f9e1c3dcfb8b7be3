package emit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/scanner"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/imports"
)

// Prepare makes rendered files ready to be written: sorted by path, Go
// formatted and its imports grouped. It refuses files that a renderer must not
// make: outside the root, twice, or without their header. files stays as it is.
func (m Module) Prepare(files []File) ([]File, error) {
	prepared := slices.Clone(files)
	slices.SortFunc(prepared, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	for i, file := range prepared {
		if i > 0 && prepared[i-1].Path == file.Path {
			return nil, fmt.Errorf("%s: rendered twice", file.Path)
		}
		if err := check(file); err != nil {
			return nil, err
		}
		if !isGo(file.Path) {
			continue
		}
		content, err := formatGo(file.Path, file.Content, m.Path)
		if err != nil {
			return nil, err
		}
		prepared[i].Content = content
	}
	return prepared, nil
}

func check(file File) error {
	switch {
	case !filepath.IsLocal(filepath.FromSlash(file.Path)) || path.Clean(file.Path) != file.Path:
		return fmt.Errorf("%q: the path of an output is clean and below the root", file.Path)
	case !HasHeader(file.Content) || !bytes.Contains(file.Content, []byte(Notice(file.Sources...))):
		return fmt.Errorf("%s: rendered without its header, %q", file.Path, Notice(file.Sources...))
	default:
		return nil
	}
}

func isGo(name string) bool { return path.Ext(name) == ".go" }

// formatGo formats a Go file as gofmt does and groups its imports: the standard
// library, other modules, this module.
func formatGo(name string, content []byte, module string) ([]byte, error) {
	imports.LocalPrefix = module + "/" // the package has no other way to be told
	formatted, err := imports.Process(name, content, &imports.Options{
		FormatOnly: true,
		Comments:   true,
		TabIndent:  true,
		TabWidth:   8,
	})
	var mistakes scanner.ErrorList
	if errors.As(err, &mistakes) {
		return nil, fmt.Errorf("rendered Go that does not parse: %w\n%s", mistakes[0], excerpt(content, mistakes[0].Pos.Line))
	}
	if err != nil {
		return nil, fmt.Errorf("format %s: %w", name, err)
	}
	return formatted, nil
}

// excerptMargin is how many lines an excerpt shows before and after the line it is about.
const excerptMargin = 2

// excerpt shows the lines around one, numbered from 1, so that a person need
// not open a file that was never written.
func excerpt(content []byte, line int) string {
	lines := strings.Split(string(content), "\n")
	first := max(line-excerptMargin, 1)
	last := min(line+excerptMargin, len(lines))
	var b strings.Builder
	for n := first; n <= last; n++ {
		mark := ' '
		if n == line {
			mark = '>'
		}
		fmt.Fprintf(&b, "%c %5d | %s\n", mark, n, lines[n-1])
	}
	return strings.TrimSuffix(b.String(), "\n")
}
