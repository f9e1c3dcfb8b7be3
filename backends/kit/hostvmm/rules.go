package hostvmm

import (
	"cmp"
	"math/bits"
	"os"

	"golang.org/x/sys/unix"
)

const (
	defaultDevices    = 1
	defaultMinGranule = 64 << 10
	defaultGranule    = 2 << 20

	maxDevices = 64
	maxLog     = 1 << 20
)

// The rules are an opened device's options, checked and filled in, and what can
// be said about a call's arguments from them alone.
type rules struct {
	devices    int32
	capacity   uint64
	minGranule uint64
	granule    uint64
}

func newRules(o Options) (rules, Result) {
	r := rules{
		capacity:   o.Capacity,
		minGranule: cmp.Or(o.MinGranule, defaultMinGranule),
		granule:    cmp.Or(o.Granule, defaultGranule),
	}
	devices := cmp.Or(o.Devices, defaultDevices)
	valid := o.Mode <= Record &&
		devices <= maxDevices &&
		o.Log <= maxLog &&
		isPowerOfTwo(r.minGranule) && r.minGranule%uint64(os.Getpagesize()) == 0 &&
		isPowerOfTwo(r.granule) && r.granule >= r.minGranule
	if !valid {
		return rules{}, ErrorInvalidValue
	}
	r.devices = int32(devices)
	return r, Success
}

func (r *rules) deviceGetCount() (int32, Result) { return r.devices, Success }

func (r *rules) memGetAllocationGranularity(option int32) (uint64, Result) {
	switch option {
	case GranularityMinimum:
		return r.minGranule, Success
	case GranularityRecommended:
		return r.granule, Success
	default:
		return 0, ErrorInvalidValue
	}
}

func (r *rules) checkReserve(size, alignment, flags uint64) Result {
	return check(r.isWhole(size) && (alignment == 0 || isPowerOfTwo(alignment)) && flags == 0)
}

func (r *rules) checkCreate(size uint64, handleType int32, flags uint64) Result {
	return check(r.isWhole(size) && (handleType == HandleTypeNone || handleType == HandleTypePosixFD) && flags == 0)
}

func (r *rules) checkMap(va, size, offset, handle, flags uint64) Result {
	return check(r.isRange(va, size) && offset == 0 && handle != 0 && flags == 0)
}

func (r *rules) checkRange(va, size uint64) Result {
	return check(r.isRange(va, size))
}

func (r *rules) checkAccess(va, size uint64, access, device int32) Result {
	if !r.isRange(va, size) || access != AccessNone && access != AccessRead && access != AccessReadWrite {
		return ErrorInvalidValue
	}
	if device < 0 || device >= r.devices {
		return ErrorInvalidDevice
	}
	return Success
}

func (r *rules) checkExport(handle uint64, handleType int32, flags uint64) Result {
	return check(handle != 0 && handleType == HandleTypePosixFD && flags == 0)
}

func (r *rules) checkImport(handleType int32) Result {
	return check(handleType == HandleTypePosixFD)
}

// isWhole says whether size is some granules.
func (r *rules) isWhole(size uint64) bool {
	return size != 0 && size&(r.minGranule-1) == 0
}

// isRange says whether [va, va+size) is some granules of addresses.
func (r *rules) isRange(va, size uint64) bool {
	return va != 0 && (va|size)&(r.minGranule-1) == 0 && size != 0 && va+size > va
}

// total is how much memory the device says it has.
func (r *rules) total() (uint64, Result) {
	if r.capacity != 0 {
		return r.capacity, Success
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, resultOf(err)
	}
	return info.Totalram * uint64(info.Unit), Success
}

func check(valid bool) Result {
	if !valid {
		return ErrorInvalidValue
	}
	return Success
}

func isPowerOfTwo(n uint64) bool { return bits.OnesCount64(n) == 1 }
