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
from typing import Any, NamedTuple

import numpy as np

from .shapes import Shape

__all__ = ["Advanced", "advanced", "basic", "result_shape"]


class Advanced(NamedTuple):
    """The normal form of a key with index arrays.

    shape, strides, offset: the view that the arrays index; offset in bytes from the first element.
    arrays: one entry an index array, in order: integers of any shape, or a boolean mask whose k
    dimensions
        cover k neighbouring axes of the view (k >= 1).
    axes: for each array the first view axis it indexes.
    position: the dimension of the result at which the common shape of the arrays is put; the view's
    other axes
        keep their order around it.
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
    given = 0  # how many axes the key takes
    ellipsis = False
    for item in key:
        if item is Ellipsis:
            if ellipsis:
                raise IndexError("index: an index can only have a single ellipsis ('...')")
            ellipsis = True
        elif item is not None:
            if type(item) is not slice and not _is_integer(item):
                return None
            given += 1
    if given > len(shape):
        raise _too_many(shape, given)
    new_shape: list[int] = []
    new_strides: list[int] = []
    axis = offset = 0
    for item in key:
        if item is None:
            new_shape.append(1)
            new_strides.append(0)
        elif item is Ellipsis:
            end = axis + len(shape) - given
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


def advanced(shape: Shape, strides: Shape, key: Any) -> Advanced:
    """The normal form of any key; see ``Advanced``. Lists become NumPy arrays, other arrays stay
    what they are.

    >>> index = advanced((4, 5, 6), (120, 24, 4), (slice(1, None), [0, 2], 3))
    >>> index.shape, index.offset, index.axes, index.position
    ((3, 5), 132, (1,), 1)
    """
    items = [_item(item) for item in (key if type(key) is tuple else (key,))]
    given = sum(_axes_taken(item) for item in items)
    if given > len(shape):
        raise _too_many(shape, given)
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
            kept += 1 if item is not Ellipsis else len(shape) - given
            axis += takes if item is not Ellipsis else len(shape) - given
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
    return Advanced(*view, tuple(arrays), tuple(axes), run_starts[0] if len(run_starts) == 1 else 0)


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
            from .array import asarray

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


def _position(item: Any, axis: int, size: int) -> int:
    i = operator.index(item)
    if not -size <= i < size:
        raise _out_of_bounds(i, axis, size)
    return i + size if i < 0 else i


def _check_mask(mask: Any, axis: int, shape: Shape) -> None:
    for i, size in enumerate(mask.shape):
        if size != shape[axis + i]:
            raise IndexError(
                f"index: boolean index did not match indexed array along axis {axis + i}; size of "
                "axis is "
                f"{shape[axis + i]} but size of corresponding boolean axis is {size}"
            )


def _out_of_bounds(i: int, axis: int, size: int) -> IndexError:
    return IndexError(f"index: index {i} is out of bounds for axis {axis} with size {size}")


def _too_many(shape: Shape, given: int) -> IndexError:
    return IndexError(
        f"index: too many indices for array: array is {len(shape)}-dimensional, but {given} were "
        "indexed"
    )


def _invalid(item: Any) -> IndexError:
    return IndexError(
        "index: only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer "
        "or boolean arrays "
        f"are valid indices, got {item!r}"
    )
