package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

const (
	about = `arenagen turns the specs below spec/ into everything that follows from them: the
Go packages of the backends, the shared libraries' C headers, guards and version
scripts, the Python bindings, the ABI listing and the reference pages. It also writes
what describes the specs themselves: their JSON Schemas and their manual, spec/SPEC.md.

  spec/*.yaml -> model -> rendered files -> format -> compare -> type-check -> write

All outputs are rendered and checked before the first is written. When something is
wrong, the tree stays as it is, and each mistake is told as file:line:column: message
with the place in the specs that it comes from.

Exit codes:
  0  all is well
  1  a mistake in the specs, generated code that does not compile, a break of the
     ABI, or (with --check) a file that is stale, missing or an orphan
  2  wrong usage, a file that cannot be read or written, or a tool that is missing`

	examples = `  arenagen generate             write what is stale, remove orphans
  arenagen generate --check     write nothing; show what generate would change
  arenagen validate             look for mistakes in the specs, and nothing else
  go generate ./...             the same as arenagen generate`

	aboutGenerate = `generate writes every output that differs from the tree and removes orphans, the
files that carry the header of a generated one but that no spec makes any more. It
prints what it wrote. Files that have not changed are not touched.

Before it writes, it type-checks the packages that hold outputs, and those that
import them and no other modules. Packages that import "C" are checked with the C compiler, so it has to be
there.

It refuses a break of the ABI: include/arenagen.abi lists every name, layout and number
that programs rely on. A line of the listing in the tree may go or change only when
version.major in spec/abi.yaml rises, and a line may be added only when version.minor
does.`

	examplesGenerate = `  arenagen generate
  arenagen generate --check                    in CI; the output is a diff that git apply takes
  arenagen generate --root ../other-checkout
  arenagen generate --dump-model | jq '.Backends[].Name'`
)

// newCommand is the command line over g.
func newCommand(g generator) *cobra.Command {
	var root string
	command := &cobra.Command{
		Use:               "arenagen",
		Short:             "Turn the specs of GPU drivers and of the C ABI into code",
		Long:              about,
		Example:           examples,
		SilenceErrors:     true, // run prints them
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	command.PersistentFlags().StringVar(&root, "root", "", "the folder with go.mod and spec/ (default: the nearest one, from here upwards)")
	command.PersistentPreRunE = func(command *cobra.Command, _ []string) error {
		for _, name := range []string{"root", "spec", "out", "module"} {
			if flag := command.Flags().Lookup(name); flag != nil && flag.Changed && flag.Value.String() == "" {
				return fmt.Errorf("--%s is empty; leave it out, or give it a value", name)
			}
		}
		if command.Flags().Changed("root") && command.Flags().Changed("spec") {
			return errors.New("--root is for this project and --spec for another module: one of them is expected")
		}
		return nil
	}
	command.AddCommand(newGenerate(g, &root), newValidate(g, &root), newNew(&root))
	return command
}

func newGenerate(g generator, root *string) *cobra.Command {
	var check, dumpModel bool
	var specs, out, module string
	command := &cobra.Command{
		Use:     "generate",
		Short:   "Write the outputs that are stale and remove orphans",
		Long:    aboutGenerate,
		Example: examplesGenerate,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			g, folder, err := choose(g, *root, specs, out, module)
			if err != nil {
				return err
			}
			switch out := command.OutOrStdout(); {
			case dumpModel:
				return g.dump(folder, out)
			case check:
				return g.check(folder, out)
			default:
				return g.generate(folder, out)
			}
		},
	}
	command.Flags().BoolVar(&check, "check", false, "write nothing; print a unified diff of what is stale, name orphans, and fail if there is any")
	command.Flags().BoolVar(&dumpModel, "dump-model", false, "write nothing; print what the specs were understood to mean, as JSON")
	command.Flags().StringVar(&specs, "spec", "", "the folder with the YAML files of backends that live in another module")
	command.Flags().StringVar(&out, "out", "", "the folder in that module that their code is for; it needs not be there yet")
	command.Flags().StringVar(&module, "module", "", "that module's path, as its go.mod says (default: what go.mod says)")
	command.MarkFlagsMutuallyExclusive("check", "dump-model")
	command.MarkFlagsRequiredTogether("spec", "out")
	return command
}

// choose is the generator of this project with its root, or with specs that of another module.
func choose(g generator, root, specs, out, module string) (generator, string, error) {
	if specs == "" {
		if module != "" {
			return generator{}, "", errors.New("--module is for backends of another module: name their folders with --spec and --out")
		}
		folder, err := findRoot(root)
		return g, folder, err
	}
	other, err := newOutside(specs, out, module)
	return other.generator(), other.root, err
}

func newValidate(g generator, root *string) *cobra.Command {
	var specs string
	command := &cobra.Command{
		Use:   "validate",
		Short: "Look for mistakes in the specs",
		Long:  "validate reads the specs and tells every mistake in them. It says nothing when there is none.",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if specs != "" {
				return validateOutside(specs)
			}
			folder, err := findRoot(*root)
			if err != nil {
				return err
			}
			_, err = g.load(folder)
			return err
		},
	}
	command.Flags().StringVar(&specs, "spec", "", "the folder with the YAML files of backends that live in another module")
	return command
}

// findRoot is the folder that the flag names, or the nearest one, from the
// working folder upwards, that has a go.mod and a spec folder.
func findRoot(flag string) (string, error) {
	if flag != "" {
		if !isRoot(flag) {
			return "", fmt.Errorf("--root %s: it has no go.mod or no spec/ in it", flag)
		}
		return flag, nil
	}
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for !isRoot(folder) {
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", errors.New("no folder from here upwards has both go.mod and spec/: name one with --root")
		}
		folder = parent
	}
	return folder, nil
}

func isRoot(folder string) bool {
	spec, err := os.Stat(filepath.Join(folder, "spec"))
	if err != nil || !spec.IsDir() {
		return false
	}
	_, err = os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}
