// Package all knows every backend, for programs that choose one when they run.
package all
