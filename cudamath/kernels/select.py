"""Order statistics: the elements that would stand at some ranks of a sorted line, without sorting it.

The idea. A key (keys.py) is a number of so many digits of up to DIGIT bits. Counting how often each value of the highest
digit occurs tells, by running sums, with which digit the key at a rank begins, and what its rank is among the keys that begin
so (``narrow``). Then the next digit is counted of those keys alone (``count_candidates``): of most lines the first counting
leaves one candidate in a hundred. All ranks are looked for at the same time, each with its own beginning of a key. Three
digits find a float32: three reads of the line, where a sort reads and writes it four times.

The element is made from its key again, so a zero is 0.0 and a NaN is the usual one. Counts are integers: the same result on
every run. The floor is one read of the elements for each digit.
"""

import functools
from typing import Any

import numpy as np

from ..core.layout import Layout
from ..core.plan import Constant, Input, Launch, Output, Plan, Temp
from .build import blocks
from .copy import fill_part, whole
from .index import dense
from .keys import Coding, coding
from .lazy import cuda, types
from .rows import device

DIGIT = 11  # bits of a digit, at most
VALUES = 1 << DIGIT
THREADS = 256
EACH = VALUES // THREADS  # values of a digit that a thread of `narrow` adds
ITEMS = 8  # elements that a thread has under way
MOST_BLOCKS = 512  # of a line
MOST = 5  # ranks: 40 KB of counters in shared memory


@functools.cache
def count_candidates(coding: Coding, ranks: int, first: bool) -> Any:
    """counts[line, r, d] += how many keys of the line begin as the r-th one wanted does and go on with digit d; at `first`
    none is known to begin in any way, and all count for r = 0."""
    _, key_of, K, _ = coding
    plain = K(0)
    tables = 1 if first else ranks
    size = tables * VALUES

    @cuda.jit
    def count_candidates(x, begins, counts, shift, width):
        # x: (lines, n) words, begins: (lines, ranks) uint64: keys above the digit, which is `width` bits from `shift` on
        seen = cuda.shared.array(size, types.int32)
        begin = cuda.local.array(tables, K)
        held = cuda.local.array(ITEMS, K)
        t = cuda.threadIdx.x
        line = cuda.blockIdx.y
        for i in range(t, size, THREADS):
            seen[i] = 0
        for r in range(tables):
            begin[r] = K(begins[line, r]) if not first else plain
        cuda.syncthreads()
        mask = K((1 << width) - 1)
        n = x.shape[1]
        stride = types.int64(cuda.gridDim.x) * (THREADS * ITEMS)
        for start in range(types.int64(cuda.blockIdx.x) * (THREADS * ITEMS), n, stride):
            for k in range(ITEMS):
                held[k] = key_of(x[line, min(start + k * THREADS + t, n - 1)], plain)
            for k in range(ITEMS):
                if start + k * THREADS + t < n:
                    rest = K(held[k] >> K(shift))
                    for r in range(tables):
                        if first or K(rest >> K(width)) == begin[r]:
                            cuda.atomic.add(seen, r * VALUES + types.int64(rest & mask), 1)
        cuda.syncthreads()
        for i in range(t, size, THREADS):
            if seen[i]:
                cuda.atomic.add(counts, (line, i // VALUES, i % VALUES), seen[i])

    return count_candidates


@functools.cache
def word_of(kind: str, bits: int) -> Any:
    """Device function: the element, as a word, whose key this is."""
    K = types.uint64 if bits == 64 else types.uint32
    sign, every = K(1 << (bits - 1)), K((1 << bits) - 1)

    @device
    def word_of(key):
        if kind == "u":
            return key
        if kind == "i":
            return key ^ sign
        return key ^ sign if key & sign else key ^ every

    return word_of


@functools.cache
def narrow(kind: str, bits: int, ranks: int, first: bool) -> Any:
    """begins[line, r]: longer by the digit that the key at rank left[line, r] has; left: its rank among those that begin so.
    The counts become zero again. A block a line."""
    K = types.uint64 if bits == 64 else types.uint32
    decoded = word_of(kind, bits)

    @cuda.jit
    def narrow(counts, wanted, begins, left, out, width, last):
        # counts: (lines, ranks, VALUES) int32, wanted: (ranks,) int64, begins: (lines, ranks) uint64, left: the same, int64;
        # out: (lines, ranks) words, written at the last digit
        sums = cuda.shared.array(THREADS, types.int64)
        t = cuda.threadIdx.x
        line = cuda.blockIdx.x
        for r in range(ranks):
            table = 0 if first else r
            rank = wanted[r] if first else left[line, r]
            own = types.int64(0)
            for i in range(EACH):
                own += counts[line, table, t * EACH + i]
            sums[t] = own
            cuda.syncthreads()
            step = 1
            while step < THREADS:  # Hillis and Steele
                before = sums[t - step] if t >= step else types.int64(0)
                cuda.syncthreads()
                sums[t] += before
                cuda.syncthreads()
                step *= 2
            before = sums[t] - own
            if before <= rank < sums[t]:
                digit = t * EACH
                while rank - before >= counts[line, table, digit]:
                    before += counts[line, table, digit]
                    digit += 1
                begin = types.uint64(digit)
                if not first:
                    begin |= begins[line, r] << types.uint64(width)
                begins[line, r] = begin
                left[line, r] = rank - before
                if last:
                    out[line, r] = decoded(K(begin))
            cuda.syncthreads()
        for r in range(ranks):
            for i in range(t, VALUES, THREADS):
                counts[line, r, i] = 0

    return narrow


def order_statistics(x: Layout, *, ranks: tuple[int, ...]) -> Plan:
    """The elements at these ranks of the sorted lines along the last axis: (..., len(ranks))."""
    out = x.like((*x.shape[:-1], len(ranks)))
    if not out.size:
        return Plan([out], [])
    n, count = x.shape[-1], len(ranks)
    lines = x.size // n
    code = coding(x.dtype)
    kind = {"b": "u", "V": "f"}.get(x.dtype.kind, x.dtype.kind)
    table = x.like((lines, count, VALUES), np.dtype(np.int32))
    temps = [table, x.like((lines, count), np.dtype(np.uint64)), x.like((lines, count), np.dtype(np.int64))]
    counts, begins, left = (Temp(i) for i in range(3))
    steps, given = dense(Input(0), x, x.shape, x.dtype, temps)
    steps = [*steps, *fill_part(whole(counts, table), np.uint64(0), np.uint64(0), None)]
    grid = min(blocks(n, THREADS * ITEMS), MOST_BLOCKS), lines
    digits = blocks(code.bits, DIGIT)
    high = code.bits
    for d in range(digits):
        width = blocks(high, digits - d)
        high -= width
        steps += [Launch(count_candidates(code, count, d == 0), grid, THREADS,
                         [given.view((lines, n), dtype=code.word), begins, counts, high, width]),
                  Launch(narrow(kind, code.bits, count, d == 0), lines, THREADS,
                         [counts, Constant(np.array(ranks, np.int64)), begins, left,
                          Output(0).view((lines, count), dtype=code.word), width, int(high == 0)])]
    return Plan([out], steps, temps)
