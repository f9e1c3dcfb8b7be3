package library_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hangs is how long a child process may take: far longer than any scenario needs.
const hangs = 3 * time.Minute

// execute runs a program and returns what it printed. The test fails when the program fails or hangs.
func execute(t *testing.T, environment []string, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	var output bytes.Buffer
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	command.Stdout = &output
	command.Stderr = &output
	command.Env = append(os.Environ(), environment...)
	command.Env = append(command.Env, "LIBRARY="+library, "TWIN="+twin, "STRANGER="+stranger,
		"PYTHONPATH="+pythonFolder, "PYTHONDONTWRITEBYTECODE=1")
	// A group of its own, so that what the program forked ends with it.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = 10 * time.Second
	err := command.Run()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Fatalf("%q hangs; it printed:\n%s", argv, output.String())
	}
	require.NoError(t, err, "%q printed:\n%s", argv, output.String())
	return output.String()
}

// compile compiles C sources and returns the program. It is linked with the library if it names one of its
// functions.
func compile(t *testing.T, source string, flags ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	argv := []string{
		tool("CC", "gcc"), "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread",
		"-I" + outFolder + "/include", "-o", program, source,
		"-L" + outFolder + "/lib", "-Wl,-rpath," + outFolder + "/lib", "-Wl,--as-needed", "-larenagen_stub",
	}
	execute(t, nil, append(argv, flags...)...)
	return program
}

// tool is a program of the build, which an environment variable can choose.
func tool(variable, usual string) string {
	if chosen := os.Getenv(variable); chosen != "" {
		return chosen
	}
	return usual
}

// runScenarios runs every scenario of a program, which lists them when it gets no argument.
func runScenarios(t *testing.T, program ...string) {
	t.Helper()
	scenarios := strings.Fields(execute(t, nil, program...))
	require.NotEmpty(t, scenarios)
	for _, scenario := range scenarios {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			execute(t, nil, append(program, scenario)...)
		})
	}
}

// sources are the files of a kind in testdata.
func sources(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/" + pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

func TestC(t *testing.T) {
	for _, source := range sources(t, "*.c") {
		t.Run(filepath.Base(source), func(t *testing.T) {
			t.Parallel()
			runScenarios(t, compile(t, source))
		})
	}
}

func TestPython(t *testing.T) {
	for _, source := range sources(t, "python_*.py") {
		t.Run(filepath.Base(source), func(t *testing.T) {
			t.Parallel()
			runScenarios(t, tool("PYTHON", "python3"), source)
		})
	}
}
