"""Reductions on the CPU: NumPy's, with 16-bit floats accumulated in float32.

Each reduction says itself how NumPy computes it (core/specs/reductions.py). Of large contiguous
arrays sums (sums.py) and selections (min_max.py) are compiled.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..core.dtypes import bfloat16, compute_dtype
from ..core.fp_errors import quiet
from ..core.layout import Layout
from ..core.specs.pairwise_sum import ROWS, total
from ..core.specs.reduction import Reduction
from ..core.specs.reductions import REDUCTIONS, absolute

Axes = tuple[int, ...]

_add: Any = np.add.reduce  # (its types do not know that keepdims may be a variable)
LINE, LONG = 64, 512  # numbers in a line: those that min_max.py compares together; many
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
    reduction = REDUCTIONS[kind]
    if reduction.quiet:
        result = reduction.numpy(x, axis, keepdims, dtype, 0)
    else:  # 0 / 0 is NaN without a warning, as on a GPU
        result = quiet().run(reduction.numpy, x, axis, keepdims, compute_dtype(dtype), correction)
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
    """The reduction of contiguous arrays of this layout, as a function of the array alone. None if
    there is no faster function than `reduce`."""
    reduction = REDUCTIONS[kind]
    if not layout.contiguous or layout.dtype == bfloat16 or not layout.size:
        return None
    neighbours = axis != () and axis == tuple(range(axis[0], axis[0] + len(axis)))
    if (
        LARGE <= layout.size < 1 << 31
        and neighbours
        and layout.dtype.kind in "fiu"
        and layout.itemsize >= 4
    ):
        if reduction.selection and (not reduction.places or _places_pay(layout, axis)):
            return _selection(layout, reduction, axis, keepdims)
        if reduction.sums and dtype == layout.dtype and dtype.kind == "f":
            return _compiled_sum(layout, reduction, axis, keepdims, correction)
    whole = len(axis) == layout.ndim and not keepdims
    new = np.empty
    if reduction.ufunc and layout.ndim:
        find: Any = reduction.ufunc.reduce  # (as above)
        # NumPy would return a scalar; writing into a new array is faster than converting it.
        if whole:
            return lambda x: find(x, None, None, new((), dtype))
        return lambda x: find(x, axis, None, None, keepdims)
    if reduction.places and layout.ndim:
        place: Any = getattr(np.ndarray, reduction.name)
        if whole:
            return lambda x: place(x, None, new((), dtype))
        if not keepdims:
            return lambda x: place(x, *axis)
    if (
        reduction.sums
        and not reduction.sums.centred
        and dtype == layout.dtype
        and dtype.char in "fd"
        and axis
        and layout.size < LARGE
        and (
            # the innermost: NumPy's sum is pairwise
            axis == tuple(range(layout.ndim - len(axis), layout.ndim))
            # so few rows are added one after the other
            or max([layout.shape[i] for i in axis]) <= ROWS
        )
    ):
        return _small_sum(layout, reduction, axis, keepdims)
    return None


def _small_sum(layout: Layout, reduction: Reduction, axis: Axes, keepdims: bool) -> Callable:
    """A sum, mean or norm in NumPy's own order, which is pairwise along the innermost axes, without
    warnings."""
    count = layout.dtype.type(prod([layout.shape[i] for i in axis]))
    shape = tuple(
        [1 if i in axis else n for i, n in enumerate(layout.shape) if keepdims or i not in axis]
    )
    new, dtype = np.empty, layout.dtype

    def total(x: np.ndarray) -> np.ndarray:
        return quiet().run(_add, x, axis, None, new(shape, dtype), keepdims)

    def mean(x: np.ndarray) -> np.ndarray:
        out = total(x)
        return np.true_divide(out, count, out)

    def norm(x: np.ndarray) -> np.ndarray:
        return quiet().run(root, x)

    def root(x: np.ndarray) -> np.ndarray:
        out = _add(np.multiply(x, x), axis, None, new(shape, dtype), keepdims)
        return np.sqrt(out, out)

    assert reduction.sums is not None
    if reduction.sums.squares:
        return norm
    return mean if reduction.divides else total


def _lines(full: Axes, axis: Axes, keepdims: bool) -> tuple[Axes, Axes, Axes]:
    """Three shapes of a reduction over neighbouring axes: the array as (outer, n, inner), the
    result as (outer, inner), and the result's own."""
    first, end = axis[0], axis[-1] + 1
    lines = prod(full[:first]), prod(full[first:end]), prod(full[end:])
    return (
        lines,
        (lines[0], lines[2]),
        (*full[:first], *((1,) * len(axis) if keepdims else ()), *full[end:]),
    )


def _places_pay(layout: Layout, axis: Axes) -> bool:
    """Whether min_max.py finds positions faster than NumPy. It does not in lines shorter than those
    that it compares together, nor in long lines of integers, in which NumPy does not look for
    NaN."""
    line = prod([layout.shape[i] for i in axis])
    return axis[-1] < layout.ndim - 1 or line >= LINE and (layout.dtype.kind == "f" or line < LONG)


def _selection(layout: Layout, reduction: Reduction, axis: Axes, keepdims: bool) -> Callable:
    """A selection over neighbouring axes."""
    from . import min_max

    assert reduction.selection is not None
    lines, flat, shape = _lines(layout.shape, axis, keepdims)
    name, form = reduction.selection
    dtype, new = reduction.result(layout.dtype), np.empty
    way = "lines" if lines[2] == 1 else "rows"
    function = getattr(min_max, f"{name}_{way}")
    run = function.entry(("array", layout.dtype, 3), np.dtype(bool), ("array", dtype, 2))

    def select(x: np.ndarray) -> np.ndarray:
        out = new(shape, dtype)
        run(x.reshape(lines), form, out.reshape(flat))
        return out

    return select


def _compiled_sum(
    layout: Layout, reduction: Reduction, axis: Axes, keepdims: bool, correction: float
) -> Callable:
    """A sum over neighbouring axes."""
    from . import sums as compiled

    assert reduction.sums is not None
    lines, flat, shape = _lines(layout.shape, axis, keepdims)
    dtype, way = layout.dtype, "lines" if lines[2] == 1 else "rows"
    divisor = float(max(lines[1] - correction, 0)) if reduction.divides else 1.0
    squares, centred, root = reduction.sums
    name, flags = ("variances", (np.dtype(bool),) * 2) if squares else ("sums", ())
    array, number = ("array", dtype, 3), np.dtype(float)
    run = getattr(compiled, f"{name}_of_{way}").entry(array, number, *flags, ("array", dtype, 2))
    new = np.empty

    def total(x: np.ndarray) -> np.ndarray:
        out = new(shape, dtype)
        run(x.reshape(lines), divisor, out.reshape(flat))
        return out

    def total_of_squares(x: np.ndarray) -> np.ndarray:
        out = new(shape, dtype)
        run(x.reshape(lines), divisor, centred, root, out.reshape(flat))
        return out

    return total_of_squares if squares else total


reduce.prepare = _prepare  # type: ignore[attr-defined]


def power_norm(
    x: np.ndarray, *, axis: Axes, keepdims: bool, dtype: np.dtype, scalars: tuple
) -> np.ndarray:
    """(Σ |x|^p)^(1/p) over the axes, as `dtype`; p: the scalar."""
    wide = compute_dtype(dtype)
    with np.errstate(all="ignore"):
        powers = absolute(x, wide).astype(wide, copy=False) ** wide.type(scalars[0])
        return np.asarray(total(powers, axis, keepdims, wide) ** wide.type(1 / scalars[0])).astype(
            dtype, copy=False
        )
