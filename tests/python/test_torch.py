"""use_arena, with a small PyTorch in fake/ that calls the C pair as the real one does."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import subprocess
import sys
import sysconfig
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FAKE = str(Path(__file__).with_name("fake"))
PACKAGE = str(ROOT / "python")
if PACKAGE not in sys.path:
    sys.path.insert(0, PACKAGE)

import arenagen  # noqa: E402

# The simulators' children set it.
BACKEND = os.environ.get("ARENAGEN_TEST_BACKEND", "stub")
SIMULATORS = {"cuda": ("ARENAGEN_CUDA_LIBRARY", "libcuda.so.1"), "hip": ("ARENAGEN_HIP_LIBRARY", "libamdhip64.so.7")}
MIB = 1 << 20
HANGS = 180

# What the real PyTorch frees in C++ is an object of Python here.
no_gil_no_order = pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="objects that another thread drops go later in this Python"
)


@pytest.fixture(scope="module")
def fake():
    sys.path.insert(0, FAKE)
    import torch

    yield torch
    sys.path.remove(FAKE)
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        del sys.modules[name]


@pytest.fixture
def torch(fake):
    memory = fake.cuda.memory
    arenagen.set_active(None)
    arenagen.set_active(None, 0)
    yield fake
    gc.collect()
    terminated = list(memory.terminated)
    memory.terminated.clear()
    fake.cuda.set_device(0)
    fake.cuda.empty_cache()
    assert not terminated
    assert all(not of.underway for of in memory._devices.values())


@pytest.fixture
def arena():
    opened = make()
    yield opened
    gc.collect()
    opened.release(force=True)


@pytest.fixture
def other():
    opened = make()
    yield opened
    gc.collect()
    opened.release(force=True)


def make(total=1 << 30, **more):
    return arenagen.Arena(backend=BACKEND, total=total, **more)


def within(arena, tensor):
    base, length = arena.registered_range()
    return base <= tensor.data_ptr() and tensor.data_ptr() + tensor.nbytes <= base + length


def serves(device=0):
    """Which arena the C pair serves a device from: its base, or None."""
    lib = ctypes.CDLL(arenagen.library_path())
    lib.mx_malloc.restype = ctypes.c_void_p
    lib.mx_malloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    lib.mx_free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    address = lib.mx_malloc(1, device, None)
    if not address:
        return None
    handle = ctypes.c_uint64()
    assert lib.arenagen_arena_of(ctypes.c_void_p(address), ctypes.byref(handle)) == 0
    lib.mx_free(address, 1, device, None)
    return handle.value


def in_thread(work):
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result(HANGS)


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if "did not come through" in record.getMessage()]


# What a scope does


def test_tensors_land_in_the_range(torch, arena, caplog):
    before = torch.empty(3 * MIB)
    with arenagen.use_arena(arena) as scope:
        small, large = torch.empty(1000), torch.empty(30 * MIB)
        assert scope.arena is arena
        assert scope.reserved_bytes == scope.arena_bytes == 32 * MIB
    after = torch.empty(3 * MIB)
    assert within(arena, small) and within(arena, large)
    assert not within(arena, before) and not within(arena, after)
    assert (scope.reserved_bytes, scope.arena_bytes, scope.outside_bytes) == (32 * MIB, 32 * MIB, 0)
    assert not warnings(caplog)


def test_rocm_has_the_same_names(torch, arena, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", "7.2")
    with arenagen.use_arena(arena):
        assert within(arena, torch.empty(MIB))


def test_leaving_frees_nothing_and_the_next_scope_goes_on(torch, arena):
    with arenagen.use_arena(arena):
        kept, freed = torch.empty(20 * MIB), torch.empty(30 * MIB)
    place = freed.data_ptr()
    del freed
    torch.cuda.empty_cache()
    assert (arena.live_count, arena.mapped_bytes) == (2, 50 * MIB)
    with arenagen.use_arena(arena):
        again = torch.empty(30 * MIB)
    assert again.data_ptr() == place and within(arena, kept)
    assert arena.stats().created == 2


def test_frees_reach_their_arena_whenever_they_come(torch, arena, other):
    with arenagen.use_arena(arena):
        tensors = [torch.empty(2 * MIB) for _ in range(3)]
    with arenagen.use_arena(other):
        mine = torch.empty(2 * MIB)
    arenagen.set_active(other, 0)
    tensors.pop()
    in_thread(tensors.pop)
    tensors.pop()
    in_thread(lambda: arena._pools[0].give_up(False))
    arenagen.set_active(None, 0)
    stats = arena.stats()
    assert (stats.created, stats.released, stats.live, stats.mapped) == (1, 1, 0, 0)
    assert (stats.unknown_frees, stats.late_frees) == (0, 0)
    assert other.stats().released == 0 and within(other, mine)


def test_what_was_active_comes_back(torch, arena, other):
    with arenagen.use_arena(arena):
        assert serves() == arena.handle
    assert serves() is None
    arenagen.set_active(other, 0)
    with arenagen.use_arena(arena):
        assert serves() == arena.handle
    assert serves() == other.handle
    with arenagen.use_arena(arena):
        other.release()
    assert serves() is None
    arenagen.set_active(None, 0)


def test_an_exception_restores_everything(torch, arena, other):
    arenagen.set_active(other, 0)
    with pytest.raises(KeyError), arenagen.use_arena(arena):
        raise KeyError
    assert serves() == other.handle
    assert not within(arena, torch.empty(MIB))
    arenagen.set_active(None, 0)


def test_out_of_memory_is_pytorchs_own(torch):
    arena = make(total=64 * MIB)
    with arenagen.use_arena(arena):
        with pytest.raises(torch.cuda.OutOfMemoryError):
            torch.empty(65 * MIB)
        assert within(arena, torch.empty(30 * MIB))
    arena.close()


def test_importing_arenagen_does_not_import_torch():
    run_child("import arenagen, sys; assert 'torch' not in sys.modules")


# Several scopes


def test_the_inner_arena_serves_until_it_ends(torch, arena, other, caplog):
    with arenagen.use_arena(arena) as outermost:
        first = torch.empty(2 * MIB)
        with arenagen.use_arena(other) as middle:
            second = torch.empty(2 * MIB)
            with arenagen.use_arena(arena):
                third = torch.empty(2 * MIB)
            assert serves() == other.handle
            fourth = torch.empty(2 * MIB)
        assert serves() == arena.handle
        fifth = torch.empty(2 * MIB)
    assert [within(arena, one) for one in (first, second, third, fourth, fifth)] == [True, False, True, False, True]
    assert within(other, second) and within(other, fourth)
    assert middle.arena_bytes == 20 * MIB and outermost.arena_bytes == 40 * MIB
    assert serves() is None and not warnings(caplog)


def test_the_same_arena_inside_itself(torch, arena):
    with arenagen.use_arena(arena):
        with arenagen.use_arena(arena):
            inner = torch.empty(MIB)
        outer = torch.empty(MIB)
    assert within(arena, inner) and within(arena, outer) and serves() is None


def test_another_device_inside(torch, arena):
    second = make(device=1, options={"devices": 2} if BACKEND == "stub" else None)
    with arenagen.use_arena(arena):
        with torch.cuda.device(1), arenagen.use_arena(second):
            there = torch.empty(MIB)
        here = torch.empty(MIB)
    assert within(second, there) and within(arena, here)
    del there
    second.close()


def test_threads_share_an_arena(torch, arena):
    ready, tensors = threading.Barrier(4), []

    def work():
        with arenagen.use_arena(arena):
            ready.wait(HANGS)
            tensors.extend(torch.empty(3 * MIB) for _ in range(20))
            ready.wait(HANGS)

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(work) for _ in range(4)]:
            done.result(HANGS)
    assert len(tensors) == 80 and all(within(arena, tensor) for tensor in tensors)
    assert len({tensor.data_ptr() for tensor in tensors}) == 80
    assert serves() is None
    # A second round makes no more pools.
    count = len(arena._pools[0]._idle)
    with arenagen.use_arena(arena):
        pass
    assert count == len(arena._pools[0]._idle) <= 4


def test_two_threads_with_two_arenas_are_refused(torch, arena, other):
    def enter():
        with arenagen.use_arena(other):
            pass

    with arenagen.use_arena(arena):
        with pytest.raises(arenagen.BusyError, match="one active arena for all threads"):
            in_thread(enter)
        assert serves() == arena.handle
        assert within(arena, torch.empty(MIB))
    in_thread(enter)


@no_gil_no_order
def test_scopes_and_a_close_at_a_time(torch):
    def load(arena, begin):
        begin.wait(HANGS)
        while True:
            try:
                with arenagen.use_arena(arena):
                    assert within(arena, torch.empty(MIB))
            except arenagen.ClosedError:
                return

    for _ in range(20):
        arena, begin = make(), threading.Barrier(3)
        with ThreadPoolExecutor(2) as threads:
            loads = [threads.submit(load, arena, begin) for _ in range(2)]
            begin.wait(HANGS)
            while not arena.closed:
                try:
                    arena.close()
                except arenagen.InUseError:
                    pass
            for done in loads:
                done.result(HANGS)
        stats = arena.stats()
        assert stats.late_frees == 0 and stats.created == stats.released
        arena.release()


@pytest.mark.parametrize("how", ["close", "release"])
def test_no_scope_begins_between_the_pools_and_the_close(torch, arena, monkeypatch, how):
    def can_begin():
        if arena._lock.acquire(blocking=False):
            arena._lock.release()
            return True
        return False

    give_up, could_begin = arena._before_closing, []

    def watched(force):
        give_up(force)
        could_begin.append(in_thread(can_begin))

    monkeypatch.setattr(arena, "_before_closing", watched)
    getattr(arena, how)()
    assert could_begin == [False] and in_thread(can_begin)


# What it refuses


def nothing_changed(torch, arena):
    assert serves() is None and not arena._pools and not arenagen._torch._open.get(0)


def test_without_pytorch(arena, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(arenagen.UnavailableError, match="needs PyTorch"), arenagen.use_arena(arena):
        pass
    nothing_changed(None, arena)


def test_pytorch_without_cuda(torch, arena, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(arenagen.UnavailableError, match="built without CUDA"), arenagen.use_arena(arena):
        pass
    nothing_changed(torch, arena)


def test_without_a_driver(torch, arena, monkeypatch):
    monkeypatch.setattr(torch.cuda, "problem", "Found no NVIDIA driver on your system.")
    with pytest.raises(arenagen.UnavailableError, match="Found no NVIDIA driver"), arenagen.use_arena(arena):
        pass
    nothing_changed(torch, arena)


@pytest.mark.parametrize("version", ["1.13.1", "2.9.1+cu128", "unknown"])
def test_an_old_pytorch(torch, arena, monkeypatch, version):
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(arenagen.NotSupportedError, match=r"needs PyTorch 2\.10 or newer"), arenagen.use_arena(arena):
        pass
    nothing_changed(torch, arena)


def test_another_device_is_current(torch, arena):
    torch.cuda.set_device(3)
    with pytest.raises(arenagen.InvalidArgumentError, match=r"of device 0, and device 3 .*set_device\(0\)"):
        with arenagen.use_arena(arena):
            pass
    nothing_changed(torch, arena)


def test_expandable_segments(torch, arena):
    torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
    with pytest.raises(arenagen.NotSupportedError, match="expandable_segments:False"), arenagen.use_arena(arena):
        pass
    nothing_changed(torch, arena)
    torch._C._accelerator_setAllocatorSettings("expandable_segments:False")
    with arenagen.use_arena(arena):
        pass


def test_another_allocator(torch, arena, monkeypatch):
    monkeypatch.setattr(torch.cuda.memory, "backend", "cudaMallocAsync")
    with pytest.raises(arenagen.NotSupportedError, match="cudaMallocAsync"), arenagen.use_arena(arena):
        pass
    nothing_changed(torch, arena)


def test_a_closed_arena(torch, arena):
    arena.close()
    with pytest.raises(arenagen.ClosedError), arenagen.use_arena(arena):
        pass
    nothing_changed(torch, arena)
    arena.release()
    with pytest.raises(arenagen.ClosedError), arenagen.use_arena(arena):
        pass


def test_the_c_pair_refuses_to_be_active(torch, arena, monkeypatch):
    """A failure in the middle of the beginning leaves nothing behind."""

    def fail(*_):
        raise arenagen.ForkedError("forked")

    with monkeypatch.context() as patched:
        patched.setattr(arenagen._active, "put", fail)
        with pytest.raises(arenagen.ForkedError), arenagen.use_arena(arena):
            pass
    arena.close()


# What it reports


def test_bytes_of_other_threads_are_told(torch, arena, caplog):
    with arenagen.use_arena(arena) as scope:
        inside = torch.empty(2 * MIB)
        outside = in_thread(lambda: torch.empty(6 * MIB))
        assert (scope.reserved_bytes, scope.arena_bytes, scope.outside_bytes) == (40 * MIB, 20 * MIB, 20 * MIB)
    assert within(arena, inside) and not within(arena, outside)
    (message,) = warnings(caplog)
    assert f"{20 * MIB} of the {40 * MIB} bytes" in message and "backward" in message
    assert all(record.name == "arenagen" and record.levelno == logging.WARNING for record in caplog.records)


def test_what_pytorch_gives_back_hides_nothing(torch, arena, caplog):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.empty(100 * MIB)
    with arenagen.use_arena(arena) as scope:
        before = torch.cuda.memory_reserved(0)
        graph.reset()
        torch.cuda.empty_cache()
        assert torch.cuda.memory_reserved(0) == before - 100 * MIB
        elsewhere = in_thread(lambda: torch.empty(300 * MIB))
    assert scope.outside_bytes == elsewhere.nbytes and len(warnings(caplog)) == 1


def test_a_graph_captured_inside_has_its_own_pool(torch, arena, caplog):
    graph = torch.cuda.CUDAGraph()
    with arenagen.use_arena(arena), torch.cuda.graph(graph):
        tensor = torch.empty(MIB)
    assert not within(arena, tensor)
    assert "use_arena inside torch.cuda.graph" in warnings(caplog)[0]


def test_host_memory_is_told(torch, arena, caplog):
    with arenagen.use_arena(arena):
        pass
    told = [record for record in caplog.records if "host memory" in record.getMessage()]
    assert len(told) == arena.info.host_memory


# Closing


def test_a_close_gives_cached_segments_back(torch, arena):
    with arenagen.use_arena(arena):
        tensor = torch.empty(30 * MIB)
    reserved = torch.cuda.memory_reserved(0)
    del tensor
    arena.close()
    stats = arena.stats()
    assert (stats.released, stats.live, stats.late_frees) == (1, 0, 0)
    assert torch.cuda.memory_reserved(0) == reserved - 30 * MIB


@pytest.mark.parametrize("how", ["close", "release"])
def test_a_close_with_tensors_is_refused(torch, arena, how):
    with arenagen.use_arena(arena):
        tensors = [torch.empty(MIB), torch.empty(MIB), torch.empty(30 * MIB)]
    with pytest.raises(arenagen.InUseError, match=f"{32 * MIB} bytes in use .* 3 blocks in 2 segments") as caught:
        getattr(arena, how)()
    assert caught.value.size == 32 * MIB and "gc.collect()" in str(caught.value)
    assert not arena.closed and arena.live_count == 2
    with arenagen.use_arena(arena):
        more = torch.empty(MIB)
    assert within(arena, more)
    tensors.clear()
    del more
    getattr(arena, how)()
    assert arena.closed


def test_a_forced_close_with_tensors(torch, arena):
    with arenagen.use_arena(arena):
        tensor, cached = torch.empty(30 * MIB), torch.empty(MIB)
    del cached
    arena.close(force=True)
    stats = arena.stats()
    assert stats.closed and stats.live == 0 and stats.released == 2
    del tensor
    torch.cuda.empty_cache()
    assert arena.stats().late_frees == 1


def test_a_kept_scope_keeps_no_pool(torch, arena):
    with arenagen.use_arena(arena) as scope:
        torch.empty(MIB)
    reserved = torch.cuda.memory_reserved(0)
    arena.close()
    assert torch.cuda.memory_reserved(0) == reserved - 2 * MIB
    assert scope.arena_bytes == 2 * MIB


def test_a_close_inside_the_scope_is_refused(torch, arena):
    with arenagen.use_arena(arena):
        with pytest.raises(arenagen.InUseError, match="use_arena of it is open"):
            arena.close()
        with pytest.raises(arenagen.InUseError, match="use_arena of it is open"):
            in_thread(arena.close)
        assert within(arena, torch.empty(MIB))


@pytest.mark.parametrize("how", ["close", "release"])
def test_a_forced_close_inside_the_scope(torch, arena, how):
    with arenagen.use_arena(arena):
        torch.empty(MIB)
        getattr(arena, how)(force=True)
        with pytest.raises(torch.cuda.OutOfMemoryError):
            torch.empty(30 * MIB)
    assert serves() is None
    assert not arenagen._torch._leftover
    assert not torch.cuda.memory_snapshot() or all(one["segment_pool_id"] == (0, 0) for one in torch.cuda.memory_snapshot())


def test_a_close_inside_another_scope(torch, arena, other):
    with arenagen.use_arena(other):
        torch.empty(MIB)
    with arenagen.use_arena(arena):
        with pytest.raises(arenagen.InUseError, match="leave it first"):
            other.close()
        other.close(force=True)
        assert other.closed and len(arenagen._torch._leftover) == 1
    assert not arenagen._torch._leftover and other.stats().late_frees == 1


def test_a_graph_keeps_the_arena(torch, arena):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), arenagen.use_arena(arena):
        tensor = torch.empty(MIB)
    assert within(arena, tensor)
    del tensor
    with pytest.raises(arenagen.InUseError, match="CUDA graph"):
        arena.close()
    assert not arena.closed and arena.live_count == 1
    graph.reset()
    arena.close()
    assert arena.stats().late_frees == 0


def test_a_forced_close_under_a_graph(torch, arena, other):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), arenagen.use_arena(arena):
        torch.empty(MIB)
    arena.close(force=True)
    assert len(arenagen._torch._leftover) == 1
    graph.reset()
    with arenagen.use_arena(other):
        pass
    assert not arenagen._torch._leftover and arena.stats().late_frees == 1


def test_while_a_graph_is_captured(torch, arena):
    with arenagen.use_arena(arena):
        torch.empty(MIB)
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        with pytest.raises(arenagen.InUseError, match="captured"):
            arena.close()
    arena.close()


def arenas():
    gc.collect()
    answer = arenagen._abi.Diagnostics()
    assert arenagen._library.library().arenagen_diagnose(ctypes.byref(answer)) == 0
    return answer.arenas


def test_a_dropped_arena_is_released(torch):
    before = arenas()
    arena = make()
    with arenagen.use_arena(arena):
        tensor = torch.empty(MIB)
    del tensor, arena
    assert arenas() == before


def test_a_dropped_arena_stays_for_its_tensors(torch):
    before = arenas()
    arena = make()
    with arenagen.use_arena(arena):
        tensor = torch.empty(MIB)
    base, length = arena.registered_range()
    del arena
    assert arenas() == before + 1 and base <= tensor.data_ptr() < base + length
    del tensor
    torch.cuda.empty_cache()


def test_a_dropped_arena_waits_for_no_lock(torch):
    """A collector may find it anywhere, also where another thread waits for what this one has."""
    arena = arenagen.Arena(backend=BACKEND, total=1 << 30)
    with arenagen.use_arena(arena):
        torch.empty(MIB)
    handle = arena.handle
    held, done = threading.Event(), threading.Event()

    def hold():
        with arenagen._torch._lock:
            held.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    del arena
    gc.collect()  # it would hang here
    assert live_of(handle) == 1
    done.set()
    holder.join()
    with arenagen.Arena(backend=BACKEND, total=1 << 30) as another, arenagen.use_arena(another):
        pass
    assert live_of(handle) is None, "who had the lock next dropped its pools, and it went"


def live_of(handle):
    """How many allocations are live in an arena, or None of one that was released."""
    library, live = arenagen._library.library(), ctypes.c_uint64()
    return None if library.arenagen_arena_live(handle, ctypes.byref(live)) else live.value


def test_nothing_is_logged_under_a_lock(torch, arena):
    class Handler(logging.Handler):
        def emit(self, record):
            owned.append(arenagen._torch._lock._is_owned())

    owned, handler = [], Handler()
    logging.getLogger("arenagen").addHandler(handler)
    try:
        with arenagen.use_arena(arena):
            torch.empty(MIB)
            in_thread(lambda: torch.empty(MIB))
    finally:
        logging.getLogger("arenagen").removeHandler(handler)
    assert owned and not any(owned)


@pytest.mark.parametrize("wrong", [None, 1, "cuda", arenagen.Arena])
def test_what_is_no_arena(torch, wrong):
    with pytest.raises(TypeError, match="arena must be an Arena"), arenagen.use_arena(wrong):
        pass


def test_a_pytorch_that_breaks_when_it_is_imported(arena, tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("raise RuntimeError('a broken installation')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(arenagen.UnavailableError, match="a broken installation"), arenagen.use_arena(arena):
        pass


def test_an_arena_dropped_inside_a_scope_waits_for_its_end(torch, arena):
    before = arenas()
    with arenagen.use_arena(arena):
        dropped = make()
        with arenagen.use_arena(dropped):
            torch.empty(MIB)
        del dropped
        assert arenas() == before + 1
    assert arenas() == before


# Processes

CHILD = f"""
import sys
sys.path[:0] = [{PACKAGE!r}, {FAKE!r}]
"""


def run_child(program):
    done = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", CHILD + program], capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0 and not done.stderr, done
    return done.stdout


@pytest.mark.parametrize("end", ["", "arena.close(force=True)", "arena.release(force=True)", "del arena", "sys.exit(0)"])
@pytest.mark.parametrize("first", ["import torch, arenagen", "import arenagen, torch"])
def test_exit_with_tensors(first, end):
    run_child(f"""
{first}
import logging; logging.disable()
arena = arenagen.Arena(backend={BACKEND!r}, total=1 << 30)
with arenagen.use_arena(arena):
    tensor, cached = torch.empty(1 << 20), torch.empty(30 << 20)
del cached
{end}
""")


def test_exit_inside_the_scope():
    run_child(f"""
import arenagen, torch, logging; logging.disable()
arena = arenagen.Arena(backend={BACKEND!r}, total=1 << 30)
with arenagen.use_arena(arena):
    tensor = torch.empty(1 << 20)
    sys.exit(0)
""")


def test_a_finaliser_may_free_while_the_lock_is_held():
    run_child(f"""
import arenagen, gc
arena = arenagen.Arena(backend={BACKEND!r}, total=1 << 30)
address = arena.malloc(1 << 20)

class Owner:
    def __init__(self):
        self.itself = self

    def __del__(self):
        arena.free(address)

Owner()
with arena._lock:
    gc.collect()
assert arena.live_count == 0
""")


def test_a_forked_child_drops_no_pool():
    """It cannot use the device, and dropping a pool does."""
    run_child(f"""
import arenagen, gc, os, torch, logging; logging.disable()
arena = arenagen.Arena(backend={BACKEND!r}, total=1 << 30)
with arenagen.use_arena(arena):
    tensor = torch.empty(1 << 20)
del tensor
child = os.fork()
if child == 0:
    del arena
    gc.collect()
    sys.exit(0 if torch.cuda.memory_snapshot() else 1)
assert os.waitpid(child, 0)[1] == 0
arena.close()
assert not torch.cuda.memory_snapshot()
""")


@no_gil_no_order
def test_a_forked_child_leaves_the_scope():
    """The child gets out of the scope and to its end, also when another thread held the locks."""
    run_child(f"""
import arenagen, os, threading, torch, logging; logging.disable()
arena = arenagen.Arena(backend={BACKEND!r}, total=1 << 30)
locked, done = threading.Event(), threading.Event()

def hold():
    with arena._lock, arenagen._torch._lock:
        locked.set()
        done.wait()

with arenagen.use_arena(arena):
    tensor = torch.empty(1 << 20)
    holder = threading.Thread(target=hold)
    holder.start()
    locked.wait()
    child = os.fork()
    if child:
        done.set()
        holder.join()
if child == 0:
    try:
        arena.close()
    except arenagen.ForkedError:
        pass
    else:
        os._exit(1)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
del tensor
arena.close()
""")


@pytest.mark.parametrize("backend", sorted(SIMULATORS))
@pytest.mark.skipif(BACKEND != "stub", reason="this is the child")
def test_all_this_on_a_simulator(backend):
    variable, name = SIMULATORS[backend]
    simulator = ROOT / "out" / "sim" / name
    if not simulator.is_file():
        pytest.skip(f"there is no {simulator}: make simulators")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env={**os.environ, "ARENAGEN_TEST_BACKEND": backend, variable: str(simulator)},
        capture_output=True,
        text=True,
        timeout=2 * HANGS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
