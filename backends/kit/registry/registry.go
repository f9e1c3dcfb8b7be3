// Package registry has the type of a backend that is chosen when a program runs.
package registry

import "github.com/arenagen/arenagen/arena/vmm"

// A Backend is one that a program carries.
type Backend struct {
	Name  string
	Title string // for people
	// Override is the environment variable that names another file than the vendor's library, "" where there is no library.
	Override string
	// Auto tells whether it is among those that a caller gets who names none.
	Auto bool
	// Abilities says what it can do, as far as its file tells.
	Abilities func() vmm.Abilities
	// Open opens a device by its ordinal, with options as the backend's reference page lists them. Its errors are
	// of type *vmm.Error, or *options.Error.
	Open func(device int, options string) (*vmm.Device, error)
}
