"""Tables with a limit: a full table is emptied before the next entry.

A program with ever new shapes would otherwise keep a plan of each. Emptying costs one planning per
layout in use. In return a lookup is a plain dict lookup, with no order of use to maintain.
"""

from __future__ import annotations

import contextlib
from typing import Any, TypeVar

V = TypeVar("V")

#: Entries of a table, unless it has a limit of its own.
MOST = 4096


def make_room(table: dict, most: int | None = None) -> None:
    """Empty a table that is full."""
    if len(table) >= (MOST if most is None else most):
        table.clear()


def store(table: dict[Any, V], key: Any, value: V, most: int | None = None) -> V:
    """Put a value into a table and return it. A full table is emptied first; a key that has no hash
    is not stored."""
    make_room(table, most)
    with contextlib.suppress(TypeError):
        table[key] = value
    return value
