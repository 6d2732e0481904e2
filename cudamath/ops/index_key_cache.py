"""Keys of integer arrays and basic parts (``x[0, places]``, ``x[:, rows, columns]``), looked up
where an array on a GPU was indexed by such a key before: to bring a key into its normal form
(core/indexing.py) takes longer than to gather."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.dispatch.call_record import open_records, report_made
from ..core.layout import Layout
from ..runtime.memory import table
from ..runtime.stream import stream_of
from .shape import unrecorded_view

#: What keys of integer arrays and basic parts select of arrays on a GPU: `_form_key` -> (layout of
#: the view that is indexed, its byte offset, the first axis, the layouts of the index arrays,
#: broadcast to one shape).
_forms: dict[tuple, tuple[Layout, int, int, tuple[Layout, ...]]] = {}
_MOST_FORMS = 4096
_FEW_PLACES = 64  # of a list of positions that is kept on the device


def _form_key(layout: Layout, key: tuple) -> tuple | None:
    """Under which a key is kept; None for keys with anything but arrays, Python's integers, slices,
    None and an ellipsis."""
    found: list[Any] = [layout]
    for part in key:
        kind = part.__class__
        if isinstance(part, ndarray):
            found.append(part._layout)
        elif kind is int or part is None or part is ...:
            found.append(part)
        elif kind is slice:  # with the numbers' classes, since 1.0 is found as 1
            found.append(
                (
                    part.start,
                    part.stop,
                    part.step,
                    part.start.__class__,
                    part.stop.__class__,
                    part.step.__class__,
                )
            )
        else:
            return None
    return tuple(found)


def form_of(x: ndarray, key: tuple) -> tuple[ndarray, int, list[ndarray]] | None:
    """The view of x that a key indexes, the first axis and the index arrays, if such a key was seen
    before."""
    try:
        form = _forms.get(_form_key(x._layout, key))  # type: ignore[arg-type]
    except TypeError:  # an array in a slice, say, has no hash
        return None
    if form is None:
        return None
    layout, offset, axis, layouts = form
    given = [part for part in key if isinstance(part, ndarray)]
    return (
        unrecorded_view(x, layout, offset),
        axis,
        [
            a if a._layout is b else unrecorded_view(a, b)
            for a, b in zip(given, layouts, strict=True)
        ],
    )


def keep_form(x: ndarray, key: Any, base: ndarray, axis: int, arrays: list[ndarray]) -> None:
    """Remember what a key of integer arrays was found to select of an array on a GPU, for
    `form_of`."""
    if (
        type(key) is not tuple
        or x._node is not None
        or x._layout.device < 0
        or base._owner is not x._owner
    ):
        return
    given = [part for part in key if isinstance(part, ndarray)]
    form = _form_key(x._layout, key)
    if form is None or [a._data for a in given] != [
        a._data for a in arrays
    ]:  # a mask, or one of another device
        return
    if len(_forms) >= _MOST_FORMS:
        _forms.clear()
    try:
        _forms[form] = base._layout, base._data - x._data, axis, tuple([a._layout for a in arrays])
    except TypeError:
        pass


def uploaded(x: ndarray, key: Any) -> Any:
    """``x[[0, 2]]`` and ``x[:, [0, 2]]`` on a GPU, few positions, all inside: the list as an array
    there, which is uploaded once for all keys like it. Any other key as it is."""
    places = key if type(key) is list else key[-1]
    axis = 0 if places is key else len(key) - 1
    if (
        not 0 < len(places) <= _FEW_PLACES
        or {*map(type, places)} != {int}
        or axis >= x.ndim
        or axis
        and any(
            [
                type(part) is not slice or not part.start is part.stop is part.step is None
                for part in key[:-1]
            ]
        )
    ):
        return key
    size = x._layout.shape[axis]
    if not -size <= min(places) <= max(places) < size:
        return key
    out = object.__new__(ndarray)
    out._layout = Layout.new((len(places),), np.dtype(np.int64), x._layout.device)
    out._owner = table(struct.pack(f"<{len(places)}q", *places), stream_of(x._layout.device))
    out._data, out._node, out._base = out._owner.address, None, None
    if open_records:
        report_made(out, None, fresh=False)
    return out if places is key else (*key[:-1], out)
