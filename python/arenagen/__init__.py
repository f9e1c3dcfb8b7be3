"""Memory arenas on GPUs: one range of device addresses that an RDMA transport registers once.

    arena = arenagen.Arena(backend="cuda", device=0)
    with arenagen.use_arena(arena):
        model = load()
    base, used = arena.registered_range()

arenagen._alloc_ext is a drop-in for extensions over Python callbacks.
Messages go to the logger "arenagen". Environment: ARENAGEN_LIBRARY names another library than the one the package brings.
"""

from __future__ import annotations

from ._abi import RELEASE as __version__
from ._arena import DEFAULT_TOTAL, Arena, DeviceInfo, Stats, doctor, set_active
from ._buffer import Buffer
from ._library import path as library_path
from ._torch import Scope, use_arena
from .errors import (
    ArenaError,
    BusyError,
    ClosedError,
    DeviceLostError,
    ExhaustedError,
    ForkedError,
    InUseError,
    InvalidArgumentError,
    LibraryError,
    NoActiveArenaError,
    NotEmptyError,
    NotSupportedError,
    OutOfMemoryError,
    SizeOverflowError,
    UnavailableError,
)

__all__ = [
    "DEFAULT_TOTAL",
    "Arena",
    "ArenaError",
    "Buffer",
    "BusyError",
    "ClosedError",
    "DeviceInfo",
    "DeviceLostError",
    "ExhaustedError",
    "ForkedError",
    "InUseError",
    "InvalidArgumentError",
    "LibraryError",
    "NoActiveArenaError",
    "NotEmptyError",
    "NotSupportedError",
    "OutOfMemoryError",
    "Scope",
    "SizeOverflowError",
    "Stats",
    "UnavailableError",
    "__version__",
    "doctor",
    "library_path",
    "set_active",
    "use_arena",
]
