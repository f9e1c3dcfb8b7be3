package arena

import "fmt"

// A Placement says how allocations share physical handles. The zero Placement is PerAllocation.
type Placement struct {
	kind PlacementKind
	slab uint64 // bytes, for slabs
}

// A PlacementKind is one of the three kinds.
type PlacementKind uint8

// The kinds, in the order of PerAllocation, Slab and Single.
const (
	InHandlesOfTheirOwn PlacementKind = iota
	InSlabs
	InSingle
)

// PerAllocation gives each allocation a handle of its own, of its size rounded up to the granule.
func PerAllocation() Placement { return Placement{} }

// Slab carves allocations out of handles of size bytes, rounded up to the granule, so that a load needs few of them. An allocation
// is rounded up to SlabUnit. Where a driver's largest handle is smaller, a slab is that; SlabStats tells. One that is larger than a slab gets a handle of its own. What is freed inside a slab is used
// again, the lowest address first, and a slab is released with its last allocation.
func Slab(size uint64) Placement { return Placement{kind: InSlabs, slab: size} }

// Single makes the whole arena one handle, when it is created, and carves allocations out of it as Slab does: one region for any
// transport. What does not fit is refused.
func Single() Placement { return Placement{kind: InSingle} }

// Kind is which of the three it is.
func (p Placement) Kind() PlacementKind { return p.kind }

// SlabSize is how large a slab was asked for, in bytes, or 0.
func (p Placement) SlabSize() uint64 { return p.slab }

// SlabUnit is what the sizes of allocations in slabs are rounded up to, and how they are aligned unless told otherwise, in bytes.
const SlabUnit = 512

// String is the placement in a few words.
func (p Placement) String() string {
	switch p.kind {
	case InSlabs:
		return fmt.Sprintf("slabs of %d bytes", p.slab)
	case InSingle:
		return "a single handle"
	default:
		return "per allocation"
	}
}

// slabSize is how large a slab is in an arena of so many bytes over handles of so many at most, or 0 if there are none.
func (p Placement) slabSize(granule, total, largest uint64) (uint64, error) {
	switch p.kind {
	case InHandlesOfTheirOwn:
		return 0, nil
	case InSingle:
		if total > largest {
			return 0, invalid("a single handle must have at most %d bytes with this driver, got %d", largest, total)
		}
		return total, nil
	}
	size := (p.slab + granule - 1) &^ (granule - 1)
	if p.slab == 0 || size < p.slab || size > total {
		return 0, invalid("a slab must have 1 to %d bytes, which the arena reserves, got %d", total, p.slab)
	}
	return min(size, largest&^(granule-1)), nil
}
