"""The names of CudaMath as functions, so that code written for it reads across: `import
cudamath.math as cm_math`.

Each is another name's function in the rest of the package, which its docstring tells.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from . import cuda
from .core.array import ndarray
from .core.asarray import asarray
from .core.dispatch.checks import require
from .core.public_names import public_dir
from .core.scalar import scalar_results
from .core.typing import ArrayLike, DeviceLike, DTypeLike
from .ml.activation import relu as _relu
from .ml.activation import sigmoid as _sigmoid
from .ops import creation, elementwise, reduce, shape
from .ops.linalg import products
from .timing import interleave, nothing

__all__ = [
    "benchmark_operations",
    "create_tensor",
    "free_tensor",
    "from_numpy",
    "matrix_multiply",
    "matrix_transpose",
    "reduce_sum",
    "relu",
    "sigmoid",
    "to_numpy",
    "vector_add",
]

__dir__ = public_dir(__name__)


def create_tensor(
    shape: int | Sequence[int],
    dtype: DTypeLike = "float32",
    *,
    fill: float = 0,
    device: DeviceLike | None = None,
) -> ndarray:
    """A new array in which every element is `fill` (`cm.full`).

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the array.
    dtype : dtype_like, default "float32"
        Dtype of the array.
    fill : float, default 0
        Value of every element.
    device : device_like, optional
        Device of the result. None is the default device.

    Returns
    -------
    ndarray
        Array of that shape and dtype.

    Raises
    ------
    ValueError
        A length is negative.
    TypeError
        There is no such dtype.
    DeviceError
        There is no such device.

    Notes
    -----
    The function is not differentiable.

    Examples
    --------
    >>> from cudamath import math
    >>> math.create_tensor((2, 3), fill=1).tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    return creation.full(shape, fill, dtype=dtype, device=device)


def from_numpy(x: ArrayLike, *, device: DeviceLike | None = None) -> ndarray:
    """Make an ndarray of the same shape and dtype from a NumPy array (`cm.asarray`).

    Parameters
    ----------
    x : array_like
        Array or array-like. Its memory is shared on the CPU and copied to a GPU.
    device : device_like, optional
        Device of the result. None is the default device.

    Returns
    -------
    ndarray
        The array.

    Raises
    ------
    TypeError
        `x` is not an array.
    DeviceError
        There is no such device.

    Examples
    --------
    >>> import numpy as np
    >>> from cudamath import math
    >>> math.from_numpy(np.arange(3)).shape
    (3,)
    """
    return asarray(x, device=device)


def to_numpy(x: ArrayLike) -> np.ndarray:
    """An array's values as a NumPy array (`ndarray.to_numpy`); waits for the device.

    Parameters
    ----------
    x : array_like
        Array or array-like of any dtype.

    Returns
    -------
    numpy.ndarray
        Array of the same shape and dtype.

    Raises
    ------
    TypeError
        `x` is not an array.

    Examples
    --------
    >>> from cudamath import math
    >>> math.to_numpy([1, 2, 3]).sum().item()
    6
    """
    return require("to_numpy", x).to_numpy()


@scalar_results
def vector_add(a: ArrayLike, b: ArrayLike) -> ndarray:
    """Add two arrays, a + b (`cm.add`, or the operator).

    The shapes broadcast.

    Parameters
    ----------
    a, b : array_like
        Numeric arrays whose shapes broadcast.

    Returns
    -------
    ndarray
        Array of the broadcast shape and the promoted dtype.

    Raises
    ------
    ValueError
        The shapes do not broadcast.
    TypeError
        An operand is not numeric.

    Notes
    -----
    The gradient is g for each operand, summed over the axes along which it was broadcast.

    Examples
    --------
    >>> from cudamath import math
    >>> math.vector_add([1, 2], [3, 4]).tolist()
    [4, 6]
    """
    return elementwise.add(a, b)


@scalar_results
def matrix_multiply(a: ArrayLike, b: ArrayLike) -> ndarray:
    """The matrix product (`cm.matmul`, or the operator @).

    Parameters
    ----------
    a : array_like of shape (..., n, k)
        Numeric matrices.
    b : array_like of shape (..., k, m)
        Numeric matrices.

    Returns
    -------
    ndarray
        Array of shape (..., n, m) and of the promoted dtype.

    Raises
    ------
    ValueError
        The shapes do not fit each other.
    TypeError
        An operand is not numeric.

    Notes
    -----
    Gradient: g @ b.mT and a.mT @ g.

    Examples
    --------
    >>> from cudamath import math
    >>> math.matrix_multiply([[1, 2]], [[3], [4]]).tolist()
    [[11]]
    """
    return products.matmul(a, b)


def matrix_transpose(x: ArrayLike) -> ndarray:
    """The last two axes exchanged: a view (`cm.matrix_transpose`, or `x.mT`).

    Parameters
    ----------
    x : array_like of shape (..., n, m)
        Matrices of any dtype.

    Returns
    -------
    ndarray
        View of shape (..., m, n) on the same memory.

    Raises
    ------
    ValueError
        The array has fewer than two axes.

    Notes
    -----
    The gradient is the transpose of g.

    Examples
    --------
    >>> from cudamath import math
    >>> math.matrix_transpose([[1, 2], [3, 4]]).tolist()
    [[1, 3], [2, 4]]
    """
    return shape.matrix_transpose(x)


@scalar_results
def relu(x: ArrayLike) -> ndarray:
    """Rectified linear unit: max(x, 0) (`cm.ml.relu`).

    Parameters
    ----------
    x : array_like
        Floating-point array.

    Returns
    -------
    ndarray
        Array of the same shape and dtype. NaN stays NaN.

    Raises
    ------
    TypeError
        The array is not floating-point.

    Notes
    -----
    Gradient: g where x > 0, else 0.

    Examples
    --------
    >>> from cudamath import math
    >>> math.relu([-1.0, 2.0]).tolist()
    [0.0, 2.0]
    """
    return _relu(x)


@scalar_results
def sigmoid(x: ArrayLike) -> ndarray:
    """Logistic function: 1 / (1 + exp(-x)) (`cm.ml.sigmoid`).

    Parameters
    ----------
    x : array_like
        Floating-point array.

    Returns
    -------
    ndarray
        Array of the same shape and dtype.

    Raises
    ------
    TypeError
        The array is not floating-point.

    Notes
    -----
    Gradient: g y (1 - y).

    Examples
    --------
    >>> from cudamath import math
    >>> math.sigmoid([0.0]).tolist()
    [0.5]
    """
    return _sigmoid(x)


@scalar_results
def reduce_sum(
    x: ArrayLike, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> ndarray:
    """The sum over axes (`cm.sum`).

    Parameters
    ----------
    x : array_like
        Numeric or bool array.
    axis : int or tuple of int, optional
        Axis or axes that are summed. None sums all of them.
    keepdims : bool, default False
        Whether the summed axes stay in the result with size 1.

    Returns
    -------
    ndarray
        The sums. Integers are summed in 64 bits, and 16-bit floats in float32.

    Raises
    ------
    ValueError
        There is no such axis.

    Notes
    -----
    The gradient is g, broadcast to the shape of `x`.

    Examples
    --------
    >>> from cudamath import math
    >>> math.reduce_sum([[1, 2], [3, 4]], axis=0).tolist()
    [4, 6]
    """
    return reduce.sum(x, axis=axis, keepdims=keepdims)


def free_tensor(x: ndarray) -> None:
    """Give an array's memory back to the pool now; afterwards `x` is empty, of shape (0,).

    Rarely needed: `del x`, or leaving the function, does the same. Views of `x` keep the memory
    alive.

    Parameters
    ----------
    x : ndarray
        Array whose memory is released.

    Raises
    ------
    TypeError
        `x` is not an ndarray.
    ValueError
        A gradient of `x` is being recorded.

    Examples
    --------
    >>> import cudamath as cm
    >>> from cudamath import math
    >>> x = cm.ones(1000)
    >>> math.free_tensor(x)
    >>> x.shape
    (0,)
    """
    if not isinstance(x, ndarray):
        raise TypeError(f"free_tensor: wants an ndarray, got {type(x).__name__}")
    if x._node is not None:
        raise ValueError(
            f"free_tensor: a gradient of this array of shape {x.shape} is being recorded"
        )
    empty = creation.empty((0,), dtype=x.dtype, device=x.device)
    x._layout, x._data, x._owner = empty._layout, empty._data, empty._owner


def benchmark_operations(
    size: int = 512, *, rounds: int = 7, device: DeviceLike | None = None
) -> dict[str, float]:
    """Return the median seconds of a call of the operations above, taken in turns.

    `python -m cudamath bench` measures more.

    Parameters
    ----------
    size : int, default 512
        Side of the square float32 matrices, at least 1.
    rounds : int, default 7
        Number of rounds, at least 1.
    device : device_like, optional
        Device of the arrays. None is the default device.

    Returns
    -------
    dict
        Seconds for each name, until the device has finished.

    Raises
    ------
    ValueError
        `size` or `rounds` is less than 1.
    DeviceError
        There is no such device.

    Examples
    --------
    >>> from cudamath import math
    >>> sorted(math.benchmark_operations(16, rounds=1))
    ['matrix_multiply', 'reduce_sum', 'relu', 'sigmoid', 'vector_add']
    """
    if size < 1:
        raise ValueError(f"benchmark_operations: size must be at least 1, got {size}")
    rng = np.random.default_rng(0)
    a, b = (
        asarray(rng.standard_normal((size, size), dtype=np.float32), device=device)
        for _ in range(2)
    )
    spreads = interleave(
        {
            "vector_add": lambda: vector_add(a, b),
            "matrix_multiply": lambda: matrix_multiply(a, b),
            "relu": lambda: relu(a),
            "sigmoid": lambda: sigmoid(a),
            "reduce_sum": lambda: reduce_sum(a),
        },
        rounds=rounds,
        synchronize=cuda.synchronize if a.device.type == "cuda" else nothing,
    )
    return {name: spread.median for name, spread in spreads.items()}
