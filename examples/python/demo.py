"""What an inference worker does, on host memory, with the standard library only.

Make an arena active, load "weights" through mx_malloc from several threads, use
them, tell the one range to register with a transport, free from other threads
and after the scope, close.

    python3 demo.py path/to/libarenagen_stub.so
"""

import ctypes
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))

from arenagen import _abi as abi  # noqa: E402

THREADS, TENSORS, DEVICE = 4, 25, 0


def main(path: str) -> None:
    lib = ctypes.CDLL(path)
    abi.declare(lib)

    def check(status: int) -> None:
        """Raises what the library says about a call that failed."""
        if status != abi.Status.OK:
            error = abi.Error()
            lib.arenagen_last_error(error)
            raise RuntimeError(f"{error.operation.decode()}: {error.text.decode()}")

    def counters() -> abi.Stats:
        stats = abi.Stats()
        check(lib.arenagen_arena_stats(arena, stats))
        return stats

    print(f"arenagen {lib.arenagen_version().decode()}, backend {lib.arenagen_backend_name().decode()}")
    options = abi.ArenaOptions()
    arena = ctypes.c_uint64()
    check(lib.arenagen_arena_create(options, arena))
    check(lib.arenagen_set_active(DEVICE, arena))

    tensors: dict[int, bytes] = {}

    def load(number: int) -> None:
        for i in range(TENSORS):
            data = bytes([number * TENSORS + i + 1]) * (1000 * (i + 1))
            address = lib.mx_malloc(len(data), DEVICE, None)
            if not address:
                raise MemoryError(f"no memory for {len(data)} bytes")
            ctypes.memmove(address, data, len(data))
            tensors[address] = data

    on_threads(load)
    stats = counters()
    print(f"loaded: {stats.live} live, {stats.mapped} bytes mapped")

    base, length = ctypes.c_void_p(), ctypes.c_uint64()
    check(lib.arenagen_arena_registered_range(arena, base, length))
    print(f"to register: {length.value} bytes at {base.value:#x}, once")

    # The scope ends. The frees below arrive late, and from other threads.
    check(lib.arenagen_set_active(DEVICE, 0))
    addresses = sorted(tensors)

    def check_and_free(number: int) -> None:
        for address in addresses[number::THREADS]:
            data = tensors[address]
            if ctypes.string_at(address, len(data)) != data:
                raise RuntimeError(f"the tensor at {address:#x} has lost its contents")
            lib.mx_free(address, len(data), DEVICE, None)

    on_threads(check_and_free)
    stats = counters()
    print(f"freed: {stats.live} live, created {stats.created} = released {stats.released} + live")
    if stats.live:
        raise RuntimeError("not everything was freed")
    check(lib.arenagen_arena_close(arena))
    check(lib.arenagen_arena_release(arena))
    print("closed")


def on_threads(function) -> None:
    """Runs function(0), function(1), ... each on a thread of its own."""
    failures = []

    def guarded(number: int) -> None:
        try:
            function(number)
        except BaseException as failure:  # reported on the main thread
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} path/to/libarenagen_stub.so")
    main(sys.argv[1])
