"""The libraries and the package in one process with a real PyTorch. Nothing here needs a GPU."""

from __future__ import annotations

import ctypes
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
PACKAGE, FAKE, LIBRARIES = str(ROOT / "python"), str(ROOT / "tests" / "python" / "fake"), ROOT / "out" / "lib"
HANGS = 300

needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="it is about a machine without a GPU")


def run(program, *path, timeout=HANGS):
    """Run a program in a process of its own, which must end well and say nothing to stderr."""
    start = f"import sys; sys.path[:0] = {[PACKAGE, *path]!r}\n"
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", start + program],
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0 and not done.stderr, done
    return done.stdout


# The pair


@pytest.mark.parametrize("name", sorted(file.name for file in LIBRARIES.glob("libarenagen*.so")))
def test_pytorch_takes_each_library(name):
    out = run(f"""
import torch
allocator = torch.cuda.memory.CUDAPluggableAllocator({str(LIBRARIES / name)!r}, "mx_malloc", "mx_free")
assert isinstance(allocator.allocator(), torch._C._cuda_CUDAAllocator)
print("taken")
""")
    assert out == "taken\n"


def test_there_are_libraries():
    names = {file.name for file in LIBRARIES.glob("libarenagen*.so")}
    assert names >= {"libarenagen.so", "libarenagen_cuda.so", "libarenagen_hip.so", "libarenagen_stub.so"}


@pytest.mark.parametrize("name", ["libarenagen.so", "libarenagen_stub.so"])
def test_the_pair_has_the_types_of_pytorch(name):
    """The two functions, at the addresses that PyTorch took, called with the types by which it calls them."""
    run(f"""
import ctypes, os, torch
os.environ["ARENAGEN_LIBRARY"] = {str(LIBRARIES / name)!r}
taken = []
create = torch._C._cuda_customAllocator
torch._C._cuda_customAllocator = lambda *pair: (taken.append(pair), create(*pair))[1]
allocator = torch.cuda.memory.CUDAPluggableAllocator({str(LIBRARIES / name)!r}, "mx_malloc", "mx_free")
((alloc, free),) = taken
# void*(size_t, int, cudaStream_t) and void(void*, size_t, int, cudaStream_t)
alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)(alloc)
free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)(free)

import arenagen
assert alloc(1 << 20, 0, None) is None  # no arena is active
arena = arenagen.Arena(backend="stub", total=1 << 36)
arenagen.set_active(arena, 0)
size = 5 << 30  # more than fits into 32 bits
stream = (1 << 47) - 8
big, small = alloc(size, 0, stream), alloc(1, 0, stream)
base, length = arena.registered_range()
granule = arena.stats().granule
assert big == base and small == base + size and length == size + granule, (big, small, base, length)
ctypes.memset(small, 7, granule)
assert ctypes.string_at(small, granule) == bytes([7]) * granule
assert alloc(2**64 - 1, 0, None) is None and alloc(1 << 37, 0, None) is None
free(small, 1, 0, stream)
free(big, size, 0, stream)
stats = arena.stats()
assert (stats.live, stats.released, stats.unknown_frees) == (0, 2, 0), stats
""")


def test_a_tensor_shares_a_buffers_memory():
    run("""
import arenagen, torch
arena = arenagen.Arena(backend="stub", total=1 << 30)
address = arena.malloc(1 << 20)
buffer = arena.buffer(address, 1 << 20)
tensor = torch.from_dlpack(buffer)
assert tensor.data_ptr() == address and tensor.numel() == 1 << 20 and tensor.device.type == "cpu"
tensor.fill_(9)
assert bytes(memoryview(buffer)[:3]) == bytes([9] * 3)
del tensor, buffer
arena.close()
""")


# The package


@needs_no_gpu
@pytest.mark.parametrize("backend", ["stub"])
def test_use_arena_names_the_missing_driver(backend):
    out = run(f"""
import arenagen, torch
arena = arenagen.Arena(backend={backend!r}, total=1 << 30)
try:
    with arenagen.use_arena(arena):
        print("entered")
except arenagen.UnavailableError as error:
    print(error)
assert not arena._pools and not arenagen._torch._open
arena.close()
""")
    assert out.startswith("PyTorch cannot use a GPU: ") and "driver" in out


@pytest.mark.parametrize("first", ["import arenagen, torch", "import torch, arenagen"])
@pytest.mark.parametrize(
    "end", ["", "arena.close()", "arena.release()", "del arena", "arenagen.set_active(None, 0)", "sys.exit(0)"]
)
def test_import_and_exit_in_any_order(first, end):
    """An arena that is active and has an allocation, and PyTorch with its threads, at the end of the process."""
    out = run(f"""
{first}
arena = arenagen.Arena(backend="stub", total=1 << 30)
allocator = torch.cuda.memory.CUDAPluggableAllocator(arenagen.library_path(), "mx_malloc", "mx_free")
arenagen.set_active(arena, 0)
address = arena.malloc(1 << 20)
weights = torch.randn(256, 256, requires_grad=True)
(weights @ weights).sum().backward()
print(weights.grad.shape[0])
{end}
""")
    assert out == "256\n"


WORKERS = '''
import sys
sys.path.insert(0, {package!r})
import ctypes, os
import arenagen, torch
from torch.utils.data import DataLoader, Dataset

class Items(Dataset):
    def __init__(self, arena):
        self.handle, self.parent = arena.handle, os.getpid()

    def __len__(self):
        return 64

    def __getitem__(self, index):
        lib = ctypes.CDLL(arenagen.library_path())
        lib.mx_malloc.restype = ctypes.c_void_p
        assert os.getpid() != self.parent
        if {forked}:
            assert lib.mx_malloc(4096, 0, None) is None
            try:
                arenagen.Arena(backend="stub", total=1 << 30)
            except arenagen.ForkedError:
                return torch.full((1000,), index)
            raise AssertionError("an arena after fork")
        with arenagen.Arena(backend="stub", total=1 << 30) as arena:
            arenagen.set_active(arena, 0)
            address = lib.mx_malloc(ctypes.c_ssize_t(4096), 0, None)
            assert address == arena.registered_range()[0]
        return torch.full((1000,), index)

def main():
    arena = arenagen.Arena(backend="stub", total=1 << 30)
    arenagen.set_active(arena, 0)
    address = arena.malloc(1 << 20)
    for _ in range(2):
        loader = DataLoader(Items(arena), batch_size=4, num_workers=2, multiprocessing_context={context!r})
        seen = [int(row[0]) for batch in loader for row in batch]
        assert sorted(seen) == list(range(64)), seen
    arena.free(address)
    stats = arena.stats()
    assert (stats.live, stats.released, stats.refused) == (0, 1, 0), stats
    arena.close()

if __name__ == "__main__":
    main()
'''


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_data_loader_workers(tmp_path, context):
    file = tmp_path / "workers.py"
    file.write_text(WORKERS.format(package=PACKAGE, forked=context == "fork", context=context))
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", str(file)], capture_output=True, text=True, timeout=HANGS
    )
    assert done.returncode == 0 and not done.stderr, done


# The fake of tests/python

SAME = [
    "cuda.init",
    "cuda.current_device",
    "cuda.set_device",
    "cuda.device",
    "cuda.is_current_stream_capturing",
    "cuda.empty_cache",
    "cuda.get_allocator_backend",
    "cuda.memory_reserved",
    "cuda.memory_stats",
    "cuda.memory_snapshot",
    "cuda.use_mem_pool",
    "cuda.MemPool",
    "cuda.MemPool.use_count",
    "cuda.MemPool.snapshot",
    "cuda.memory.CUDAPluggableAllocator",
    "cuda.memory.CUDAPluggableAllocator.allocator",
    "cuda.memory.caching_allocator_alloc",
    "cuda.memory.caching_allocator_delete",
    "cuda.memory._snapshot",
    "cuda.CUDAGraph._retain_pool",
    "cuda.CUDAGraph.reset",
]

PARAMETERS = f"""
import inspect, json, operator, torch
def parameters(name):
    return [(p.name, p.kind.name, repr(p.default)) for p in inspect.signature(operator.attrgetter(name)(torch)).parameters.values()]
print(json.dumps({{name: parameters(name) for name in {SAME!r}}}))
"""


def test_the_fake_has_the_signatures_of_the_real_one():
    real, fake = json.loads(run(PARAMETERS)), json.loads(run(PARAMETERS, FAKE))
    assert fake == real


def test_what_use_arena_reads_is_there():
    settings = torch.cuda.memory._snapshot()["allocator_settings"]
    assert settings["expandable_segments"] is False
    torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
    assert torch.cuda.memory._snapshot()["allocator_settings"]["expandable_segments"] is True
    torch._C._accelerator_setAllocatorSettings("expandable_segments:False")
    assert torch.cuda.get_allocator_backend() == "native"
    assert isinstance(torch.cuda.MemPool.id, property)
    assert hasattr(torch.version, "hip") and torch.version.cuda
    assert issubclass(torch.cuda.OutOfMemoryError, RuntimeError)
    assert callable(torch.cuda.CUDAGraph.get_currently_capturing_graph)
    # What it reads of the statistics, of a snapshot's segments and of their blocks is named where they are described.
    assert "reserved_bytes.{all,large_pool,small_pool}.{current,peak,allocated,freed}" in torch.cuda.memory_stats.__doc__
    described = inspect.getdoc(torch.cuda.memory._snapshot)
    for field in ("address: int", "blocks: List[Block]", "size: int", '"active_allocated"', '"inactive"'):
        assert field in described


def test_the_fakes_pair_is_called_as_in_pytorchs_header():
    header = Path(torch.__file__).parent / "include" / "torch" / "csrc" / "cuda" / "CUDAPluggableAllocator.h"
    text = " ".join(header.read_text().split())
    assert "std::function<void*(size_t, int, cudaStream_t)> alloc_fn" in text
    assert "std::function<void(void*, size_t, int, cudaStream_t)> free_fn" in text
    assert ctypes.sizeof(ctypes.c_size_t) == ctypes.sizeof(ctypes.c_ssize_t)
