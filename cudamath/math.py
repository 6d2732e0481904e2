"""The names of CudaMath as functions, so that code written for it reads across: `import
cudamath.math as cm_math`.

Each is another name's function in the rest of the package, which its docstring tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import cuda
from .core.array import ndarray
from .core.asarray import asarray
from .core.dispatch.checks import require
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


def create_tensor(
    shape: int | Sequence[int], dtype: Any = "float32", *, fill: float = 0, device: Any = None
) -> ndarray:
    """A new array in which every element is `fill` (`cm.full`).

    Args:
        shape: its shape.
        dtype: its dtype.
        fill: the value of every element.
        device: of the result; None: the default device.

    Returns:
        ndarray of that shape and dtype.

    Raises:
        ValueError: a negative length. TypeError: no such dtype. DeviceError: no such device.

    Not differentiable.

    >>> from cudamath import math
    >>> math.create_tensor((2, 3), fill=1).tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    return creation.full(shape, fill, dtype=dtype, device=device)


def from_numpy(x: Any, *, device: Any = None) -> ndarray:
    """A NumPy array (or what becomes one) as an ndarray of the same shape and dtype (`cm.asarray`).

    Args:
        x: array-like. On the CPU its memory is shared, on a GPU it is copied.
        device: of the result; None: the default device.

    Returns:
        ndarray.

    Raises:
        TypeError: `x` is not an array. DeviceError: no such device.

    >>> import numpy as np
    >>> from cudamath import math
    >>> math.from_numpy(np.arange(3)).shape
    (3,)
    """
    return asarray(x, device=device)


def to_numpy(x: Any) -> np.ndarray:
    """An array's values as a NumPy array (`ndarray.to_numpy`); waits for the device.

    Args:
        x: ndarray or array-like of any dtype.

    Returns:
        numpy.ndarray of the same shape and dtype.

    Raises:
        TypeError: `x` is not an array.

    >>> from cudamath import math
    >>> math.to_numpy([1, 2, 3]).sum().item()
    6
    """
    return require("to_numpy", x).to_numpy()


def vector_add(a: Any, b: Any) -> ndarray:
    """a + b, element by element with broadcasting (`cm.add`, or the operator).

    Args:
        a, b: arrays, numeric, of shapes that broadcast.

    Returns:
        ndarray of the broadcast shape and the promoted dtype.

    Raises:
        ValueError: the shapes do not broadcast. TypeError: not numeric.

    Gradient: g for each, summed over axes along which it was broadcast.

    >>> from cudamath import math
    >>> math.vector_add([1, 2], [3, 4]).tolist()
    [4, 6]
    """
    return elementwise.add(a, b)


def matrix_multiply(a: Any, b: Any) -> ndarray:
    """The matrix product (`cm.matmul`, or the operator @).

    Args:
        a: (..., n, k) numeric.
        b: (..., k, m) numeric.

    Returns:
        ndarray (..., n, m) of the promoted dtype.

    Raises:
        ValueError: the shapes do not fit. TypeError: not numeric.

    Gradient: g @ b.mT and a.mT @ g.

    >>> from cudamath import math
    >>> math.matrix_multiply([[1, 2]], [[3], [4]]).tolist()
    [[11]]
    """
    return products.matmul(a, b)


def matrix_transpose(x: Any) -> ndarray:
    """The last two axes exchanged: a view (`cm.matrix_transpose`, or `x.mT`).

    Args:
        x: (..., n, m) of any dtype.

    Returns:
        ndarray (..., m, n) on the same memory.

    Raises:
        ValueError: fewer than two axes.

    Gradient: the transpose of g.

    >>> from cudamath import math
    >>> math.matrix_transpose([[1, 2], [3, 4]]).tolist()
    [[1, 3], [2, 4]]
    """
    return shape.matrix_transpose(x)


def relu(x: Any) -> ndarray:
    """max(x, 0) (`cm.ml.relu`).

    Args:
        x: floating-point array.

    Returns:
        ndarray of the same shape and dtype; NaN stays NaN.

    Raises:
        TypeError: not floating-point.

    Gradient: g where x > 0, else 0.

    >>> from cudamath import math
    >>> math.relu([-1.0, 2.0]).tolist()
    [0.0, 2.0]
    """
    return _relu(x)


def sigmoid(x: Any) -> ndarray:
    """1 / (1 + exp(-x)) (`cm.ml.sigmoid`).

    Args:
        x: floating-point array.

    Returns:
        ndarray of the same shape and dtype.

    Raises:
        TypeError: not floating-point.

    Gradient: g y (1 - y).

    >>> from cudamath import math
    >>> math.sigmoid([0.0]).tolist()
    [0.5]
    """
    return _sigmoid(x)


def reduce_sum(
    x: Any, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> ndarray:
    """The sum over axes (`cm.sum`).

    Args:
        x: numeric or bool array.
        axis: one axis, several, or None for all.
        keepdims: keep the summed axes with length 1.

    Returns:
        ndarray; integers are summed in 64 bits, 16-bit floats in float32.

    Raises:
        ValueError: no such axis.

    Gradient: g, broadcast to the shape of x.

    >>> from cudamath import math
    >>> math.reduce_sum([[1, 2], [3, 4]], axis=0).tolist()
    [4, 6]
    """
    return reduce.sum(x, axis=axis, keepdims=keepdims)


def free_tensor(x: ndarray) -> None:
    """Give an array's memory back to the pool now; afterwards `x` is empty, of shape (0,).

    Rarely needed: `del x`, or leaving the function, does the same. Views of `x` keep the memory
    alive.

    Args:
        x: an ndarray.

    Raises:
        TypeError: `x` is not an ndarray. ValueError: a gradient of `x` is being recorded.

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
    size: int = 512, *, rounds: int = 7, device: Any = None
) -> dict[str, float]:
    """Median seconds of a call of the operations above, taken in turns (`python -m cudamath bench`
    does more).

    Args:
        size: side of the square float32 matrices they work on, at least 1.
        rounds: how often each takes its turn, at least 1.
        device: where; None: the default device.

    Returns:
        name -> seconds, until the device has finished.

    Raises:
        ValueError: size or rounds is less than 1. DeviceError: no such device.

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
