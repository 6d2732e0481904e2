"""Plans run on NumPy arrays in Numba's CUDA simulator: how kernels are tested and debugged without
a GPU."""

from __future__ import annotations

import contextlib
import ctypes
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
from .lazy_numba import SIMULATOR, cuda
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
    barrier, so that a missing barrier shows whichever side is early."""
    import greenlet
    from numba.cuda.simulator import kernel, kernelapi

    class Thread(greenlet.greenlet):
        syncthreads_count = kernel.BlockThread.syncthreads_count
        syncthreads_and = kernel.BlockThread.syncthreads_and
        syncthreads_or = kernel.BlockThread.syncthreads_or

        def __init__(self, block: Any, run: Any, block_index: Any, place: tuple[int, int, int]):
            super().__init__(run)
            self._manager, self.blockIdx, self.threadIdx = (
                block,
                block_index,
                kernelapi.Dim3(*place),
            )
            x, y, _ = block._block_dim
            self.thread_id = place[0] + x * (place[1] + y * place[2])

        def syncthreads(self) -> None:
            self.parent.switch(None)

        def meet(self, group: Any, count: int) -> None:
            """Wait until `count` threads of the block are here with the same `group` (a warp's
            number)."""
            self.parent.switch((group, count))

    class Block(kernel.BlockManager):
        def run(self, grid_point: Any, *args: Any) -> None:
            block_index = kernelapi.Dim3(*grid_point)
            ready = [
                Thread(self, self._f, block_index, place) for place in np.ndindex(*self._block_dim)
            ]
            waiting: dict[Any, list[Thread]] = {}
            for turn, thread in enumerate(ready, 1):  # which grows while it is gone through
                try:
                    group = (
                        thread.switch() if thread else thread.switch(*args)
                    )  # false: it has not begun
                except Exception as error:
                    raise type(error)(
                        f"tid={[*thread.threadIdx]} ctaid={[*block_index]}: {error}"
                    ) from error
                if not thread.dead:
                    waiting.setdefault(group, []).append(thread)
                    if group and len(waiting[group]) == group[1]:
                        ready += next_order(waiting.pop(group))
                if turn == len(ready) and waiting:
                    if [*waiting] != [None]:
                        raise RuntimeError(
                            "simulate: threads of a block wait for others that do not come: "
                            f"{waiting}"
                        )
                    ready += next_order(waiting.pop(None))

    dynamic = kernelapi.FakeCUDAShared.array

    def shared_array(self: Any, shape: Any, dtype: Any, alignment: Any = None) -> np.ndarray:
        """A shared array of a block: one for each call in the source, where Numba's has one for
        each line."""
        if shape == 0 or alignment is not None:
            return dynamic(self, shape, dtype, alignment)
        caller = sys._getframe(1)
        key = caller.f_code, caller.f_lasti, shape, dtype
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
    numbas_call, swapped = kernel.FakeCUDAKernel.__call__, {}

    def call(self: Any, *args: Any) -> Any:
        """A launch by Numba's own means; a device function as it is, once its module has the
        launch's `cuda`: Numba exchanges that in every call."""
        if kernel._kernel_context is None:
            with contextlib.ExitStack() as launch:
                swapped.clear()
                swapped[None] = launch
                return numbas_call(self, *args)
        names = self.fn.__globals__
        if id(names) not in swapped:
            swapped[id(names)] = swapped[None].enter_context(
                kernelapi.swapped_cuda_module(self.fn, kernel._kernel_context)
            )
        return self.fn(*args)

    kernelapi.threading = SimpleNamespace(current_thread=greenlet.getcurrent)
    kernel.BlockManager, kernel.FakeCUDAKernel.__call__ = Block, call


if SIMULATOR and importlib.util.find_spec(
    "greenlet"
):  # without it, Numba's threads: the same answers, four times the time
    _threads_as_greenlets()


def _unwritten(shape: Any, dtype: Any) -> np.ndarray:
    """An array of a block or a thread, of one of Numba's types or a dtype."""
    from numba.core import types
    from numba.np import numpy_support

    dtype = np.dtype(numpy_support.as_dtype(dtype) if isinstance(dtype, types.Type) else dtype)
    memory = poison(int(np.prod(shape)) * dtype.itemsize)
    return np.ndarray(shape, dtype, memory)


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
