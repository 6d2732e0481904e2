"""Index arithmetic that grouped products share."""

from __future__ import annotations

from ..compiler.decorators import device_function
from ..compiler.lazy_numba import types

i64 = types.int64


@device_function
def inside(end, start, rows):
    """An end of a group, kept between where the group starts and the last row."""
    return min(max(i64(end), i64(start)), i64(rows))


@device_function
def in_order(ends, group, rows):
    """Whether this end is where one may be."""
    before = i64(ends[group - 1]) if group > 0 else i64(0)
    return before >= 0 and i64(ends[group]) >= before and i64(ends[group]) <= rows
