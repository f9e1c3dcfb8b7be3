"""use_arena with real tensors. It needs a GPU that PyTorch can use; the arenas are of the first backend that has one."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

PACKAGE = str(Path(__file__).resolve().parents[2] / "python")
sys.path.insert(0, PACKAGE)

import arenagen  # noqa: E402

MIB = 1 << 20
HANGS = 300

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU that PyTorch can use")


@pytest.fixture(autouse=True)
def clean():
    torch.cuda.set_device(0)
    torch.cuda.synchronize()
    gc.collect()
    torch.cuda.empty_cache()


@pytest.fixture
def arena():
    opened = arenagen.Arena()
    yield opened
    gc.collect()
    torch.cuda.synchronize()
    opened.release(force=True)


@pytest.fixture
def other():
    opened = arenagen.Arena()
    yield opened
    gc.collect()
    torch.cuda.synchronize()
    opened.release(force=True)


def within(arena, tensor):
    base, length = arena.registered_range()
    start = tensor.data_ptr()
    return base <= start and start + tensor.numel() * tensor.element_size() <= base + length


def pattern(seed, size):
    """So many bytes that the CPU can make again."""
    return torch.randint(0, 256, (size,), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def same(tensor, seed):
    return torch.equal(tensor.cpu(), pattern(seed, tensor.numel()))


SIZES = [1, 1000, MIB, MIB + 1, 5 * MIB, 10 * MIB, 33 * MIB, 256 * MIB]


def test_tensors_land_in_the_range(arena, caplog):
    outside = torch.zeros(MIB, device="cuda")
    with arenagen.use_arena(arena) as scope:
        tensors = [torch.zeros(size, dtype=torch.uint8, device="cuda") for size in SIZES]
    after = torch.zeros(MIB, device="cuda")
    assert all(within(arena, tensor) for tensor in tensors)
    assert not within(arena, outside) and not within(arena, after)
    assert scope.reserved_bytes == scope.arena_bytes == arena.mapped_bytes > sum(SIZES)
    assert scope.outside_bytes == 0 and "did not come through" not in caplog.text


def test_contents_survive(arena):
    with arenagen.use_arena(arena):
        tensors = [pattern(seed, size).cuda() for seed, size in enumerate(SIZES)]
    # Memory comes and goes on both sides of the boundary, and work is queued while it does.
    for seed in range(20):
        with arenagen.use_arena(arena):
            passing = pattern(100 + seed, 7 * MIB).cuda()
        copy = passing.clone()
        passing.fill_(0)
        assert same(copy, 100 + seed)
        del passing, copy
        torch.cuda.empty_cache()
    assert all(same(tensor, seed) for seed, tensor in enumerate(tensors))


def test_kernels_use_the_memory(arena):
    with arenagen.use_arena(arena):
        left, right = (torch.randn(1024, 1024, device="cuda", dtype=torch.float64) for _ in range(2))
        product = left @ right
    assert within(arena, product)
    torch.testing.assert_close(product.cpu(), left.cpu() @ right.cpu())


def test_a_free_while_a_kernel_runs(arena):
    """What is unmapped at the close is waited for."""
    with arenagen.use_arena(arena):
        source = pattern(1, 256 * MIB).cuda()
    result = torch.empty_like(source)
    for _ in range(50):
        result.copy_(source)
    del source
    arena.close()
    torch.cuda.synchronize()
    assert same(result, 1)


def test_out_of_memory_is_pytorchs_own():
    with arenagen.Arena(total=256 * MIB) as arena:
        with arenagen.use_arena(arena):
            with pytest.raises(torch.OutOfMemoryError):
                torch.empty(512 * MIB, dtype=torch.uint8, device="cuda")
            tensor = pattern(2, 64 * MIB).cuda()
        assert within(arena, tensor) and same(tensor, 2)
        del tensor


def test_out_of_memory_of_the_device(arena):
    free, total = torch.cuda.mem_get_info()
    with arenagen.use_arena(arena), pytest.raises(torch.OutOfMemoryError):
        torch.empty(2 * total, dtype=torch.uint8, device="cuda")
    with arenagen.use_arena(arena):
        assert within(arena, torch.ones(MIB, device="cuda"))
    torch.cuda.synchronize()  # nothing is pending


def test_a_close_returns_memory(arena):
    with arenagen.use_arena(arena):
        tensors = [torch.ones(128 * MIB, dtype=torch.uint8, device="cuda") for _ in range(8)]
    torch.cuda.synchronize()
    with pytest.raises(arenagen.InUseError, match="8 blocks in 8 segments"):
        arena.close()
    full, _ = torch.cuda.mem_get_info()
    tensors.clear()
    torch.cuda.empty_cache()
    assert arena.live_count == 8  # the pool keeps them for the next scope
    arena.close()
    stats = arena.stats()
    assert (stats.live, stats.released, stats.late_frees) == (0, stats.created, 0)
    freed, _ = torch.cuda.mem_get_info()
    assert freed - full >= 8 * 128 * MIB


def test_empty_cache_returns_memory_of_a_dropped_arena():
    arena = arenagen.Arena()
    lib, handle = arena._library, arena.handle

    def live():
        count = ctypes.c_uint64()
        assert lib.arenagen_arena_live(handle, ctypes.byref(count)) == 0
        return count.value

    with arenagen.use_arena(arena):
        kept = pattern(3, 64 * MIB).cuda()
        dropped = torch.ones(128 * MIB, dtype=torch.uint8, device="cuda")
    assert live() == 2
    del dropped, arena
    gc.collect()
    assert live() == 1 and same(kept, 3)
    del kept
    torch.cuda.empty_cache()
    assert live() == 0
    assert lib.arenagen_arena_release(handle) == 0


def test_frees_from_elsewhere(arena, other):
    with arenagen.use_arena(arena):
        tensors = [torch.ones(32 * MIB, dtype=torch.uint8, device="cuda") for _ in range(3)]
    with arenagen.use_arena(other):
        mine = pattern(4, 32 * MIB).cuda()
        tensors.pop()
    arenagen.set_active(other, 0)
    thread = threading.Thread(target=tensors.clear)
    thread.start()
    thread.join(HANGS)
    arena.close()
    arenagen.set_active(None, 0)
    stats = arena.stats()
    assert (stats.created, stats.released, stats.unknown_frees, stats.late_frees) == (3, 3, 0, 0)
    assert other.stats().released == 0 and same(mine, 4)


def test_nested_arenas(arena, other, caplog):
    with arenagen.use_arena(arena):
        first = pattern(5, 3 * MIB).cuda()
        with arenagen.use_arena(other):
            second = pattern(6, 3 * MIB).cuda()
            with arenagen.use_arena(arena):
                third = pattern(7, 3 * MIB).cuda()
            fourth = pattern(8, 3 * MIB).cuda()
        fifth = pattern(9, 3 * MIB).cuda()
    assert all(within(arena, tensor) for tensor in (first, third, fifth))
    assert all(within(other, tensor) for tensor in (second, fourth))
    assert all(same(tensor, 5 + n) for n, tensor in enumerate((first, second, third, fourth, fifth)))
    assert "did not come through" not in caplog.text


def test_threads_share_an_arena(arena):
    tensors, ready = {}, threading.Barrier(4)

    def load(number):
        with arenagen.use_arena(arena):
            ready.wait(HANGS)
            for n in range(25):
                tensors[number * 100 + n] = pattern(number * 100 + n, 3 * MIB).cuda()

    threads = [threading.Thread(target=load, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS)
    assert len(tensors) == 100
    assert all(within(arena, tensor) and same(tensor, seed) for seed, tensor in tensors.items())


def test_a_backward_pass_is_told(arena, caplog):
    torch.ones(1, device="cuda", requires_grad=True).sum().backward()  # its thread is there
    torch.cuda.empty_cache()
    with arenagen.use_arena(arena) as scope:
        weights = torch.ones(64 * MIB, device="cuda", requires_grad=True)
        (weights * weights).sum().backward()
    assert within(arena, weights)
    if within(arena, weights.grad):
        assert scope.outside_bytes == 0
    else:
        assert scope.outside_bytes >= 4 * 64 * MIB
        assert f"{scope.outside_bytes} of the {scope.reserved_bytes} bytes" in caplog.text


def test_statistics_while_loading(arena):
    """PyTorch's statistics take its lock with Python's: what allocates must never want Python's."""
    done = threading.Event()

    def watch():
        while not done.is_set():
            torch.cuda.memory_stats()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        with arenagen.use_arena(arena):
            tensors = [torch.ones(3 * MIB, dtype=torch.uint8, device="cuda") for _ in range(500)]
    finally:
        done.set()
        thread.join(HANGS)
    assert not thread.is_alive() and all(within(arena, tensor) for tensor in tensors)


def capture(graph, work):
    """Capture work as PyTorch wants it: after it ran once on another stream."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        work()
    torch.cuda.current_stream().wait_stream(stream)
    with torch.cuda.graph(graph):
        return work()


def test_a_graph_captured_in_the_scope_replays(arena):
    graph = torch.cuda.CUDAGraph()
    with arenagen.use_arena(arena):
        inputs = torch.ones(MIB, device="cuda")
        result = capture(graph, lambda: inputs * 2 + 1)
        for value in (3, 4):
            inputs.fill_(value)
            graph.replay()
            assert result.unique().tolist() == [2 * value + 1]
    inputs.fill_(5)
    graph.replay()
    assert within(arena, inputs) and result.unique().tolist() == [11]
    graph.reset()


def test_a_graph_with_its_memory_in_the_arena(arena):
    graph = torch.cuda.CUDAGraph()
    inputs = torch.ones(MIB, device="cuda")

    def work():
        with arenagen.use_arena(arena):
            return inputs * 2 + 1

    result = capture(graph, work)
    inputs.fill_(3)
    graph.replay()
    assert within(arena, result) and result.unique().tolist() == [7]
    del result
    with pytest.raises(arenagen.InUseError, match="CUDA graph"):
        arena.close()
    inputs.fill_(4)
    graph.replay()
    torch.cuda.synchronize()
    graph.reset()
    arena.close()
    stats = arena.stats()
    assert (stats.live, stats.late_frees) == (0, 0)


def test_expandable_segments_are_refused(arena):
    torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
    try:
        with pytest.raises(arenagen.NotSupportedError, match="expandable segments"), arenagen.use_arena(arena):
            pass
    finally:
        torch._C._accelerator_setAllocatorSettings("expandable_segments:False")
    with arenagen.use_arena(arena):
        assert within(arena, torch.ones(1, device="cuda"))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU, and this is about two")
def test_another_device_is_current(arena):
    torch.cuda.set_device(1)
    with pytest.raises(arenagen.InvalidArgumentError, match="device 0, and device 1"), arenagen.use_arena(arena):
        pass
    with arenagen.Arena(device=1) as second:
        with arenagen.use_arena(second):
            tensor = pattern(10, 3 * MIB).cuda()
        assert within(second, tensor) and tensor.device.index == 1 and same(tensor, 10)
        del tensor


@pytest.mark.parametrize("first", ["import torch, arenagen", "import arenagen, torch"])
@pytest.mark.parametrize(
    "end", ["", "del arena", "arena.close(force=True)", "arena.release(force=True)", "del tensor, cached; arena.close()"]
)
def test_exit_with_tensors(first, end):
    program = f"""
import sys
sys.path.insert(0, {PACKAGE!r})
{first}
arena = arenagen.Arena()
with arenagen.use_arena(arena):
    tensor = torch.ones(1 << 20, device="cuda")
    cached = torch.ones(1 << 28, device="cuda")
cached = None
torch.cuda.synchronize()
{end}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0 and not done.stderr, done
