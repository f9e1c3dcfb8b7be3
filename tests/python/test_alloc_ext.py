"""The drop-in arenagen._alloc_ext, function by function, as the contract of such a module is written down."""

from __future__ import annotations

import copy
import ctypes
import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import weakref
from pathlib import Path
from typing import Any, Callable

import pytest

from arenagen import _alloc_ext as ext

BASE, TOTAL, GRANULE = 0x10_0000_0000, 1 << 30, 4096
PYTHON = Path(__file__).resolve().parents[2] / "python"

lib = ctypes.CDLL(ext.__file__)
lib.mx_malloc.restype = ctypes.c_void_p
lib.mx_malloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
lib.mx_free.restype = None
lib.mx_free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]


class Memory:
    """Callables that remember what they were called with."""

    def __init__(self) -> None:
        self.allocated: list[tuple[int, int]] = []
        self.deallocated: list[tuple[int, int, int]] = []

    def allocate(self, address: int, size: int) -> int:
        self.allocated.append((address, size))
        return address ^ 0xFFFF_FFFF_FFFF_FFFF

    def deallocate(self, address: int, size: int, handle: int) -> None:
        self.deallocated.append((address, size, handle))


class Nothing:
    """Two callables that can be watched."""

    def __call__(self, *_: int) -> int:
        return 7


def create(memory: Memory | None = None, base: int = BASE, total: int = TOTAL, granule: int = GRANULE) -> Any:
    memory = memory or Memory()
    return ext.arena_create(base, total, granule, memory.allocate, memory.deallocate)


@pytest.fixture(autouse=True)
def nothing_active() -> Any:
    yield
    ext.set_active_arena(None)


@pytest.fixture
def unraisable(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    seen: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    return seen


def run(program: str, *args: str, timeout: float = 60, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a program in a process of its own, which ends within the deadline or is killed."""
    environment = {**os.environ, "PYTHONPATH": str(PYTHON)}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *args],
        env=environment, capture_output=True, text=True, timeout=timeout, **options,
    )


def on_threads(count: int, work: Callable[[int], None]) -> None:
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_there_are_eleven_functions() -> None:
    assert sorted(ext.__all__) == sorted(
        """arena_create arena_malloc arena_free arena_registered_range arena_get_used_bytes arena_get_mapped_bytes
        arena_get_live_count arena_is_closed arena_close_and_drain set_active_arena init_module""".split()
    )
    assert all(callable(getattr(ext, name)) for name in ext.__all__)


def test_file_has_the_pair() -> None:
    assert os.path.isabs(ext.__file__)
    assert Path(ext.__file__).read_bytes()[:4] == b"\x7fELF"
    assert lib.mx_malloc is not None


class TestCreate:
    @pytest.mark.parametrize("place", range(3))
    @pytest.mark.parametrize(
        ("value", "error"),
        [
            (-1, OverflowError),
            (1 << 64, OverflowError),
            (10**30, OverflowError),
            (-(1 << 64), OverflowError),
            (1.0, TypeError),
            ("1", TypeError),
            (None, TypeError),
            (b"1", TypeError),
        ],
    )
    def test_integers_are_never_wrapped(self, place: int, value: Any, error: type[BaseException]) -> None:
        numbers: list[Any] = [BASE, TOTAL, GRANULE]
        numbers[place] = value
        with pytest.raises(error):
            ext.arena_create(*numbers, Nothing(), Nothing())

    @pytest.mark.parametrize("granule", [0, 3, 4095, 4097, (1 << 64) - 1])
    def test_granularity_is_a_power_of_two(self, granule: int) -> None:
        with pytest.raises(ValueError, match="granularity must be a positive power of 2"):
            create(granule=granule)

    @pytest.mark.parametrize(("base", "total"), [(0, 1), (1, 0), ((1 << 64) - GRANULE, 2 * GRANULE)])
    def test_ranges_that_cannot_be(self, base: int, total: int) -> None:
        with pytest.raises(ValueError):
            create(base=base, total=total)

    def test_total_has_63_bits(self) -> None:
        with pytest.raises(OverflowError):
            create(total=1 << 63)

    @pytest.mark.parametrize("pair", [(None, Nothing()), (Nothing(), None), (1, 2), ("a", Nothing())])
    def test_callbacks_are_callable(self, pair: Any) -> None:
        with pytest.raises(TypeError, match="allocation callbacks must be callable"):
            ext.arena_create(BASE, TOTAL, GRANULE, *pair)

    def test_nothing_is_called(self) -> None:
        memory = Memory()
        create(memory)
        assert memory.allocated == memory.deallocated == []

    def test_numbers_of_other_types(self) -> None:
        class Index:
            def __index__(self) -> int:
                return GRANULE

        assert ext.arena_malloc(create(granule=Index()), Index()) == BASE  # type: ignore[arg-type]

    def test_total_is_rounded_up(self) -> None:
        capsule = create(total=1)
        ext.arena_malloc(capsule, GRANULE)
        with pytest.raises(RuntimeError, match=f"would exceed reserved range of {GRANULE} bytes"):
            ext.arena_malloc(capsule, 1)

    @pytest.mark.parametrize("function", ["arena_malloc", "arena_free"])
    @pytest.mark.parametrize("other", [None, 1, object(), "capsule"])
    def test_what_is_no_capsule(self, function: str, other: Any) -> None:
        with pytest.raises(ValueError, match="capsule"):
            getattr(ext, function)(other, 1)

    def test_a_capsule_has_one_owner(self) -> None:
        capsule = create()
        for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError):
                duplicate(capsule)

    def test_arguments_are_positional(self) -> None:
        with pytest.raises(TypeError):
            ext.arena_malloc(create())  # type: ignore[call-arg]
        with pytest.raises(TypeError):
            ext.arena_malloc(create(), size=1)  # type: ignore[call-arg]


class TestMalloc:
    def test_addresses_ascend_by_rounded_sizes(self) -> None:
        memory = Memory()
        capsule = create(memory)
        sizes = [1, GRANULE, GRANULE + 1, 3 * GRANULE - 1]
        addresses = [ext.arena_malloc(capsule, size) for size in sizes]
        assert addresses == [BASE + n * GRANULE for n in (0, 1, 2, 4)]
        assert memory.allocated == [(address, n * GRANULE) for address, n in zip(addresses, (1, 1, 2, 3))]
        assert ext.arena_registered_range(capsule) == (BASE, 7 * GRANULE)
        assert ext.arena_get_used_bytes(capsule) == ext.arena_get_mapped_bytes(capsule) == 7 * GRANULE
        assert ext.arena_get_live_count(capsule) == 4
        assert all(type(address) is int for address in addresses)

    @pytest.mark.parametrize("size", [0, -1, -(1 << 63)])
    def test_size_is_positive(self, size: int) -> None:
        capsule = create()
        with pytest.raises(ValueError, match="^size must be positive$"):
            ext.arena_malloc(capsule, size)
        assert ext.arena_get_used_bytes(capsule) == 0

    @pytest.mark.parametrize(
        ("size", "error"),
        [(1 << 63, OverflowError), (-(1 << 63) - 1, OverflowError), (1.5, TypeError), ("1", TypeError), (None, TypeError)],
    )
    def test_size_is_never_wrapped(self, size: Any, error: type[BaseException]) -> None:
        with pytest.raises(error):
            ext.arena_malloc(create(), size)

    def test_overflow(self) -> None:
        with pytest.raises(OverflowError):
            ext.arena_malloc(create(), (1 << 63) - 1)

    def test_exhausted(self) -> None:
        capsule = create(total=2 * GRANULE)
        ext.arena_malloc(capsule, 1)
        with pytest.raises(RuntimeError, match="5000 bytes .*8192.* offset 4096 would exceed reserved range of 8192 bytes"):
            ext.arena_malloc(capsule, 5000)
        assert ext.arena_malloc(capsule, 1) == BASE + GRANULE

    def test_closed(self) -> None:
        capsule = create()
        ext.arena_close_and_drain(capsule)
        with pytest.raises(RuntimeError, match="^arena is closed"):
            ext.arena_malloc(capsule, 1)

    @pytest.mark.parametrize("handle", [0, 1, (1 << 64) - 1, True])
    def test_handles(self, handle: int) -> None:
        seen = []
        capsule = ext.arena_create(BASE, TOTAL, GRANULE, lambda *_: handle, lambda *args: seen.append(args))
        ext.arena_free(capsule, ext.arena_malloc(capsule, 1))
        assert seen == [(BASE, GRANULE, int(handle))]

    @pytest.mark.parametrize(
        ("handle", "error"),
        [(-1, OverflowError), (1 << 64, OverflowError), (None, TypeError), ("x", TypeError), (1.0, TypeError)],
    )
    def test_what_is_no_handle(self, handle: Any, error: type[BaseException], unraisable: list[Any]) -> None:
        answers = [handle, 5]
        capsule = ext.arena_create(BASE, TOTAL, GRANULE, lambda *_: answers.pop(0), Nothing())
        with pytest.raises(error):
            ext.arena_malloc(capsule, 1)
        assert (ext.arena_get_live_count(capsule), ext.arena_get_mapped_bytes(capsule)) == (0, 0)
        assert ext.arena_malloc(capsule, 1) == BASE + GRANULE, "the slot is lost"
        assert unraisable == []

    @pytest.mark.parametrize("kind", [ValueError, MemoryError, KeyboardInterrupt, SystemExit, StopIteration, GeneratorExit])
    def test_what_a_callback_raises_comes_out_unchanged(self, kind: type[BaseException], unraisable: list[Any]) -> None:
        raised = kind("mine")

        def fail(address: int, size: int) -> int:
            raise raised

        capsule = ext.arena_create(BASE, TOTAL, GRANULE, fail, Nothing())
        with pytest.raises(kind) as caught:
            ext.arena_malloc(capsule, 1)
        assert caught.value is raised
        assert "fail" in [entry.name for entry in caught.traceback]
        assert ext.arena_get_live_count(capsule) == 0
        assert unraisable == []

    def test_an_exception_keeps_nothing_alive(self) -> None:
        class Failing:
            def __call__(self, *_: int) -> int:
                raise KeyError

        failing, release = Failing(), Nothing()
        watched = weakref.ref(failing), weakref.ref(release)
        capsule = ext.arena_create(BASE, TOTAL, GRANULE, failing, release)
        with pytest.raises(KeyError):
            ext.arena_malloc(capsule, 1)
        # pytest's own record of the exception has the frames.
        del failing, release, capsule
        gc.collect()
        assert [ref() for ref in watched] == [None, None]

    def test_a_callback_calls_back_into_the_module(self) -> None:
        other = create(base=2 * BASE)
        seen = []

        def allocate(address: int, size: int) -> int:
            seen.append(ext.arena_malloc(other, size))
            seen.append(ext.arena_get_live_count(capsule))
            seen.append(ext.arena_registered_range(capsule))
            if size == GRANULE:
                ext.arena_free(capsule, ext.arena_malloc(capsule, 2 * GRANULE))
            return 1

        capsule = ext.arena_create(BASE, TOTAL, GRANULE, allocate, lambda *_: ext.arena_get_used_bytes(other))
        assert ext.arena_malloc(capsule, 1) == BASE
        assert seen == [
            2 * BASE, 0, (BASE, GRANULE),
            2 * BASE + GRANULE, 0, (BASE, 3 * GRANULE),
        ]
        assert ext.arena_get_live_count(capsule) == 1

    def test_an_exception_inside_a_nested_callback(self, unraisable: list[Any]) -> None:
        inner_error, outer_error = KeyError("inner"), OSError("outer")

        def fail(address: int, size: int) -> int:
            raise inner_error

        inner = ext.arena_create(2 * BASE, TOTAL, GRANULE, fail, Nothing())
        caught = []

        def allocate(address: int, size: int) -> int:
            try:
                ext.arena_malloc(inner, 1)
            except KeyError as error:
                caught.append(error)
                raise outer_error from error
            return 1

        outer = ext.arena_create(BASE, TOTAL, GRANULE, allocate, Nothing())
        with pytest.raises(OSError) as raised:
            ext.arena_malloc(outer, 1)
        assert raised.value is outer_error
        assert caught == [inner_error]
        assert unraisable == []

    def test_a_nested_call_of_the_same_arena_keeps_its_own_exception(self, unraisable: list[Any]) -> None:
        seen = []

        def allocate(address: int, size: int) -> int:
            if size == GRANULE:
                try:
                    ext.arena_malloc(capsule, 2 * GRANULE)
                except KeyError as error:
                    seen.append(error)
                return 1
            raise KeyError("nested")

        capsule = ext.arena_create(BASE, TOTAL, GRANULE, allocate, Nothing())
        assert ext.arena_malloc(capsule, 1) == BASE
        assert len(seen) == 1
        assert unraisable == []

    def test_the_pair_inside_a_callback_keeps_its_failure_to_itself(self, unraisable: list[Any]) -> None:
        seen = []

        def allocate(address: int, size: int) -> int:
            if size == GRANULE:
                seen.append(lib.mx_malloc(2 * GRANULE, 0, None))
                return 1
            raise KeyError("in the pair")

        capsule = ext.arena_create(BASE, TOTAL, GRANULE, allocate, Nothing())
        ext.set_active_arena(capsule)
        assert ext.arena_malloc(capsule, 1) == BASE
        assert seen == [None]
        assert [args.exc_type for args in unraisable] == [KeyError]


class TestFree:
    def test_frees_once(self) -> None:
        memory = Memory()
        capsule = create(memory)
        address = ext.arena_malloc(capsule, 5000)
        assert ext.arena_free(capsule, address) is None
        ext.arena_free(capsule, address)
        assert memory.deallocated == [(address, 2 * GRANULE, address ^ 0xFFFF_FFFF_FFFF_FFFF)]
        assert (ext.arena_get_live_count(capsule), ext.arena_get_mapped_bytes(capsule)) == (0, 0)
        assert ext.arena_get_used_bytes(capsule) == 2 * GRANULE, "it never falls"

    @pytest.mark.parametrize("address", [0, 1, BASE + 1, BASE + GRANULE, BASE - GRANULE, BASE + TOTAL, (1 << 64) - 1])
    def test_unknown_addresses_change_nothing(self, address: int) -> None:
        memory = Memory()
        capsule = create(memory)
        ext.arena_malloc(capsule, 2 * GRANULE)
        ext.arena_free(capsule, address)
        assert memory.deallocated == []
        assert ext.arena_get_live_count(capsule) == 1

    @pytest.mark.parametrize(("address", "error"), [(-1, OverflowError), (1 << 64, OverflowError), (1.0, TypeError), ("", TypeError)])
    def test_addresses_are_never_wrapped(self, address: Any, error: type[BaseException]) -> None:
        with pytest.raises(error):
            ext.arena_free(create(), address)

    @pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit])
    def test_what_a_callback_raises_goes_to_the_hook(self, kind: type[BaseException], unraisable: list[Any]) -> None:
        raised = kind("mine")

        def fail(*_: int) -> None:
            raise raised

        capsule = ext.arena_create(BASE, TOTAL, GRANULE, lambda *_: 1, fail)
        assert ext.arena_free(capsule, ext.arena_malloc(capsule, 1)) is None
        (args,) = unraisable
        assert (args.exc_type, args.exc_value, args.object) == (kind, raised, fail)
        assert args.exc_traceback.tb_frame.f_code.co_name == "fail"
        assert ext.arena_get_live_count(capsule) == 0

    def test_the_default_hook_prints_it(self) -> None:
        ended = run("""
            from arenagen import _alloc_ext as ext
            def fail(*_): raise KeyError("told")
            capsule = ext.arena_create(1 << 40, 1 << 30, 4096, lambda *_: 1, fail)
            ext.arena_free(capsule, ext.arena_malloc(capsule, 1))
            print("on")
        """)
        assert ended.stdout == "on\n"
        assert "Exception ignored" in ended.stderr
        assert "KeyError: 'told'" in ended.stderr

    @pytest.mark.parametrize("hook", [None, "fails"])
    def test_a_hook_that_fails_harms_nobody(self, hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def fails(args: Any) -> None:
            raise OSError

        monkeypatch.setattr(sys, "unraisablehook", fails if hook else None)
        capsule = ext.arena_create(BASE, TOTAL, GRANULE, lambda *_: 1, lambda *_: 1 // 0)
        ext.arena_free(capsule, ext.arena_malloc(capsule, 1))
        assert ext.arena_get_live_count(capsule) == 0


class TestCloseAndDrain:
    def test_hands_over_what_is_live(self) -> None:
        memory = Memory()
        capsule = create(memory)
        addresses = [ext.arena_malloc(capsule, n * GRANULE) for n in range(1, 200)]
        ext.arena_free(capsule, addresses.pop(3))
        memory.deallocated.clear()
        drained = ext.arena_close_and_drain(capsule)
        assert type(drained) is list
        assert drained == [(va, size, va ^ 0xFFFF_FFFF_FFFF_FFFF) for va, size in memory.allocated if va in addresses]
        assert memory.deallocated == []
        assert ext.arena_is_closed(capsule) is True
        assert (ext.arena_get_live_count(capsule), ext.arena_get_mapped_bytes(capsule)) == (0, 0)
        assert ext.arena_close_and_drain(capsule) is None
        ext.arena_free(capsule, addresses[0])
        assert memory.deallocated == [], "a late free"

    def test_of_an_empty_arena(self) -> None:
        capsule = create()
        assert ext.arena_is_closed(capsule) is False
        assert ext.arena_close_and_drain(capsule) == []
        assert ext.arena_close_and_drain(capsule) is None

    def test_one_of_many_threads_gets_the_list(self) -> None:
        for _ in range(20):
            capsule = create()
            for _ in range(100):
                ext.arena_malloc(capsule, 1)
            answers: list[Any] = []
            barrier = threading.Barrier(16)

            def close(_: int, capsule: Any = capsule, answers: list[Any] = answers, barrier: Any = barrier) -> None:
                barrier.wait()
                answers.append(ext.arena_close_and_drain(capsule))

            on_threads(16, close)
            lists = [answer for answer in answers if answer is not None]
            assert [len(one) for one in lists] == [100]

    def test_waits_for_a_slow_callback(self) -> None:
        entered, leave = threading.Event(), threading.Event()

        def allocate(address: int, size: int) -> int:
            entered.set()
            leave.wait()
            return 9

        capsule = ext.arena_create(BASE, TOTAL, GRANULE, allocate, Nothing())
        allocating = threading.Thread(target=ext.arena_malloc, args=(capsule, 1))
        allocating.start()
        entered.wait()
        drained: list[Any] = []
        closing = threading.Thread(target=lambda: drained.append(ext.arena_close_and_drain(capsule)))
        closing.start()
        while not ext.arena_is_closed(capsule):
            pass
        assert drained == []
        leave.set()
        allocating.join()
        closing.join()
        assert drained == [[(BASE, GRANULE, 9)]]

    def test_inside_a_callback_is_refused(self) -> None:
        refused: list[BaseException] = []

        def allocate(address: int, size: int) -> int:
            try:
                ext.arena_close_and_drain(capsule)
            except RuntimeError as error:
                refused.append(error)
            return 1

        capsule = ext.arena_create(BASE, TOTAL, GRANULE, allocate, Nothing())
        assert ext.arena_malloc(capsule, 1) == BASE
        assert len(refused) == 1
        assert ext.arena_is_closed(capsule) is False


class TestActive:
    def test_serves_every_device(self) -> None:
        memory = Memory()
        capsule = create(memory)
        assert lib.mx_malloc(1, 0, None) is None
        assert ext.set_active_arena(capsule) is None
        addresses = [lib.mx_malloc(1, device, None) for device in (0, 1, 63)]
        assert addresses == [BASE, BASE + GRANULE, BASE + 2 * GRANULE]
        ext.set_active_arena(None)
        assert lib.mx_malloc(1, 0, None) is None
        for address in addresses:
            lib.mx_free(address, 1, 0, None)
        assert [entry[0] for entry in memory.deallocated] == addresses

    def test_failures_of_the_pair(self, unraisable: list[Any]) -> None:
        raised = ValueError("mine")

        def fail(*_: int) -> int:
            raise raised

        capsule = ext.arena_create(BASE, TOTAL, GRANULE, fail, Nothing())
        ext.set_active_arena(capsule)
        assert lib.mx_malloc(1, 0, None) is None
        assert [args.exc_value for args in unraisable] == [raised]
        for size in (0, -1):
            assert lib.mx_malloc(size, 0, None) is None
        assert len(unraisable) == 1

    def test_of_bases_that_coincide_the_active_one_is_asked_first(self) -> None:
        first, second = Memory(), Memory()
        one, two = create(first), create(second)
        ext.set_active_arena(one)
        address = lib.mx_malloc(1, 0, None)
        ext.set_active_arena(two)
        assert lib.mx_malloc(1, 0, None) == address
        lib.mx_free(address, 1, 0, None)
        assert (len(first.deallocated), len(second.deallocated)) == (0, 1)
        lib.mx_free(address, 1, 0, None)
        assert (len(first.deallocated), len(second.deallocated)) == (1, 1)

    def test_a_closed_arena_stops_serving(self) -> None:
        capsule = create()
        ext.set_active_arena(capsule)
        ext.arena_close_and_drain(capsule)
        assert lib.mx_malloc(1, 0, None) is None

    def test_what_is_no_capsule(self) -> None:
        capsule = create()
        ext.set_active_arena(capsule)
        for other in (0, "x", object()):
            with pytest.raises(ValueError):
                ext.set_active_arena(other)  # type: ignore[arg-type]
        assert lib.mx_malloc(1, 0, None) == BASE, "it is as before"


class TestLifetime:
    def watched(self) -> tuple[Any, Any, list[weakref.ref[Any]]]:
        allocate, deallocate = Nothing(), Nothing()
        capsule = ext.arena_create(BASE, TOTAL, GRANULE, allocate, deallocate)
        return capsule, None, [weakref.ref(allocate), weakref.ref(deallocate)]

    def test_a_capsule_holds_its_callables(self) -> None:
        capsule, _, held = self.watched()
        gc.collect()
        assert all(ref() is not None for ref in held)
        del capsule
        assert all(ref() is None for ref in held)

    def test_live_pointers_hold_them(self) -> None:
        capsule, _, held = self.watched()
        addresses = [ext.arena_malloc(capsule, 1) for _ in range(3)]
        del capsule
        gc.collect()
        for address in addresses:
            assert all(ref() is not None for ref in held)
            lib.mx_free(address, 1, 0, None)
        assert all(ref() is None for ref in held)

    def test_being_active_holds_them(self) -> None:
        capsule, _, held = self.watched()
        ext.set_active_arena(capsule)
        del capsule
        gc.collect()
        assert all(ref() is not None for ref in held)
        address = lib.mx_malloc(1, 0, None)
        assert address == BASE
        ext.set_active_arena(create(base=2 * BASE))
        assert all(ref() is not None for ref in held), "it has a live pointer"
        lib.mx_free(address, 1, 0, None)
        assert all(ref() is None for ref in held)

    def test_a_drained_arena_holds_nothing(self) -> None:
        capsule, _, held = self.watched()
        ext.arena_malloc(capsule, 1)
        ext.arena_close_and_drain(capsule)
        assert all(ref() is not None for ref in held), "the capsule holds them"
        del capsule
        assert all(ref() is None for ref in held)

    def test_capsules_collected_in_any_order(self) -> None:
        capsules = [create(base=(n + 1) * BASE) for n in range(30)]
        for capsule in capsules[::3]:
            ext.arena_malloc(capsule, 1)
        for capsule in capsules[1::3]:
            ext.arena_close_and_drain(capsule)
        ext.set_active_arena(capsules[7])
        cycles = [[capsule] for capsule in capsules]
        for cycle in cycles:
            cycle.append(cycle)
        del capsule, cycle
        while capsules:
            capsules.pop(len(capsules) // 2)
            cycles.pop()
        gc.collect()
        assert arenas() >= 1
        ext.set_active_arena(None)

    def test_arenas_are_given_back(self) -> None:
        create()
        before = arenas()
        for _ in range(100):
            capsule = create()
            ext.arena_free(capsule, ext.arena_malloc(capsule, 1))
        del capsule
        create()
        assert arenas() <= before

    def test_a_capsule_dropped_inside_its_own_callback(self) -> None:
        holder: list[Any] = []
        held = Nothing()
        watched = weakref.ref(held)

        def deallocate(*_: int, held: Any = held) -> None:
            holder.clear()

        holder.append(ext.arena_create(BASE, TOTAL, GRANULE, Nothing(), deallocate))
        address = ext.arena_malloc(holder[0], 1)
        del held, deallocate
        lib.mx_free(address, 1, 0, None)
        assert holder == []
        assert watched() is None
        before = arenas()
        create()
        assert arenas() <= before, "what was inside its last call then is gone by now"

    def test_a_capsule_dropped_by_another_thread_while_a_callback_waits(self) -> None:
        entered, leave = threading.Event(), threading.Event()

        def allocate(address: int, size: int) -> int:
            entered.set()
            leave.wait()
            return 3

        memory = Memory()
        holder = [ext.arena_create(BASE, TOTAL, GRANULE, allocate, memory.deallocate)]
        ext.set_active_arena(holder[0])
        got: list[Any] = []
        thread = threading.Thread(target=lambda: got.append(lib.mx_malloc(1, 0, None)))
        thread.start()
        entered.wait()
        holder.clear()
        ext.set_active_arena(None)
        gc.collect()
        leave.set()
        thread.join()
        assert got == [BASE]
        lib.mx_free(BASE, 1, 0, None)
        assert memory.deallocated == [(BASE, GRANULE, 3)]


    def test_an_owner_of_its_capsule_is_collected(self) -> None:
        class Owner:
            def __init__(self) -> None:
                self.capsule = ext.arena_create(BASE, TOTAL, GRANULE, self.allocate, self.deallocate)

            def allocate(self, address: int, size: int) -> int:
                return 1

            def deallocate(self, address: int, size: int, handle: int) -> None:
                pass

        create()
        gc.collect()
        before = arenas()
        owners = [Owner() for _ in range(50)]
        watched = [weakref.ref(owner) for owner in owners]
        addresses = [ext.arena_malloc(owner.capsule, 1) for owner in owners]
        for owner, address in zip(owners[:-1], addresses):
            ext.arena_free(owner.capsule, address)
        del owner
        owners.clear()
        gc.collect()
        assert [ref() for ref in watched[:-1]] == [None] * 49
        assert watched[-1]() is not None, "it has a live pointer"
        lib.mx_free(addresses[-1], 1, 0, None)
        gc.collect()
        assert watched[-1]() is None
        create()
        assert arenas() <= before


@pytest.mark.parametrize("call", ["malloc", "free"])
def test_near_the_limit_of_recursion(call: str) -> None:
    """A RecursionError comes out as one, and what it comes out of has not happened."""
    memory = Memory()
    capsule = create(memory)
    address = ext.arena_malloc(capsule, 1)

    def deep(levels: int) -> None:
        if levels:
            deep(levels - 1)
        elif call == "malloc":
            ext.arena_malloc(capsule, 1)
        else:
            ext.arena_free(capsule, address)

    refused = 0
    for levels in range(sys.getrecursionlimit(), 0, -1):
        before = len(memory.allocated), len(memory.deallocated)
        try:
            deep(levels)
        except RecursionError:
            refused += 1
            assert ext.arena_get_live_count(capsule) == len(memory.allocated) - len(memory.deallocated)
            assert (len(memory.allocated), len(memory.deallocated)) == before
        else:
            break
    assert refused > 0
    assert ext.arena_get_live_count(capsule) == len(memory.allocated) - len(memory.deallocated)


def arenas() -> int:
    from arenagen import _abi

    diagnostics = _abi.Diagnostics()
    _abi.declare(lib)
    lib.arenagen_diagnose(ctypes.byref(diagnostics))
    return int(diagnostics.arenas)


def test_init_module() -> None:
    assert ext.init_module(print, print) is None
    for pair in [(1, print), (print, None), ("a", "b")]:
        with pytest.raises(TypeError, match="callable"):
            ext.init_module(*pair)  # type: ignore[arg-type]


def test_sixteen_threads() -> None:
    memory = Memory()
    capsule = create(memory)
    ext.set_active_arena(capsule)

    def work(number: int) -> None:
        for i in range(200):
            address = ext.arena_malloc(capsule, 1 + i * 37 % 9000) if number % 2 else lib.mx_malloc(1 + i * 37 % 9000, 0, None)
            assert address
            (ext.arena_free if i % 3 else lambda _, a: lib.mx_free(a, 1, 0, None))(capsule, address)

    on_threads(16, work)
    assert ext.arena_get_live_count(capsule) == 0
    assert len(memory.allocated) == len(memory.deallocated) == len({va for va, _ in memory.allocated}) == 3200
    assert sorted(memory.deallocated) == sorted((va, size, va ^ 0xFFFF_FFFF_FFFF_FFFF) for va, size in memory.allocated)


def test_threads_close_while_others_allocate() -> None:
    for _ in range(20):
        memory = Memory()
        capsule = create(memory)
        barrier = threading.Barrier(5)
        drained: list[Any] = []

        def work(number: int, capsule: Any = capsule, barrier: Any = barrier, drained: list[Any] = drained) -> None:
            barrier.wait()
            if number == 0:
                drained.extend(ext.arena_close_and_drain(capsule) or [])
                return
            try:
                while True:
                    address = ext.arena_malloc(capsule, 1)
                    if number % 2:
                        ext.arena_free(capsule, address)
            except RuntimeError as error:
                assert str(error) == "arena is closed"

        on_threads(5, work)
        given = {va for va, _ in memory.allocated}
        assert given == {entry[0] for entry in memory.deallocated} | {entry[0] for entry in drained}
        assert len(memory.deallocated) + len(drained) == len(given)


def test_capsules_come_and_go_on_threads() -> None:
    def work(number: int) -> None:
        for _ in range(50):
            memory = Memory()
            capsule = create(memory, base=(number + 1) * BASE)
            ext.set_active_arena(capsule)
            address = lib.mx_malloc(1, 0, None)  # of whichever arena is active now
            del capsule
            if address:
                lib.mx_free(address, 1, 0, None)

    on_threads(8, work)
    ext.set_active_arena(None)
    create()
    gc.collect()


def test_the_module_is_loaded_once() -> None:
    import importlib

    with pytest.raises(ImportError, match="cannot be loaded again"):
        importlib.reload(ext)
    assert ext.arena_malloc(create(), 1) == BASE


def test_an_import_anew_leaves_the_old_one_working() -> None:
    ended = run("""
        import ctypes, gc, sys
        from arenagen import _alloc_ext as ext
        freed = []
        capsule = ext.arena_create(1 << 40, 1 << 30, 4096, lambda *_: 1, lambda *a: freed.append(a))
        address = ext.arena_malloc(capsule, 1)
        file = ext.__file__
        del sys.modules["arenagen._alloc_ext"], sys.modules["arenagen"], ext, capsule
        gc.collect()
        from arenagen import _alloc_ext as again
        ctypes.CDLL(file).mx_free(ctypes.c_void_p(address), 1, 0, None)
        print(len(freed), again.__file__ == file)
    """)
    assert (ended.stdout, ended.returncode) == ("1 True\n", 0), ended.stderr


SIGNALLED = """
    import signal, sys, threading, time
    from arenagen import _alloc_ext as ext
    main, held = threading.main_thread().ident, set()
    def allocate(address, size):
        held.add(address)
        return address
    def deallocate(address, size, handle):
        assert address == handle, (address, handle)
        held.discard(address)
    capsule = ext.arena_create(1 << 40, 1 << 45, 4096, allocate, deallocate)
    done = armed = False
    def interrupt(*_):
        global armed
        if armed:
            armed = False  # until the next round: nothing may be raised outside its try
            raise KeyboardInterrupt
    signal.signal(signal.SIGINT, interrupt)
    def unraisable(args):  # one that came up outside every try of the callbacks
        global armed
        armed = True
    sys.unraisablehook = unraisable
    def disturb():
        while not done:
            signal.pthread_kill(main, signal.SIGINT)
            time.sleep(0.0002)
    interrupts, addresses = 0, []
    disturbing = threading.Thread(target=disturb)
    disturbing.start()
    while interrupts < 300:
        try:
            armed = True
            while True:
                addresses.append(ext.arena_malloc(capsule, 1))
        except KeyboardInterrupt:
            interrupts += 1
    done = True
    disturbing.join()
    print(len([address for address in addresses if address not in held]))
    # What is interrupted at the end of allocate was not given to the arena, and what is behind arena_malloc is lost to the program.
    live = ext.arena_get_live_count(capsule)
    print(len(addresses) <= live <= len(held), live - len(addresses) < 30)
    for address in held.copy():
        ext.arena_free(capsule, address)
    print(ext.arena_get_live_count(capsule))
"""


def test_interrupts_while_it_allocates() -> None:
    ended = run(SIGNALLED)
    assert (ended.stdout, ended.returncode) == ("0\nTrue True\n0\n", 0), ended.stderr


class TestExit:
    @pytest.mark.parametrize("active", ["True", "False"])
    def test_with_live_arenas(self, active: str) -> None:
        ended = run("""
            import sys
            from arenagen import _alloc_ext as ext
            capsules = [ext.arena_create(1 << 40, 1 << 30, 4096, lambda *_: 1, lambda *a: print("freed", a)) for _ in range(3)]
            for capsule in capsules:
                ext.arena_malloc(capsule, 1)
            if sys.argv[1] == "True":
                ext.set_active_arena(capsule)
            print("end")
        """, active)
        assert (ended.stdout, ended.stderr, ended.returncode) == ("end\n", "", 0)

    def test_of_the_pair_afterwards(self) -> None:
        ended = run("""
            import atexit, ctypes, sys
            def late():  # registered first, so called last
                print(lib.mx_malloc(1, 0, None), stats().live, stats().late_frees)
                lib.mx_free(address, 1, 0, None)
                print(stats().late_frees)
            atexit.register(late)
            from arenagen import _abi, _alloc_ext as ext
            lib = ctypes.CDLL(ext.__file__)
            _abi.declare(lib)
            def stats():
                found = _abi.Stats()
                lib.arenagen_arena_stats(capsule._backing.handle, ctypes.byref(found))
                return found
            capsule = ext.arena_create(1 << 40, 1 << 30, 4096, lambda *_: 1, lambda *a: print("freed", a))
            ext.set_active_arena(capsule)
            address = lib.mx_malloc(1, 0, None)
            print("end")
        """)
        assert (ended.stdout, ended.stderr) == ("end\nNone 1 0\n1\n", "")

    def test_with_threads_in_the_pair(self) -> None:
        ended = run("""
            import ctypes, threading
            from arenagen import _alloc_ext as ext
            lib = ctypes.CDLL(ext.__file__)
            lib.mx_malloc.restype = ctypes.c_void_p
            lib.mx_free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
            capsule = ext.arena_create(1 << 40, 1 << 45, 4096, lambda *_: 1, lambda *_: None)
            ext.set_active_arena(capsule)
            started = threading.Barrier(5)
            def work():
                started.wait()
                while True:
                    lib.mx_free(lib.mx_malloc(1, 0, None), 1, 0, None)
            for _ in range(4):
                threading.Thread(target=work, daemon=True).start()
            started.wait()
            print("end")
        """)
        assert (ended.stdout, ended.returncode) == ("end\n", 0), ended.stderr

    def test_inside_a_callback_that_never_returns(self) -> None:
        ended = run("""
            import threading
            from arenagen import _alloc_ext as ext
            ext.EXIT_WAITS = 0.1
            entered = threading.Event()
            def allocate(address, size):
                entered.set()
                threading.Event().wait()
            capsule = ext.arena_create(1 << 40, 1 << 30, 4096, allocate, lambda *_: None)
            threading.Thread(target=ext.arena_malloc, args=(capsule, 1), daemon=True).start()
            entered.wait()
            print("end")
        """)
        assert (ended.stdout, ended.returncode) == ("end\n", 0), ended.stderr
        assert "the interpreter ends while callbacks of an arena are under way, after 0.1 seconds" in ended.stderr

    def test_a_callback_that_is_under_way_is_waited_for(self) -> None:
        ended = run("""
            import threading, atexit
            entered, leave = threading.Event(), threading.Event()
            from arenagen import _alloc_ext as ext
            def allocate(address, size):
                entered.set()
                leave.wait()
                print("done")
                return 1
            capsule = ext.arena_create(1 << 40, 1 << 30, 4096, allocate, lambda *_: None)
            threading.Thread(target=ext.arena_malloc, args=(capsule, 1), daemon=True).start()
            entered.wait()
            atexit.register(leave.set)
            print("end")
        """)
        assert (ended.stdout, ended.stderr, ended.returncode) == ("end\ndone\n", "", 0)

    def test_by_an_exception_or_a_signal(self) -> None:
        program = """
            import os, signal, sys
            from arenagen import _alloc_ext as ext
            capsule = ext.arena_create(1 << 40, 1 << 30, 4096, lambda *_: 1, lambda *_: None)
            ext.set_active_arena(capsule)
            ext.arena_malloc(capsule, 1)
            if sys.argv[1] == "raise":
                raise KeyError("mine")
            os.kill(os.getpid(), signal.SIGTERM)
        """
        assert run(program, "raise").returncode == 1
        assert run(program, "signal").returncode == -signal.SIGTERM


class TestFork:
    def test_a_child_is_refused_and_ends(self) -> None:
        ended = run("""
            import ctypes, os, sys
            from arenagen import _alloc_ext as ext
            lib = ctypes.CDLL(ext.__file__)
            capsule = ext.arena_create(1 << 40, 1 << 30, 4096, lambda *_: 1, lambda *a: print("freed", a))
            ext.set_active_arena(capsule)
            address = ext.arena_malloc(capsule, 1)
            child = os.fork()
            if child == 0:
                for call in (lambda: ext.arena_malloc(capsule, 1), lambda: ext.arena_get_used_bytes(capsule),
                             lambda: ext.arena_close_and_drain(capsule), lambda: ext.set_active_arena(None)):
                    try:
                        call()
                    except RuntimeError as error:
                        print(type(error).__name__, "forked" in str(error))
                print(ext.arena_free(capsule, address), lib.mx_malloc(1, 0, None))
                del capsule
                sys.exit(0)
            print(os.waitpid(child, 0)[1], ext.arena_get_live_count(capsule))
        """)
        assert ended.stdout == "ForkedError True\n" * 4 + "None 0\n" + "0 1\n", ended.stderr

    def test_while_threads_hold_every_lock(self) -> None:
        ended = run("""
            import os, sys, threading
            from arenagen import _alloc_ext as ext
            def work():
                while True:
                    capsule = ext.arena_create(1 << 40, 1 << 30, 4096, lambda *_: 1, lambda *_: None)
                    ext.set_active_arena(capsule)
                    ext.arena_free(capsule, ext.arena_malloc(capsule, 1))
            for _ in range(4):
                threading.Thread(target=work, daemon=True).start()
            for _ in range(50):
                child = os.fork()
                if child == 0:
                    capsule = None
                    try:
                        ext.set_active_arena(None)
                    except RuntimeError:
                        os._exit(7)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
            print("end")
        """)
        assert (ended.stdout, ended.returncode) == ("end\n", 0), ended.stderr
