package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/language"
	"github.com/arenagen/arenagen/gen/internal/specfile"
	"github.com/arenagen/arenagen/spec"
)

const aboutNew = `new writes NAME.yaml, the file of a backend to begin with: the one of another backend,
under its new name, with a comment at each key, function and capability that says what it
is for. Everything in it is still the other driver's; change it to the new one's, and let
arenagen validate tell what is wrong on the way.`

// newNew is the command that starts a backend.
func newNew(root *string) *cobra.Command {
	var from, specs string
	command := &cobra.Command{
		Use:   "new NAME",
		Short: "Write the file of a new backend to begin with",
		Long:  aboutNew,
		Example: `  arenagen new acme --from cuda                writes spec/backends/acme.yaml of this project
  arenagen new acme --from hip --spec drivers  writes drivers/acme.yaml, for another module`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			folder, schema := specs, publishedSchema
			if folder == "" {
				found, err := findRoot(*root)
				if err != nil {
					return err
				}
				folder = filepath.Join(found, filepath.FromSlash(ir.Project.Specs))
				schema = "../" + schemaFile
			}
			file, err := start(args[0], from, schema, folder)
			if err == nil {
				fmt.Fprintln(command.OutOrStdout(), "wrote", file)
			}
			return err
		},
	}
	command.Flags().StringVar(&from, "from", "cuda", "the backend to begin as; one whose driver's interface is alike")
	command.Flags().StringVar(&specs, "spec", "", "the folder for the file, where the backend lives in another module")
	return command
}

// What a spec of a backend is checked with by editors: in this project, and in another module.
const (
	schemaFile      = "backend.schema.json"
	publishedSchema = "https://" + ir.ModulePath + "/raw/main/spec/" + schemaFile
)

// start writes the file of a backend that begins as another one, and returns its name. It writes over nothing.
func start(name, from, schema, folder string) (string, error) {
	text, err := starting(name, from, schema)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return "", err
	}
	file := filepath.Join(folder, name+".yaml")
	into, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return "", err
	}
	_, err = into.WriteString(text)
	return file, errors.Join(err, into.Close())
}

// embedded is where the specs are that this program carries.
var embedded = ir.Tree{ABI: "abi.yaml", Contract: "vmm.yaml", Specs: "backends"}

// starting is the text of a backend that begins as another one. It is refused if the name cannot be a backend's.
func starting(name, from, schema string) (string, error) {
	model, err := ir.LoadFS(spec.Files, embedded)
	if err != nil {
		return "", err
	}
	var other *ir.Backend
	var known []string
	for _, b := range model.Backends {
		known = append(known, b.Name)
		if b.Name == from {
			other = b
		}
	}
	if other == nil {
		return "", fmt.Errorf("--from %s: there is no such backend%s", from, diag.Expected(from, known))
	}
	text, err := fs.ReadFile(spec.Files, other.File)
	if err != nil {
		return "", err
	}
	form := specfile.BackendFormat.Schema().Properties["backend"].Pattern
	if !regexp.MustCompile(form).MatchString(name) {
		return "", fmt.Errorf("%q cannot be the name of a backend, expected a Go package name such as acme", name)
	}
	started := language.Start(string(text), name, schema, other, model.Contract)
	if mistakes := mistakesIn(name, started); len(mistakes) > 0 {
		// The other backend's file has none.
		return "", fmt.Errorf("%q cannot be the name of a backend: %s", name, mistakes[0].Message)
	}
	return started, nil
}

// mistakesIn are those in the text of a backend's file.
func mistakesIn(name, text string) []diag.Diagnostic {
	var mistakes diag.List
	contract, err := fs.ReadFile(spec.Files, embedded.Contract)
	if err != nil {
		mistakes.Add(diag.Pos{File: embedded.Contract}, "%v", err)
		return mistakes.Sorted()
	}
	file := name + ".yaml"
	backend := specfile.BackendFormat.Parse(file, []byte(text), &mistakes)
	ir.Resolve(ir.Project, nil, specfile.ContractFormat.Parse(embedded.Contract, contract, &mistakes), []*specfile.Backend{backend}, &mistakes)
	return mistakes.Sorted()
}
