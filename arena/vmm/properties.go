package vmm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Properties are what memory is asked for with: how its handle can be exported, and whether other devices are to reach it.
type Properties struct {
	HandleType HandleType
	RDMA       bool
}

func (p Properties) String() string {
	if p.RDMA {
		return p.HandleType.String() + " with rdma"
	}
	return p.HandleType.String()
}

// A Trial is one kind of memory that was tried on a device, and what the driver answered.
type Trial struct {
	Properties
	Err error // nil: it works
}

// A Probe is what a device's memory is asked for with, and how that was found out.
type Probe struct {
	Properties         // the first that worked
	Trials     []Trial // in the order of preference, up to that one
}

// String tells what was chosen and why not something before it.
func (p *Probe) String() string {
	var b strings.Builder
	fmt.Fprint(&b, p.Properties)
	for _, t := range p.Trials {
		if t.Err != nil {
			fmt.Fprintf(&b, "; not %v: %v", t.Properties, t.Err)
		}
	}
	return b.String()
}

// exportable are the handle types that an arena prefers, the best first.
var exportable = []HandleType{HandleTypeFabric, HandleTypePosixFD}

// attributes are what a device says it can export.
var attributes = [...]Attribute{HandleTypePosixFD: AttributePosixFD, HandleTypeFabric: AttributeFabric}

// Probe tells what memory this device is asked for with. It is decided by doing, at first use and once:
// a granule is created, mapped, granted and given back, since what a driver advertises need not
// work. Only running out of memory decides nothing: it fails this call, and the next one tries anew.
func (d *Device) Probe() (*Probe, error) {
	if p := d.probed.Load(); p != nil {
		return p, nil
	}
	d.probing.Lock()
	defer d.probing.Unlock()
	if p := d.probed.Load(); p != nil {
		return p, nil
	}
	p := &Probe{}
	for _, kind := range d.preferences() {
		err := d.try(kind)
		if errors.Is(err, ClassOutOfMemory) || errors.Is(err, ClassDeviceLost) {
			return nil, err
		}
		p.Trials = append(p.Trials, Trial{Properties: kind, Err: err})
		if err == nil {
			p.Properties = kind
			d.probed.Store(p)
			return p, nil
		}
	}
	return nil, p.Trials[len(p.Trials)-1].Err
}

// preferences lists what is worth trying, the best first. What a device says it cannot do is not tried; where it
// says nothing, exporting is, and rdma is not: a driver without that attribute has no such memory.
func (d *Device) preferences() []Properties {
	types := []HandleType{HandleTypeNone}
	if d.exported || d.driver.Capabilities().ExportIsFree {
		types = nil
		for _, t := range exportable {
			if value, err := d.driver.Attribute(attributes[t]); err != nil || value != 0 {
				types = append(types, t)
			}
		}
		types = append(types, HandleTypeNone)
	}
	rdma, err := d.driver.Attribute(AttributeRDMA)
	var kinds []Properties
	for _, t := range types {
		if err == nil && rdma != 0 {
			kinds = append(kinds, Properties{HandleType: t, RDMA: true})
		}
		kinds = append(kinds, Properties{HandleType: t})
	}
	return kinds
}

// try puts a granule of some kind of memory behind addresses of its own, and takes all of it away again. The memory
// comes first: where there is none of that kind, there is nothing to take away.
func (d *Device) try(kind Properties) error {
	whole := slices.Insert(slices.Clone(d.plan), 1, step{op: OpReserve})
	to := &placement{size: d.granules[GranularityRecommended], kind: kind}
	if err := d.do(whole, to); err != nil {
		return err
	}
	return d.undo(whole, to, nil)
}

// MemoryReturns tells whether memory that was unmapped and released can be used again while its addresses stay
// reserved, by doing it with one granule: with some drivers it comes back only with the reservation.
// Other processes that use the device meanwhile make the answer unreliable.
func (d *Device) MemoryReturns() (bool, error) {
	probe, err := d.Probe()
	if err != nil {
		return false, err
	}
	to := &placement{size: d.granules[GranularityRecommended], kind: probe.Properties}
	if to.va, err = d.driver.Reserve(to.size, 0, 0); err != nil {
		return false, err
	}
	returns, err := d.returns(to)
	return returns, withUndo(err, d.driver.Unreserve(to.va, to.size))
}

func (d *Device) returns(to *placement) (bool, error) {
	before, _, err := d.driver.MemoryInfo()
	if err != nil {
		return false, err
	}
	if err := d.do(d.plan, to); err != nil {
		return false, err
	}
	if err := d.undo(d.plan, to, nil); err != nil {
		return false, err
	}
	after, _, err := d.driver.MemoryInfo()
	return after >= before, err
}
