// Package dl loads a driver's library at run time, finds functions in it and calls them. It is the only package
// that knows how: with cgo, a call goes through a C function; without, or with the build tag
// arenagen_purego, through purego. Everything here is safe for concurrent use.
//
// A library is never unloaded: a driver has threads and exit handlers of its own, and pointers into it live on.
package dl
