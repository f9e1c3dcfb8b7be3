"""What an arena holds and shares: regions for a transport, events, a cache of handles, tags, other processes and devices."""

from __future__ import annotations

import atexit
import ctypes
import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import Any, SupportsIndex

from . import _abi
from ._integers import integer
from ._library import check, library
from ._raised import unraisable
from .errors import InvalidArgumentError

# What fabric handles are long, in bytes.
FABRIC_BYTES = ctypes.sizeof(_abi.FabricHandle)


@dataclass(frozen=True)
class Region:
    """What a transport registers as one. Regions with equal base, length and generation are the same memory."""

    base: int
    length: int
    offset: int
    """Where base is in the handle, in bytes."""
    handle: int
    """The physical handle; 0 for a region with several, and for a hole."""
    generation: int
    exports: frozenset[str]
    """The ways in which the memory can be given away: "posix_fd", "fabric", "dmabuf". Found by trying."""


@dataclass(frozen=True)
class Event:
    """One thing that an arena did."""

    sequence: int
    """1, 2, 3 and so on."""
    time: int
    """Nanoseconds since the arena was made; to about a millisecond for those that call no driver."""
    kind: str
    """"mapped", "prefetched", "reused", "imported", "unmapping", "unmapped", "cached", "trimmed", "malloc", "free", "failed",
    "out_of_memory", "granted", "reset" or "closed"."""
    address: int
    size: int
    handle: int
    tag: int
    took: int
    """Nanoseconds that the driver's calls took, or 0."""


@dataclass(frozen=True)
class Events:
    """Events in their order, and how many before the first are not remembered any more. Pass next to the next call."""

    events: list[Event]
    missed: int
    next: int


@dataclass(frozen=True)
class TagStats:
    """The counters of a tag. mapped and peak_mapped are bytes."""

    tag: int
    live: int
    mapped: int
    peak_mapped: int


@dataclass(frozen=True)
class DeviceStats:
    """The counters of all arenas of a device together, closed ones included."""

    device: int
    arenas: int
    used: int
    mapped: int
    live: int
    handles: int
    held: int
    """Bytes of memory that no allocation has: free in slabs, mapped ahead, or in a cache."""
    failed: int
    other_device_frees: int

    def to_json(self) -> str:
        """Give the counters as a JSON object."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Shortage:
    """What an arena tells when the device has no memory left for a request. All but attempt are bytes."""

    requested: int
    mapped: int
    cached: int
    capacity: int
    attempt: int


# The functions that arenas ask or asked, by handle. Another thread may be in one that was replaced, so they stay until the release.
_asked: dict[int, list[Any]] = {}


class Memory:
    """What Arena has beside allocating. Its methods may be called from any thread."""

    _library: ctypes.CDLL
    _handle: int

    def trim(self, keep: SupportsIndex = 0) -> int:
        """Give memory back that the arena holds and no allocation uses, until at most keep bytes are left. Gives how many went.

        Cached handles go first, the longest unused first of all, then what was mapped ahead. Raises ClosedError.
        """
        return self._number(self._library.arenagen_arena_trim, integer("keep", keep, 64))

    def on_out_of_memory(self, callback: Callable[[Shortage], object] | None) -> None:
        """Have a function asked when the device has no memory left and the cache is given back; None is nobody.

        It is called on the thread that allocates, outside all of the library's locks, may free something, and returns true for another try. What it
        raises goes to sys.unraisablehook and means no. It needs the GIL: set it only where no thread that holds the GIL
        waits for a lock that an allocating thread has, such as PyTorch's allocator's.
        """
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be callable or None, got {type(callback).__name__}")

        def ask(_user: int, requested: int, mapped: int, cached: int, capacity: int, attempt: int) -> int:
            assert callback is not None
            # What ctypes answers for a function that raises is anything.
            try:
                return int(bool(callback(Shortage(requested, mapped, cached, capacity, attempt))))
            except BaseException as raised:
                with suppress(BaseException):
                    unraisable(raised, callback)
                return 0

        function = _abi.ShortageCallback() if callback is None else _abi.ShortageCallback(ask)
        _asked.setdefault(self._handle, []).append(function)
        check(self._library, self._library.arenagen_arena_on_out_of_memory(self._handle, function, None))

    def add_peer(self, device: SupportsIndex) -> None:
        """Let another device read and write all that the arena has mapped and will map.

        When the driver refuses, later allocations are without it again; what was granted before stays so.
        """
        number = integer("device", device, 32, signed=True)
        check(self._library, self._library.arenagen_arena_add_peer(self._handle, number))

    def regions(self, kind: str = "dmabuf") -> list[Region]:
        """List what a transport has to register, by address, for what is mapped at this moment.

        kind is "dmabuf" (maximal mapped runs, in whole pages of the host), "posix_fd", "fabric" or "cuda_ipc" (each handle by
        itself), "whole" (the registered range as one, holes and all, for transports known to take that) or "holes" (what is
        not mapped in it). A cache of registrations calls changes first, then this, and then follows changes.
        """
        number, count = choice("kind", kind, _abi.RegionKind), ctypes.c_size_t(64)
        while True:
            capacity = 2 * count.value
            buffer = (_abi.Region * capacity)()
            status = self._library.arenagen_arena_regions(self._handle, number, buffer, capacity, ctypes.byref(count))
            if status != _abi.Status.BUFFER_TOO_SMALL:
                check(self._library, status)
                return [_region(raw) for raw in buffer[: count.value]]

    def export_fd(self, base: SupportsIndex) -> int:
        """Give the memory of a region of the kind "posix_fd" to another process, as a file descriptor that the caller closes.

        The other process can use it also after it was freed here. Raises NotMappedError, and NotSupportedError or an
        ArenaError of the driver where the memory cannot be exported so.
        """
        fd = ctypes.c_int32()
        address = integer("base", base, 64)
        check(self._library, self._library.arenagen_arena_export_fd(self._handle, address, ctypes.byref(fd)))
        return fd.value

    def export_fabric(self, base: SupportsIndex) -> bytes:
        """Give the memory of a region of the kind "fabric" to a process of the fabric, as 64 bytes. See export_fd."""
        fabric = _abi.FabricHandle()
        address = integer("base", base, 64)
        check(self._library, self._library.arenagen_arena_export_fabric(self._handle, address, ctypes.byref(fabric)))
        return bytes(fabric)

    def export_dmabuf(self, base: SupportsIndex, size: SupportsIndex, *, pcie: bool = False) -> int:
        """Give a range inside a region of the kind "dmabuf" to another device's driver, as a file descriptor that the caller closes.

        Both are multiples of the host's page. pcie asks for the way over PCIe on machines with a faster one.
        """
        fd = ctypes.c_int32()
        status = self._library.arenagen_arena_export_dmabuf(
            self._handle, integer("base", base, 64), integer("size", size, 64), int(bool(pcie)), ctypes.byref(fd)
        )
        check(self._library, status)
        return fd.value

    def import_fd(self, fd: SupportsIndex, size: SupportsIndex) -> int:
        """Put size bytes that another process exported behind addresses of this arena, and give the first.

        They are freed like an allocation. The file descriptor stays the caller's.
        """
        address = ctypes.c_void_p()
        status = self._library.arenagen_arena_import_fd(
            self._handle, integer("fd", fd, 32, signed=True), integer("size", size, 64, signed=True), ctypes.byref(address)
        )
        check(self._library, status)
        return address.value or 0

    def import_fabric(self, fabric: bytes, size: SupportsIndex) -> int:
        """Put size bytes that another process of the fabric exported behind addresses of this arena. See import_fd."""
        if len(fabric) != FABRIC_BYTES:
            raise InvalidArgumentError(f"a fabric handle has {FABRIC_BYTES} bytes, got {len(fabric)}")
        raw, address = _abi.FabricHandle.from_buffer_copy(fabric), ctypes.c_void_p()
        status = self._library.arenagen_arena_import_fabric(
            self._handle, ctypes.byref(raw), integer("size", size, 64, signed=True), ctypes.byref(address)
        )
        check(self._library, status)
        return address.value or 0

    def events(self, after: SupportsIndex = 0, limit: SupportsIndex = 65536) -> Events:
        """Read what the arena did after one event, the oldest first, where Arena(events=...) has it remembered."""
        return self._events(_abi.EventStream.ALL, after, limit)

    def changes(self, after: SupportsIndex = 0, limit: SupportsIndex = 65536) -> Events:
        """Read what happened to the mappings after one change: mapped, prefetched, reused, imported, unmapping, unmapped.

        They are remembered from the first call on, 4,096 of them.
        """
        return self._events(_abi.EventStream.CHANGES, after, limit)

    def _events(self, stream: int, after: SupportsIndex, limit: SupportsIndex) -> Events:
        first, capacity = integer("after", after, 64), min(integer("limit", limit, 31), 1 << 20)
        buffer = (_abi.Event * capacity)()
        count, missed = ctypes.c_size_t(), ctypes.c_uint64()
        status = self._library.arenagen_arena_events(
            self._handle, stream, first, buffer, capacity, ctypes.byref(count), ctypes.byref(missed)
        )
        check(self._library, status)
        return Events(
            [_event(raw) for raw in buffer[: count.value]], missed.value, first + missed.value + count.value
        )

    def set_tag(self, tag: SupportsIndex) -> None:
        """Set what later allocations are counted under beside the arena, mx_malloc's included: 1 to 15, or 0 for none."""
        check(self._library, self._library.arenagen_arena_set_tag(self._handle, integer("tag", tag, 32)))

    def tag_stats(self, tag: SupportsIndex) -> TagStats:
        """Read the counters of a tag, 1 to 15."""
        raw = _abi.TagStats()
        number = integer("tag", tag, 32)
        check(self._library, self._library.arenagen_arena_tag_stats(self._handle, number, ctypes.byref(raw)))
        return TagStats(raw.tag, raw.live, raw.mapped, raw.peak_mapped)

    def reset_peaks(self) -> None:
        """Have the peaks of the counters start over from what they are now."""
        check(self._library, self._library.arenagen_arena_reset_peaks(self._handle))

    def snapshot(self) -> dict[str, Any]:
        """Give all counters, those of slabs, the cache and tags included, as the JSON that the library writes has them."""
        snapshot: dict[str, Any] = json.loads(self._text(self._library.arenagen_arena_snapshot))
        return snapshot

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events that Arena(events=...) has remembered to a file that arenactl trace reads."""
        text = self._text(self._library.arenagen_arena_trace)
        with open(path, "wb") as file:
            file.write(text)

    def _text(self, question: Any) -> bytes:
        return text_of(self._library, question, self._handle)

    def _number(self, question: Any, *arguments: int) -> int:
        answer = ctypes.c_uint64()
        check(self._library, question(self._handle, *arguments, ctypes.byref(answer)))
        return answer.value


def released(handle: int) -> None:
    """Drop the functions that an arena asked: it was released."""
    _asked.pop(handle, None)


def device_stats(device: SupportsIndex) -> DeviceStats:
    """Read the counters of all arenas of a device together."""
    lib, raw = library(), _abi.DeviceTotals()
    check(lib, lib.arenagen_device_stats(integer("device", device, 32, signed=True), ctypes.byref(raw)))
    return DeviceStats(**{field.name: getattr(raw, field.name) for field in fields(DeviceStats)})


def choice(name: str, value: str, kinds: Iterable[Any]) -> int:
    """Give the number of a value's name."""
    names = [kind.name.lower() for kind in kinds]
    for kind in kinds:
        if kind.name.lower() == value:
            return int(kind)
    raise InvalidArgumentError(f"{name} must be {', '.join(names)}, got {value!r}")


def peers_of(devices: Iterable[SupportsIndex]) -> int:
    """Give devices as bits."""
    mask = 0
    for device in devices:
        number = integer("a peer", device, 32, signed=True)
        if not 0 <= number < 64:
            raise InvalidArgumentError(f"a peer must be a device from 0 to 63, got {number}")
        mask |= 1 << number
    return mask


def text_of(lib: ctypes.CDLL, question: Any, *arguments: Any) -> bytes:
    """Give a text that the library writes, however long it is."""
    length, capacity = ctypes.c_size_t(), 1 << 16
    while True:
        text = ctypes.create_string_buffer(capacity)
        status = question(*arguments, text, capacity, ctypes.byref(length))
        if status != _abi.Status.BUFFER_TOO_SMALL:
            check(lib, status)
            return text.raw[: length.value]
        capacity = 2 * length.value


_exports = {
    _abi.ExportKind.AS_POSIX_FD: "posix_fd",
    _abi.ExportKind.AS_FABRIC: "fabric",
    _abi.ExportKind.AS_DMABUF: "dmabuf",
}


def _region(raw: _abi.Region) -> Region:
    exports = frozenset(name for bit, name in _exports.items() if raw.exports & bit)
    return Region(raw.address, raw.length, raw.offset, raw.handle, raw.generation, exports)


def _event(raw: _abi.Event) -> Event:
    kind = _abi.EventKind(raw.kind).name.lower()
    return Event(raw.sequence, raw.time, kind, raw.address, raw.size, raw.handle, raw.tag, raw.took)


def _at_exit() -> None:
    # Threads may allocate for longer than Python can be called.
    for handle in list(_asked):
        library().arenagen_arena_on_out_of_memory(handle, _abi.ShortageCallback(), None)


atexit.register(_at_exit)
