"""Reductions that take the eight 16-bit floats of one load together, where they are neighbours in a
row (see dispatch.py).

One by one, an argmax of a number takes a conversion, three comparisons and three choices, and a
variance divides for each load; both are then bound by instructions, not by memory. Together:

    argmax   A 16-bit float with its lower bits inverted if it is negative is an ordered integer,
             and two fit in a word. The lower half of a register holds the element's place in the
             load: (number << 16) + 7 - e. The larger key is the larger number, of equal ones the
             first, so an element costs half of three instructions, a placement and a maximum. The
             rest is once per load.
    var      The mean of eight numbers, then the squares of the distances from it: no division,
             no cancellation. Lanes combine in the same way: a division for the share of each in the
             mean of all, then sums. In pairs they would divide five times.
"""

import functools
from typing import Any

import numpy as np

from ...core.specs.reduction import Accumulator, Reduction
from ..compiler.decorators import WARP, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..lib.accumulators import SIGNED, accumulator
from ..lib.codec import codec
from .block_reduce import FULL, lane_exchange

if not SIMULATOR:
    from ..ptx.intrinsics import instruction

i32, u32 = types.int32, types.uint32
# place of the last element of a load, a mask for places, and what a key without a place has there
LAST = 7


@functools.cache
def ordered(largest: bool, source: np.dtype) -> Any:
    """Device function: two 16-bit floats in a word -> two ordered integers of 16 bits; with
    `largest` false in reverse order.

    Times 1 (or -1) plus 0, by the instruction for two: -0 becomes 0, and each NaN 0x7FFF, which is
    beyond all others. Then the 15 lower bits of negative numbers are inverted; the permutation
    spreads the signs over them.
    """
    bf16 = source.kind == "V"
    one = (0x3F803F80 if bf16 else 0x3C003C00) | (0 if largest else 0x80008000)
    return instruction(
        f"ordered_{'bf16' if bf16 else 'f16'}_{'up' if largest else 'down'}",
        f"{{ .reg .b32 one, zero, x, s; mov.b32 one, {one:#x}; mov.b32 zero, 0;\n"
        f"fma.rn.{'bf16x2' if bf16 else 'f16x2'} x, $1, one, zero;\n"
        "prmt.b32 s, x, 0, 0xBB99; and.b32 s, s, 0x7FFF7FFF; xor.b32 $0, x, s; }",
        u32,
        (u32,),
        "Two floats of 16 bits as ordered integers.",
    )


@functools.cache
def place(reduction: Any, source: np.dtype, target: np.dtype) -> Accumulator:
    """argmax, argmin: (key, number of the load's first element)."""
    order = ordered(reduction.largest, source)
    lowest = i32(np.iinfo(np.int32).min)  # below all keys

    @device_function
    def lift(value, j):  # an element by itself: the first of a load
        return i32(order(u32(value)) << u32(16)) | i32(LAST), SIGNED(j)

    @device_function
    def keys(low, high, e):
        word = order(u32(low) | (u32(high) << u32(16)))
        first, second = (
            i32((word << u32(16)) | u32(LAST - e)),
            i32((word & u32(0xFFFF0000)) | u32(LAST - e - 1)),
        )
        return first if first > second else second

    @device_function
    def larger(a, b):
        return a if a > b else b

    @device_function
    def together(v, j):
        low = larger(keys(v[0], v[1], 0), keys(v[2], v[3], 2))
        high = larger(keys(v[4], v[5], 4), keys(v[6], v[7], 6))
        return larger(low, high), SIGNED(j)

    @device_function
    def follow(a, b):
        return b if b[0] > a[0] | i32(LAST) else a

    @device_function
    def combine(a, b):
        one, other = a[0] | i32(LAST), b[0] | i32(LAST)
        return b if other > one or (other == one and b[1] < a[1]) else a

    @device_function
    def identity():
        return lowest, SIGNED(0)

    @device_function
    def finish(a, divisor):
        return a[1] + SIGNED(i32(LAST) - (a[0] & i32(LAST)))

    return Accumulator(lift, combine, identity, finish, (i32, SIGNED), follow, together)


@functools.cache
def spread(reduction: Reduction, source: np.dtype, target: np.dtype) -> Accumulator:
    """var, std: (mean, sum of squared distances from it, count), as for single elements."""
    single = accumulator(reduction, source, target)
    load, join, A = codec(source)[0], single.combine, single.kinds[0]
    eighth, count, none = A(0.125), A(8), A(0)

    @device_function
    def together(v, j):
        a, b, c, d = A(load(v[0])), A(load(v[1])), A(load(v[2])), A(load(v[3]))
        e, f, g, h = A(load(v[4])), A(load(v[5])), A(load(v[6])), A(load(v[7]))
        # shares, not a sum: it might be beyond float32 where the mean is not
        mean = (a * eighth + b * eighth + c * eighth + d * eighth) + (
            e * eighth + f * eighth + g * eighth + h * eighth
        )
        a, b, c, d, e, f, g, h = (
            a - mean,
            b - mean,
            c - mean,
            d - mean,
            e - mean,
            f - mean,
            g - mean,
            h - mean,
        )
        return mean, (a * a + b * b + c * c + d * d) + (e * e + f * f + g * g + h * h), count

    @device_function
    def combine(a, b):
        return b if a[2] == none else join(a, b)  # the first loads of a thread: no division

    @functools.cache
    def meet(lanes: int) -> Any:
        total, before = _total(A, lanes), WARP - lanes

        @device_function
        def meet(a):
            every = total(a[2])
            share = a[2] / every if every > none else none
            first = A(
                cuda.shfl_sync(FULL, a[0], cuda.laneid & before)
            )  # has elements if any has; beside it equal ones are 0
            delta = a[0] - first if a[2] > none else none
            shift = total(delta * share)
            delta -= shift
            return first + shift, total(a[1] + a[2] * (delta * delta)), every

        return meet

    return single._replace(combine=combine, together=together, meet=meet)


@functools.cache
def _total(A: Any, lanes: int) -> Any:
    """Device function: the sum over `lanes` neighbouring lanes, in each of them."""
    other, steps = lane_exchange(A), lanes.bit_length() - 1

    @device_function
    def total(value):
        for step in range(steps):
            value = value + other(value, 1 << step)
        return value

    return total
