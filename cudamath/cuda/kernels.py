"""User `@cuda.jit` kernels on cudamath arrays, by the launch path of the package's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.array import ndarray, over
from ..core.asarray import asarray, same_device
from ..core.bounded_cache import store
from ..core.devices import CPU, device_of
from ..core.dispatch.arguments import Input, Scalar
from ..core.dispatch.call_record import obstruct, open_records
from ..core.dispatch.plan import Plan
from ..core.dispatch.plan_codegen import load
from ..core.dispatch.steps import Launch, triple
from ..core.elements import settle_all
from ..core.layout import Layout
from ..runtime import device as devices
from ..runtime import kernel_launch, stream
from ..runtime.errors import DeviceError, check
from ..runtime.memory import Borrowed
from ..runtime.state import runtime
from .devices import index_of
from .memory import host_address

__all__ = ["CompiledKernel", "compile_kernel", "launch", "occupancy", "suggest_launch"]

Size = int | Sequence[int]

_SCALARS: dict[type, np.dtype] = {
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    bool: np.dtype(np.int64),
}
_MOST_LAUNCHES = 4096


def _kernel(name: str, kernel: Any) -> Any:
    index_of(None, name)
    from ..kernels.generated.user_kernels import user_kernel

    if not callable(getattr(kernel, "py_func", kernel)):
        raise TypeError(f"{name}: wants a @cuda.jit kernel, got {type(kernel).__name__}")
    return user_kernel(kernel)


def _array(name: str, x: Any) -> ndarray:
    """An array argument: ours, another library's, or pinned and managed NumPy arrays, none of them
    copied."""
    if not isinstance(x, ndarray) or x._layout.device == CPU:
        index_of(None, name)  # without a GPU that is what is wrong
    if isinstance(x, np.ndarray):
        address = host_address(x)
        if address is None:
            raise TypeError(
                f"{name}: a NumPy array ({x.dtype}, shape {x.shape}) is not on the GPU; pass "
                "cm.asarray(x), or "
                "make it with cm.cuda.pinned or cm.cuda.managed"
            )
        current = stream.current_stream()
        layout = Layout.of(x.shape, x.strides, x.dtype, current.device, address % 16 == 0)
        return over(layout, address, Borrowed(x, current))
    out = asarray(x, name=name)
    if out._layout.device == CPU:
        raise DeviceError(
            f"{name}: an array argument is on the CPU ({out.dtype}, shape {out.shape}); use "
            "x.to('cuda')"
        )
    return out


def _arguments(name: str, args: tuple) -> tuple[list[ndarray], list[Any], list[Any]]:
    """(arrays, scalars, for each argument its Layout or scalar dtype)."""
    arrays: list[ndarray] = []
    scalars: list[Any] = []
    kinds: list[Any] = []
    for position, x in enumerate(args):
        dtype = _SCALARS.get(type(x))
        if dtype is None and isinstance(x, np.generic):
            dtype = x.dtype if x.dtype.kind in "iu" or x.dtype in (np.float32, np.float64) else None
            if dtype is None:
                raise TypeError(
                    f"{name}: argument {position} is a scalar of {x.dtype}; wants an integer, "
                    "float32 or "
                    "float64, or an array"
                )
        if dtype is None:
            if not isinstance(x, ndarray) or x._layout.device == CPU:
                if not (
                    isinstance(x, (np.ndarray, ndarray))
                    or hasattr(x, "__dlpack__")
                    or hasattr(x, "__cuda_array_interface__")
                ):
                    raise TypeError(
                        f"{name}: argument {position} is a {type(x).__name__}; wants arrays on "
                        "the GPU, "
                        "integers and floats"
                    )
                x = _array(name, x)
            arrays.append(x)
            kinds.append(x._layout)
        else:
            scalars.append(x)
            kinds.append(dtype)
    return arrays, scalars, kinds


def launch(kernel: Any, grid: Size, block: Size, *args: Any, shared: int = 0) -> None:
    """Launch your own `@cuda.jit` kernel on the current stream.

    It is compiled once, cached on disk, and launched in a few us.

    Parameters
    ----------
    kernel : function decorated with numba.cuda.jit
        Kernel decorated with numba.cuda.jit.
    grid, block : int or up to three ints
        Blocks, and threads per block.
    *args : arrays on one GPU, or numbers
        Arrays may be cudamath's, another library's (torch, CuPy; taken without a copy), or NumPy
        arrays made by `pinned` or `managed`. The kernel sees them as Numba shows arrays; bfloat16
        as uint16, 0-d arrays as shape (1,). Python ints are int64, floats float64; NumPy scalars
        keep their type (`np.float32(0.5)`).
    shared : int, default 0
        Bytes of dynamic shared memory, also beyond 48 KiB where the device allows it.

    Raises
    ------
    DeviceError
        There is no GPU, or arrays are on different devices.
    TypeError
        An argument is neither an array on the GPU nor a number.
    CudaError
        The launch was refused (a block too large, ...). What goes wrong inside the kernel is raised
        later, at the next synchronisation.

    Notes
    -----
    Nothing is recorded for gradients.

    Examples
    --------
    >>> import cudamath as cm
    >>> def scale(x, factor):
    ...     i = cuda.grid(1)
    ...     if i < x.size:
    ...         x[i] *= factor
    >>> if cm.cuda.is_available():
    ...     from numba import cuda
    ...     x = cm.ones(1000, dtype="float32")
    ...     cm.cuda.launch(cuda.jit(scale), 4, 256, x, 2.0)
    """
    arrays, scalars, kinds = _arguments("launch", args)
    key = (
        kernel,
        grid if isinstance(grid, int) else tuple(grid),
        block if isinstance(block, int) else tuple(block),
        shared,
        *kinds,
    )
    run = runtime.user_launches.get(key)
    if run is None:
        user = _kernel("launch", kernel)
        for what, sizes in (("grid", grid), ("block", block)):
            if not all(
                isinstance(n, (int, np.integer)) and n > 0
                for n in ([sizes] if isinstance(sizes, int) else sizes)
            ):
                raise ValueError(f"launch: {what} must be positive integers, got {sizes}")
        step = _step(user, grid, block, kinds, shared)
        device = same_device("launch", arrays) if arrays else stream.current_device()
        run = Plan([], [step]).bind(
            user.__name__, [x._layout for x in arrays], len(scalars), device
        )
        store(runtime.user_launches, key, run, _MOST_LAUNCHES)
    if open_records:
        obstruct("launched a kernel of the user")
    settle_all()  # the kernel may write into its arguments
    run(*arrays, *scalars)


def _step(kernel: Any, grid: Size, block: Size, kinds: list[Any], shared: int) -> Launch:
    refs: list[Any] = []
    arrays = scalars = 0
    for kind in kinds:
        if isinstance(kind, Layout):
            refs.append(Input(arrays))
            arrays += 1
        else:
            refs.append(Scalar(scalars, kind))
            scalars += 1
    return Launch(kernel, grid, block, refs, shared)


class CompiledKernel:
    """A kernel compiled for given arguments, and its use of a multiprocessor.

    Attributes: `registers` of a thread; `local`, the bytes of a thread that are spilled to or kept
    in local memory; `shared`, the bytes of static shared memory of a block; `max_threads` of a
    block.

    Parameters
    ----------
    function : kernel_launch.Function
        Loaded function.
    kernel : object
        Compiled kernel.
    shared : int
        Bytes of dynamic shared memory.
    """

    def __init__(self, function: kernel_launch.Function, kernel: Any, shared: int):
        self._function, self._kernel, self._shared = function, kernel, shared
        self.name = function.name
        self.registers = function.attribute("NUM_REGS")
        self.local = function.attribute("LOCAL_SIZE_BYTES")
        self.shared = function.attribute("SHARED_SIZE_BYTES")
        self.max_threads = function.attribute("MAX_THREADS_PER_BLOCK")

    def __call__(self, grid: Size, block: Size, *args: Any) -> None:
        """Launch it (see `launch`)."""
        launch(self._kernel, grid, block, *args, shared=self._shared)

    def blocks_per_multiprocessor(self, block: int) -> int:
        """Return the number of blocks that one multiprocessor holds at a time.

        Parameters
        ----------
        block : int
            Number of threads of a block.

        Returns
        -------
        int
            Number of blocks.
        """
        return self._function.occupancy(block, self._shared)

    def occupancy(self, block: int) -> float:
        """Return the share of a multiprocessor's threads that blocks of this size fill.

        Parameters
        ----------
        block : int
            Number of threads of a block.

        Returns
        -------
        float
            Share from 0 to 1.
        """
        return self.blocks_per_multiprocessor(block) * block / _threads(self._function.device)

    def __repr__(self) -> str:
        return (
            f"<CompiledKernel {self.name}: {self.registers} registers, {self.local} bytes local, "
            f"{self.shared} bytes "
            f"shared, at most {self.max_threads} threads a block>"
        )


def _threads(index: int) -> int:
    cu = devices.driver()
    kind = cu.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR
    return int(check(cu.cuDeviceGetAttribute(kind, check(cu.cuDeviceGet(index)))))


def compile_kernel(kernel: Any, *args: Any, shared: int = 0) -> CompiledKernel:
    """Compile a `@cuda.jit` kernel for arguments like these, without launching it.

    Parameters
    ----------
    kernel : see `launch`
        Kernel decorated with numba.cuda.jit.
    *args : see `launch`
        Positional arguments of the function.
    shared : see `launch`, default 0
        Bytes of dynamic shared memory.

    Returns
    -------
    CompiledKernel
        Its resources and occupancy; calling it, `compiled(grid, block, *args)`, launches it.

    Raises
    ------
    DeviceError, TypeError : see `launch`

    Examples
    --------
    >>> import cudamath as cm
    >>> def fill(x):
    ...     x[cuda.grid(1)] = 1
    >>> if cm.cuda.is_available():
    ...     from numba import cuda
    ...     print(cm.cuda.compile_kernel(cuda.jit(fill), cm.zeros(256)))
    """
    return _compiled("compile_kernel", kernel, args, shared)


def _compiled(name: str, kernel: Any, args: tuple, shared: int) -> CompiledKernel:
    user = _kernel(name, kernel)
    arrays, _, kinds = _arguments(name, args)
    device = same_device(name, arrays) if arrays else stream.current_device()
    with device_of(device):
        step = _step(user, 1, 1, kinds, shared)
        return CompiledKernel(load(step, kinds, device), kernel, shared)


def occupancy(kernel: Any, block: Size, *args: Any, shared: int = 0) -> float:
    """Return the share of a multiprocessor's threads that blocks of this size fill.

    Parameters
    ----------
    kernel : object
        Function decorated with numba.cuda.jit.
    block : int or up to three ints
        Threads per block.
    *args : arrays on one GPU, or numbers
        Examples of the arguments, as for `launch`.
    shared : int, default 0
        Bytes of dynamic shared memory.

    Returns
    -------
    float
        Share from 0 to 1.

    Raises
    ------
    DeviceError
        There is no GPU, or arrays are on different devices.
    TypeError
        An argument is neither an array on the GPU nor a number.
    CudaError
        The launch was refused (a block too large, ...). What goes wrong inside the kernel is raised
        later, at the next synchronisation.

    Examples
    --------
    >>> import cudamath as cm
    >>> def fill(x):
    ...     x[cuda.grid(1)] = 1
    >>> if cm.cuda.is_available():
    ...     from numba import cuda
    ...     assert 0 < cm.cuda.occupancy(cuda.jit(fill), 256, cm.zeros(256)) <= 1
    """
    threads = int(np.prod(triple(block)))
    return _compiled("occupancy", kernel, args, shared).occupancy(threads)


def suggest_launch(kernel: Any, count: int, *args: Any, shared: int = 0) -> tuple[int, int]:
    """Return the grid and the block size that fill the device best.

    The kernel is one-dimensional. Among equally good sizes the one nearest to 256 is taken.

    Parameters
    ----------
    kernel : object
        Function decorated with numba.cuda.jit.
    count : int
        Number of threads.
    *args : arrays on one GPU, or numbers
        Examples of the arguments, as for `launch`.
    shared : int, default 0
        Bytes of dynamic shared memory.

    Returns
    -------
    tuple of int
        The pair (grid, block).

    Raises
    ------
    ValueError
        `count` is below 1.
    DeviceError
        There is no GPU, or arrays are on different devices.
    TypeError
        An argument is neither an array on the GPU nor a number.
    CudaError
        The launch was refused (a block too large, ...). What goes wrong inside the kernel is raised
        later, at the next synchronisation.

    Examples
    --------
    >>> import cudamath as cm
    >>> def fill(x):
    ...     x[cuda.grid(1)] = 1
    >>> if cm.cuda.is_available():
    ...     from numba import cuda
    ...     grid, block = cm.cuda.suggest_launch(cuda.jit(fill), 10_000, cm.zeros(10_000))
    ...     assert grid * block >= 10_000
    """
    compiled = _compiled("suggest_launch", kernel, args, shared)
    if count < 1:
        raise ValueError(f"suggest_launch: count must be at least 1, got {count}")
    sizes = range(32, compiled.max_threads + 1, 32)
    block = max(sizes, key=lambda n: (compiled.occupancy(n), -abs(n - 256)))
    return -(-count // block), block
