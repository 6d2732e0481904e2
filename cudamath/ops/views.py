"""TRANSITION: what ops/source.py, ops/linalg.py and ml/activation.py still use; then this file
goes."""

from __future__ import annotations

import math
from typing import Any

_MOST_VIEWS = 4096


def remember(table: dict, key: Any, value: Any) -> None:
    """Put into a table that forgets everything when it is full."""
    if len(table) >= _MOST_VIEWS:
        table.clear()
    table[key] = value


def all_ints(size: Any) -> bool:
    """Whether a size is an int or a tuple of ints: 3.0 would be found as 3."""
    try:
        return size.__class__ is int or (
            size.__class__ is tuple and math.prod(size).__class__ is int
        )
    except TypeError:
        return False
