"""Tables that empty themselves when they are full.

A program with ever new shapes would otherwise keep a plan of each. To start anew costs one planning
per layout in use, and needs no bookkeeping at a lookup, which is what happens often.
"""

from __future__ import annotations

import contextlib
from typing import Any

#: Entries of a table, unless it says otherwise.
MOST = 4096


def store(table: dict, key: Any, value: Any, most: int | None = None) -> None:
    """Put a value into a table; a full table is emptied first. A key without a hash is left out."""
    if len(table) >= (MOST if most is None else most):
        table.clear()
    with contextlib.suppress(TypeError):
        table[key] = value
