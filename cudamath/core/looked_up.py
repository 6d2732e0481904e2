"""Views that basic keys make of arrays (`x[1:, 2]`), looked up where an array on a GPU had such a view before."""

from __future__ import annotations

from types import EllipsisType, NoneType
from typing import Any

from . import indexing
from .devices import CPU
from .layout import Layout

#: Views that slices and tuples made of arrays on a GPU: `view_key` -> (layout of the view, byte offset).
KNOWN: dict[tuple | None, tuple[Layout, int]] = {}
_MOST_VIEWS = 1 << 14
_PARTS = frozenset([int, slice, EllipsisType, NoneType])


def view_key(layout: Layout, key: Any) -> tuple | None:
    """Under which a view is kept in `KNOWN`: with the numbers' classes, since 1.0 and True are found as 1. None for keys
    with anything else in their last place: most of these are arrays."""
    if type(key) is slice:
        start, stop, step = key.start, key.stop, key.step
        return layout, start, stop, step, start.__class__, stop.__class__, step.__class__
    if type(key) is not tuple or not key or type(key[-1]) not in _PARTS:
        return None
    return layout, *[view_key(layout, part) if type(part) is slice else part for part in key], *map(type, key)


def known_view(layout: Layout, key: Any) -> tuple[Layout, int] | None:
    """`basic_view`, looked up where a GPU's array had such a view before."""
    if layout.device == CPU:
        return basic_view(layout, key)
    try:
        known = KNOWN.get(view_key(layout, key))
    except TypeError:  # an index array cannot be looked up
        known = None
    return basic_view(layout, key) if known is None else known


def basic_view(layout: Layout, key: Any) -> tuple[Layout, int] | None:
    """Layout and byte offset of the view that a basic key selects; None if the key holds arrays."""
    found = indexing.basic(layout.shape, layout.strides, key)
    if found is None:
        return None
    shape, strides, offset = found
    seen = layout.view(shape, strides, offset)
    known = None if layout.device == CPU else view_key(layout, key)
    if known is not None:
        try:
            if len(KNOWN) >= _MOST_VIEWS:
                KNOWN.clear()
            KNOWN[known] = seen, offset
        except TypeError:  # something in it has no hash: a 0-d array as start, say
            pass
    return seen, offset
