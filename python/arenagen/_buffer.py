"""Memory of an arena that the CPU can reach, as Python's buffer protocol and DLPack show it."""

from __future__ import annotations

import ctypes
import sys
from collections import deque
from typing import Any

CPU = 1  # kDLCPU
UINT = 1  # kDLUInt
VERSION = (1, 0)  # of DLPack: the first whose structs say their version


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_libc = ctypes.CDLL(None)
_libc.malloc.restype = ctypes.c_void_p
_libc.malloc.argtypes = [ctypes.c_size_t]
_libc.free.restype = None
_libc.free.argtypes = [ctypes.c_void_p]

# A consumer may call the deleter on any thread, without the GIL and after the interpreter has ended. So it is C's own
# free, and the struct with what it points to is one block of C memory.
_FREE = ctypes.cast(_libc.free, ctypes.c_void_p).value

_NAMES: dict[type[ctypes.Structure], bytes] = {_Managed: b"dltensor", _Versioned: b"dltensor_versioned"}

_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))

# Capsules that were given out, each with its block. A capsule has no destructor: it may go while an exception is on its
# way, where nothing of Python's may run, and C has no function that would do. So a look at some of these comes with each
# new one, and finds those that nobody else has any more. A deque's ends can be taken and given from any thread at any time.
_given: deque[tuple[Any, int, bytes]] = deque()

# What sys.getrefcount tells of a thing that only a tuple has.
_one = (object(),)
_ALONE = sys.getrefcount(_one[0])


def _collect() -> None:
    """Free the blocks of some capsules that nobody consumed: a consumer renames it, and frees the block itself."""
    # Two for each that comes, so that they cannot pile up.
    for _ in range(2):
        try:
            entry = _given.popleft()
        except IndexError:
            return
        if sys.getrefcount(entry[0]) > _ALONE:
            _given.append(entry)
        elif _valid(entry[0], entry[2]):
            _libc.free(entry[1])


class Buffer:
    """Bytes of a live allocation.

    It has the buffer protocol, writable, and DLPack, as bytes on the CPU: memoryview, numpy.asarray, numpy.from_dlpack and
    torch.from_dlpack share the memory. They read and write what is there: freeing the allocation takes it away.
    Arena.free and Arena.close refuse while this object or a view of it is alive; a consumer of DLPack is not seen.
    """

    address: int
    size: int
    owner: object  # keeps the arena from being collected

    allocation: object  # what all buffers of an allocation have in common

    # One is known by what it is, also where an array with the same bytes is equal.
    __hash__ = object.__hash__

    def __reduce__(self) -> Any:
        """Refuse: a copy would have bytes of its own, and an address in another process means nothing."""
        raise TypeError("cannot copy or pickle a buffer of an arena: copy its bytes")

    @property
    def view(self) -> memoryview:
        """A memoryview of the bytes. One of this object itself has ctypes' format, which memoryview does not index."""
        itself: Any = self
        return memoryview(itself).cast("B")

    def __dlpack_device__(self) -> tuple[int, int]:
        """Say that it is the CPU."""
        return (CPU, 0)

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Give a capsule for one consumer, as the array API standard describes it. There is no copy."""
        if stream is not None:
            raise BufferError(f"the CPU has no streams, got {stream!r}")
        if dl_device is not None and tuple(dl_device) != (CPU, 0):
            raise BufferError(f"the memory is the CPU's, ({CPU}, 0), and {dl_device!r} was asked for")
        if copy:
            raise BufferError("a copy was asked for, and this shares memory")
        kind: type[Any] = _Versioned if max_version is not None and tuple(max_version) >= VERSION else _Managed
        block = _libc.malloc(ctypes.sizeof(kind) + ctypes.sizeof(ctypes.c_int64))
        if not block:
            raise MemoryError
        ctypes.memset(block, 0, ctypes.sizeof(kind))
        shape = ctypes.c_int64.from_address(block + ctypes.sizeof(kind))
        shape.value = self.size
        managed = kind.from_address(block)
        managed.deleter = _FREE
        if kind is _Versioned:
            managed.major, managed.minor = VERSION
        tensor = managed.tensor
        tensor.data, tensor.device_type = self.address, CPU
        tensor.ndim, tensor.code, tensor.bits, tensor.lanes = 1, UINT, 8, 1
        tensor.shape = ctypes.addressof(shape)
        capsule = _new(block, _NAMES[kind], None)
        _given.append((capsule, block, _NAMES[kind]))
        _collect()
        return capsule


def buffer(address: int, size: int, owner: object, allocation: object) -> Buffer:
    """Show bytes at an address, which must be mapped. The owner and the allocation live as long as the buffer."""
    # An array type has its length. A type of its own, not ctypes' c_ubyte * size, which is cached for good.
    kind: Any = type("Buffer", (Buffer, ctypes.Array), {"_type_": ctypes.c_ubyte, "_length_": size})
    made = kind.from_address(address)
    made.address, made.size, made.owner, made.allocation = address, size, owner, allocation
    shown: Buffer = made
    return shown
