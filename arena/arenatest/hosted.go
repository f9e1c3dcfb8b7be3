package arenatest

import (
	"bufio"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

//go:embed host/host.c
var hostSource []byte

// Hosted is a built library in a C program, a process of its own for each case.
type Hosted struct {
	Emulator  []string // the command that runs programs of another architecture, none for this machine's own
	Program   string   // the host, as CompileHost made it
	Library   string   // the file
	Backend   string   // which of the library's backends, "" for its own choice
	Simulator string   // the driver that it loads, "" for none
	Env       []string // more variables for the process
	Needs     []string // what it can meet, beside "process"
}

// CompileHost compiles the host against the C header in a folder, and returns the program.
func CompileHost(t *testing.T, include string) string {
	t.Helper()
	folder := t.TempDir()
	source, program := filepath.Join(folder, "host.c"), filepath.Join(folder, "host")
	if err := os.WriteFile(source, hostSource, 0o600); err != nil {
		t.Fatal(err)
	}
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "gcc"
	}
	argv := append(strings.Fields(compiler), "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-I"+include, "-o", program, source, "-pthread", "-ldl")
	if output, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("compile the host: %v\n%s", err, output)
	}
	return program
}

// hangs is how long a case may take: far longer than any does.
const hangs = 3 * time.Minute

// Has tells whether it meets a need.
func (h *Hosted) Has(need string) bool { return need == "process" || slices.Contains(h.Needs, need) }

// Start starts the program. It ends when the test does, and must then end well.
func (h *Hosted) Start(t *testing.T) Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hangs)
	argv := slices.Concat(h.Emulator, []string{h.Program, h.Library, h.Backend, h.Simulator})
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	command.Env = append(os.Environ(), h.Env...)
	var complaints strings.Builder
	command.Stderr = &complaints
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	s := &hosted{t: t, in: bufio.NewWriter(in), out: bufio.NewScanner(out)}
	t.Cleanup(func() {
		defer cancel()
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		if err := command.Wait(); err != nil {
			t.Errorf("the host: %v\n%s", err, complaints.String())
		}
	})
	return s
}

type hosted struct {
	t   *testing.T
	in  *bufio.Writer
	out *bufio.Scanner
}

// Do sends a verb and reads its answer: a status, numbers, and a text after a tab.
func (s *hosted) Do(verb string, args ...uint64) Answer {
	fmt.Fprint(s.in, verb)
	for _, arg := range args {
		fmt.Fprint(s.in, " ", arg)
	}
	fmt.Fprintln(s.in)
	if err := s.in.Flush(); err != nil || !s.out.Scan() {
		return Answer{Status: "gone", Text: "the host has ended"}
	}
	head, text, _ := strings.Cut(s.out.Text(), "\t")
	words := strings.Fields(head)
	a := Answer{Status: words[0], Text: text}
	for _, word := range words[1:] {
		value, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			s.t.Fatalf("the host answered %q to %s", s.out.Text(), verb)
		}
		a.Values = append(a.Values, value)
	}
	return a
}
