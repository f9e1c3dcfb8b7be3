package hostvmm

import "golang.org/x/sys/unix"

// protections are the kernel's numbers for an access.
var protections = map[int32]int{
	AccessNone:      unix.PROT_NONE,
	AccessRead:      unix.PROT_READ,
	AccessReadWrite: unix.PROT_READ | unix.PROT_WRITE,
}

// A host is a device with real memory.
type host struct {
	space
	store store
}

func newHost(rules rules) *host {
	return &host{space: newSpace(rules), store: newStore(rules.capacity)}
}

func (d *host) memCreate(size uint64, handleType int32, flags uint64) (uint64, Result) {
	if r := d.checkCreate(size, handleType, flags); r != Success {
		return 0, r
	}
	return d.store.create(size, handleType == HandleTypePosixFD)
}

func (d *host) memRelease(handle uint64) Result {
	return d.store.release(handle)
}

func (d *host) memMap(va, size, offset, handle, flags uint64) Result {
	if r := d.checkMap(va, size, offset, handle, flags); r != Success {
		return r
	}
	return d.inside(va, size, func(r span[*reservation]) Result {
		if !r.value.mappings.isFree(va, size) {
			return ErrorInvalidValue
		}
		m, ok := d.store.refer(handle, size)
		if !ok {
			return ErrorInvalidValue
		}
		if result := d.mapInto(r, span[*memory]{start: va, size: size, value: m}); result != Success {
			return firstFailure(result, d.store.drop(m))
		}
		return Success
	})
}

func (d *host) mapInto(r span[*reservation], mapping span[*memory]) Result {
	more := gapsBeside(r, mapping.start, mapping.size)
	if !d.budget.take(more) {
		return ErrorOutOfMemory
	}
	if err := remap(mapping.start, mapping.size, mapping.value.backing()); err != nil {
		d.budget.give(more)
		return resultOf(err)
	}
	r.value.mappings.insert(mapping)
	return Success
}

func (d *host) memUnmap(va, size uint64) Result {
	if r := d.checkRange(va, size); r != Success {
		return r
	}
	var unmapped []*memory
	result := d.inside(va, size, func(r span[*reservation]) Result {
		i, j, ok := r.value.mappings.run(va, size)
		if !ok {
			return ErrorInvalidValue
		}
		if err := remap(va, size, nothing); err != nil {
			return resultOf(err)
		}
		for _, mapping := range r.value.mappings[i:j] {
			unmapped = append(unmapped, mapping.value)
		}
		r.value.mappings.remove(i, j)
		d.budget.give(int64(j-i) - 1 + gapsBeside(r, va, size))
		return Success
	})
	for _, m := range unmapped {
		result = firstFailure(result, d.store.drop(m))
	}
	return result
}

func (d *host) memSetAccess(va, size uint64, access, device int32) Result {
	if r := d.checkAccess(va, size, access, device); r != Success {
		return r
	}
	return d.inside(va, size, func(r span[*reservation]) Result {
		if _, _, ok := r.value.mappings.run(va, size); !ok {
			return ErrorInvalidValue
		}
		return resultOf(mprotect(va, size, protections[access]))
	})
}

func (d *host) memGetInfo() (free, total uint64, r Result) {
	if total, r = d.total(); r != Success {
		return 0, 0, r
	}
	_, created := d.store.usage()
	return total - min(created, total), total, Success
}

func (d *host) memExportToShareableHandle(handle uint64, handleType int32, flags uint64) (int32, Result) {
	if r := d.checkExport(handle, handleType, flags); r != Success {
		return 0, r
	}
	return d.store.export(handle)
}

func (d *host) memImportFromShareableHandle(fd, handleType int32) (uint64, Result) {
	if r := d.checkImport(handleType); r != Success {
		return 0, r
	}
	file, size, err := openSealedFile(int(fd))
	if err != nil {
		return 0, resultOf(err)
	}
	if !d.isWhole(size) {
		return 0, firstFailure(resultOf(unix.Close(file)), ErrorInvalidValue)
	}
	return d.store.adopt(file, size), Success
}

func (d *host) snapshot() Snapshot {
	snapshot := d.space.snapshot()
	handles, created := d.store.usage()
	mappings := d.mappings()
	memory := MemorySnapshot{Handles: handles, CreatedBytes: created, Mappings: len(mappings)}
	for _, mapping := range mappings {
		memory.MappedBytes += mapping.size
	}
	snapshot.Memory = &memory
	return snapshot
}

// mappings returns the mappings of this moment.
func (d *host) mappings() spans[*memory] {
	var all spans[*memory]
	for _, r := range d.all() {
		r.value.mu.Lock()
		all = append(all, r.value.mappings...)
		r.value.mu.Unlock()
	}
	return all
}

func (d *host) close() Result {
	result := Success
	for _, mapping := range d.mappings() {
		result = firstFailure(result, d.memUnmap(mapping.start, mapping.size))
	}
	result = firstFailure(result, d.space.close())
	return firstFailure(result, d.store.close())
}

// gapsBeside counts the sides, 0 to 2, on which plain reservation borders on
// [va, va+size). A mapping there costs that many kernel mappings, since it cuts the
// plain range around it.
func gapsBeside(r span[*reservation], va, size uint64) int64 {
	var gaps int64
	if va > r.start && r.value.mappings.isFree(va-1, 1) {
		gaps++
	}
	if end := va + size; end < r.end() && r.value.mappings.isFree(end, 1) {
		gaps++
	}
	return gaps
}
