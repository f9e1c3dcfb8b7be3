package conform

import (
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/arenagen/arenagen/gen/internal/diag"
)

// addComplaints notes what the compilers said about a package.
func (t *tree) addComplaints(pkg *packages.Package, mistakes *diag.List) {
	if len(pkg.GoFiles) == 0 && len(pkg.IgnoredFiles) > 0 {
		return // it has nothing but files that its constraints leave out
	}
	for _, err := range pkg.Errors {
		switch {
		case strings.HasPrefix(err.Msg, "could not import C "):
			// It follows from a failure of cgo, which is an error of its own.
		case err.Pos != "" && err.Pos != "-":
			t.addComplaint(pkg, err.Pos+": "+err.Msg, mistakes)
		default:
			t.addOutput(pkg, err.Msg, mistakes)
		}
	}
}

// addOutput notes what a tool printed: the lines that name a place, and all of
// it when none does.
func (t *tree) addOutput(pkg *packages.Package, output string, mistakes *diag.List) {
	found := false
	for line := range strings.Lines(output) {
		if t.addComplaint(pkg, strings.TrimSpace(line), mistakes) {
			found = true
		}
	}
	if !found {
		mistakes.Add(diag.Pos{File: pkg.PkgPath}, "does not compile with what is generated: %s", strings.TrimSpace(output))
	}
}

// A complaint is file:line:column: text, as Go, cgo and gcc print it.
var complaintPattern = regexp.MustCompile(`(?s)^(.+?):(\d+):(?:(\d+):)? (?:error: |fatal error: )?(.*)$`)

// addComplaint notes a complaint where a person can do something about it: in
// the specs if an output is at fault, else in the code itself. It tells whether
// the text is a complaint.
func (t *tree) addComplaint(pkg *packages.Package, complaint string, mistakes *diag.List) bool {
	match := complaintPattern.FindStringSubmatch(complaint)
	if match == nil || strings.HasPrefix(match[4], "note: ") || strings.HasPrefix(match[4], "warning: ") {
		return false
	}
	line, _ := strconv.Atoi(match[2])
	column, _ := strconv.Atoi(match[3])
	pos := diag.Pos{File: t.find(pkg, match[1]), Line: line, Column: column}
	text := strings.TrimSpace(match[4])
	if output, ok := t.outputs[pos.File]; ok {
		mistakes.Add(originOf(output, line), "what is generated does not compile: %s: %s", pos, text)
	} else {
		mistakes.Add(pos, "does not compile with what is generated: %s", text)
	}
	return true
}

// find turns a file as a tool names it, from anywhere, from the root or from the
// folder of its package, into a path below the root if it is one.
func (t *tree) find(pkg *packages.Package, name string) string {
	candidates := []string{path.Clean(filepath.ToSlash(name))}
	if filepath.IsAbs(name) {
		candidates = t.below([]string{name})
	} else if files := t.below(pkg.GoFiles); len(files) > 0 {
		candidates = append(candidates, path.Join(path.Dir(files[0]), name))
	}
	for _, candidate := range candidates {
		if t.has(candidate) {
			return candidate
		}
	}
	return name
}
