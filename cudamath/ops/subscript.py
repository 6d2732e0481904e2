"""`x[key]` and `x[key] = value` as methods of ndarray, without detours for the commonest keys.

On the CPU NumPy makes views and reads elements. On a GPU the layouts of views are cached. All else
goes to index.py.

An element, which a key of integers alone selects, is a scalar: a copy, because later writes to the
array must not change it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core.array import ndarray, wrap
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
                return item
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
        and layout.contiguous
        and x._node is None
        and (type(key) is int or type(key) is slice)
        and not mutation.holders
        and not open_records  # which see what ops do
    ):
        plain = type(value) in _OWN
        if (
            plain
            or isinstance(value, ndarray)
            and value._node is None
            and value._layout.device == CPU
            and (value._layout.dtype is layout.dtype)
            and (
                # between vectors of different steps NumPy does not look for an overlap
                layout.ndim > 1
                or value._layout.contiguous
                and (type(key) is not slice or key.step is None)
                or not np.may_share_memory(x._data, value._data)
            )
        ):
            try:
                x._data[key] = value if plain else value._data
                return
            except (IndexError, OverflowError, TypeError, ValueError):  # to be told in our words
                pass
    index.setitem(x, key, value)


#: Classes of numbers that NumPy assigns to any array as this package does.
_OWN = frozenset([int, float, np.float64, np.float32, np.int64])
