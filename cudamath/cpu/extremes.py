"""Largest, smallest, their places, any and all on the CPU, of contiguous arrays: (outer, n, inner) -> (outer, inner).

NumPy looks at one vector of numbers after the other for `argmax`, converts for `any`, goes through memory across the rows
for both along the first axis, and adds half a microsecond before and after. Here lines are read at the pace of the nearest
caches: the largest number of a line by LLVM's `maximum`, which is NaN where one operand is, as NumPy's; its place by the
largest number of every PIECE, after which one piece is searched; rows by blocks of columns whose results stay in the
nearest cache. `any` stops at the piece that decides.

Zeros of either sign are equal here: which one is the largest is not said. The first of equal numbers has the place, and the
first NaN before all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

LANES = 64  # numbers that compiled loops take at a time; what is left over goes one by one
PIECE = 8192  # numbers of a line between two looks at what has been found
BLOCK = 1024  # columns at a time


def _by_llvm(of_floats: str, of_signed: str, of_unsigned: str) -> Any:
    """One of LLVM's binary functions, of two numbers of one type."""

    @intrinsic
    def function(_, x, y):  # noqa: ANN001, ANN202
        name = of_floats if isinstance(x, types.Float) else of_signed if x.signed else of_unsigned

        def generate(_context, builder, _signature, arguments):  # noqa: ANN001, ANN202
            kind = arguments[0].type
            llvm = builder.module.declare_intrinsic(f"llvm.{name}", [kind], ir.FunctionType(kind, [kind, kind]))
            return builder.call(llvm, arguments, fastmath=("nsz",) if isinstance(x, types.Float) else ())

        return x(x, x), generate

    return function


_maximum = _by_llvm("maximum", "smax", "umax")
_minimum = _by_llvm("minimum", "smin", "umin")


@njit(cache=True, nogil=True)
def _best_of(x, largest):
    """x: (n,), n > 0. The largest or smallest number; NaN if there is one."""
    best = x[0]
    if largest:
        for i in range(x.size):
            best = _maximum(best, x[i])
    else:
        for i in range(x.size):
            best = _minimum(best, x[i])
    return best


@njit(cache=True, nogil=True)
def _best(x, largest):
    """`_best_of`, where nothing is left over: the last LANES numbers are looked at again instead."""
    over = x.size % LANES
    if over == 0 or x.size < LANES:
        return _best_of(x, largest)
    first, last = _best_of(x[: x.size - over], largest), _best_of(x[x.size - LANES :], largest)
    return _maximum(first, last) if largest else _minimum(first, last)


@njit(cache=True, nogil=True)
def _first(x, value):
    """x: (n,), n <= PIECE. The first place of a value that is there, or of a NaN: the least of all its places, which takes
    no branch."""
    nowhere = np.int32(PIECE)
    place = nowhere
    if value == value:
        for i in range(x.size):
            place = min(place, np.int32(i) if x[i] == value else nowhere)
    else:
        for i in range(x.size):
            place = min(place, np.int32(i) if x[i] != x[i] else nowhere)
    return place


@njit(cache=True, nogil=True)
def _place(x, largest):
    """x: (n,). The place of the first of the largest (smallest) numbers, or of the first NaN."""
    best, piece = x[0], 0
    for first in range(0, x.size, PIECE):
        found = _best(x[first : first + PIECE], largest)
        if found != found:
            best, piece = found, first
            break
        if (found > best) if largest else (found < best):
            best, piece = found, first
    return piece + _first(x[piece : piece + PIECE], best)


@njit(cache=True, nogil=True)
def _some(x, zero):
    """x: (n,). Whether there is a zero (`zero`), or a number that is none."""
    found = False
    for i in range(x.size):
        found |= (x[i] == 0) == zero
    return found


@njit(cache=True, nogil=True)
def _anywhere(x, zero):
    """`_some`, until there is one."""
    for first in range(0, x.size, PIECE):
        if _some(x[first : first + PIECE], zero):
            return True
    return False


@njit(cache=True, nogil=True)
def best(x, largest, out):
    """x: (outer, n, inner), n > 0, out: (outer, inner). The largest or smallest numbers over n."""
    outer, n, inner = x.shape
    if inner == 1:
        lines = x.reshape(outer, n)
        for o in range(outer):
            out[o, 0] = _best(lines[o], largest)
        return
    for o in range(outer):
        for left in range(0, inner, BLOCK):
            total = out[o, left : left + BLOCK]
            total[:] = x[o, 0, left : left + BLOCK]
            for i in range(1, n):
                row = x[o, i, left : left + BLOCK]
                if largest:
                    for j in range(total.size):
                        total[j] = _maximum(total[j], row[j])
                else:
                    for j in range(total.size):
                        total[j] = _minimum(total[j], row[j])


@njit(cache=True, nogil=True)
def _update(row, i, largest, total, places):
    """row, total: (m,), places: (m,). Where the row beats the total, it and its number `i` take the place."""
    if largest:
        for j in range(total.size):
            beats = not row[j] <= total[j] and total[j] == total[j]
            total[j] = row[j] if beats else total[j]
            places[j] = i if beats else places[j]
    else:
        for j in range(total.size):
            beats = not row[j] >= total[j] and total[j] == total[j]
            total[j] = row[j] if beats else total[j]
            places[j] = i if beats else places[j]


@njit(cache=True, nogil=True)
def place(x, largest, out):
    """x: (outer, n, inner), 0 < n < 2^31, out: (outer, inner) int64. The places over n of the largest or smallest numbers."""
    outer, n, inner = x.shape
    if inner == 1:
        lines = x.reshape(outer, n)
        for o in range(outer):
            out[o, 0] = _place(lines[o], largest)
        return
    total = np.empty(min(inner, BLOCK), x.dtype)
    places = np.empty(min(inner, BLOCK), np.int32)  # as wide as most numbers: vector beside vector
    for o in range(outer):
        for left in range(0, inner, BLOCK):
            width = min(inner - left, BLOCK)
            total[:width] = x[o, 0, left : left + width]
            places[:width] = 0
            for i in range(1, n):
                _update(x[o, i, left : left + width], np.int32(i), largest, total[:width], places[:width])
            out[o, left : left + width] = places[:width]


@njit(cache=True, nogil=True)
def found(x, every, out):
    """x: (outer, n, inner), out: (outer, inner) bool. Whether all numbers over n (`every`), or any, are not zero."""
    outer, n, inner = x.shape
    if inner == 1:
        lines = x.reshape(outer, n)
        for o in range(outer):
            out[o, 0] = _anywhere(lines[o], every) != every
        return
    for o in range(outer):
        for left in range(0, inner, BLOCK):
            total = out[o, left : left + BLOCK]
            total[:] = every
            for i in range(n):
                row = x[o, i, left : left + BLOCK]
                if every:
                    for j in range(total.size):
                        total[j] &= row[j] != 0
                else:
                    for j in range(total.size):
                        total[j] |= row[j] != 0
