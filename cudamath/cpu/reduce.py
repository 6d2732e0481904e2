"""Reductions on the CPU: NumPy's, with 16-bit floats accumulated in float32."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.dtypes import bfloat16, compute_dtype, real_dtype

Axes = tuple[int, ...]

RUN = 64  # rows added one after the other
_add: Any = np.add.reduce  # (its types do not know that keepdims may be a variable)
LINE, FEW = 2048, 16  # where a vector is cut into rows: numbers in a row, and rows added one after the other


def reduce(x: np.ndarray, *, kind: str, axis: Axes, keepdims: bool, dtype: np.dtype, correction: float = 0,
           shape: Axes = ()) -> np.ndarray:
    """The reduction `kind` of x over the axes, as `dtype`. `shape` is for the gradient rule."""
    if x.dtype == bfloat16:  # a user-defined type, for which NumPy has slow loops or none
        x = x.astype(np.float32)
    work = _KINDS[kind]
    if kind in _QUIET:
        result = work(x, axis, keepdims, dtype, 0)
    else:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # 0 / 0 is NaN, as on a GPU
            result = work(x, axis, keepdims, compute_dtype(dtype), correction)
    return result if type(result) is np.ndarray and result.dtype is dtype else np.asarray(result).astype(dtype, copy=False)


def _count(x: np.ndarray, axis: Axes) -> int:
    """Elements of x that go into one result."""
    count = 1
    for i in axis:
        count *= x.shape[i]
    return count


def _total(x: np.ndarray, axis: Axes, keepdims: bool, dtype: np.dtype, _: float = 0) -> Any:
    """A sum that is pairwise along every axis: NumPy's own is only along the innermost, elsewhere it adds row by row."""
    if dtype.kind not in "fc":
        return _add(x, axis=axis, dtype=dtype, keepdims=keepdims)
    if x.size >= LINE * FEW and len(axis) == x.ndim and x.dtype == dtype and x.flags.c_contiguous:
        return np.asarray(_line(x.reshape(-1))).reshape((1,) * x.ndim if keepdims else ())
    order = sorted((i for i in range(x.ndim) if x.shape[i] > 1), key=lambda i: abs(x.strides[i]))
    inner = tuple(itertools.takewhile(axis.__contains__, order))
    outer = [i for i in order if i in axis and i not in inner and x.shape[i] > RUN]
    if not outer:
        return _add(x, axis=axis, dtype=dtype, keepdims=keepdims)
    rest = tuple(i for i in axis if i not in outer)
    total = np.add.reduce(x, axis=rest, dtype=dtype, keepdims=True) if rest else x
    for i in outer:
        total = np.expand_dims(_by_runs(np.moveaxis(total, i, 0), dtype), i)
    return total if keepdims else total.reshape([n for i, n in enumerate(total.shape) if i not in axis])


def _line(x: np.ndarray) -> np.ndarray:
    """The sum of a contiguous vector: rows of LINE numbers are added as vectors, FEW at a time, which takes half the time
    of adding up each row."""
    whole = len(x) // (LINE * FEW) * (LINE * FEW)
    return np.add.reduce(np.add.reduce(x[:whole].reshape(-1, FEW, LINE), axis=1).reshape(-1)) + np.add.reduce(x[whole:])


def _by_runs(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The sum over the first axis, as a sum of sums of RUN rows."""
    while len(x) > RUN:
        whole = len(x) // RUN * RUN
        runs = np.add.reduce(x[:whole].reshape(-1, RUN, *x.shape[1:]), axis=1, dtype=dtype)
        x = runs if whole == len(x) else np.concatenate([runs, np.add.reduce(x[whole:], axis=0, dtype=dtype, keepdims=True)])
    return np.add.reduce(x, axis=0, dtype=dtype)


def _mean(x: np.ndarray, axis: Axes, keepdims: bool, dtype: np.dtype, _: float) -> np.ndarray:
    return np.true_divide(_total(x, axis, keepdims, dtype), _count(x, axis), dtype=dtype)


def _var(x: np.ndarray, axis: Axes, keepdims: bool, dtype: np.dtype, correction: float) -> np.ndarray:
    from_mean = np.asarray(np.subtract(x, _mean(x, axis, True, dtype, 0), dtype=dtype))
    squares = np.multiply(from_mean, from_mean, out=from_mean)
    return np.true_divide(_total(squares, axis, keepdims, dtype), max(_count(x, axis) - correction, 0), dtype=dtype)


def _norm(x: np.ndarray, axis: Axes, keepdims: bool, dtype: np.dtype, _: float) -> np.ndarray:
    if x.dtype.kind == "c":
        parts = x.real.astype(real_dtype(x.dtype), copy=False), x.imag
        squares = parts[0] * parts[0] + parts[1] * parts[1]
    else:
        squares = np.multiply(x, x, dtype=dtype)
    return np.sqrt(_total(np.asarray(squares), axis, keepdims, dtype))


def _position(find: Callable) -> Callable:
    def position(x: np.ndarray, axis: Axes, keepdims: bool, dtype: np.dtype, _: float) -> np.ndarray:
        return find(x, axis=axis[0] if len(axis) == 1 else None, keepdims=keepdims)  # more axes: all of them

    return position


_QUIET = frozenset(["max", "min", "argmax", "argmin", "any", "all", "count_nonzero"])  # these never warn
_KINDS: dict[str, Callable] = {
    "sum": _total,
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
