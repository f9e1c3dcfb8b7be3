package hostvmm_test

import (
	"testing"

	"github.com/arenagen/arenagen/backends/kit/hostvmm"
)

// oneAllocation makes the five calls that an allocation and its free come to.
func oneAllocation(d *hostvmm.Driver, va, size uint64) hostvmm.Result {
	var handle uint64
	r := d.MemCreate(&handle, size, hostvmm.HandleTypeNone, 0)
	r |= d.MemMap(va, size, 0, handle, 0)
	r |= d.MemSetAccess(va, size, hostvmm.AccessReadWrite, 0)
	r |= d.MemUnmap(va, size)
	r |= d.MemRelease(handle)
	return r
}

func BenchmarkAllocation(b *testing.B) {
	for name, mode := range map[string]hostvmm.Mode{"record": hostvmm.Record, "host": hostvmm.Host} {
		b.Run(name, func(b *testing.B) {
			d := open(b, hostvmm.Options{Mode: mode})
			va := reserve(b, d, granule)
			b.ReportAllocs()
			for b.Loop() {
				if r := oneAllocation(d, va, granule); r != hostvmm.Success {
					b.Fatal(r)
				}
			}
		})
	}
}

func BenchmarkAllocationInParallel(b *testing.B) {
	d := open(b, hostvmm.Options{Mode: hostvmm.Record})
	va := reserve(b, d, granule)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if r := oneAllocation(d, va, granule); r != hostvmm.Success {
				b.Error(r)
			}
		}
	})
}
