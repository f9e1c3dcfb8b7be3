package language

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/ir"
	"github.com/arenagen/arenagen/gen/internal/specfile"
)

// contract is the spec of what backends bind.
const contract = "spec/vmm.yaml"

// declare quotes functions of a backend with a library as a C header declares them: what the file
// says about their parameters, in C.
func (l library) declare(file string, functions ...string) (string, error) {
	backend, err := l.backend(file)
	if err != nil {
		return "", err
	}
	var declarations []string
	for _, name := range functions {
		declaration, err := declaration(backend, name)
		if err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		declarations = append(declarations, declaration)
	}
	return codeBlock(".h", strings.Join(declarations, "\n")), nil
}

// backend resolves the file of a backend.
func (l library) backend(file string) (*ir.Backend, error) {
	contractText, err := l.read(contract)
	if err != nil {
		return nil, err
	}
	text, err := l.read(file)
	if err != nil {
		return nil, err
	}
	var mistakes diag.List
	model := ir.Resolve(ir.Project, nil, specfile.ContractFormat.Parse(contract, []byte(contractText), &mistakes),
		[]*specfile.Backend{specfile.BackendFormat.Parse(file, []byte(text), &mistakes)}, &mistakes)
	if err := mistakes.Err(); err != nil {
		return nil, err
	}
	return model.Backends[0], nil
}

// declaration declares a function in C, with its parameters in lines of their own where one line
// is too long.
func declaration(b *ir.Backend, name string) (string, error) {
	const width = 80
	f, err := function(b, name)
	if err != nil {
		return "", err
	}
	line := f.C.Signature + ";"
	if len(line) <= width {
		return line, nil
	}
	line = strings.Replace(line, "(", "(\n    ", 1)
	return strings.ReplaceAll(line, ", ", ",\n    "), nil
}

// function finds a function of a backend with a library.
func function(b *ir.Backend, name string) (*ir.Binding, error) {
	if b.Library == nil {
		return nil, errors.New("the backend has no library")
	}
	for _, f := range slices.Concat(b.Functions, b.Idle, b.Library.Helpers) {
		if f.Name == name {
			return f, nil
		}
	}
	return nil, fmt.Errorf("there is no function %q", name)
}

// fill quotes how a function fills the struct that a parameter points to, as C would.
func (l library) fill(file, name, parameter string) (string, error) {
	backend, err := l.backend(file)
	if err != nil {
		return "", err
	}
	f, err := function(backend, name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	i := slices.IndexFunc(f.Params, func(p *ir.BoundParam) bool { return p.Name == parameter && p.Fill != nil })
	if i < 0 {
		return "", fmt.Errorf("%s: function %q has no struct %q", file, name, parameter)
	}
	fill := f.Params[i].Fill
	lines := []string{fmt.Sprintf("%s %s = {0};", fill.Type.C, parameter)}
	for _, field := range fill.Layouts[len(fill.Layouts)-1].Fields {
		lines = append(lines, fmt.Sprintf("%s.%s = %s;", parameter, field.Path, source(field.Bound)))
	}
	return codeBlock(".h", strings.Join(lines, "\n")), nil
}

// source is what a field is filled with.
func source(b ir.Bound) string {
	switch {
	case b.Value != nil:
		return b.Value.Name
	case b.Const != nil:
		return fmt.Sprint(*b.Const)
	case b.Input != nil:
		return b.Input.Name
	default:
		return b.Of
	}
}
