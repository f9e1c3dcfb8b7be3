"""Finds and loads the one library that a process has, and turns its failures into exceptions."""

from __future__ import annotations

import ctypes
import logging
import mmap
import os
import signal
import stat
import struct
import threading
from pathlib import Path

from . import _abi
from .errors import BY_STATUS, ArenaError, LibraryError

log = logging.getLogger("arenagen")

# Names another file than the one that the package brings.
OVERRIDE = "ARENAGEN_LIBRARY"
NAME = "libarenagen.so"

# What every executable and library has that the Go linker made.
_GO_BUILD_INFO = b"\xff Go buildinf:"

_kept: list[object] = []
# A signal handler that comes while the library is loaded may want it too.
_lock = threading.RLock()
_loaded: ctypes.CDLL | None = None


def library() -> ctypes.CDLL:
    """Give the library, which the first call loads. It is never unloaded.

    Raises LibraryError, which is an ImportError, when there is none, when it does not fit, and in a sub-interpreter.
    """
    if _loaded is not None:
        return _loaded
    return _load_once()


def keep(*objects: object) -> None:
    """Keep objects for good: what the library may call lives as long as the library, which is never unloaded."""
    _kept.extend(objects)


def path() -> str:
    """Give the library's file, which torch's CUDAPluggableAllocator wants to know. Once it is loaded it stays the same."""
    if _loaded is not None:
        return _loaded._name
    given = os.environ.get(OVERRIDE)
    if given:
        try:
            if not stat.S_ISREG(os.stat(given).st_mode):
                raise LibraryError(f"{OVERRIDE} names {given}, which is no file")
        except (OSError, ValueError) as error:
            raise LibraryError(f"{OVERRIDE} names {given}, which is no file: {error}") from error
        return os.path.realpath(given)
    here = Path(__file__).resolve().parent
    # A wheel carries the library in the package. In a checkout it is where make puts it.
    candidates = [here / NAME, here.parent.parent / "out" / "lib" / NAME]
    for candidate in candidates:
        if candidate.is_file():
            return str(candidate)
    raise LibraryError(
        f"there is no {NAME}: looked for {', '.join(map(str, candidates))}. "
        f"In a checkout run make; else install a wheel, or name the file in {OVERRIDE}"
    )


def _load_once() -> ctypes.CDLL:
    global _loaded
    with _lock:
        if _loaded is None:
            refuse_sub_interpreter()
            file = path()
            _refuse_other_c_library()
            other = _other_go_runtime(file)
            loaded = _open(file)
            _check(loaded, file)
            if other is not None:
                log.warning(
                    "%s carries another Go runtime. From now on its garbage collector cannot interrupt a loop that calls "
                    "no function, so that it may stand still for as long as such a loop runs. The Go project does not "
                    "support several runtimes in one process",
                    other,
                )
            _loaded = loaded
            log.debug("loaded %s, release %s", file, loaded.arenagen_version().decode())
        return _loaded


def _open(file: str) -> ctypes.CDLL:
    _refuse_truncated(file)
    try:
        return ctypes.CDLL(file)
    except OSError as error:
        hint = ""
        if "static TLS" in str(error):
            hint = ". Import arenagen earlier, or set GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096"
        raise LibraryError(f"cannot load {file}: {error}{hint}") from error


def _refuse_truncated(file: str) -> None:
    """Refuse a copy that ends too early, which would end the process when it is loaded."""
    try:
        with open(file, "rb") as opened:
            header = opened.read(64)
            size = opened.seek(0, os.SEEK_END)
    except OSError as error:
        raise LibraryError(f"cannot load {file}: {error}") from error
    if len(header) < 64 or header[:5] != b"\x7fELF\2":
        return  # the loader says what is wrong with it
    (sections,) = struct.unpack_from("<Q", header, 0x28)
    length, count = struct.unpack_from("<HH", header, 0x3A)
    # The table of sections is the last thing in a file.
    if sections + length * count > size:
        raise LibraryError(f"cannot load {file}: it is a copy that ends at {size} bytes, before its end")


def _check(loaded: ctypes.CDLL, file: str) -> None:
    """Refuse a library of another interface, and one that is not the first of ours in this process."""
    try:
        asked = loaded.arenagen_abi_version
    except AttributeError as error:
        raise LibraryError(f"{file} is no library of arenagen: {error}") from error
    asked.restype = ctypes.c_uint32
    major, minor = divmod(asked(), 1 << 16)
    if major != _abi.ABI_MAJOR or minor < _abi.ABI_MINOR:
        raise LibraryError(
            f"{file} has version {major}.{minor} of the C interface, "
            f"expected {_abi.ABI_MAJOR}.{_abi.ABI_MINOR} or a later {_abi.ABI_MAJOR}.x"
        )
    try:
        _abi.declare(loaded)
    except AttributeError as error:
        raise LibraryError(f"{file} lacks a function of its version of the C interface: {error}") from error
    status = loaded.arenagen_diagnose(ctypes.byref(_abi.Diagnostics()))
    if status == _abi.Status.SECOND_LIBRARY:
        raise LibraryError(f"{file}: {last_error(loaded)}")


def refuse_sub_interpreter() -> None:
    """Raise a LibraryError in a sub-interpreter: callbacks from other threads always reach the main one."""
    # The two functions are CPython's own, from 3.9 on.
    current, main = ctypes.pythonapi.PyInterpreterState_Get, ctypes.pythonapi.PyInterpreterState_Main
    current.restype = main.restype = ctypes.c_void_p
    if current() != main():
        raise LibraryError("arenagen works in the main interpreter only, and this is a sub-interpreter")


def _refuse_other_c_library() -> None:
    try:
        found = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        found = None
    if not found:
        raise LibraryError(
            "this Python does not run on glibc but on another C library, such as musl (Alpine), which cannot load a "
            "library with a Go runtime. Use an image with glibc 2.28 or newer, such as Debian's"
        )


def _other_go_runtime(file: str) -> str | None:
    """Tell which library has another Go runtime: ours takes the signal by which that one interrupts its loops."""
    other = _library_behind(signal.SIGURG)
    if other and os.path.realpath(other) != os.path.realpath(file) and _has_go(other):
        return other
    return None


def _library_behind(number: signal.Signals) -> str | None:
    """Tell whose function handles a signal; None if it is nobody's, or Python's."""
    if callable(signal.getsignal(number)):
        return None
    libc = ctypes.CDLL(None)
    action = ctypes.create_string_buffer(256)  # struct sigaction, which is smaller, begins with the handler
    if libc.sigaction(int(number), None, action) != 0:
        return None
    (handler,) = struct.unpack_from("P", action)
    info = (ctypes.c_void_p * 4)()  # Dl_info, which begins with the file's name
    if handler in (0, 1) or libc.dladdr(ctypes.c_void_p(handler), info) == 0 or not info[0]:
        return None
    return os.fsdecode(ctypes.string_at(info[0]))


def _has_go(file: str) -> bool:
    try:
        with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(_GO_BUILD_INFO) >= 0
    except (OSError, ValueError):
        return False


def last_error(loaded: ctypes.CDLL, status: int | None = None) -> ArenaError:
    """Turn the calling thread's last failure into an exception: that with a status, where the caller knows it."""
    error = _abi.Error()
    loaded.arenagen_last_error(ctypes.byref(error))
    if status is not None and error.status != status:
        # A signal handler or a finalizer has run since, and a call of its own failed.
        error = _abi.Error(status=status, text=loaded.arenagen_status_text(status))
    kind = BY_STATUS.get(error.status, ArenaError)
    return kind(
        error.text.decode(errors="replace"),
        status=loaded.arenagen_status_name(error.status).decode(),
        operation=error.operation.decode(errors="replace"),
        driver_code=error.driver_code,
        driver_name=error.driver_name.decode(errors="replace"),
        address=error.address,
        size=error.size,
    )


def check(loaded: ctypes.CDLL, status: int) -> None:
    """Raise what a call answered, unless that is success."""
    if status != _abi.Status.OK:
        raise last_error(loaded, status)


def _in_child() -> None:
    # Another thread of the parent may have held it.
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_in_child)
