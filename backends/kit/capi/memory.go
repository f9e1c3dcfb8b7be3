package capi

import (
	"encoding/json"
	"math"
	"strings"
	"unsafe"

	"github.com/arenagen/arenagen/arena"
)

// ArenaTrim gives memory back that an arena holds beside its allocations.
func (l *Library) ArenaTrim(handle Arena, keep uint64, released *uint64) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	*released, err = a.Trim(keep)
	return err
}

// ArenaOnOutOfMemory sets what is asked when the device has no memory left.
func (l *Library) ArenaOnOutOfMemory(handle Arena, callback, user uintptr) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	if callback == 0 {
		a.OnOutOfMemory(nil)
		return nil
	}
	a.OnOutOfMemory(func(s arena.Shortage) bool {
		return l.callbacks.ShortageCallback(callback, user, s.Requested, s.Mapped, s.Cached, s.Capacity, uint64(s.Attempt)) == 1
	})
	return nil
}

// ArenaAddPeer lets another device reach an arena's memory.
func (l *Library) ArenaAddPeer(handle Arena, device int32) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	return a.AddPeer(int(device))
}

// regionKinds are the core's kinds for those of the interface.
var regionKinds = map[RegionKind]arena.RegionKind{
	RegionKindDmabuf:  arena.RegionsDmabuf,
	RegionKindPosixFD: arena.RegionsPosixFD,
	RegionKindFabric:  arena.RegionsFabric,
	RegionKindCudaIPC: arena.RegionsIPC,
	RegionKindWhole:   arena.RegionsWhole,
	RegionKindHoles:   arena.RegionsHoles,
}

// ArenaRegions lists what a transport has to register.
func (l *Library) ArenaRegions(handle Arena, kind RegionKind, buffer *Region, capacity uintptr, count *uintptr) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	of, ok := regionKinds[kind]
	if !ok {
		return invalid("kind must be %d to %d, got %d", RegionKindDmabuf, RegionKindHoles, kind)
	}
	regions, err := a.Regions(of)
	if err != nil {
		return err
	}
	*count = uintptr(len(regions))
	if buffer == nil {
		return nil
	}
	if *count > capacity {
		return &BufferTooSmallError{What: "regions", Needed: len(regions), Given: capacity}
	}
	for i, r := range regions {
		unsafe.Slice(buffer, len(regions))[i] = Region{
			Address: r.Base, Length: r.Length, Offset: r.Offset, Handle: r.Handle, Generation: r.Generation,
			Exports: exportsOf(r.Exports),
		}
	}
	return nil
}

// exportsOf are the interface's bits for the core's.
func exportsOf(exports arena.Exports) (kinds ExportKind) {
	for bit, kind := range map[arena.Exports]ExportKind{
		arena.ExportsPosixFD: ExportKindAsPosixFD,
		arena.ExportsFabric:  ExportKindAsFabric,
		arena.ExportsDmabuf:  ExportKindAsDmabuf,
	} {
		if exports&bit != 0 {
			kinds |= kind
		}
	}
	return kinds
}

// ArenaExportFD gives the memory of a region to another process.
func (l *Library) ArenaExportFD(handle Arena, address uintptr, fd *int32) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	number, err := a.ExportFD(uint64(address))
	*fd = int32(number)
	return err
}

// ArenaExportFabric gives the memory of a region to a process of the fabric.
func (l *Library) ArenaExportFabric(handle Arena, address uintptr, fabric *FabricHandle) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	fabric.Bytes, err = a.ExportFabric(uint64(address))
	return err
}

// ArenaExportDmabuf gives mapped memory to another device's driver.
func (l *Library) ArenaExportDmabuf(handle Arena, address uintptr, size uint64, pcie int32, fd *int32) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	if pcie != 0 && pcie != 1 {
		return invalid("pcie must be 0 or 1, got %d", pcie)
	}
	number, err := a.ExportDmabuf(uint64(address), size, pcie == 1)
	*fd = int32(number)
	return err
}

// ArenaImportFD puts another process's memory behind addresses of an arena.
func (l *Library) ArenaImportFD(handle Arena, fd int32, size int64, address *uintptr) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	va, err := a.ImportFD(int(fd), size)
	*address = uintptr(va)
	return err
}

// ArenaImportFabric is ArenaImportFD for a handle of the fabric.
func (l *Library) ArenaImportFabric(handle Arena, fabric *FabricHandle, size int64, address *uintptr) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	va, err := a.ImportFabric(fabric.Bytes, size)
	*address = uintptr(va)
	return err
}

// ArenaEvents reads the events after one of them.
func (l *Library) ArenaEvents(
	handle Arena, stream EventStream, after uint64, buffer *Event, capacity uintptr, count *uintptr, missed *uint64,
) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	read := a.Events
	switch stream {
	case EventStreamAll:
	case EventStreamChanges:
		read = a.Changes
	default:
		return invalid("stream must be %d or %d, got %d", EventStreamAll, EventStreamChanges, stream)
	}
	events, before := read(after, int(min(capacity, math.MaxInt32)))
	*count, *missed = uintptr(len(events)), before
	for i, e := range events {
		unsafe.Slice(buffer, len(events))[i] = Event{
			Sequence: e.Seq, Time: uint64(e.Time), Address: e.Address, Size: e.Size, Handle: e.Handle, Took: uint64(e.Took),
			// The two have the same numbers.
			Kind: EventKind(e.Kind), Tag: uint32(e.Tag),
		}
	}
	return nil
}

// ArenaSetTag sets what later allocations are counted under.
func (l *Library) ArenaSetTag(handle Arena, tag uint32) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	return a.SetTag(arena.Tag(min(tag, math.MaxUint8)))
}

// ArenaTagStats reads the counters of a tag.
func (l *Library) ArenaTagStats(handle Arena, tag uint32, stats *TagStats) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	t, err := a.Tag(arena.Tag(min(tag, math.MaxUint8)))
	if err != nil {
		return err
	}
	*stats = TagStats{StructSize: stats.StructSize, Tag: tag, Live: t.Live, Mapped: t.Mapped, PeakMapped: t.PeakMapped}
	return nil
}

// ArenaResetPeaks has an arena's peaks start over.
func (l *Library) ArenaResetPeaks(handle Arena) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	a.ResetPeaks()
	return nil
}

// ArenaSnapshot writes an arena's counters as JSON.
func (l *Library) ArenaSnapshot(handle Arena, buffer *byte, capacity uintptr, length *uintptr) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	text, err := json.Marshal(a.Snapshot())
	if err != nil {
		return err
	}
	return give(string(text), buffer, capacity, length)
}

// ArenaTrace writes an arena's events as JSON.
func (l *Library) ArenaTrace(handle Arena, buffer *byte, capacity uintptr, length *uintptr) error {
	a, err := l.arena(handle)
	if err != nil {
		return err
	}
	var text strings.Builder
	if err := a.WriteTrace(&text); err != nil {
		return err
	}
	return give(text.String(), buffer, capacity, length)
}

// DeviceStats adds the counters of a device's arenas up.
func (l *Library) DeviceStats(device int32, totals *DeviceTotals) error {
	t := l.router.DeviceTotals(int(device))
	*totals = DeviceTotals{
		StructSize: totals.StructSize, Device: device, Arenas: uint64(t.Arenas), Used: t.Used, Mapped: t.Mapped, Live: t.Live,
		Handles: t.Handles, Held: t.Held, Failed: t.Failed, OtherDeviceFrees: t.OtherDeviceFrees,
	}
	return nil
}
