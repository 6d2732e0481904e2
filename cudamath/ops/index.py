"""Indexing: what ``x[key]`` and ``x[key] = v`` do, and the functions that gather, scatter and
select.

Basic keys are views (``shape.view_of``). Any other key comes in the normal form of
``core/indexing.py``: a view, index arrays on neighbouring axes of it, one gather or scatter. A mask
becomes index arrays by ``nonzero``, whose length must be known on the host: one synchronisation.
Assigning a scalar by a mask needs none.

Index arrays out of range raise IndexError: at once on the CPU, on a GPU at the next synchronising
call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import advanced_indexing, dtypes, shapes
from ..core.array import ndarray, refuse_read_only
from ..core.asarray import asarray
from ..core.autograd.mutation import wrote
from ..core.dispatch.checks import coerce, require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import Op, separate_blocks
from ..core.dtypes import INTEGER, NUMERIC
from ..core.elements import lent, settle
from ..core.shapes import normalize_axis
from ..core.transfer import host_to_device
from ..core.typing import ArrayLike
from ..core.view_cache import lookup_view
from ..runtime.stream import stream_of
from . import elementwise
from .creation import full
from .index_key_cache import form_of, keep_form, uploaded
from .masks import elements, nonzero
from .out_argument import deliver, in_place
from .shape import (
    _broadcast,
    _broadcast_as,
    _copy,
    _copy_into,
    _fill,
    _permute,
    _reshape,
    _window,
    astype,
    pattern,
    ravel,
    unrecorded_view,
    view_of,
)
from .where import _SCALARS, _by_value, _is_own, _is_scalar, _where_into

__all__ = [
    "index_add",
    "put",
    "take",
    "take_along_axis",
]


# -------------------- cards


def _gathering(name: str, cpu: str) -> Op:
    return Op(
        name,
        cpu=cpu,
        cuda="index.dispatch.gather",
        vjp=lambda g, _y, x, *indices, axis: (
            _gather_grad(g, *indices, shape=x.shape, axis=axis),
            *(None for _ in indices),
        ),
    )


_gather = _gathering("index", "index.gather")
_take = _gathering("take", "index.take")
_gather_grad = Op(
    "index_grad",
    cpu="index.gather_grad",
    cuda="index.dispatch.gather_grad",
    vjp=lambda g, _y, _g, *indices, shape, axis: (
        _gather(g, *indices, axis=axis),
        *(None for _ in indices),
    ),
)
#: Of sums by one index (programs/shared_sorts.py).
_sorted_places = Op(
    "index_add (places)",
    cpu="index.sorted_places",
    cuda="index.scatter_add_sorted.sorted_places",
)
_sums_of_sorted = Op(
    "index_add (sums)",
    cpu="index.sums_of_sorted",
    cuda="index.scatter_add_sorted.sums_of_sorted",
)
_sorted_sources = Op(
    "index_add (sources)",
    cpu="index.sorted_sources",
    cuda="index.scatter_add_sorted.sorted_sources",
)
_sums_of_chosen = Op(
    "index_add (chosen sums)",
    cpu="index.sums_of_chosen",
    cuda="index.scatter_add_sorted.sums_of_chosen",
)
_index_add = Op(
    "index_add",
    cpu="index.index_add",
    cuda="index.dispatch.index_add",
    vjp=(
        lambda g, _y, _x, _index, _values, axis: g,
        lambda _g, _y, _x, _index, _values, axis: None,
        lambda g, _y, _x, index, _values, axis: _gather(g, index, axis=axis),
    ),
)
_scatter = Op("index_put", cpu="index.scatter", cuda="index.dispatch.scatter", writes=True)
_put_flat = Op("put", cpu="index.put", cuda="index.dispatch.scatter", writes=True)
_scatter_number = Op(
    "index_put_number", cpu="index.scatter_number", cuda="index.scatter.scatter_number", writes=True
)
_along = Op(
    "take_along_axis",
    cpu="index.take_along",
    cuda="index.dispatch.take_along",
    vjp=lambda g, _y, x, index, axis: (_along_grad(g, index, size=x.shape[axis], axis=axis), None),
)
_along_grad: Op = Op(
    "take_along_axis_grad",
    cpu="index.take_along_grad",
    cuda="index.dispatch.take_along_grad",
    vjp=lambda g, _y, _g, index, size, axis: (_along(g, index, axis=axis), None),
)

# -------------------- x[key], x[key] = v


def getitem(x: ndarray, key: Any) -> ndarray:
    """``x[key]``: a view for basic keys, a copy otherwise."""
    if x._layout.device >= 0 and (
        type(key) is list or type(key) is tuple and key and type(key[-1]) is list
    ):
        key = uploaded(x, key)
    places, axis = key, 0
    if (
        type(key) is tuple
        and key
        and isinstance(key[-1], ndarray)
        and type(key[0]) is slice
        and all(
            [
                type(part) is slice and part.start is part.stop is part.step is None
                for part in key[:-1]
            ]
        )
    ):
        places, axis = key[-1], len(key) - 1  # x[:, places]
    if isinstance(places, ndarray):
        if axis < x.ndim and _one_array(x, places):
            return _gather(x, places, axis=axis)
        if _one_mask(x, places) and not axis and x._node is None:
            return elements(x, places)
    if type(key) is tuple and x._node is None and (places := form_of(x, key)) is not None:
        base, axis, arrays = places
        return _gather(base, *arrays, axis=axis)
    seen = view_of(x, key)
    if seen is not None:
        return seen
    form = advanced_indexing.advanced(x.shape, x.strides, key)
    here = (form.shape, form.strides, form.offset)
    if x._node is None:
        base = unrecorded_view(x, x._layout.view(*here), form.offset)
    else:
        plain = advanced_indexing.advanced(x.shape, shapes.contiguous_strides(x.shape, 1), key)
        base = _window(x, here=here, view=(plain.shape, plain.strides, plain.offset), shape=x.shape)
    base, axes, arrays = _index_arrays(base, form)
    base, axis = _neighbours(base, axes, form.position)
    keep_form(x, key, base, axis, arrays)
    return _gather(base, *arrays, axis=axis)


def setitem(x: ndarray, key: Any, value: Any) -> None:
    """``x[key] = value`` in place; ``value`` is cast and broadcast. Of repeated positions the last
    one wins."""
    key = uploaded(x, key) if type(key) is list and x._layout.device >= 0 else key
    _check_writable("setitem", x)
    if key is ...:
        return _assign(x, value)
    if isinstance(key, ndarray) and _one_array(x, key):
        key = (
            _apart(x, key) if x._layout.device >= 0 else key
        )  # x[x] = 0: what is written must not be read as a position
        if type(value) in (int, float) and _is_own(x._layout.dtype, value):
            wrote(x)
            _scatter_number(x, key, scalars=(value,), axis=0)
            return
        value = _values(x, value, key.shape + x.shape[1:])
        wrote(x)
        _scatter(x, _apart(x, value), key, axis=0)
        return
    if isinstance(key, ndarray) and _one_mask(x, key):
        if _is_scalar(value):
            return _put_where(x, key, value)
        if (
            x._layout.contiguous and key._layout.contiguous
        ):  # one position an element, and no normal form
            _put(
                x,
                _reshape(x, shape=(x._layout.size,), old=x.shape),
                0,
                [nonzero(ravel(key))[0]],
                value,
            )
            return
    if type(key) is tuple and x._node is None and (seen := form_of(x, key)) is not None:
        return _put(x, *seen, value)
    found = lookup_view(x._layout, key)
    if found is not None:
        return _assign(unrecorded_view(x, *found), value)
    form = advanced_indexing.advanced(x.shape, x.strides, key)
    layout = x._layout.view(form.shape, form.strides, form.offset)
    base = unrecorded_view(x, layout, form.offset)
    if len(form.arrays) == 1 and form.arrays[0].dtype == np.bool_ and _is_scalar(value):
        mask = asarray(form.arrays[0], device=x.device)
        if not mask.size:  # it fits axes of any length, and selects nothing
            return
        before, after = form.axes[0], base.ndim - form.axes[0] - mask.ndim
        return _put_where(
            base,
            _reshape(mask, shape=(1,) * before + mask.shape + (1,) * after, old=mask.shape),
            value,
        )
    base, axes, arrays = _index_arrays(base, form)
    base, axis = _neighbours(base, axes, form.position)
    keep_form(x, key, base, axis, arrays)
    _put(x, base, axis, arrays, value)


def _put(x: ndarray, base: ndarray, axis: int, arrays: list[ndarray], value: Any) -> None:
    """Assign to a view of x by index arrays along neighbouring axes."""
    if x._layout.device >= 0:  # what is written must not be read as a position
        arrays = [_apart(x, a) for a in arrays]
    if (
        len(arrays) <= 2
        and type(value) in (int, float)
        and _is_own(x._layout.dtype, value)
        and base._layout.size
    ):
        _scatter_number(base, *arrays, scalars=(value,), axis=axis)
    else:
        shape = (*base.shape[:axis], *arrays[0].shape, *base.shape[axis + len(arrays) :])
        _scatter(base, _apart(x, _values(x, value, shape)), *arrays, axis=axis)
    wrote(base)  # not before: what is refused has changed nothing


def _one_array(x: ndarray, key: Any) -> bool:
    """Whether a key is an integer array, and there is something to index: the common case, without
    the normal form."""
    layout, own = key._layout, x._layout
    return (
        layout.dtype.kind in "iu"
        and layout.ndim > 0
        and own.ndim > 0
        and own.size > 0
        and layout.device == own.device
    )


def _one_mask(x: ndarray, key: ndarray) -> bool:
    """Whether a key is a mask of x's shape."""
    layout, own = key._layout, x._layout
    return (
        layout.dtype.kind == "b"
        and layout.shape == own.shape
        and own.ndim > 0
        and layout.device == own.device
    )


def _put_where(x: ndarray, mask: ndarray, value: Any) -> None:
    """``x[mask] = value`` for one value and a mask that broadcasts to x: one launch, if the value
    is a number of x's dtype."""
    mask = mask if mask is x else _apart(x, mask)  # x[x.T] = True
    if (number := _by_value("setitem", mask, x, value)) is not None:
        _where_into(x, mask, scalars=(number,))
    else:
        _where_into(x, mask, _value("setitem", x, value))
    wrote(x)


def _check_writable(name: str, x: ndarray) -> None:
    if x._node is not None:
        raise RuntimeError(
            f"{name}: an array of shape {x.shape} cannot be changed in place while a gradient is "
            "recorded for it; make a new one (where, index_add, concat)"
        )
    refuse_read_only(name, x)
    if lent:
        settle(x)
    if not x._layout.contiguous and shapes.overlaps_itself(x.shape, x.strides, x.itemsize):
        raise ValueError(
            f"{name}: elements of this array of shape {x.shape} share memory (a broadcast view); "
            "copy it first"
        )


def _given(name: str, x: ndarray, value: Any) -> ndarray:
    """What is assigned, as an array on x's device; a list is read in x's dtype, so that numbers
    that do not fit are errors."""
    if isinstance(value, (list, tuple)):
        value = asarray(value, x.dtype, x.device, name=name)
    return coerce(name, (x, value))[1]


def _value(name: str, x: ndarray, value: Any) -> ndarray:
    """What is assigned, as an array of x's dtype on x's device."""
    if type(value) in _SCALARS:
        pattern(name, value, x.dtype)  # for its errors
        out = full((), value, x.dtype, device=x.device)
    else:
        out = _given(name, x, value)
        if out._node is not None:
            raise RuntimeError(
                f"{name}: a gradient is recorded for the assigned value of shape {out.shape}; it "
                "would "
                "be lost in an assignment; make a new array instead (where, index_add, concat)"
            )
    return out if out.dtype == x.dtype else astype(out, x.dtype)


def checked_number(value: Any, dtype: np.dtype) -> Any:
    """A number that is assigned to an array of signed integers: NumPy's as Python's, which must
    fit. Unsigned ones convert it, as in NumPy."""
    if isinstance(value, np.generic) and dtype.kind == "i" and value.dtype.kind in "iuf":
        return value.item()
    return value


def _values(x: ndarray, value: Any, shape: tuple[int, ...]) -> ndarray:
    """What is assigned to elements of x, as an array of its dtype that broadcasts to ``shape``."""
    if isinstance(value, ndarray) and value._node is None:
        given, own = value._layout, x._layout
        if given.shape == shape and given.dtype == own.dtype and given.device == own.device:
            return value
    return _fitted("setitem", _value("setitem", x, value), shape)


def _fitted(name: str, value: ndarray, shape: tuple[int, ...]) -> ndarray:
    """The value, less leading axes of size 1 that the target does not have, checked to broadcast to
    ``shape``."""
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = _reshape(value, shape=value.shape[1:], old=value.shape)
    _broadcast_as(name, value, shape)
    return value


def _apart(x: ndarray, value: ndarray) -> ndarray:
    """The value, copied first if it may share memory with the array that is written."""
    a, b = x._layout, value._layout
    if (
        a.device >= 0
        and a.contiguous
        and b.contiguous
        and (x._data + a.nbytes <= value._data or value._data + b.nbytes <= x._data)
    ):
        return value
    if separate_blocks(x, value):
        return value
    return (
        _copy(value)
        if shapes.may_overlap(*[(a._address, a.shape, a.strides, a.itemsize) for a in (x, value)])
        else value
    )


def _assign(target: ndarray, value: Any) -> None:
    """``target[...] = value``."""
    layout = target._layout
    value = checked_number(value, layout.dtype)
    if type(value) in _SCALARS:
        if layout.size:
            _fill(target, scalars=pattern("setitem", value, layout.dtype))
        return wrote(target)
    if (
        isinstance(value, ndarray)
        and value._node is None
        and value._layout.shape == layout.shape
        and (value._layout.device == layout.device)
        and (value._layout.dtype.kind != "c" or layout.dtype.kind == "c")
    ):
        own = (
            value._layout is layout and layout.device >= 0 and value._data == target._data
        )  # x[key] += 1 has written it
        if layout.size and not own:
            _copy_into(target, _apart(target, value))
        return wrote(target)
    if type(value) is np.ndarray and host_to_device.into(target, value):
        return wrote(target)
    given = _fitted("setitem", _given("setitem", target, value), target.shape)
    if given._layout.dtype.kind == "c" != layout.dtype.kind:
        given = astype(given, layout.dtype)  # with NumPy's warning
    if given._node is not None:
        _value("setitem", target, given)
    if target.size:
        _copy_into(target, _apart(target, given))
    wrote(target)


def _index_arrays(
    base: ndarray, form: advanced_indexing.Advanced
) -> tuple[ndarray, list[int], list[ndarray]]:
    """The view, the axes that are indexed, and an integer array for each, all of one shape."""
    axes: list[int] = []
    arrays: list[ndarray] = []
    merged = 0  # axes that have become one with the axis before
    for given, axis in zip(form.arrays, form.axes, strict=True):
        array, axis = asarray(given, device=base.device), axis - merged
        if array.dtype != np.bool_:
            axes.append(axis)
            arrays.append(array)
            continue
        if array.ndim > 1 and array.size and array._layout.contiguous:
            # A mask over axes that merge into one needs one position an element instead of one for
            # each axis.
            shape = (*base.shape[:axis], array.size, *base.shape[axis + array.ndim :])
            if shapes.reshape_strides(base.shape, base.strides, shape) is not None:
                base = _reshape(base, shape=shape, old=base.shape)
                merged += array.ndim - 1
                array = ravel(array)
        for i, positions in enumerate(nonzero(array)):
            axes.append(axis + i)
            arrays.append(positions)
    try:
        shape = shapes.broadcast_shapes("index", *[a.shape for a in arrays])
    except ValueError:
        listed = " ".join(str(a.shape) for a in arrays)
        raise IndexError(
            "index: shape mismatch: indexing arrays could not be broadcast together with shapes "
            f"{listed}"
        ) from None
    if base.size == 0 or 0 in shape:  # no kernel will look at the positions
        for axis, a in zip(axes, arrays, strict=True):
            if a.ndim and 0 in shape:  # as in NumPy, which checks integers alone then
                continue
            places, size = a.to_numpy(), base.shape[axis]
            bad = places[(places < -size) | (places >= size)]
            if bad.size:
                raise IndexError(
                    f"index: index {bad.flat[0]} is out of bounds for axis {axis} with size {size}"
                )
    return (
        base,
        axes,
        [a if a.shape == shape else _broadcast(a, shape=shape, old=a.shape) for a in arrays],
    )


def _neighbours(base: ndarray, axes: list[int], position: int) -> tuple[ndarray, int]:
    """The view with its indexed axes side by side at ``position``."""
    if axes == list(range(position, position + len(axes))):
        return base, position
    rest = [i for i in range(base.ndim) if i not in axes]
    return _permute(base, axes=(*rest[:position], *axes, *rest[position:])), position


# -------------------- gather, scatter


def _integers(name: str, indices: Any, device: Any, *, truths: bool = False) -> ndarray:
    """Indices as an array of integers. truths: False and True are 0 and 1."""
    if not isinstance(indices, ndarray):
        host = asarray(indices, device=device, name=name)
        indices = (
            host.astype(np.int64)
            if not host.size and host.dtype == dtypes.default_float()
            else host
        )
    if truths and indices.dtype == np.bool_:
        return astype(indices, np.int64)
    if name == "take_along_axis" and indices.dtype not in INTEGER:
        raise IndexError(
            f"{name}: wants integer indices, got {indices.dtype} of shape {indices.shape}"
        )
    return require(name, indices, INTEGER, "indices")


@fast_path("x", "indices")
def take(
    x: ArrayLike,
    /,
    indices: ArrayLike,
    axis: int | None = None,
    out: ndarray | None = None,
    mode: str = "raise",
) -> ndarray:
    """The elements (or slices along ``axis``) of ``x`` at some positions.

    out[..., j, ...] = x[..., indices[j], ...]

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    indices : array_like
        Integers of any shape. Negative ones count from the end.
    axis : int, optional
        Axis of the operation. None flattens `x` first.
    out : ndarray, optional
        Array that receives the result.
    mode : str, default "raise"
        How indices out of range are treated: "raise" raises IndexError, "wrap" wraps around, and
        "clip" takes the first or the last element.

    Returns
    -------
    ndarray
        Array in which ``indices.shape`` takes the place of ``axis``.

    Raises
    ------
    IndexError
        An index is out of range.
    TypeError
        An index is not an integer.
    ValueError
        The mode is unknown.

    Notes
    -----
    The gradient is summed at the positions, in a fixed order.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.take(cm.asarray([10, 20, 30]), cm.asarray([2, 0, -1]))
    array([30, 10, 30], device='cpu')
    """
    x = require("take", x)
    positions = _integers("take", indices, x.device, truths=True)
    if axis is None or not x.ndim and axis in (0, -1):  # NumPy lets a number be a vector here
        x, axis = ravel(x), 0
    axis = normalize_axis("take", axis, x.ndim)
    if not x.shape[axis] and positions.size:
        raise IndexError(
            f"take: axis {axis} of shape {x.shape} is empty, nothing can be taken from it"
        )
    if mode != "raise":
        positions = _in_range("take", positions, x.shape[axis], mode)
    y = _take(x, positions, axis=axis)
    # NumPy 2.4 takes the first, 2.5 both (and whatever else, which may lose values in silence)
    return y if out is None else deliver("take", y, out, "held or safe")


def _in_range(name: str, positions: ndarray, n: int, mode: str) -> ndarray:
    """Positions among n, brought there as a mode says."""
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"{name}: mode is 'raise', 'wrap' or 'clip', got {mode!r}")
    if not positions.size or mode == "raise":
        return positions
    positions = astype(positions, np.int64, copy=False)
    return (
        elementwise.remainder(positions, n)
        if mode == "wrap"
        else elementwise.clip(positions, 0, n - 1)
    )


@fast_path("x", "indices")
def take_along_axis(x: ArrayLike, /, indices: ArrayLike, axis: int | None = -1) -> ndarray:
    """Return the elements of ``x`` at positions that differ from line to line along an axis.

    out[i, j, k] = x[i, indices[i, j, k], k] for axis 1

    Parameters
    ----------
    x : array_like
        Array of at least.
    indices : array_like
        Integer positions, with as many dimensions as ``x``. The axes other than ``axis`` broadcast.
    axis : int or None, default -1
        Axis of the selection. None takes from the flattened array, by a vector of indices.

    Returns
    -------
    ndarray
        Array of the shape of the indices.

    Raises
    ------
    IndexError
        An index is out of range.
    ValueError
        The shapes do not fit each other.
    TypeError
        An index is not an integer.

    Notes
    -----
    The gradient is summed at the positions, in a fixed order.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.asarray([[3, 1, 2], [6, 5, 4]])
    >>> cm.take_along_axis(x, cm.asarray([[1, 2, 0], [2, 1, 0]]), axis=1)
    array([[1, 2, 3],
           [4, 5, 6]], device='cpu')
    """
    x = require("take_along_axis", x)
    if axis is None:
        x, axis = ravel(x), 0
    index = _integers("take_along_axis", indices, x.device)
    axis = normalize_axis("take_along_axis", axis, x.ndim)
    if index.ndim != x.ndim:
        raise ValueError(
            f"take_along_axis: indices of shape {index.shape} must have as many dimensions as x "
            "of shape "
            f"{x.shape}"
        )
    others = [(*a.shape[:axis], 1, *a.shape[axis + 1 :]) for a in (x, index)]
    shape = shapes.broadcast_shapes("take_along_axis", *others)
    if not x.shape[axis] and index.size:
        raise IndexError(
            f"take_along_axis: axis {axis} of shape {x.shape} is empty, nothing can be taken from "
            "it"
        )
    wide = [(*shape[:axis], a.shape[axis], *shape[axis + 1 :]) for a in (x, index)]
    x, index = (
        a if a.shape == to else _broadcast(a, shape=to, old=a.shape)
        for a, to in zip((x, index), wide, strict=True)
    )
    return _along(x, index, axis=axis)


@fast_path("x", "indices", "values")
def index_add(x: ArrayLike, /, indices: ArrayLike, values: ArrayLike, axis: int = 0) -> ndarray:
    """Add values to slices of ``x`` at some positions. A position may occur several times.

    Out = x; out[..., indices[j], ...] += values[..., j, ...] for each j, in this order.

    Parameters
    ----------
    x : array_like
        Numeric array.
    indices : array_like of shape (m,)
        Integer positions.
    values : array_like
        Array that broadcasts to x's shape with length m along ``axis``.
    axis : int, default 0
        Axis of the slices.

    Returns
    -------
    ndarray
        New array.

    Raises
    ------
    IndexError
        An index is out of range.
    ValueError
        The shapes do not fit each other.

    Notes
    -----
    The gradient is g for `x`, and g at the indices for `values`. Results are bitwise reproducible:
    no float atomics.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.index_add(cm.zeros(3), cm.asarray([0, 2, 0]), cm.asarray([1.0, 2.0, 3.0]))
    array([4., 0., 2.], device='cpu')
    """
    x = require("index_add", x, NUMERIC)
    positions = _integers("index_add", indices, x.device)
    axis = normalize_axis("index_add", axis, x.ndim)
    if positions.ndim != 1:
        raise ValueError(f"index_add: indices must have 1 dimension, got shape {positions.shape}")
    given = astype(coerce("index_add", (x, values))[1], x.dtype, copy=False)
    given = _broadcast_as(
        "index_add", given, (*x.shape[:axis], positions.size, *x.shape[axis + 1 :])
    )
    return _index_add(x, positions, given, axis=axis)


def put(x: ndarray, /, ind: ArrayLike, v: ArrayLike, mode: str = "raise") -> None:
    """Assign to elements of ``x``, counted in C order, in place.

    X.flat[ind[j]] = v[j]. ``v`` is repeated if it is shorter, and of repeated positions the last
    one takes effect. Without values nothing is assigned.

    Parameters
    ----------
    x : ndarray
        Array of any shape and dtype.
    ind : array_like
        Integer positions, counted in C order.
    v : array_like
        Array or scalar, cast to x's dtype.
    mode : str, default "raise"
        How indices out of range are treated: "raise" raises IndexError, "wrap" wraps around, and
        "clip" takes the first or the last element.

    Raises
    ------
    IndexError
        An index is out of range.

    Notes
    -----
    The operation works in place and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> x = cm.zeros((2, 2))
    >>> cm.put(x, [0, -1], [1.0, 2.0])
    >>> x
    array([[1., 0.],
           [0., 2.]], device='cpu')
    """
    x = in_place("put", x)
    _check_writable("put", x)
    positions = ravel(_integers("put", ind, x.device, truths=True))
    if not positions.size:
        return
    given = ravel(_value("put", x, v))
    if not given.size:
        return
    if not x.size:
        raise IndexError(f"put: an array of shape {x.shape} has no elements to assign to")
    on_gpu = mode == "raise" and x._layout.device >= 0
    if on_gpu and not isinstance(ind, ndarray):  # on the host as well
        places = np.asarray(ind).ravel()
        bad = places[(places < -x.size) | (places >= x.size)]
        if bad.size:
            raise IndexError(
                f"put: index {bad[0]} is out of bounds for an array of {x.size} elements"
            )
    positions = _in_range("put", positions, x.size, mode)
    if given.size not in (1, positions.size):
        given = take(given, asarray(np.arange(positions.size) % given.size, device=x.device))
    positions = _apart(x, positions) if x._layout.device >= 0 else positions  # put(x, x, 0)
    wrote(x)
    flat = (
        _copy(x) if shapes.reshape_strides(x.shape, x.strides, (x.size,), x.itemsize) is None else x
    )
    line = _reshape(flat, shape=(x.size,), old=x.shape)
    _put_flat(line, _apart(x, given), positions, axis=0)
    if flat is not x:
        _copy_into(x, flat)
    if on_gpu and isinstance(
        ind, ndarray
    ):  # NumPy raises at the call: wait for what the kernel found
        current = stream_of(x._layout.device)
        if not current.capturing:
            current.synchronize()
