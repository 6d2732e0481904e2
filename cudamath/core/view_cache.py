"""Views by basic indices (`x[1:, 2]`). On a GPU their layouts are cached by layout and index. On
the CPU NumPy makes the views."""

from __future__ import annotations

from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from . import indexing
from .bounded_cache import store
from .devices import CPU
from .layout import Layout

#: Views by slices and tuples of arrays on a GPU: `view_key` -> (layout of the view, byte offset).
_views: dict[tuple | None, tuple[Layout, int]] = {}
#: Views by one integer of arrays on a GPU: layout -> (number of such views, bytes from one to the
#: next, the layout of those whose offset is divisible by 16, the layout of the others).
_rows: dict[Layout, tuple[int, int, Layout, Layout]] = {}
MOST_VIEWS = 1 << 14
BASIC = frozenset([int, np.int64, slice, EllipsisType, NoneType])  # classes of basic indices


def view_key(layout: Layout, key: Any) -> tuple | None:
    """The key of `_views` for a slice or a tuple. It contains the classes of the numbers, because
    1.0 and True equal 1. None for a tuple with any other index; most of those are arrays in the
    last place."""
    if type(key) is slice:
        start, stop, step = key.start, key.stop, key.step
        return layout, start, stop, step, start.__class__, stop.__class__, step.__class__
    if not key or key[-1].__class__ not in BASIC:
        return None
    parts: list[Any] = [layout]
    for part in key:
        kind = part.__class__
        if kind is slice:
            start, stop, step = part.start, part.stop, part.step
            parts += (slice, start, stop, step, start.__class__, stop.__class__, step.__class__)
        elif kind in BASIC:
            parts += (kind, part)
        else:
            return None
    return tuple(parts)


def integer_view(layout: Layout, number: int) -> tuple[Layout, int] | None:
    """Layout and byte offset of `x[number]` for an x on a GPU; None if there is no such row. One
    entry of the cache serves all rows."""
    try:
        count, step, aligned, unaligned = _rows[layout]
    except KeyError:
        if not layout.ndim:
            return None
        shape, strides = layout.shape[1:], layout.strides[1:]
        rows = (
            layout.shape[0],
            layout.strides[0],
            layout.view(shape, strides),
            layout.view(shape, strides, 1),
        )
        count, step, aligned, unaligned = store(_rows, layout, rows, MOST_VIEWS)
    if number < 0:
        number += count
    if not 0 <= number < count:
        return None
    offset = number * step
    return unaligned if offset & 15 else aligned, offset


def lookup_view(layout: Layout, key: Any) -> tuple[Layout, int] | None:
    """`basic_view`, through the cache for an array on a GPU."""
    if layout.device == CPU:
        return basic_view(layout, key)
    return cached_view(layout, key) or basic_view(layout, key)


def cached_view(layout: Layout, key: Any) -> tuple[Layout, int] | None:
    """Layout and byte offset of `x[key]` for an x on a GPU, if the cache has them."""
    kind = key.__class__
    if kind is int:
        return integer_view(layout, key)
    if key is None:
        return _views.get(view_key(layout, (None,)))
    if kind is slice or kind is tuple:
        try:
            return _views.get(view_key(layout, key))
        except TypeError:  # no hash: an array in a slice, for example
            pass
    return None


def basic_view(layout: Layout, key: Any) -> tuple[Layout, int] | None:
    """Layout and byte offset of the view that a basic key selects; None if the key holds arrays."""
    key = (None,) if key is None else key
    selection = indexing.basic(layout.shape, layout.strides, key)
    if selection is None:
        return None
    shape, strides, offset = selection
    view = layout.view(shape, strides, offset), offset
    if layout.device != CPU and type(key) in (slice, tuple):
        cache_key = view_key(layout, key)
        if cache_key is not None:
            store(_views, cache_key, view, MOST_VIEWS)
    return view
