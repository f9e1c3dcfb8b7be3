package emit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// A Plan is what must change in the tree so that it holds the outputs and no
// others.
type Plan struct {
	Stale   []Change // sorted by path
	Orphans []string // files that carry the header but are no output, sorted by path

	module Module
}

// A Change is one output that the tree lacks, or has with other bytes.
type Change struct {
	File File
	Old  []byte // what the tree has; nil when it has no such file
}

// Missing tells whether the tree has no such file.
func (c Change) Missing() bool { return c.Old == nil }

// Compare looks at the tree and plans how to bring it to files, which Prepare made.
func (m Module) Compare(files []File) (*Plan, error) {
	plan := &Plan{module: m}
	outputs := make(map[string]bool, len(files))
	for _, file := range files {
		outputs[file.Path] = true
		old, err := os.ReadFile(m.Abs(file.Path))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("compare with the tree: %w", err)
		}
		if change := (Change{File: file, Old: old}); change.Missing() || !bytes.Equal(old, file.Content) {
			plan.Stale = append(plan.Stale, change)
		}
	}
	err := m.Walk(func(path string) error {
		if outputs[path] || m.Folder != "" && !within(path, m.Folder) {
			return nil
		}
		start, err := startOf(m.Abs(path))
		if err == nil && HasHeader(start) && !m.ofOthers(SourcesOf(start)) {
			plan.Orphans = append(plan.Orphans, path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for orphans: %w", err)
	}
	return plan, nil
}

// headerBytes is enough of a file to hold its header.
const headerBytes = 1024

func startOf(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, headerBytes))
}

// Empty tells whether the tree is as it should be.
func (p *Plan) Empty() bool { return len(p.Stale) == 0 && len(p.Orphans) == 0 }

// Diff shows the stale outputs as a unified diff from the tree to the outputs,
// in the form that git apply takes.
func (p *Plan) Diff() string {
	var b strings.Builder
	for _, change := range p.Stale {
		before := "a/" + change.File.Path
		if change.Missing() {
			before = "/dev/null"
		}
		b.WriteString(udiff.Unified(before, "b/"+change.File.Path, string(change.Old), string(change.File.Content)))
	}
	return b.String()
}

// An InTheWayError is a file at the place of an output that no generator made.
type InTheWayError struct{ Path string }

func (e *InTheWayError) Error() string {
	return e.Path + " is in the way: it has no header of a generated file; move it, or remove it if it may be replaced"
}

// Write makes the changes. What no generator made is not replaced. Every file is first written beside its place, and
// only when all of them are there do they take their places, so that a failure
// such as a full disk changes nothing.
func (p *Plan) Write() error {
	for _, change := range p.Stale {
		if len(change.Old) > 0 && !HasHeader(change.Old[:min(len(change.Old), headerBytes)]) {
			return fmt.Errorf("write the outputs (nothing was changed): %w", &InTheWayError{change.File.Path})
		}
	}
	staged, err := p.stage()
	if err != nil {
		return fmt.Errorf("write the outputs (nothing was changed): %w", err)
	}
	defer staged.discard()
	for i, change := range p.Stale {
		if err := os.Rename(staged[i], p.module.Abs(change.File.Path)); err != nil {
			return fmt.Errorf("write the outputs (%d of %d were written): %w", i, len(p.Stale), err)
		}
	}
	for _, orphan := range p.Orphans {
		if err := os.Remove(p.module.Abs(orphan)); err != nil {
			return fmt.Errorf("remove an orphan: %w", err)
		}
		p.module.removeEmpty(path.Dir(orphan))
	}
	return nil
}

// stagedFiles are the temporary files of a plan's stale outputs, in their order.
type stagedFiles []string

// discard removes those that did not take their places.
func (s stagedFiles) discard() {
	for _, name := range s {
		_ = os.Remove(name)
	}
}

// stage writes each stale output to a temporary file in its folder.
func (p *Plan) stage() (staged stagedFiles, err error) {
	files := make([]File, len(p.Stale))
	for i, change := range p.Stale {
		files[i] = change.File
	}
	undo, err := p.module.MakeFolders(files)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			staged.discard()
			undo()
		}
	}()
	for _, file := range files {
		name, err := writeBeside(p.module.Abs(file.Path), file.Content)
		if name != "" {
			staged = append(staged, name)
		}
		if err != nil {
			return staged, err
		}
	}
	return staged, nil
}

// writeBeside writes content to a new hidden file in the folder of name, and
// gives its name as soon as it exists.
func writeBeside(name string, content []byte) (string, error) {
	file, err := os.CreateTemp(filepath.Dir(name), ".arenagen-*")
	if err != nil {
		return "", err
	}
	_, err = file.Write(content)
	return file.Name(), errors.Join(err, file.Chmod(0o644), file.Close())
}
