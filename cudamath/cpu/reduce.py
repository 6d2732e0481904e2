"""Reductions on the CPU: NumPy's, with 16-bit floats accumulated in float32.

Of large contiguous arrays sums (sums.py) and choices (min_max.py) are compiled.
"""

import itertools
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..core.dtypes import bfloat16, compute_dtype, real_dtype
from ..core.fp_errors import quiet
from ..core.layout import Layout

Axes = tuple[int, ...]

RUN = 64  # rows added one after the other
_add: Any = np.add.reduce  # (its types do not know that keepdims may be a variable)
LINE, LONG = 64, 512  # numbers in a line: what min_max.py looks at together; many
LARGE = 1 << 15  # elements from which on compiled sums are worth their import


def reduce(
    x: np.ndarray,
    *,
    kind: str,
    axis: Axes,
    keepdims: bool,
    dtype: np.dtype,
    correction: float = 0,
    shape: Axes = (),
) -> np.ndarray:
    """The reduction `kind` of x over the axes, as `dtype`. `shape` is for the gradient rule."""
    if x.dtype == bfloat16:  # a user-defined type, for which NumPy has slow loops or none
        x = x.astype(np.float32)
    work = _KINDS[kind]
    if kind in _QUIET:
        result = work(x, axis, keepdims, dtype, 0)
    else:
        with np.errstate(
            divide="ignore", invalid="ignore", over="ignore"
        ):  # 0 / 0 is NaN, as on a GPU
            result = work(x, axis, keepdims, compute_dtype(dtype), correction)
    return (
        result
        if type(result) is np.ndarray and result.dtype is dtype
        else np.asarray(result).astype(dtype, copy=False)
    )


def _prepare(
    layout: Layout,
    *,
    kind: str,
    axis: Axes,
    keepdims: bool,
    dtype: np.dtype,
    correction: float = 0,
    shape: Axes = (),
) -> Callable | None:
    """The reduction of contiguous arrays of this layout as a function of nothing else; None if it
    is not among these."""
    if not layout.contiguous or layout.dtype == bfloat16 or not layout.size:
        return None
    neighbours = axis != () and axis == tuple(range(axis[0], axis[0] + len(axis)))
    if (
        LARGE <= layout.size < 1 << 31
        and neighbours
        and layout.dtype.kind in "fiu"
        and layout.itemsize >= 4
    ):
        if kind in _CHOICES and (kind not in ("argmax", "argmin") or _places_pay(layout, axis)):
            return _chosen(layout, kind, axis, keepdims)
        if (
            kind in ("sum", "mean", "var", "std", "norm")
            and dtype == layout.dtype
            and dtype.kind == "f"
        ):
            return _compiled(layout, kind, axis, keepdims, correction)
    whole = len(axis) == layout.ndim and not keepdims
    new = np.empty
    if kind in _UFUNCS and layout.ndim:
        find: Any = _UFUNCS[kind].reduce  # (as above)
        # into an array of our own: cheaper than an array from the scalar NumPy returns otherwise
        if whole:
            return lambda x: find(x, None, None, new((), dtype))
        return lambda x: find(x, axis, None, None, keepdims)
    if kind in ("argmax", "argmin") and layout.ndim:
        if whole:
            return (
                (lambda x: x.argmax(None, new((), dtype)))
                if kind == "argmax"
                else lambda x: x.argmin(None, new((), dtype))
            )
        if not keepdims:
            return (lambda x: x.argmax(*axis)) if kind == "argmax" else lambda x: x.argmin(*axis)
    if (
        kind in ("sum", "mean")
        and layout.size < LARGE
        and dtype == layout.dtype
        and dtype.char in "fd"
        and (axis and axis == tuple(range(layout.ndim - len(axis), layout.ndim)))
    ):  # the innermost: NumPy's sum is pairwise
        return _small(layout, kind, axis, keepdims)
    return None


def _small(layout: Layout, kind: str, axis: Axes, keepdims: bool) -> Callable:
    """A sum or mean over the innermost axes, in NumPy's own pairwise order, without warnings."""
    count = layout.dtype.type(prod([layout.shape[i] for i in axis]))
    shape = (*layout.shape[: axis[0]], *((1,) * len(axis) if keepdims else ()))
    new, dtype = np.empty, layout.dtype

    def total(x: np.ndarray) -> np.ndarray:
        return quiet().run(_add, x, axis, None, new(shape, dtype), keepdims)

    def mean(x: np.ndarray) -> np.ndarray:
        out = total(x)
        return np.true_divide(out, count, out)

    return total if kind == "sum" else mean


def _lines(full: Axes, axis: Axes, keepdims: bool) -> tuple[Axes, Axes, Axes]:
    """An array over neighbouring axes as (outer, n, inner) over n: that shape, the result's (outer,
    inner), and its own."""
    first, end = axis[0], axis[-1] + 1
    extents = prod(full[:first]), prod(full[first:end]), prod(full[end:])
    return (
        extents,
        (extents[0], extents[2]),
        (*full[:first], *((1,) * len(axis) if keepdims else ()), *full[end:]),
    )


#: What is chosen: (function of min_max.py, which one of its two, dtype of the result, the array's
#: if None).
_CHOICES: dict[str, tuple[str, bool, type | None]] = {
    "max": ("best", True, None),
    "min": ("best", False, None),
    "argmax": ("place", True, np.int64),
    "argmin": ("place", False, np.int64),
    "any": ("any_or_all", False, np.bool_),
    "all": ("any_or_all", True, np.bool_),
}


def _places_pay(layout: Layout, axis: Axes) -> bool:
    """Whether min_max.py finds places faster than NumPy: not in lines shorter than what it looks
    at together, nor in long ones of integers, where NumPy's single pass does not look for NaN."""
    line = prod([layout.shape[i] for i in axis])
    return axis[-1] < layout.ndim - 1 or line >= LINE and (layout.dtype.kind == "f" or line < LONG)


def _chosen(layout: Layout, kind: str, axis: Axes, keepdims: bool) -> Callable:
    """A choice over neighbouring axes."""
    from . import min_max
    from .lib.numba_calls import entry

    extents, flat, shape = _lines(layout.shape, axis, keepdims)
    name, which, result = _CHOICES[kind]
    dtype, new = np.dtype(result or layout.dtype), np.empty
    run = entry(getattr(min_max, name), (layout.dtype, 3), bool, (dtype, 2))

    def choose(x: np.ndarray) -> np.ndarray:
        out = new(shape, dtype)
        run(x.reshape(extents), which, out.reshape(flat))
        return out

    return choose


def _compiled(layout: Layout, kind: str, axis: Axes, keepdims: bool, correction: float) -> Callable:
    """A sum over neighbouring axes."""
    from .sums import sums, variances

    extents, flat, shape = _lines(layout.shape, axis, keepdims)
    dtype = layout.dtype
    divisor = (
        1.0
        if kind in ("sum", "norm")
        else float(extents[1] if kind == "mean" else max(extents[1] - correction, 0))
    )
    centred, root, new = kind != "norm", kind in ("std", "norm"), np.empty

    def total(x: np.ndarray) -> np.ndarray:
        out = new(shape, dtype)
        sums(x.reshape(extents), divisor, out.reshape(flat))
        return out

    def variance(x: np.ndarray) -> np.ndarray:
        out = new(shape, dtype)
        variances(x.reshape(extents), divisor, centred, root, out.reshape(flat))
        return out

    return total if kind in ("sum", "mean") else variance


reduce.prepare = _prepare  # type: ignore[attr-defined]


def _count(x: np.ndarray, axis: Axes) -> int:
    """Elements of x that go into one result."""
    count = 1
    for i in axis:
        count *= x.shape[i]
    return count


def _total(x: np.ndarray, axis: Axes, keepdims: bool, dtype: np.dtype, _: float = 0) -> Any:
    """A sum that is pairwise along every axis: NumPy's own is only along the innermost, elsewhere
    it adds row by row."""
    if dtype.kind not in "fc":
        return _add(x, axis=axis, dtype=dtype, keepdims=keepdims)
    order = sorted((i for i in range(x.ndim) if x.shape[i] > 1), key=lambda i: abs(x.strides[i]))
    inner = tuple(itertools.takewhile(axis.__contains__, order))
    outer = [i for i in order if i in axis and i not in inner and x.shape[i] > RUN]
    if not outer:
        return _add(x, axis=axis, dtype=dtype, keepdims=keepdims)
    rest = tuple(i for i in axis if i not in outer)
    total = np.add.reduce(x, axis=rest, dtype=dtype, keepdims=True) if rest else x
    for i in outer:
        total = np.expand_dims(_by_runs(np.moveaxis(total, i, 0), dtype), i)
    return (
        total
        if keepdims
        else total.reshape([n for i, n in enumerate(total.shape) if i not in axis])
    )


def _by_runs(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The sum over the first axis, as a sum of sums of RUN rows."""
    while len(x) > RUN:
        whole = len(x) // RUN * RUN
        runs = np.add.reduce(
            x[:whole].reshape(whole // RUN, RUN, *x.shape[1:]), axis=1, dtype=dtype
        )
        x = (
            runs
            if whole == len(x)
            else np.concatenate(
                [runs, np.add.reduce(x[whole:], axis=0, dtype=dtype, keepdims=True)]
            )
        )
    return np.add.reduce(x, axis=0, dtype=dtype)


def _mean(x: np.ndarray, axis: Axes, keepdims: bool, dtype: np.dtype, _: float) -> np.ndarray:
    return np.true_divide(_total(x, axis, keepdims, dtype), _count(x, axis), dtype=dtype)


def _var(
    x: np.ndarray, axis: Axes, keepdims: bool, dtype: np.dtype, correction: float
) -> np.ndarray:
    from_mean = np.asarray(np.subtract(x, _mean(x, axis, True, dtype, 0), dtype=dtype))
    squares = np.multiply(from_mean, from_mean, out=from_mean)
    return np.true_divide(
        _total(squares, axis, keepdims, dtype), max(_count(x, axis) - correction, 0), dtype=dtype
    )


def _norm(x: np.ndarray, axis: Axes, keepdims: bool, dtype: np.dtype, _: float) -> np.ndarray:
    if x.dtype.kind == "c":
        parts = x.real.astype(real_dtype(x.dtype), copy=False), x.imag
        squares = parts[0] * parts[0] + parts[1] * parts[1]
    else:
        squares = np.multiply(x, x, dtype=dtype)
    return np.sqrt(_total(np.asarray(squares), axis, keepdims, dtype))


def _sizes(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return np.abs(x if x.dtype.kind in "fc" else x.astype(dtype))  # |-128| is no int8


def power_norm(
    x: np.ndarray, *, axis: Axes, keepdims: bool, dtype: np.dtype, scalars: tuple
) -> np.ndarray:
    """(Σ |x|^p)^(1/p) over the axes, as `dtype`; p: the scalar."""
    wide = compute_dtype(dtype)
    with np.errstate(all="ignore"):
        powers = _sizes(x, wide).astype(wide, copy=False) ** wide.type(scalars[0])
        return np.asarray(_total(powers, axis, keepdims, wide) ** wide.type(1 / scalars[0])).astype(
            dtype, copy=False
        )


def _position(find: Callable) -> Callable:
    def position(
        x: np.ndarray, axis: Axes, keepdims: bool, dtype: np.dtype, _: float
    ) -> np.ndarray:
        return find(
            x, axis=axis[0] if len(axis) == 1 else None, keepdims=keepdims
        )  # more axes: all of them

    return position


def _spread_of_numbers(
    x: np.ndarray, axis: Axes, keepdims: bool, dtype: np.dtype, correction: float
) -> np.ndarray:
    there = x == x
    count = _add(there, axis=axis, dtype=dtype, keepdims=True)
    mean = _total(np.where(there, x, 0), axis, True, dtype) / count
    apart = np.subtract(x, mean, dtype=dtype)
    total = _total(np.where(there, apart * apart, 0), axis, True, dtype)
    y = np.where(count > correction, total / (count - correction), np.nan)
    return y if keepdims else y.reshape([n for i, n in enumerate(x.shape) if i not in axis])


def _mean_of_numbers(
    x: np.ndarray, axis: Axes, keepdims: bool, dtype: np.dtype, _: float
) -> np.ndarray:
    there = x == x
    count = _add(there, axis=axis, dtype=real_dtype(dtype), keepdims=keepdims)
    return _total(np.where(there, x, 0), axis, keepdims, dtype) / count


def _others_than_zero(
    x: np.ndarray, axis: Axes, keepdims: bool, dtype: np.dtype, _: float
) -> np.ndarray:
    there = x if x.dtype == np.bool_ else x != 0
    if len(axis) < x.ndim:
        return _add(there, axis=axis, dtype=np.int64, keepdims=keepdims)
    return np.full((1,) * x.ndim if keepdims else (), np.count_nonzero(there))


_UFUNCS = {"max": np.maximum, "min": np.minimum, "any": np.logical_or, "all": np.logical_and}
_QUIET = frozenset(
    ["max", "min", "argmax", "argmin", "any", "all", "count_nonzero"]
)  # these never warn
_KINDS: dict[str, Callable] = {
    "sum": _total,
    "prod": lambda x, axis, keepdims, dtype, _: np.multiply.reduce(
        x, axis=axis, dtype=dtype, keepdims=keepdims
    ),
    "mean": _mean,
    "max": lambda x, axis, keepdims, dtype, _: np.maximum.reduce(x, axis=axis, keepdims=keepdims),
    "min": lambda x, axis, keepdims, dtype, _: np.minimum.reduce(x, axis=axis, keepdims=keepdims),
    "argmax": _position(np.argmax),
    "argmin": _position(np.argmin),
    "any": lambda x, axis, keepdims, dtype, _: np.any(x, axis=axis, keepdims=keepdims),
    "all": lambda x, axis, keepdims, dtype, _: np.all(x, axis=axis, keepdims=keepdims),
    "count_nonzero": _others_than_zero,
    "var": _var,
    "std": lambda x, axis, keepdims, dtype, correction: np.sqrt(
        _var(x, axis, keepdims, dtype, correction)
    ),
    "norm": _norm,
    "norm 0": _others_than_zero,
    "norm 1": lambda x, axis, keepdims, dtype, _: _total(_sizes(x, dtype), axis, keepdims, dtype),
    "norm inf": lambda x, axis, keepdims, dtype, _: np.maximum.reduce(
        _sizes(x, dtype), axis=axis, keepdims=keepdims
    ),
    "norm -inf": lambda x, axis, keepdims, dtype, _: np.minimum.reduce(
        _sizes(x, dtype), axis=axis, keepdims=keepdims
    ),
    "nansum": lambda x, axis, keepdims, dtype, _: _total(
        np.where(x == x, x, 0), axis, keepdims, dtype
    ),
    "nanprod": lambda x, axis, keepdims, dtype, _: np.multiply.reduce(
        np.where(x == x, x, 1), axis=axis, dtype=dtype, keepdims=keepdims
    ),
    "nanmean": _mean_of_numbers,
    "nanmax": lambda x, axis, keepdims, dtype, _: np.fmax.reduce(x, axis=axis, keepdims=keepdims),
    "nanmin": lambda x, axis, keepdims, dtype, _: np.fmin.reduce(x, axis=axis, keepdims=keepdims),
    "nanvar": _spread_of_numbers,
    "nanstd": lambda x, axis, keepdims, dtype, correction: np.sqrt(
        _spread_of_numbers(x, axis, keepdims, dtype, correction)
    ),
}
