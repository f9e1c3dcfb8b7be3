package hostvmm

import (
	"golang.org/x/sys/unix"
)

// maxSharedFile bounds the offsets in a shared file: far more than a host has
// memory, and within what the kernel takes.
const maxSharedFile = 1 << 62

// A sharedFile gives out ranges of one file, so that any number of handles needs
// one descriptor. It takes the lowest range that is free: the file grows only
// when nothing below fits.
type sharedFile struct {
	fd   int // -1 until the first range is taken
	size uint64
	free spans[struct{}] // no two of them touch
}

func newSharedFile() sharedFile {
	return sharedFile{fd: -1, free: spans[struct{}]{{start: 0, size: maxSharedFile}}}
}

// take returns the offset of a range that is free and has no pages yet.
func (f *sharedFile) take(size uint64) (uint64, error) {
	i := f.firstFit(size)
	if i < 0 {
		return 0, unix.ENOMEM
	}
	offset := f.free[i].start
	if err := f.growTo(offset + size); err != nil {
		return 0, err
	}
	f.free[i].start += size
	f.free[i].size -= size
	if f.free[i].size == 0 {
		f.free.remove(i, i+1)
	}
	return offset, nil
}

func (f *sharedFile) firstFit(size uint64) int {
	for i, one := range f.free {
		if one.size >= size {
			return i
		}
	}
	return -1
}

func (f *sharedFile) growTo(size uint64) error {
	if f.fd < 0 {
		fd, err := createFile()
		if err != nil {
			return err
		}
		f.fd = fd
	}
	if size <= f.size {
		return nil
	}
	if err := resizeFile(f.fd, size); err != nil {
		return err
	}
	f.size = size
	return nil
}

// give takes a range back, whose pages were dropped, and joins it with its free
// neighbours.
func (f *sharedFile) give(offset, size uint64) {
	i, _ := f.free.search(offset)
	if i < len(f.free) && f.free[i].start == offset+size {
		size += f.free[i].size
		f.free.remove(i, i+1)
	}
	if i > 0 && f.free[i-1].end() == offset {
		f.free[i-1].size += size
		return
	}
	f.free.insert(span[struct{}]{start: offset, size: size})
}

// close closes the file, whose ranges were all given back.
func (f *sharedFile) close() error {
	if f.fd < 0 {
		return nil
	}
	err := unix.Close(f.fd)
	*f = newSharedFile()
	return err
}
