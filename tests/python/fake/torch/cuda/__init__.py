"""torch.cuda, on as many devices as DEVICES says."""

import threading

from .. import version

DEVICES = 4

# What init says is wrong.
problem = None

_local = threading.local()


class OutOfMemoryError(RuntimeError):
    pass


def init():
    if version.cuda is None and version.hip is None:
        raise AssertionError("Torch not compiled with CUDA enabled")
    if problem:
        raise RuntimeError(problem)


def current_device():
    init()
    return getattr(_local, "device", 0)


def set_device(device):
    _local.device = device


class device:
    """The current device, for the length of a with statement."""

    def __init__(self, device):
        self.idx = device

    def __enter__(self):
        self.before = current_device()
        set_device(self.idx)

    def __exit__(self, *_):
        set_device(self.before)


def is_current_stream_capturing():
    return getattr(_local, "graph", None) is not None


from . import memory
from .graphs import CUDAGraph, graph
from .memory import MemPool, empty_cache, get_allocator_backend, memory_reserved, memory_snapshot, memory_stats, use_mem_pool
