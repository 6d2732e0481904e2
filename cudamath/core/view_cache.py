"""Views by basic indices (`x[1:, 2]`). On a GPU they are cached by layout and index; on the CPU
NumPy makes them."""

from __future__ import annotations

from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from . import indexing
from .devices import CPU
from .layout import Layout

#: Views that slices and tuples made of arrays on a GPU: `view_key` -> (layout of the view, byte
#: offset).
KNOWN: dict[tuple | None, tuple[Layout, int]] = {}
#: What an integer selects of arrays on a GPU: layout -> (how many there are, bytes from one to the
#: next, the layout of those at offsets divisible by 16, that of the others).
_ROWS: dict[Layout, tuple[int, int, Layout, Layout]] = {}
_MOST_VIEWS = 1 << 14
_PARTS = frozenset([int, np.int64, slice, EllipsisType, NoneType])


def view_key(layout: Layout, key: Any) -> tuple | None:
    """Under which the view of a slice or tuple is kept in `KNOWN`: with the numbers' classes, since
    1.0 and True are found as
    1. None for tuples with anything else in them: most of these are arrays, in the last place."""
    if type(key) is slice:
        start, stop, step = key.start, key.stop, key.step
        return layout, start, stop, step, start.__class__, stop.__class__, step.__class__
    if not key or key[-1].__class__ not in _PARTS:
        return None
    found: list[Any] = [layout]
    for part in key:
        kind = part.__class__
        if kind is slice:
            start, stop, step = part.start, part.stop, part.step
            found += (slice, start, stop, step, start.__class__, stop.__class__, step.__class__)
        elif kind in _PARTS:
            found += (kind, part)
        else:
            return None
    return tuple(found)


def row(layout: Layout, number: int) -> tuple[Layout, int] | None:
    """Layout and byte offset of `x[number]` for an x on a GPU, worked out once for all rows; None
    if there is no such row."""
    try:
        count, step, even, odd = _ROWS[layout]
    except KeyError:
        if not layout.ndim:
            return None
        shape, strides = layout.shape[1:], layout.strides[1:]
        if len(_ROWS) >= _MOST_VIEWS:
            _ROWS.clear()
        count, step, even, odd = _ROWS[layout] = (
            layout.shape[0],
            layout.strides[0],
            layout.view(shape, strides),
            layout.view(shape, strides, 1),
        )
    if number < 0:
        number += count
    if not 0 <= number < count:
        return None
    offset = number * step
    return odd if offset & 15 else even, offset


def known_view(layout: Layout, key: Any) -> tuple[Layout, int] | None:
    """`basic_view`, looked up where a GPU's array had such a view before."""
    if layout.device == CPU:
        return basic_view(layout, key)
    return seen_before(layout, key) or basic_view(layout, key)


def seen_before(layout: Layout, key: Any) -> tuple[Layout, int] | None:
    """Layout and byte offset of `x[key]` for an x on a GPU, if they are known."""
    kind = key.__class__
    if kind is int:
        return row(layout, key)
    if key is None:
        return KNOWN.get(view_key(layout, (None,)))
    if kind is slice or kind is tuple:
        try:
            return KNOWN.get(view_key(layout, key))
        except TypeError:  # an array in a slice, say, has no hash
            pass
    return None


def cut(data: np.ndarray, key: Any) -> np.ndarray | None:
    """The view that NumPy makes by a basic key; None where it makes none, or a number, or raises:
    what is not allowed is told in our words."""
    kind = key.__class__
    if (
        kind is not slice
        and kind is not int
        and (kind is not tuple or not _PARTS.issuperset(map(type, key)))
    ):
        return None
    try:
        seen = data[key]
    except (IndexError, TypeError, ValueError):
        return None
    return seen if type(seen) is np.ndarray else None


def basic_view(layout: Layout, key: Any) -> tuple[Layout, int] | None:
    """Layout and byte offset of the view that a basic key selects; None if the key holds arrays."""
    key = (None,) if key is None else key
    found = indexing.basic(layout.shape, layout.strides, key)
    if found is None:
        return None
    shape, strides, offset = found
    seen = layout.view(shape, strides, offset)
    known = (
        None if layout.device == CPU or type(key) not in (slice, tuple) else view_key(layout, key)
    )
    if known is not None:
        try:
            if len(KNOWN) >= _MOST_VIEWS:
                KNOWN.clear()
            KNOWN[known] = seen, offset
        except TypeError:  # something in it has no hash: a 0-d array as start, say
            pass
    return seen, offset
