"""An arena: one range of device addresses, and memory behind what was allocated of it."""

from __future__ import annotations

import ctypes
import json
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from ctypes import c_uint64
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol, SupportsIndex

from . import _abi, _active
from ._buffer import Buffer, buffer
from ._integers import integer
from ._library import check, last_error, library
from ._memory import Memory, choice, peers_of, released, text_of
from .errors import ForkedError, InvalidArgumentError, NotSupportedError

log = logging.getLogger("arenagen")

# Bytes of addresses that an arena reserves unless told otherwise: 4 TiB. They cost nothing until memory is behind them.
DEFAULT_TOTAL = 4 << 40


@dataclass(frozen=True)
class Stats:
    """An arena's counters at one moment, in bytes or as counts.

    created = released + live + quarantined + handed_over + deferred.
    """

    device: int
    closed: bool
    nearly_full: bool
    """80% of the reservation is used; used never falls."""
    base: int
    total: int
    granule: int
    used: int
    """Bytes from base up to the highest address handed out."""
    mapped: int
    """Sum of the live allocations' rounded sizes."""
    live: int
    created: int
    released: int
    quarantined: int
    """Allocations whose memory could not be given back."""
    handed_over: int
    failed: int
    refused: int
    unknown_frees: int
    late_frees: int
    failed_releases: int
    deferred: int
    """Allocations that were freed and wait for a stream that is being captured."""
    slab_size: int
    """Bytes of a slab, or 0 where there are none."""
    handles: int
    """Physical handles that live allocations have, with a single one that has none."""
    slabs: int
    """Slabs among them."""
    slab_mapped: int
    """Bytes behind the slabs."""
    slab_free: int
    """Bytes of them that no allocation has."""
    slab_largest: int
    """The largest piece of these."""
    placement: str
    """How allocations share handles: "per_allocation", "slab" or "single"."""
    peak_mapped: int
    """The most that mapped was since reset_peaks."""
    slab_ahead: int
    """Bytes of slabs that were mapped ahead and have no allocation yet; a part of slab_free."""
    slabs_made: int
    """Slabs that were mapped so far: slabs + slabs_gone."""
    slabs_gone: int
    cache_bytes: int
    """Bytes of the handles in the cache."""
    cache_peak: int
    cache_handles: int
    """Handles in the cache: cache_kept - cache_reused - cache_trimmed."""
    cache_kept: int
    cache_reused: int
    cache_trimmed: int

    def to_json(self) -> str:
        """Give the counters as a JSON object."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class DeviceInfo:
    """What an arena's device is. Texts are empty where the driver does not tell."""

    backend: str
    device: int
    library: str
    driver_version: str
    name: str
    properties: str
    """How memory can be exported, and why not better, as was found by trying."""
    host_memory: bool
    """The CPU can read and write an allocation's memory at its address."""


class _Shown:
    """An allocation that has buffers. They keep it, and so it is there for as long as one of them is."""

    def __init__(self, address: int) -> None:
        self.address = address


class Pools(Protocol):
    """What PyTorch holds of an arena: its MemPools, in module _torch."""

    def take(self) -> object:
        """Give a MemPool that no scope uses."""

    def put(self, pool: object) -> None:
        """Take a MemPool back at the end of its scope."""

    def give_up(self, force: bool) -> None:
        """Have PyTorch give its memory back. Raises InUseError when it cannot and force is not set."""

    def let_go(self, then: Callable[[], None]) -> None:
        """Have PyTorch give its memory back as soon as it can, and call then."""


# Those whose locks a forked child makes new.
_arenas: weakref.WeakSet[Arena] = weakref.WeakSet()


class Arena(Memory):
    """One range of addresses of one device.

    Its methods may be called from any thread. backend is "auto", "cuda", "hip", "stub" or what else the library carries: auto is
    the first that has a usable device, never host memory. device is the ordinal, from 0. total is how many bytes of
    addresses are reserved, more than 0. granule is what sizes are rounded up to, a power of two in bytes; without it
    it is the driver's own, "recommended" or "minimum" as granularity says. drain is what is waited for before memory is unmapped:
    "usual" (a free waits for the stream that malloc was told, a close for the device), "none", "stream" or "device".
    placement is how allocations share physical handles: "per_allocation", "slab" (carved out of handles of slab_size bytes, so that
    a load needs few of them; a larger one gets its own), or "single" (the whole arena is one handle, made up front).
    base_hint is the first address that is wished for, or 0; where the driver gives another a warning is logged, and base tells which.
    cache is how many bytes of released handles are kept for later allocations of the same size. prefetch is how many bytes of slabs
    may be mapped before they are needed, in the background. reuse has addresses used again that memory was taken away from: a free that
    arrives late may meet another allocation there. peers are the devices that reach the memory beside the arena's own. events is how
    many of the latest events are remembered, up to 2**24. exportable asks for handles that other processes can import also where such a
    handle takes more than another, as with host memory; elsewhere they are so if they can be.
    options are those of the backend, as its reference page lists them.

    Raises an ArenaError: UnavailableError where there is no driver or device, InvalidArgumentError.
    An arena with live allocations, and one that is active, stays when this object is dropped; else it is released.
    """

    def __init__(
        self,
        backend: str = "auto",
        device: SupportsIndex = 0,
        *,
        total: SupportsIndex = DEFAULT_TOTAL,
        granule: SupportsIndex | None = None,
        granularity: str = "recommended",
        drain: str = "usual",
        placement: str = "per_allocation",
        slab_size: SupportsIndex = 0,
        base_hint: SupportsIndex = 0,
        cache: SupportsIndex = 0,
        prefetch: SupportsIndex = 0,
        reuse: bool = False,
        exportable: bool = False,
        peers: Iterable[SupportsIndex] = (),
        events: SupportsIndex = 0,
        options: Mapping[str, object] | None = None,
    ) -> None:
        """Open the device and reserve the addresses."""
        self._handle = 0
        # None, or the one. A list, so that _let_go has it too.
        self._pools: list[Pools] = []
        # What the garbage collector finds while it is held may call in again.
        self._lock = threading.RLock()
        self._shown: weakref.WeakValueDictionary[int, _Shown] = weakref.WeakValueDictionary()
        self._info: DeviceInfo | None = None
        self._library = lib = library()
        if options is not None and not isinstance(options, Mapping):
            raise TypeError(f"options must be a mapping, got {type(options).__name__}")
        pairs = [f"{name}={value}" for name, value in (options or {}).items()]
        if any("," in pair for pair in pairs):
            raise InvalidArgumentError(f"an option of a backend cannot have a comma: {', '.join(pairs)}")
        wanted = _abi.ArenaOptions(
            device=integer("device", device, 32, signed=True),
            total=integer("total", total, 64, signed=True),
            granule=0 if granule is None else _granule(granule),
            granularity=choice("granularity", granularity, _abi.Granularity),
            drain=choice("drain", drain, _abi.Drain),
            placement=choice("placement", placement, _abi.Placement),
            slab_size=integer("slab_size", slab_size, 64),
            base_hint=integer("base_hint", base_hint, 64),
            cache=integer("cache", cache, 64),
            prefetch=integer("prefetch", prefetch, 64),
            reuse=int(bool(reuse)),
            exportable=int(bool(exportable)),
            peers=peers_of(peers),
            events=integer("events", events, 32),
            backend=_text("backend", backend),
            backend_options=_text("options", ",".join(pairs)),
        )
        handle = _abi.Arena()
        # Before there is an arena: a signal handler may raise right after.
        self._finalizer = weakref.finalize(self, _let_go, lib, handle, self._pools)
        self._finalizer.atexit = False  # type: ignore[misc]
        _arenas.add(self)
        check(lib, lib.arenagen_arena_create(ctypes.byref(wanted), ctypes.byref(handle)))
        self._handle = handle.value
        if wanted.base_hint not in (0, self.base):
            log.warning("an arena was wished for at %#x, and the driver gave %#x", wanted.base_hint, self.base)
        log.debug("arena %#x: %s, device %s, %s bytes of addresses", self._handle, backend, device, total)

    def malloc(self, size: SupportsIndex, *, align: SupportsIndex = 0, stream: SupportsIndex = 0) -> int:
        """Allocate bytes, more than 0 and rounded up to the granule, and give their device address.

        align is a power of two up to the granule, in bytes, or 0 for the granule. stream is the stream that will use them.
        Raises ExhaustedError, OutOfMemoryError, ClosedError, InvalidArgumentError, SizeOverflowError.
        """
        lib, address = self._library, ctypes.c_void_p()
        status = lib.arenagen_arena_malloc(
            self._handle,
            integer("size", size, 64, signed=True),
            integer("align", align, 64),
            integer("stream", stream, 64),
            ctypes.byref(address),
        )
        check(lib, status)
        return address.value or 0

    def free(self, address: SupportsIndex) -> None:
        """Free what malloc gave. Any other address is counted and is no error.

        Raises BufferError while a buffer of the allocation is in use, and an ArenaError with what the driver
        answered; the allocation is gone then all the same.
        """
        number = integer("address", address, 64)
        # Held until it is gone, so that no buffer of it begins in between.
        with self._lock:
            self._refuse_shown(self._shown.get(number))
            check(self._library, self._library.arenagen_arena_free(self._handle, number))

    def buffer(self, address: SupportsIndex, size: SupportsIndex) -> Buffer:
        """Show the first bytes of a live allocation, which the CPU must be able to reach: numpy.asarray(arena.buffer(...)).

        address is what malloc gave; size is at most the allocation's, rounded up to the granule. See Buffer.
        Raises NotSupportedError for memory of a device.
        """
        number, length = integer("address", address, 64), integer("size", size, 64)
        if not self.info.host_memory:
            raise NotSupportedError(
                f"the CPU cannot reach memory of backend {self.info.backend} at its device address"
                " (the stub backend's in host mode it can)"
            )
        found = _abi.Allocation()
        # Held until the buffer is known, so that a free in between finds it.
        with self._lock:
            check(self._library, self._library.arenagen_arena_allocation(self._handle, number, ctypes.byref(found)))
            if found.size == 0:
                raise InvalidArgumentError(f"no live allocation begins at {number:#x}", address=number)
            if length > found.size:
                raise InvalidArgumentError(
                    f"size must be at most {found.size}, the allocation's, got {length}", address=number, size=length
                )
            shown = self._shown.get(number)
            if shown is None:
                shown = self._shown[number] = _Shown(number)
            return buffer(number, length, self, shown)

    def registered_range(self) -> tuple[int, int]:
        """Give the range to register with a transport: base, and bytes up to the lowest allocation that is still under way.

        No address in it awaits its first mapping; what failed or was freed is a hole. When nothing is under way the bytes are used_bytes.
        """
        base, length = ctypes.c_void_p(), ctypes.c_uint64()
        check(
            self._library,
            self._library.arenagen_arena_registered_range(self._handle, ctypes.byref(base), ctypes.byref(length)),
        )
        return base.value or 0, length.value

    @property
    def used_bytes(self) -> int:
        """Bytes from the base up to the highest address handed out. It never falls."""
        return self._ask(self._library.arenagen_arena_used)

    @property
    def mapped_bytes(self) -> int:
        """Sum of the live allocations' rounded sizes."""
        return self._ask(self._library.arenagen_arena_mapped)

    @property
    def live_count(self) -> int:
        """How many allocations are live."""
        return self._ask(self._library.arenagen_arena_live)

    def _ask(self, question: Any) -> int:
        answer = c_uint64()
        if status := question(self._handle, answer):
            raise last_error(self._library, status)
        return answer.value

    @property
    def closed(self) -> bool:
        """Whether the arena is closed or was released."""
        answer = ctypes.c_int32()
        status = self._library.arenagen_arena_is_closed(self._handle, ctypes.byref(answer))
        if status == _abi.Status.INVALID_HANDLE:
            return True
        check(self._library, status)
        return bool(answer.value)

    def stats(self) -> Stats:
        """Read the counters."""
        raw = _abi.Stats()
        check(self._library, self._library.arenagen_arena_stats(self._handle, ctypes.byref(raw)))
        values = {field.name: getattr(raw, field.name) for field in fields(Stats)}
        values["closed"], values["nearly_full"] = bool(raw.closed), bool(raw.nearly_full)
        values["placement"] = _abi.Placement(raw.placement).name.lower()
        return Stats(**values)

    @property
    def info(self) -> DeviceInfo:
        """What the device is. The first call for a device tries which kinds of memory it has."""
        if self._info is None:
            raw = _abi.DeviceInfo()
            check(self._library, self._library.arenagen_arena_device(self._handle, ctypes.byref(raw)))
            self._info = DeviceInfo(
                backend=raw.backend.decode(),
                device=raw.device,
                library=raw.library.decode(errors="replace"),
                driver_version=raw.driver_version.decode(errors="replace"),
                name=raw.name.decode(errors="replace"),
                properties=raw.properties.decode(errors="replace"),
                host_memory=bool(raw.host_memory),
            )
        return self._info

    @property
    def base(self) -> int:
        """The first address of the reservation."""
        return self.registered_range()[0]

    @property
    def backend(self) -> str:
        """The backend's name."""
        return self.info.backend

    @property
    def device(self) -> int:
        """The device's ordinal."""
        return self.stats().device

    @property
    def handle(self) -> int:
        """The library's handle, for calls through the C interface. A released arena's is refused there."""
        return self._handle

    def close(self, *, force: bool = False) -> None:
        """Release every live allocation and give the addresses back once no late free can arrive.

        A later close does nothing. Raises InUseError while PyTorch holds memory of it, and BufferError while a buffer is in
        use, and changes nothing then; with force it closes all the same: whatever touches that memory afterwards fails.
        What the driver refuses is an ArenaError; the arena is closed then too. BusyError: called inside a callback.
        """
        # Held to the end, so that no scope of PyTorch's begins in between.
        with self._lock:
            self._before_closing(force)
            self._end(self._library.arenagen_arena_close)

    def reset(self) -> None:
        """Have an arena without allocations start over at its base.

        Raises NotEmptyError while something is live or under way. Only who knows that all frees have arrived may reset: a late
        one may meet a new allocation at the same address.
        """
        check(self._library, self._library.arenagen_arena_reset(self._handle))

    def _end(self, ending: Any) -> None:
        status = ending(self._handle)
        # One that was released has ended.
        if status != _abi.Status.INVALID_HANDLE:
            check(self._library, status)

    def release(self, *, force: bool = False) -> None:
        """Close the arena if it is open and give its addresses back at once, also where a late free may still arrive.

        Afterwards whatever asks the library raises ClosedError, but for release, close and closed.
        """
        with self._lock:
            self._before_closing(force)
            self._end(self._library.arenagen_arena_release)
            self._finalizer.detach()
            released(self._handle)

    def _before_closing(self, force: bool) -> None:
        if self.closed:
            return
        if not force:
            for shown in self._shown.valuerefs():
                self._refuse_shown(shown())
        for pools in self._pools:
            pools.give_up(force)
        self._shown.clear()

    @staticmethod
    def _refuse_shown(shown: _Shown | None) -> None:
        if shown is not None:
            raise BufferError(f"a buffer at {shown.address:#x} is in use: drop it and its views first")

    def __enter__(self) -> Arena:
        """Give the arena."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the arena, but in a forked child, where it is not there: that ends as it would without."""
        with suppress(ForkedError):
            self.close()

    def __repr__(self) -> str:
        """Tell what it is without asking the library much."""
        try:
            state = " closed" if self.closed else ""
        except ForkedError:
            state = " of the parent process"
        return f"<arenagen.Arena {self._handle:#x}{state}>"


def set_active(arena: Arena | None, device: SupportsIndex | None = None) -> None:
    """Make an arena the one that mx_malloc serves a device from, in place of the one before; None clears the place.

    Without a device it is the one for every device that has none of its own. Being active keeps an arena alive.
    """
    if arena is not None and not isinstance(arena, Arena):
        raise TypeError(f"arena must be an Arena or None, got {type(arena).__name__}")
    lib = library()
    place = _active.ANY if device is None else integer("device", device, 31)
    _active.put(lib, place, 0 if arena is None else arena.handle, arena)


def doctor() -> tuple[str, bool]:
    """Look at every backend and device, and give a report for a person, as arenactl doctor prints it.

    Beside it stands whether there is a device that Arena() can use. It tries what an arena needs with one granule of memory for a moment. It takes as long as drivers take to start.
    """
    lib, usable = library(), ctypes.c_int32()

    def report(*place: Any) -> Any:
        return lib.arenagen_doctor(*place, ctypes.byref(usable))

    return text_of(lib, report).decode(errors="replace"), bool(usable.value)


def _let_go(lib: ctypes.CDLL, created: c_uint64, pools: list[Pools]) -> None:
    """Release an arena whose object is gone, unless somebody may still use its memory."""

    handle, live = created.value, ctypes.c_uint64()
    if not handle:  # creating failed
        return

    def exists() -> bool:
        # Else it was released, or this is a forked child.
        return bool(lib.arenagen_arena_live(handle, ctypes.byref(live)) == _abi.Status.OK)

    def release() -> None:
        if not exists():
            return
        if live.value:
            log.debug("arena %#x stays: it was dropped with %d live allocations", handle, live.value)
            return
        lib.arenagen_arena_release(handle)
        released(handle)

    if exists():
        for each in pools:
            each.let_go(release)
        release()


def _in_child() -> None:
    # Another thread of the parent may have held it.
    for arena in list(_arenas):
        arena._lock = threading.RLock()


os.register_at_fork(after_in_child=_in_child)


def _granule(granule: SupportsIndex) -> int:
    number = integer("granule", granule, 64)
    if number == 0:
        raise InvalidArgumentError("granule must be a power of two, got 0")
    return number


def _text(name: str, value: str) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, got {type(value).__name__}")
    if "\0" in value:
        raise InvalidArgumentError(f"{name} must not have a zero in it: {value!r}")
    return value.encode()
