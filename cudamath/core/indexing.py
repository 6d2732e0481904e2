"""What ``x[key]`` means: NumPy's indexing rules, worked out on shapes and strides alone.

``basic(shape, strides, key)``
    For keys of integers, slices, ``...`` and ``None``: ``(shape, strides, byte offset)`` of the
    view, or None if the key holds an array, a list or a boolean and so needs a copy.
``advanced(shape, strides, key)``
    For every key: an ``Advanced`` in normal form. First a view (all slices, integers and new axes
    taken), then index arrays on some of the view's axes, then the place in the result where their
    common shape goes.

A 0-d integer array is an index array like any other: ``x[argmax(y)]`` copies, as NumPy's
``x[np.array(3)]`` does, and need not wait for a GPU to know the number. Mistakes are IndexErrors
with NumPy's text.
"""

import operator
from typing import Any

import numpy as np

from .shapes import Shape

__all__ = [
    "basic",
]


def basic(shape: Shape, strides: Shape, key: Any) -> tuple[Shape, Shape, int] | None:
    """The view that a basic key selects: ``(shape, strides, byte offset)``; None if the key is not
    basic.

    >>> basic((4, 6), (24, 4), (slice(1, None), 2))
    ((3,), (24,), 32)
    """
    kind = type(key)
    if kind is slice:  # the two commonest keys first: each line here is paid on every x[1:]
        if not shape:
            raise _too_many(shape, 1)
        start, stop, step = key.indices(shape[0])
        count = len(range(start, stop, step))
        stride = strides[0]
        return (count, *shape[1:]), (stride * step, *strides[1:]), start * stride if count else 0
    if kind is int:
        if not shape:
            raise _too_many(shape, 1)
        size = shape[0]
        if not -size <= key < size:
            raise _out_of_bounds(key, 0, size)
        return shape[1:], strides[1:], (key + size if key < 0 else key) * strides[0]
    if kind is not tuple:
        key = (key,)
    indexed = 0  # axes that the key indexes
    ellipsis = False
    for item in key:
        if item is Ellipsis:
            if ellipsis:
                raise IndexError("index: an index can only have a single ellipsis ('...')")
            ellipsis = True
        elif item is not None:
            if type(item) is not slice and not _is_integer(item):
                return None
            indexed += 1
    if indexed > len(shape):
        raise _too_many(shape, indexed)
    new_shape: list[int] = []
    new_strides: list[int] = []
    axis = offset = 0
    for item in key:
        if item is None:
            new_shape.append(1)
            new_strides.append(0)
        elif item is Ellipsis:
            end = axis + len(shape) - indexed
            new_shape += shape[axis:end]
            new_strides += strides[axis:end]
            axis = end
        else:
            if type(item) is slice:
                start, stop, step = item.indices(shape[axis])
                count = len(range(start, stop, step))
                new_shape.append(count)
                new_strides.append(strides[axis] * step)
                if count:
                    offset += start * strides[axis]
            else:
                offset += _position(item, axis, shape[axis]) * strides[axis]
            axis += 1
    return (*new_shape, *shape[axis:]), (*new_strides, *strides[axis:]), offset


# -------------------- the parts of a key


def _is_integer(item: Any) -> bool:
    """Python's and NumPy's integers; neither booleans, which select like masks, nor 0-d arrays."""
    if type(item) is int or isinstance(item, np.integer):
        return True
    return (
        hasattr(item, "__index__")
        and not hasattr(item, "dtype")
        and not isinstance(item, bool | type)
    )


def _position(item: Any, axis: int, size: int) -> int:
    i = operator.index(item)
    if not -size <= i < size:
        raise _out_of_bounds(i, axis, size)
    return i + size if i < 0 else i


def _out_of_bounds(i: int, axis: int, size: int) -> IndexError:
    return IndexError(f"index: index {i} is out of bounds for axis {axis} with size {size}")


def _too_many(shape: Shape, count: int) -> IndexError:
    return IndexError(
        f"index: too many indices for array: array is {len(shape)}-dimensional, but {count} were "
        "indexed"
    )


def _invalid(item: Any) -> IndexError:
    return IndexError(
        "index: only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer "
        "or boolean arrays "
        f"are valid indices, got {item!r}"
    )
