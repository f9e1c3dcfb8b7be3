"""A drop-in for extensions that give PyTorch memory through Python callbacks.

The eleven functions, and the C pair mx_malloc and mx_free in the file that __file__ names. An arena's memory comes from
two callables: alloc_callback(address, size) -> handle, and dealloc_callback(address, size, handle). Integers are 0 to
2**64 - 1; one beyond its range raises OverflowError, and what is no integer TypeError.

A capsule keeps its arena alive, and so does being active. An arena with live pointers outlives both; when the last pointer is
freed it lets its callables go. One without is collected like any object, also where its callables refer to its capsule. All
functions may be called from any thread. At interpreter exit these arenas are cut off:
their mx_malloc answers NULL, and frees are dropped and counted. In a forked child every call raises RuntimeError, and frees do nothing.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import logging
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from operator import index
from typing import Any, NoReturn, SupportsIndex

from . import _abi, _active
from ._integers import integer
from ._library import check, keep, last_error, library, path
from ._raised import unraisable

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

# Frames that the callbacks take above the caller's, with some to spare.
HEADROOM = 16

# Seconds that an exit waits for callbacks that are under way.
EXIT_WAITS = 5.0


class Capsule:
    """An arena, for the functions of this module. It has no other use."""

    __slots__ = ("__weakref__", "_backing")

    def __init__(self, backing: _Backing) -> None:
        self._backing = backing

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled."""
        raise TypeError("cannot copy or pickle an arena capsule")


class _Backing:
    """What stands behind the addresses of one arena: two callables.

    Its capsule has it, and so has each live pointer. When nobody has it any more the library's arena goes too.
    """

    __slots__ = ("__weakref__", "allocate", "deallocate", "handle", "kept", "key")

    def __init__(self, key: int, allocate: AllocCallback, deallocate: DeallocCallback) -> None:
        self.key = key
        self.allocate = allocate
        self.deallocate = deallocate
        self.handle = 0  # the library's
        self.kept: deque[tuple[Any, int]] = deque()  # what the library handed over and no caller has yet


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

# There is no lock here: a signal handler may raise between any two steps, a collector may finalize in the middle of
# anything, and a process may fork. Each step is one operation of a dict or a deque, which is whole by itself.

# By the number that the library gives back to the callbacks.
_backings: dict[int, weakref.ref[_Backing]] = {}

# What each live pointer has, by that number and its address.
_live: dict[tuple[int, int], _Backing] = {}

# The library's arenas that were inside their last call when nobody had them any more.
_leaving: deque[int] = deque()

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
    Raises TypeError for what is not callable, ValueError, and OverflowError where a number or the rounded size is too large.
    """
    _release_leaving()
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
    _backings[backing.key] = weakref.ref(backing)
    weakref.finalize(backing, _forget, backing.key, backing.handle).atexit = False  # type: ignore[misc]
    return Capsule(backing)


def arena_malloc(capsule: Capsule, size: SupportsIndex, /) -> int:
    """Allocate bytes, more than 0 and rounded up to the granularity, and give their address.

    What alloc_callback raises comes out unchanged. A handle that is no integer raises TypeError, one out of range
    OverflowError. ValueError: "size must be positive". RuntimeError: "arena is closed", or the text has "would exceed reserved
    range of N bytes". What a signal handler raises in the moment in which the callback begins goes to sys.unraisablehook, and
    comes out as KeyboardInterrupt.
    """
    _release_leaving()
    backing = _backing(capsule)
    wanted, address = integer("size", size, 64, signed=True), ctypes.c_void_p()
    _need(HEADROOM)
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
    _release_leaving()
    backing, address = _backing(capsule), integer("ptr", ptr, 64)
    _need(HEADROOM)
    _lib.arenagen_arena_free(backing.handle, address)


def _need(frames: int) -> None:
    """Raise a RecursionError here, if there is no room for the frames that the callbacks take, and not inside them."""
    if frames:
        _need(frames - 1)


def arena_registered_range(capsule: Capsule, /) -> tuple[int, int]:
    """Give the base, and the bytes up to the highest address handed out."""
    backing = _backing(capsule)
    base, length = ctypes.c_void_p(), ctypes.c_uint64()
    check(_lib, _lib.arenagen_arena_registered_range(backing.handle, ctypes.byref(base), ctypes.byref(length)))
    # Here the range is all that was handed out, also what is still being mapped.
    check(_lib, _lib.arenagen_arena_used(backing.handle, ctypes.byref(length)))
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

    It waits for calls that began before. The caller releases what it gets. Raises RuntimeError inside a callback while
    the arena has calls under way, for which it would wait.
    """
    _release_leaving()
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
    for address, _, _ in drained:
        _live.pop((backing.key, address), None)
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
    _release_leaving()
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


# The two functions that the library calls, for every arena. Before the first step of one a signal handler may raise; then
# the answer is any number, and so the library checks whether a handle was stored. They call nothing of this module where that
# could raise a RecursionError.


def _allocate(user: int, address: int, size: int, handle: Any) -> int:
    found, allocate, stored = None, None, False
    call = _calls.stack[-1] if _calls.stack else None
    if call is not None and (call.key != user or call.reached):
        call = None  # the C pair, or a call inside a callback
    try:
        if call is not None:
            call.reached = True
        entry = _backings.get(user)
        found = entry() if entry is not None else None
        if found is None:
            return FAILED  # its capsule was dropped meanwhile
        allocate = found.allocate
        number = index(allocate(address, size))
        if not 0 <= number < 1 << 64:
            raise OverflowError(f"the handle of an allocation must be 0 to {(1 << 64) - 1}, got {number}")
        _live[user, address] = found
        handle[0] = number
        stored = True
        return DONE
    except BaseException as raised:
        if raised.__traceback__ is not None:
            raised.__traceback__ = raised.__traceback__.tb_next  # without this frame
        if call is not None:
            call.raised = raised
        else:
            with suppress(BaseException):
                unraisable(raised, allocate)
        if not stored:
            _live.pop((user, address), None)
        # With a handle there is memory, which somebody has to free.
        return DONE if stored else FAILED


def _deallocate(user: int, address: int, size: int, handle: int) -> int:
    deallocate = None
    try:
        deallocate = _live[user, address].deallocate
        deallocate(address, size, handle)
        return DONE
    except BaseException as raised:
        if raised.__traceback__ is not None:
            raised.__traceback__ = raised.__traceback__.tb_next
        with suppress(BaseException):
            unraisable(raised, deallocate)
        return FAILED
    finally:
        _live.pop((user, address), None)


_c_allocate, _c_deallocate = _abi.AllocateCallback(_allocate), _abi.ReleaseCallback(_deallocate)

# They outlive this module, which may be taken out of sys.modules.
keep(_c_allocate, _c_deallocate)


def _forget(key: int, handle: int) -> None:
    """Give the library's arena back when nobody has its backing any more."""
    _backings.pop(key, None)
    if _lib.arenagen_arena_release(handle) == _abi.Status.BUSY:
        _leaving.append(handle)  # this is inside its last call


def _release_leaving() -> None:
    """Give back what could not be at once."""
    for _ in range(len(_leaving)):
        try:
            handle = _leaving.popleft()
        except IndexError:
            return
        if _lib.arenagen_arena_release(handle) == _abi.Status.BUSY:
            _leaving.append(handle)


def _cut_off() -> None:
    """Cut arenas off from an interpreter that is about to end, which nobody may call into afterwards."""
    global _cut
    _cut = True
    handles = [backing.handle for found in list(_backings.values()) if (backing := found()) is not None]
    for handle in handles:
        _lib.arenagen_arena_stop(handle, 0)
    deadline = time.monotonic() + EXIT_WAITS
    for handle in handles:
        left = max(0, int((deadline - time.monotonic()) * 1000))
        if _lib.arenagen_arena_stop(handle, left) == _abi.Status.BUSY:
            log.warning("the interpreter ends while callbacks of an arena are under way, after %g seconds", EXIT_WAITS)


atexit.register(_cut_off)
