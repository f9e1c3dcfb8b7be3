"""torch.cuda.CUDAGraph: it keeps pools, and captures nothing."""

from . import _local, current_device, memory


class CUDAGraph:
    def __init__(self):
        self._kept = []

    def _retain_pool(self, pool):
        of = memory.device_of(current_device())
        of.incref(pool.id)
        self._kept.append((of, pool.id))

    def reset(self):
        while self._kept:
            of, number = self._kept.pop()
            of.release(number)

    def __del__(self):
        self.reset()

    @staticmethod
    def get_currently_capturing_graph():
        return getattr(_local, "graph", None)


class graph:
    """What is allocated inside comes from the graph's own pool."""

    def __init__(self, cuda_graph):
        self.cuda_graph = cuda_graph

    def __enter__(self):
        self._device = memory.device_of(current_device())
        self._number = memory.next_number()
        self._device.begin(self._number)
        self.cuda_graph._kept.append((self._device, self._number))
        _local.graph = self.cuda_graph

    def __exit__(self, *_):
        _local.graph = None
        self._device.end(self._number)
