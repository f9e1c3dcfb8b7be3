"""Which arena the C pair serves a device from, and that being so keeps an arena alive."""

from __future__ import annotations

import ctypes
import os
import threading

from ._library import check

# A device's place, or the one for every device that has none of its own.
ANY = None
DEVICES = 64

_lock = threading.RLock()
_holders: dict[int | None, object] = {}


def put(loaded: ctypes.CDLL, place: int | None, handle: int, holder: object) -> object:
    """Make an arena the one of a place, or clear the place with 0 and None. Gives what was held there before."""
    with _lock:
        if place is ANY:
            check(loaded, loaded.arenagen_set_active_any(handle))
        else:
            check(loaded, loaded.arenagen_set_active(place, handle))
        before = _holders.pop(place, None)
        if holder is not None:
            _holders[place] = holder
    return before


def at(place: int | None) -> object:
    """Give what is active at a place, or None."""
    return _holders.get(place)


def _in_child() -> None:
    # Another thread of the parent may have held it.
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_in_child)
