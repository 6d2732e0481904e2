"""More ways to join, cut and turn arrays, by NumPy's names: what ``join.py`` and ``shape.py`` do,
along given axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core import asarray as core_asarray
from ..core import shapes
from ..core.array import ndarray
from ..core.dispatch.checks import MISTAKES, as_of, coerce, members, require, speaks_for
from ..core.dispatch.fast_path import fast_path
from ..core.shapes import normalize_axes, normalize_axis, normalize_shape
from ..core.typing import ArrayLike, DTypeLike, Index
from ..core.user_warnings import warn
from . import reduce
from .creation import asarray, ones, zeros
from .index import take
from .join import _cut, _inputs, _joined, concat, tile
from .masks import nonzero
from .shape import (
    astype,
    atleast_2d,
    broadcast_to,
    diagonal,
    expand_dims,
    flip,
    moveaxis,
    ravel,
    reshape,
    span,
    swapaxes,
)

__all__ = [
    "append",
    "atleast_3d",
    "block",
    "broadcast_arrays",
    "column_stack",
    "cross",
    "delete",
    "dsplit",
    "dstack",
    "fliplr",
    "flipud",
    "hsplit",
    "insert",
    "resize",
    "rollaxis",
    "rot90",
    "trace",
    "trim_zeros",
    "vsplit",
]


@fast_path("*arrays", rare=("subok",), scalars=False)
def broadcast_arrays(*arrays: ArrayLike, subok: bool = False) -> tuple[ndarray, ...]:
    """Return views of the arrays, all repeated to their common shape.

    Parameters
    ----------
    *arrays : array_like
        Arrays of any shapes and dtypes.
    subok : bool, default False
        Accepted for compatibility with NumPy. There are no subclasses.

    Returns
    -------
    tuple of ndarray
        One view for each array.

    Raises
    ------
    ValueError
        The shapes do not broadcast.

    Notes
    -----
    The gradient is summed over the repeated axes.

    Examples
    --------
    >>> import cudamath as cm
    >>> [a.shape for a in cm.broadcast_arrays(cm.zeros((3, 1)), cm.zeros(4))]
    [(3, 4), (3, 4)]
    """
    inputs = [require("broadcast_arrays", x) for x in arrays]
    shape = shapes.broadcast_shapes("broadcast_arrays", *[x.shape for x in inputs])
    return tuple([broadcast_to(x, shape) for x in inputs])


@fast_path("*arrays", scalars=False)
def atleast_3d(*arrays: ArrayLike) -> Any:
    """Each array with at least three dimensions: a vector as (1, n, 1), a matrix as (n, m, 1).

    Parameters
    ----------
    *arrays : array_like
        Arrays of any shape and dtype.

    Returns
    -------
    ndarray or tuple of ndarray
        A view, or the array itself. Several arrays give a tuple.

    Notes
    -----
    The gradient is g in the old shape.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.atleast_3d(cm.zeros(3)).shape
    (1, 3, 1)
    """
    out = []
    for a in arrays:
        x = require("atleast_3d", a)
        shape = {0: (1, 1, 1), 1: (1, *x.shape, 1), 2: (*x.shape, 1)}.get(x.ndim, x.shape)
        out.append(reshape(x, shape))
    return out[0] if len(out) == 1 else tuple(out)


@fast_path("x", scalars=False)
def rot90(x: ArrayLike, /, k: int = 1, axes: Sequence[int] = (0, 1)) -> ndarray:
    """Return a view rotated by ``k`` quarter turns in the plane of two axes.

    The rotation is from the first axis towards the second.

    Parameters
    ----------
    x : array_like
        Array of at least.
    k : int, default 1
        Number of quarter turns.
    axes : sequence of int, default (0, 1)
        Two different axes.

    Returns
    -------
    ndarray
        View of the elements.

    Raises
    ------
    ValueError
        The axes are not two different axes.
    TypeError
        `k` or an axis is not an integer.

    Notes
    -----
    The gradient is rotated back.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.rot90(cm.asarray([[1, 2], [3, 4]]))
    array([[2, 4],
           [1, 3]], device='cpu')
    """
    x = require("rot90", x)
    plane = normalize_axes("rot90", members("rot90", axes, "two axes"), x.ndim)
    if len(plane) != 2:
        raise ValueError(f"rot90: axes must be two, got {axes}")
    k = shapes.as_integer("rot90", "k", k) % 4
    if k == 1:
        return swapaxes(flip(x, axis=plane[1]), *plane)
    if k == 2:
        return flip(x, axis=plane)
    if k == 3:
        return flip(swapaxes(x, *plane), axis=plane[1])
    return flip(x, axis=())


@fast_path("*arrays", scalars=False)
def column_stack(arrays: Sequence[ArrayLike], /) -> ndarray:
    """Return vectors as the columns of a matrix; matrices side by side.

    Parameters
    ----------
    arrays : sequence of array_like
        At least one array, of 1 or 2 dimensions and equally many rows.

    Returns
    -------
    ndarray
        Matrix of the common dtype.

    Raises
    ------
    ValueError
        The shapes do not fit each other, or there is no array.

    Notes
    -----
    The gradient of each argument is its part of g.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.column_stack([[1, 2], [3, 4]]).tolist()
    [[1, 3], [2, 4]]
    """
    columns = [
        expand_dims(x, axis=1) if x.ndim == 1 else atleast_2d(x)
        for x in _inputs("column_stack", arrays)
    ]
    return _joined("column_stack", columns, 1)


@fast_path("*arrays", scalars=False)
def dstack(arrays: Sequence[ArrayLike], /) -> ndarray:
    """Stack arrays in depth, along axis 2.

    Arrays of fewer dimensions are extended as by ``atleast_3d``.

    Parameters
    ----------
    arrays : sequence of array_like
        At least one array. The shapes are equal except along axis 2.

    Returns
    -------
    ndarray
        Array of the common dtype.

    Raises
    ------
    ValueError
        The shapes do not fit each other, or there is no array.

    Notes
    -----
    The gradient of each argument is its part of g.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.dstack([[1, 2], [3, 4]]).tolist()
    [[[1, 3], [2, 4]]]
    """
    return _joined("dstack", [atleast_3d(x) for x in _inputs("dstack", arrays)], 2)


@fast_path("x", scalars=False)
def hsplit(x: ArrayLike, /, indices_or_sections: int | Sequence[int]) -> list[ndarray]:
    """Split an array along axis 1 (vectors: axis 0), as ``split``.

    Parameters
    ----------
    x : array_like
        Array of at least.
    indices_or_sections : int or sequence of int
        Number of parts, or the indices before which the array is split.

    Returns
    -------
    list of ndarray
        Views of the parts.

    Raises
    ------
    ValueError
        The number of dimensions does not fit, or the parts would have unequal sizes.

    Notes
    -----
    The gradient is that of `split`.

    Examples
    --------
    >>> import cudamath as cm
    >>> [a.tolist() for a in cm.hsplit([1, 2, 3, 4], 2)]
    [[1, 2], [3, 4]]
    """
    x = require("hsplit", x)
    return _cut("hsplit", x, indices_or_sections, 1 if x.ndim > 1 else 0, even=True)


@fast_path("x", scalars=False)
def vsplit(x: ArrayLike, /, indices_or_sections: int | Sequence[int]) -> list[ndarray]:
    """Split an array of at least 2 dimensions along axis 0, as ``split``.

    Parameters
    ----------
    x : array_like
        Array of at least 2 dimensions.
    indices_or_sections : int or sequence of int
        Number of parts, or the indices before which the array is split.

    Returns
    -------
    list of ndarray
        Views of the parts.

    Raises
    ------
    ValueError
        The number of dimensions does not fit, or the parts would have unequal sizes.

    Notes
    -----
    The gradient is that of `split`.

    Examples
    --------
    >>> import cudamath as cm
    >>> [a.tolist() for a in cm.vsplit([[1, 2], [3, 4]], 2)]
    [[[1, 2]], [[3, 4]]]
    """
    x = require("vsplit", x)
    if x.ndim < 2:
        raise ValueError(f"vsplit: wants at least 2 dimensions, got shape {x.shape}")
    return _cut("vsplit", x, indices_or_sections, 0, even=True)


@fast_path("x", scalars=False)
def dsplit(x: ArrayLike, /, indices_or_sections: int | Sequence[int]) -> list[ndarray]:
    """Split an array along axis 2, as ``split``.

    Parameters
    ----------
    x : array_like
        Array of at least.
    indices_or_sections : int or sequence of int
        Number of parts, or the indices before which the array is split.

    Returns
    -------
    list of ndarray
        Views of the parts.

    Raises
    ------
    ValueError
        The number of dimensions does not fit, or the parts would have unequal sizes.

    Notes
    -----
    The gradient is that of `split`.

    Examples
    --------
    >>> import cudamath as cm
    >>> [a.shape for a in cm.dsplit(cm.zeros((2, 3, 4)), 2)]
    [(2, 3, 2), (2, 3, 2)]
    """
    x = require("dsplit", x)
    if x.ndim < 3:
        raise ValueError(f"dsplit: wants at least 3 dimensions, got shape {x.shape}")
    return _cut("dsplit", x, indices_or_sections, 2, even=True)


def block(arrays: Any) -> ndarray:
    """An array put together from nested lists of blocks: the innermost lists along the last axis.

    Parameters
    ----------
    arrays : object
        Arrays, or lists of arrays, all nested to the same depth.

    Returns
    -------
    ndarray
        Array of the common dtype.

    Raises
    ------
    ValueError
        The lists are nested to different depths, or the shapes do not fit each other.

    Notes
    -----
    The gradient of each argument is its part of g.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.block([[cm.eye(2), cm.zeros((2, 1))], [cm.ones((1, 3))]]).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
    """

    def depth(item: Any) -> int:
        if not isinstance(item, list):
            return 0
        if not item:
            raise ValueError("block: a list is empty")
        depths = {depth(part) for part in item}
        if len(depths) > 1:
            raise ValueError(
                f"block: lists are nested {sorted(depths)} deep; they must be equally deep"
            )
        return 1 + depths.pop()

    levels = depth(arrays)

    def leaves(item: Any) -> list[Any]:
        return (
            [leaf for part in item for leaf in leaves(part)] if isinstance(item, list) else [item]
        )

    def nesting(item: Any) -> Any:
        return tuple(map(nesting, item)) if isinstance(item, list) else None

    return _assembled(tuple(coerce("block", tuple(leaves(arrays)))), nesting(arrays), levels)


@fast_path("*parts", scalars=False)
def _assembled(parts: tuple[ndarray, ...], nesting: Any, levels: int) -> ndarray:
    """Blocks joined as they were nested: nesting has None in place of each of them."""
    ndim = max([levels, *[x.ndim for x in parts]])
    full = iter([reshape(x, (1,) * (ndim - x.ndim) + x.shape) for x in parts])

    def joined(item: Any, axis: int) -> ndarray:
        if item is None:
            return next(full)
        return _joined("block", [joined(part, axis + 1) for part in item], axis)

    return joined(nesting, ndim - levels)


@fast_path("x", "values", scalars=False)
def append(x: ArrayLike, /, values: ArrayLike, axis: int | None = None) -> ndarray:
    """A new array with values after x's own.

    Parameters
    ----------
    x, values : array_like
        Arrays of equal shape except along the axis.
    axis : int, optional
        Axis along which the values are appended. None flattens both arrays first.

    Returns
    -------
    ndarray
        Array of the common dtype.

    Raises
    ------
    ValueError
        The shapes do not fit each other, or the axis is out of range.

    Notes
    -----
    The gradient of each argument is its part of g.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.append([1, 2], [[3], [4]]).tolist()
    [1, 2, 3, 4]
    """
    return _joined("append", coerce("append", (x, values)), axis)


def _line(name: str, x: Any, axis: int | None) -> tuple[ndarray, int]:
    x = require(name, x)
    if axis is None:
        return ravel(x), 0
    return x, normalize_axis(name, axis, x.ndim)


def delete(x: ArrayLike, /, obj: Index, axis: int | None = None) -> ndarray:
    """A new array without some slices along an axis.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    obj : index
        Slices to delete: an index, a slice, several indices or a bool vector.
    axis : int, optional
        Axis of the operation. None flattens `x` first.

    Returns
    -------
    ndarray
        Array of x's dtype.

    Raises
    ------
    IndexError
        An index is out of range, or an index is not an integer.
    ValueError
        The axis is out of range.

    Notes
    -----
    The gradient is g at the slices that stay.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.delete([10, 20, 30, 40], [0, 2]).tolist()
    [20, 40]
    """
    x, axis = _line("delete", x, axis)
    n = x.shape[axis]
    if isinstance(obj, slice):
        which = np.arange(n)[obj] if obj.step not in (None, 1) else None
        start, stop, _ = obj.indices(n)
        gone = [(start, max(start, stop))]
    else:
        which = obj.to_numpy() if isinstance(obj, ndarray) else np.asarray(obj)
        if which.dtype == np.bool_:
            if which.shape != (n,):
                raise ValueError(
                    f"delete: boolean index of shape {which.shape} does not fit axis {axis} of "
                    f"shape {x.shape}"
                )
            which = np.flatnonzero(which)
        which = which.astype(np.intp) if not which.size else which
        if which.dtype.kind not in "iu":
            raise IndexError(f"delete: wants integers, a slice or a bool vector, got {which.dtype}")
        if which.size and (which.min() < -n or which.max() >= n):
            raise IndexError(
                f"delete: an index is out of bounds for axis {axis} of shape {x.shape}"
            )
        gone = []
    if which is not None:
        which = np.unique(np.where(which < 0, which + n, which))
        gone = [(int(i), int(i) + 1) for i in which[:_FEW]]
    if which is None or which.size < _FEW:  # what stays is a few slices
        ends = [0, *[end for _, end in gone]]
        starts = [*[start for start, _ in gone], n]
        parts = [span(x, axis, a, b) for a, b in zip(ends, starts, strict=True) if b > a]
        return concat(parts, axis=axis) if parts else span(x, axis, 0, 0)
    keep = ones(n, np.bool_, device=x.device)
    keep[asarray(which, device=x.device)] = False
    return take(x, nonzero(keep)[0], axis=axis)


_FEW = 16


def insert(x: ArrayLike, /, obj: Index, values: ArrayLike, axis: int | None = None) -> ndarray:
    """A new array with values put before some positions along an axis.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    obj : index
        Slices of `x` before which values are inserted: an index, a slice or several indices.
    values : array_like
        Scalar or array, cast to x's dtype and broadcast to the slices.
    axis : int, optional
        Axis of the operation. None flattens `x` first.

    Returns
    -------
    ndarray
        Array of x's dtype.

    Raises
    ------
    IndexError
        An index is out of range, or an index is not an integer.
    TypeError
        A position is not an integer.
    ValueError
        The shapes do not fit each other.

    Notes
    -----
    The gradient is g at each slice's new place.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.insert([1, 2, 3], [1, 3], [10, 20]).tolist()
    [1, 10, 2, 3, 20]
    """
    x, axis = _line("insert", x, axis)
    n = x.shape[axis]
    if isinstance(obj, slice):
        places = np.arange(*obj.indices(n))
    else:
        places = np.asarray(obj.to_numpy() if isinstance(obj, ndarray) else obj)
        places = np.flatnonzero(places) if places.dtype.kind == "b" else places
    if places.size and places.dtype.kind not in "iu":
        raise (IndexError if places.ndim else TypeError)(
            f"insert: wants integers, a slice or bools, got {places.dtype}"
        )
    scalar = places.ndim == 0
    places = places.reshape(-1).astype(np.int64)
    if places.size and (places.min() < -n or places.max() > n):
        raise IndexError(
            f"insert: index {places.tolist()} is out of bounds for axis {axis} of shape {x.shape}"
        )
    places = np.where(places < 0, places + n, places)
    if hasattr(values, "dtype"):
        given = astype(coerce("insert", (x, values))[1], x.dtype, copy=False)
    else:  # Python's numbers are what they are: 300 is no uint8
        given = core_asarray.asarray(values, x.dtype, x.device, name="insert")
    if places.size == 1 and given.ndim <= x.ndim:  # all values there, as many as there are
        given = reshape(given, (1,) * (x.ndim - given.ndim) + given.shape)
        given = moveaxis(given, 0, axis) if scalar else given
        places = np.repeat(places, given.shape[axis])
    order = np.argsort(places, kind="stable")
    shape = (*x.shape[:axis], places.size, *x.shape[axis + 1 :])
    try:
        expanded = (
            given
            if given.shape == shape
            else reshape(given, (1,) * (x.ndim - given.ndim) + given.shape)
        )
        expanded = broadcast_to(expanded, shape)
    except ValueError:
        raise ValueError(
            f"insert: values of shape {given.shape} do not fit {places.size} places along axis "
            f"{axis} of shape "
            f"{x.shape}"
        ) from None
    # both one after another, then picked in the new order
    at = np.empty(n + places.size, np.int64)
    new = places[order] + np.arange(places.size)
    old = np.ones(at.size, bool)
    old[new] = False
    at[new], at[old] = n + order, np.arange(n)
    return take(concat([x, expanded], axis=axis), asarray(at, device=x.device), axis=axis)


@fast_path("x", scalars=False)
@speaks_for("resize")
def resize(x: ArrayLike, /, new_shape: int | Sequence[int]) -> ndarray:
    """A new array of a shape, filled with x's elements in C order, again and again.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    new_shape : int or sequence of int
        Shape of the result.

    Returns
    -------
    ndarray
        New array.

    Raises
    ------
    ValueError
        A length is negative.

    Notes
    -----
    The gradient is g summed over the copies of each element.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.resize([1, 2, 3], (2, 4)).tolist()
    [[1, 2, 3, 1], [2, 3, 1, 2]]
    """
    x = ravel(require("resize", x))
    shape = normalize_shape("resize", new_shape)
    size = math.prod(shape)
    if not size or not x.size:
        return zeros(shape, x.dtype, device=x.device)
    return reshape(span(tile(x, -(-size // x.size)), 0, 0, size), shape)


@fast_path("x", scalars=False)
def fliplr(x: ArrayLike, /) -> ndarray:
    """A view with axis 1 reversed.

    Parameters
    ----------
    x : array_like
        Array of at least.

    Returns
    -------
    ndarray
        View of the elements.

    Raises
    ------
    ValueError
        The array has fewer dimensions.

    Notes
    -----
    The gradient is flipped back.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fliplr([[1, 2], [3, 4]]).tolist()
    [[2, 1], [4, 3]]
    """
    x = require("fliplr", x)
    if x.ndim < 2:
        raise ValueError(f"fliplr: wants at least 2 dimensions, got shape {x.shape}")
    return flip(x, axis=1)


@fast_path("x", scalars=False)
def flipud(x: ArrayLike, /) -> ndarray:
    """A view with axis 0 reversed.

    Parameters
    ----------
    x : array_like
        Array of at least.

    Returns
    -------
    ndarray
        View of the elements.

    Raises
    ------
    ValueError
        The array has no dimensions.

    Notes
    -----
    The gradient is flipped back.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.flipud([[1, 2], [3, 4]]).tolist()
    [[3, 4], [1, 2]]
    """
    x = require("flipud", x)
    if not x.ndim:
        raise ValueError(f"flipud: wants at least 1 dimension, got shape {x.shape}")
    return flip(x, axis=0)


@fast_path("x", scalars=False)
def rollaxis(x: ArrayLike, /, axis: int, start: int = 0) -> ndarray:
    """A view with an axis moved before another.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    axis : int
        Axis of the operation.
    start : int, default 0
        Axis before which the axis is placed.

    Returns
    -------
    ndarray
        View of the elements.

    Raises
    ------
    ValueError
        An axis is out of bounds.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.rollaxis(cm.zeros((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    x = require("rollaxis", x)
    axis = normalize_axis("rollaxis", axis, x.ndim)
    start = start if start == x.ndim else normalize_axis("rollaxis", start, x.ndim)
    return moveaxis(x, axis, start - (axis < start))


def _planes(x: Any, offset: int, axis1: int, axis2: int) -> ndarray:
    """What `trace` sums along its last axis."""
    x, offset = require("trace", x), shapes.as_integer("trace", "offset", offset)
    if x.ndim < 2:
        raise ValueError(f"trace: wants at least 2 dimensions, got shape {x.shape}")
    return diagonal(x, offset, *normalize_axes("trace", (axis1, axis2), x.ndim))


@fast_path("x")
def trace(
    x: ArrayLike,
    /,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: ndarray | None = None,
) -> ndarray:
    """Sum the diagonal of the planes of two axes.

    ``cm.linalg.trace`` takes the last two axes.

    Parameters
    ----------
    x : array_like
        Array of at least.
    offset : int, default 0
        Number of the diagonal, > 0 above and < 0 below the main diagonal.
    axis1 : int, default 0
        Axes of the rows and of the columns.
    axis2 : int, default 1
        Axes of the rows and of the columns.
    dtype : dtype_like, optional
        Dtype of the result, in which the sum is computed (16-bit floats: in float32). The default
        is x's dtype, or int64 for bool and signed and uint64 for unsigned integers.
    out : ndarray, optional
        Array that receives the result.

    Returns
    -------
    ndarray
        Array of the sums.

    Raises
    ------
    ValueError
        The axes are not valid.

    Notes
    -----
    The gradient is g on the diagonal.

    Examples
    --------
    >>> import cudamath as cm
    >>> int(cm.trace([[1, 2], [3, 4]]))
    5
    """
    if dtype is not None or out is not None:
        try:
            return reduce.sum(_planes(x, offset, axis1, axis2), axis=-1, dtype=dtype, out=out)
        except MISTAKES as error:
            raise as_of("trace", error) from None
    return reduce.sum(_planes(x, offset, axis1, axis2), -1)


def trim_zeros(
    x: ArrayLike, /, trim: str = "fb", axis: int | Sequence[int] | None = None
) -> ndarray:
    """Return a view of an array without the zeros at its ends.

    Along each axis the first and last slices are removed as long as they are all 0.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    trim : str, default "fb"
        Ends that are trimmed: "f" the front, "b" the back, "fb" both.
    axis : int or sequence of int, optional
        Axis or axes of the operation. None takes all of them.

    Returns
    -------
    ndarray
        View of the elements.

    Raises
    ------
    ValueError
        `trim` is unknown, or the axis is out of range.

    Notes
    -----
    The call waits for the device.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.trim_zeros([0, 0, 1, 0, 2, 0]).tolist()
    [1, 0, 2]
    """
    x = require("trim_zeros", x)
    if not isinstance(trim, str) or trim.lower() not in ("f", "b", "fb", "bf"):
        raise ValueError(
            f"trim_zeros: trim is 'f', 'b' or 'fb', got {trim!r} for an array of shape {x.shape}"
        )
    filled, y = x != 0, x
    for i in normalize_axes("trim_zeros", axis, x.ndim):
        line = reduce.any(filled, tuple([j for j in range(x.ndim) if j != i]))
        if not line.size or not bool(reduce.any(line)):
            y = span(y, i, 0, 0)
            continue
        first = int(reduce.argmax(line)) if "f" in trim.lower() else 0
        last = line.size - (int(reduce.argmax(flip(line))) if "b" in trim.lower() else 0)
        y = span(y, i, first, last)
    return y


@fast_path("a", "b", scalars=False)
def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> ndarray:
    """Cross product of vectors of three elements.

    A vector of two lies in a plane: its third element is 0. Of two such vectors the result is the
    third element alone. As in NumPy this is deprecated.

    ``cm.linalg.cross`` is the array API's, with one axis for all.

    Parameters
    ----------
    a, b : array_like
        Numeric arrays, whose other axes broadcast.
    axisa, axisb, axisc : int, default -1
        Axis of the vectors in `a`, in `b` and in the result.
    axis : int, optional
        Axis that replaces all three of `axisa`, `axisb` and `axisc`.

    Returns
    -------
    ndarray
        Array of the common dtype.

    Raises
    ------
    TypeError
        The dtype is not supported.
    ValueError
        The shapes do not fit each other, or the axes are not valid.

    Notes
    -----
    The gradient is b x g for `a` and g x a for `b`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.cross([1, 0, 0], [0, 1, 0]).tolist()
    [0, 0, 1]
    """
    from .linalg.matrix_functions import cross as along_last

    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = coerce("cross", (a, b))
    x = moveaxis(a, normalize_axis("cross", axisa, a.ndim), -1)
    y = moveaxis(b, normalize_axis("cross", axisb, b.ndim), -1)
    sizes = {x.shape[-1], y.shape[-1]}
    if 2 in sizes and sizes <= {2, 3}:
        warn(
            "cross: vectors of 2 elements are deprecated; give them a third one, 0",
            DeprecationWarning,
        )
        if sizes == {2}:
            return x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0]
        x, y = (_in_space(v) for v in (x, y))
    out = along_last(x, y)
    return moveaxis(out, -1, normalize_axis("cross", axisc, out.ndim))


def _in_space(v: ndarray) -> ndarray:
    """Vectors along the last axis, those of two elements with a third one, 0."""
    if v.shape[-1] == 3:
        return v
    return concat([v, zeros((*v.shape[:-1], 1), v.dtype, device=v.device)], axis=-1)
