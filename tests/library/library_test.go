// Package library_test drives the built shared library from outside, from C and from Python, as
// its users do. The programs in testdata consist of scenarios; each runs in a process of its own.
package library_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const root = "../.."

// The absolute paths of what is tested, set by TestMain.
var (
	outFolder string // what make builds
	library   string // the library
	twin      string // the same library again: a copy of its bytes under another path
	stranger  string // the same again with a SONAME of its own, so that a program can be linked with both

	pythonFolder string // the Python package's
)

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (code int, err error) {
	if output, err := exec.Command("make", "-s", "-C", root, "all").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("make all: %w\n%s", err, output)
	}
	if outFolder, err = filepath.Abs(root + "/out"); err != nil {
		return 0, err
	}
	library = outFolder + "/lib/libarenagen_stub.so"
	pythonFolder = filepath.Join(outFolder, "../python")

	copies, err := os.MkdirTemp("", "arenagen-library-test-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(copies)) }()
	if err := copyLibrary(copies); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// copyLibrary writes twin and stranger into a folder.
func copyLibrary(folder string) error {
	content, err := os.ReadFile(library)
	if err != nil {
		return err
	}
	const soname, other = "libarenagen_stub.so.1\x00", "libarenagen_twin.so.1\x00"
	if bytes.Count(content, []byte(soname)) != 1 {
		return fmt.Errorf("%s does not name itself %q exactly once", library, soname)
	}
	twin = filepath.Join(folder, "libarenagen_stub.so")
	stranger = filepath.Join(folder, "libarenagen_twin.so.1")
	if err := os.WriteFile(twin, content, 0o755); err != nil {
		return err
	}
	return os.WriteFile(stranger, bytes.Replace(content, []byte(soname), []byte(other), 1), 0o755)
}
