// Package all knows every backend, for programs that choose one when they run.
package all

import "github.com/arenagen/arenagen/arena/vmm"

// A Backend is one of them.
type Backend struct {
	Name  string
	Title string // for people
	// Override is the environment variable that names another file than the vendor's library, "" where there is no library.
	Override string
	// Open opens a device by its ordinal, with options as the backend's reference page lists them. Its errors are
	// of type *vmm.Error, or *options.Error.
	Open func(device int, options string) (*vmm.Device, error)
}
