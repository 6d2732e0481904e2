"""Softmax of long lines that are read once: what a block has read stays in its shared memory
(dispatch.py has the formulas).

A vocabulary of 50,257 in bfloat16 is a line of 98 KB, and two such lines fit into the 227 KB of a
multiprocessor of 9.0: while one block waits at its reduction the other one reads. A line of twice
that, 50,257 in float32, has the multiprocessor to itself, and blocks that stay take such lines in
turn (`turns`): what a thread has written of one line makes room for the same access of the next,
which cp.async loads meanwhile. A thread touches no access but its own, so only the reductions need
barriers. (Two blocks fill each other's gaps: for them staying was slower, 250 us in place of 240
for 50,257 in bfloat16.) Longer lines, and such in the gradient, are kept as far as they fit, and
the rest is read again, from the L2 cache. On SM 9.0 and later clusters hold all of a
line (cluster.py).

A line begins anywhere. Its `inner` accesses of 16 bytes lie on their borders; what sticks out at
both ends, less than one access each, is handled element by element, one for each of the first 2 x
width threads.

16-bit numbers stay packed in shared memory (rows.fetcher). The gradient keeps g. Log-softmax then
needs y once, softmax twice.

Measured (row versions_softmax_cached):
log-softmax of 4,096 x 50,257, bfloat16; NVIDIA H200, commit 52457ee46004, 2026-11-23

                        GB/s     of a copy
    long_rows          2,185          0.52
    shared_memory      3,445          0.81
    cluster            3,778          0.89

(end of what was measured)
"""

import functools
import math

from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...runtime.device import capability, multiprocessors
from ..compiler.decorators import bounded
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..lib.block_reduce import group_max, group_sum
from ..lib.codec import codec
from ..lib.fast_math import exponential
from ..lib.integers import blocks
from ..lib.vector_io import fetcher, writer
from ..ptx.sm80 import copy_16, copy_commit, copy_wait, global_address, shared_address
from ..ptx.vector_access import load_vector, store_vector
from .online import CACHE, ends, formula, online, rescale
from .problem import Problem

THREADS = 512  # a line; two blocks per multiprocessor
ALONE = 1024  # a line that has the multiprocessor to itself
SEVERAL = 2  # accesses of such a line that a thread reads from shared memory at a time
PARTS = 4  # groups of copies of such a line: reading begins when the first has come
i32 = types.int32


def under_way(width):
    """Independent accesses in flight in a thread: of 16-bit numbers, which widen to eight registers
    each, one fewer."""
    return 3 if width == 8 else 4


@functools.cache
def rows(dtype, width, log):
    """A block of THREADS threads per line, two a multiprocessor; x: accesses (rows.fetcher), x1, y:
    (lines * columns,); resident: accesses that fit."""
    load, store, T = codec(dtype)
    fetch, widen, words, kind = fetcher(dtype, width)
    raw, place, write = numba_type(kind), ends(width, width), writer(dtype, width)
    take, rescaled, exp = online(dtype), rescale(dtype), exponential(dtype)
    group_top, group_total = group_max(THREADS, T), group_sum(THREADS, T)
    several = under_way(width)
    elements, packed, lowest = several * width, several * words, T(-math.inf)

    @bounded((THREADS, 2))
    def softmax_cached(x, x1, y, columns, resident):
        line = cuda.shared.array(0, raw)
        t = cuda.threadIdx.x
        start = cuda.blockIdx.x * columns
        head, inner, lone = place(start, columns, t)
        first = (start + head) // width
        r = cuda.local.array(packed, raw)
        v = cuda.local.array(elements, T)
        m = lowest
        s = T(0)
        if lone >= 0:
            m = load(x1[start + lone])
            s = exp(m - m)  # 1, or NaN
            if m == lowest:
                s = T(0)
        for i in range(t, inner, several * THREADS):
            for k in range(several):
                if i + k * THREADS < inner:
                    fetch(x, first + i + k * THREADS, r, k * words)
            for k in range(several):
                n = i + k * THREADS
                if n < inner:
                    widen(r, k * words, v, k * width)
                    if n < resident:
                        store_vector(
                            line,
                            n * words,
                            (r[k * words], r[k * words + 1], r[k * words + 2], r[k * words + 3]),
                        )
                else:
                    for e in range(k * width, (k + 1) * width):
                        v[e] = lowest
            m, s = take(m, s, v, elements)
        top = group_top(m)  # its barriers also make the line visible
        s = group_total(rescaled(m, s, top))
        shift = math.log(s)
        scale = T(1) / s
        if lone >= 0:
            d = load(x1[start + lone]) - top
            y[start + lone] = store(d - shift if log else exp(d) * scale)
        for i in range(t, inner, THREADS):
            if i < resident:
                taken = load_vector(line, i * words, words)
                for j in range(words):
                    r[j] = taken[j]
            else:
                fetch(x, first + i, r, 0)
            widen(r, 0, v, 0)
            for e in range(width):
                v[e] = v[e] - top - shift if log else exp(v[e] - top) * scale
            write(y, (first + i) * width, v, 0)

    return softmax_cached


@functools.cache
def turns(dtype, width, log):
    """A block of ALONE threads per multiprocessor; the blocks take lines in turn. x: accesses
    (rows.fetcher), x1, y: (lines * columns,); share: accesses of a thread in a group of copies.
    Shared memory: the accesses of a line."""
    load, store, T = codec(dtype)
    fetch, widen, words, kind = fetcher(dtype, width)
    raw, place, write = numba_type(kind), ends(width, width), writer(dtype, width)
    take, rescaled, exp = online(dtype), rescale(dtype), exponential(dtype)
    group_top, group_total = group_max(ALONE, T), group_sum(ALONE, T)
    lowest = T(-math.inf)
    elements, packed = SEVERAL * width, SEVERAL * words
    come = tuple(copy_wait(PARTS - 1 - p) for p in range(PARTS))

    @bounded(ALONE)
    def softmax_turns(x, x1, y, lines, columns, share):
        room = cuda.shared.array(0, raw)
        t = cuda.threadIdx.x
        at = shared_address(room)
        source = global_address(x)
        r = cuda.local.array(packed, raw)
        v = cuda.local.array(elements, T)
        line = cuda.blockIdx.x
        start = line * columns
        head, inner, lone = place(start, columns, t)
        first = (start + head) // width
        for p in range(PARTS):
            for i in range(t + p * share * ALONE, min((p + 1) * share * ALONE, inner), ALONE):
                copy_16(i32(at + 16 * i), source + 16 * (first + i))
            copy_commit()
        while line < lines:
            m = lowest
            s = T(0)
            if lone >= 0:
                m = load(x1[start + lone])
                s = exp(m - m)  # 1, or NaN
                if m == lowest:
                    s = T(0)
            for p in range(PARTS):
                if p == 0:
                    come[0]()
                elif p == 1:
                    come[1]()
                elif p == 2:
                    come[2]()
                else:
                    come[3]()
                end = min((p + 1) * share * ALONE, inner) if p < PARTS - 1 else inner
                for i in range(t + p * share * ALONE, end, SEVERAL * ALONE):
                    for k in range(SEVERAL):
                        n = i + k * ALONE
                        if n < end:
                            fetch(room, n, r, k * words)
                            widen(r, k * words, v, k * width)
                        else:
                            for e in range(k * width, (k + 1) * width):
                                v[e] = lowest
                    m, s = take(m, s, v, elements)
            top = group_top(m)
            s = group_total(rescaled(m, s, top))
            shift = math.log(s)
            scale = T(1) / s
            if lone >= 0:
                d = load(x1[start + lone]) - top
                y[start + lone] = store(d - shift if log else exp(d) * scale)
            line += cuda.gridDim.x
            start += cuda.gridDim.x * columns
            before, there = inner, first
            head, inner, lone = place(start, columns, t)
            first = (start + head) // width
            coming = inner if line < lines else 0
            for p in range(PARTS):
                end = (p + 1) * share * ALONE if p < PARTS - 1 else max(before, coming)
                for i in range(t + p * share * ALONE, end, ALONE):
                    if i < before:
                        fetch(room, i, r, 0)
                        widen(r, 0, v, 0)
                        for e in range(width):
                            v[e] = v[e] - top - shift if log else exp(v[e] - top) * scale
                        write(y, (there + i) * width, v, 0)
                    if i < coming:  # the place has been read: what was written came from it
                        copy_16(i32(at + 16 * i), source + 16 * (first + i))
                copy_commit()

    return softmax_turns


@functools.cache
def rows_grad(dtype, width, log):
    """A block of THREADS threads per line; g, y: accesses, g1, y1, dx: (lines * columns,); kept:
    accesses of g that fit."""
    load, store, T = codec(dtype)
    fetch, widen, words, kind = fetcher(dtype, width)
    raw, place, write = numba_type(kind), ends(width, width), writer(dtype, width)
    term, slope = formula(dtype, log)
    group_total = group_sum(THREADS, T)
    several = under_way(width) if log else 2
    elements, packed = several * width, several * words

    @bounded((THREADS, 2))
    def softmax_cached_grad(g, y, g1, y1, dx, columns, resident):
        line = cuda.shared.array(0, raw)
        t = cuda.threadIdx.x
        start = cuda.blockIdx.x * columns
        head, inner, lone = place(start, columns, t)
        first = (start + head) // width
        r = cuda.local.array(packed, raw)
        q = cuda.local.array(packed, raw)
        a = cuda.local.array(elements, T)
        b = cuda.local.array(elements, T)
        total = T(0)
        if lone >= 0:
            total = term(load(g1[start + lone]), load(y1[start + lone]))
        for i in range(t, inner, several * THREADS):
            for k in range(several):
                if i + k * THREADS < inner:
                    fetch(g, first + i + k * THREADS, r, k * words)
                    if not log:
                        fetch(y, first + i + k * THREADS, q, k * words)
            for k in range(several):
                n = i + k * THREADS
                if n < inner:
                    widen(r, k * words, a, k * width)
                    if not log:
                        widen(q, k * words, b, k * width)
                    if n < resident:
                        store_vector(
                            line,
                            n * words,
                            (r[k * words], r[k * words + 1], r[k * words + 2], r[k * words + 3]),
                        )
                    for e in range(k * width, (k + 1) * width):
                        total += a[e] if log else term(a[e], b[e])
        total = group_total(total)
        if lone >= 0:
            dx[start + lone] = store(slope(load(g1[start + lone]), load(y1[start + lone]), total))
        for i in range(t, inner, 2 * THREADS):  # two accesses of y in flight
            for k in range(2):
                n = i + k * THREADS
                if n < inner:
                    fetch(y, first + n, q, k * words)
                    if n < resident:
                        taken = load_vector(line, n * words, words)
                        for j in range(words):
                            r[k * words + j] = taken[j]
                    else:
                        fetch(g, first + n, r, k * words)
            for k in range(2):
                n = i + k * THREADS
                if n < inner:
                    widen(r, k * words, a, k * width)
                    widen(q, k * words, b, k * width)
                    for e in range(k * width, (k + 1) * width):
                        a[e] = slope(a[e], b[e], total)
                    write(dx, (first + n) * width, a, k * width)

    return softmax_cached_grad


def plan(p: Problem) -> Plan:
    """The plan of lines that shared memory keeps."""
    x, width, arrays = p.x, p.widest, p.arrays
    _, _, words, kind = fetcher(x.dtype, width)
    packed = [a.view((x.size * words // width,), dtype=kind) for a in arrays[:-1]]
    whole, share = (p.n // width + 1) * 16, CACHE[capability(x.device)]
    arguments = [*packed, *(a.flat for a in arrays)]
    if not p.gradient and share < whole <= 2 * share:
        step = Launch(
            turns(x.dtype, width, p.log),
            min(p.lines, multiprocessors(x.device)),
            ALONE,
            [*arguments, p.lines, p.n, blocks(p.n // width, PARTS * ALONE)],
            shared=whole,
        )
    else:
        room = min(share, whole)
        kernel = (rows_grad if p.gradient else rows)(x.dtype, width, p.log)
        step = Launch(kernel, p.lines, THREADS, [*arguments, p.n, room // 16], shared=room)
    return Plan([x.like()], [step])
