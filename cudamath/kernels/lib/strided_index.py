"""Walking over the elements of an array in any strides."""

from __future__ import annotations

import functools
from typing import Any

from ..compiler.decorators import device_function
from ..compiler.lazy_numba import types


@functools.cache
def index_walker(first: int, rank: int, narrow: bool) -> Any:
    """Device function (x, j) -> index tuple of the j-th element of the dimensions first .. first +
    rank - 1 of x.

    narrow: fewer than 2**31 elements, so that 32-bit division will do (about a quarter of the
    cost).
    """
    if rank == 1:

        @device_function
        def unravel(x, j):
            return (j,)

        return unravel
    rest = index_walker(first, rank - 1, narrow)
    last = first + rank - 1
    number = types.uint32 if narrow else types.int64

    @device_function
    def unravel(x, j):
        size = number(x.shape[last])
        row = number(j) // size
        return rest(x, types.int64(row)) + (types.int64(number(j) - row * size),)

    return unravel


@functools.cache
def offset_walker(first: int, rank: int, narrow: bool, itemsize: int) -> Any:
    """Device function (x, j) -> distance, in elements, of the j-th element of those dimensions from
    the first."""
    last = first + rank - 1
    if rank == 1:

        @device_function
        def offset(x, j):
            return j * (x.strides[first] // itemsize)

        return offset
    rest = offset_walker(first, rank - 1, narrow, itemsize)
    number = types.uint32 if narrow else types.int64

    @device_function
    def offset(x, j):
        size = number(x.shape[last])
        row = number(j) // size
        column = types.int64(number(j) - row * size)
        return rest(x, types.int64(row)) + column * (x.strides[last] // itemsize)

    return offset
