"""What an inference worker does, on host memory, without PyTorch or any other package.

Make an arena active, load "weights" through mx_malloc from several threads, use
them, tell the one range to register with a transport, free from other threads
and after the scope, close.

    python3 examples/python/demo.py
"""

import ctypes
import os
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))

import arenagen  # noqa: E402

THREADS, TENSORS, DEVICE = 4, 25, 0


def main() -> None:
    arena = arenagen.Arena(backend="stub", device=DEVICE)
    print(f"arenagen {arenagen.__version__}, backend {arena.backend}")

    # The pair that PyTorch calls, from C++ and without Python's lock.
    pair = ctypes.CDLL(arenagen.library_path())
    pair.mx_malloc.restype = ctypes.c_void_p

    def load(number: int) -> tuple[int, bytes]:
        data = bytes([number % 256]) * (1000 * (number + 1))
        address = pair.mx_malloc(ctypes.c_ssize_t(len(data)), DEVICE, None)
        if not address:
            raise MemoryError(f"no memory for {len(data)} bytes")
        arena.buffer(address, len(data)).view[:] = data
        return address, data

    arenagen.set_active(arena, DEVICE)
    with ThreadPoolExecutor(THREADS) as threads:
        tensors = dict(threads.map(load, range(THREADS * TENSORS)))
    print(f"loaded: {arena.live_count} live, {arena.mapped_bytes} bytes mapped")

    base, length = arena.registered_range()
    print(f"to register: {length} bytes at {base:#x}, once")

    # The scope ends. The frees below arrive late, and from other threads.
    arenagen.set_active(None, DEVICE)

    def check_and_free(address: int) -> None:
        if ctypes.string_at(address, len(tensors[address])) != tensors[address]:
            raise RuntimeError(f"the tensor at {address:#x} has lost its contents")
        pair.mx_free(ctypes.c_void_p(address), ctypes.c_ssize_t(len(tensors[address])), DEVICE, None)

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(check_and_free, tensors))
    stats = arena.stats()
    print(f"freed: {stats.live} live, created {stats.created} = released {stats.released} + live")
    if stats.live:
        raise RuntimeError("not everything was freed")
    arena.close()
    print("closed")


if __name__ == "__main__":
    main()
