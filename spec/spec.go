// Package spec has the specs of this project, for the generator when it works for another one: the C
// surface and the driver contract are the same there, and new backends begin as one of these.
package spec

import "embed"

// Files are abi.yaml, vmm.yaml and the folder backends.
//
//go:embed abi.yaml vmm.yaml backends/*.yaml
var Files embed.FS
