// Package arena is a memory arena on a GPU. An arena reserves one range of device
// addresses, gives each allocation the next addresses in it, and has a backend put
// physical memory of its own behind them, so that everything lies in one range that a transport
// registers once.
//
// The package is the only place that decides anything about memory. It uses the
// standard library only, imports nothing of this project but the driver contract
// below it, and holds addresses as numbers that it never dereferences.
//
// An [Arena] is made over a [Backend]: a device of a driver (vmm.Device, which the
// packages under backends open) or the caller's own functions ([Callbacks]). A [Router]
// finds the arena of an address, and the arena that serves a device.
//
// Everything here is safe for concurrent use.
package arena
