package library_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// Both libraries are there when the first constructor runs, and still one of them serves.
func TestProgramLinkedWithBoth(t *testing.T) {
	for name, order := range map[string][]string{
		"the library first": {"-larenagen_stub", stranger},
		"the twin first":    {stranger, "-larenagen_stub"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags := append([]string{"-Wl,--no-as-needed", "-Wl,-rpath," + filepath.Dir(stranger)}, order...)
			runScenarios(t, compile(t, "testdata/both/both.c", flags...))
		})
	}
}

// What the environment sets for other Go programs.
func TestEnvironment(t *testing.T) {
	program := compile(t, "testdata/threads.c")
	for _, environment := range []string{
		"GOGC=off",
		"GOGC=1",
		"GOMAXPROCS=1",
		"GOMAXPROCS=64",
		"GOMEMLIMIT=1MiB",
		"GOGC=off GOMEMLIMIT=1",
		"GOTRACEBACK=crash",
		"GODEBUG=asyncpreemptoff=1",
		"GODEBUG=gcstoptheworld=2,madvdontneed=0,netdns=go,http2client=0",
		"GODEBUG=panicnil=1,clobberfree=1,invalidptr=1,sbrk=0",
		"GORACE=halt_on_error=1",
	} {
		t.Run(environment, func(t *testing.T) {
			t.Parallel()
			execute(t, strings.Fields(environment), program, "threads_hammer_the_pair")
		})
	}
}
