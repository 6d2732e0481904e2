"""Reductions on the CPU: NumPy's, with 16-bit floats accumulated in float32."""

from collections.abc import Callable

import numpy as np

from ..core.dtypes import bfloat16, compute_dtype, real_dtype

Axes = tuple[int, ...]


def reduce(x: np.ndarray, *, kind: str, axis: Axes, keepdims: bool, dtype: np.dtype, correction: float = 0,
           shape: Axes = ()) -> np.ndarray:
    """The reduction `kind` of x over the axes, as `dtype`. `shape` is for the gradient rule."""
    if x.dtype == bfloat16:  # a user-defined type, for which NumPy has slow loops or none
        x = x.astype(np.float32)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # 0 / 0 is NaN, as on a GPU
        result = _KINDS[kind](x, axis, keepdims, compute_dtype(dtype), correction)
    return np.asarray(result).astype(dtype, copy=False)


def _count(x: np.ndarray, axis: Axes) -> int:
    """Elements of x that go into one result."""
    count = 1
    for i in axis:
        count *= x.shape[i]
    return count


def _mean(x: np.ndarray, axis: Axes, keepdims: bool, dtype: np.dtype, _: float) -> np.ndarray:
    return np.true_divide(np.add.reduce(x, axis=axis, dtype=dtype, keepdims=keepdims), _count(x, axis), dtype=dtype)


def _var(x: np.ndarray, axis: Axes, keepdims: bool, dtype: np.dtype, correction: float) -> np.ndarray:
    from_mean = np.subtract(x, _mean(x, axis, True, dtype, 0), dtype=dtype)
    squares = np.multiply(from_mean, from_mean, out=from_mean)
    total = np.add.reduce(squares, axis=axis, keepdims=keepdims)
    return np.true_divide(total, max(_count(x, axis) - correction, 0), dtype=dtype)


def _norm(x: np.ndarray, axis: Axes, keepdims: bool, dtype: np.dtype, _: float) -> np.ndarray:
    if x.dtype.kind == "c":
        parts = x.real.astype(real_dtype(x.dtype), copy=False), x.imag
        squares = parts[0] * parts[0] + parts[1] * parts[1]
    else:
        squares = np.multiply(x, x, dtype=dtype)
    return np.sqrt(np.add.reduce(squares, axis=axis, keepdims=keepdims))


def _position(find: Callable) -> Callable:
    def position(x: np.ndarray, axis: Axes, keepdims: bool, dtype: np.dtype, _: float) -> np.ndarray:
        return find(x, axis=axis[0] if len(axis) == 1 else None, keepdims=keepdims)  # more axes: all of them

    return position


_KINDS: dict[str, Callable] = {
    "sum": lambda x, axis, keepdims, dtype, _: np.add.reduce(x, axis=axis, dtype=dtype, keepdims=keepdims),
    "prod": lambda x, axis, keepdims, dtype, _: np.multiply.reduce(x, axis=axis, dtype=dtype, keepdims=keepdims),
    "mean": _mean,
    "max": lambda x, axis, keepdims, dtype, _: np.maximum.reduce(x, axis=axis, keepdims=keepdims),
    "min": lambda x, axis, keepdims, dtype, _: np.minimum.reduce(x, axis=axis, keepdims=keepdims),
    "argmax": _position(np.argmax),
    "argmin": _position(np.argmin),
    "any": lambda x, axis, keepdims, dtype, _: np.any(x, axis=axis, keepdims=keepdims),
    "all": lambda x, axis, keepdims, dtype, _: np.all(x, axis=axis, keepdims=keepdims),
    "count_nonzero": lambda x, axis, keepdims, dtype, _: np.add.reduce(x != 0, axis=axis, dtype=np.int64,
                                                                     keepdims=keepdims),
    "var": _var,
    "std": lambda x, axis, keepdims, dtype, correction: np.sqrt(_var(x, axis, keepdims, dtype, correction)),
    "norm": _norm,
}
