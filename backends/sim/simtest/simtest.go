// Package simtest compiles driver simulators and controls them, for tests of a backend.
//
// The conformance suite on the simulator of a backend that is generated into package acme:
//
//	driver := simtest.Load(t, simtest.Compile(t, "sim/zz_generated_acme.c"))
//	t.Setenv(acme.Override, driver.File)
//	arenatest.Run(t, &arenatest.InProcess{
//		Open:   func(device int) (arena.Backend, error) { return acme.Open(device, acme.Options{}) },
//		Needs:  append(arenatest.NeedsOf(acme.Abilities()), "memory", "faults"),
//		Driver: driver,
//	})
package simtest

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/arenagen/arenagen/arena/arenatest"
	"github.com/arenagen/arenagen/backends/kit/dl"
	"github.com/arenagen/arenagen/backends/sim"
)

// A Simulator is a driver simulator that is loaded into this process. Its controls are for one test at a time.
type Simulator struct {
	File string // the absolute path of its library

	t       *testing.T
	library *dl.Library
}

// Compile compiles the entry points of a driver, a file that is generated from its backend's YAML, with the
// core of all simulators, and returns the library. The compiler is the one that CC names, or gcc.
func Compile(t *testing.T, entries string) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(folder, source(t)); err != nil {
		t.Fatal(err)
	}
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "gcc"
	}
	core := filepath.Join(folder, "core.c")
	library := filepath.Join(folder, "lib"+strings.TrimSuffix(filepath.Base(entries), ".c")+".so")
	argv := append(strings.Fields(compiler), "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-pthread",
		"-I"+folder, "-o", library, core, entries)
	if output, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("compile the simulator: %v\n%s", err, output)
	}
	return library
}

// source is the folder of the simulators' sources.
func source(t *testing.T) fs.FS {
	t.Helper()
	folder, err := fs.Sub(sim.Source, "c")
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// Load loads a simulator, which has to be the library that the backend's driver is loaded from as well: a process
// has a library once, so both see the same devices.
func Load(t *testing.T, file string) *Simulator {
	t.Helper()
	library, err := dl.Open([]string{file}, "")
	if err != nil {
		t.Fatal(err)
	}
	return &Simulator{File: file, t: t, library: library}
}

// find finds a control.
func (s *Simulator) find(name string) dl.Function {
	s.t.Helper()
	f, ok := s.library.Find(name)
	if !ok {
		s.t.Fatalf("%s has no function %s: it is no simulator", s.File, name)
	}
	return f
}

// Call calls a control by its name in arenasim.h, such as arenasim_objects.
func (s *Simulator) Call(name string, args ...uint64) uint64 {
	s.t.Helper()
	f := s.find(name)
	var frame dl.Frame
	copy(frame.Args[:], args)
	return f.Call(&frame)
}

// CallWith calls a control whose first parameter is a text, such as arenasim_fail_function.
func (s *Simulator) CallWith(name, text string, args ...uint64) uint64 {
	s.t.Helper()
	f := s.find(name)
	var frame dl.Frame
	copy(frame.Args[1:], args)
	return f.CallWith(&frame, 0, append([]byte(text), 0))
}

// Set changes a setting, of those that arenasim.h lists.
func (s *Simulator) Set(name string, value uint64) {
	s.t.Helper()
	if s.CallWith("arenasim_set", name, value) != 1 {
		s.t.Fatalf("%s has no setting %s", s.File, name)
	}
}

// Reset brings it to where it was when it was loaded.
func (s *Simulator) Reset() { s.Call("arenasim_reset") }

// Do carries out a verb of the conformance suite that is the driver's.
func (s *Simulator) Do(verb string, args ...uint64) arenatest.Answer {
	if verb == "objects" {
		return arenatest.Answer{Status: "ok", Values: []uint64{
			s.Call("arenasim_objects", 0), s.Call("arenasim_objects", 1), s.Call("arenasim_objects", 2),
		}}
	}
	return arenatest.Answer{Status: "ok", Values: []uint64{s.Call("arenasim_"+verb, args...)}}
}
