"""What every Python program here has: scenarios, and the library with checked calls.

Without an argument a program lists its scenarios, with a name it runs that one.
"""

import ctypes
import os
import sys
import threading

from arenagen import _abi as abi

SCENARIOS = {}


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


def main():
    if len(sys.argv) == 1:
        print("\n".join(SCENARIOS))
    else:
        SCENARIOS[sys.argv[1]]()


def equal(want, got):
    if want != got:
        raise AssertionError(f"got {got!r}, expected {want!r}")


def load(variable="LIBRARY"):
    """Loads a library whose path the test gives."""
    library = ctypes.CDLL(os.environ[variable])
    abi.declare(library)
    return library


def last_error(library):
    error = abi.Error()
    equal(abi.Status.OK, library.arenagen_last_error(error))
    return error


def ok(library, status):
    if status != abi.Status.OK:
        error = last_error(library)
        raise AssertionError(f"{error.operation.decode()} answers {abi.Status(status).name}: {error.text.decode()}")


def create_active(library, options=None):
    """An arena that serves every device."""
    arena = abi.Arena()
    ok(library, library.arenagen_arena_create(abi.ArenaOptions(backend_options=options), arena))
    ok(library, library.arenagen_set_active_any(arena))
    return arena


def live(library, arena):
    count = ctypes.c_uint64()
    ok(library, library.arenagen_arena_live(arena, count))
    return count.value


def use(library, times=20):
    """Allocates, writes, reads and frees."""
    for i in range(times):
        data = bytes([i % 256]) * (1000 + i)
        address = library.mx_malloc(len(data), 0, None)
        if not address:
            raise AssertionError(last_error(library).text.decode())
        ctypes.memmove(address, data, len(data))
        equal(data, ctypes.string_at(address, len(data)))
        library.mx_free(address, len(data), 0, None)
    equal(None, library.mx_malloc(-1, 0, None))
    equal(abi.Status.INVALID_ARGUMENT, last_error(library).status)


def use_fully(library):
    """Uses a library from its first arena to the last."""
    arena = create_active(library)
    use(library)
    on_threads(4, lambda number: use(library))
    equal(0, live(library, arena))
    ok(library, library.arenagen_arena_close(arena))
    ok(library, library.arenagen_arena_release(arena))


def on_threads(count, job):
    """Calls job(0), job(1), ... each on a thread of its own, and raises what one of them raised."""
    failures = []

    def guarded(number):
        try:
            job(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
