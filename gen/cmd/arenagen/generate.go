package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/arenagen/arenagen/gen/internal/conform"
	"github.com/arenagen/arenagen/gen/internal/diag"
	"github.com/arenagen/arenagen/gen/internal/emit"
	"github.com/arenagen/arenagen/gen/internal/gogen"
	"github.com/arenagen/arenagen/gen/internal/ir"
)

// A generator is the way from the specs to the outputs.
type generator struct {
	load      func(root string) (*ir.Model, error)
	renderers []renderer
	quoters   []quoter

	// For a module other than this project: the folder that is for outputs and that of their specs, below the module's root,
	// and how the go command is to find what they import.
	folder  string
	specs   string
	resolve func(emit.Module) (flags []string, done func(), err error)
}

// A renderer makes some of the outputs.
type renderer func(*ir.Model) []emit.File

// A quoter makes outputs that quote files below the root, and other outputs as they will be there.
type quoter func(root fs.FS, outputs []emit.File) ([]emit.File, error)

// generate brings the tree below root to what the specs say, and tells what it changed.
func (g generator) generate(root string, out io.Writer) error {
	o, err := g.render(root)
	if err != nil {
		return err
	}
	if o.plan.Empty() {
		return nil
	}
	if err := o.plan.CheckABI(); err != nil {
		return err
	}
	if err := g.compiles(o); err != nil {
		return err
	}
	if err := o.plan.Write(); err != nil {
		return err
	}
	for _, change := range o.plan.Stale {
		fmt.Fprintln(out, "wrote", change.File.Path)
	}
	for _, orphan := range o.plan.Orphans {
		fmt.Fprintln(out, "removed", orphan)
	}
	return nil
}

// compiles type-checks what generate would write.
func (g generator) compiles(o outputs) error {
	var flags []string
	if g.resolve != nil {
		resolved, done, err := g.resolve(o.module)
		if err != nil {
			return err
		}
		defer done()
		flags = resolved
	}
	return conform.Check(o.module, o.files, o.plan.Orphans, flags...)
}

// check shows what generate would change. It fails if that is anything.
func (g generator) check(root string, out io.Writer) error {
	o, err := g.render(root)
	if err != nil {
		return err
	}
	if o.plan.Empty() {
		return nil
	}
	fmt.Fprint(out, o.plan.Diff())
	return errors.Join(o.plan.CheckABI(), &staleError{plan: o.plan})
}

// dump prints the model as JSON.
func (g generator) dump(root string, out io.Writer) error {
	model, err := g.load(root)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(model)
}

// The outputs of a module, and what they would change.
type outputs struct {
	module emit.Module
	files  []emit.File
	plan   *emit.Plan
}

// render makes every output and compares it with the tree.
func (g generator) render(root string) (o outputs, err error) {
	model, err := g.load(root)
	if err != nil {
		return outputs{}, err
	}
	if err := renderable(model); err != nil {
		return outputs{}, err
	}
	var files []emit.File
	for _, render := range g.renderers {
		files = append(files, render(model)...)
	}
	if o.module, err = emit.OpenModule(root); err != nil {
		return outputs{}, err
	}
	o.module.Folder, o.module.Specs = g.folder, g.specs
	if o.files, err = o.module.Prepare(files); err != nil {
		return outputs{}, err
	}
	quoted, err := g.quote(o.module, o.files)
	if err != nil {
		return outputs{}, o.abiBreakOr(err)
	}
	o.files = quoted
	o.plan, err = o.module.Compare(o.files)
	return o, err
}

// renderable refuses what the language can say and no renderer can do yet.
func renderable(model *ir.Model) error {
	var mistakes diag.List
	for _, b := range model.Backends {
		if b.Library != nil {
			unrendered(b, &mistakes)
		}
	}
	return mistakes.Err()
}

// unrendered reports the steps and structs of a library that no code is generated for.
func unrendered(b *ir.Backend, mistakes *diag.List) {
	refuse := func(pos diag.Pos, what string) {
		mistakes.Add(pos, "%s, and no code is generated for that yet; `arenagen validate` checks it", what)
	}
	for _, f := range slices.Concat(b.Functions, b.Library.Helpers) {
		if gogen.TooLarge(f) {
			refuse(f.Pos, fmt.Sprintf("the call of %s passes more than %d bytes by pointer, and not in one struct that points to no other", f.Name, gogen.ScratchSize))
		}
		for _, p := range f.Params {
			if p.Fill != nil && len(p.Fill.Layouts) > 1 && (len(p.Fill.Chain) > 0 || gogen.HasOutputs(p.Fill)) {
				refuse(p.Pos, "the struct has several layouts, and a chain or outputs")
			}
		}
	}
}

// abiBreakOr is an ABI break if there is one, else err: what an output cannot quote any more may have
// been taken out of the ABI, and that is said with its place.
func (o outputs) abiBreakOr(err error) error {
	plan, compareErr := o.module.Compare(o.files)
	if compareErr != nil {
		return err
	}
	return cmp.Or(plan.CheckABI(), err)
}

// quote adds the outputs that quote others to those.
func (g generator) quote(module emit.Module, files []emit.File) ([]emit.File, error) {
	all := slices.Clone(files)
	for _, quote := range g.quoters {
		quoting, err := quote(os.DirFS(module.Root), files)
		if err != nil {
			return nil, err
		}
		all = append(all, quoting...)
	}
	return module.Prepare(all)
}

// A staleError says that the tree is not what the specs say.
type staleError struct{ plan *emit.Plan }

func (e *staleError) Error() string {
	var b strings.Builder
	for _, change := range e.plan.Stale {
		state := "stale"
		if change.Missing() {
			state = "missing"
		}
		fmt.Fprintf(&b, "%s: %s\n", change.File.Path, state)
	}
	for _, orphan := range e.plan.Orphans {
		fmt.Fprintf(&b, "%s: an orphan: it has the header of a generated file, but no spec makes it\n", orphan)
	}
	b.WriteString("run `go generate ./...` to bring the tree up to date")
	return b.String()
}
