"""Gather by index arrays: the kernels and their planners. The choice: dispatch.py.

The idea. ``gather`` is out[b, j, a] = x[b, position[j], a] of a box (positions.py). A position out
of range sets the device's error flag and is replaced by row 0. The floor is (2 x output +
positions) bytes / bandwidth, and each row read is at least one 32-byte sector:

``gather_rows``     One thread per word of up to 8 bytes, or for several narrow ones; any strides.
``gather_pairs``    The same by two index arrays, without a merged list of positions.
``gather_vectors``  Contiguous rows that divide into accesses of 16 bytes. A thread has up to four
                    in flight, so gathering rows costs as much as copying them.
``gather_words``    Longer contiguous rows of other lengths: a warp moves a piece of a row by
                    narrower words, several in flight, and reads the index once. Rows of fewer than
                    SHORT words end before that pays: 65,536 of 33 16-bit words took 15.2 us, 8.1
                    by ``gather_rows`` (H100).
``gather_long``     Rows of half a kilobyte or more: a warp moves a piece of a row, and reads the
                    index once.

Measured (row versions_gather):
65,536 rows of 1,024 in random order, float32; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

                         GB/s     of a copy
    gather_rows         1,452          0.34
    gather_vectors      4,011          0.95

(end of what was measured)
"""

import functools
from math import prod
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Flag, Input, Output, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import WARP
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..compiler.storage_types import numba_type
from ..copy.contiguous import box, widest
from ..copy.parts import index_type
from ..lib.integers import blocks, power_of_two
from .positions import THREADS, flat_positions, index_lists, own, row_of, word_place
from .problem import GatherProblem

if not SIMULATOR:
    from ..ptx.vector_access import load_vector, store_vector

IN_FLIGHT = 4  # accesses of a thread of ``gather_vectors``, words of one of ``gather_rows``
# words or accesses from which on a thread takes several: fewer do not fill the device
MANY = 1 << 18
LONG_WARPS = 8  # of a block of ``gather_long`` and ``gather_words``
WORDS_IN_FLIGHT = 8  # of a lane of ``gather_words``
SHORT = 2 * WARP  # words


# -------------------- kernels


@functools.cache
def gather_rows(index: Any, word: np.dtype, each: int) -> Any:
    """out[b, j, a] = x[b, positions[j], a]; thread t of a block takes words t, t + THREADS, .. of
    the output, `each` in all: all positions are read before the first is used, and so are the
    words. `lines` and `over`: THREADS in lines of `after` words, and what is left, so that one
    division finds the first word and additions the others. Beyond the end it reads the last line
    again. ``index``: see index_type."""
    W = numba_type(word)

    @cuda.jit
    def gather_rows(x, positions, out, lines, over, flag, ticket):
        # x: (before, rows, after), positions: (m,), out: (before, m, after)
        first = index(index(cuda.blockIdx.x) * index(THREADS * each) + index(cuda.threadIdx.x))
        m, after, size = index(out.shape[1]), index(out.shape[2]), index(out.size)
        last = index(index(out.shape[0]) * m - index(1))
        batch = cuda.local.array(each, index)
        place = cuda.local.array(each, index)
        inside = cuda.local.array(each, index)
        rows = cuda.local.array(each, np.int64)
        found = cuda.local.array(each, W)
        line = index(first // after)
        a = index(first - line * after)
        for k in range(each):
            there = min(line, last)
            batch[k] = there // m if out.shape[0] > 1 else index(0)
            place[k] = there - batch[k] * m
            inside[k] = a
            rows[k] = np.int64(positions[place[k]])
            line = index(line + index(lines))
            a = index(a + index(over))
            if a >= after:
                a = index(a - after)
                line = index(line + index(1))
        wrong = False
        for k in range(each):
            row = own(rows[k], x.shape[1])
            wrong = wrong or row < 0
            found[k] = x[batch[k], max(row, np.int64(0)), inside[k]]
        for k in range(each):
            if index(first + index(k * THREADS)) < size:
                out[batch[k], place[k], inside[k]] = found[k]
        if wrong:
            flag[0] = ticket

    return gather_rows


@functools.cache
def gather_pairs(index: Any) -> Any:
    """out[b, j, a] = x[b, one[j], other[j], a], as ``gather_rows``: without a list of positions in
    between."""
    locate = word_place(index)

    @cuda.jit
    def gather_pairs(x, one, other, out, lines, columns, flag, ticket):
        # x: (before, lines * columns, after), one, other: (m,), out: (before, m, after)
        b, j, a = locate(out.shape[1], out.shape[2])
        if b < index(out.shape[0]):
            row = row_of(one, j, lines, flag, ticket) * columns + row_of(
                other, j, columns, flag, ticket
            )
            out[b, j, a] = x[b, row, a]

    return gather_pairs


@functools.cache
def gather_vectors(index: Any, each: int) -> Any:
    """The same for contiguous rows of ``length`` pairs of 8-byte words; a thread moves `each`
    pairs."""
    words = 2 * each

    @cuda.jit
    def gather_vectors(x, positions, out, rows, m, length, flag, ticket):
        # x: (before * rows * length * 2,), out: (before * m * length * 2,), both uint64; positions:
        # (m,)
        first = index(index(cuda.blockIdx.x) * index(THREADS * each) + index(cuda.threadIdx.x))
        pairs = index(out.size // 2)
        held = cuda.local.array(words, np.uint64)
        for k in range(each):
            i = index(first + index(k * THREADS))
            if i < pairs:
                q = i // index(length)
                b = q // index(m)
                row = b * rows + row_of(positions, q - b * index(m), rows, flag, ticket)
                pair = load_vector(x, 2 * (row * length + np.int64(i - q * index(length))), 2)
                held[2 * k] = pair[0]
                held[2 * k + 1] = pair[1]
        for k in range(each):
            i = index(first + index(k * THREADS))
            if i < pairs:
                store_vector(out, 2 * np.int64(i), (held[2 * k], held[2 * k + 1]))

    return gather_vectors


@functools.cache
def gather_long(row_of: Any, each: int) -> Any:
    """The same for rows of a warp's accesses or more: a warp moves a piece of a row, of which each
    lane has `each` pairs of 8-byte words. row_of: see ``row_of``."""
    words = 2 * each

    @cuda.jit
    def gather_long(x, positions, out, rows, m, length, pieces, flag, ticket):
        # x: (before * rows * length * 2,), out: (before * m * length * 2,), both uint64; positions:
        # (m,); pieces of a row
        held = cuda.local.array(words, np.uint64)
        item = types.uint32(cuda.blockIdx.x * LONG_WARPS + cuda.threadIdx.x // WARP)
        line = types.uint32(item // types.uint32(pieces))
        first = types.uint32(
            (item - line * types.uint32(pieces)) * types.uint32(each * WARP)
            + cuda.threadIdx.x % WARP
        )
        target = types.int64(line) * (2 * length)
        if target < out.size:
            b = line // types.uint32(m)
            row = types.int64(b) * rows + row_of(
                positions, line - b * types.uint32(m), rows, flag, ticket
            )
            for k in range(each):
                i = types.uint32(first + types.uint32(k * WARP))
                if i < length:
                    pair = load_vector(x, 2 * (row * length + types.int64(i)), 2)
                    held[2 * k] = pair[0]
                    held[2 * k + 1] = pair[1]
            for k in range(each):
                i = types.uint32(first + types.uint32(k * WARP))
                if i < length:
                    store_vector(out, target + 2 * types.int64(i), (held[2 * k], held[2 * k + 1]))

    return gather_long


@functools.cache
def gather_words(word: np.dtype, each: int) -> Any:
    """The same for rows that do not divide into accesses of 16 bytes: a warp moves a piece of a
    row, of which each lane has `each` words."""
    W = numba_type(word)

    @cuda.jit
    def gather_words(x, positions, out, rows, m, length, pieces, flag, ticket):
        # x: (before * rows * length,), out: (before * m * length,) words; positions: (m,); pieces
        # of a row
        held = cuda.local.array(each, W)
        item = types.uint32(cuda.blockIdx.x * LONG_WARPS + cuda.threadIdx.x // WARP)
        line = types.uint32(item // types.uint32(pieces))
        first = types.uint32(
            (item - line * types.uint32(pieces)) * types.uint32(each * WARP)
            + cuda.threadIdx.x % WARP
        )
        target = types.int64(line) * length
        if target < out.size:
            b = line // types.uint32(m)
            j = line - b * types.uint32(m)
            source = (types.int64(b) * rows + row_of(positions, j, rows, flag, ticket)) * length
            for k in range(each):
                i = types.int64(first + types.uint32(k * WARP))
                if i < length:
                    held[k] = x[source + i]
            for k in range(each):
                i = types.int64(first + types.uint32(k * WARP))
                if i < length:
                    out[target + i] = held[k]

    return gather_words


def long_rows(
    x: Any, positions: Any, out: Any, row_of: Any, before: int, rows: int, m: int, pairs: int
) -> Launch | None:
    """The launch of ``gather_long`` from (before, rows, pairs) to (before, m, pairs); None for rows
    that are too short."""
    accesses = blocks(pairs, WARP)
    each = 3 if accesses % 3 == 0 else min(accesses, 2)
    pieces = blocks(accesses, each)
    items, word = before * m * pieces, np.dtype(np.uint64)
    if pairs < WARP or items >= 1 << 31:
        return None
    return Launch(
        gather_long(row_of, each),
        blocks(items, LONG_WARPS),
        LONG_WARPS * WARP,
        [
            x.view((before * rows * pairs * 2,), dtype=word),
            positions,
            out.view((before * m * pairs * 2,), dtype=word),
            rows,
            m,
            pairs,
            pieces,
            Flag(),
            Ticket(),
        ],
    )


# -------------------- planners


def _inputs(p: GatherProblem, merge: bool = True) -> tuple[list, list, Any, Layout, list[Layout]]:
    """(steps, index arguments, argument of x as a box, its layout, scratch); merge: several index
    arrays become one list."""
    temps: list[Layout] = []
    if merge and p.count > 1:
        steps, positions = flat_positions(p.indices, p.sizes, 1, temps)
        arguments = [positions]
    else:
        steps, arguments = index_lists(p.indices, 1, temps)
    more, x, layout, _ = box(Input(0), p.x, p.axis, p.count, temps)
    return [*steps, *more], arguments, x, layout, temps


def by_long_rows(p: GatherProblem) -> Plan | None:
    """Version "long_rows": ``gather_long``. None where rows are too short for a warp, or the pieces
    of all rows too many."""
    steps, positions, x, layout, temps = _inputs(p)
    before, rows, after = layout.shape
    long = long_rows(
        x, *positions, Output(0), row_of, before, rows, p.m, after * p.x.itemsize // 16
    )
    return Plan([p.out], [*steps, long], temps) if long else None


def by_vectors(p: GatherProblem) -> Plan:
    """Version "vectors": ``gather_vectors``."""
    steps, positions, x, layout, temps = _inputs(p)
    pairs, word = p.out.nbytes // 16, np.dtype(np.uint64)
    each = IN_FLIGHT if pairs >= MANY else 1
    launch = Launch(
        gather_vectors(index_type(pairs), each),
        blocks(pairs, THREADS * each),
        THREADS,
        [
            x.view((layout.nbytes // 8,), dtype=word),
            *positions,
            Output(0).view((p.out.nbytes // 8,), dtype=word),
            layout.shape[1],
            p.m,
            layout.shape[2] * p.x.itemsize // 16,
            Flag(),
            Ticket(),
        ],
    )
    return Plan([p.out], [*steps, launch], temps)


def by_words(p: GatherProblem) -> Plan | None:
    """Version "words": ``gather_words``. None where rows are short, or the pieces of all rows too
    many."""
    steps, positions, x, layout, temps = _inputs(p)
    source, target = _words(p, x, layout)
    before, m, length = target.shape
    each = min(power_of_two(blocks(length, WARP)), WORDS_IN_FLIGHT)
    pieces = blocks(length, WARP * each)
    items = before * m * pieces
    if length < SHORT or items >= 1 << 31:
        return None
    rows, word = layout.shape[1], target.dtype
    launch = Launch(
        gather_words(word, each),
        blocks(items, LONG_WARPS),
        LONG_WARPS * WARP,
        [
            source.view((before * rows * length,), dtype=word),
            *positions,
            target.view((before * m * length,), dtype=word),
            *(rows, m, length, pieces),
            Flag(),
            Ticket(),
        ],
    )
    return Plan([p.out], [*steps, launch], temps)


def by_rows(p: GatherProblem) -> Plan:
    """Version "rows": ``gather_rows``."""
    steps, positions, x, layout, temps = _inputs(p)
    source, target = _words(p, x, layout)
    words, word = prod(target.shape), target.dtype
    each = IN_FLIGHT if word.itemsize < 8 and words >= MANY else 1
    launch = Launch(
        gather_rows(index_type(words), word, each),
        blocks(words, THREADS * each),
        THREADS,
        [source, *positions, target, *divmod(THREADS, target.shape[2]), Flag(), Ticket()],
    )
    return Plan([p.out], [*steps, launch], temps)


def by_pairs(p: GatherProblem) -> Plan:
    """Version "pairs": ``gather_pairs``."""
    steps, positions, x, layout, temps = _inputs(p, merge=False)
    source, target = _words(p, x, layout)
    words = prod(target.shape)
    launch = Launch(
        gather_pairs(index_type(words)),
        blocks(words, THREADS),
        THREADS,
        [source, *positions, target, *p.sizes, Flag(), Ticket()],
    )
    return Plan([p.out], [*steps, launch], temps)


def _words(p: GatherProblem, x: Any, layout: Layout) -> list[Any]:
    """x as a box and the result, in the widest words."""
    flat = p.out.like((layout.shape[0], p.m, layout.shape[2]))
    return widest((x, layout), (Output(0).view(flat.shape, flat.strides), flat))
