"""Plans run on NumPy arrays in Numba's CUDA simulator: how kernels are tested and debugged without
a GPU."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import importlib.util
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Addresses, ArrayArg, Constant, Flag, Scalar, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from .lazy_numba import NUMBERS, SIMULATOR, cuda
from .storage_types import storage


def layout_of(x: np.ndarray, device: int = 0) -> Layout:
    """The layout that this NumPy array would have on a device."""
    return Layout.of(x.shape, x.strides, x.dtype, device)


def simulate(plan: Plan, *inputs: np.ndarray, scalars: Sequence[Any] = ()) -> Any:
    """Run a plan's kernels on NumPy arrays in Numba's CUDA simulator; returns what the op would
    (arrays, or one).

    An input that the plan writes into is changed. RuntimeError where the simulator is not switched
    on; IndexError when a kernel raised the error flag.
    """
    if not SIMULATOR:
        raise RuntimeError("simulate: start Python with NUMBA_ENABLE_CUDASIM=1")

    def new(layout: Layout) -> np.ndarray:
        return np.ndarray(layout.shape, layout.dtype, poison(layout.nbytes), strides=layout.strides)

    arrays = {
        "x": list(inputs),
        "y": [new(x) for x in plan.outputs],
        "t": [new(x) for x in plan.temps],
    }
    layouts = [layout_of(x) for x in inputs]
    flag = np.zeros(1, np.int64)
    for step in plan.steps:
        if not isinstance(step, Launch):
            raise RuntimeError(f"simulate: {step} is a library call; plan a kernel version")
        args: list[Any] = []
        for arg in step.args:
            if isinstance(arg, ArrayArg):
                base = arrays[arg.kind][arg.index]
                seen = (
                    arg.resolve(layout_of(base)) if arg.kind != "x" else plan.layout(arg, layouts)
                )
                args.append(_seen(base, seen, arg.offset, storage(seen.dtype)))
            elif isinstance(arg, Scalar):
                args.append(np.dtype(arg.dtype).type(scalars[arg.index]))
            elif isinstance(arg, Constant):
                args.append(arg.array.view(storage(arg.array.dtype)))
            elif isinstance(arg, Addresses):
                raise RuntimeError("simulate: tables of addresses have no meaning in the simulator")
            elif isinstance(arg, (Flag, Ticket)):
                args.append(flag if isinstance(arg, Flag) else 1)
            else:
                args.append(arg)
        step.kernel[step.grid, step.block, 0, step.shared](*args)
    cuda.synchronize()
    if flag[0]:
        raise IndexError("an index is out of range")
    return tuple(arrays["y"]) if plan.several else arrays["y"][0]


def poison(nbytes: int) -> np.ndarray:
    """Memory in which nothing has been written: NaN or a huge number in each floating-point dtype,
    so that it shows in whatever is computed from it."""
    return np.full(nbytes // 2 + 1, 0xFFA5, "<u2").view(np.uint8)[: max(nbytes, 2)]


def poison_block(address: int, nbytes: int) -> None:
    """Write `poison` into memory of the host."""
    source = poison(nbytes)
    ctypes.memmove(address, source.ctypes.data, nbytes)


#: The order in which the threads that have met go on. A missing barrier shows whichever side is
#: early; tests also try others.
next_order = reversed


def _threads_as_greenlets() -> None:
    """Numba's simulator gives each thread of a block one of the system's, and most of its time goes
    into starting them and into handing the interpreter from one to the next. From now on they are
    greenlets: each runs until it has to wait, then the next one does. The order turns round at each
    barrier, so that a missing barrier shows whichever side is early.

    What kernels do most often takes as little as it may: elements of arrays, the indices of the
    thread, conversions of numbers, local arrays, calls of device functions.
    """
    import greenlet
    from numba.cuda.simulator import kernel, kernelapi
    from numba.cuda.simulator.cudadrv.devicearray import FakeWithinKernelCUDAArray

    class Votes:
        """How many of the threads that meet at a barrier say yes, and no."""

        yes = no = 0

    class Thread(greenlet.greenlet):
        """Runs threads of its block that have not begun, one after the other, until one has to
        wait: that one it stays, and another begins the next."""

        threadIdx = thread_id = None

        def __init__(self, block: Any):
            super().__init__()
            self._manager, self.blockIdx = block, block.index

        def run(self) -> None:
            block = self._manager
            while block.not_begun:
                self.threadIdx, self.thread_id = block.not_begun.pop()
                block.cuda.threadIdx = self.threadIdx
                block._f(*block.args)

        def wait(self, group: tuple[Any, int] | None) -> None:
            """Let others go on until all threads of a group are here, so many of one name, or
            (None) all of the block that are left."""
            block = self._manager
            there = block.waiting.setdefault(group, [])
            there.append(self)
            ready = block.ready
            if group and len(there) == group[1]:
                ready.extend(next_order(block.waiting.pop(group)))
            if block.not_begun or not ready:
                self.parent.switch()
            elif (thread := ready.popleft()) is not self:
                block.cuda.threadIdx = thread.threadIdx
                thread.switch()

        def syncthreads(self) -> None:
            self.wait(None)

        def vote(self, value: Any) -> Votes:
            votes = self._manager.votes
            if value:
                votes.yes += 1
            else:
                votes.no += 1
            self.wait(None)
            return votes

        def syncthreads_count(self, value: Any) -> int:
            return self.vote(value).yes

        def syncthreads_and(self, value: Any) -> int:
            return int(not self.vote(value).no)

        def syncthreads_or(self, value: Any) -> int:
            return int(self.vote(value).yes > 0)

        def meet(self, group: Any, count: int) -> None:
            """Wait until `count` threads of the block are here with the same `group` (a warp's
            number)."""
            self.wait((group, count))

    @functools.cache
    def threads_of(block_dim: tuple[int, int, int]) -> list[tuple[Any, int]]:
        """The index and the number of each thread; the first one last."""
        x, y, _ = block_dim
        return [
            (kernelapi.Dim3(*place), place[0] + x * (place[1] + y * place[2]))
            for place in np.ndindex(*block_dim)
        ][::-1]

    class Block(kernel.BlockManager):
        def __init__(self, f: Any, _grid_dim: Any, block_dim: Any, _debug: bool):
            self._f, self._block_dim, self.cuda = f, block_dim, kernel._kernel_context
            self.not_begun, self.votes = threads_of(tuple(block_dim)).copy(), Votes()
            self.size = len(self.not_begun)
            self.ready: collections.deque[Thread] = collections.deque()
            self.waiting: dict[Any, list[Thread]] = {}

        def run(self, grid_point: Any, *args: Any) -> None:
            self.index = self.cuda.blockIdx = kernelapi.Dim3(*grid_point)
            self.args = [
                x._item._ary if isinstance(x, FakeWithinKernelCUDAArray) else x for x in args
            ]
            while self.not_begun or self.ready or self.waiting:
                if self.not_begun:
                    thread = Thread(self)
                elif self.ready:
                    thread = self.ready.popleft()
                elif [*self.waiting] == [None]:
                    self.ready.extend(next_order(self.waiting.pop(None)))
                    self.votes = Votes()
                    continue
                else:
                    raise RuntimeError(
                        "simulate: threads of a block wait for others that do not come: "
                        f"{self.waiting}"
                    )
                self.cuda.threadIdx = thread.threadIdx
                try:
                    thread.switch()
                except Exception as error:
                    raise type(error)(
                        f"tid={[*self.cuda.threadIdx]} ctaid={[*self.index]}: {error}"
                    ) from error

    class Module(kernelapi.FakeCUDAModule):
        """What kernels see as `cuda`: attributes where Numba's has properties that look for the
        thread, which `Block` sets before a thread goes on."""

        threadIdx = blockIdx = local = shared = atomic = None

        def __init__(self, grid_dim: Any, block_dim: Any, dynshared_size: int):
            super().__init__(grid_dim, block_dim, dynshared_size)
            self.local, self.shared, self.atomic = self._local, self._shared, self._atomic

        def syncthreads(self) -> None:
            greenlet.getcurrent().wait(None)

        def grid(self, n: int) -> Any:
            return (
                self.blockIdx.x * self.blockDim.x + self.threadIdx.x if n == 1 else super().grid(n)
            )

    dynamic = kernelapi.FakeCUDAShared.array

    def shared_array(self: Any, shape: Any, dtype: Any, alignment: Any = None) -> np.ndarray:
        """A shared array of a block: one for each call in the source, where Numba's has one for
        each line."""
        if shape == 0 or alignment is not None:
            return dynamic(self, shape, dtype, alignment)
        caller = sys._getframe(1)
        key = id(caller.f_code), caller.f_lasti, shape, id(dtype)  # which the kernel holds
        array = self._allocations.get(key)
        if array is None:
            array = self._allocations[key] = _unwritten(shape, dtype)
        return array

    def local_array(self: Any, shape: Any, dtype: Any, alignment: Any = None) -> np.ndarray:
        if alignment is not None:
            raise RuntimeError("simulate: it knows no alignment of local arrays")
        return _unwritten(shape, dtype)

    kernelapi.FakeCUDAShared.array = shared_array
    kernelapi.FakeCUDALocal.array = local_array
    numbas_call, met, launch = kernel.FakeCUDAKernel.__call__, set(), contextlib.ExitStack()

    def call(self: Any, *args: Any) -> Any:
        """A launch by Numba's own means; a device function as it is, once its module has the
        launch's `cuda`: Numba exchanges that in every call."""
        if self not in met:
            if kernel._kernel_context is None:
                try:
                    with launch:
                        return numbas_call(self, *args)
                finally:
                    met.clear()
            module = kernelapi.swapped_cuda_module(self.fn, kernel._kernel_context)
            launch.enter_context(module)
            met.add(self)
        return self.fn(*args)

    kernelapi.threading = SimpleNamespace(current_thread=greenlet.getcurrent)
    kernel.BlockManager, kernel.FakeCUDAModule = Block, Module
    kernel.FakeCUDAKernel.__call__ = call


def _numbers_by_numpy() -> None:
    """A number type of Numba's, called, first imports something and then asks what it is called
    with. NumPy's scalar type says itself if it is no number."""
    from numba.core.types import scalars

    def convert(self: Any, *args: Any) -> Any:
        try:
            return numbers[self.name](*args)
        except (KeyError, TypeError):
            return declared(self, *args)  # a signature, or Numba's error

    numbers = {name: getattr(np, name) for name in NUMBERS}
    declared = scalars.Number.__call__
    for kind in (scalars.Integer, scalars.Float, scalars.Complex):
        kind.__call__ = convert


if SIMULATOR:
    _numbers_by_numpy()
if SIMULATOR and importlib.util.find_spec(
    "greenlet"
):  # without it, Numba's threads: the same answers, four times the time
    _threads_as_greenlets()


@functools.cache
def _template(shape: Any, T: Any) -> np.ndarray:
    from numba.core import types
    from numba.np import numpy_support

    dtype = np.dtype(numpy_support.as_dtype(T) if isinstance(T, types.Type) else T)
    memory = poison(int(np.prod(shape)) * dtype.itemsize)
    return np.ndarray(shape, dtype, memory)


def _unwritten(shape: Any, dtype: Any) -> np.ndarray:
    """An array of a block or a thread, of one of Numba's types or a dtype."""
    return _template(shape, dtype).copy()


def _seen(base: np.ndarray, layout: Layout, offset: int, kind: np.dtype) -> np.ndarray:
    """`base`'s memory in another layout, as the storage dtype kernels see."""
    shape, strides = (layout.shape, layout.strides) if layout.ndim else ((1,), (layout.itemsize,))
    if base.size == 0 or 0 in shape:
        return np.empty(shape, kind)
    holder = type(
        "Holder",
        (),
        {
            "__array_interface__": {
                "data": (base.ctypes.data + offset, False),
                "shape": shape,
                "strides": strides,
                "typestr": kind.str,
                "version": 3,
            }
        },
    )()
    holder.base = base
    # the simulator would copy a plain array to its "device" and back: two arguments that are one
    # array would be two
    from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

    return FakeCUDAArray(np.asarray(holder))
