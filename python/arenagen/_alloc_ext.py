"""A drop-in for extensions that give PyTorch memory through Python callbacks.

The eleven functions, and the C pair mx_malloc and mx_free in the file that __file__ names. An arena's memory comes from
two callables: alloc_callback(address, size) -> handle, and dealloc_callback(address, size, handle). Integers are 0 to
2**64 - 1; one beyond its range raises OverflowError, and what is no integer TypeError.

A capsule keeps its arena alive, and so does being active. An arena with live pointers outlives both; when the last pointer is
freed it lets its callables go. All functions may be called from any thread. At interpreter exit these arenas are cut off:
their mx_malloc answers NULL, and frees are dropped and counted. In a forked child every call raises RuntimeError, and frees do nothing.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import logging
import os
import sys
import threading
import time
import types
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, NoReturn, SupportsIndex

from . import _abi, _active
from ._integers import integer
from ._library import check, keep, last_error, library, path

__all__ = [
    "arena_close_and_drain",
    "arena_create",
    "arena_free",
    "arena_get_live_count",
    "arena_get_mapped_bytes",
    "arena_get_used_bytes",
    "arena_is_closed",
    "arena_malloc",
    "arena_registered_range",
    "init_module",
    "set_active_arena",
]

log = logging.getLogger("arenagen")

if "_lib" in globals():
    raise ImportError("arenagen._alloc_ext cannot be loaded again: arenas may be under way in it")

_lib = library()

# The file with mx_malloc and mx_free.
__file__ = path()

AllocCallback = Callable[[int, int], SupportsIndex]
DeallocCallback = Callable[[int, int, int], object]

# What the callbacks answer to the library. It is asked for by nobody: what was raised is what counts.
DONE, FAILED = 0, 1

# Seconds that an exit waits for callbacks that are under way.
EXIT_WAITS = 5.0


class Capsule:
    """An arena, for the functions of this module. It has no other use."""

    __slots__ = ("__weakref__", "_backing")

    def __init__(self, backing: _Backing) -> None:
        self._backing = backing

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied: a copy would be a second owner."""
        raise TypeError("cannot copy or pickle an arena capsule")


class _Backing:
    """What stands behind the addresses of one arena: two callables."""

    __slots__ = ("allocate", "deallocate", "dropped", "handle", "inside", "kept", "key", "live")

    def __init__(self, key: int, allocate: AllocCallback, deallocate: DeallocCallback) -> None:
        self.key = key
        self.handle = 0  # the library's
        self.kept: deque[tuple[Any, int]] = deque()  # what the library handed over and no caller has yet
        self.dropped = False  # the capsule is gone
        # The rest is guarded by _lock. The callables are None when they will not be called any more.
        self.allocate: AllocCallback | None = allocate
        self.deallocate: DeallocCallback | None = deallocate
        self.inside: set[_Visit] = set()  # calls that are inside a callable
        self.live = 0  # allocations that were not given back

    def ended(self) -> bool:
        """Tell whether nobody can use the arena any more. Once that is so it stays so."""
        return self.dropped and self.live == 0 and not self.inside


class _Visit:
    """A call that is inside a callable."""

    __slots__ = ("backing", "more")

    def __init__(self) -> None:
        self.backing: _Backing | None = None
        self.more = 0  # live allocations that it makes


class _Call:
    """A call of arena_malloc on this thread, which what its callable raises comes out of."""

    __slots__ = ("key", "raised", "reached")

    def __init__(self, key: int) -> None:
        self.key = key
        self.reached = False  # its callback began
        self.raised: BaseException | None = None


class _Calls(threading.local):
    def __init__(self) -> None:
        self.stack: list[_Call] = []


_calls = _Calls()
_keys = itertools.count(1)

# By the number that the library gives back to the callbacks. An entry is what keeps a backing alive.
_backings: dict[int, _Backing] = {}

# Never held while anything is called that may wait or call back. A collector may run while it is held, and finalize
# capsules: those go into _dropped, and whoever holds the lock looks there afterwards.
_lock = threading.Lock()
_dropped: deque[_Backing] = deque()

# Set when the interpreter is about to end.
_cut = False


def arena_create(
    base: SupportsIndex,
    total_bytes: SupportsIndex,
    granularity: SupportsIndex,
    alloc_callback: AllocCallback,
    dealloc_callback: DeallocCallback,
    /,
) -> Capsule:
    """Make an arena over the addresses from base on, which is not 0.

    granularity is a power of two in bytes, and total_bytes more than 0, rounded up to it. The ranges of arenas may coincide.
    Raises TypeError for what is not callable, and ValueError.
    """
    _reap()
    first, total = integer("base", base, 64), integer("total_bytes", total_bytes, 63)
    granule = integer("granularity", granularity, 64)
    if not callable(alloc_callback) or not callable(dealloc_callback):
        raise TypeError("allocation callbacks must be callable")
    if granule == 0 or granule & (granule - 1):
        raise ValueError("granularity must be a positive power of 2")
    if _cut:
        raise RuntimeError("the interpreter is about to end")
    backing = _Backing(next(_keys), alloc_callback, dealloc_callback)
    options = _abi.CallbackOptions(
        base=first, total=total, granule=granule, allocate=_c_allocate, release=_c_deallocate, user=backing.key
    )
    handle = _abi.Arena()
    check(_lib, _lib.arenagen_arena_create_callbacks(ctypes.byref(options), ctypes.byref(handle)))
    backing.handle = handle.value
    _backings[backing.key] = backing
    capsule = Capsule(backing)
    weakref.finalize(capsule, _drop, backing).atexit = False  # type: ignore[misc]
    return capsule


def arena_malloc(capsule: Capsule, size: SupportsIndex, /) -> int:
    """Allocate bytes, more than 0 and rounded up to the granularity, and give their address.

    What alloc_callback raises comes out unchanged. A handle that is no integer raises TypeError, one out of range
    OverflowError. ValueError: "size must be positive". RuntimeError: "arena is closed", or the text has "would exceed reserved
    range of N bytes".
    """
    _reap()
    backing = _backing(capsule)
    wanted, address = integer("size", size, 64, signed=True), ctypes.c_void_p()
    call = _Call(backing.key)
    _calls.stack.append(call)
    try:
        status = _lib.arenagen_arena_malloc(backing.handle, wanted, 0, None, ctypes.byref(address))
    except BaseException:
        # A signal handler raised right behind the call.
        _lib.arenagen_arena_free(backing.handle, address)
        raise
    finally:
        _calls.stack.pop()
    raised, call.raised = call.raised, None
    if raised is None and status == _abi.Status.CALLBACK:
        # A signal handler raised on the way into the callback, or out of it. What it was went to sys.unraisablehook.
        raised = KeyboardInterrupt()
    if raised is not None:
        if status == _abi.Status.OK:
            _lib.arenagen_arena_free(backing.handle, address)  # nobody gets to know it
        try:
            raise raised
        finally:
            del raised  # it has this frame, which had it
    if status == _abi.Status.OK:
        return address.value or 0
    if status == _abi.Status.CLOSED:
        raise RuntimeError("arena is closed")
    if status == _abi.Status.INVALID_ARGUMENT:
        raise ValueError("size must be positive")
    if status == _abi.Status.OVERFLOW:
        raise OverflowError("allocation size overflow during alignment")
    raise last_error(_lib)


def arena_free(capsule: Capsule, ptr: SupportsIndex, /) -> None:
    """Free an allocation. Any other address changes nothing. What dealloc_callback raises goes to sys.unraisablehook."""
    _reap()
    backing = _backing(capsule)
    _lib.arenagen_arena_free(backing.handle, integer("ptr", ptr, 64))


def arena_registered_range(capsule: Capsule, /) -> tuple[int, int]:
    """Give the base, and the bytes up to the highest address handed out."""
    backing = _backing(capsule)
    base, length = ctypes.c_void_p(), ctypes.c_uint64()
    check(_lib, _lib.arenagen_arena_registered_range(backing.handle, ctypes.byref(base), ctypes.byref(length)))
    return base.value or 0, length.value


def arena_get_used_bytes(capsule: Capsule, /) -> int:
    """Give the bytes up to the highest address handed out. They never fall."""
    return _ask(_lib.arenagen_arena_used, capsule)


def arena_get_mapped_bytes(capsule: Capsule, /) -> int:
    """Give the sum of the live allocations' rounded sizes."""
    return _ask(_lib.arenagen_arena_mapped, capsule)


def arena_get_live_count(capsule: Capsule, /) -> int:
    """Give the number of live allocations."""
    return _ask(_lib.arenagen_arena_live, capsule)


def arena_is_closed(capsule: Capsule, /) -> bool:
    """Tell whether the arena is closed."""
    backing, closed = _backing(capsule), ctypes.c_int32()
    check(_lib, _lib.arenagen_arena_is_closed(backing.handle, ctypes.byref(closed)))
    return bool(closed.value)


def arena_close_and_drain(capsule: Capsule, /) -> list[tuple[int, int, int]] | None:
    """Close the arena and give its live allocations as (address, size, handle); None when it was closed already.

    It waits for calls that began before. The caller releases what it gets. Raises RuntimeError inside a callback.
    """
    _reap()
    backing = _backing(capsule)
    try:
        buffer, number = backing.kept.popleft()
    except IndexError:
        buffer, number = _close_and_drain(backing)
    if buffer is None:
        return None
    try:
        drained = [(a.address, a.size, a.handle) for a in buffer[:number]]
    except BaseException:
        backing.kept.append((buffer, number))  # nothing is lost: the call can be repeated
        raise
    with _lock:
        backing.live = 0
    _reap()
    return drained


def _close_and_drain(backing: _Backing) -> tuple[Any, int]:
    capacity, count = 64, ctypes.c_size_t()
    while True:
        buffer = (_abi.Allocation * capacity)()
        status = _lib.arenagen_arena_close_and_drain(backing.handle, buffer, capacity, ctypes.byref(count))
        if status == _abi.Status.CLOSED:
            return None, 0
        if status != _abi.Status.BUFFER_TOO_SMALL:
            check(_lib, status)
            return buffer, count.value
        capacity = count.value


def set_active_arena(capsule: Capsule | None, /) -> None:
    """Have mx_malloc serve every device from an arena, in place of the one before; None from none."""
    _reap()
    handle = 0 if capsule is None else _backing(capsule).handle
    _active.put(_lib, _active.ANY, handle, capsule)


def init_module(malloc_cb: Callable[..., object], free_cb: Callable[..., object], /) -> None:
    """Check that both are callable. Nothing else needs to be initialised."""
    if not callable(malloc_cb) or not callable(free_cb):
        raise TypeError("Both arguments must be callables")


def _backing(capsule: Capsule) -> _Backing:
    if not isinstance(capsule, Capsule):
        raise ValueError(f"expected an arena capsule, got {type(capsule).__name__}")
    return capsule._backing


def _ask(question: Any, capsule: Capsule) -> int:
    answer = ctypes.c_uint64()
    check(_lib, question(_backing(capsule).handle, ctypes.byref(answer)))
    return answer.value


# The two functions that the library calls, for every arena. What a signal handler raises may come up between any two
# steps of them. Before the first the answer is any number, and so the library checks whether a handle was stored.


def _allocate(user: int, address: int, size: int, handle: Any) -> int:
    visit, allocate = _Visit(), None
    call = _calls.stack[-1] if _calls.stack else None
    if call is not None and (call.key != user or call.reached):
        call = None  # the C pair, or a call inside a callback
    try:
        if call is not None:
            call.reached = True
        allocate, _ = _enter(user, visit)
        if allocate is None:
            return FAILED
        handle[0] = integer("the handle of an allocation", allocate(address, size), 64)
        visit.more = 1
        _leave(visit)
        return DONE
    except BaseException as raised:
        _leave(visit)
        _strip(raised)
        if call is not None:
            call.raised = raised
        else:
            _unraisable(raised, allocate)
        # With a handle there is memory, which somebody has to free.
        return DONE if visit.more else FAILED


def _deallocate(user: int, address: int, size: int, handle: int) -> int:
    visit, deallocate = _Visit(), None
    try:
        _, deallocate = _enter(user, visit)
        if deallocate is None:
            return FAILED
        visit.more = -1
        deallocate(address, size, handle)
        _leave(visit)
        return DONE
    except BaseException as raised:
        _leave(visit)
        _strip(raised)
        _unraisable(raised, deallocate)
        return FAILED


_c_allocate, _c_deallocate = _abi.AllocateCallback(_allocate), _abi.ReleaseCallback(_deallocate)

# They outlive this module, which may be taken out of sys.modules.
keep(_c_allocate, _c_deallocate)


def _enter(user: int, visit: _Visit) -> tuple[AllocCallback | None, DeallocCallback | None]:
    """Find what is to be called, and count the call. Nothing where nobody is called any more."""
    with _lock:
        backing = _backings.get(user)
        if backing is None or backing.allocate is None:
            return None, None
        backing.inside.add(visit)
        visit.backing = backing
        return backing.allocate, backing.deallocate


def _strip(raised: BaseException) -> None:
    """Take the frame of this module, which is the first, out of a traceback."""
    if raised.__traceback__ is not None:
        raised.__traceback__ = raised.__traceback__.tb_next


def _leave(visit: _Visit) -> None:
    """Count that a call is over. It can be repeated, where it was interrupted."""
    backing = visit.backing
    if backing is None:
        return
    with _lock:
        if visit in backing.inside:
            backing.inside.remove(visit)
            backing.live += visit.more
    if backing.ended():
        _dropped.append(backing)
    if _dropped:
        _reap()


def _drop(backing: _Backing) -> None:
    """Note that a capsule is gone. A collector may call this at any moment, also while this thread holds the lock."""
    backing.dropped = True
    _dropped.append(backing)
    _reap()


def _reap() -> None:
    """Let go of the arenas that nobody can use any more."""
    again = []
    while _dropped and _lock.acquire(blocking=False):
        try:
            backing = _dropped.popleft() if _dropped else None
            if backing is None or not backing.ended():
                continue  # the last call that leaves it comes here again
            gone = backing.allocate, backing.deallocate
            backing.allocate = backing.deallocate = None
        finally:
            _lock.release()
        del gone
        if _lib.arenagen_arena_release(backing.handle) == _abi.Status.BUSY:
            again.append(backing)  # this is inside its last call
        else:
            _backings.pop(backing.key, None)
    _dropped.extend(again)


def _unraisable(raised: BaseException, of: object) -> None:
    """Hand an exception to sys.unraisablehook, as the interpreter does."""
    for kind in tuple.__subclasses__():
        if kind.__name__ == "UnraisableHookArgs":
            args: Any = kind((type(raised), raised, raised.__traceback__, None, of))
            break
    else:
        args = types.SimpleNamespace(
            exc_type=type(raised), exc_value=raised, exc_traceback=raised.__traceback__, err_msg=None, object=of
        )
    hook = getattr(sys, "unraisablehook", None) or sys.__unraisablehook__
    try:
        hook(args)
    except BaseException:
        log.exception("sys.unraisablehook failed at %r of %r", raised, of)


def _cut_off() -> None:
    """Cut arenas off from an interpreter that is about to end, which nobody may call into afterwards."""
    global _cut
    _cut = True
    backings = list(_backings.values())
    for backing in backings:
        _lib.arenagen_arena_stop(backing.handle, 0)
    deadline = time.monotonic() + EXIT_WAITS
    for backing in backings:
        left = max(0, int((deadline - time.monotonic()) * 1000))
        if _lib.arenagen_arena_stop(backing.handle, left) == _abi.Status.BUSY:
            log.warning("the interpreter ends while %d calls are inside callbacks of an arena", len(backing.inside))


def _in_child() -> None:
    # Another thread of the parent may have held it.
    global _lock
    _lock = threading.Lock()


atexit.register(_cut_off)
os.register_at_fork(after_in_child=_in_child)
