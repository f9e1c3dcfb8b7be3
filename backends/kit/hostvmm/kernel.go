package hostvmm

import (
	"errors"
	"math"

	"golang.org/x/sys/unix"
)

// The calls on addresses take numbers. The wrappers of package unix take
// pointers, and a Go pointer into memory that comes and goes behind the
// runtime's back must not exist.

// A backing is what the kernel puts behind addresses.
type backing struct {
	flags  int
	fd     int
	offset uint64
}

var nothing = backing{flags: unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE, fd: -1}

func fileBacking(fd int, offset uint64) backing {
	return backing{flags: unix.MAP_SHARED, fd: fd, offset: offset}
}

// mmap maps a backing without access. The placement is 0, which leaves the
// address to the kernel, or one of the MAP_FIXED flags.
func mmap(va, size uint64, b backing, placement int) (uint64, error) {
	got, _, errno := unix.Syscall6(unix.SYS_MMAP,
		uintptr(va), uintptr(size), unix.PROT_NONE, uintptr(b.flags|placement), uintptr(b.fd), uintptr(b.offset))
	if errno != 0 {
		return 0, errno
	}
	return uint64(got), nil
}

// remap puts a backing, without access, in place of what is mapped there now.
// The addresses are never free in between.
func remap(va, size uint64, b backing) error {
	_, err := mmap(va, size, b, unix.MAP_FIXED)
	return err
}

func munmap(va, size uint64) error {
	if _, _, errno := unix.Syscall(unix.SYS_MUNMAP, uintptr(va), uintptr(size), 0); errno != 0 {
		return errno
	}
	return nil
}

func mprotect(va, size uint64, protection int) error {
	if _, _, errno := unix.Syscall(unix.SYS_MPROTECT, uintptr(va), uintptr(size), uintptr(protection)); errno != 0 {
		return errno
	}
	return nil
}

// reserve maps nothing at an aligned address: at the hint if that is possible.
func reserve(size, alignment, hint uint64) (uint64, error) {
	if hint != 0 && hint%alignment == 0 {
		if err := reserveAt(hint, size); err == nil {
			return hint, nil
		}
	}
	return reserveAnywhere(size, alignment)
}

func reserveAt(va, size uint64) error {
	got, err := mmap(va, size, nothing, unix.MAP_FIXED_NOREPLACE)
	if err == nil && got != va { // a kernel before 4.17 takes the address as a wish
		return errors.Join(unix.EEXIST, munmap(got, size))
	}
	return err
}

// reserveAnywhere reserves enough to contain an aligned range and gives the
// rest back.
func reserveAnywhere(size, alignment uint64) (uint64, error) {
	if size > math.MaxInt64 || alignment > math.MaxInt64 {
		return 0, unix.ENOMEM
	}
	start, err := mmap(0, size+alignment, nothing, 0)
	if err != nil {
		return 0, err
	}
	end := start + size + alignment
	va := (start + alignment - 1) &^ (alignment - 1)
	if va > start {
		if err := munmap(start, va-start); err != nil {
			return 0, errors.Join(err, munmap(start, end-start))
		}
	}
	if err := munmap(va+size, end-va-size); err != nil {
		return 0, errors.Join(err, munmap(va, end-va))
	}
	return va, nil
}

// createFile makes an anonymous file in memory.
func createFile() (int, error) {
	fd, err := unix.MemfdCreate("hostvmm", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil || fd > 2 {
		return fd, err
	}
	// In a process without standard files it must not become one: what is printed would land in memory.
	higher, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	_ = unix.Close(fd)
	return higher, err
}

// resizeFile sets a file's size. Pages come when they are touched.
func resizeFile(fd int, size uint64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	if size > min(limit.Cur, math.MaxInt64) {
		return unix.EFBIG // asked beyond the limit, the kernel would send SIGXFSZ
	}
	return unix.Ftruncate(fd, int64(size))
}

// The seals of a file whose size is final, and those that would keep it from being written.
const (
	sizeSeals  = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	writeSeals = unix.F_SEAL_WRITE | unix.F_SEAL_FUTURE_WRITE
)

// errNoSealedFile says that a descriptor is not of a file that createSealedFile made.
var errNoSealedFile = errors.New("no file of a driver")

// createSealedFile makes a file whose size is final, also for those who are
// given the file.
func createSealedFile(size uint64) (int, error) {
	fd, err := createFile()
	if err != nil {
		return 0, err
	}
	if err = resizeFile(fd, size); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sizeSeals)
	}
	if err != nil {
		return 0, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// openSealedFile makes a descriptor of its own for a file that createSealedFile
// made, here or in another process, and tells the file's size. What the caller
// does with fd meanwhile does not matter: all is asked of the new descriptor.
func openSealedFile(fd int) (file int, size uint64, err error) {
	file, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3) // a standard file it must not become
	if errors.Is(err, unix.EBADF) {
		return 0, 0, errNoSealedFile
	}
	if err != nil {
		return 0, 0, err
	}
	if size, err = sealedSize(file); err != nil {
		return 0, 0, errors.Join(err, unix.Close(file))
	}
	return file, size, nil
}

// sealedSize tells the size of a file that can be written and whose size is
// final, so that no access to a mapping of it can fault later. The kernel may add
// seals of its own.
func sealedSize(file int) (uint64, error) {
	seals, err := unix.FcntlInt(uintptr(file), unix.F_GET_SEALS, 0)
	if isAny(err, unix.EINVAL, unix.EBADF) { // a file that cannot have seals, or one that is only a path
		return 0, errNoSealedFile
	}
	if err != nil {
		return 0, err
	}
	if seals&sizeSeals != sizeSeals || seals&writeSeals != 0 {
		return 0, errNoSealedFile
	}
	flags, err := unix.FcntlInt(uintptr(file), unix.F_GETFL, 0)
	if err != nil {
		return 0, err
	}
	if flags&unix.O_ACCMODE != unix.O_RDWR {
		return 0, errNoSealedFile
	}
	var info unix.Stat_t
	if err := unix.Fstat(file, &info); err != nil {
		return 0, err
	}
	return uint64(info.Size), nil
}

// dropPages gives the pages of a part of a file back to the system.
func dropPages(fd int, offset, size uint64) error {
	return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(offset), int64(size))
}
