package vmm

// About is what a driver tells about itself.
type About struct {
	Library string // the file that was loaded, "" for a driver that is no library
	Version string // such as "12.4"
	// HostMemory tells whether the CPU can read and write an allocation's memory at its address.
	HostMemory bool
}
