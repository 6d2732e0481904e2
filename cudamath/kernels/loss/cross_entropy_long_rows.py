"""Cross entropy of long rows, such as a vocabulary's (cross_entropy.py has the formulas): few
instructions per element.

Numbers of 16 bits leave 15 instructions per element while memory brings the next, and 24 where the
gradient is written too. So what concerns the row alone is found once, accesses on their borders are
read without a look at the row's ends (those few elements have threads of their own,
shared_memory.ends), and the gradient of the target's class is written over in the end. Accesses
are asked for before a block knows anything of its row, and begin at the borders of the cache's
lines. Blocks of the gradient follow each other as their parts do in memory: with neighbouring
blocks in neighbouring rows it took a tenth longer.

Measured (row versions_loss_long):
cross entropy of 4,096 x 50,257, bfloat16; NVIDIA H200, commit 52457ee46004, 2026-11-23

                    GB/s     of a copy
    rows           2,602          0.62
    long_rows      3,992          0.94

(end of what was measured)
"""

import functools
import math

from ...core.dispatch.arguments import ArrayArg, Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ...runtime.device import multiprocessors
from ..compiler.decorators import bounded, device_function
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..lib.block_reduce import group_max, group_sum
from ..lib.codec import codec
from ..lib.fast_math import exponential
from ..lib.integers import blocks
from ..lib.vector_io import fetcher, writer
from ..lib.widths import vector_width
from ..softmax.online import ends, online, rescale
from .cross_entropy import reduced
from .problem import CrossEntropy, CrossEntropyBackward, flat_gradient

THREADS = 128  # of a row and, in the gradient, of a part of one
# of a row of 16-bit numbers, where rows are too few to fill the multiprocessors otherwise: 512 rows
# of
FEW_THREADS = 256
# 131,072 take 35 us instead of 38, 1,024 of them 65.5 instead of 66.5
SEVERAL = {
    2: 4,
    4: 2,
    8: 2,
}  # bytes of a number: accesses of a thread that are in flight while as many are worked on
SEVERAL_GRAD = 4  # accesses of a thread
LINE = 128  # bytes of a line of the cache, where accesses begin
i64, u32 = types.int64, types.uint32


@functools.cache
def rows(dtype, width, smooth, threads, several):
    """One block per row; x: accesses (rows.fetcher), x1: (N * C,); targets: (N,); pairs, stats: (2,
    N)."""
    load, _, T = codec(dtype)
    fetch, widen, words, kind = fetcher(dtype, width)
    raw, place = numba_type(kind), ends(width, LINE // dtype.itemsize)
    take, rescaled, exp = online(dtype), rescale(dtype), exponential(dtype)
    group_top, total_of = group_max(threads, T), group_sum(threads, T)
    held, packed, lowest = several * width, several * words, T(-math.inf)

    @bounded(threads)
    def cross_entropy_long_rows(
        x, x1, targets, pairs, stats, classes, ignore, smoothing, flag, ticket
    ):
        row, t = cuda.blockIdx.x, cuda.threadIdx.x
        start = row * classes
        head, inner, lone = place(start, classes, t)
        first = (start + head) // width
        r = cuda.local.array(packed, raw)
        v = cuda.local.array(held, T)
        whole = inner - (several - 1) * threads
        i = t
        if i < whole:
            for k in range(several):
                fetch(x, first + i + k * threads, r, k * words)
        m = lowest
        total = T(0)
        target = targets[row]
        chosen = T(0)
        if t == 0 and target >= 0 and target < classes:
            chosen = load(x1[start + target])  # needed at the end
        if lone >= 0:
            m = load(x1[start + lone])
            total = exp(m - m) if m != lowest else T(0)  # 1, or NaN
        while i < whole:
            for k in range(several):
                widen(r, k * words, v, k * width)
            i += several * threads
            if i < whole:
                for k in range(several):
                    fetch(x, first + i + k * threads, r, k * words)
            m, total = take(m, total, v, held)
        while i < inner:
            fetch(x, first + i, r, 0)
            widen(r, 0, v, 0)
            m, total = take(m, total, v, width)
            i += threads
        top = group_top(m)
        total = total_of(rescaled(m, total, top))
        log_sum = math.log(total) if total != T(0) else top - top  # NaN: -inf throughout
        away = T(0)
        if smooth:
            if lone >= 0:
                away = top - load(x1[start + lone])
            for i in range(t, inner, threads):
                fetch(x, first + i, r, 0)
                widen(r, 0, v, 0)
                for e in range(width):
                    away += top - v[e]
            away = total_of(away)
        if t == 0:
            loss = T(0)
            counts = T(0)
            if target != ignore:
                counts = T(1)
                if target < 0 or target >= classes:
                    flag[0] = ticket
                else:
                    loss = log_sum - (chosen - top)
                    if smooth:
                        loss = loss * (T(1) - smoothing) + (log_sum + away / T(classes)) * smoothing
            pairs[0, row] = loss
            pairs[1, row] = counts
            stats[0, row] = top
            stats[1, row] = log_sum

    return cross_entropy_long_rows


@functools.cache
def rows_grad(dtype, reduced, width, smooth, threads, several):
    """x: accesses, x1, dx: (N * C,); targets: (N,); stats: (2, N); divisor: (1,); g: (1,) or (N,).
    A block for each of the `parts` of a row, which follow each other."""
    load, store, T = codec(dtype)
    fetch, widen, words, kind = fetcher(dtype, width)
    raw, place, write = numba_type(kind), ends(width, LINE // dtype.itemsize), writer(dtype, width)
    exp = exponential(dtype)
    packed, share = several * words, several * threads
    zero = T(0)

    @device_function
    def slope(x, top, log_sum, wanted, factor):
        return (exp(x - top - log_sum) - wanted) * factor

    @bounded(threads)
    def cross_entropy_long_rows_grad(
        g, x, x1, targets, stats, divisor, dx, classes, ignore, smoothing, parts
    ):
        block, t = u32(cuda.blockIdx.x), cuda.threadIdx.x
        row = i64(block // u32(parts))
        part = i64(block % u32(parts))
        start = row * classes
        head, inner, lone = place(start, classes, t)
        if part > 0:
            lone = i64(-1)
        first = (start + head) // width
        r = cuda.local.array(packed, raw)
        v = cuda.local.array(width, T)
        begin = part * share
        i = begin + t
        end = min(begin + share, inner)
        whole = i + (several - 1) * threads < end
        if whole:
            for k in range(several):
                fetch(x, first + i + k * threads, r, k * words)
        target = targets[row]
        # The target's element is read before any is written, since dx may be x, and written again
        # by the thread that writes it with the others.
        home = (target - head) // width - begin if target >= head else i64(-1)
        mine = home % threads == t if home >= 0 and begin + home < end else lone == target
        mine = mine and target >= 0 and target < classes
        chosen = load(x1[start + target]) if mine else zero
        if target == ignore:
            for e in range(width):
                v[e] = zero
            while i < end:
                write(dx, (first + i) * width, v, 0)
                i += threads
            if lone >= 0:
                dx[start + lone] = store(zero)
            return
        factor = (g[0] if reduced else g[row]) / divisor[0]
        top = stats[0, row]
        log_sum = stats[1, row]
        spread_out = smoothing / T(classes) if smooth else zero
        if whole:
            for k in range(several):
                widen(r, k * words, v, 0)
                for j in range(width):
                    v[j] = slope(v[j], top, log_sum, spread_out, factor)
                write(dx, (first + i + k * threads) * width, v, 0)
        else:
            while i < end:
                fetch(x, first + i, r, 0)
                widen(r, 0, v, 0)
                for j in range(width):
                    v[j] = slope(v[j], top, log_sum, spread_out, factor)
                write(dx, (first + i) * width, v, 0)
                i += threads
        if lone >= 0:
            dx[start + lone] = store(
                slope(load(x1[start + lone]), top, log_sum, spread_out, factor)
            )
        if mine:
            wanted = spread_out + (T(1) - smoothing)
            dx[start + target] = store(slope(chosen, top, log_sum, wanted, factor))

    return cross_entropy_long_rows_grad


# Planners.


def packed(x: Layout, logits: ArrayArg, width: int) -> ArrayArg:
    """The logits as accesses of `width` elements."""
    _, _, words, kind = fetcher(x.dtype, width)
    return logits.view((x.size * words // width,), dtype=kind)


def plan(p: CrossEntropy) -> Plan:
    """The plan of a block per row."""
    x, (n, classes, _) = p.x, p.x.shape
    width = vector_width(0, x)
    few_rows = x.itemsize == 2 and n <= 8 * multiprocessors(x.device)
    threads = FEW_THREADS if few_rows else THREADS
    arrays = [Input(0).flat, Input(1).flat, Temp(0).view((2, n)), Output(1).view((2, n))]
    first = Launch(
        rows(x.dtype, width, p.smooth, threads, SEVERAL[x.itemsize]),
        n,
        threads,
        [packed(x, Input(0), width), *arrays, classes, *p.settings],
    )
    return reduced(p, first)


def plan_grad(p: CrossEntropyBackward) -> Plan:
    """The plan of a block per part of a row."""
    x, (n, classes, _) = p.x, p.x.shape
    width = vector_width(0, x)
    parts = max(blocks(classes // width, THREADS * SEVERAL_GRAD), 1)
    logits = [packed(x, Input(1), width), Input(1).flat]
    arrays = [Input(2).flat, Input(3).view((2, n)), Input(4), Output(0).flat]
    step = Launch(
        rows_grad(x.dtype, p.reduced, width, p.smooth, THREADS, SEVERAL_GRAD),
        n * parts,
        THREADS,
        [flat_gradient(p.reduced), *logits, *arrays, classes, *p.settings, parts],
    )
    return Plan([x.like()], [step])
