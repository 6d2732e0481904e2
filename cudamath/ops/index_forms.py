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


def _form_key(layout: Layout, key: tuple) -> tuple[tuple, list[ndarray]] | None:
    """Under which a key is kept, with the numbers' classes, since 1.0 is found as 1; and its arrays. None for others."""
    found: list[Any] = [layout]
    arrays = []
    for part in key:
        kind = part.__class__
        if kind is ndarray:
            if part._layout.dtype.kind == "b" or part._layout.device != layout.device:
                return None
            found.append(part._layout)
            arrays.append(part)
        elif kind is slice:
            found += (slice, part.start, part.stop, part.step, part.start.__class__, part.stop.__class__, part.step.__class__)
        elif kind is int or part is None or part is ...:
            found += (kind, part)
        else:
            return None
    return (tuple(found), arrays) if layout.device >= 0 and arrays else None


def known_form(x: ndarray, key: tuple) -> tuple[ndarray, int, list[ndarray]] | None:
    """The view of x that a key indexes, the first axis and the index arrays, if such a key was seen before."""
    form = _form_key(x._layout, key)
    try:
        known = None if form is None else _forms.get(form[0])
    except TypeError:  # an array in a slice, say, has no hash
        return None
    if known is None or form is None:
        return None
    layout, offset, axis, layouts = known
    return x._view(layout, offset), axis, [a if a._layout is b else a._view(b) for a, b in zip(form[1], layouts, strict=True)]


def keep_form(x: ndarray, key: Any, base: ndarray, axis: int, arrays: list[ndarray]) -> None:
    """Remember what a key was found to select, for `known_form`."""
    form = _form_key(x._layout, key) if type(key) is tuple and x._node is None and base._owner is x._owner else None
    if form is None or [a._data for a in form[1]] != [a._data for a in arrays]:
        return
    if len(_forms) >= _MOST_FORMS:
        _forms.clear()
    try:
        _forms[form[0]] = base._layout, base._data - x._data, axis, tuple([a._layout for a in arrays])
    except TypeError:
        pass
