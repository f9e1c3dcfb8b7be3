package specfile_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
	"golang.org/x/tools/txtar"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// root is the project's, testdata has the golden cases.
const (
	root     = "../../.."
	testdata = "../../testdata"
)

// A specSet is the files of one project, as text and as trees.
type specSet struct {
	texts map[string][]string // the lines of each file
	trees map[string]*yaml.Node
}

func newSpecSet(tb testing.TB, files map[string][]byte) specSet {
	tb.Helper()
	s := specSet{texts: map[string][]string{}, trees: map[string]*yaml.Node{}}
	for name, text := range files {
		var document yaml.Node
		require.NoError(tb, yaml.Unmarshal(text, &document))
		s.trees[name] = document.Content[0]
		s.texts[name] = strings.Split(string(text), "\n")
	}
	return s
}

// realSpecs are the project's own, with the drivers of testdata beside its backends.
func realSpecs(tb testing.TB) specSet {
	tb.Helper()
	files := map[string][]byte{}
	for _, pattern := range []string{"spec/*.yaml", "spec/backends/*.yaml", "gen/testdata/drivers/*.yaml"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(tb, err)
		for _, name := range names {
			text, err := os.ReadFile(name)
			require.NoError(tb, err)
			place := path.Join(path.Dir(pattern), filepath.Base(name))
			files[strings.Replace(place, "gen/testdata/drivers", "spec/backends", 1)] = text
		}
	}
	return newSpecSet(tb, files)
}

// caseSpecs are those of a golden case.
func caseSpecs(tb testing.TB, names ...string) specSet {
	tb.Helper()
	files := map[string][]byte{}
	for _, name := range names {
		archive, err := txtar.ParseFile(filepath.Join(testdata, name+".txtar"))
		require.NoError(tb, err)
		for _, file := range archive.Files {
			if strings.HasPrefix(file.Name, "spec/") {
				files[file.Name] = file.Data
			}
		}
	}
	return newSpecSet(tb, files)
}

// lackingSpecs are those of a driver that has functions for what it is said not to do.
func lackingSpecs(t *testing.T) specSet {
	t.Helper()
	set := caseSpecs(t, "tiny", "library")
	files := map[string][]byte{}
	lacking := 0
	for name, lines := range set.texts {
		text := strings.Join(lines, "\n")
		lacking += strings.Count(text, "unsupported: [trim]")
		files[name] = []byte(strings.ReplaceAll(text, "unsupported: [trim]", "unsupported: [trim, share, create, reserve]"))
	}
	require.Equal(t, 1, lacking)
	return newSpecSet(t, files)
}

// A loaded has the declarations of some files, ready to be resolved.
type loaded struct {
	abi      *specfile.ABI
	contract *specfile.Contract
	backends map[string]*specfile.Backend
}

// load reads the trees of a set.
func (s specSet) load(mistakes *diag.List) loaded {
	l := loaded{backends: map[string]*specfile.Backend{}}
	for name, tree := range s.trees {
		l.read(name, tree, mistakes)
	}
	return l
}

func (l *loaded) read(name string, tree *yaml.Node, mistakes *diag.List) {
	switch name {
	case "spec/abi.yaml":
		l.abi = specfile.ABIFormat.Read(name, tree, mistakes)
	case "spec/vmm.yaml":
		l.contract = specfile.ContractFormat.Read(name, tree, mistakes)
	default:
		l.backends[name] = specfile.BackendFormat.Read(name, tree, mistakes)
	}
}

// with is what is loaded when one file has another tree, and no more than depends on it.
func (l loaded) with(name string, tree *yaml.Node, mistakes *diag.List) loaded {
	var changed loaded
	switch name {
	case "spec/abi.yaml":
	case "spec/vmm.yaml":
		changed.backends = l.backends
	default:
		changed.contract, changed.backends = l.contract, map[string]*specfile.Backend{}
	}
	changed.read(name, tree, mistakes)
	return changed
}

// resolve makes a model out of declarations. What is not there is left out.
func (l loaded) resolve(mistakes *diag.List) *ir.Model {
	var backends []*specfile.Backend
	for _, name := range slices.Sorted(maps.Keys(l.backends)) {
		if l.backends[name] != nil {
			backends = append(backends, l.backends[name])
		}
	}
	return ir.Resolve(ir.Project, l.abi, l.contract, backends, mistakes)
}

// facts are what a model says: a text for every path. An element of a list is named where it has a
// name, and the order of such a list is a fact of its own.
func facts(tb testing.TB, model *ir.Model) map[string]string {
	tb.Helper()
	text, err := json.Marshal(model)
	require.NoError(tb, err)
	var tree any
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	require.NoError(tb, decoder.Decode(&tree))
	all := map[string]string{}
	collect(all, "", tree)
	return all
}

func collect(all map[string]string, at string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			collect(all, at+"/"+key, child)
		}
	case []any:
		var order []string
		for i, child := range v {
			name := nameOf(child)
			if name == "" || slices.Contains(order, name) {
				name = strconv.Itoa(i)
			}
			order = append(order, name)
			collect(all, at+"/"+name, child)
		}
		all[at] = strings.Join(order, " ")
	default:
		all[at] = fmt.Sprint(v)
	}
}

// nameOf is the name of an element, "" when it has none.
func nameOf(element any) string {
	m, _ := element.(map[string]any)
	for _, key := range []string{"Name", "Path"} {
		if name, ok := m[key].(string); ok {
			return name
		}
	}
	return ""
}

// differences are the paths at which two models say something else, sorted.
func differences(a, b map[string]string) []string {
	var paths []string
	for at, text := range a {
		if other, ok := b[at]; !ok || other != text {
			paths = append(paths, at)
		}
	}
	for at := range b {
		if _, ok := a[at]; !ok {
			paths = append(paths, at)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// A mutant is a spec file with one change.
type mutant struct {
	kind   string     // drop, rename, ...
	path   string     // of the node that is changed: functions/cuMemMap/params/ptr/role
	lines  []int      // where a mistake can be reported: those of the node and of what has it
	words  []string   // the names of both
	parent *yaml.Node // what is changed when it is applied
	apply  func() (undo func())
}

// mutants yields every mutant of a tree. What it changes must be undone before the next.
func mutants(tree *yaml.Node) []mutant {
	var all []mutant
	walk(tree, spot{lines: []int{tree.Line}}, func(parent *yaml.Node, at spot, i, width int) {
		for _, m := range changes(parent, at.path, i, width) {
			m.lines, m.words = at.lines, append(m.words, at.words...)
			all = append(all, m)
		}
	})
	return all
}

// A spot is where an item or a pair is.
type spot struct {
	path  string
	lines []int    // of the list or mapping that has it, and the first ones of what that is in
	words []string // the names of all of these
}

// inside is the spot of what a node has, when the node has a name and is at a spot.
func (s spot) inside(n, key *yaml.Node, name string) spot {
	in := spot{path: s.path + "/" + name, lines: append(slices.Clone(s.lines), key.Line, n.Line), words: append(slices.Clone(s.words), name)}
	if given := nodeOf(n, "name"); given != nil {
		in.lines = append(in.lines, given.Line)
	}
	return in
}

// walk visits the items of lists, with a width of 1, and the pairs of mappings, with a width of 2.
// It tells the spot of each.
func walk(n *yaml.Node, in spot, visit func(parent *yaml.Node, at spot, i, width int)) {
	width := 1
	if n.Kind == yaml.MappingNode {
		width = 2
	}
	lines := in.lines
	if in.path != "" {
		lines = append(slices.Clone(lines), linesOf(n)...)
	}
	for i := 0; i < len(n.Content); i += width {
		value := n.Content[i+width-1]
		name := strconv.Itoa(i / width)
		if width == 2 {
			name = n.Content[i].Value
		} else if given := nodeOf(value, "name"); given != nil {
			name = given.Value
		}
		visit(n, spot{in.path + "/" + name, append(slices.Clone(lines), linesOf(value)...), in.words}, i, width)
		walk(value, in.inside(value, n.Content[i], name), visit)
	}
}

// nodeOf is the value of a key of a mapping, nil when it has none.
func nodeOf(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// changes are the mutants of an item or a pair of a parent.
func changes(parent *yaml.Node, at string, i, width int) []mutant {
	own := parent.Content[i : i+width]
	value := own[width-1]
	base := mutant{path: at, words: wordsOf(own...), parent: parent}
	var all []mutant
	add := func(kind string, words []string, content func() []*yaml.Node) {
		m := base
		m.kind, m.words = kind, slices.Concat(base.words, words)
		m.apply = func() func() {
			before := parent.Content
			parent.Content = content()
			return func() { parent.Content = before }
		}
		all = append(all, m)
	}
	splice := func(nodes ...*yaml.Node) func() []*yaml.Node {
		return func() []*yaml.Node {
			return slices.Concat(parent.Content[:i], nodes, parent.Content[i+width:])
		}
	}
	add("drop", nil, splice())
	add("duplicate", nil, splice(slices.Concat(own, own)...))
	if next := i + width; next < len(parent.Content) {
		other := parent.Content[next : next+width]
		swapped := slices.Concat(other, own, parent.Content[next+width:])
		add("swap", wordsOf(other...), func() []*yaml.Node { return slices.Concat(parent.Content[:i], swapped) })
		if width == 2 {
			exchanged := slices.Concat([]*yaml.Node{own[0], other[1], other[0], own[1]}, parent.Content[next+width:])
			add("swap values", wordsOf(other...), func() []*yaml.Node { return slices.Concat(parent.Content[:i], exchanged) })
		}
	}
	if width == 2 {
		add("rename", nil, splice(scalar(own[0], own[0].Tag, own[0].Value+"x"), value))
	}
	for _, other := range others(value) {
		add(other.kind, nil, splice(slices.Concat(own[:width-1], []*yaml.Node{other.node})...))
	}
	return all
}

// An other is what a value is turned into.
type other struct {
	kind string
	node *yaml.Node
}

// others are the values that a value is turned into: of the same kind, if it is plain, and of others.
func others(n *yaml.Node) []other {
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: n.Line, Column: n.Column, Content: []*yaml.Node{n}}
	mapping := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: n.Line, Column: n.Column, Content: []*yaml.Node{scalar(n, "!!str", "name"), n}}
	switch n.Kind {
	case yaml.SequenceNode:
		return []other{{"kind", mapping}, {"kind", scalar(n, "!!str", "word")}}
	case yaml.MappingNode:
		return []other{{"kind", list}, {"kind", scalar(n, "!!str", "word")}}
	}
	all := []other{{"kind", list}, {"kind", mapping}, {"kind", scalar(n, "!!null", "null")}}
	number, err := specfile.ParseInteger(n.Value)
	switch {
	case n.Tag == "!!bool":
		return append(all, other{"rename", scalar(n, n.Tag, strconv.FormatBool(n.Value != "true"))}, other{"kind", scalar(n, "!!int", "1")})
	case n.Tag == "!!int" && err == nil:
		return append(all, other{"rename", scalar(n, n.Tag, fmt.Sprint(number+1))}, other{"kind", scalar(n, "!!str", n.Value)}, other{"kind", scalar(n, "!!bool", "true")})
	case versionForm.MatchString(n.Value):
		return append(all, other{"rename", scalar(n, n.Tag, n.Value+"1")}, other{"kind", scalar(n, "!!float", n.Value)})
	default:
		return append(all, other{"rename", scalar(n, n.Tag, n.Value+"x")}, other{"kind", scalar(n, "!!int", "7")}, other{"kind", scalar(n, "!!bool", "true")})
	}
}

var versionForm = regexp.MustCompile(`^[0-9]+\.[0-9.]+$`)

// scalar is a plain value at the place of another.
func scalar(at *yaml.Node, tag, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value, Line: at.Line, Column: at.Column}
}

// linesOf are the lines that a node stands on.
func linesOf(n *yaml.Node) []int {
	lines := []int{n.Line}
	for _, child := range n.Content {
		lines = append(lines, linesOf(child)...)
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// wordsOf are the names that nodes declare or use: a place that lacks one of them has it on its line.
func wordsOf(nodes ...*yaml.Node) []string {
	var words []string
	for _, n := range nodes {
		if n.Kind == yaml.ScalarNode && wordForm.MatchString(n.Value) {
			words = append(words, n.Value[strings.LastIndex(n.Value, ".")+1:])
		}
		words = append(words, wordsOf(n.Content...)...)
	}
	slices.Sort(words)
	return slices.Compact(words)
}

var wordForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// TestMutants changes every node of every valid spec: what comes out is refused near the change, or
// says the same, or differs in nothing but the data that was changed, where nothing could tell that
// it is wrong. Where that takes long, it takes some of the mutants only, always the same ones.
func TestMutants(t *testing.T) {
	sets := map[string]specSet{
		"tiny":    caseSpecs(t, "tiny"),
		"library": caseSpecs(t, "tiny", "library"),
		"lacking": lackingSpecs(t),
		"real":    realSpecs(t),
	}
	used := make([]atomic.Bool, len(freedoms))
	t.Run("all", func(t *testing.T) {
		for name, set := range sets {
			var mistakes diag.List
			all := set.load(&mistakes)
			require.NoError(t, mistakes.Err())
			for file := range set.trees {
				t.Run(name+"/"+file, func(t *testing.T) {
					t.Parallel()
					testMutants(t, set, all, file, used)
				})
			}
		}
	})
	if stride() > 1 {
		return
	}
	for i, f := range freedoms {
		assert.True(t, used[i].Load(), "no mutant needs the freedom %s of %s", f.kinds, f.path)
	}
}

// stride tells of how many mutants one is taken.
func stride() int {
	if raceEnabled || testing.Short() {
		return 23
	}
	return 1
}

func testMutants(t *testing.T, set specSet, all loaded, file string, used []atomic.Bool) {
	t.Helper()
	var mistakes diag.List
	unchanged := all.with(file, set.trees[file], &mistakes)
	want := facts(t, unchanged.resolve(&mistakes))
	require.NoError(t, mistakes.Err())
	for i, m := range mutants(set.trees[file]) {
		if i%stride() == 0 {
			if why := set.survives(t, all, file, m, want, used); why != "" {
				t.Errorf("%s %s%s: %s", m.kind, file, m.path, why)
			}
		}
	}
}

// survives says what is wrong with how a mutant is met, or "".
func (s specSet) survives(t *testing.T, all loaded, file string, m mutant, want map[string]string, used []atomic.Bool) string {
	t.Helper()
	var mistakes diag.List
	undo := m.apply()
	model := all.with(file, s.trees[file], &mistakes).resolve(&mistakes)
	undo()
	if err := mistakes.Err(); err != nil {
		if nowhere := s.nowhere(mistakes.Sorted()); nowhere != "" {
			return nowhere
		}
		if s.isNear(mistakes.Sorted(), file, m) {
			return ""
		}
		return "refused elsewhere: " + err.Error()
	}
	changed := differences(want, facts(t, model))
	if len(changed) == 0 {
		return ""
	}
	for i, f := range freedoms {
		if f.covers(file, m) && f.confines(changed) {
			used[i].Store(true)
			return ""
		}
	}
	return "accepted, with another model: " + strings.Join(changed[:min(len(changed), 6)], ", ")
}

// nowhere says which mistake has no place in the files, or "".
func (s specSet) nowhere(all []diag.Diagnostic) string {
	for _, d := range all {
		lines := s.texts[d.Pos.File]
		if d.Pos.Line < 1 || d.Pos.Line > len(lines) || d.Pos.Column < 1 {
			return "refused nowhere: " + d.String()
		}
	}
	return ""
}

// isNear tells whether a mistake is reported on a line of what was changed, or of what has it, or where
// something is missing that was changed: there the line or the message has its name.
func (s specSet) isNear(all []diag.Diagnostic, file string, m mutant) bool {
	return slices.ContainsFunc(all, func(d diag.Diagnostic) bool {
		places := []diag.Pos{d.Pos}
		if d.Related != nil {
			places = append(places, d.Related.Pos)
		}
		return slices.ContainsFunc(places, func(pos diag.Pos) bool {
			line := s.texts[pos.File][pos.Line-1]
			return pos.File == file && slices.Contains(m.lines, pos.Line) ||
				slices.ContainsFunc(m.words, func(word string) bool {
					return strings.Contains(line, word) || strings.Contains(d.Message, strconv.Quote(word))
				})
		})
	})
}

// TestMutantsOfMutants makes several changes at once, at random but always the same ones: whatever
// comes out, each mistake has a place.
func TestMutantsOfMutants(t *testing.T) {
	const changes, rounds = 4, 1000
	set := realSpecs(t)
	var none diag.List
	valid := set.load(&none)
	require.NoError(t, none.Err())
	for file, tree := range set.trees {
		t.Run(file, func(t *testing.T) {
			all, random := mutants(tree), rand.New(rand.NewPCG(1, 1))
			for range rounds / min(stride(), 10) {
				var undos []func()
				changed := map[*yaml.Node]bool{}
				for range changes {
					m := all[random.IntN(len(all))]
					if !changed[m.parent] {
						changed[m.parent] = true
						undos = append(undos, m.apply())
					}
				}
				var mistakes diag.List
				valid.with(file, tree, &mistakes).resolve(&mistakes)
				for _, undo := range slices.Backward(undos) {
					undo()
				}
				require.Empty(t, set.nowhere(mistakes.Sorted()))
			}
		})
	}
}
