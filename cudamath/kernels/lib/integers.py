"""Integer helpers for launches: blocks of a grid, powers of two."""

from __future__ import annotations

import math


def blocks(count: int, per_block: int) -> int:
    """How many blocks cover `count` items."""
    return -(-count // per_block)


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least n (and at least 1)."""
    return 1 << max(0, math.ceil(math.log2(max(n, 1))))
