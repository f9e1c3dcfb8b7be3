package main

import (
	"bytes"
	"os/exec"
	"regexp"
	"testing"
)

// The program is built and run as a user would: without cgo.
func TestProgram(t *testing.T) {
	program := t.TempDir() + "/demo"
	build := exec.Command("go", "build", "-o", program, ".")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	var stderr bytes.Buffer
	run := exec.Command(program)
	run.Stderr = &stderr
	out, err := run.Output()
	if err != nil {
		t.Fatalf("run: %v\n%s", err, &stderr)
	}
	want := regexp.MustCompile(`^to register: 209715200 bytes at 0x[0-9a-f]+, once
created 100, released 100, live 0, mapped 0 bytes
$`)
	if !want.Match(out) {
		t.Errorf("the program said\n%s", out)
	}
}
