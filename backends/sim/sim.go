// Package sim is the source of the driver simulators: shared libraries in C that stand in for vendors' drivers, on
// host memory. The core says what any driver does; the entry points of each are generated from its backend's YAML.
// c/arenasim.h says how a test controls one.
package sim

import "embed"

// Source has the C files, in the folder c. A simulator is core.c and one zz_generated_<backend>.c, compiled with
//
//	gcc -std=gnu11 -O2 -fPIC -shared -pthread
//
//go:embed c
var Source embed.FS
