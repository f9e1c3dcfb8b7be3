package vmm

// About is what a driver tells about itself. The zero About is of a driver that is no library.
type About struct {
	Library string // the file that was loaded
	Version string // such as "12.4"
}
