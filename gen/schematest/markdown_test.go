package schematest

import (
	"errors"
	"fmt"
	"html"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"

	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/irtest"
	"github.com/arenagen/arenagen/gen/internal/prose"
	"github.com/arenagen/arenagen/gen/internal/textgen"
)

// pages are the Markdown outputs of this repository's specs, after a change of the model.
func pages(t *testing.T, change func(*ir.Model)) map[string]string {
	t.Helper()
	model, err := ir.Load(root)
	require.NoError(t, err)
	change(model)
	found := map[string]string{}
	for _, file := range textgen.Files(model) {
		if path.Ext(file.Path) == ".md" {
			found[file.Path] = string(file.Content)
		}
	}
	require.NotEmpty(t, found)
	return found
}

// TestHostileDescriptionsInMarkdown sees that no description changes the structure of a page, and
// that a reader sees it as it is.
func TestHostileDescriptionsInMarkdown(t *testing.T) {
	plain := pages(t, func(m *ir.Model) { irtest.Describe(m, "What it is.") })
	for name, description := range irtest.HostileTexts() {
		said := prose.Line(description)
		if said == "" {
			continue // an empty paragraph is none
		}
		t.Run(name, func(t *testing.T) {
			hostile := pages(t, func(m *ir.Model) { irtest.Describe(m, description) })
			for path, page := range plain {
				want, got := parse(page), parse(hostile[path])
				assert.Equal(t, want.structure, got.structure, path)
				assert.Equal(t, strings.Count(want.seen, "What it is."), strings.Count(got.seen, said), "%s\n%s", path, got.seen)
			}
		})
	}
}

// TestPages checks that every page that is committed has what its Markdown looks like: no
// stray fence or broken table turns the rest of it into something else.
func TestPages(t *testing.T) {
	manual, err := os.ReadFile(root + "/spec/SPEC.md")
	require.NoError(t, err)
	page := parse(string(manual))
	assert.Equal(t, strings.Count(string(manual), "\n```")/2, page.count["FencedCodeBlock"])
	assert.Equal(t, strings.Count(string(manual), "\n|---"), page.count["Table"])
	assert.Equal(t, 1, page.count["HTMLBlock"], "the header only")
}

// A parsed page is what a renderer of Markdown sees in it.
type parsed struct {
	structure string         // its nodes but for texts, a line each
	seen      string         // its texts, as a reader sees them
	count     map[string]int // of nodes, by their kinds
}

// markdown is the dialect of the places where the pages are read.
var markdown = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.Footnote, extension.TaskList))

func parse(page string) parsed {
	p := parsed{count: map[string]int{}}
	var structure, rendered strings.Builder
	root := markdown.Parser().Parse(text.NewReader([]byte(page)))
	depth := 0
	err := ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			depth--
			return ast.WalkContinue, nil
		}
		depth++
		p.count[n.Kind().String()]++
		if n.Kind() != ast.KindText {
			fmt.Fprintln(&structure, depth, n.Kind(), level(n))
		}
		return ast.WalkContinue, nil
	})
	if err := errors.Join(err, markdown.Renderer().Render(&rendered, []byte(page), root)); err != nil {
		panic(err) // neither the walk nor the builder fails
	}
	p.structure = structure.String()
	p.seen = html.UnescapeString(tag.ReplaceAllString(rendered.String(), " "))
	return p
}

var tag = regexp.MustCompile(`<[^>]*>`)

// level tells headings apart.
func level(n ast.Node) int {
	if heading, ok := n.(*ast.Heading); ok {
		return heading.Level
	}
	return 0
}
