package dl

import "fmt"

// A Version is the version of a driver.
type Version struct{ Major, Minor, Patch int64 }

// DecodeVersion takes a version apart that a driver tells as one number, in which each part is multiplied with a
// factor, the largest first. A factor of 0 is of a part that it does not have.
func DecodeVersion(number, major, minor, patch int64) Version {
	v := Version{Major: number / major, Minor: number % major / minor}
	if patch != 0 {
		v.Patch = number % minor / patch
	}
	return v
}

// Before tells whether it is older than another one.
func (v Version) Before(other Version) bool {
	switch {
	case v.Major != other.Major:
		return v.Major < other.Major
	case v.Minor != other.Minor:
		return v.Minor < other.Minor
	default:
		return v.Patch < other.Patch
	}
}

func (v Version) String() string {
	if v.Patch == 0 {
		return fmt.Sprintf("%d.%d", v.Major, v.Minor)
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
}
