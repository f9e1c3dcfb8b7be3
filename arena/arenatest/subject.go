package arenatest

import "testing"

// A Subject is something that has arenas. It carries out one operation after the other.
type Subject interface {
	// Has tells whether a case's need, one of those in needs.go, can be met.
	Has(need string) bool
	// Start begins with nothing: no arenas, and a driver as after it was loaded. The test ends what it began.
	Start(t *testing.T) Session
}

// A Session carries out the operations of one case.
type Session interface {
	// Do carries out a verb of the table in verbs.go, with its arguments as numbers.
	Do(verb string, args ...uint64) Answer
}

// An Answer is what an operation came to.
type Answer struct {
	Status string   // the name of a status, as the C interface has it: "ok", "closed"
	Text   string   // the error's text
	Values []uint64 // what the verb gives, in the order of the table
}
