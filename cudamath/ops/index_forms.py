"""Keys of integer arrays and basic parts (``x[0, places]``, ``x[:, rows, columns]``), looked up where an array on a GPU was
indexed by such a key before: to bring a key into its normal form (core/indexing.py) takes longer than to gather."""

from __future__ import annotations

from typing import Any

from ..core.array import ndarray
from ..core.layout import Layout

#: What keys of integer arrays and basic parts select of arrays on a GPU: `_form_key` -> (layout of the view that is indexed,
#: its byte offset, the first axis, the layouts of the index arrays, broadcast to one shape).
_forms: dict[tuple, tuple[Layout, int, int, tuple[Layout, ...]]] = {}
_MOST_FORMS = 4096


def _form_key(layout: Layout, key: tuple) -> tuple | None:
    """Under which a key is kept; None for keys with anything but arrays, Python's integers, slices, None and an ellipsis."""
    found: list[Any] = [layout]
    for part in key:
        kind = part.__class__
        if kind is ndarray:
            found.append(part._layout)
        elif kind is int or part is None or part is ...:
            found.append(part)
        elif kind is slice:  # with the numbers' classes, since 1.0 is found as 1
            found.append((part.start, part.stop, part.step, part.start.__class__, part.stop.__class__, part.step.__class__))
        else:
            return None
    return tuple(found)


def known_form(x: ndarray, key: tuple) -> tuple[ndarray, int, list[ndarray]] | None:
    """The view of x that a key indexes, the first axis and the index arrays, if such a key was seen before."""
    try:
        known = _forms.get(_form_key(x._layout, key))  # type: ignore[arg-type]
    except TypeError:  # an array in a slice, say, has no hash
        return None
    if known is None:
        return None
    layout, offset, axis, layouts = known
    given = [part for part in key if part.__class__ is ndarray]
    return x._view(layout, offset), axis, [a if a._layout is b else a._view(b) for a, b in zip(given, layouts, strict=True)]


def keep_form(x: ndarray, key: Any, base: ndarray, axis: int, arrays: list[ndarray]) -> None:
    """Remember what a key of integer arrays was found to select of an array on a GPU, for `known_form`."""
    if type(key) is not tuple or x._node is not None or x._layout.device < 0 or base._owner is not x._owner:
        return
    given = [part for part in key if type(part) is ndarray]
    form = _form_key(x._layout, key)
    if form is None or [a._data for a in given] != [a._data for a in arrays]:  # a mask, or one of another device
        return
    if len(_forms) >= _MOST_FORMS:
        _forms.clear()
    try:
        _forms[form] = base._layout, base._data - x._data, axis, tuple([a._layout for a in arrays])
    except TypeError:
        pass
