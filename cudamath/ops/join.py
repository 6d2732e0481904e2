"""Joining, splitting and rearranging: ``concat`` and what is made of it, rolling, tiles and
repeats."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..core import dtypes, shapes
from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.devices import TRACED
from ..core.dispatch.call_record import traced
from ..core.dispatch.checks import coerce, members, require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import Op
from ..core.shapes import normalize_axis
from ..core.typing import ArrayLike, DTypeLike
from .shape import (
    Axes,
    _broadcast,
    _cast,
    _copy,
    atleast_1d,
    atleast_2d,
    expand_dims,
    permute_dims,
    ravel,
    reshape,
    span,
    view_of,
)

__all__ = [
    "array_split",
    "concat",
    "concatenate",
    "hstack",
    "repeat",
    "roll",
    "split",
    "stack",
    "tile",
    "unstack",
    "vstack",
]

# -------------------- cards


def _pieces(g: ndarray, axis: int, sizes: tuple) -> tuple[ndarray, ...]:
    ends = list(itertools.accumulate(sizes))
    return tuple([span(g, axis, end - size, end) for size, end in zip(sizes, ends, strict=True)])


_concat = Op(
    "concat",
    cpu="shape.concat",
    cuda="shape.dispatch.concat",
    vjp=lambda g, _y, *_xs, axis, sizes: _pieces(g, axis, sizes),
)
_roll: Op = Op(
    "roll",
    cpu="shape.roll",
    cuda="shape.roll.roll",
    vjp=lambda g, _y, _x, shifts: (
        _roll(
            g, shifts=tuple([step and n - step for step, n in zip(shifts, g.shape, strict=True)])
        ),
    ),
)


# -------------------- joining, splitting


@fast_path("*arrays", scalars=False)
def concat(
    arrays: Sequence[ArrayLike],
    /,
    axis: int | None = 0,
    out: ndarray | None = None,
    *,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
) -> ndarray:
    """The arrays one after another along an existing axis.

    Parameters
    ----------
    arrays : sequence of array_like
        At least one array. The shapes are equal except along ``axis``.
    axis : int or None, default 0
        Axis of the operation. None flattens the arrays first.
    out : ndarray, optional
        Array that receives the result.
    dtype : dtype_like, optional
        Dtype of the result. The default is the common dtype of the arrays.
    casting : str, default "same_kind"
        NumPy's rule for the conversion to that dtype.

    Returns
    -------
    ndarray
        New array, or ``out``.

    Raises
    ------
    ValueError
        There are no arrays, one has no dimensions, shapes differ, or the casting rule is unknown.
    TypeError
        The casting rule does not allow the dtype, or ``out`` and ``dtype`` are both given.

    Notes
    -----
    The gradient of each array is its piece of g.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.concat([cm.asarray([1, 2]), cm.asarray([3.5])])
    array([1. , 2. , 3.5], device='cpu')
    """
    _one_of("concat", out, dtype)
    return _delivered("concat", _joined("concat", arrays, axis, dtype, casting), out, casting)


@fast_path("*arrays", scalars=False)
def concatenate(
    arrays: Sequence[ArrayLike],
    /,
    axis: int | None = 0,
    out: ndarray | None = None,
    *,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
) -> ndarray:
    """Join arrays along an existing axis: NumPy's name of ``concat``.

    Parameters
    ----------
    arrays : sequence of array_like
        At least one array. The shapes are equal except along ``axis``.
    axis : int or None, default 0
        Axis of the operation. None flattens the arrays first.
    out : ndarray, optional
        Array that receives the result.
    dtype : dtype_like, optional
        Dtype of the result. The default is the common dtype of the arrays.
    casting : str, default "same_kind"
        NumPy's rule for the conversion to that dtype.

    Returns
    -------
    ndarray
        New array, or ``out``.

    Raises
    ------
    ValueError
        There are no arrays, one has no dimensions, shapes differ, or the casting rule is unknown.
    TypeError
        The casting rule does not allow the dtype, or ``out`` and ``dtype`` are both given.

    Notes
    -----
    The gradient is that of `concat`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.concatenate([cm.zeros((2, 1)), cm.ones((2, 1))], axis=1)
    array([[0., 1.],
           [0., 1.]], device='cpu')
    """
    _one_of("concatenate", out, dtype)
    joined = _joined("concatenate", arrays, axis, dtype, casting)
    return _delivered("concatenate", joined, out, casting)


def _inputs(name: str, arrays: Any) -> list[ndarray]:
    if isinstance(arrays, Iterator):
        raise TypeError(
            f'{name}: arrays to stack must be passed as a "sequence" type such as list or tuple, '
            f"got {type(arrays).__name__}"
        )
    arrays = members(name, arrays)
    if not arrays:
        raise ValueError(f"{name}: need at least one array")
    return coerce(name, arrays)


def _one_of(name: str, out: Any, dtype: Any) -> None:
    if out is not None and dtype is not None:
        raise TypeError(f"{name}: takes out or dtype, not both; got out and dtype {dtype!r}")


def _delivered(name: str, result: ndarray, out: Any, casting: str) -> ndarray:
    if out is None:
        return result
    from .out_argument import deliver

    return deliver(name, result, out, casting)


def _joined(
    name: str,
    arrays: Sequence[Any],
    axis: int | None,
    dtype: Any = None,
    casting: str = "same_kind",
) -> ndarray:
    inputs = _inputs(name, arrays)
    if axis is None:
        if dtype is None and casting == "same_kind":
            inputs = _adapted(arrays, inputs)
        inputs, axis = [ravel(x) for x in inputs], 0
    first = inputs[0].shape
    if not all(x.ndim for x in inputs):
        raise ValueError(
            f"{name}: 0-d arrays cannot be joined along an axis; got shapes {_listed(inputs)}"
        )
    axis = normalize_axis(name, axis, len(first))
    for x in inputs:
        if (
            x.ndim != len(first)
            or x.shape[:axis] != first[:axis]
            or x.shape[axis + 1 :] != first[axis + 1 :]
        ):
            raise ValueError(
                f"{name}: shapes must be equal but along axis {axis}, got {_listed(inputs)}"
            )
    usual = dtype is None and casting == "same_kind"
    dtype = dtypes.result_type(*inputs) if dtype is None else dtypes.as_dtype(dtype, name)
    if not usual:
        from .out_argument import can_write, casting_rule

        for x in inputs:
            if not can_write(x.dtype, dtype, casting_rule(name, casting)):
                raise TypeError(f"{name}: {x.dtype} cannot become {dtype} by the rule {casting!r}")
    inputs = [x if x.dtype == dtype else _cast(x, dtype=dtype) for x in inputs]
    sizes = tuple([x.shape[axis] for x in inputs])
    if all([x._layout.contiguous for x in inputs]):
        return _concat(*inputs, axis=axis, sizes=sizes)
    order, *others = {shapes.axes_in_copy(x.shape, x.strides) for x in inputs}
    if others:  # C order
        return _concat(*inputs, axis=axis, sizes=sizes)
    turned = [permute_dims(x, order) for x in inputs]  # the result lies in memory as they do
    joined = _concat(*turned, axis=order.index(axis), sizes=sizes)
    return permute_dims(joined, [order.index(i) for i in range(len(order))])


def _adapted(arrays: Sequence[Any], inputs: list[ndarray]) -> list[ndarray]:
    """Python's numbers among flattened arrays take their dtype."""
    numbers = [type(x) in (bool, int, float, complex) for x in arrays]
    if not any(numbers) or all(numbers):
        return inputs
    common = dtypes.result_type(
        *[x if weak else y for x, y, weak in zip(arrays, inputs, numbers, strict=True)]
    )
    return [
        _cast(y, dtype=common) if weak and y.dtype != common else y
        for y, weak in zip(inputs, numbers, strict=True)
    ]


def _listed(inputs: Sequence[ndarray]) -> str:
    return ", ".join([str(x.shape) for x in inputs])


@fast_path("*arrays", scalars=False)
def stack(
    arrays: Sequence[ArrayLike],
    axis: int = 0,
    out: ndarray | None = None,
    *,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
) -> ndarray:
    """The arrays, all of one shape, along a new axis.

    Parameters
    ----------
    arrays : sequence of array_like
        At least one array.
    axis : int, default 0
        Position of the new axis in the result.
    out : ndarray, optional
        Array that receives the result.
    dtype : dtype_like, optional
        Dtype of the result. The default is the common dtype of the arrays.
    casting : str, default "same_kind"
        NumPy's rule for the conversion to that dtype.

    Returns
    -------
    ndarray
        New array.

    Raises
    ------
    ValueError
        There are no arrays, or shapes differ.

    Notes
    -----
    The gradient of each array is its slice of g.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.stack([cm.asarray([1, 2]), cm.asarray([3, 4])], axis=1)
    array([[1, 3],
           [2, 4]], device='cpu')
    """
    inputs = _inputs("stack", arrays)
    if any(x.shape != inputs[0].shape for x in inputs):
        raise ValueError(f"stack: wants arrays of one shape, got {_listed(inputs)}")
    axis = normalize_axis("stack", axis, inputs[0].ndim + 1)
    slices = [expand_dims(x, axis=axis) for x in inputs]
    _one_of("stack", out, dtype)
    return _delivered("stack", _joined("stack", slices, axis, dtype, casting), out, casting)


@fast_path("*arrays", scalars=False)
def vstack(
    arrays: Sequence[ArrayLike], /, *, dtype: DTypeLike | None = None, casting: str = "same_kind"
) -> ndarray:
    """Stack arrays under one another, along axis 0, with 1-d arrays as rows.

    See ``concat``.

    Parameters
    ----------
    arrays : sequence of array_like
        At least one array. The shapes are equal except along that axis.
    dtype : dtype_like, optional
        Dtype of the result. The default is the common dtype of the arrays.
    casting : str, default "same_kind"
        NumPy's rule for the conversion to that dtype.

    Returns
    -------
    ndarray
        New array.

    Raises
    ------
    ValueError
        The shapes do not fit each other.

    Notes
    -----
    The gradient of each argument is its part of g.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.vstack([cm.asarray([1, 2]), cm.asarray([3, 4])])
    array([[1, 2],
           [3, 4]], device='cpu')
    """
    rows = [atleast_2d(x) for x in _inputs("vstack", arrays)]
    return _joined("vstack", rows, 0, dtype, casting)


@fast_path("*arrays", scalars=False)
def hstack(
    arrays: Sequence[ArrayLike], /, *, dtype: DTypeLike | None = None, casting: str = "same_kind"
) -> ndarray:
    """Stack arrays side by side, along axis 1, or along axis 0 if they are 1-d.

    See ``concat``.

    Parameters
    ----------
    arrays : sequence of array_like
        At least one array. The shapes are equal except along that axis.
    dtype : dtype_like, optional
        Dtype of the result. The default is the common dtype of the arrays.
    casting : str, default "same_kind"
        NumPy's rule for the conversion to that dtype.

    Returns
    -------
    ndarray
        New array.

    Raises
    ------
    ValueError
        The shapes do not fit each other.

    Notes
    -----
    The gradient of each argument is its part of g.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.hstack([cm.asarray([1, 2]), cm.asarray([3])])
    array([1, 2, 3], device='cpu')
    """
    inputs = [atleast_1d(x) for x in _inputs("hstack", arrays)]
    return _joined("hstack", inputs, 0 if inputs[0].ndim == 1 else 1, dtype, casting)


@fast_path("x", scalars=False)
def unstack(x: ArrayLike, /, axis: int = 0) -> tuple[ndarray, ...]:
    """Return views of the slices of ``x`` along an axis, without that axis.

    Parameters
    ----------
    x : array_like
        Array of at least.
    axis : int, default 0
        Axis of the operation.

    Returns
    -------
    tuple of ndarray
        Views of the slices.

    Raises
    ------
    ValueError
        The axis is out of bounds.

    Notes
    -----
    The gradient stacks those of the slices.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.unstack(cm.asarray([[1, 2], [3, 4]]))
    (array([1, 2], device='cpu'), array([3, 4], device='cpu'))
    """
    x = require("unstack", x)
    axis = normalize_axis("unstack", axis, x.ndim)
    before = [slice(None)] * axis
    return tuple([view_of(x, (*before, i)) for i in range(x.shape[axis])])  # type: ignore


@fast_path("x", scalars=False)
def array_split(
    x: ArrayLike, /, indices_or_sections: int | Sequence[int], axis: int = 0
) -> list[ndarray]:
    """Split an array along an axis into parts of nearly equal size.

    The parts are views. The first ones are longer if the sizes differ. Alternatively the array is
    split before given indices.

    Parameters
    ----------
    x : array_like
        Array of at least.
    indices_or_sections : int or sequence of int
        Number of parts, or the indices before which the array is split.
    axis : int, default 0
        Axis along which the array is split.

    Returns
    -------
    list of ndarray
        Views of the parts.

    Raises
    ------
    ValueError
        The number of parts is 0, or the axis is out of bounds.

    Notes
    -----
    The gradient joins those of the parts.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.array_split(cm.arange(5), 2)
    [array([0, 1, 2], device='cpu'), array([3, 4], device='cpu')]
    """
    return _cut("array_split", x, indices_or_sections, axis, even=False)


@fast_path("x", scalars=False)
def split(
    x: ArrayLike, /, indices_or_sections: int | Sequence[int], axis: int = 0
) -> list[ndarray]:
    """Split an array along an axis into parts of equal size, or before given indices.

    The parts are views.

    Parameters
    ----------
    x : array_like
        Array of at least.
    indices_or_sections : int or sequence of int
        Number of parts, or the indices before which the array is split.
    axis : int, default 0
        Axis along which the array is split.

    Returns
    -------
    list of ndarray
        Views of the parts.

    Raises
    ------
    ValueError
        The axis cannot be divided evenly, or it is out of bounds.

    Notes
    -----
    The gradient joins those of the parts.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.split(cm.arange(6), [1, 3])
    [array([0], device='cpu'), array([1, 2], device='cpu'), array([3, 4, 5], device='cpu')]
    """
    return _cut("split", x, indices_or_sections, axis, even=True)


def _cut(name: str, x: Any, sections: Any, axis: int, even: bool) -> list[ndarray]:
    x = require(name, x)
    size = x.shape[axis := normalize_axis(name, axis, x.ndim)]
    if isinstance(sections, Sequence) or np.ndim(sections) > 0:
        at = [0, *_integers(name, "places", sections), size]
    else:
        (count,) = _integers(name, "a number of parts", [sections])
        if count <= 0:
            raise ValueError(f"{name}: wants at least one part, got {count}")
        if even and size % count:
            raise ValueError(
                f"{name}: axis {axis} of shape {x.shape} cannot be divided into {count} equal parts"
            )
        each, more = divmod(size, count)
        at = [0, *itertools.accumulate([each + 1] * more + [each] * (count - more))]
    return [span(x, axis, start, stop) for start, stop in itertools.pairwise(at)]


def _integers(name: str, what: str, given: Any) -> list[int]:
    try:
        return [operator.index(i) for i in given]
    except TypeError:
        raise TypeError(f"{name}: wants {what} as integers, got {given!r:.80}") from None


# -------------------- rearranging


@fast_path("x", scalars=False)
def roll(x: ArrayLike, /, shift: int | Sequence[int], axis: Axes = None) -> ndarray:
    """Shift the elements by ``shift`` positions in a copy.

    Elements that are shifted beyond the end reappear at the start.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    shift : int or sequence of int
        Number of positions, one for all axes or one for each axis.
    axis : int or sequence of int, optional
        Axis or axes of the shifts. None rolls the flattened array by the sum of the shifts.

    Returns
    -------
    ndarray
        New array.

    Raises
    ------
    ValueError
        The numbers of shifts and axes do not match.
    TypeError
        A shift is not an integer.

    Notes
    -----
    The gradient is rolled back.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.roll(cm.arange(5), 2)
    array([3, 4, 0, 1, 2], device='cpu')
    """
    x = require("roll", x)
    if isinstance(shift, ndarray | np.ndarray):
        shift = shift.tolist()
    if axis is None:
        return reshape(roll(ravel(x), shift, axis=0), x.shape)
    axes = [
        normalize_axis("roll", a, x.ndim)
        for a in (axis if isinstance(axis, tuple | list) else (axis,))
    ]
    steps: list[Any] = list(shift) if isinstance(shift, tuple | list) else [shift]
    if len(steps) == 1:
        steps *= len(axes)
    if len(axes) == 1:
        axes *= len(steps)
    if len(steps) != len(axes):
        raise ValueError(f"roll: {len(steps)} shifts do not match {len(axes)} axes")
    totals: dict[int, int] = {}
    for a, step in zip(axes, steps, strict=True):
        try:
            totals[a] = totals.get(a, 0) + (
                int(step) if hasattr(step, "__int__") else operator.index(step)
            )
        except (OverflowError, TypeError, ValueError):  # an array, or no finite number
            raise TypeError(f"roll: shifts must be integers, got {shift!r:.80}") from None
    moving = {
        a: step % x.shape[a] for a, step in totals.items() if x.shape[a] and step % x.shape[a]
    }
    if not moving:
        return _copy(x)
    ((a, step), *others) = moving.items()
    if traced() or x._layout.device == TRACED:
        return _rolled(x, moving)  # whose neighbours in a program know what it reads
    if others or a and max(x.shape[:a]) > 1:
        return _rolled(x, moving)
    parts = [span(x, a, x.shape[a] - step, x.shape[a]), span(x, a, 0, x.shape[a] - step)]
    return _joined("roll", parts, a)


def _rolled(x: ndarray, moving: dict[int, int]) -> ndarray:
    """x rolled along some axes, three at a time."""
    if len(moving) > 3:
        first = dict(itertools.islice(moving.items(), 3))
        rest = {a: step for a, step in moving.items() if a not in first}
        return _rolled(_rolled(x, first), rest)
    return _roll(x, shifts=tuple([moving.get(a, 0) for a in range(x.ndim)]))


@fast_path("x", scalars=False)
def tile(x: ArrayLike, /, reps: int | Sequence[int]) -> ndarray:
    """Lay copies of ``x`` side by side, ``reps`` along each axis.

    New axes are put in front if there are more repetitions than axes.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    reps : int or sequence of int
        Number of repetitions along each axis, one or several, >= 0.

    Returns
    -------
    ndarray
        New array.

    Raises
    ------
    ValueError
        A number of repetitions is negative.

    Notes
    -----
    The gradient is g summed over the copies of each element.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.tile(cm.asarray([1, 2]), (2, 2))
    array([[1, 2, 1, 2],
           [1, 2, 1, 2]], device='cpu')
    """
    x = require("tile", x)
    counts = shapes.normalize_shape("tile", int(reps) if type(reps) is bool else reps)
    ndim = max(len(counts), x.ndim)
    counts = (1,) * (ndim - len(counts)) + counts
    sizes = (1,) * (ndim - x.ndim) + x.shape
    pairs = list(zip(counts, sizes, strict=True))
    spread = _spread(x, [axis for c, n in pairs for axis in ((1, c), (n, n))])
    return reshape(spread, tuple([c * n for c, n in pairs]))


@fast_path("x", scalars=False)
def repeat(x: ArrayLike, /, repeats: ArrayLike, axis: int | None = None) -> ndarray:
    """Each element (or slice along ``axis``) several times in a row.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    repeats : array_like
        Number of repetitions, one for all elements or one for each element along the axis.
    axis : int, optional
        Axis of the operation. None flattens `x` first.

    Returns
    -------
    ndarray
        New array.

    Raises
    ------
    ValueError
        A number of repetitions is negative, or their count does not fit.
    TypeError
        A number of repetitions is not an integer.

    Notes
    -----
    The gradient is g summed over the copies of each element.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.repeat(cm.asarray([1, 2, 3]), [1, 0, 2])
    array([1, 3, 3], device='cpu')
    """
    x = require("repeat", x)
    if axis is None or not x.ndim and axis in (0, -1):  # NumPy lets a number be a vector here
        x, axis = ravel(x), 0
    axis = normalize_axis("repeat", axis, x.ndim)
    if type(repeats) is int and repeats >= 0:
        return _each(x, repeats, axis)
    counts = repeats.to_numpy() if isinstance(repeats, ndarray) else np.asarray(repeats)
    if counts.dtype.kind not in "iub":
        raise TypeError(f"repeat: repeats must be integers, got {counts.dtype}")
    counts = counts.astype(np.int64) if counts.dtype.kind == "b" else counts
    if counts.size and counts.min() < 0:
        raise ValueError(f"repeat: repeats cannot be negative, got {counts.min()}")
    if counts.size == 1:
        return _each(x, int(counts.reshape(())[()]), axis)
    if counts.shape != (x.shape[axis],):
        raise ValueError(
            f"repeat: repeats of shape {counts.shape} do not fit axis {axis} of shape {x.shape}"
        )
    from .index import take

    return take(x, asarray(np.repeat(np.arange(x.shape[axis]), counts), device=x.device), axis=axis)


def _each(x: ndarray, count: int, axis: int) -> ndarray:
    """Every slice along an axis so many times in a row."""
    axes = [(n, n) for n in x.shape]
    axes.insert(axis + 1, (1, count))
    first, rest = x.shape[:axis], x.shape[axis + 1 :]
    return reshape(_spread(x, axes), (*first, x.shape[axis] * count, *rest))


def _spread(x: ndarray, axes: Sequence[tuple[int, int]]) -> ndarray:
    """A copy of x as an array of these axes: (length in x, length after broadcasting). Without axes
    of length 1: twice as many as x has may be more than an array can have."""
    axes = [axis for axis in axes if axis != (1, 1)]
    apart = reshape(x, tuple([n for n, _ in axes]))
    together = tuple([n for _, n in axes])
    return _copy(_broadcast(apart, shape=together, old=apart.shape))
