"""Checks for kernels and plans that need no GPU, and comparisons that say what differs.

`compile_plan` compiles a plan's kernels for any architecture; `simulate` runs them in Numba's CUDA
simulator (start Python with NUMBA_ENABLE_CUDASIM=1). Both are how this package tests its kernels;
they serve your own as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .core.array import ndarray
from .core.dispatch.plan import Plan
from .core.dispatch.steps import Launch
from .core.fp_errors import silence
from .core.layout import Layout
from .core.public_names import public_dir
from .core.typing import ArrayLike
from .runtime.device import assume

__all__ = ["Resources", "assert_close", "compile_plan", "layout_of", "simulate"]

__dir__ = public_dir(__name__)


def __getattr__(name: str) -> Any:
    """What `numpy.testing` has, by its names: it gets the values of our arrays on the host."""
    import numpy.testing

    if name not in numpy.testing.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(numpy.testing, name)


class Resources(NamedTuple):
    """Resources of a compiled kernel.

    Registers per thread, bytes spilled, bytes of static shared memory.

    Parameters
    ----------
    kernel : str
        Name of the kernel.
    registers : int
        Registers per thread.
    spills : int
        Bytes spilled.
    shared : int
        Bytes of static shared memory.
    """

    kernel: str
    registers: int
    spills: int
    shared: int

    @classmethod
    def of(cls, kernel: Any, log: str) -> Resources:
        """Read the resources from the assembler's report of a kernel.

        Parameters
        ----------
        kernel : object
            The kernel.
        log : str
            Report of the assembler.

        Returns
        -------
        Resources
            The resources.
        """
        return cls(
            kernel.__name__,
            *(
                _number(pattern, log)
                for pattern in (
                    r"Used (\d+) registers",
                    r"(\d+) bytes spill stores",
                    r"(\d+) bytes smem",
                )
            ),
        )


def layout_of(x: np.ndarray, device: int = 0) -> Layout:
    """Return the layout that a NumPy array would have on a device.

    Parameters
    ----------
    x : numpy.ndarray
        The array.
    device : int, default 0
        Ordinal of the device.

    Returns
    -------
    Layout
        The layout.

    Examples
    --------
    >>> import numpy as np, cudamath.testing as t
    >>> t.layout_of(np.zeros((2, 3), np.float32))
    Layout((2, 3), float32, cuda:0)
    """
    return Layout.of(x.shape, x.strides, x.dtype, device)


def compile_plan(
    plan: Plan, inputs: Sequence[Layout], capability: tuple[int, int]
) -> list[Resources]:
    """Compile every kernel of a plan for a compute capability, without a GPU.

    Their registers and spills.

    Parameters
    ----------
    plan : Plan
        Plan of an operation.
    inputs : sequence of Layout
        Layouts of the inputs.
    capability : tuple of int
        Compute capability (major, minor).

    Returns
    -------
    list of Resources
        Registers and spills of each kernel.
    """
    from .kernels.compiler import compile as compiler
    from .kernels.compiler import storage_types, target

    found = []
    with assume(capability):
        for step in plan.steps:
            if isinstance(step, Launch):
                arguments = storage_types.arguments_type(plan.signature(step, inputs))
                _, log = compiler.compile_now(step.kernel, arguments, target.target(capability))
                found.append(Resources.of(step.kernel, log))
    return found


def _number(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    return int(match.group(1)) if match else 0


def simulate(plan: Plan, *inputs: np.ndarray, scalars: Sequence[Any] = ()) -> Any:
    """Run a plan's kernels on NumPy arrays in Numba's CUDA simulator.

    An input that the plan writes into is changed.

    Parameters
    ----------
    plan : Plan
        Plan of an operation.
    *inputs : numpy.ndarray
        The inputs.
    scalars : sequence of object, default ()
        Scalar arguments of the plan.

    Returns
    -------
    ndarray or tuple of ndarray
        Results of the operation.

    Raises
    ------
    RuntimeError
        The simulator is not switched on.
    ModuleNotFoundError
        Greenlet (of the extra "test") is missing.
    IndexError
        A kernel raised the error flag.
    """
    from .kernels.compiler import simulator

    return simulator.simulate(plan, *inputs, scalars=scalars)


def assert_close(
    actual: ArrayLike, expected: ArrayLike, *, rtol: float, atol: float = 0.0, what: str = ""
) -> None:
    """Fail with the worst element unless |actual - expected| <= atol + rtol |expected| everywhere.

    NaN equals NaN, and only infinity is close to infinity.

    Parameters
    ----------
    actual : array_like
        Computed array.
    expected : array_like
        Expected array.
    rtol : float
        Relative tolerance.
    atol : float, default 0.0
        Absolute tolerance.
    what : str, default ""
        Name of the result in the message.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.testing.assert_close(cm.array([1.0, 2.0]), [1.0, 2.0], rtol=0)
    """
    a, e = (
        x._alias().to_numpy() if isinstance(x, ndarray) else np.asarray(x)
        for x in (actual, expected)
    )
    if a.shape != e.shape:
        raise AssertionError(f"{what}: shape {a.shape}, expected {e.shape}")
    kind = np.complex128 if "c" in (a.dtype.kind, e.dtype.kind) else np.float64
    a, e = a.astype(kind), e.astype(kind)
    with silence():
        wrong = ~(
            (a == e)
            | (np.isnan(a) & np.isnan(e))
            | np.isfinite(e) & (np.abs(a - e) <= atol + rtol * np.abs(e))
        )
        error = np.where(wrong, np.abs(a - e) / np.maximum(np.abs(e), atol or 1e-300), 0)
    if wrong.any():
        worst = np.unravel_index(np.argmax(np.nan_to_num(error, nan=np.inf)), a.shape)
        place = tuple(map(int, worst))
        raise AssertionError(
            f"{what}: {wrong.sum()} of {a.size} elements differ; worst at {place}: {a[worst]} "
            f"expected {e[worst]} (relative {error[worst]:.3g}, allowed {rtol:.3g})"
        )
