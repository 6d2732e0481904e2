"""Minima, maxima, their positions, any and all on the CPU, of contiguous arrays: (outer, n, inner)
-> (outer, inner).

NumPy's `argmax` compares one vector after the other, `any` converts its input, both read memory
across the rows for the first axis, and a call adds half a microsecond. Here lines are read at the
rate of the nearest caches:

- the extreme of a line is collected in four vectors side by side (NaN if there is one, as in
  NumPy);
- its position: the extreme of every PIECE is computed, then one piece is searched, STEP elements at
  a time;
- rows are reduced by blocks of columns whose results stay in the nearest cache;
- `any` stops at the piece that decides.

Zeros of either sign are equal; which of them is returned is unspecified. The position is that of
the first of equal elements, or of the first NaN.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from llvmlite import ir

from .lib.llvm_compiled import loop
from .lib.llvm_compiler import counted, emitted
from .lib.llvm_numbers import Number
from .lib.llvm_vectors import Emit

_INT64, _UINT64 = np.dtype(np.int64), np.dtype(np.uint64)

# numbers that are looked at together, at most 4 vectors of them where the best is looked for
STEP = 64
# numbers of a line between two looks at what has been found: all that is read twice where a place
# is looked for
PIECE = 1024
BLOCK = 1024  # columns at a time


def _by_llvm(of_floats: str, of_signed: str, of_unsigned: str) -> Any:
    """One of LLVM's binary functions, of two numbers of one type."""

    @emitted
    def function(b, x, y):  # noqa: ANN001, ANN202
        kind, llvm = x.value.type, {"f": of_floats, "i": of_signed}.get(x.dtype.kind, of_unsigned)
        declared = b.module.declare_intrinsic(
            f"llvm.{llvm}", [kind], ir.FunctionType(kind, [kind, kind])
        )
        flags = ("nsz",) if x.dtype.kind == "f" else ()
        return Number(x.dtype, b.call(declared, [x.value, y.value], fastmath=flags))

    return function


_maximum = _by_llvm("maximum", "smax", "umax")
_minimum = _by_llvm("minimum", "smin", "umin")


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


def _compared(emit: Emit, sign: str, x: Any, y: Any) -> Any:
    """x < y, x > y or x == y, lane by lane."""
    if emit.dtype.kind == "f":
        return emit.builder.fcmp_ordered(sign, x, y)
    signed = emit.dtype.kind == "i"
    return (emit.builder.icmp_signed if signed else emit.builder.icmp_unsigned)(sign, x, y)


def _by_vectors(sign: str) -> Any:
    """The best of a line of at least STEP numbers, where x beats y if `x sign y`; NaN if there is
    one."""

    @emitted
    def best_of(b, x):  # noqa: ANN001, ANN202
        emit, word, floats = Emit(b, x.dtype), ir.IntType(64), x.dtype.kind == "f"
        together = range(
            0, 4 * emit.lanes, emit.lanes
        )  # a comparison takes time, so four of them are in flight
        best = [emit.cell(emit.load(emit.at(x, k))) for k in together]
        lost = emit.cell(ir.Constant(ir.VectorType(ir.IntType(1), emit.lanes), None))

        def better(p, q):  # noqa: ANN001, ANN202
            return b.select(_compared(emit, sign, p, q), p, q)

        def take(first):  # noqa: ANN001, ANN202
            new = [emit.load(emit.at(x, first, k)) for k in together]
            for accumulator, numbers in zip(best, new, strict=True):
                b.store(better(numbers, b.load(accumulator)), accumulator)
            if floats:  # a comparison tells of either operand whether it is NaN
                for p, q in zip(new[::2], new[1::2], strict=True):
                    b.store(b.or_(b.load(lost), b.fcmp_unordered("uno", p, q)), lost)

        step = word(4 * emit.lanes)
        last = b.sub(x.shape[0], step)
        with counted(b, b.sdiv(b.add(last, word(4 * emit.lanes - 1)), step)) as turn:
            take(b.mul(turn, step))
        take(last)  # some of it was seen before
        p, q, r, s = [b.load(accumulator) for accumulator in best]
        total, width = better(better(p, q), better(r, s)), emit.lanes
        while width > 1:
            width //= 2
            turned = [(i + width) % emit.lanes for i in range(emit.lanes)]
            total = better(total, emit.shuffle(total, total, turned))
        value = b.extract_element(total, ir.IntType(32)(0))
        if floats:
            lanes = b.bitcast(b.load(lost), ir.IntType(emit.lanes))
            nan = ir.Constant(value.type, math.nan)
            value = b.select(b.icmp_unsigned("!=", lanes, lanes.type(0)), nan, value)
        return Number(x.dtype, value)

    return best_of


_largest, _smallest = _by_vectors(">"), _by_vectors("<")


def _equals(places: bool) -> Any:
    """Which of the STEP numbers from `first` on equal the value, a bit for each; without `places`,
    which is quicker, only whether any does: not 0."""

    @emitted
    def equal(b, x, first, value):  # noqa: ANN001, ANN202
        emit, word = Emit(b, x.dtype), ir.IntType(64)
        (at,), target, lanes = emit.words(first), emit.splat(value.value), ir.IntType(emit.lanes)
        matches = [
            _compared(emit, "==", emit.load(emit.at(x, at, k)), target)
            for k in range(0, STEP, emit.lanes)
        ]
        if not places:
            found = b.zext(b.bitcast(functools.reduce(b.or_, matches), lanes), word)
        else:
            bits = [b.zext(b.bitcast(each, lanes), word) for each in matches]
            found = functools.reduce(
                b.or_, [b.shl(each, word(k * emit.lanes)) for k, each in enumerate(bits)]
            )
        return Number(_UINT64, found)

    return equal


_which, _any = _equals(True), _equals(False)


@emitted
def _lowest(b, bits):  # noqa: ANN001, ANN202
    """The place of the lowest bit that is set."""
    return Number(_INT64, b.cttz(bits.value, ir.IntType(1)(1)))


def _best(x, largest):
    """x: (n,). `_best_of`, by vectors where there are enough numbers."""
    if x.size < STEP:
        return _best_of(x, largest)
    return _largest(x) if largest else _smallest(x)


def _first(x, value):
    """x: (n,). The first place of a value that is there, or of a NaN."""
    if value != value or x.size < STEP:
        place = 0
        while not (x[place] == value or x[place] != x[place]):
            place += 1
        return place
    for place in range(0, x.size - STEP, STEP):
        if _any(x, place, value):
            return place + _lowest(_which(x, place, value))
    return x.size - STEP + _lowest(_which(x, x.size - STEP, value))


def _place(x, largest):
    """x: (n,). The place of the first of the largest (smallest) numbers, or of the first NaN."""
    if x.size <= PIECE:
        return _first(x, _best(x, largest))
    best, piece = x[0], 0
    for first in range(0, x.size, PIECE):
        extreme = _best(x[first : first + PIECE], largest)
        if extreme != extreme:
            best, piece = extreme, first
            break
        if (extreme > best) if largest else (extreme < best):
            best, piece = extreme, first
    return piece + _first(x[piece : piece + PIECE], best)


def _some(x, zero):
    """x: (n,). Whether there is a zero (`zero`), or a number that is none."""
    result = False
    for i in range(x.size):
        result |= (x[i] == 0) == zero
    return result


def _anywhere(x, zero):
    """`_some`, until there is one."""
    for first in range(0, x.size, PIECE):
        if _some(x[first : first + PIECE], zero):
            return True
    return False


@loop
def best_of_lines(x, largest, out):
    """x: (outer, n, 1), n > 0, out: (outer, 1). The largest or smallest numbers over n."""
    lines = x.reshape(x.shape[0], x.shape[1])
    for o in range(x.shape[0]):
        out[o, 0] = _best(lines[o], largest)


@loop
def best_of_rows(x, largest, out):
    """x: (outer, n, inner), n > 0, out: (outer, inner). The largest or smallest numbers over n."""
    outer, n, inner = x.shape
    for o in range(outer):
        for left in range(0, inner, BLOCK):
            total = out[o, left : left + BLOCK]
            row = x[o, 0, left : left + BLOCK]
            for j in range(total.size):
                total[j] = row[j]
            for i in range(1, n):
                row = x[o, i, left : left + BLOCK]
                if largest:
                    for j in range(total.size):
                        total[j] = _maximum(total[j], row[j])
                else:
                    for j in range(total.size):
                        total[j] = _minimum(total[j], row[j])


def _update(row, i, largest, total, places):
    """row, total: (m,), places: (m,). Where the row beats the total, it and its number `i` take the
    place."""
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


@loop
def places_in_lines(x, largest, out):
    """x: (outer, n, 1), n > 0, out: (outer, 1) int64. The places over n of the largest or smallest
    numbers."""
    lines = x.reshape(x.shape[0], x.shape[1])
    for o in range(x.shape[0]):
        out[o, 0] = _place(lines[o], largest)


@loop
def places_in_rows(x, largest, out):
    """x: (outer, n, inner), 0 < n < 2^31, out: (outer, inner) int64. The places over n of the
    largest or smallest numbers."""
    outer, n, inner = x.shape
    total = np.empty(min(inner, BLOCK), x.dtype)
    places = np.empty(min(inner, BLOCK), np.int32)  # as wide as most numbers: vector beside vector
    for o in range(outer):
        for left in range(0, inner, BLOCK):
            width = min(inner - left, BLOCK)
            row = x[o, 0, left : left + width]
            for j in range(width):
                total[j], places[j] = row[j], 0
            for i in range(1, n):
                _update(
                    x[o, i, left : left + width],
                    np.int32(i),
                    largest,
                    total[:width],
                    places[:width],
                )
            found = out[o, left : left + width]
            for j in range(width):
                found[j] = places[j]


@loop
def any_or_all_of_lines(x, every, out):
    """x: (outer, n, 1), out: (outer, 1) bool. Whether all numbers over n (`every`), or any, are not
    zero."""
    lines = x.reshape(x.shape[0], x.shape[1])
    for o in range(x.shape[0]):
        out[o, 0] = _anywhere(lines[o], every) != every


@loop
def any_or_all_of_rows(x, every, out):
    """x: (outer, n, inner), out: (outer, inner) bool. Whether all numbers over n (`every`), or any,
    are not zero."""
    outer, n, inner = x.shape
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
