// Command arenagen turns the specs of this repository into code. It imports
// nothing that it generates, so it builds and runs while that code is broken or
// missing.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/gogen"
	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/language"
	"github.com/arenagen/arenagen/gen/internal/textgen"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the command with its arguments, and answers its exit code.
func run(args []string, stdout, stderr io.Writer) int {
	g := generator{load: ir.Load, renderers: renderers, quoters: []quoter{language.Manual}}
	return g.run(args, stdout, stderr)
}

// renderers make all outputs that follow from the specs alone.
var renderers = []renderer{gogen.Files, textgen.Files, schemas}

// schemas follow from the loader, whatever the specs say.
func schemas(*ir.Model) []emit.File { return language.Schemas() }

// The exit codes.
const (
	exitOK       = 0
	exitMistakes = 1 // the specs, or the tree, are not as they should be
	exitFailure  = 2 // the command could not do its work
)

func (g generator) run(args []string, stdout, stderr io.Writer) int {
	command := newCommand(g)
	command.SetArgs(args)
	command.SetOut(stdout)
	command.SetErr(stderr)
	err := command.Execute()
	var mistakes *diag.Error
	var stale *staleError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &mistakes), errors.As(err, &stale):
		fmt.Fprintln(stderr, err)
		return exitMistakes
	default:
		fmt.Fprintln(stderr, "arenagen:", err)
		return exitFailure
	}
}
