"""torch.cuda.memory: a caching allocator with pools, which takes and gives back whole segments.

Where the real one ends the process it appends to terminated.
"""

import contextlib
import ctypes
import itertools
import threading

from . import OutOfMemoryError, _local, current_device

terminated = []
settings = {"expandable_segments": False}
backend = "native"

_ALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
_SMALL, _MEDIUM, _STEP = 1 << 20, 10 << 20, 2 << 20

_numbers = itertools.count(1)
_plain = itertools.count(1 << 50, 1 << 40)


def next_number():
    return (0, next(_numbers))


class _Allocator:
    """The pair, by its addresses, as the real one keeps it."""

    def __init__(self, alloc, free):
        self.alloc, self.free = _ALLOC(alloc), _FREE(free)


class CUDAPluggableAllocator:
    def __init__(self, path_to_so_file, alloc_fn_name, free_fn_name):
        library = ctypes.CDLL(path_to_so_file)
        alloc = ctypes.cast(getattr(library, alloc_fn_name), ctypes.c_void_p).value
        free = ctypes.cast(getattr(library, free_fn_name), ctypes.c_void_p).value
        self._allocator = _Allocator(alloc, free)

    def allocator(self):
        return self._allocator


class _Block:
    def __init__(self, address, size, used):
        self.address, self.size, self.used = address, size, used


class _Segment:
    def __init__(self, address, size):
        self.address, self.size = address, size
        self.blocks = [_Block(address, size, False)]


class _Pool:
    def __init__(self, allocator):
        self.allocator, self.use_count, self.segments = allocator, 1, []


class _Device:
    """One device's allocator. Its lock is held around both of the pair's functions."""

    def __init__(self, ordinal):
        self.ordinal, self.lock = ordinal, threading.RLock()
        self.pools, self.freeable, self.underway = {(0, 0): _Pool(None)}, [], []
        self.reserved = self.ever = 0

    def incref(self, number, allocator=None):
        with self.lock:
            if number in self.pools:
                assert self.pools[number].use_count > 0
                self.pools[number].use_count += 1
            else:
                self.pools[number] = _Pool(allocator)

    def begin(self, number):
        with self.lock:
            self.incref(number)
            if any(number == other for other, _ in self.underway):
                raise RuntimeError("beginAllocateToPool: already recording to mempool_id")
            self.underway.append((number, threading.get_ident()))

    def end(self, number):
        with self.lock:
            self.underway = [entry for entry in self.underway if entry[0] != number]

    def release(self, number):
        with self.lock:
            pool = self.pools[number]
            pool.use_count -= 1
            if pool.use_count == 0:
                self.freeable.append(number)

    def malloc(self, size):
        size = -(-size // 512) * 512
        with self.lock:
            here = threading.get_ident()
            number = next((number for number, thread in reversed(self.underway) if thread == here), (0, 0))
            pool = self.pools[number]
            fits = (
                (segment, block)
                for segment in pool.segments
                for block in segment.blocks
                if not block.used and block.size >= size and (segment.size > _STEP) == (size > _SMALL)
            )
            segment, block = next(fits, (None, None))
            if segment is None:
                segment = self._segment(pool, size)
                block = segment.blocks[0]
            if block.size > size:
                rest = _Block(block.address + size, block.size - size, False)
                segment.blocks.insert(segment.blocks.index(block) + 1, rest)
                block.size = size
            block.used = True
            return block.address

    def _segment(self, pool, size):
        size = _STEP if size <= _SMALL else 20 << 20 if size < _MEDIUM else -(-size // _STEP) * _STEP
        if pool.allocator:
            address = pool.allocator.alloc(size, current_device(), None)
            if not address:
                raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} bytes")
        else:
            address = next(_plain)
        self.reserved += size
        self.ever += size
        segment = _Segment(address, size)
        pool.segments.append(segment)
        return segment

    def free(self, address):
        with self.lock:
            for pool in self.pools.values():
                for segment in pool.segments:
                    for block in segment.blocks:
                        if block.used and block.address == address:
                            block.used = False
                            if not any(other.used for other in segment.blocks):
                                segment.blocks = [_Block(segment.address, segment.size, False)]
                            return True
        return False

    def empty_cache(self, number=(0, 0)):
        with self.lock:
            if number != (0, 0) and self.underway:
                terminated.append("a pool was dropped while one is entered or a graph captured")
            wanted = list(self.freeable) if number == (0, 0) else [one for one in self.freeable if one == number]
            if number == (0, 0) and not self.underway:
                wanted.append(number)
            for one in wanted:
                pool = self.pools[one]
                for segment in [each for each in pool.segments if not any(block.used for block in each.blocks)]:
                    pool.segments.remove(segment)
                    self.reserved -= segment.size
                    if pool.allocator:
                        pool.allocator.free(segment.address, segment.size, self.ordinal, None)
                if one in self.freeable and not pool.segments:
                    self.freeable.remove(one)
                    del self.pools[one]


_devices = {}
_devices_lock = threading.Lock()


def device_of(ordinal):
    with _devices_lock:
        return _devices.setdefault(ordinal, _Device(ordinal))


class MemPool:
    def __init__(self, allocator=None, use_on_oom=False, no_split=False):
        self._device, self._number = device_of(current_device()), next_number()
        self._device.incref(self._number, allocator)

    @property
    def id(self):
        return self._number

    def use_count(self):
        return self._device.pools[self._number].use_count

    def snapshot(self, include_traces=True):
        return memory_snapshot(self.id, include_traces=include_traces)

    def __del__(self):
        if self.use_count() != 1:
            terminated.append("a pool was dropped that a scope or a graph has")
        self._device.release(self._number)
        self._device.empty_cache(self._number)


@contextlib.contextmanager
def use_mem_pool(pool, device=None):
    of = device_of(current_device() if device is None else device)
    of.begin(pool.id)
    try:
        graph = getattr(_local, "graph", None)
        if graph is not None:
            graph._retain_pool(pool)
        yield
    finally:
        of.end(pool.id)
        of.release(pool.id)


def caching_allocator_alloc(size, device=None, stream=None):
    return device_of(current_device() if device is None else device).malloc(size)


def caching_allocator_delete(mem_ptr):
    assert any(of.free(mem_ptr) for of in list(_devices.values())), f"{mem_ptr:#x} was not allocated here"


def empty_cache():
    for of in list(_devices.values()):
        of.empty_cache()


def memory_stats(device=None):
    of = device_of(current_device() if device is None else device)
    return {"reserved_bytes.all.current": of.reserved, "reserved_bytes.all.allocated": of.ever}


def memory_reserved(device=None):
    return memory_stats(device)["reserved_bytes.all.current"]


def memory_snapshot(mempool_id=None, include_traces=True):
    return [
        {
            "device": of.ordinal,
            "address": segment.address,
            "total_size": segment.size,
            "segment_pool_id": number,
            "blocks": [
                {
                    "address": block.address,
                    "size": block.size,
                    "state": "active_allocated" if block.used else "inactive",
                }
                for block in segment.blocks
            ],
        }
        for of in list(_devices.values())
        for number, pool in of.pools.items()
        if mempool_id is None or number == mempool_id
        for segment in pool.segments
    ]


def _snapshot(device=None, augment_with_fx_traces=False):
    return {"segments": memory_snapshot(), "device_traces": [], "allocator_settings": dict(settings)}


def get_allocator_backend():
    return backend
