"""Checks arenas on a real GPU, and times them. Needs the built library, and PyTorch for what is about tensors.

    python3 scripts/gpu_check.py cuda [out/lib/libarenagen_cuda.so]

Prints one JSON object. It fails if anything was not as it should be; what could not be tried is told as skipped.
"""

import ctypes
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "scripts")]

from arenagen import _abi as abi  # noqa: E402
from gpu_drivers import DRIVERS  # noqa: E402

MIB = 1 << 20
SIZES = [2 * MIB, 16 * MIB, 64 * MIB, 256 * MIB]
ROUNDS = 20


class Library:
    """The built library, whose failures are exceptions."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lib = ctypes.CDLL(path)
        abi.declare(self.lib)

    def call(self, name: str, *args: Any) -> None:
        status = getattr(self.lib, name)(*args)
        if status != abi.Status.OK:
            error = abi.Error()
            self.lib.arenagen_last_error(error)
            raise RuntimeError(f"{name}: {error.text.decode()}")

    def create(self, total: int, drain: int = abi.Drain.USUAL) -> ctypes.c_uint64:
        options = abi.ArenaOptions(total=total, drain=drain)
        arena = ctypes.c_uint64()
        self.call("arenagen_arena_create", options, arena)
        return arena


class Driver:
    """The vendor's library, called as the spec of its backend says."""

    def __init__(self, backend: str) -> None:
        about = DRIVERS[backend]
        names = [os.environ.get(about["override"], "")] if os.environ.get(about["override"]) else about["libraries"]
        self.lib = self.load(names)
        self.state: dict[str, int] = {"ordinal": 0, "align": 0, "hint": 0}
        self.calls = {}
        for does, symbol, params in about["calls"]:
            if does == "open":
                self.state.update(self.invoke(symbol, params, {}))
            else:
                self.calls[does] = (symbol, params)

    @staticmethod
    def load(names: list[str]) -> ctypes.CDLL:
        for name in names:
            try:
                return ctypes.CDLL(name)
            except OSError as error:
                last = error
        raise RuntimeError(f"no driver: {last}")

    def invoke(self, symbol: str, params: list[Any], inputs: dict[str, int]) -> dict[str, int]:
        known = {**self.state, **inputs}
        args: list[Any] = []
        outs: dict[str, Any] = {}
        for param in params:
            if param[0] == "room":
                args.append(ctypes.byref(ctypes.c_uint64(1) if param[1] == 8 else ctypes.c_int32(1)))
            elif param[0] in ("out", "items"):
                outs[param[1]] = ctypes.c_uint64() if param[2] == 8 else ctypes.c_int32()
                args.append(ctypes.byref(outs[param[1]]))
            elif param[0] == "struct":
                block = ctypes.create_string_buffer(param[1])
                for offset, width, value in param[2]:
                    number = known[value] if isinstance(value, str) else value
                    block[offset : offset + width] = number.to_bytes(width, sys.byteorder)
                args.append(block)
            else:
                args.append(ctypes.c_uint64(known[param[1]] if isinstance(param[1], str) else param[1]))
        code = getattr(self.lib, symbol)(*args)
        if code != 0:
            raise RuntimeError(f"{symbol} answered {code}")
        return {name: out.value for name, out in outs.items()}

    def do(self, does: str, **inputs: int) -> dict[str, int]:
        return self.invoke(*self.calls[does], inputs)


def check_arena(library: Library) -> dict[str, Any]:
    """An arena's addresses, range, counters and end."""
    arena = library.create(64 << 30)
    info = abi.DeviceInfo()
    library.call("arenagen_arena_device", arena, info)
    library.call("arenagen_set_active", 0, arena)
    pointers = [library.lib.mx_malloc(size, 0, None) for size in (1, 3 * MIB, 64 * MIB)]
    stats = abi.Stats()
    library.call("arenagen_arena_stats", arena, stats)
    expect(all(pointers), "allocations succeed")
    expect(pointers[0] == stats.base, "the first allocation is at the base")
    expect(pointers == sorted(pointers), "addresses ascend")
    expect(stats.live == 3 and stats.mapped == stats.used, "the counters fit")
    base, length = ctypes.c_void_p(), ctypes.c_uint64()
    library.call("arenagen_arena_registered_range", arena, base, length)
    expect(base.value == stats.base and length.value == stats.used, "the range to register is what was used")
    library.call("arenagen_set_active", 0, 0)
    library.lib.mx_free(pointers[1], 0, 0, None)
    library.call("arenagen_arena_stats", arena, stats)
    expect(stats.live == 2, "a free after the scope finds its arena")
    library.call("arenagen_arena_close", arena)
    library.call("arenagen_arena_release", arena)
    return {
        "device": info.name.decode(),
        "driver": info.library.decode(),
        "driver_version": info.driver_version.decode(),
        "properties": info.properties.decode(),
        "granule": stats.granule,
    }


def check_torch(library: Library) -> dict[str, Any]:
    """Tensors in an arena hold what is written, also beside others, and are freed after the scope."""
    try:
        import torch  # pylint: disable=import-outside-toplevel
    except ImportError:
        return {"skipped": "there is no PyTorch"}
    if not torch.cuda.is_available():
        return {"skipped": "PyTorch sees no GPU"}
    torch.zeros(1, device="cuda")
    arena = library.create(1 << 40)
    library.call("arenagen_set_active", 0, arena)
    allocator = torch.cuda.memory.CUDAPluggableAllocator(library.path, "mx_malloc", "mx_free")
    pool = torch.cuda.MemPool(allocator.allocator())
    with torch.cuda.use_mem_pool(pool):
        tensors = [torch.full((n * 1024 * 1024,), n, dtype=torch.int32, device="cuda") for n in range(1, 9)]
    torch.cuda.synchronize()
    expect(all(bool((tensor == n).all()) for n, tensor in enumerate(tensors, 1)), "tensors hold what was written")
    used = ctypes.c_uint64()
    library.call("arenagen_arena_used", arena, used)
    expect(used.value >= sum(tensor.nbytes for tensor in tensors), "the tensors lie in the arena")
    copies = [tensor.cpu() for tensor in tensors]
    expect(all(bool((copy == n).all()) for n, copy in enumerate(copies, 1)), "they can be copied out")
    library.call("arenagen_set_active", 0, 0)
    del tensors, pool
    torch.cuda.empty_cache()
    live = ctypes.c_uint64()
    library.call("arenagen_arena_live", arena, live)
    expect(live.value == 0, "all of it is freed after the scope")
    library.call("arenagen_arena_release", arena)
    return {"torch": torch.__version__, "used": used.value}


def microseconds(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter_ns()
    answer = work()
    return (time.perf_counter_ns() - started) / 1000, answer


def time_driver(driver: Driver) -> dict[str, Any]:
    """The driver's own calls, by size."""
    times: dict[str, Any] = {}
    for size in SIZES:
        rounds: dict[str, list[float]] = {}

        def timed(does: str, **inputs: int) -> dict[str, int]:
            spent, answer = microseconds(lambda: driver.do(does, **inputs))
            rounds.setdefault(does, []).append(spent)
            return answer

        for _ in range(ROUNDS):
            va = timed("reserve", size=size)["va"]
            handle = timed("create", size=size)["handle"]
            timed("map", va=va, size=size, handle=handle)
            timed("grant", va=va, size=size, device=0)
            timed("unmap", va=va, size=size)
            timed("release", handle=handle)
            timed("unreserve", va=va, size=size)
        times[str(size)] = {does: round(statistics.median(values), 2) for does, values in rounds.items()}
    return times


def time_pairs(library: Library, driver: Driver) -> dict[str, Any]:
    """Our malloc and free beside the same five calls, in turns."""
    arena = library.create(1 << 40, abi.Drain.NONE)
    library.call("arenagen_set_active", 0, arena)
    times: dict[str, Any] = {}
    for size in SIZES:
        va = driver.do("reserve", size=size)["va"]

        def theirs() -> None:
            handle = driver.do("create", size=size)["handle"]
            driver.do("map", va=va, size=size, handle=handle)
            driver.do("grant", va=va, size=size, device=0)
            driver.do("unmap", va=va, size=size)
            driver.do("release", handle=handle)

        def ours() -> None:
            library.lib.mx_free(library.lib.mx_malloc(size, 0, None), size, 0, None)

        ours()
        pairs = [(microseconds(theirs)[0], microseconds(ours)[0]) for _ in range(ROUNDS)]
        driver.do("unreserve", va=va, size=size)
        plain, arenas = (statistics.median(column) for column in zip(*pairs))
        times[str(size)] = {"driver_us": round(plain, 2), "arena_us": round(arenas, 2), "ratio": round(arenas / plain, 3)}
    library.call("arenagen_arena_release", arena)
    return times


FAILED: list[str] = []


def expect(true: bool, what: str) -> None:
    if not true:
        FAILED.append(what)


def main() -> int:
    backend = sys.argv[1] if len(sys.argv) > 1 else "cuda"
    path = sys.argv[2] if len(sys.argv) > 2 else str(ROOT / "out" / "lib" / f"libarenagen_{backend}.so")
    library = Library(path)
    report: dict[str, Any] = {"backend": backend}
    report["arena"] = check_arena(library)
    report["tensors"] = check_torch(library)
    driver = Driver(backend)
    report["driver_us_by_size"] = time_driver(driver)
    report["pairs_by_size"] = time_pairs(library, driver)
    report["failed"] = FAILED
    print(json.dumps(report, indent=2))
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
