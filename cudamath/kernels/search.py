"""Places in a sorted array: searchsorted.

The idea. Each thread halves the range in which its number can lie until nothing is left: log2(n) + 1 steps, each a
read of the sorted array. Steps near the middle of the array are the same for everybody and come from the caches; the
later ones are one 32-byte sector each. Numbers are compared by their keys (keys.py), so NaN is the largest of all.

One version, plain. The floor is a read of the numbers and a write of 8 bytes each; searches in arrays larger than the
caches are bound by their last steps, about one sector from DRAM a number and doubling of the array beyond the cache.
"""

import functools
from typing import Any

import numpy as np
from numba import cuda, types

from ..core.layout import Layout
from ..core.plan import Input, Launch, Output, Plan
from .build import blocks
from .index import dense
from .keys import Coding, coding

THREADS = 256


@functools.cache
def find(coding: Coding, right: bool) -> Any:
    """places[i] = how many elements of the sorted array are less than (right: not greater than) numbers[i]."""
    _, key_of, K, _ = coding
    plain = K(0)

    @cuda.jit
    def find(ordered, numbers, places):  # ordered: (n,) words, numbers: (m,) words, places: (m,) int64
        i = cuda.grid(1)
        if i < places.size:
            wanted = key_of(numbers[i], plain)
            low = types.int64(0)
            high = types.int64(ordered.size)
            while low < high:
                middle = (low + high) >> 1
                key = key_of(ordered[middle], plain)
                if key < wanted or (right and key == wanted):
                    low = middle + 1
                else:
                    high = middle
            places[i] = low

    return find


def searchsorted(ordered: Layout, numbers: Layout, *, right: bool) -> Plan:
    """Places of numbers, of any shape, in a sorted vector of the same dtype."""
    out = numbers.like(dtype=np.dtype(np.int64))
    if not out.size:
        return Plan([out], [])
    temps: list[Layout] = []
    first, table = dense(Input(0), ordered, ordered.shape, ordered.dtype, temps)
    second, given = dense(Input(1), numbers, numbers.shape, numbers.dtype, temps)
    code = coding(ordered.dtype)
    seen = [a.view((x.size,), dtype=code.word) for a, x in ((table, ordered), (given, numbers))]
    return Plan([out], [*first, *second, Launch(find(code, right), blocks(out.size, THREADS), THREADS,
                                                [*seen, Output(0).flat])], temps)
