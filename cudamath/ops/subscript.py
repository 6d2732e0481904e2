"""`x[key]` and `x[key] = value` as methods of ndarray, without detours for the commonest keys.

On the CPU NumPy makes views, reads elements, gathers and assigns. On a GPU the layouts of views are
cached. All else goes to index.py, and so does what NumPy refuses, for an error in our words.

An element, which a key of integers alone selects, is a scalar: a copy, because later writes to the
array must not change it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core.array import count_small, ndarray, wrap
from ..core.autograd import mutation
from ..core.devices import CPU
from ..core.dispatch.call_record import open_records
from ..core.elements import lend
from ..core.layout import Layout
from ..core.recording import state
from ..core.scalar import NUMPY_SCALARS, StandardArray, inside, is_outermost, result_of, scalar
from ..core.view_cache import BASIC, cached_view
from . import index
from .shape import _copy

_new = object.__new__


def getitem(x: ndarray, key: Any) -> Any:
    """``x[key]``: a scalar for integers alone, a view for other basic keys, a copy otherwise."""
    layout = x._layout
    if x._node is not None or open_records:
        return _getitem(x, key)
    if layout.device == CPU:
        kind = key.__class__
        if kind in BASIC or kind is tuple and BASIC.issuperset(map(type, key)):
            try:
                item = x._data[key]
            except (IndexError, TypeError, ValueError):  # to be told in our words
                return _getitem(x, key)
            kind = item.__class__
            if kind is np.ndarray:
                out = wrap(item)
                out._base = x if x._base is None else x._base
                return out
            if kind in NUMPY_SCALARS and not state.inside and x.__class__ is not StandardArray:
                count_small()
                return item
        elif layout.size and (numpys := _numpys_key(key)) is not None:
            try:
                item = x._data[numpys]
            except IndexError:
                return _getitem(x, key)
            return wrap(item if item.flags.c_contiguous else np.ascontiguousarray(item))
        return _getitem(x, key)
    selection = cached_view(layout, key)
    if selection is None:
        return _getitem(x, key)
    layout, offset = selection
    if not layout.ndim and not state.inside and not _keeps_array(key):
        return _element(x, layout, offset)
    out = _new(ndarray)
    out._layout = layout
    out._data, out._owner, out._node = x._data + offset, x._owner, None
    out._base = x if x._base is None else x._base
    return out


def _element(x: ndarray, layout: Layout, offset: int) -> Any:
    """The element of an unrecorded array on a GPU at an offset in bytes."""
    element = lend(x, layout, offset)
    if element is not None:
        return element
    with inside():
        return scalar(_copy(x._view(layout, offset)))


def _getitem(x: ndarray, key: Any) -> Any:
    """``x[key]`` by the general rule."""
    if not is_outermost():
        return index.getitem(x, key)
    with inside():
        out = index.getitem(x, key)
        if out._layout.ndim or _keeps_array(key):
            return out
    if out._owner is not x._owner:  # an element that was gathered
        return result_of(out, (x,))
    if out._node is None and x._layout.device >= 0:
        return _element(x, out._layout, out._data - x._data)
    with inside():
        element = _copy(out._alias())
    element._node = out._node
    return result_of(element, (x,))


def _keeps_array(key: Any) -> bool:
    """Whether an element is selected as an array: by a key with an ellipsis."""
    return key is ... or type(key) is tuple and any([part is ... for part in key])


def elements(x: ndarray) -> Iterator[Any]:
    """Iterate over the first axis."""
    layout = x._layout
    if not layout.ndim:
        raise TypeError("iteration over a 0-d array")
    if layout.device == CPU and layout.ndim == 1 and x._node is None and not open_records:
        if layout.dtype.type in NUMPY_SCALARS and not state.inside:
            return iter(x._data)
    return map(x.__getitem__, range(layout.shape[0]))


def setitem(x: ndarray, key: Any, value: Any) -> None:
    """``x[key] = value``: on the CPU, for the commonest keys and values, NumPy's."""
    layout = x._layout
    if (
        layout.device == CPU
        and x._node is None
        and layout.separate
        and not mutation.holders
        and not open_records  # which see what ops do
    ):
        kind = key.__class__
        basic = kind in BASIC or kind is tuple and BASIC.issuperset(map(type, key))
        numpys = key if basic else _numpys_key(key) if layout.size else None
        source = value if value.__class__ in ASSIGNED else _assignable(x, key, value)
        count_small()
        if source is not None and (basic or numpys is not None and not _reads(x, key)):
            try:
                x._data[numpys] = source
                return
            except (IndexError, OverflowError, TypeError, ValueError):  # to be told in our words
                pass
    index.setitem(x, key, value)


def delitem(x: ndarray, key: Any) -> None:
    """``del x[key]``: no array becomes shorter."""
    raise ValueError(f"delitem: cannot delete elements of an array of shape {x.shape}")


#: Classes of numbers that NumPy assigns to any array as this package does.
ASSIGNED = frozenset([bool, int, float, np.bool_, np.float64, np.float32, np.int64])


def _assignable(x: ndarray, key: Any, value: Any) -> np.ndarray | None:
    """An array as NumPy assigns it to parts of an array on the CPU; None for what does not fit into
    the dtype. It is copied where it may share memory, for which NumPy does not always look."""
    if not isinstance(value, ndarray) or value._node is not None:
        return None
    layout, own = value._layout, x._layout
    if layout.device != CPU or not (layout.dtype is own.dtype or _fits(layout.dtype, own.dtype)):
        return None
    data = value._data
    if own.ndim == 1 and own.contiguous and layout.contiguous:
        if key.__class__ is int or key.__class__ is slice and key.step is None:
            return data  # between vectors of one step NumPy moves the numbers in the right order
    return data.copy() if _may_share(x._data, data) else data


@functools.cache
def _fits(source: np.dtype, target: np.dtype) -> bool:
    """Whether every number of a dtype of NumPy's is one of another."""
    return "V" not in source.kind + target.kind and np.can_cast(source, target)


def _numpys_key(key: Any) -> Any:
    """A key with index arrays for an array on the CPU as NumPy reads it; None if it is another."""
    if key.__class__ is not tuple:
        return _numpys_part(key)
    parts = []
    for part in key:
        if part.__class__ not in BASIC:
            part = _numpys_part(part)
            if part is None:
                return None
        parts.append(part)
    return tuple(parts)


def _numpys_part(part: Any) -> Any:
    """An index array, a mask, or a list of integers, as NumPy's array."""
    kind = part.__class__
    if kind is ndarray:
        own = part._layout
        if own.device == CPU and own.ndim and part._node is None:
            if own.dtype.kind in "iub":
                return part._data
    elif kind is list and part and {int}.issuperset(map(type, part)):
        return part
    return None


def _reads(x: ndarray, key: Any) -> bool:
    """Whether an index array in a key may share the memory of x, which is about to be written."""
    parts = key if key.__class__ is tuple else (key,)
    return x._layout.dtype.kind in "iub" and any(
        [isinstance(p, ndarray) and _may_share(p._data, x._data) for p in parts]
    )


def _may_share(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether two arrays may share memory. Different ones that own theirs do not."""
    if x.base is None and y.base is None and x is not y and x.flags.owndata and y.flags.owndata:
        return False
    return np.may_share_memory(x, y)
