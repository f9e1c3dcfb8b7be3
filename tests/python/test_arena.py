"""Arena, on host memory and on the driver simulators."""

from __future__ import annotations

import copy
import ctypes
import gc
import json
import os
import pickle
import sysconfig
import textwrap
import threading
import time
from typing import Any

import pytest
from child import BACKENDS, SIMULATORS, run, said, those_with

import arenagen
from arenagen import _abi

GRANULE = 2 << 20

lib = ctypes.CDLL(arenagen.library_path())
_abi.declare(lib)


@pytest.fixture
def arena() -> Any:
    made = arenagen.Arena("stub", total=1 << 30)
    yield made
    made.release(force=True)


@pytest.fixture(autouse=True)
def nothing_active() -> Any:
    yield
    for device in (None, 0, 1, 63):
        arenagen.set_active(None, device)


def arenas() -> int:
    """How many the library has; what earlier tests dropped is collected first, not between two counts."""
    gc.collect()
    diagnostics = _abi.Diagnostics()
    lib.arenagen_diagnose(ctypes.byref(diagnostics))
    return int(diagnostics.arenas)


class TestLife:
    @pytest.mark.parametrize("backend", BACKENDS)
    def test_from_beginning_to_end(self, backend: str) -> None:
        program = """
            import json, sys
            import arenagen
            with arenagen.Arena(backend=sys.argv[1], device=0, total=1 << 34) as arena:
                first, second = arena.malloc(1), arena.malloc(5 << 20)
                base, used = arena.registered_range()
                assert (first, second) == (base, base + (2 << 20)), (first, second, base)
                assert used == arena.used_bytes == 8 << 20
                assert (arena.mapped_bytes, arena.live_count) == (8 << 20, 2)
                arena.free(first)
                arena.free(first)
                stats = arena.stats()
                assert (stats.live, stats.mapped, stats.unknown_frees) == (1, 6 << 20, 1)
                assert json.loads(stats.to_json())["created"] == 2
                assert arena.info.backend == arena.backend == sys.argv[1]
                assert arena.device == 0 and arena.info.host_memory == (sys.argv[1] == "stub")
                assert not arena.closed
            assert arena.closed
            assert (arena.stats().released, arena.live_count) == (2, 0)
            arena.close()
            arena.release()
            arena.release()
            arena.close()
        """
        assert said(program, backend, env=BACKENDS[backend]) == ""

    @pytest.mark.parametrize("backend", SIMULATORS)
    def test_auto_takes_what_drives_a_device(self, backend: str) -> None:
        assert said("import arenagen; print(arenagen.Arena().backend)", env=SIMULATORS[backend]) == f"{backend}\n"

    def test_auto_never_takes_host_memory(self) -> None:
        program = """
            import arenagen
            try:
                arenagen.Arena()
            except arenagen.UnavailableError as error:
                print(error.status, "libcuda" in str(error))
        """
        none = {"ARENAGEN_CUDA_LIBRARY": "/no/libcuda.so", "ARENAGEN_HIP_LIBRARY": "/no/libamdhip64.so", "ARENAGEN_LEVELZERO_LIBRARY": "/no/libze_loader.so"}
        assert said(program, env=none) == "unavailable True\n"

    @pytest.mark.parametrize(
        ("backend", "settings", "status"),
        [
            *((backend, "devices=0", "no_device") for backend in SIMULATORS),
            *((backend, "lacks=0", "not_supported") for backend in those_with("attribute")),
            *((backend, "version=1000000", "driver_too_old") for backend in ("cuda", "hip")),  # the others are not asked for it
        ],
    )
    def test_what_a_driver_lacks(self, backend: str, settings: str, status: str) -> None:
        program = """
            import sys, arenagen
            try:
                arenagen.Arena(sys.argv[1])
            except arenagen.ArenaError as error:
                print(error.status, error.operation)
        """
        assert said(program, backend, env={**SIMULATORS[backend], "ARENASIM": settings}) == f"{status} arenagen_arena_create\n"

    def test_closed(self, arena: arenagen.Arena) -> None:
        address = arena.malloc(1)
        arena.close()
        with pytest.raises(arenagen.ClosedError, match="arena is closed"):
            arena.malloc(1)
        arena.free(address)
        assert arena.stats().late_frees == 1

    def test_released(self) -> None:
        arena = arenagen.Arena("stub")
        arena.release()
        assert arena.closed is True
        for call in (
            lambda: arena.malloc(1), lambda: arena.free(1), lambda: arena.used_bytes, arena.stats, arena.registered_range,
            lambda: arena.info, lambda: arenagen.set_active(arena, 0), lambda: arena.live_count, lambda: arena.mapped_bytes,
        ):  # fmt: skip
            with pytest.raises(arenagen.ClosedError):
                call()
        assert "closed" in repr(arena)

    def test_dropped_without_live_allocations(self) -> None:
        before = arenas()
        arena = arenagen.Arena("stub")
        arena.free(arena.malloc(1))
        assert arenas() == before + 1
        del arena
        assert arenas() == before

    def test_dropped_with_live_allocations(self) -> None:
        arena = arenagen.Arena("stub")
        address, handle = arena.malloc(1), arena.handle
        del arena
        gc.collect()
        ctypes.memset(address, 1, GRANULE)
        lib.mx_free(address, 1, 0, None)
        assert lib.arenagen_arena_release(handle) == _abi.Status.OK

    def test_being_active_keeps_it(self) -> None:
        arena = arenagen.Arena("stub")
        arenagen.set_active(arena, 1)
        del arena
        gc.collect()
        address = lib.mx_malloc(1, 1, None)
        assert address
        lib.mx_free(address, 1, 1, None)
        before = arenas()
        arenagen.set_active(None, 1)
        assert arenas() == before - 1

    def test_dropped_in_a_cycle(self) -> None:
        before = arenas()
        for _ in range(20):
            arena = arenagen.Arena("stub", total=1 << 30)
            cycle: list[Any] = [arena, arena.buffer(address := arena.malloc(1), 1).view]
            cycle.append(cycle)
            lib.mx_free(address, 1, 0, None)
        del arena, cycle
        assert arenas() == before

    def test_dropped_after_it_was_closed_or_released(self) -> None:
        before = arenas()
        for end in (arenagen.Arena.close, arenagen.Arena.release):
            arena = arenagen.Arena("stub", total=1 << 30)
            end(arena)
            del arena
        assert arenas() == before

    def test_an_exception_leaves_the_with_statement(self) -> None:
        with pytest.raises(KeyError), arenagen.Arena("stub") as arena:
            arena.malloc(1)
            raise KeyError
        assert arena.closed and arena.live_count == 0

    def test_what_is_known_of_a_released_one(self) -> None:
        arena = arenagen.Arena("stub")
        assert arena.info.backend == "stub"
        arena.release()
        assert arena.backend == "stub" and repr(arena) == f"<arenagen.Arena {arena.handle:#x} closed>"

    def test_threads_end_the_same_one(self) -> None:
        for _ in range(20):
            arena = arenagen.Arena("stub", total=1 << 30)
            for _ in range(10):
                arena.malloc(1)
            on_threads([arena.close, arena.close, arena.release, lambda: arena.close(force=True)])
            with pytest.raises(arenagen.ClosedError):
                arena.malloc(1)

    def test_many_arenas(self) -> None:
        before = arenas()
        made = [arenagen.Arena("stub", total=1 << 30) for _ in range(200)]
        assert len({arena.registered_range()[0] for arena in made}) == 200
        assert arenas() == before + 200
        del made
        assert arenas() == before


class TestArguments:
    @pytest.mark.parametrize("name", ["device", "total", "granule"])
    @pytest.mark.parametrize(("value", "error"), [(1 << 70, OverflowError), (-(1 << 70), OverflowError), (1.0, TypeError), ("1", TypeError)])
    def test_integers_are_never_wrapped(self, name: str, value: Any, error: type[BaseException]) -> None:
        with pytest.raises(error, match=name):
            arenagen.Arena("stub", **{name: value})

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ({"total": 0}, "total must be positive"),
            ({"total": -1}, "total must be positive"),
            ({"granule": 3}, "power of two"),
            ({"granule": 0}, "power of two"),
            ({"granule": 4096}, "minimum"),
            ({"granularity": "most"}, "granularity must be recommended, minimum, got 'most'"),
            ({"drain": "never"}, "drain must be usual, none, stream, device"),
            ({"backend": "cudda"}, "expected auto, "),
            ({"backend": "st\0ub"}, "zero"),
            ({"options": {"mode": "x,capacity=1"}}, "comma"),
            ({"options": {"mod": "host"}}, "mod"),
            ({"options": {"mode": "hst"}}, "host"),
            ({"device": 7}, ""),
            ({"device": -1}, ""),
        ],
    )
    def test_what_is_refused(self, arguments: dict[str, Any], text: str) -> None:
        before = arenas()
        with pytest.raises((arenagen.InvalidArgumentError, arenagen.UnavailableError)) as caught:
            arenagen.Arena(**{"backend": "stub", **arguments})
        assert text in str(caught.value)
        assert arenas() == before

    def test_integers_of_any_length_are_told(self, arena: arenagen.Arena) -> None:
        # Python refuses to print one of more than 4300 digits.
        with pytest.raises(OverflowError, match="size must be .*, got one of 33220 bits"):
            arena.malloc(10**10000)

    def test_what_stands_for_an_integer(self, arena: arenagen.Arena) -> None:
        class Index:
            def __init__(self, answer: Any) -> None:
                self.answer = answer

            def __index__(self) -> Any:
                return self.answer() if callable(self.answer) else self.answer

        assert arenagen.Arena("stub", device=True, options={"devices": 2}).device == 1
        first = arena.malloc(Index(GRANULE))
        assert arena.malloc(True) == first + GRANULE
        # One that calls in again.
        assert arena.malloc(Index(lambda: arena.malloc(1) - first)) == first + 3 * GRANULE
        arena.free(Index(first))
        assert arena.stats().unknown_frees == 0
        for answer, error in ((1.5, TypeError), ("1", TypeError), (1 << 64, OverflowError), (lambda: 1 / 0, ZeroDivisionError)):
            with pytest.raises(error):
                arena.malloc(Index(answer))

    @pytest.mark.parametrize("options", ["mode=host", [("mode", "host")], 1, b"", ""])
    def test_options_are_a_mapping(self, options: Any) -> None:
        with pytest.raises(TypeError, match="options must be a mapping"):
            arenagen.Arena("stub", options=options)

    @pytest.mark.parametrize("options", [{"": "x"}, {"mode": ""}, {"mode": None}, {"mode=host": ""}, {"devices": True}, {5: 1}, {"devices": 65}])
    def test_options_that_are_none(self, options: Any) -> None:
        with pytest.raises(arenagen.InvalidArgumentError, match="^options, character"):
            arenagen.Arena("stub", options=options)

    @pytest.mark.parametrize("arena", ["stub", 0, 1, object()])
    def test_what_is_no_arena(self, arena: Any) -> None:
        with pytest.raises(TypeError, match="arena must be an Arena or None"):
            arenagen.set_active(arena, 0)

    @pytest.mark.parametrize("backend", [None, 1, b"stub"])
    def test_names_are_texts(self, backend: Any) -> None:
        with pytest.raises(TypeError, match="backend must be a str"):
            arenagen.Arena(backend)

    def test_options(self) -> None:
        arena = arenagen.Arena("stub", 2, granularity="minimum", options={"devices": 3, "capacity": "1MiB"})
        assert (arena.device, arena.stats().granule) == (2, 64 << 10)
        arena = arenagen.Arena("stub", granule=4 << 20)
        assert arena.stats().granule == 4 << 20

    @pytest.mark.parametrize("size", [0, -1, -(1 << 63)])
    def test_size_is_positive(self, arena: arenagen.Arena, size: int) -> None:
        with pytest.raises(arenagen.InvalidArgumentError, match="size must be positive") as caught:
            arena.malloc(size)
        assert isinstance(caught.value, ValueError)
        assert caught.value.status == "invalid_argument"

    @pytest.mark.parametrize(("size", "error"), [(1 << 63, OverflowError), (1.5, TypeError), (None, TypeError), ("1", TypeError)])
    def test_size_is_never_wrapped(self, arena: arenagen.Arena, size: Any, error: type[BaseException]) -> None:
        with pytest.raises(error, match="size"):
            arena.malloc(size)

    def test_alignment(self, arena: arenagen.Arena) -> None:
        assert arena.malloc(1, align=4096) % 4096 == 0
        for align in (3, 2 * GRANULE):
            with pytest.raises(arenagen.InvalidArgumentError, match="alignment"):
                arena.malloc(1, align=align)
        with pytest.raises(OverflowError, match="align"):
            arena.malloc(1, align=-1)
        with pytest.raises(OverflowError, match="stream"):
            arena.malloc(1, stream=1 << 64)

    @pytest.mark.parametrize(("address", "error"), [(-1, OverflowError), (1 << 64, OverflowError), (None, TypeError)])
    def test_addresses_are_never_wrapped(self, arena: arenagen.Arena, address: Any, error: type[BaseException]) -> None:
        for call in (arena.free, lambda a: arena.buffer(a, 1)):
            with pytest.raises(error, match="address"):
                call(address)

    @pytest.mark.parametrize("address", [0, 1, (1 << 64) - 1])
    def test_free_of_what_is_nobodys(self, arena: arenagen.Arena, address: int) -> None:
        arena.malloc(1)
        arena.free(address)
        assert arena.live_count == 1


class TestPlacement:
    @pytest.mark.parametrize("backend", BACKENDS)
    def test_slabs(self, backend: str) -> None:
        program = """
            import sys, arenagen
            arena = arenagen.Arena(sys.argv[1], total=1 << 36, placement="slab", slab_size=64 << 20)
            addresses = [arena.malloc(1000 * (n + 1)) for n in range(300)]
            large = arena.malloc(65 << 20)
            stats = arena.stats()
            assert (stats.placement, stats.slab_size, stats.slabs, stats.handles) == ("slab", 64 << 20, 1, 2), stats
            assert stats.slab_mapped == stats.slab_free + stats.mapped - (66 << 20)
            assert stats.slab_largest <= stats.slab_free
            for address in addresses[::2]:
                arena.free(address)
            assert arena.malloc(500) == addresses[0]
            for address in [*addresses[1::2], addresses[0], large]:
                arena.free(address)
            assert (arena.stats().handles, arena.stats().slab_mapped) == (0, 0), arena.stats()
            arena.close()
        """
        assert said(program, backend, env=BACKENDS[backend]) == ""

    @pytest.mark.parametrize("backend", BACKENDS)
    def test_single(self, backend: str) -> None:
        program = """
            import sys, arenagen
            arena = arenagen.Arena(sys.argv[1], total=64 << 20, placement="single")
            assert arena.registered_range()[1] == 64 << 20
            address = arena.malloc(60 << 20)
            try:
                arena.malloc(5 << 20)
            except arenagen.ExhaustedError as error:
                assert f"{4 << 20} are free" in str(error), error
            assert (arena.stats().placement, arena.stats().handles) == ("single", 1)
            arena.free(address)
            assert arena.stats().handles == 1
            arena.close()
            assert arena.stats().handles == 0
        """
        assert said(program, backend, env=BACKENDS[backend]) == ""

    def test_a_buffer_of_a_part_of_a_slab(self) -> None:
        arena = arenagen.Arena("stub", placement="slab", slab_size=1 << 20)
        one, two = arena.malloc(600), arena.malloc(600)
        view = arena.buffer(one, 1024).view
        view[:] = b"x" * 1024
        assert bytes(arena.buffer(two, 4)) != b"xxxx"
        with pytest.raises(arenagen.InvalidArgumentError):
            arena.buffer(one, 1025)
        view.release()
        arena.release()

    @pytest.mark.parametrize(
        ("arguments", "error", "text"),
        [
            ({"placement": "slabs"}, ValueError, "placement must be per_allocation, slab, single, got 'slabs'"),
            ({"placement": "slab"}, ValueError, "a slab must have 1 to"),
            ({"slab_size": 5}, ValueError, "slab_size must be 0 unless"),
            ({"placement": "slab", "slab_size": -1}, OverflowError, "slab_size"),
            ({"placement": "slab", "slab_size": 1 << 64}, OverflowError, "slab_size"),
            ({"placement": "slab", "slab_size": "1GiB"}, TypeError, "slab_size"),
        ],
    )
    def test_what_is_none(self, arguments: dict[str, Any], error: type[BaseException], text: str) -> None:
        with pytest.raises(error, match=text):
            arenagen.Arena("stub", **arguments)


class TestAddresses:
    @pytest.mark.parametrize("backend", BACKENDS)
    def test_reset(self, backend: str) -> None:
        program = """
            import sys, arenagen
            arena = arenagen.Arena(sys.argv[1], total=1 << 34)
            first, second = arena.malloc(1), arena.malloc(1)
            arena.free(first)
            try:
                arena.reset()
            except arenagen.NotEmptyError as error:
                assert "1 allocations are live" in str(error), error
            arena.free(second)
            arena.reset()
            assert (arena.used_bytes, arena.malloc(5)) == (0, first)
        """
        assert said(program, backend, env=BACKENDS[backend]) == ""

    def test_a_base_that_is_wished_for(self, caplog: pytest.LogCaptureFixture) -> None:
        arena = arenagen.Arena("stub", total=1 << 30)
        base = arena.base
        assert arenagen.Arena("stub", total=1 << 30, base_hint=base).base != base
        assert f"wished for at {base:#x}, and the driver gave" in caplog.text
        arena.release()
        caplog.clear()
        assert arenagen.Arena("stub", total=1 << 30, base_hint=base).base == base
        assert caplog.text == ""
        with pytest.raises(OverflowError, match="base_hint"):
            arenagen.Arena("stub", base_hint=-1)


class TestErrors:
    def test_exhausted(self) -> None:
        arena = arenagen.Arena("stub", total=2 * GRANULE)
        arena.malloc(1)
        with pytest.raises(arenagen.ExhaustedError, match=f"would exceed reserved range of {2 * GRANULE} bytes") as caught:
            arena.malloc(2 * GRANULE)
        assert (caught.value.status, caught.value.operation) == ("exhausted", "arenagen_arena_malloc")

    def test_overflow(self, arena: arenagen.Arena) -> None:
        with pytest.raises(arenagen.SizeOverflowError) as caught:
            arena.malloc((1 << 63) - 1)
        assert isinstance(caught.value, OverflowError)

    def test_out_of_memory(self) -> None:
        arena = arenagen.Arena("stub", options={"capacity": 2 * GRANULE})
        arena.malloc(1)
        with pytest.raises(arenagen.OutOfMemoryError) as caught:
            arena.malloc(2 * GRANULE)
        error = caught.value
        assert isinstance(error, MemoryError) and isinstance(error, RuntimeError)
        assert (error.driver_code, error.driver_name, error.size) == (2, "HOSTVMM_ERROR_OUT_OF_MEMORY", 2 * GRANULE)
        assert error.address == 0, "creating has no address yet"
        arena.malloc(GRANULE)

    @pytest.mark.parametrize(("backend", "name"), [("cuda", "CUDA_ERROR_OUT_OF_MEMORY"), ("hip", "hipErrorOutOfMemory")])
    def test_out_of_memory_of_a_driver(self, backend: str, name: str) -> None:
        program = """
            import sys, arenagen
            arena = arenagen.Arena(sys.argv[1])
            try:
                arena.malloc(16 << 20)
            except arenagen.OutOfMemoryError as error:
                print(error.driver_code, error.driver_name, error.size)
            print(arena.stats().failed, arena.live_count)
        """
        settings = {**SIMULATORS[backend], "ARENASIM": "capacity=0x800000"}
        assert said(program, backend, env=settings) == f"2 {name} {16 << 20}\n1 0\n"

    @pytest.mark.parametrize(
        ("backend", "create", "unmap", "not_permitted"),
        # HIP has no code of its own for what is not permitted.
        [("cuda", "cuMemCreate", "cuMemUnmap", "UnavailableError not_permitted"), ("hip", "hipMemCreate", "hipMemUnmap", "ArenaError driver")],
    )
    def test_what_a_driver_answers(self, backend: str, create: str, unmap: str, not_permitted: str) -> None:
        program = """
            import ctypes, os, sys, arenagen
            backend, create, unmap, not_permitted = sys.argv[1:]
            driver = ctypes.CDLL(os.environ[f"ARENAGEN_{backend.upper()}_LIBRARY"])
            def fails(call, function, code, kind, *about):
                assert driver.arenasim_fail_function(function.encode(), ctypes.c_uint64(1), ctypes.c_uint64(code))
                try:
                    call()
                except arenagen.ArenaError as error:
                    assert f"{type(error).__name__} {error.status}" == kind, (error, kind)
                    assert (error.driver_code, error.operation, error.address, error.size) == (code, *about), vars(error)
                    assert error.driver_name in str(error)
                else:
                    raise AssertionError(function)
            kinds = {
                2: "OutOfMemoryError out_of_memory",
                801: "NotSupportedError not_supported",
                800: not_permitted,
                7777: "ArenaError driver",
                700: "DeviceLostError device_lost",
            }
            for code, kind in kinds.items():
                arena = arenagen.Arena(backend)
                address = arena.malloc(1)
                fails(lambda: arena.malloc(3 << 20), create, code, kind, "arenagen_arena_malloc", 0, 4 << 20)
                assert arena.live_count == 1
                if code == 700:
                    break
                fails(lambda: arena.free(address), unmap, code, kind, "arenagen_arena_free", address, 2 << 20)
                assert arena.live_count == 0
                address = arena.malloc(1)
                fails(arena.close, unmap, code, kind, "arenagen_arena_close", address, 2 << 20)
                assert arena.closed
            # The device is lost: everything fails with what was first.
            fails(lambda: arena.free(address), unmap, code, kind, "arenagen_arena_free", 0, 4 << 20)
            fails(arena.close, unmap, code, kind, "arenagen_arena_close", 0, 4 << 20)
            print(code)
        """
        assert said(program, backend, create, unmap, not_permitted, env=SIMULATORS[backend]) == "700\n"

    @pytest.mark.parametrize("released", [True, False])
    def test_is_that_of_the_call(self, released: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        """What the collector runs between a call that failed and a look at why may fail too."""
        arena, real = arenagen.Arena("stub", options={"capacity": 2 * GRANULE}), _abi.Error

        def collecting(**fields: Any) -> Any:
            other = arenagen.Arena("stub", total=1 << 30)
            if released:
                other.release()
            else:
                lib.arenagen_arena_release(other.handle)
            del other
            return real(**fields)

        monkeypatch.setattr(_abi, "Error", collecting)
        with pytest.raises(arenagen.OutOfMemoryError) as caught:
            arena.malloc(4 * GRANULE)
        assert caught.value.status == "out_of_memory"
        assert caught.value.driver_code == (2 if released else 0)

    def test_library_error_is_an_import_error(self) -> None:
        assert issubclass(arenagen.LibraryError, ImportError)
        assert not issubclass(arenagen.LibraryError, arenagen.ArenaError)


class TestPair:
    def test_a_device_has_its_own_arena(self) -> None:
        one, two, any_device = (arenagen.Arena("stub", total=1 << 30) for _ in range(3))
        arenagen.set_active(one, 0)
        arenagen.set_active(two, 1)
        arenagen.set_active(any_device)
        served = {0: one, 1: two, 63: any_device}
        addresses = {device: lib.mx_malloc(1, device, None) for device in served}
        for device, arena in served.items():
            assert arena.registered_range() == (addresses[device], GRANULE)
        arenagen.set_active(None, 0)
        assert lib.mx_malloc(1, 0, None) == addresses[63] + GRANULE
        arenagen.set_active(None)
        assert lib.mx_malloc(1, 0, None) is None
        for device, address in addresses.items():
            lib.mx_free(address, 1, device, None)
        assert [arena.live_count for arena in served.values()] == [0, 0, 1]
        any_device.release()

    @pytest.mark.parametrize(("device", "error"), [(64, ValueError), (-1, OverflowError), (1 << 31, OverflowError), ("0", TypeError)])
    def test_devices(self, arena: arenagen.Arena, device: Any, error: type[BaseException]) -> None:
        with pytest.raises(error):
            arenagen.set_active(arena, device)

    def test_threads_free_what_others_allocated(self, arena: arenagen.Arena) -> None:
        arenagen.set_active(arena, 0)
        addresses: list[int] = []

        def allocate() -> None:
            for _ in range(50):
                addresses.append(lib.mx_malloc(100, 0, None))

        on_threads([allocate] * 4)
        assert len(set(addresses)) == 200
        arenagen.set_active(None, 0)
        on_threads([lambda n=n: [lib.mx_free(a, 100, 0, None) for a in addresses[n::4]] for n in range(4)])
        assert arena.live_count == 0
        assert arena.stats().created == arena.stats().released == 200

    def test_threads_create_and_close(self) -> None:
        def work() -> None:
            for _ in range(20):
                with arenagen.Arena("stub", total=1 << 30) as arena:
                    arena.free(arena.malloc(1))

        on_threads([work] * 8)


def on_threads(work: list[Any]) -> None:
    failures: list[BaseException] = []

    def guarded(one: Any) -> None:
        try:
            one()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class TestBuffer:
    def test_shares_memory(self, arena: arenagen.Arena) -> None:
        address = arena.malloc(1000)
        buffer = arena.buffer(address, 1000)
        ctypes.memset(address, 7, 1000)
        assert bytes(buffer) == b"\7" * 1000
        buffer.view[:4] = b"abcd"
        assert ctypes.string_at(address, 5) == b"abcd\7"
        assert memoryview(buffer).nbytes == 1000 and not memoryview(buffer).readonly
        assert (buffer.address, buffer.size) == (address, 1000)

    def test_numpy(self, arena: arenagen.Arena) -> None:
        numpy = pytest.importorskip("numpy")
        address = arena.malloc(4096)
        array = numpy.asarray(arena.buffer(address, 4096))
        assert (array.dtype, array.shape, array.ctypes.data) == (numpy.uint8, (4096,), address)
        array[:] = 9
        assert ctypes.string_at(address, 4096) == b"\x09" * 4096
        weights = numpy.frombuffer(arena.buffer(address, 4096), dtype=numpy.float32)
        weights[:] = 1.5
        assert array[3] == 0x3F

    def test_dlpack(self, arena: arenagen.Arena) -> None:
        numpy = pytest.importorskip("numpy")
        address = arena.malloc(100)
        array = numpy.from_dlpack(arena.buffer(address, 100))
        ctypes.memset(address, 5, 100)
        assert array.ctypes.data == address and int(array.sum()) == 500

    @pytest.mark.parametrize(
        ("arguments", "name"),
        [({}, b"dltensor"), ({"max_version": (0, 8)}, b"dltensor"), ({"max_version": (1, 0)}, b"dltensor_versioned"),
         ({"max_version": (2, 3)}, b"dltensor_versioned"), ({"dl_device": (1, 0), "copy": False}, b"dltensor")],
    )  # fmt: skip
    def test_capsules(self, arena: arenagen.Arena, arguments: dict[str, Any], name: bytes) -> None:
        buffer = arena.buffer(arena.malloc(10), 10)
        valid = ctypes.pythonapi.PyCapsule_IsValid
        valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
        for _ in range(1000):
            capsule = buffer.__dlpack__(**arguments)
        assert valid(capsule, name)
        assert buffer.__dlpack_device__() == (1, 0)

    @pytest.mark.parametrize("arguments", [{"stream": 1}, {"copy": True}, {"dl_device": (2, 0)}])
    def test_what_dlpack_cannot(self, arena: arenagen.Arena, arguments: dict[str, Any]) -> None:
        with pytest.raises(BufferError):
            arena.buffer(arena.malloc(1), 1).__dlpack__(**arguments)

    def test_a_consumer_frees_with_c_alone(self, arena: arenagen.Arena) -> None:
        numpy = pytest.importorskip("numpy")
        buffer = arena.buffer(arena.malloc(100), 100)
        for _ in range(1000):
            numpy.from_dlpack(buffer)

    def test_a_view_keeps_its_allocation(self, arena: arenagen.Arena) -> None:
        address = arena.malloc(100)
        view = arena.buffer(address, 100).view
        for call in (lambda: arena.free(address), arena.close, arena.release):
            with pytest.raises(BufferError, match="in use"):
                call()
        assert arena.live_count == 1 and not arena.closed
        view[0] = 1
        view.release()
        arena.free(address)
        assert arena.live_count == 0

    def test_close_by_force(self) -> None:
        arena = arenagen.Arena("stub")
        view = arena.buffer(arena.malloc(100), 100).view
        arena.close(force=True)
        assert arena.closed
        del view

    def test_a_buffer_keeps_its_arena(self) -> None:
        arena = arenagen.Arena("stub")
        buffer = arena.buffer(arena.malloc(100), 100)
        handle = arena.handle
        del arena
        gc.collect()
        buffer.view[:] = b"x" * 100
        assert bytes(buffer) == b"x" * 100
        del buffer
        gc.collect()
        lib.arenagen_arena_release(handle)

    def test_whatever_shares_memory_keeps_its_allocation(self, arena: arenagen.Arena) -> None:
        numpy = pytest.importorskip("numpy")
        address = arena.malloc(100)
        for share in (memoryview, numpy.asarray, lambda b: numpy.frombuffer(b, dtype=numpy.int32)[3:], (ctypes.c_ubyte * 10).from_buffer):
            shared = share(arena.buffer(address, 100))
            with pytest.raises(BufferError, match=f"a buffer at {address:#x} is in use"):
                arena.free(address)
            del shared
        one, two = arena.buffer(address, 1), arena.buffer(address, 2)
        del one
        with pytest.raises(BufferError):
            arena.close()
        del two
        arena.free(address)

    def test_copies_are_refused(self, arena: arenagen.Arena) -> None:
        buffer = arena.buffer(arena.malloc(10), 10)
        for call in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot copy or pickle a buffer"):
                call(buffer)

    def test_none_begins_while_its_allocation_is_freed(self, arena: arenagen.Arena) -> None:
        address, real, events = arena.malloc(1), arena._library, []

        def look() -> None:
            with pytest.raises(arenagen.InvalidArgumentError, match="no live allocation"):
                arena.buffer(address, 1)

        class Watched:
            def __getattr__(self, name: str) -> Any:
                return getattr(real, name)

            def arenagen_arena_allocation(self, *arguments: Any) -> int:
                events.append("looked")
                return int(real.arenagen_arena_allocation(*arguments))

            def arenagen_arena_free(self, *arguments: Any) -> int:
                thread.start()
                for _ in range(1000):
                    time.sleep(0)  # its turn
                events.append("frees")
                return int(real.arenagen_arena_free(*arguments))

        outcome: list[BaseException] = []

        def guarded() -> None:
            try:
                look()
            except BaseException as failure:
                outcome.append(failure)

        thread = threading.Thread(target=guarded)
        assert arena.info.host_memory
        arena._library = Watched()  # type: ignore[assignment]
        arena.free(address)
        thread.join()
        assert (events, outcome) == (["frees", "looked"], [])

    def test_threads_free_and_look(self, arena: arenagen.Arena) -> None:
        for _ in range(200):
            address, seen = arena.malloc(1), []

            def look(address: int = address, seen: list[Any] = seen) -> None:
                try:
                    seen.append(arena.buffer(address, 1))
                except arenagen.InvalidArgumentError:
                    pass

            def free(address: int = address) -> None:
                try:
                    arena.free(address)
                except BufferError:
                    pass

            on_threads([look, free, look])
            assert arena.live_count == (1 if seen else 0)
            seen.clear()
            arena.free(address)

    def test_what_is_gone_leaves_nothing(self, arena: arenagen.Arena) -> None:
        for _ in range(100):
            address = arena.malloc(1)
            arena.buffer(address, 1).view[0] = 1
            lib.mx_free(address, 1, 0, None)
        gc.collect()
        assert len(arena._shown) == 0

    def test_a_capsule_goes_while_an_exception_is_on_its_way(self) -> None:
        program = """
            import arenagen
            arena = arenagen.Arena("stub")
            buffer = arena.buffer(arena.malloc(10), 10)
            def both(*_): pass
            caught = 0
            for version in (None, (1, 0)):
                for _ in range(100):
                    try:
                        both(buffer.__dlpack__(max_version=version), 1 / 0)
                    except ZeroDivisionError:
                        caught += 1
            print(caught)
        """
        assert said(program) == "200\n"

    @pytest.mark.parametrize("consumer", [lambda buffer: buffer.__dlpack__(), lambda buffer: buffer.__dlpack__(max_version=(1, 1)), None])
    def test_capsules_leave_no_memory(self, arena: arenagen.Arena, consumer: Any) -> None:
        consumer = consumer or pytest.importorskip("numpy").from_dlpack
        buffer = arena.buffer(arena.malloc(10), 10)
        kept = [consumer(buffer) for _ in range(100)]
        before = in_use()
        for _ in range(5000):
            consumer(buffer)
        # Each capsule has a block of 72 bytes or more.
        assert in_use() - before < 5000 * 72 / 2
        del kept[:]
        for _ in range(200):
            consumer(buffer)
        assert in_use() <= before + 5000 * 72 / 2

    def test_threads_give_and_drop_capsules(self, arena: arenagen.Arena) -> None:
        buffer = arena.buffer(arena.malloc(10), 10)
        capsules: list[Any] = []

        def work() -> None:
            for n in range(300):
                capsules.append(buffer.__dlpack__(max_version=(n % 2, 0)))
                if n % 3:
                    capsules.pop()

        on_threads([work] * 4)
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        name = ctypes.pythonapi.PyCapsule_GetName
        name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
        # Whoever still has one has its block.
        blocks = {pointer(capsule, name(capsule)) for capsule in capsules}
        assert len(blocks) == len(capsules) == 400

    @pytest.mark.parametrize("arguments", [{"max_version": 1}, {"max_version": ("a",)}, {"dl_device": 1}, {"size": 1}])
    def test_arguments_of_dlpack(self, arena: arenagen.Arena, arguments: dict[str, Any]) -> None:
        with pytest.raises(TypeError):
            arena.buffer(arena.malloc(1), 1).__dlpack__(**arguments)

    @pytest.mark.filterwarnings("ignore:A builtin ctypes object gave a PEP3118 format")
    def test_an_empty_one(self, arena: arenagen.Arena) -> None:
        numpy = pytest.importorskip("numpy")
        buffer = arena.buffer(arena.malloc(1), 0)
        assert (bytes(buffer.view), numpy.asarray(buffer).shape, numpy.from_dlpack(buffer).shape) == (b"", (0,), (0,))

    def test_what_has_no_buffer(self, arena: arenagen.Arena) -> None:
        address = arena.malloc(GRANULE + 1)
        for wrong in (0, address - 1, address + 1, address + GRANULE, address + 2 * GRANULE, (1 << 64) - 1):
            with pytest.raises(arenagen.InvalidArgumentError, match="no live allocation begins at"):
                arena.buffer(wrong, 1)
        with pytest.raises(arenagen.InvalidArgumentError, match=f"at most {2 * GRANULE}"):
            arena.buffer(address, 2 * GRANULE + 1)
        for size, error in ((-1, OverflowError), (1 << 64, OverflowError), (1.0, TypeError)):
            with pytest.raises(error):
                arena.buffer(address, size)  # type: ignore[arg-type]
        assert bytes(arena.buffer(address, 0)) == b""
        arena.free(address)
        with pytest.raises(arenagen.InvalidArgumentError):
            arena.buffer(address, 1)

    @pytest.mark.skipif(bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="types live for good in this Python")
    def test_types_of_buffers_do_not_pile_up(self, arena: arenagen.Arena) -> None:
        address = arena.malloc(GRANULE)
        for size in range(1, 500):
            arena.buffer(address, size)
        gc.collect()
        assert sum(kind.__name__ == "Buffer" for kind in arenagen.Buffer.__subclasses__()) < 50

    def test_memory_of_no_host(self) -> None:
        arena = arenagen.Arena("stub", options={"mode": "record"})
        with pytest.raises(arenagen.NotSupportedError, match="the CPU cannot reach memory of backend stub"):
            arena.buffer(arena.malloc(1), 1)

    @pytest.mark.parametrize("backend", SIMULATORS)
    def test_memory_of_a_device(self, backend: str) -> None:
        program = """
            import sys, arenagen
            arena = arenagen.Arena(sys.argv[1])
            try:
                arena.buffer(arena.malloc(1), 1)
            except arenagen.NotSupportedError as error:
                print("backend " + sys.argv[1] in str(error))
        """
        assert said(program, backend, env=SIMULATORS[backend]) == "True\n"


class Memory(ctypes.Structure):
    """C's struct mallinfo2."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    ]


def in_use() -> int:
    """How many bytes of C's malloc are in use."""
    gc.collect()
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = Memory
    return int(ask().uordblks)


# Raises at each step of the package in turn, as a signal handler may.
INTERRUPTS = """
import ctypes, gc, itertools, sys
import arenagen
from arenagen import _abi
lib = arenagen._library.library()

def arenas():
    diagnostics = _abi.Diagnostics()
    lib.arenagen_diagnose(ctypes.byref(diagnostics))
    return diagnostics.arenas

class Interrupt(BaseException):
    pass

def at(step):
    def trace(frame, event, _):
        nonlocal step
        if "arenagen" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        step -= event == "opcode"
        if step == 0:
            step = -1
            raise Interrupt
        return trace
    return trace

def everywhere(work):
    sys._getframe().f_trace_opcodes = True  # 3.12 wants to know before
    for step in itertools.count(1):
        sys.settrace(at(step))
        try:
            result = work()
            return
        except Interrupt:
            pass  # and so its traceback is gone below
        finally:
            sys.settrace(None)
        yield step
"""


def test_an_interrupt_at_any_step_leaves_no_arena() -> None:
    program = INTERRUPTS + textwrap.dedent("""
        def work():
            arena = arenagen.Arena("stub", total=1 << 30)
            arenagen.set_active(arena, 3)
            arenagen.set_active(None, 3)
            arena.close()
            return arena
        for step in everywhere(work):
            arenagen.set_active(None, 3)
            gc.collect()
            assert arenas() == 0, step
        print(step > 200)
    """)
    assert said(program) == "True\n"


def test_an_interrupt_at_any_step_keeps_nothing_from_being_freed() -> None:
    program = INTERRUPTS + textwrap.dedent("""
        arena, address = arenagen.Arena("stub", total=1 << 38), 0
        def work():
            arena.buffer(address, 1).__dlpack__()
            arena.free(address)
        address = arena.malloc(1)
        arena.buffer(address, 1)
        for step in everywhere(work):
            try:
                arena.buffer(address, 1)
            except arenagen.InvalidArgumentError:
                pass
            arena.free(address)
            assert arena.live_count == 0, step
            address = arena.malloc(1)
        print(step > 200)
    """)
    assert said(program) == "True\n"


class TestDoctor:
    def test_is_that_of_arenactl(self) -> None:
        import subprocess
        import sys

        from child import OUT

        for settings in ({}, SIMULATORS["cuda"], {"ARENAGEN_CUDA_LIBRARY": "/no/such.so"}):
            environment = {**os.environ, **settings}
            other = subprocess.run([OUT / "bin" / "arenactl", "doctor"], env=environment, capture_output=True, text=True, check=False)
            mine = subprocess.run([sys.executable, "-m", "arenagen", "doctor"], env=environment, capture_output=True, text=True, check=False)
            assert (mine.stdout, mine.returncode) == (other.stdout, other.returncode)
            assert "stub: Host memory" in mine.stdout

    def test_command_line(self) -> None:
        main = "import runpy, sys; sys.argv[0] = 'arenagen'; runpy.run_module('arenagen', run_name='__main__')"
        assert run(main, "--version").stdout == f"{arenagen.__version__}\n"
        assert run(main, "docter").returncode == 2
        assert run(main).returncode == 2
        assert "doctor" in run(main, "--help").stdout
        ended = run(main, "doctor", env={"ARENAGEN_LIBRARY": "/no/such.so"})
        assert ended.returncode == 1 and "/no/such.so" in ended.stderr


def test_stats_are_those_of_the_library() -> None:
    arena = arenagen.Arena("stub")
    raw = {name for name, *_ in _abi.Stats._fields_} - {"struct_size"}
    assert set(json.loads(arena.stats().to_json())) == raw
    assert type(arena.stats().closed) is bool
