"""PyTorch's tensors in an arena: a torch.cuda.MemPool over the C pair, for the length of a with statement."""

from __future__ import annotations

import ctypes
import importlib
import logging
import os
import re
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from . import _active
from ._arena import Arena
from ._library import library
from .errors import (
    ArenaError,
    BusyError,
    ClosedError,
    ForkedError,
    InUseError,
    InvalidArgumentError,
    NotSupportedError,
    UnavailableError,
)

log = logging.getLogger("arenagen")

# The first PyTorch in which a pool serves one thread alone, an inner pool goes before an outer one, and a pool
# keeps its allocator and frees through it.
OLDEST = (2, 10)

# Guards all below, and the pools. An arena's own lock is taken before it. PyTorch's locks are taken inside: what holds
# one of those never waits for this one, since the C pair takes no lock of Python's.
_lock = threading.RLock()

# The scopes that are open on each device, in the order in which they began.
_open: dict[int, list[Scope]] = {}

# What was active for a device before its first scope.
_before: dict[int, object] = {}

# MemPools that nobody allocates from any more and that could not be dropped yet: of which device, and what comes after.
_leftover: list[tuple[int, Any, Callable[[], None]]] = []

# Pools of arenas whose objects are gone, for whoever has the lock next.
_abandoned: deque[tuple[Pools, Callable[[], None]]] = deque()

# Every Pools that there is, for a forked child.
_all: weakref.WeakSet[Pools] = weakref.WeakSet()

# PyTorch's view of the C pair, one for the process.
_allocator: Any = None


class Scope:
    """What came of a use_arena. Its numbers are bytes; they go on while the scope is open and stay after it."""

    def __init__(self, torch: Any, arena: Arena, device: int) -> None:
        """Begin to count."""
        self._torch, self._arena, self._device = torch, arena, device
        self._pool: Any = None
        self._thread = threading.get_ident()
        self._inner = 0
        self._reserved_before, self._mapped_before = self._reserved(), arena.mapped_bytes
        self._final: tuple[int, int] | None = None

    @property
    def arena(self) -> Arena:
        """The arena."""
        return self._arena

    @property
    def reserved_bytes(self) -> int:
        """What PyTorch has taken from the device since the scope began, on all threads and also when it gave it back."""
        return self._numbers()[0]

    @property
    def arena_bytes(self) -> int:
        """By how much the arena's mapped bytes have grown since the scope began."""
        return self._numbers()[1]

    @property
    def outside_bytes(self) -> int:
        """What PyTorch has taken from elsewhere: neither from this arena nor from that of a scope inside this one."""
        reserved, mapped = self._numbers()
        return max(0, reserved - mapped - self._inner)

    def _numbers(self) -> tuple[int, int]:
        if self._final is not None:
            return self._final
        return self._reserved() - self._reserved_before, self._arena.mapped_bytes - self._mapped_before

    def _reserved(self) -> int:
        # The sum of what was ever reserved: what PyTorch gives back meanwhile must not hide what it takes.
        return int(self._torch.cuda.memory_stats(self._device).get("reserved_bytes.all.allocated", 0))

    def _end(self) -> None:
        try:
            self._final = self._numbers()
        except ArenaError:  # released inside the scope, or this is a forked child
            self._final = (0, 0)


@contextmanager
def use_arena(arena: Arena) -> Iterator[Scope]:
    """Have PyTorch allocate the calling thread's memory on the arena's device from the arena.

    Needs PyTorch 2.10 or newer with CUDA or ROCm; the arena's device must be the current one. What the thread allocates
    on other devices, and what other threads allocate, is not the arena's. The scope must end on the thread on which it
    began. Leaving it frees nothing: tensors stay, and PyTorch keeps the memory of freed ones for the next scope of the
    arena, until the arena is closed.

    For as long as it is open the arena is the active one of its device; afterwards that is again what was before. It
    can be nested: the inner arena serves until its scope ends. Several threads can use one arena at a time, each with a
    pool of its own, but not two arenas of one device, since a device has one active arena.

    A CUDA graph has a pool of its own: for its memory enter use_arena inside torch.cuda.graph.

    A warning tells how many bytes did not come through the arena; Scope has the numbers. Raises, before anything
    changed, UnavailableError (no PyTorch, no GPU), NotSupportedError (PyTorch is too old or set up so that it would go
    past the arena), InvalidArgumentError (another device is current), BusyError (another thread uses another arena),
    ClosedError.
    """
    if not isinstance(arena, Arena):
        raise TypeError(f"arena must be an Arena, got {type(arena).__name__}")
    scope = _begin(_usable(), arena)
    try:
        with scope._torch.cuda.use_mem_pool(scope._pool, scope._device):
            yield scope
    finally:
        _end(scope)


class Pools:
    """The MemPools of one arena: as many as it has had scopes open at a time, since PyTorch enters none twice."""

    def __init__(self, torch: Any, device: int) -> None:
        """Begin without any."""
        self._torch, self._device = torch, device
        self._idle: list[Any] = []
        self._busy = 0
        self._gone = False
        _all.add(self)

    def take(self) -> Any:
        """Give a MemPool that no scope uses. The device must be current."""
        pool = self._idle.pop() if self._idle else self._torch.cuda.MemPool(_pair(self._torch))
        self._busy += 1
        return pool

    def put(self, pool: Any) -> None:
        """Take a MemPool back at the end of its scope."""
        self._busy -= 1
        if self._gone:
            _leftover.append((self._device, pool, _nothing))
        else:
            self._idle.append(pool)

    def give_up(self, force: bool) -> None:
        """Drop the MemPools, so that PyTorch frees what it caches. With force also if some must stay for a while."""
        with _lock:
            if not force:
                self._refuse_used()
            self._drop(_nothing)

    def let_go(self, then: Callable[[], None]) -> None:
        """Drop the MemPools of an arena whose object is gone, whoever still has tensors there. Calls then after each.

        A collector calls this, in the middle of anything: it waits for no lock.
        """
        _abandoned.append((self, then))
        _drop_abandoned()

    def _drop(self, then: Callable[[], None]) -> None:
        self._gone = True
        while self._idle:
            _leftover.append((self._device, self._idle.pop(), then))
        _sweep(self._torch)

    def _refuse_used(self) -> None:
        tensors = [
            (segment["address"], block["size"])
            for pool in self._idle
            for segment in pool.snapshot()
            for block in segment["blocks"]
            if block["state"] == "active_allocated"
        ]
        if self._busy:
            raise InUseError(
                "the arena serves PyTorch: a use_arena of it is open. Leave it first. With force=True what PyTorch "
                "allocates there from now on fails"
            )
        if tensors:
            total = sum(size for _, size in tensors)
            raise InUseError(
                f"PyTorch has {total} bytes in use in the arena: {len(tensors)} blocks in "
                f"{len({segment for segment, _ in tensors})} segments. Drop the tensors (gc.collect() finds those in "
                "cycles) or copy them first. With force=True their memory is unmapped: a kernel that touches it fails "
                "with an illegal address, after which the process cannot use the device",
                size=total,
            )
        if any(pool.use_count() > 1 for pool in self._idle):
            raise InUseError(
                "a CUDA graph keeps memory of the arena: reset the graph first. With force=True its memory is unmapped, "
                "and a replay fails with an illegal address, after which the process cannot use the device"
            )
        if not _can_drop(self._torch, self._device):
            raise InUseError(
                f"PyTorch cannot give memory of device {self._device} back while a use_arena is open there or a CUDA "
                "graph is captured: leave it first. With force=True the memory that it caches is unmapped now and "
                "forgotten later"
            )


def _drop_abandoned() -> None:
    """Drop the pools of arenas whose objects are gone, unless another thread has the lock: then it does, afterwards."""
    while _abandoned and _lock.acquire(blocking=False):
        try:
            with suppress(IndexError):
                pools, then = _abandoned.popleft()
                pools._drop(then)
        finally:
            _lock.release()


def _begin(torch: Any, arena: Arena) -> Scope:
    device = arena.device
    _drop_abandoned()
    with arena._lock, _lock:
        if arena.closed:
            raise ClosedError("the arena is closed", status="closed")
        _refuse_setup(torch, device)
        scopes = _open.setdefault(device, [])
        _refuse_other_arena(arena, device, scopes)
        first = not arena._pools
        if first:
            arena._pools.append(Pools(torch, device))
        scope = Scope(torch, arena, device)
        scope._pool = arena._pools[0].take()
        try:
            before = _active.put(arena._library, device, arena.handle, arena)
        except BaseException:
            arena._pools[0].put(scope._pool)
            raise
        if not scopes:
            _before[device] = before
        scopes.append(scope)
    # A logger may wait for a lock whose holder waits for ours.
    if first and arena.info.host_memory:
        log.warning("the arena is of host memory, which few GPUs can reach: kernels on others fail there")
    _drop_abandoned()
    return scope


def _end(scope: Scope) -> None:
    arena, device = scope.arena, scope._device
    with _lock:
        scope._end()
        scopes = _open[device]
        scopes.remove(scope)
        # Those outside of another scope of the arena get these bytes together with that one's.
        for outer in reversed(scopes):
            if outer.arena is arena:
                break
            outer._inner += scope.arena_bytes
        _activate(arena, device, scopes[-1].arena if scopes else _before.pop(device))
        arena._pools[0].put(scope._pool)
        scope._pool = None  # a caller may keep the scope
        _sweep(scope._torch)
    _drop_abandoned()
    # Of an arena that was closed inside, nothing is mapped any more.
    if scope.outside_bytes and not _ended(arena):
        log.warning(
            "%d of the %d bytes that PyTorch reserved on device %d inside use_arena did not come through the arena. "
            "Likely reasons: other threads allocated, such as those of a backward pass; a CUDA graph was captured "
            "inside, which has a pool of its own (enter use_arena inside torch.cuda.graph); another "
            "torch.cuda.use_mem_pool was open inside",
            scope.outside_bytes,
            scope.reserved_bytes,
            device,
        )


def _ended(arena: Arena) -> bool:
    try:
        return arena.closed
    except ForkedError:
        return True


def _activate(ended: Arena, device: int, arena: object) -> None:
    """Make an arena the active one again, or none if it was released meanwhile."""
    holder = arena if isinstance(arena, Arena) else None
    with suppress(ForkedError):
        try:
            _active.put(ended._library, device, holder.handle if holder else 0, holder)
        except ClosedError:
            _active.put(ended._library, device, 0, None)


def _usable() -> Any:
    try:
        torch: Any = importlib.import_module("torch")
    except Exception as error:  # a broken installation fails with anything
        raise UnavailableError(f"use_arena needs PyTorch, which cannot be imported: {error}") from error
    found = re.match(r"(\d+)\.(\d+)", getattr(torch, "__version__", ""))
    if not found or (int(found[1]), int(found[2])) < OLDEST:
        raise NotSupportedError(
            f"use_arena needs PyTorch {OLDEST[0]}.{OLDEST[1]} or newer, whose torch.cuda.MemPool is for one thread and "
            f"can be nested, and this is {getattr(torch, '__version__', 'no PyTorch')}"
        )
    if torch.version.cuda is None and torch.version.hip is None:
        raise UnavailableError(f"this PyTorch ({torch.__version__}) is built without CUDA and ROCm: install one with it")
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        raise UnavailableError(f"PyTorch cannot use a GPU: {error}") from error
    return torch


def _refuse_setup(torch: Any, device: int) -> None:
    current = torch.cuda.current_device()
    if current != device:
        raise InvalidArgumentError(
            f"the arena is of device {device}, and device {current} is current: call torch.cuda.set_device({device}), or "
            f"enter torch.cuda.device({device}) around use_arena"
        )
    backend = torch.cuda.get_allocator_backend()
    if backend != "native":
        raise NotSupportedError(
            f"PyTorch allocates with {backend}, which has no pools: use its native allocator, without "
            "backend: in PYTORCH_ALLOC_CONF (PYTORCH_CUDA_ALLOC_CONF) and without change_current_allocator"
        )
    if torch.cuda.memory._snapshot()["allocator_settings"]["expandable_segments"]:
        raise NotSupportedError(
            "PyTorch's expandable segments are on, with which it can allocate past the arena: take "
            "expandable_segments:True out of PYTORCH_ALLOC_CONF (PYTORCH_CUDA_ALLOC_CONF), or call "
            'torch._C._accelerator_setAllocatorSettings("expandable_segments:False") before use_arena'
        )


def _refuse_other_arena(arena: Arena, device: int, scopes: list[Scope]) -> None:
    others = [scope for scope in scopes if scope.arena is not arena]
    if others and any(scope._thread != threading.get_ident() for scope in scopes):
        raise BusyError(
            f"another thread is inside use_arena on device {device}, and a device has one active arena for all threads: "
            "use the same arena in all of them, or one after the other"
        )


def _pair(torch: Any) -> Any:
    global _allocator
    if _allocator is None:
        # The file as it was loaded: what ARENAGEN_LIBRARY names can have changed since.
        _allocator = torch.cuda.memory.CUDAPluggableAllocator(library()._name, "mx_malloc", "mx_free")
        # PyTorch frees also when modules are gone. Nothing that it frees through may go before.
        _immortal(_allocator)
        _immortal(_leftover)
    return _allocator.allocator()


def _immortal(thing: object) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _can_drop(torch: Any, device: int) -> bool:
    # PyTorch waits for a pool's events when it is dropped, and some releases end the process when a pool is entered or
    # a graph is captured meanwhile.
    return not _open.get(device) and not torch.cuda.is_current_stream_capturing()


def _sweep(torch: Any) -> None:
    """Drop those of the leftover MemPools that can be dropped now: not while a graph keeps them."""

    def next_one() -> tuple[int, Any, Callable[[], None]] | None:
        for entry in _leftover:
            if _can_drop(torch, entry[0]) and entry[1].use_count() == 1:
                return entry
        return None

    while (entry := next_one()) is not None:
        _leftover.remove(entry)
        then = entry[2]
        del entry  # the last reference: PyTorch frees the pool's memory here
        then()


def _nothing() -> None:
    pass


def _in_child() -> None:
    # Another thread of the parent may have held it. The child cannot use the device: it must not drop a MemPool.
    global _lock, _leftover
    _lock = threading.RLock()
    _immortal(_leftover)
    _leftover = []
    for pools in list(_all):
        _immortal(pools)


os.register_at_fork(after_in_child=_in_child)
