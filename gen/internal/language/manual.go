package language

import (
	"bytes"
	_ "embed" // the manual's template
	"fmt"
	"io/fs"
	"path"
	"strings"
	"text/template"

	"golang.org/x/tools/txtar"

	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/markdown"
)

// The manual and its template, below the root.
const (
	manual         = "spec/SPEC.md"
	manualTemplate = "gen/internal/language/manual.tmpl"
)

//go:embed manual.tmpl
var manualText string

// Manual renders the manual of the language. Its examples are cut out of the files below root and
// out of the outputs that are rendered and formatted already, so that they are what the specs and
// the generator really say. An error names an example that is not there any more.
func Manual(root fs.FS, outputs []emit.File) ([]emit.File, error) {
	sources := []string{manualTemplate, tables}
	l := library{root: root, outputs: outputs}
	functions := template.FuncMap{
		"header":   func() string { return emit.Header(manual, sources...) },
		"show":     l.show,
		"around":   l.around,
		"case":     l.testCase,
		"declare":  l.declare,
		"fill":     l.fill,
		"code":     markdown.Code,
		"tablesOf": tablesOf,
	}
	t, err := template.New(path.Base(manualTemplate)).Funcs(functions).Parse(manualText)
	if err != nil {
		return nil, fmt.Errorf("the manual: %w", err)
	}
	var page bytes.Buffer
	if err := t.Execute(&page, kinds()); err != nil {
		return nil, fmt.Errorf("the manual: %w", err)
	}
	return []emit.File{{Path: manual, Content: markdown.OneEmptyLine(page.Bytes()), Sources: sources}}, nil
}

// A library is what the manual quotes from.
type library struct {
	root    fs.FS
	outputs []emit.File
}

// read gives an output as it will be, or a file as it is.
func (l library) read(name string) (string, error) {
	for _, output := range l.outputs {
		if output.Path == name {
			return string(output.Content), nil
		}
	}
	content, err := fs.ReadFile(l.root, name)
	return string(content), err
}

// show quotes the declarations of a file whose first lines begin so.
func (l library) show(name string, starts ...string) (string, error) {
	return l.quote(cutEntry, name, starts)
}

// around quotes the blocks of a file in which a line begins so.
func (l library) around(name string, starts ...string) (string, error) {
	return l.quote(cutBlock, name, starts)
}

// quote is a code block with what is cut out of a file.
func (l library) quote(cut func(text, start string) (string, error), name string, starts []string) (string, error) {
	text, err := l.read(name)
	if err != nil {
		return "", err
	}
	var parts []string
	for _, start := range starts {
		part, err := cut(text, start)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		parts = append(parts, part)
	}
	return codeBlock(name, join(parts)), nil
}

// join puts an empty line between parts, unless each is a line.
func join(parts []string) string {
	lines := strings.Join(parts, "\n")
	if strings.Count(lines, "\n") == len(parts)-1 {
		return lines
	}
	return strings.Join(parts, "\n\n")
}

// testCase quotes a file of a test case.
func (l library) testCase(name, file string) (string, error) {
	text, err := l.read(name)
	if err != nil {
		return "", err
	}
	for _, f := range txtar.Parse([]byte(text)).Files {
		if f.Name == file {
			return codeBlock(file, strings.TrimSpace(string(f.Data))), nil
		}
	}
	return "", fmt.Errorf("%s has no file %s", name, file)
}

// languages are the names by which Markdown knows the languages of files.
var languages = map[string]string{".h": "c", ".map": "text", ".txt": "text", ".py": "python"}

// codeBlock fences off what was cut out of a file.
func codeBlock(name, code string) string {
	language := strings.TrimPrefix(path.Ext(name), ".")
	if known, ok := languages[path.Ext(name)]; ok {
		language = known
	}
	return markdown.Block(language, code)
}
