package doctor

import (
	"bytes"
	"fmt"
	"text/tabwriter"

	"github.com/arenagen/arenagen/arena/vmm"
	"github.com/arenagen/arenagen/backends/kit/registry"
)

// A Matrix says which backend can do what, as far as their files tell: no driver is asked. What no function of a vendor's
// driver does is answered with vmm.ClassNotSupported and the backend's name.
type Matrix struct {
	Backends     []string `json:"backends"` // the columns
	Operations   []Row    `json:"operations"`
	Capabilities []Row    `json:"capabilities"`
}

// A Row is an operation or a capability of the driver contract, and which backends do it or have it.
type Row struct {
	Name     string          `json:"name"`
	Backends map[string]bool `json:"backends"`
}

// Compare makes the matrix of some backends.
func Compare(backends []registry.Backend) Matrix {
	var m Matrix
	all := make([]vmm.Abilities, len(backends))
	for i, b := range backends {
		m.Backends = append(m.Backends, b.Name)
		all[i] = b.Abilities()
	}
	row := func(name string, has func(vmm.Abilities) bool) Row {
		r := Row{Name: name, Backends: map[string]bool{}}
		for i, b := range m.Backends {
			r.Backends[b] = has(all[i])
		}
		return r
	}
	for _, op := range vmm.Operations() {
		m.Operations = append(m.Operations, row(op.String(), func(a vmm.Abilities) bool { return a.Does(op) }))
	}
	for i, c := range (vmm.Capabilities{}).List() {
		m.Capabilities = append(m.Capabilities, row(c.Name, func(a vmm.Abilities) bool { return a.Capabilities.List()[i].Has }))
	}
	return m
}

// String is the matrix for a person.
func (m Matrix) String() string {
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0) // writing to a buffer does not fail
	m.print(table, "operation", m.Operations)
	fmt.Fprintln(table)
	m.print(table, "capability", m.Capabilities)
	_ = table.Flush()
	return text.String()
}

func (m Matrix) print(table *tabwriter.Writer, heading string, rows []Row) {
	line := func(name string, cell func(backend string) string) {
		fmt.Fprint(table, name)
		for _, b := range m.Backends {
			fmt.Fprint(table, "\t", cell(b))
		}
		fmt.Fprintln(table)
	}
	line(heading, func(b string) string { return b })
	for _, r := range rows {
		line(r.Name, func(b string) string {
			if r.Backends[b] {
				return "yes"
			}
			return "-"
		})
	}
}
