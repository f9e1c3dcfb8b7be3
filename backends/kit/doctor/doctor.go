// Package doctor looks at what backends find on a machine, and says what to do about what they lack.
package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/arenagen/arenagen/arena/vmm"
	"github.com/arenagen/arenagen/backends/kit/dl"
	"github.com/arenagen/arenagen/backends/kit/registry"
)

// A Report is what the doctor found.
type Report struct {
	// Usable tells whether a backend that is taken without being named has a device that can be used.
	Usable   bool      `json:"usable"`
	Backends []Backend `json:"backends"`
	Matrix   Matrix    `json:"matrix"`
}

// A Backend is what was found of one.
type Backend struct {
	Name     string   `json:"name"`
	Title    string   `json:"title"`
	Library  string   `json:"library,omitempty"` // the file that was loaded
	Version  string   `json:"version,omitempty"`
	Override string   `json:"override,omitempty"` // the variable that names another file
	Devices  []Device `json:"devices"`
	Problem  *Problem `json:"problem,omitempty"`
}

// A Device is what was found of one.
type Device struct {
	Ordinal       int      `json:"ordinal"`
	Name          string   `json:"name,omitempty"`
	Minimum       uint64   `json:"minimum_granule"`     // bytes
	Recommended   uint64   `json:"recommended_granule"` // bytes
	Free          uint64   `json:"free"`                // bytes
	Total         uint64   `json:"total"`               // bytes, 0 where the driver does not tell
	Memory        string   `json:"memory,omitempty"`    // how it can be exported
	Trials        []Trial  `json:"trials,omitempty"`
	MemoryReturns *bool    `json:"memory_returns,omitempty"` // after unmap and release
	Problem       *Problem `json:"problem,omitempty"`
}

// A Trial is a kind of memory that was tried, and what the driver said.
type Trial struct {
	Memory string `json:"memory"`
	Answer string `json:"answer"`
}

// A Problem is what is wrong and what to do about it.
type Problem struct {
	What string `json:"what"`
	Do   string `json:"do"`
}

// Examine looks at backends.
func Examine(backends []registry.Backend) Report {
	var r Report
	for _, b := range backends {
		found := examineBackend(b)
		r.Backends = append(r.Backends, found)
		for _, d := range found.Devices {
			// Whether memory returns is the last thing that is looked at: arenas work all the same.
			r.Usable = r.Usable || b.Auto && (d.Problem == nil || d.MemoryReturns != nil)
		}
	}
	r.Matrix = Compare(backends)
	return r
}

func examineBackend(b registry.Backend) Backend {
	r := Backend{Name: b.Name, Title: b.Title, Override: b.Override, Devices: []Device{}}
	first, err := b.Open(0, "")
	if err != nil {
		r.Problem = problemOf(err, b.Override)
		return r
	}
	about := first.Driver().About()
	r.Library, r.Version = about.Library, about.Version
	count, err := first.Driver().DeviceCount()
	if err != nil {
		r.Problem = problemOf(err, b.Override)
		return r
	}
	for ordinal := range count {
		r.Devices = append(r.Devices, examineDevice(b, ordinal))
	}
	return r
}

func examineDevice(b registry.Backend, ordinal int) Device {
	r := Device{Ordinal: ordinal}
	d, err := b.Open(ordinal, "")
	if err != nil {
		r.Problem = problemOf(err, b.Override)
		return r
	}
	r.Minimum, r.Recommended = d.Granule(vmm.GranularityMinimum), d.Granule(vmm.GranularityRecommended)
	if r.Name, err = d.Driver().DeviceName(); err != nil && !errors.Is(err, vmm.ClassNotSupported) {
		r.Problem = problemOf(err, b.Override)
		return r
	}
	if r.Free, r.Total, err = d.MemoryInfo(); err != nil && !errors.Is(err, vmm.ClassNotSupported) {
		r.Problem = problemOf(err, b.Override)
		return r
	}
	probe, err := d.Probe()
	if err != nil {
		r.Problem = problemOf(err, b.Override)
		return r
	}
	r.Memory = probe.Properties.String()
	for _, t := range probe.Trials {
		answer := "works"
		if t.Err != nil {
			answer = t.Err.Error()
		}
		r.Trials = append(r.Trials, Trial{t.String(), answer})
	}
	returns, err := d.MemoryReturns()
	switch {
	case errors.Is(err, vmm.ClassNotSupported):
		// How much memory there is cannot be asked, so nobody can tell.
	case err != nil:
		r.Problem = problemOf(err, b.Override)
	case !returns:
		r.MemoryReturns = &returns
		r.Problem = &Problem{
			What: "memory that was unmapped and released does not come back while its addresses are reserved",
			Do:   "Close arenas whose memory is to be used again, or install another version of the driver.",
		}
	default:
		r.MemoryReturns = &returns
	}
	return r
}

// advice is what to do about a class of failure.
var advice = []struct {
	class error
	do    string
}{
	{vmm.ClassTooOld, "Install a newer driver."},
	{vmm.ClassNoDevice, "The driver is there and sees no device: see whether the machine has one, the driver's kernel module is loaded, " +
		"and this container or process is given it."},
	{vmm.ClassNotPermitted, "This process may not use the device: see its permissions, and those of the container."},
	{vmm.ClassUnavailable, "The driver does not start: see whether its kernel module is loaded and fits its library."},
	{vmm.ClassNotSupported, "This device or its driver cannot do what an arena needs."},
	{vmm.ClassOutOfMemory, "Another process has the device's memory: try again when it has ended."},
	{vmm.ClassDeviceLost, "The device failed: reset it, or restart the machine."},
}

// problemOf explains an error. The override is the variable that names another library.
func problemOf(err error, override string) *Problem {
	p := &Problem{What: strings.ReplaceAll(err.Error(), "\n", "; "), Do: "Report this with the text above."}
	if missing := (*dl.NotFoundError)(nil); errors.As(err, &missing) {
		p.Do = "Install the vendor's driver, or name its library in " + override + "."
		return p
	}
	for _, a := range advice {
		if errors.Is(err, a.class) {
			p.Do = a.do
			return p
		}
	}
	return p
}

// String is the report for a person.
func (r Report) String() string {
	var b strings.Builder
	for _, one := range r.Backends {
		one.print(&b)
	}
	b.WriteString(r.Matrix.String())
	return b.String()
}

func (r Backend) print(b *strings.Builder) {
	fmt.Fprintf(b, "%s: %s\n", r.Name, r.Title)
	if r.Library != "" {
		fmt.Fprintf(b, "  library   %s, version %s\n", r.Library, cmp.Or(r.Version, "not told"))
	}
	r.Problem.print(b, "  ")
	for _, d := range r.Devices {
		d.print(b)
	}
	fmt.Fprintln(b)
}

func (r Device) print(b *strings.Builder) {
	fmt.Fprintf(b, "  device %d  %s\n", r.Ordinal, r.Name)
	if r.Minimum != 0 {
		fmt.Fprintf(b, "    granule   %s, minimum %s\n", size(r.Recommended), size(r.Minimum))
	}
	if r.Total != 0 {
		fmt.Fprintf(b, "    memory    %s free of %s\n", size(r.Free), size(r.Total))
	}
	if r.Memory != "" {
		fmt.Fprintf(b, "    exported  %s\n", r.Memory)
	}
	for _, t := range r.Trials {
		if t.Answer != "works" {
			fmt.Fprintf(b, "      not %s: %s\n", t.Memory, t.Answer)
		}
	}
	if r.MemoryReturns != nil && *r.MemoryReturns {
		fmt.Fprintf(b, "    returns   memory that is unmapped and released can be used again\n")
	}
	r.Problem.print(b, "    ")
}

func (p *Problem) print(b *strings.Builder, indent string) {
	if p != nil {
		fmt.Fprintf(b, "%sproblem   %s\n%sdo        %s\n", indent, p.What, indent, p.Do)
	}
}

// size writes bytes in the largest unit in which they are whole, or with a fraction above a GiB.
func size(bytes uint64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB"}
	unit := 0
	value := float64(bytes)
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.4g %s", value, units[unit])
}
