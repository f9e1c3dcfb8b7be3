package conformance_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/arenatest"
	"github.com/arenagen/arenagen/arena/vmm"
	"github.com/arenagen/arenagen/backends/cuda"
	"github.com/arenagen/arenagen/backends/sim/simtest"
)

const granule = 2 << 20

// onSimulators runs a test on a driver of each simulator that has the usual rules and does what is needed, as after it
// was loaded.
func onSimulators(t *testing.T, test func(t *testing.T, d vmm.Driver, c *simtest.Simulator), needs ...vmm.Op) {
	t.Helper()
	for _, s := range simulators(t) {
		abilities := s.Abilities()
		rules := abilities.Capabilities
		rules.GrantPerMapping, rules.ExportIsFree = false, false // these bind callers
		lacks := slices.ContainsFunc(needs, func(op vmm.Op) bool { return !abilities.Does(op) })
		if lacks || rules != (vmm.Capabilities{ReleaseWhileMapped: true}) {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			c := s.load(t)
			device, err := s.Open(0, "")
			require.NoError(t, err)
			test(t, device.Driver(), c)
		})
	}
}

// A driver does what its capabilities say, and refuses what they say that it does not.
func TestSimulatorRulesOfCapabilities(t *testing.T) {
	for _, s := range simulators(t) {
		t.Run(s.Name, func(t *testing.T) {
			c := s.load(t)
			device := must[*vmm.Device](t)(s.Open(0, ""))
			d, rules := device.Driver(), s.Abilities().Capabilities
			require.Equal(t, rules, d.Capabilities())
			holds := func(allowed bool, err error, what string) {
				t.Helper()
				if allowed {
					assert.NoError(t, err, what)
				} else {
					refused(t, err, what)
				}
			}
			va := must[uint64](t)(d.Reserve(8*granule, 0, 0))
			large := must[uint64](t)(d.Create(2*granule, vmm.HandleTypeNone, false))
			holds(!rules.MapWhole, d.Map(va+6*granule, granule, large), "a part")
			handle := must[uint64](t)(d.Create(granule, vmm.HandleTypeNone, false))
			require.NoError(t, d.Map(va, granule, handle))
			holds(!rules.MapOnce, d.Map(va+granule, granule, handle), "the same handle a second time")
			granted := uint64(0)
			if rules.MapGrants {
				granted = 1
			}
			assert.Equal(t, granted, c.Call("arenasim_granted", va, 0))
			holds(rules.ReleaseWhileMapped, d.Release(handle), "a handle that is mapped")
			if !rules.ReleaseWhileMapped {
				require.NoError(t, d.Unmap(va, granule))
				if !rules.MapOnce {
					require.NoError(t, d.Unmap(va+granule, granule))
				}
				require.NoError(t, d.Release(handle), "a handle that is not mapped any more")
			}
			refused(t, d.Release(handle), "a handle that is gone")
		})
	}
}

// A handle that was not created exportable is not exported, one that was is; what a driver does not know is not supported.
func TestSimulatorHandlesOfTypes(t *testing.T) {
	for _, s := range simulators(t) {
		t.Run(s.Name, func(t *testing.T) {
			s.load(t)
			d := must[*vmm.Device](t)(s.Open(0, "")).Driver()
			for op, call := range map[vmm.Op]func(handle uint64) error{
				vmm.OpExportFD: func(handle uint64) error {
					fd, err := d.ExportFD(handle)
					if err == nil {
						err = os.NewFile(uintptr(fd), "exported").Close()
					}
					return err
				},
				vmm.OpExportFabric: func(handle uint64) error { _, err := d.ExportFabric(handle); return err },
			} {
				asked := map[vmm.Op]vmm.HandleType{vmm.OpExportFD: vmm.HandleTypePosixFD, vmm.OpExportFabric: vmm.HandleTypeFabric}[op]
				plain := must[uint64](t)(d.Create(granule, vmm.HandleTypeNone, false))
				if !s.Abilities().Does(op) {
					err := call(plain)
					require.ErrorIs(t, err, vmm.ClassNotSupported)
					assert.ErrorContains(t, err, d.Backend()+": "+op.String())
					continue
				}
				refused(t, call(plain), "what was not created exportable")
				require.NoError(t, call(must[uint64](t)(d.Create(granule, asked, false))))
			}
		})
	}
}

// Where a driver lists devices of which opening takes some, ordinals count those, and what opening made is given back.
func TestSimulatorOfSeveralSortsOfDevices(t *testing.T) {
	chosen := 0
	for _, s := range simulators(t) {
		c := s.load(t)
		c.Set("other_devices", 3)
		device := must[*vmm.Device](t)(s.Open(1, ""))
		last, err := s.Open(4, "")
		if c.Call("arenasim_objects", 3) != 1 {
			// Its opening makes nothing, or takes what it is given.
			require.NoError(t, device.Close())
			if err == nil {
				require.NoError(t, last.Close())
			}
			continue
		}
		chosen++
		for _, ordinal := range []int{2, -1} {
			_, err := s.Open(ordinal, "")
			require.ErrorIs(t, err, vmm.ClassNoDevice)
			assert.ErrorContains(t, err, "gave 5, of which 2 can be used")
		}
		a, err := arena.New(device, arena.Config{Total: 16 * granule})
		require.NoError(t, err)
		va := must[uint64](t)(a.Malloc(1))
		assert.Equal(t, uint64(1), c.Call("arenasim_granted", va, 1))
		assert.Zero(t, c.Call("arenasim_granted", va, 0))
		require.NoError(t, a.Close())
		require.NoError(t, device.Close())
		require.NoError(t, device.Close(), "once more")
		assert.Zero(t, c.Call("arenasim_objects", 3))
		// A device that cannot be used after all keeps nothing.
		c.Call("arenasim_fail", uint64(vmm.OpGranularity), 1, 0)
		_, err = s.Open(0, "")
		require.Error(t, err)
		assert.Zero(t, c.Call("arenasim_objects", 3))
	}
	assert.NotZero(t, chosen, "no driver chooses among devices")
}

// refused says that a driver did not take an argument.
func refused(t *testing.T, err error, what string) {
	t.Helper()
	assert.ErrorIs(t, err, vmm.ClassInvalidArgument, what)
}

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(value T, err error) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

func TestSimulatorReservations(t *testing.T) {
	onSimulators(t, func(t *testing.T, d vmm.Driver, _ *simtest.Simulator) {
		t.Helper()
		for _, wrong := range [][2]uint64{{0, 0}, {1, 0}, {granule + 1, 0}, {granule, 3}} {
			_, err := d.Reserve(wrong[0], wrong[1], 0)
			refused(t, err, "a size or an alignment")
		}
		va := must[uint64](t)(d.Reserve(4*granule, 8*granule, 0))
		assert.Zero(t, va%(8*granule))
		refused(t, d.Unreserve(va, granule), "a part")
		refused(t, d.Unreserve(va+granule, 3*granule), "the end")
		handle := must[uint64](t)(d.Create(granule, vmm.HandleTypeNone, false))
		require.NoError(t, d.Map(va+granule, granule, handle))
		refused(t, d.Unreserve(va, 4*granule), "with something mapped")
		require.NoError(t, d.Unmap(va+granule, granule))
		require.NoError(t, d.Unreserve(va, 4*granule))
		refused(t, d.Unreserve(va, 4*granule), "twice")
		hinted := must[uint64](t)(d.Reserve(4*granule, 0, va))
		assert.Equal(t, va, hinted)
		other := must[uint64](t)(d.Reserve(4*granule, 0, va))
		assert.NotEqual(t, va, other, "a hint that is taken")
	})
}

func TestSimulatorMappings(t *testing.T) {
	onSimulators(t, func(t *testing.T, d vmm.Driver, c *simtest.Simulator) {
		t.Helper()
		va := must[uint64](t)(d.Reserve(8*granule, 0, 0))
		for _, wrong := range []uint64{0, 1, granule / 2} {
			_, err := d.Create(wrong, vmm.HandleTypeNone, false)
			refused(t, err, "a size")
		}
		handle := must[uint64](t)(d.Create(2*granule, vmm.HandleTypeNone, false))
		refused(t, d.Map(va+granule/2, 2*granule, handle), "an address that is not aligned")
		refused(t, d.Map(va, 4*granule, handle), "beyond the handle")
		refused(t, d.Map(va+7*granule, 2*granule, handle), "beyond the reservation")
		refused(t, d.Map(4096*granule, 2*granule, handle), "outside any reservation")
		refused(t, d.Map(va, 2*granule, handle+99), "no handle")
		require.NoError(t, d.Map(va, 2*granule, handle))
		refused(t, d.Map(va+granule, granule, handle), "where something is mapped")
		require.NoError(t, d.Map(va+2*granule, granule, handle), "one handle at two addresses, and a part from its start on")
		refused(t, d.Grant(va, granule, 0), "a part of a mapping")
		refused(t, d.Grant(va, 4*granule, 0), "a hole")
		refused(t, d.Grant(va, 2*granule, 9), "no device")
		require.NoError(t, d.Grant(va, 3*granule, 0), "several mappings side by side")
		refused(t, d.Unmap(va, granule), "a part of a mapping")
		refused(t, d.Unmap(va+3*granule, granule), "nothing")
		require.NoError(t, d.Release(handle))
		refused(t, d.Release(handle), "a handle that is gone")
		assert.Equal(t, []uint64{0, 2}, []uint64{c.Call("arenasim_objects", 1), c.Call("arenasim_objects", 2)}, "memory lives while it is mapped")
		fill(va)
		require.NoError(t, d.Unmap(va, 3*granule), "several whole mappings")
		assert.Zero(t, c.Call("arenasim_objects", 2))
	})
}

func fill(va uint64) { *(*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&va))) = 1 }

// touch reads a byte and tells whether that faulted.
func touch(va uint64) (faulted bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { faulted = recover() != nil }()
	_ = *(*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&va)))
	return false
}

func TestSimulatorAccess(t *testing.T) {
	onSimulators(t, func(t *testing.T, d vmm.Driver, _ *simtest.Simulator) {
		t.Helper()
		va := must[uint64](t)(d.Reserve(granule, 0, 0))
		handle := must[uint64](t)(d.Create(granule, vmm.HandleTypeNone, false))
		memory := make([]byte, 64)
		assert.True(t, touch(va), "reserved only")
		require.NoError(t, d.Map(va, granule, handle))
		assert.True(t, touch(va), "mapped only")
		refused(t, d.CopyToHost(memory, va), "a copy without access")
		require.NoError(t, d.Grant(va, granule, 0))
		assert.False(t, touch(va))
		require.NoError(t, d.CopyToHost(memory, va))
		assert.Equal(t, byte(0xa5), memory[0], "new memory is not zeroed")
		require.NoError(t, d.CopyFromHost(va, []byte("what is copied there")))
		require.NoError(t, d.CopyToHost(memory, va))
		assert.Equal(t, "what is copied there", string(memory[:20]))
		refused(t, d.CopyToHost(memory, va+granule-1), "beyond the end")
		require.NoError(t, d.Unmap(va, granule))
		assert.True(t, touch(va), "unmapped")
	}, vmm.OpCopyToHost, vmm.OpCopyFromHost)
}

func TestSimulatorExports(t *testing.T) {
	onSimulators(t, func(t *testing.T, d vmm.Driver, _ *simtest.Simulator) {
		t.Helper()
		plain := must[uint64](t)(d.Create(granule, vmm.HandleTypeNone, false))
		_, err := d.ExportFD(plain)
		refused(t, err, "a handle that was not created for that")
		handle := must[uint64](t)(d.Create(granule, vmm.HandleTypePosixFD, false))
		fd := must[int](t)(d.ExportFD(handle))
		defer func() { assert.NoError(t, os.NewFile(uintptr(fd), "memory").Close()) }()
		again := must[uint64](t)(d.ImportFD(fd))
		va := must[uint64](t)(d.Reserve(2*granule, 0, 0))
		require.NoError(t, d.Map(va, granule, handle))
		require.NoError(t, d.Map(va+granule, granule, again))
		require.NoError(t, d.Grant(va, 2*granule, 0))
		require.NoError(t, d.CopyFromHost(va, []byte("shared")))
		memory := make([]byte, 6)
		require.NoError(t, d.CopyToHost(memory, va+granule))
		assert.Equal(t, "shared", string(memory))
		retained := must[uint64](t)(d.Retain(va + 100))
		assert.Equal(t, handle, retained)
		require.NoError(t, d.Release(handle))
		require.NoError(t, d.Release(handle), "it was retained once")
		refused(t, d.Release(handle), "and not twice")
	}, vmm.OpExportFD, vmm.OpImportFD, vmm.OpRetain, vmm.OpCopyToHost, vmm.OpCopyFromHost)
}

func TestSimulatorExportsOfRanges(t *testing.T) {
	onSimulators(t, func(t *testing.T, d vmm.Driver, _ *simtest.Simulator) {
		t.Helper()
		va := must[uint64](t)(d.Reserve(granule, 0, 0))
		_, err := d.ExportDmabuf(va, granule, false)
		refused(t, err, "what is not mapped")
		require.NoError(t, d.Map(va, granule, must[uint64](t)(d.Create(granule, vmm.HandleTypeNone, false))))
		require.NoError(t, d.Grant(va, granule, 0))
		dmabuf := must[int](t)(d.ExportDmabuf(va, granule, false))
		require.NoError(t, os.NewFile(uintptr(dmabuf), "dmabuf").Close())
		_, err = d.ExportDmabuf(va+1, granule, false)
		refused(t, err, "an address within a page")
	}, vmm.OpExportDmabuf)
}

func TestSimulatorFaults(t *testing.T) {
	onSimulators(t, func(t *testing.T, d vmm.Driver, c *simtest.Simulator) {
		t.Helper()
		_, err := d.Create(1, vmm.HandleTypeNone, false)
		failed := new(vmm.Error)
		require.ErrorAs(t, err, &failed)
		require.Equal(t, uint64(1), c.CallWith("arenasim_fail_function", failed.Function, 2, 4242))
		must[uint64](t)(d.Create(granule, vmm.HandleTypeNone, false))
		_, err = d.Create(granule, vmm.HandleTypeNone, false)
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, int64(4242), failed.Code)
		assert.Equal(t, vmm.ClassUnknown, failed.Class)
		assert.ErrorContains(t, err, "a code without a name, 4242")
		must[uint64](t)(d.Create(granule, vmm.HandleTypeNone, false))

		require.Equal(t, uint64(1), c.Call("arenasim_fail", uint64(vmm.OpReserve), 0, uint64(vmm.ClassOutOfMemory)))
		for range 3 {
			_, err := d.Reserve(granule, 0, 0)
			require.ErrorIs(t, err, vmm.ClassOutOfMemory)
		}
		c.Call("arenasim_fail_not")
		must[uint64](t)(d.Reserve(granule, 0, 0))
	})
}

func TestSimulatorQuirks(t *testing.T) {
	onSimulators(t, func(t *testing.T, d vmm.Driver, c *simtest.Simulator) {
		t.Helper()
		c.Set("capacity", 4*granule)
		_, err := d.Create(8*granule, vmm.HandleTypeNone, false)
		require.ErrorIs(t, err, vmm.ClassOutOfMemory)
		va := must[uint64](t)(d.Reserve(4*granule, 0, 0))
		handle := must[uint64](t)(d.Create(granule, vmm.HandleTypeNone, false))

		c.Set("map_does_nothing", 1)
		require.NoError(t, d.Map(va, granule, handle))
		refused(t, d.Grant(va, granule, 0), "what was not mapped")
		c.Set("map_does_nothing", 0)

		c.Set("grant_fails_on_tail", 1)
		require.NoError(t, d.Map(va+granule, granule, handle))
		refused(t, d.Grant(va+granule, granule, 0), "a tail")
		c.Set("grant_fails_on_tail", 0)

		c.Set("reserve_gives_null", 1)
		assert.Zero(t, must[uint64](t)(d.Reserve(granule, 0, 0)))
		c.Set("reserve_gives_null", 0)

		require.NoError(t, d.Release(handle))

		c.Set("mapping_limit", 1)
		more := must[uint64](t)(d.Create(granule, vmm.HandleTypeNone, false))
		require.NoError(t, d.Map(va, granule, more))
		require.NoError(t, d.Grant(va, granule, 0))
		assert.ErrorIs(t, d.Grant(va+granule, granule, 0), vmm.ClassOutOfMemory)
	})
}

func TestSimulatorRetainsWithoutAReference(t *testing.T) {
	onSimulators(t, func(t *testing.T, d vmm.Driver, c *simtest.Simulator) {
		t.Helper()
		va := must[uint64](t)(d.Reserve(granule, 0, 0))
		handle := must[uint64](t)(d.Create(granule, vmm.HandleTypeNone, false))
		require.NoError(t, d.Map(va, granule, handle))
		c.Set("retain_takes_no_reference", 1)
		assert.Equal(t, handle, must[uint64](t)(d.Retain(va)))
		require.NoError(t, d.Release(handle))
		refused(t, d.Release(handle), "no reference was taken")
	}, vmm.OpRetain)
}

// granted says which of the first three devices have access at an address.
func granted(c *simtest.Simulator, va uint64) [3]uint64 {
	return [3]uint64{c.Call("arenasim_granted", va, 0), c.Call("arenasim_granted", va, 1), c.Call("arenasim_granted", va, 2)}
}

func TestSimulatorGrantsToDevices(t *testing.T) {
	onSimulators(t, func(t *testing.T, d vmm.Driver, c *simtest.Simulator) {
		t.Helper()
		c.Set("devices", 3)
		c.Set("mapping_limit", 2)
		va := must[uint64](t)(d.Reserve(3*granule, 0, 0))
		handle := must[uint64](t)(d.Create(granule, vmm.HandleTypeNone, false))
		for i := range uint64(3) {
			require.NoError(t, d.Map(va+i*granule, granule, handle))
		}
		assert.Equal(t, [3]uint64{}, granted(c, va), "mapped only")

		require.NoError(t, d.Grant(va, granule, 2))
		assert.Equal(t, [3]uint64{0, 0, 1}, granted(c, va+granule-1))
		assert.Equal(t, [3]uint64{}, granted(c, va+granule), "the next mapping")
		assert.False(t, touch(va), "the CPU has what any device has")
		refused(t, d.CopyToHost(make([]byte, 1), va+granule), "a copy of what no device has")

		require.NoError(t, d.Grant(va, 2*granule, 0))
		assert.Equal(t, [3]uint64{1, 0, 1}, granted(c, va))
		assert.Equal(t, [3]uint64{1, 0, 0}, granted(c, va+granule))
		require.NoError(t, d.Grant(va, granule, 1), "a further device takes no further mapping")
		assert.ErrorIs(t, d.Grant(va+2*granule, granule, 0), vmm.ClassOutOfMemory)

		refused(t, d.Grant(va, granule, 3), "no device")
		assert.Zero(t, c.Call("arenasim_granted", va, 3))
		assert.Zero(t, c.Call("arenasim_granted", va, 64), "beyond any device")
		assert.Zero(t, c.Call("arenasim_granted", va+3*granule, 0), "nothing there")
		require.NoError(t, d.Unmap(va, granule))
		assert.Equal(t, [3]uint64{}, granted(c, va))
		require.NoError(t, d.Map(va, granule, handle))
		assert.Equal(t, [3]uint64{}, granted(c, va), "a new mapping has none of the old one's")
	}, vmm.OpCopyToHost)
}

func TestSimulatorRefusesAPeer(t *testing.T) {
	onSimulators(t, func(t *testing.T, d vmm.Driver, c *simtest.Simulator) {
		t.Helper()
		va := must[uint64](t)(d.Reserve(granule, 0, 0))
		handle := must[uint64](t)(d.Create(granule, vmm.HandleTypeNone, false))
		require.NoError(t, d.Map(va, granule, handle))
		for other, device := range []int{1, 0} {
			c.Set("peer_refused", uint64(device)+1)
			require.NoError(t, d.Grant(va, granule, other))
			for range 2 {
				require.ErrorIs(t, d.Grant(va, granule, device), vmm.ClassNotSupported)
			}
		}
		assert.Equal(t, [3]uint64{1, 1, 0}, granted(c, va), "each before it was refused")
		c.Set("peer_refused", 0)
		require.NoError(t, d.Grant(va, granule, 1))
	})
}

// allOperations makes a call of each operation that can have a cost, and returns how long each took.
func allOperations(t *testing.T, d vmm.Driver, size uint64) map[string]time.Duration {
	t.Helper()
	took := map[string]time.Duration{}
	timed := func(name string, call func() error) {
		began := time.Now()
		err := call()
		took[name] = time.Since(began)
		require.NoError(t, err, name)
	}
	var va, handle uint64
	timed("reserve", func() (err error) { va, err = d.Reserve(size, 0, 0); return err })
	timed("create", func() (err error) { handle, err = d.Create(size, vmm.HandleTypeNone, false); return err })
	timed("map", func() error { return d.Map(va, size, handle) })
	timed("grant", func() error { return d.Grant(va, size, 0) })
	timed("unmap", func() error { return d.Unmap(va, size) })
	timed("release", func() error { return d.Release(handle) })
	require.NoError(t, d.Unreserve(va, size))
	return took
}

// Each operation costs what it is told to, and the others do not.
func TestSimulatorCosts(t *testing.T) {
	const cost, mibs = 60 * time.Millisecond, 4
	onSimulators(t, func(t *testing.T, d vmm.Driver, c *simtest.Simulator) {
		t.Helper()
		for setting, costly := range map[string]string{
			"cost_reserve": "reserve", "cost_create": "create", "cost_map": "map", "cost_grant": "grant", "cost_unmap": "unmap",
			"cost_release": "release", "cost_grant_mib": "grant", "cost_release_mib": "release",
		} {
			value := cost
			if strings.HasSuffix(setting, "_mib") {
				value /= mibs
			}
			c.Set(setting, uint64(value))
			for name, took := range allOperations(t, d, mibs<<20) {
				if name == costly {
					assert.GreaterOrEqual(t, took, cost, setting)
				}
			}
			c.Set(setting, 0)
		}
	})
}

// The environment can set what calls cost, and names no cost that there is not.
func TestSimulatorCostsFromTheEnvironment(t *testing.T) {
	for settings, status := range map[string]string{
		"cost_reserve=100000000,cost_create=1,cost_map=1,cost_grant=1,cost_unmap=1,cost_release=1,cost_grant_mib=1,cost_release_mib=1,peer_refused=2": "ok",
		"cost_nothing=1": "unavailable",
	} {
		host := &arenatest.Hosted{
			Program: arenatest.CompileHost(t, filepath.Join(out, "include")), Library: filepath.Join(out, "lib", "libarenagen_cuda.so"),
			Env: []string{cuda.Override + "=" + filepath.Join(out, "sim", "libcuda.so.1"), "ARENASIM=" + settings},
		}
		session := host.Start(t)
		began := time.Now()
		answer := session.Do("create", 64<<20, 0, 0, 0, 0)
		assert.Equal(t, status, answer.Status, answer.Text)
		if status == "ok" {
			assert.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond)
		}
	}
}

// A device reports what its driver does wrong, and does not go on as if nothing were.
func TestDevicesOnFaultyDrivers(t *testing.T) {
	for _, s := range simulators(t) {
		t.Run(s.Name, func(t *testing.T) {
			c := s.load(t)
			for setting, op := range map[string]func(*vmm.Device) error{
				"reserve_gives_null":  func(d *vmm.Device) error { _, err := d.Reserve(granule, granule, 0); return err },
				"map_does_nothing":    func(d *vmm.Device) error { _, err := d.Probe(); return err },
				"grant_fails_on_tail": func(d *vmm.Device) error { return secondGrant(d) },
			} {
				c.Reset()
				device, err := s.Open(0, "")
				require.NoError(t, err)
				c.Set(setting, 1)
				err = op(device)
				if setting == "grant_fails_on_tail" && device.Driver().Capabilities().MapGrants {
					require.NoError(t, err, "nothing is granted")
					continue
				}
				require.Error(t, err, setting)
				failed := new(vmm.Error)
				require.ErrorAs(t, err, &failed)
				c.Reset()
			}
		})
	}
}

// secondGrant allocates twice in one reservation.
func secondGrant(d *vmm.Device) error {
	va, err := d.Reserve(2*granule, granule, 0)
	if err != nil {
		return err
	}
	_, first := d.Allocate(va, granule)
	_, second := d.Allocate(va+granule, granule)
	if first != nil {
		return errors.New("the first allocation failed too")
	}
	return second
}
