package schematest

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/language"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// root is the project's.
const root = "../.."

// A kind is a kind of spec file, as the loader and as the validator see it.
type kind struct {
	parse  func(text string) []diag.Diagnostic // the mistakes in the shape of a file
	shape  specfile.Schema
	schema *jsonschema.Schema
}

// kindAt finds the kind of a file by its path below the root.
func kindAt(t *testing.T, path string) kind {
	t.Helper()
	switch path {
	case "spec/abi.yaml":
		return kindOf(t, specfile.ABIFormat, path, "spec/abi.schema.json")
	case "spec/vmm.yaml":
		return kindOf(t, specfile.ContractFormat, path, "spec/vmm.schema.json")
	default:
		return kindOf(t, specfile.BackendFormat, path, "spec/backend.schema.json")
	}
}

// kindOf is a kind of file, which is read without asking what its words refer to: what is wrong
// then is its shape.
func kindOf[T any](t *testing.T, format specfile.Format[T], path, schema string) kind {
	t.Helper()
	parse := func(text string) []diag.Diagnostic {
		var mistakes diag.List
		format.Parse(path, []byte(text), &mistakes)
		return mistakes.Sorted()
	}
	return kind{parse, format.Schema(), compile(t, schema)}
}

// compile reads a schema as it is generated, and checks it against that of its dialect.
func compile(t *testing.T, path string) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	for _, file := range language.Schemas() {
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(file.Content)))
		require.NoError(t, err)
		require.NoError(t, compiler.AddResource(file.Path, document))
	}
	schema, err := compiler.Compile(path)
	require.NoError(t, err)
	return schema
}

// validate tells what the schema finds wrong with a text.
func (k kind) validate(text string) error {
	document, err := document(text)
	if err != nil {
		return err
	}
	return k.schema.Validate(document)
}

// unseen are the mistakes of shape that the loader finds and a schema cannot: it sees neither how
// a value is written nor how many bytes it has.
var unseen = []*regexp.Regexp{
	regexp.MustCompile(`the (anchor|alias|tag|merge key) .* is not allowed`),
	regexp.MustCompile(`the byte 0x|the character U\+|has a character that is not allowed`),
	regexp.MustCompile(`it does not fit into 64 bits|a leading zero|in decimal or hexadecimal digits`),
	regexp.MustCompile(`found the date|found the number \d+\.0`),
	regexp.MustCompile(`it is empty`),
	regexp.MustCompile(`bytes, expected at most`),
}

// isSeen tells whether a schema can find a mistake of shape too.
func isSeen(mistake diag.Diagnostic) bool {
	return !slices.ContainsFunc(unseen, func(r *regexp.Regexp) bool { return r.MatchString(mistake.Message) })
}

// assertAgreement checks that a schema refuses a text in which the loader finds a mistake of shape
// that a schema can see, and accepts one that loads.
func assertAgreement(t *testing.T, k kind, text string, loads func() bool) {
	t.Helper()
	err := k.validate(text)
	mistakes := k.parse(text)
	if i := slices.IndexFunc(mistakes, isSeen); i >= 0 {
		assert.Error(t, err, "the schema accepts what the loader refuses: %s\n%s", mistakes[i], text)
	} else if err != nil && len(mistakes) == 0 {
		assert.False(t, loads(), "the schema refuses what the loader accepts: %v\n%s", err, text)
	}
}

// loads tells whether files, by their paths, have no mistakes at all.
func loads(files fstest.MapFS) bool {
	_, err := ir.LoadFS(files, ir.Project)
	return err == nil
}

// TestGoodSpecs has the specs that are in use, which both accept.
func TestGoodSpecs(t *testing.T) {
	for _, pattern := range []string{"spec/*.yaml", "spec/backends/*.yaml", "gen/testdata/drivers/*.yaml"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, name := range names {
			path, err := filepath.Rel(root, name)
			require.NoError(t, err)
			t.Run(path, func(t *testing.T) {
				text, err := os.ReadFile(name)
				require.NoError(t, err)
				k := kindAt(t, path)
				assert.Empty(t, k.parse(string(text)))
				assert.NoError(t, k.validate(string(text)))
			})
		}
	}
}

// TestCases has every spec of the golden cases, good and bad.
func TestCases(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(root, "gen/testdata/*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		files := specsOf(t, name)
		for path, file := range files {
			t.Run(filepath.Base(name)+"/"+path, func(t *testing.T) {
				assertAgreement(t, kindAt(t, path), string(file.Data), func() bool { return loads(overlay(t, files)) })
			})
		}
	}
}

// specsOf are the specs of a golden case.
func specsOf(t *testing.T, name string) fstest.MapFS {
	t.Helper()
	archive, err := txtar.ParseFile(name)
	require.NoError(t, err)
	files := fstest.MapFS{}
	for _, file := range archive.Files {
		if strings.HasPrefix(file.Name, "spec/") {
			files[file.Name] = &fstest.MapFile{Data: file.Data}
		}
	}
	return files
}

// overlay completes a case, which has only the files that differ from the smallest specs.
func overlay(t *testing.T, files fstest.MapFS) fstest.MapFS {
	t.Helper()
	all := specsOf(t, filepath.Join(root, "gen/testdata/tiny.txtar"))
	maps.Copy(all, files)
	return all
}
