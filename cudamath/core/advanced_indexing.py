"""The normal form of keys with index arrays and masks."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from .indexing import _invalid, _is_integer, _position, _too_many, basic
from .shapes import Shape


class Advanced(NamedTuple):
    """The normal form of a key with index arrays.

    Attributes
    ----------
    shape, strides, offset
        The view that the arrays index; the offset in bytes from the first element.
    arrays
        The index arrays, in order: integers of any shape, or a boolean mask whose k dimensions
        cover k neighbouring axes of the view (k >= 1).
    axes
        For each array the first axis of the view that it indexes.
    position
        The dimension of the result where the common shape of the arrays begins. The other axes of
        the view keep their order around it.
    truths
        Which of the arrays are the literals True or False: masks of one element.
    """

    shape: Shape
    strides: Shape
    offset: int
    arrays: tuple[Any, ...]
    axes: Shape
    position: int

    @property
    def indexed(self) -> Shape:
        """All axes of the view that the arrays index."""
        widths = [a.ndim if _is_mask(a) else 1 for a in self.arrays]
        return tuple(
            axis + i for axis, width in zip(self.axes, widths, strict=True) for i in range(width)
        )


def result_shape(index: Advanced, common: Shape) -> Shape:
    """The shape of ``x[key]``, where ``common`` is the broadcast shape of the index arrays (each
    mask replaced by the positions of its true elements)."""
    indexed = set(index.indexed)
    rest = tuple([n for axis, n in enumerate(index.shape) if axis not in indexed])
    return rest[: index.position] + common + rest[index.position :]


def advanced(shape: Shape, strides: Shape, key: Any) -> Advanced:
    """The normal form of any key; see ``Advanced``. Lists become NumPy arrays; other arrays are
    not converted.

    >>> index = advanced((4, 5, 6), (120, 24, 4), (slice(1, None), [0, 2], 3))
    >>> index.shape, index.offset, index.axes, index.position
    ((3, 5), 132, (1,), 1)
    """
    items = [_item(item) for item in (key if type(key) is tuple else (key,))]
    count = sum(_axes_taken(item) for item in items)
    if count > len(shape):
        raise _too_many(shape, count)
    ellipses = sum(item is Ellipsis for item in items)
    if ellipses > 1:
        raise IndexError("index: an index can only have a single ellipsis ('...')")
    if not ellipses:
        items.append(Ellipsis)

    view_key: list[Any] = []  # the key with a full slice for every axis that an array indexes
    arrays: list[Any] = []
    axes: list[int] = []
    kept = axis = 0  # axes of the view and of x so far
    run_starts: list[
        int
    ] = []  # result dimension at which each run of neighbouring arrays and integers starts
    indexed = 0  # view axes that arrays index
    in_run = False
    for item in items:
        takes = _axes_taken(item)
        if item is None or item is Ellipsis or type(item) is slice:
            in_run = False
            view_key.append(item)
            kept += 1 if item is not Ellipsis else len(shape) - count
            axis += takes if item is not Ellipsis else len(shape) - count
            continue
        if not in_run:
            run_starts.append(kept - indexed)
            in_run = True
        if type(item) is int:
            view_key.append(_position(item, axis, shape[axis]))
        else:
            if not item.ndim and _is_mask(item):  # True or False: a mask over a new axis of size 1
                item = item.reshape(1)
                view_key.append(None)
                width = 1
            else:
                if _is_mask(item):
                    _check_mask(item, axis, shape)
                view_key += [slice(None)] * takes
                width = takes
            arrays.append(item)
            axes.append(kept)
            kept += width
            indexed += width
        axis += takes
    view = basic(shape, strides, tuple(view_key))
    assert view is not None
    position = run_starts[0] if len(run_starts) == 1 else 0
    return Advanced(*view, tuple(arrays), tuple(axes), position)


def _is_mask(array: Any) -> bool:
    return array.dtype.kind == "b"


def _item(item: Any) -> Any:
    """One part of a key as an int, None, Ellipsis, a slice, or an array of integers or booleans."""
    if item is None or item is Ellipsis or type(item) is slice:
        return item
    if _is_integer(item):
        return operator.index(item)
    if isinstance(item, bool | list | tuple | range):
        array = np.asarray(item)
        if not array.size and array.dtype.kind == "f":  # [] has no type of its own
            array = array.astype(np.intp)
        item = array
    elif isinstance(item, type) or not (
        isinstance(getattr(item, "dtype", None), np.dtype) and hasattr(item, "reshape")
    ):
        item = _taken(item)
    if item.dtype.kind not in "iub":
        if not item.ndim:
            raise _invalid(item)
        raise IndexError(
            "index: arrays used as indices must be of integer (or boolean) type, got "
            f"{item.dtype} of shape {item.shape}"
        )
    return item


def _taken(item: Any) -> Any:
    """An array of another library (torch's have dtypes of their own, pandas' no reshape) as one of
    ours or of NumPy's."""
    if not isinstance(item, type):
        if hasattr(item, "__dlpack__") or hasattr(item, "__cuda_array_interface__"):
            from .asarray import asarray

            return asarray(item, name="index")
        if hasattr(item, "__array__") or hasattr(item, "__array_interface__"):
            return np.asarray(item)
    raise _invalid(item)


def _axes_taken(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    if type(item) in (int, slice) or not _is_mask(item):
        return 1
    return item.ndim


def _check_mask(mask: Any, axis: int, shape: Shape) -> None:
    for i, size in enumerate(mask.shape):
        if size and size != shape[axis + i]:  # NumPy lets no elements fit any axis
            raise IndexError(
                f"index: boolean index did not match indexed array along axis {axis + i}; size of "
                "axis is "
                f"{shape[axis + i]} but size of corresponding boolean axis is {size}"
            )
