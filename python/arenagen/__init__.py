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
from ._memory import DeviceStats, Event, Events, Region, Shortage, TagStats, device_stats
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
    NotMappedError,
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
    "DeviceStats",
    "Event",
    "Events",
    "ExhaustedError",
    "ForkedError",
    "InUseError",
    "InvalidArgumentError",
    "LibraryError",
    "NoActiveArenaError",
    "NotEmptyError",
    "NotMappedError",
    "NotSupportedError",
    "OutOfMemoryError",
    "Region",
    "Scope",
    "Shortage",
    "SizeOverflowError",
    "Stats",
    "TagStats",
    "UnavailableError",
    "__version__",
    "device_stats",
    "doctor",
    "library_path",
    "set_active",
    "use_arena",
]
