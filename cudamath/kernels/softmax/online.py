"""The running maximum and sum of a softmax, and how two of them merge."""

from __future__ import annotations

import functools
import math

from ..compiler.decorators import device_function
from ..lib.codec import codec
from ..lib.fast_math import exponential

#: Bytes of shared memory for each of two blocks on a multiprocessor, by capability: elsewhere there
#: is too little.
CACHE = {(8, 0): 80 << 10, (9, 0): 112 << 10, (10, 0): 112 << 10}
VECTORS = 4  # independent reads in flight in long_rows


@functools.cache
def online(dtype):
    """Device function (m, s, v, count): maximum and sum of exp(. - maximum), with v[0], ...,
    v[count - 1] added to them.

    A maximum of -inf (nothing seen but -inf) shifts by 0 instead: -inf minus -inf would be NaN.
    """
    T, exp = codec(dtype)[2], exponential(dtype)
    lowest = T(-math.inf)

    @device_function
    def take(m, s, v, count):
        top = m
        for e in range(count):
            top = max(top, v[e])
        shift = top if top != lowest else T(0)
        s = s * exp(m - shift)
        for e in range(count):
            s += exp(v[e] - shift)
        return top, s

    return take


@functools.cache
def rescale(dtype):
    """Device function (m, s, top): what the sum s of exp(. - m) becomes when the maximum grows from
    m to top."""
    T, exp = codec(dtype)[2], exponential(dtype)
    lowest = T(-math.inf)

    @device_function
    def rescaled(m, s, top):
        return s * exp(m - (top if top != lowest else T(0)))

    return rescaled


@functools.cache
def formula(dtype, log):
    """Device functions: term(g, y) to be summed over the line, and slope(g, y, sum)."""
    exp = exponential(dtype)

    @device_function
    def term(g, y):
        return g if log else g * y

    @device_function
    def slope(g, y, total):
        return g - exp(y) * total if log else y * (g - total)

    return term, slope


@functools.cache
def ends(width, border):
    """Device function (start, columns, t) -> (elements before the first border, accesses inside,
    the element that thread t has at one of the ends, or -1). border: elements from one to the next,
    a multiple of `width`."""

    @device_function
    def found(start, columns, t):
        head = min((border - start % border) % border, columns)
        inner = (columns - head) // width
        tail = columns - head - inner * width
        lone = (
            t
            if t < head
            else (columns - tail + t - border if t >= border and t < border + tail else -1)
        )
        return head, inner, lone

    return found
