package hostvmm

import "unsafe"

// Bytes views n bytes of host memory at va as a slice. It is the one unsafe thing
// here: nothing is checked, and nothing keeps the memory. The range must be
// mapped and granted for as long as the slice is used; touching it at any other
// time is a fault, or somebody else's memory.
func Bytes(va uint64, n int) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&va)), n)
}
