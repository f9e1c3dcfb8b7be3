// Package arenatest is the conformance suite of arenas: what every arena must do, on every backend
// and through every surface, written once. A case is a script, a list of operations with what each
// must answer. A Subject carries operations out: InProcess calls package arena, Hosted speaks with a
// small C program that has loaded a built library.
//
// A backend in another repository runs it in a test:
//
//	arenatest.Run(t, arenatest.InProcess(open))
package arenatest
