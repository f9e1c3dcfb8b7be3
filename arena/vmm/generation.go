package vmm

// SupportsGeneration1 is there as long as code that arenagen generated for this generation of the
// packages that it stands on works with them. Generated drivers name it, so that the compiler tells
// where the two do not match: run the generator of the version that go.mod requires.
const SupportsGeneration1 = true
