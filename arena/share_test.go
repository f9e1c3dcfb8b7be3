package arena_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena"
	"github.com/arenagen/arenagen/arena/vmm"
)

func closeFD(t *testing.T, fd int) {
	t.Helper()
	require.True(t, isOpen(fd), "the descriptor is the caller's")
	require.NoError(t, syscall.Close(fd))
}

// openFDs is how many descriptors that the rig gave out are still open.
func (d *rig) openFDs() (count int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for fd := range d.fds {
		if isOpen(fd) {
			count++
		}
	}
	return count
}

func TestExportOfARegion(t *testing.T) {
	d := newRig(t)
	a := openRig(t, d, arena.Config{})
	vas := mallocs(t, a, 2)
	fd, err := a.ExportFD(vas[1])
	require.NoError(t, err)
	assert.Equal(t, handleOf(t, a, vas[1]), d.fds[fd])
	closeFD(t, fd)
	fabric, err := a.ExportFabric(vas[0])
	require.NoError(t, err)
	assert.Equal(t, byte(handleOf(t, a, vas[0])), fabric[0])
	assert.Equal(t, byte(1), fabric[63])

	require.NoError(t, a.Free(vas[1]))
	for name, va := range map[string]uint64{
		"freed": vas[1], "inside": vas[0] + granule/2, "never": base + 40*granule, "below": base - granule, "nothing": 0, "beyond": base + a.Total(),
	} {
		_, err = a.ExportFD(va)
		require.ErrorIs(t, err, arena.ErrNotMapped, name)
		_, err = a.ExportFabric(va)
		require.ErrorIs(t, err, arena.ErrNotMapped, name)
	}
	assert.Equal(t, 1, d.called(vmm.OpExportFD), "the driver was not asked")
	require.NoError(t, a.Close())
	_, err = a.ExportFD(vas[0])
	require.ErrorIs(t, err, arena.ErrClosed)
	require.NoError(t, a.Release())
}

func TestExportOfSlabs(t *testing.T) {
	for _, p := range []arena.Placement{arena.Slab(slabSize), arena.Single()} {
		d := newRig(t)
		a := openRig(t, d, arena.Config{Placement: p})
		one, two := malloc(t, a, 1000), malloc(t, a, 1000)
		region := regionsOf(t, a, arena.RegionsPosixFD)[0]
		fd, err := a.ExportFD(region.Base)
		require.NoError(t, err)
		assert.Equal(t, region.Handle, d.fds[fd])
		closeFD(t, fd)
		assert.Equal(t, region.Base, one)
		_, err = a.ExportFD(two)
		require.ErrorIs(t, err, arena.ErrNotMapped, "no region begins there")
		require.NoError(t, a.Release())
	}
}

func TestExportThatTheDriverFails(t *testing.T) {
	d := newRig(t)
	a := openRig(t, d, arena.Config{})
	va := malloc(t, a, 1)
	d.fail(vmm.OpExportFD, 1, errDriver)
	_, err := a.ExportFD(va)
	require.ErrorIs(t, err, errDriver)
	d.fail(vmm.OpExportFabric, 1, errDriver)
	_, err = a.ExportFabric(va)
	require.ErrorIs(t, err, errDriver)
	fd, err := a.ExportFD(va)
	require.NoError(t, err)
	closeFD(t, fd)
	require.NoError(t, a.Free(va))
	assert.Zero(t, a.SharedHandles(), "where nothing is cached nothing is remembered")
	require.NoError(t, a.Release())
}

func TestRegionThatIsFreedDuringItsExport(t *testing.T) {
	for name, again := range map[string]bool{"freed": false, "freed and mapped again": true} {
		for _, config := range []arena.Config{{Reuse: true}, {Reuse: true, Placement: arena.Slab(granule)}} {
			t.Run(fmt.Sprint(name, "/", config.Placement), func(t *testing.T) {
				d := newRig(t)
				a := openRig(t, d, config)
				va := malloc(t, a, 1)
				handles, _ := d.left()
				require.Equal(t, 1, handles)
				d.before[vmm.OpExportFD] = func() {
					// The driver gives the handle away although it goes: as if the free came a little later.
					d.mu.Lock()
					keep := d.last
					d.mu.Unlock()
					assert.NoError(t, a.Free(va))
					if again {
						assert.Equal(t, va, malloc(t, a, 1))
					}
					d.mu.Lock()
					d.handles[keep] = granule
					d.mu.Unlock()
				}
				_, err := a.ExportFD(va)
				require.ErrorIs(t, err, arena.ErrNotMapped)
				assert.Len(t, d.fds, 1)
				assert.Zero(t, d.openFDs(), "it was closed")
				require.NoError(t, a.Release())
			})
		}
	}
}

func TestWhatWasExportedIsNotCached(t *testing.T) {
	for name, export := range map[string]func(a *arena.Arena, va uint64) error{
		"fd": func(a *arena.Arena, va uint64) error {
			fd, err := a.ExportFD(va)
			if err != nil {
				return err
			}
			return syscall.Close(fd)
		},
		"fabric": func(a *arena.Arena, va uint64) error { _, err := a.ExportFabric(va); return err },
	} {
		t.Run(name, func(t *testing.T) {
			d := newRig(t)
			a := openRig(t, d, arena.Config{Cache: 8 * granule})
			vas := mallocs(t, a, 2)
			require.NoError(t, export(a, vas[0]))
			assert.Equal(t, 1, a.SharedHandles())
			require.NoError(t, a.Free(vas[0]))
			require.NoError(t, a.Free(vas[1]))
			assert.Equal(t, uint64(1), a.CacheStats().Kept, "only the other one")
			assert.Zero(t, a.SharedHandles(), "nothing grows")
			require.NoError(t, a.Release())
		})
	}
}

func TestExportDmabuf(t *testing.T) {
	d := newRig(t)
	a := openRig(t, d, arena.Config{})
	vas := mallocs(t, a, 4)
	fd, err := a.ExportDmabuf(vas[0], 4*granule, true)
	require.NoError(t, err, "over several handles")
	closeFD(t, fd)
	require.NoError(t, a.Free(vas[2]))
	for _, bad := range []struct{ va, size uint64 }{
		{vas[1], 2 * granule}, {vas[2], granule}, {vas[0], 3 * granule}, {vas[3], 2 * granule}, {base - granule, granule}, {vas[3] + granule, granule},
		{vas[0], 1<<64 - granule},
	} {
		_, err = a.ExportDmabuf(bad.va, bad.size, false)
		require.ErrorIs(t, err, arena.ErrNotMapped)
	}
	for _, bad := range []struct{ va, size uint64 }{{vas[0], 0}, {vas[0] + 1, granule}, {vas[0], granule + 1}} {
		_, err = a.ExportDmabuf(bad.va, bad.size, false)
		require.ErrorIs(t, err, arena.ErrInvalidArgument)
	}
	fd, err = a.ExportDmabuf(vas[3], granule, false)
	require.NoError(t, err)
	closeFD(t, fd)
	require.NoError(t, a.Release())
}

func TestExportsThatMemoryHas(t *testing.T) {
	for name, tc := range map[string]struct {
		kind   vmm.HandleType
		dmabuf bool
		want   arena.Exports
	}{
		"fd":         {vmm.HandleTypePosixFD, false, arena.ExportsPosixFD},
		"fabric":     {vmm.HandleTypeFabric, true, arena.ExportsFabric | arena.ExportsDmabuf},
		"none":       {vmm.HandleTypeNone, false, 0},
		"dmabuf too": {vmm.HandleTypePosixFD, true, arena.ExportsPosixFD | arena.ExportsDmabuf},
	} {
		t.Run(name, func(t *testing.T) {
			d := newRig(t)
			d.kind, d.dmabuf = tc.kind, tc.dmabuf
			a := openRig(t, d, arena.Config{})
			mallocs(t, a, 2)
			for kind := arena.RegionsDmabuf; kind <= arena.RegionsIPC; kind++ {
				for _, r := range regionsOf(t, a, kind) {
					assert.Equal(t, tc.want, r.Exports)
				}
			}
			assert.Equal(t, 1, d.called(vmm.OpExportDmabuf), "it was tried once")
			assert.Zero(t, d.openFDs(), "what was tried is closed")
			require.NoError(t, a.Release())
		})
	}
}

// A failure that may be about one mapping decides nothing.
func TestDmabufTrialThatDecidesNothing(t *testing.T) {
	d := newRig(t)
	a := openRig(t, d, arena.Config{})
	malloc(t, a, 1)
	d.fail(vmm.OpExportDmabuf, 1, vmm.ClassInvalidArgument)
	assert.Equal(t, arena.ExportsPosixFD, regionsOf(t, a, arena.RegionsIPC)[0].Exports)
	assert.Equal(t, arena.ExportsPosixFD|arena.ExportsDmabuf, regionsOf(t, a, arena.RegionsIPC)[0].Exports)
	require.NoError(t, a.Release())
}

func TestImport(t *testing.T) {
	for _, p := range []arena.Placement{arena.PerAllocation(), arena.Slab(slabSize)} {
		t.Run(p.String(), func(t *testing.T) {
			d := newRig(t)
			a := openRig(t, d, arena.Config{Cache: 64 * granule, Peers: []int{3}, Placement: p, Events: 100})
			fd := d.descriptor()
			va, err := a.ImportFD(fd, granule-1)
			require.NoError(t, err)
			closeFD(t, fd)
			assert.True(t, d.reaches(va, 0))
			assert.True(t, d.reaches(va, 3))
			other, err := a.ImportFabric(arena.FabricHandle{1}, 1)
			require.NoError(t, err)
			assert.Equal(t, uint64(2*granule), a.Mapped())
			s := a.Stats()
			assert.Equal(t, uint64(2), s.Live)
			events, _ := a.Events(0, 100)
			assert.Equal(t, arena.EventImported, events[1].Kind)
			require.NoError(t, a.Free(va))
			require.NoError(t, a.Free(other))
			assert.Zero(t, a.CacheStats().Kept, "another process has it")
			handles, mappings := d.left()
			assert.Zero(t, handles+mappings)
			assertBalance(t, a.Stats())
			require.NoError(t, a.Release())
		})
	}
}

func TestImportedMemoryIsAloneInRuns(t *testing.T) {
	d := newRig(t)
	a := openRig(t, d, arena.Config{})
	fd := d.descriptor()
	defer closeFD(t, fd)
	mallocs(t, a, 2)
	for range 2 {
		_, err := a.ImportFD(fd, 1)
		require.NoError(t, err)
	}
	mallocs(t, a, 2)
	assert.Equal(t, [][2]uint64{{0, 2}, {2, 3}, {3, 4}, {4, 6}}, bare(regionsOf(t, a, arena.RegionsDmabuf)))
	assert.Len(t, regionsOf(t, a, arena.RegionsIPC), 6)
	require.NoError(t, a.Release())
}

func TestImportThatFailsLeavesNothing(t *testing.T) {
	for name, step := range map[string]struct {
		op  vmm.Op
		nth int
	}{
		"import": {vmm.OpImportFD, 1}, "map": {vmm.OpMap, 1}, "own grant": {vmm.OpGrant, 1}, "grant of a peer": {vmm.OpGrant, 2},
	} {
		for _, reuse := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reuse %t", name, reuse), func(t *testing.T) {
				d := newRig(t)
				a := openRig(t, d, arena.Config{Peers: []int{3}, Reuse: reuse, Cache: 8 * granule})
				fd := d.descriptor()
				d.fail(step.op, step.nth, errDriver)
				_, err := a.ImportFD(fd, 1)
				require.ErrorIs(t, err, errDriver)
				closeFD(t, fd)
				handles, mappings := d.left()
				assert.Zero(t, handles+mappings)
				s := a.Stats()
				assert.Equal(t, uint64(1), s.Failed)
				assert.Zero(t, s.Live+s.Created+s.Mapped)
				assert.Equal(t, uint64(granule), registered(t, a), "a hole")
				want := uint64(base + granule)
				if reuse {
					want = base
				}
				assert.Equal(t, want-base, malloc(t, a, 1)-base)
				require.NoError(t, a.Release())
			})
		}
	}
}

func TestImportThatIsRefused(t *testing.T) {
	d := newRig(t)
	a := openRig(t, d, arena.Config{})
	for _, size := range []int64{0, -1} {
		_, err := a.ImportFD(0, size)
		require.ErrorIs(t, err, arena.ErrInvalidArgument)
	}
	_, err := a.ImportFD(0, 1<<62)
	require.ErrorIs(t, err, arena.ErrExhausted)
	assert.Equal(t, uint64(3), a.Stats().Refused)
	require.NoError(t, a.Close())
	_, err = a.ImportFD(0, 1)
	require.ErrorIs(t, err, arena.ErrClosed)
	assert.Zero(t, d.called(vmm.OpImportFD))
	require.NoError(t, a.Release())

	f := newFake(t)
	b := open(t, f, 16)
	va := malloc(t, b, 1)
	_, err = b.ImportFD(0, 1)
	require.ErrorIs(t, err, vmm.ClassNotSupported)
	_, err = b.ExportFD(va)
	require.ErrorIs(t, err, vmm.ClassNotSupported)
	_, err = b.ExportDmabuf(va, granule, false)
	require.ErrorIs(t, err, vmm.ClassNotSupported)
	require.NoError(t, b.Release())
}

func TestSharingOfALostDevice(t *testing.T) {
	d := newRig(t)
	a := openRig(t, d, arena.Config{})
	va := malloc(t, a, 1)
	d.fail(vmm.OpImportFD, 1, &vmm.Error{Class: vmm.ClassDeviceLost})
	fd := d.descriptor()
	defer closeFD(t, fd)
	_, err := a.ImportFD(fd, 1)
	require.ErrorIs(t, err, vmm.ClassDeviceLost)
	_, err = a.ImportFD(fd, 1)
	require.ErrorIs(t, err, arena.ErrDeviceLost)
	_, err = a.ExportFD(va)
	require.ErrorIs(t, err, arena.ErrDeviceLost)
	_, err = a.ExportDmabuf(va, granule, false)
	require.ErrorIs(t, err, arena.ErrDeviceLost)
	assert.Equal(t, 1, d.called(vmm.OpImportFD))
	require.ErrorIs(t, a.Close(), arena.ErrDeviceLost)
}

// TestThreadsThatShare has threads allocate, import, export and free. No descriptor is left open that was not handed out.
func TestThreadsThatShare(t *testing.T) {
	each := 300
	if raceEnabled {
		each = 100
	}
	d := newRig(t)
	a := openRig(t, d, arena.Config{Cache: 8 * granule, Reuse: true, Peers: []int{2}})
	d.before[vmm.OpExportFD] = yield
	d.before[vmm.OpUnmap] = yield
	shared := make(chan uint64, 64)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range each {
				var va uint64
				var err error
				if rand.IntN(4) == 0 {
					va, err = a.ImportFabric(arena.FabricHandle{}, 1)
				} else {
					va, err = a.Malloc(1)
				}
				if !assert.NoError(t, err) {
					return
				}
				select {
				case shared <- va:
				default:
				}
				yield()
				assert.NoError(t, a.Free(va))
			}
		})
	}
	over := make(chan struct{})
	exported := background(func() (fds []int) {
		for {
			select {
			case <-over:
				return fds
			case va := <-shared:
				fd, err := a.ExportFD(va)
				if err == nil {
					fds = append(fds, fd)
				} else {
					assert.True(t, errorsIsAny(err, arena.ErrNotMapped, vmm.ClassInvalidArgument), err)
				}
			}
		}
	})
	all.Wait()
	close(over)
	fds := <-exported
	assert.Equal(t, len(fds), d.openFDs())
	for _, fd := range fds {
		closeFD(t, fd)
	}
	assert.Zero(t, a.Live())
	assertCacheBalance(t, a.CacheStats())
	require.NoError(t, a.Close())
	handles, mappings := d.left()
	assert.Zero(t, handles+mappings)
	require.NoError(t, a.Release())
}
