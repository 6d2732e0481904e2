"""Plans run on NumPy arrays in Numba's CUDA simulator: how kernels are tested and debugged without a GPU."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.layout import Layout
from ..core.plan import Addresses, ArrayArg, Constant, Flag, Launch, Plan, Scalar, Ticket
from .build import storage
from .lazy import SIMULATOR, cuda


def layout_of(x: np.ndarray, device: int = 0) -> Layout:
    """The layout that this NumPy array would have on a device."""
    return Layout.of(x.shape, x.strides, x.dtype, device)


def simulate(plan: Plan, *inputs: np.ndarray, scalars: Sequence[Any] = ()) -> Any:
    """Run a plan's kernels on NumPy arrays in Numba's CUDA simulator; returns what the op would (arrays, or one).

    An input that the plan writes into is changed. RuntimeError where the simulator is not switched on;
    IndexError when a kernel raised the error flag.
    """
    if not SIMULATOR:
        raise RuntimeError("simulate: start Python with NUMBA_ENABLE_CUDASIM=1")
    def new(layout: Layout) -> np.ndarray:
        poison = np.full(max(layout.nbytes, 1), 0xA5, np.uint8)  # what is not written shows
        return np.ndarray(layout.shape, layout.dtype, poison, strides=layout.strides)

    arrays = {"x": list(inputs), "y": [new(x) for x in plan.outputs], "t": [new(x) for x in plan.temps]}
    layouts = [layout_of(x) for x in inputs]
    flag = np.zeros(1, np.int64)
    for step in plan.steps:
        if not isinstance(step, Launch):
            raise RuntimeError(f"simulate: {step} is a library call; plan a kernel version")
        args: list[Any] = []
        for arg in step.args:
            if isinstance(arg, ArrayArg):
                base = arrays[arg.kind][arg.index]
                seen = arg.resolve(layout_of(base)) if arg.kind != "x" else plan.layout(arg, layouts)
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


def _wait_for_threads() -> None:
    """Numba's simulator asks a block's threads over and over whether all of them are at a barrier, and holds the interpreter
    while it asks. From now on it sleeps until the last one has arrived."""
    from numba.cuda.simulator import kernel

    class Thread(kernel.BlockThread):
        def run(self) -> None:
            super().run()
            self.ended = True
            self._manager.arrived(self.exception is not None)

        def syncthreads(self) -> None:
            self._manager.arrived()
            super().syncthreads()

    class Block(kernel.BlockManager):
        def run(self, grid_point: Any, *args: Any) -> None:
            threads = [Thread(lambda: self._f(*args), self, grid_point, point, self._debug)
                       for point in np.ndindex(*self._block_dim)]
            self.missing, self.guard, self.all_there = len(threads), threading.Lock(), threading.Semaphore(0)
            for thread in threads:
                thread.ended = False
                thread.start()
            while threads:
                self.all_there.acquire()
                failed = [thread.exception for thread in threads if thread.exception]
                if failed:
                    for thread in threads:
                        thread.abort = True
                        thread.syncthreads_event.set()
                    raise failed[0][0].with_traceback(failed[0][1])
                threads = [thread for thread in threads if not thread.ended]
                self.missing = len(threads)
                for thread in threads:
                    thread.syncthreads_event.set()

        def arrived(self, failed: bool = False) -> None:
            """A thread is at a barrier, or has ended."""
            with self.guard:
                self.missing -= 1
                if failed or not self.missing:
                    self.all_there.release()

    kernel.BlockThread, kernel.BlockManager = Thread, Block


if SIMULATOR:
    _wait_for_threads()


def _seen(base: np.ndarray, layout: Layout, offset: int, kind: np.dtype) -> np.ndarray:
    """`base`'s memory in another layout, as the storage dtype kernels see."""
    shape, strides = (layout.shape, layout.strides) if layout.ndim else ((1,), (layout.itemsize,))
    if base.size == 0 or 0 in shape:
        return np.empty(shape, kind)
    holder = type("Holder", (), {"__array_interface__": {
        "data": (base.ctypes.data + offset, False), "shape": shape, "strides": strides,
        "typestr": kind.str, "version": 3}})()
    holder.base = base
    seen = np.asarray(holder)
    if not seen.flags.c_contiguous:  # the simulator copies plain arrays to its "device", and refuses those with gaps
        from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

        return FakeCUDAArray(seen)
    return seen
