"""What can go wrong, as exceptions.

Every failure of the library is an ArenaError. Each kind that a caller decides on has a class of its own, which
is also the built-in exception that fits, where there is one.
"""

from __future__ import annotations

from . import _abi


class ArenaError(RuntimeError):
    """A call that failed.

    status is the library's name of the reason, for example "exhausted". driver_code and driver_name are the driver's own
    (0 and "" when it was not asked); address and size are what the call was about, in bytes, or 0.
    """

    def __init__(
        self,
        text: str,
        *,
        status: str = "",
        operation: str = "",
        driver_code: int = 0,
        driver_name: str = "",
        address: int = 0,
        size: int = 0,
    ) -> None:
        """Take the text for a person and what is known about the failure."""
        super().__init__(text)
        self.status = status
        self.operation = operation
        self.driver_code = driver_code
        self.driver_name = driver_name
        self.address = address
        self.size = size


class InvalidArgumentError(ArenaError, ValueError):
    """An argument is out of its range; nothing changed."""


class SizeOverflowError(ArenaError, OverflowError):
    """A size cannot be rounded up to the granule."""


class ClosedError(ArenaError):
    """The arena is closed, or was released."""


class ExhaustedError(ArenaError):
    """The reservation has no room left for the request."""


class OutOfMemoryError(ArenaError, MemoryError):
    """The device has no memory left."""


class NoActiveArenaError(ArenaError):
    """No arena is active for the device."""


class BusyError(ArenaError):
    """The call would wait for the callback that it was made from, for calls that are under way, or for another thread."""


class NotSupportedError(ArenaError):
    """The backend or its driver cannot do this."""


class UnavailableError(ArenaError):
    """There is no driver or no device that can be used, or this process may not use it."""


class NotEmptyError(ArenaError):
    """The arena has allocations, or calls that are under way."""


class NotMappedError(ArenaError):
    """No region begins at the address, or it was taken away meanwhile."""


class DeviceLostError(ArenaError):
    """The device failed for good."""


class ForkedError(ArenaError):
    """The process was forked after the library was loaded. Use exec, or spawn and forkserver in multiprocessing."""


class InUseError(ArenaError):
    """PyTorch still holds memory of the arena."""


class LibraryError(ImportError):
    """The library cannot be loaded or does not fit. The text says what to do."""


# The class of each status. Any other is an ArenaError.
BY_STATUS: dict[int, type[ArenaError]] = {
    _abi.Status.INVALID_ARGUMENT: InvalidArgumentError,
    _abi.Status.INVALID_HANDLE: ClosedError,
    _abi.Status.CLOSED: ClosedError,
    _abi.Status.EXHAUSTED: ExhaustedError,
    _abi.Status.OVERFLOW: SizeOverflowError,
    _abi.Status.OUT_OF_MEMORY: OutOfMemoryError,
    _abi.Status.NO_ACTIVE_ARENA: NoActiveArenaError,
    _abi.Status.BUSY: BusyError,
    _abi.Status.NOT_SUPPORTED: NotSupportedError,
    _abi.Status.NOT_PERMITTED: UnavailableError,
    _abi.Status.UNAVAILABLE: UnavailableError,
    _abi.Status.NO_DEVICE: UnavailableError,
    _abi.Status.DRIVER_TOO_OLD: UnavailableError,
    _abi.Status.DEVICE_LOST: DeviceLostError,
    _abi.Status.NOT_EMPTY: NotEmptyError,
    _abi.Status.NOT_MAPPED: NotMappedError,
    _abi.Status.FORKED: ForkedError,
}
