"""As much of PyTorch as use_arena and its tests use, without a GPU: tests/torch compares the signatures with the real one.

Memory comes from the pluggable allocator's two functions, through the same kind of pools, segments and blocks.
"""

from . import _C, cuda, version
from .cuda import OutOfMemoryError

__version__ = "2.15.0+fake"

uint8 = "uint8"


class Tensor:
    """Bytes on a device, given back when it goes."""

    def __init__(self, size):
        self.nbytes = size
        self._address = cuda.memory.caching_allocator_alloc(size)

    def data_ptr(self):
        return self._address

    def __del__(self):
        address, self._address = getattr(self, "_address", 0), 0
        if address:
            cuda.memory.caching_allocator_delete(address)


def empty(size, *, dtype=uint8, device="cuda"):
    return Tensor(size)
