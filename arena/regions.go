package arena

import "os"

// A RegionKind is what a transport registers memory by.
type RegionKind uint8

// The kinds. All but the first and the last two have a region for each handle, since what is exported names exactly one.
const (
	RegionsDmabuf  RegionKind = iota // maximal mapped runs of equal properties
	RegionsPosixFD                   // handles that go as file descriptors
	RegionsFabric                    // handles that go to the fabric
	RegionsIPC                       // handles that the vendor's own communication library exports
	RegionsWhole                     // the registered range as one, holes and all, for transports known to take that
	RegionsHoles                     // what is not mapped in that
)

// Exports are the ways in which a region can be given away, one bit each.
type Exports uint8

// The bits of Exports.
const (
	ExportsPosixFD Exports = 1 << iota
	ExportsFabric
	ExportsDmabuf
)

// A Region is what a transport registers as one.
type Region struct {
	Base, Length uint64 // bytes; of a dmabuf, multiples of the host's page
	Offset       uint64 // where Base is in the handle, in bytes
	Handle       uint64 // 0 for a region with several
	// Generation tells what was mapped at the same addresses at different times apart: regions with equal base, length and
	// generation are the same memory.
	Generation uint64
	Exports    Exports // those that the memory really has
}

// Regions lists what a transport has to register, by address, for what is mapped at this moment. Handles that were freed and
// are not unmapped yet are not among it. Whoever keeps registrations follows Changes. An unknown kind is an ErrInvalidArgument.
func (a *Arena) Regions(kind RegionKind) ([]Region, error) {
	switch kind {
	case RegionsDmabuf:
		return a.runs(uint64(os.Getpagesize())), nil
	case RegionsPosixFD, RegionsFabric, RegionsIPC:
		var regions []Region
		for _, m := range a.mappings() {
			regions = append(regions, a.regionOf(m))
		}
		return regions, nil
	case RegionsWhole:
		base, length := a.RegisteredRange()
		if length == 0 {
			return nil, nil
		}
		return []Region{{Base: base, Length: length, Generation: a.epoch.Load()}}, nil
	case RegionsHoles:
		return a.unmapped(), nil
	}
	return nil, invalid("a kind of region must be 0 to %d, got %d", RegionsHoles, kind)
}

func (a *Arena) regionOf(m mapping) Region {
	return Region{Base: m.start, Length: m.size, Handle: m.handle, Generation: m.generation(), Exports: a.exportsOf(m)}
}

// runs are the maximal runs of mappings that have the same properties, cut to whole pages of the host. Imported memory may have
// any properties, so it stays alone.
func (a *Arena) runs(page uint64) []Region {
	var runs []Region
	alone := false
	for _, m := range a.mappings() {
		next := a.regionOf(m)
		if last := len(runs) - 1; last >= 0 && !alone && m.birth&importedBit == 0 && runs[last].Base+runs[last].Length == next.Base {
			runs[last].Length += next.Length
			runs[last].Handle = 0
			runs[last].Generation = max(runs[last].Generation, next.Generation)
			continue
		}
		alone = m.birth&importedBit != 0
		runs = append(runs, next)
	}
	whole := runs[:0]
	for _, r := range runs {
		base := (r.Base + page - 1) &^ (page - 1)
		end := (r.Base + r.Length) &^ (page - 1)
		if base < end {
			r.Offset, r.Base, r.Length = base-r.Base, base, end-base
			whole = append(whole, r)
		}
	}
	return whole
}

// unmapped are the holes in the registered range.
func (a *Arena) unmapped() []Region {
	at, length := a.RegisteredRange()
	end := at + length
	var holes []Region
	hole := func(upTo uint64) {
		if upTo > at {
			holes = append(holes, Region{Base: at, Length: upTo - at})
		}
	}
	for _, m := range a.mappings() {
		if m.start >= end {
			break
		}
		hole(m.start)
		at = m.start + m.size
	}
	hole(end)
	return holes
}
