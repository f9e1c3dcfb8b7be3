package language

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/prose"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// namesSchema begins the line by which a spec names its schema.
const namesSchema = "# yaml-language-server: $schema="

// commentWidth is how wide the text of a comment in a starting file is.
const commentWidth = 100

// Start is the text of a backend's file to begin with: the one of another backend, under a new name, in which
// each key, each function and each capability has a comment that says what it is for. The comments are those of
// the loader's tables and of the contract. schema is the address of the schema that editors check the file with.
func Start(text, name, schema string, from *ir.Backend, contract *ir.Contract) string {
	s := starter{about: aboutNames(contract), keys: specfile.BackendFormat.Schema().Properties}
	s.WriteString(namesSchema + schema + "\n#\n")
	s.comment("", fmt.Sprintf("The backend %s. It begins as that of %s: names, numbers and layouts below are still those of %s.", name, from.Name, from.Title))
	s.comment("", "Change them to those of the new vendor's header, key by key. `arenagen validate` tells every mistake with its place; "+
		"docs/adding-a-backend.md leads through it, and spec/SPEC.md has every key.")
	_, body, _ := strings.Cut("\n"+text, "\nbackend:")
	for line := range strings.Lines("backend:" + body) {
		s.add(strings.TrimSuffix(line, "\n"))
	}
	s.end()
	return renamed(s.String(), name)
}

// renamed puts a new backend's name where a file names the backend itself.
func renamed(text, name string) string {
	for pattern, line := range map[string]string{
		`(?m)^backend: .*$`:          "backend: " + name,
		`(?m)^title: .*$`:            "title: " + name,
		`(?m)^description: .*$`:      "description: Devices of the vendor of " + name + ", by the driver's interface.",
		`(?m)^(  linux:) \[[^\]]*\]`: fmt.Sprintf("${1} [lib%s.so.1, lib%[1]s.so]", name),
		`(?m)^(  override:) [^\s#]+`: "${1} ARENAGEN_" + strings.ToUpper(name) + "_LIBRARY",
	} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, line)
	}
	return text
}

// aboutNames are the descriptions of what functions do or play, and of capabilities, by name.
func aboutNames(c *ir.Contract) map[string]string {
	about := map[string]string{}
	for _, o := range c.Operations {
		about[o.Name] = o.Description
	}
	for _, h := range c.Helpers {
		about[h.Name] = h.Description
	}
	for _, capability := range c.Capabilities {
		about[capability.Name] = capability.Description
	}
	return about
}

// A starter writes a starting file, a line of the other file after the other.
type starter struct {
	strings.Builder

	keys  map[string]specfile.Schema // of the file
	about map[string]string
	key   string   // the key of the file that the line is under
	entry []string // the lines of a function that is not written yet
}

var (
	topKey   = regexp.MustCompile(`^(\w+):`)
	lowerKey = regexp.MustCompile(`^  (\w+):`)
	newEntry = regexp.MustCompile(`^  (- |#|$)`)
	does     = regexp.MustCompile(`^(?:    |  - \{.*\b)(?:does|plays): (\w+)`)
)

// add writes a line, or keeps it until the function that it belongs to is whole.
func (s *starter) add(line string) {
	top, lower := topKey.FindStringSubmatch(line), lowerKey.FindStringSubmatch(line)
	switch {
	case top != nil:
		s.end()
		s.key = top[1]
		if !strings.HasSuffix(s.String(), "\n\n") {
			s.WriteByte('\n')
		}
		s.comment("", s.keys[s.key].Description)
	case s.key == "functions" && newEntry.MatchString(line):
		s.end()
	case lower != nil && s.key == "capabilities":
		s.comment("  ", s.about[lower[1]])
	case lower != nil:
		s.comment("  ", s.keys[s.key].Properties[lower[1]].Description)
	}
	if s.key == "functions" {
		s.entry = append(s.entry, line)
		return
	}
	s.WriteString(line + "\n")
}

// end writes the function that is kept, below what the operation or helper is that it does.
func (s *starter) end() {
	for _, line := range s.entry {
		if found := does.FindStringSubmatch(line); found != nil {
			s.comment("  ", found[1]+": "+s.about[found[1]])
		}
	}
	for _, line := range s.entry {
		s.WriteString(line + "\n")
	}
	s.entry = nil
}

// comment writes a text as a comment, if there is any.
func (s *starter) comment(indent, text string) {
	if text == "" {
		return
	}
	for _, line := range prose.Wrap(text, commentWidth) {
		s.WriteString(indent + "# " + line + "\n")
	}
}
