"""Integer helpers for launches: blocks of a grid, threads, powers of two."""

from __future__ import annotations

import math


def blocks(count: int, per_block: int) -> int:
    """How many blocks cover `count` items."""
    return -(-count // per_block)


def with_tail(count: int, width: int) -> int:
    """Threads of a kernel whose thread t has the `width` elements from t * width on, if all are
    below `count`; else element t + count // width * (width - 1), if that is: the last elements,
    which fill no access, have a thread each."""
    return count // width + count % width


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least n (and at least 1)."""
    return 1 << max(0, math.ceil(math.log2(max(n, 1))))
