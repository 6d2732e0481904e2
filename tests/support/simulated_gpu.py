"""A whole GPU in Numba's simulator: the fake driver's memory, on which public calls launch their
kernels, one after the other.

What planners choose for compute capability 7.5, with the lanes of a warp and wide loads as Python
functions. The simulator has neither libraries nor what some kernels import only outside of it (an
error).
"""

from __future__ import annotations

import contextlib
import functools

import numpy as np
from fake_driver import FakeDriver, installed

import cudamath as cm
from cudamath.kernels.compiler.simulator import poison_block
from cudamath.runtime import memory

_ATTRIBUTES = {
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": 7,
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": 5,
    "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR": 1024,
    "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT": 4,
}


class SimulatedDriver(FakeDriver):
    """Launches run at once."""

    def cuDeviceGetAttribute(self, kind, index):
        return _ATTRIBUTES.get(kind, 100)

    def cuLaunchKernel(self, handle, gx, gy, gz, bx, by, bz, shared, on, pointer, extra):
        kernel, kinds, index = self.kernels[handle]

        def run(*arrays):
            kernel[(gx, gy, gz), (bx, by, bz), 0, shared](*map(_there_already, arrays))

        self.kernels[handle] = run, kinds, index
        try:
            return super().cuLaunchKernel(
                handle, gx, gy, gz, bx, by, bz, shared, on, pointer, extra
            )
        finally:
            self.kernels[handle] = kernel, kinds, index
            self.finish(self.stream(on))


def _there_already(x):
    """An array that the simulator does not copy to its own "device"."""
    from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

    return FakeCUDAArray(x) if isinstance(x, np.ndarray) else x


#: id -> (array, the address of its first element, its elements one after the other)
_arrays: dict = {}


def _vector(array, index, count):
    """So many elements in memory from one on, whatever the shape: what a wide load takes."""
    if id(array) not in _arrays:
        if len(_arrays) > 100:
            _arrays.clear()
        _arrays[id(array)] = array, array.ctypes.data, _elements(array)
    _, address, elements = _arrays[id(array)]
    nbytes = count * array.itemsize
    assert (address + int(index) * array.itemsize) % min(16, nbytes) == 0, (
        "a wide load wants an aligned address"
    )
    found = elements[index : index + count]
    assert len(found) == count, "a wide load beyond the array"
    return found


def _elements(array):
    """The memory that an array spans, as elements."""
    if array.flags.c_contiguous:
        return array.reshape(-1)
    count = (
        1
        + sum((n - 1) * step for n, step in zip(array.shape, array.strides, strict=True))
        // array.itemsize
    )
    return np.lib.stride_tricks.as_strided(array, (count,), (array.itemsize,))


def store_vector(array, index, values):
    _vector(array, index, len(values))[:] = values


class Warps:
    """What the lanes of a warp tell each other."""

    def __init__(self):
        #: (block, warp) -> what its lanes have told that have come so far
        self.told = {}

    def tell(self, value):
        """({lane: its value} of all that there are; this lane)."""
        import greenlet

        thread = greenlet.getcurrent()
        block, (warp, lane) = thread._manager, divmod(thread.thread_id, 32)
        count = min(32, block.size - warp * 32)
        told = self.told.setdefault((block, warp), {})
        told[lane] = value
        if len(told) == count:  # who tells next, tells others
            del self.told[block, warp]
        thread.meet(warp + 1, count)
        return told, lane

    def other(self, value, lane_of):
        told, lane = self.tell(value)
        return told.get(lane_of(lane), value)

    def equal(self, value):
        """A bit for each lane that tells the same."""
        told, _ = self.tell(value)
        return sum(1 << i for i, other in told.items() if other == value)

    def functions(self):
        """By the names that Numba gives them, as methods of its module of the simulator."""
        return {
            "shfl_sync": lambda _, mask, value, lane: self.other(value, lambda own: int(lane) % 32),
            "shfl_xor_sync": lambda _, mask, value, far: self.other(
                value, lambda own: own ^ int(far)
            ),
            "shfl_up_sync": lambda _, mask, value, far: self.other(
                value, lambda own: own - int(far)
            ),
            "any_sync": lambda _, mask, value: any(self.tell(value)[0].values()),
            "ballot_sync": lambda _, mask, value: np.int64(
                sum(1 << i for i, v in self.tell(value)[0].items() if v)
            ),
            "match_any_sync": lambda _, mask, value: self.equal(int(value)),
            "syncwarp": lambda _, mask=0: self.tell(0) and None,
        }


@contextlib.contextmanager
def simulated_gpu(monkeypatch):
    """The default device is a GPU in the simulator."""
    import fake_driver

    monkeypatch.setattr(fake_driver, "FakeDriver", SimulatedDriver)
    give_vectors_and_warps(monkeypatch)
    give_blocks_of_two_warps(monkeypatch)
    with installed(monkeypatch) as driver, cm.device("cuda"), np.errstate(all="ignore"):
        with poisoned_blocks(driver):
            yield


def give_blocks_of_two_warps(monkeypatch):
    """Kernels that many calls launch for a few elements and in which all threads of a block meet
    again and again: 64 of them instead of 256."""
    from cudamath.kernels.index import stream_compaction
    from cudamath.kernels.sort import binary_search

    monkeypatch.setattr(binary_search, "THREADS", 64)
    monkeypatch.setattr(binary_search, "HELD", 128)  # keys, which they read first
    monkeypatch.setattr(stream_compaction, "THREADS", 64)
    monkeypatch.setattr(stream_compaction, "WARPS", 2)
    monkeypatch.setattr(stream_compaction, "TILE", 64 * stream_compaction.ITEMS)


@contextlib.contextmanager
def poisoned_blocks(driver):
    """Blocks that the pool gives out again hold nothing of what they held: a kernel that reads what
    nothing has written shows."""
    allocate = memory.allocate

    def allocate_poisoned(size, stream):
        address = allocate(size, stream)
        if not stream.capturing:
            with driver.lock:
                for queue in list(driver.streams.values()):
                    driver.finish(queue)  # copies out of what the block was before
            poison_block(address, size)
        return address

    memory.replace_allocate(allocate_poisoned)
    try:
        yield
    finally:
        memory.replace_allocate(allocate)


def _bfloats(word):
    """Two bfloat16 in a word, widened."""
    halves = np.array([word << 16 & 0xFFFF0000, word & 0xFFFF0000], np.uint32)
    return tuple(halves.view(np.float32))


def give_row_accesses(monkeypatch):
    """The same, and what `kernels/lib/vector_io.py` reads rows by, that begin between the borders
    of wide accesses."""
    from cudamath.kernels.lib import vector_io
    from cudamath.kernels.ptx import vector_access

    give_vectors_and_warps(monkeypatch)
    for name in ("load_vector", "store_vector"):
        monkeypatch.setattr(vector_io, name, getattr(vector_access, name), raising=False)

    def load_words(array, index, count):
        return tuple(_vector(array, index, 2 * count).view(np.uint32))

    monkeypatch.setattr(vector_io, "load_words", load_words, raising=False)
    monkeypatch.setattr(vector_io, "bfloats", _bfloats, raising=False)


def give_vectors_and_warps(monkeypatch):
    """What the simulator lacks: wide accesses, and the lanes of a warp."""
    from numba import cuda
    from numba.cuda.simulator.kernelapi import FakeCUDAModule

    from cudamath.kernels.compiler import simulator  # noqa: F401  # whose import makes threads greenlets, as `Warps` knows them
    from cudamath.kernels.ptx import vector_access

    monkeypatch.setattr(
        vector_access,
        "load_vector",
        lambda array, index, count: tuple(_vector(array, index, count)),
        raising=False,
    )
    monkeypatch.setattr(vector_access, "store_vector", store_vector, raising=False)
    for name, function in Warps().functions().items():
        monkeypatch.setattr(FakeCUDAModule, name, function, raising=False)
        # as factories hand it to device functions, before there is a kernel
        monkeypatch.setattr(cuda, name, functools.partial(function, None), raising=False)
