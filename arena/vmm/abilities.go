package vmm

import "slices"

// Abilities are what a backend can do, as far as its file tells: it is known without a driver. A driver of some version,
// and a device, may lack more.
type Abilities struct {
	Capabilities Capabilities
	Unsupported  []Op    // what no function of the driver does
	Ignores      []Input // what the driver's functions do not need
}

// An Input is an input of an operation.
type Input struct {
	Op   Op
	Name string // as the contract has it
}

// A Capability is one of Capabilities, by its name in the contract.
type Capability struct {
	Name string
	Has  bool
}

// Does tells whether the backend does an operation.
func (a Abilities) Does(op Op) bool { return !slices.Contains(a.Unsupported, op) }

// Heeds tells whether an input of an operation makes a difference to the driver.
func (a Abilities) Heeds(op Op, input string) bool {
	return a.Does(op) && !slices.Contains(a.Ignores, Input{op, input})
}

// Operations are all operations, in the order of the contract.
func Operations() []Op {
	all := make([]Op, len(opNames))
	for i := range all {
		all[i] = Op(i)
	}
	return all
}
