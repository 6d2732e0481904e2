"""Cross entropy and negative log likelihood with class indices, and their gradients.

For logits x, a target class t, top = max x, and log_sum = log sum exp(x_j - top):

    loss                     log sum exp(x_j) - x_t = log_sum - (x_t - top)
    with label smoothing a   (1 - a) * loss + a * mean over c of (log_sum - (x_c - top))
    gradient                 (exp(x_c - top - log_sum) - a / C - (1 - a) [c = t]) * g / divisor

Fused, the logits are read once and nothing of their size is written; `top` and `log_sum` are kept
for the gradient, apart, because their sum would lose the digits of log_sum behind those of top. The
gradient reads the logits and writes their gradient. So the floor is 1 x size bytes forward and 2 x
backward; log_softmax followed by picking and by its own gradients moves 6 x.

Logits are (N, C, D): samples, classes, positions per sample; targets (N, D). Versions
(dispatch.py chooses):

1. `plain`      One thread per target, which reads the classes with an online softmax (see
                softmax/dispatch.py). For D > 1 it is also the fast version: neighbouring threads
                read neighbouring positions. Any GPU, and the simulator.
2. `rows`       D = 1: one group of threads per row (see lib/vector_io.py); vector reads; rows of
                any length, a chunk at a time. Label smoothing sums x_c - top, once top is known, in
                a second pass (out of the caches).
3. `one_block`  D = 1: the rows as above, and their sum in the same launch, by one block. For so few
                logits that launches take most of the time.
4. `long_rows`  (cross_entropy_long_rows.py) D = 1, thousands of classes: the same in half as many
                instructions per element. For float32 and 16-bit numbers, which memory delivers
                faster than the other versions can process.

Each target leaves its loss and whether it counts (it is not `ignore_index`) in `pairs`, both times
the weight of its class where there are weights (`weigh`); the last kernel adds them, in an order
fixed by their number alone. (nll_loss of few targets: both in one launch, `pick_few`.) A target
outside the classes raises the device's error flag.

Measured (row versions_loss):
cross entropy of 16,384 x 4,096, float32; NVIDIA H200, commit 52457ee46004, 2026-11-23

                GB/s     of a copy
    plain        185          0.04
    rows       3,834          0.91

(end of what was measured)
"""

import functools
import math

import numpy as np

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import WARP, bounded, device_function
from ..compiler.lazy_numba import cuda, types
from ..lib.block_reduce import group_max, group_sum
from ..lib.codec import codec
from ..lib.fast_math import exponential
from ..lib.integers import blocks
from ..lib.row_layout import access, fitting, spread_between
from ..lib.vector_io import remaining, row_reader, row_writer
from ..softmax.online import online, rescale
from .problem import CrossEntropy, CrossEntropyBackward, NegativeLogLikelihood, flat_gradient
from .reduction import LAST, reduction_steps

HELD = (
    32  # elements of a row a thread reads at a time: a warp then has rows of a thousand to itself
)
HELD_GRAD = (
    16  # the gradient writes as many, too; float64's exponential leaves no more registers forward
)
# Elements that neighbouring threads read in one piece, forward and in the gradient: rows of 64
# float32 81 and 135 us, with 32 and 16 of them 108 and 137 (H200)
TOGETHER, TOGETHER_GRAD = 16, 32
FEW_THREADS = 512
THREADS = 256  # threads per block, at most


@functools.cache
def plain(dtype, smooth):
    """One thread per target; x: (N, C, D); targets: (N, D); pairs: (2, N, D) loss, counts; stats:
    (2, N, D) top, log_sum."""
    load, _, T = codec(dtype)
    lowest = T(-math.inf)

    @cuda.jit
    def cross_entropy_plain(x, targets, pairs, stats, ignore, smoothing, flag, ticket):
        i = cuda.grid(1)
        samples, classes, depth = x.shape
        if i < samples * depth:
            n = i // depth
            d = i % depth
            top = lowest
            total = T(0)
            for c in range(classes):
                v = load(x[n, c, d])
                if v > top:
                    total = total * math.exp(top - v) + T(1)
                    top = v
                elif v != lowest:
                    total += math.exp(v - top)
            if top == lowest or top == -lowest:
                total = top - top  # NaN: -inf throughout, or +inf
            log_sum = math.log(total)
            target = targets[n, d]
            loss, counts = T(0), T(0)
            if target != ignore:
                counts = T(1)
                if target < 0 or target >= classes:
                    flag[0] = ticket
                else:
                    loss = log_sum - (load(x[n, target, d]) - top)
                    if smooth:
                        away = T(0)
                        for c in range(classes):
                            away += top - load(x[n, c, d])
                        loss = loss * (T(1) - smoothing) + (log_sum + away / T(classes)) * smoothing
            pairs[0, n, d] = loss
            pairs[1, n, d] = counts
            stats[0, n, d] = top
            stats[1, n, d] = log_sum

    return cross_entropy_plain


@functools.cache
def of_row(dtype, threads, width, edges, smooth, held):
    """Device function: (loss of a row, whether it counts, top, log_sum), the first two right in
    lane 0 of the `threads` that share the row and have `held` elements of it each at a time. A row
    beyond the last is read nowhere, but takes part in what its threads do together."""
    load, _, T = codec(dtype)
    fetch, take, size, kind = row_reader(dtype, width, held // width, edges)
    fetch_one, take_one, _, _ = row_reader(dtype, width, 1, edges, True)
    add, rescaled = online(dtype), rescale(dtype)
    group_top, total_of = group_max(threads, T), group_sum(threads, T)
    stride = threads * width
    lowest = T(-math.inf)

    @device_function
    def of_row(x, targets, row, lane, classes, ignore, smoothing, flag, ticket):
        inside = row < targets.size
        start = row * classes
        end = classes if inside else 0
        before = (
            start % width if edges and inside else 0
        )  # accesses lie on borders, the first may begin before the row
        r = cuda.local.array(size, kind)
        v = cuda.local.array(held, T)
        target = targets[row] if inside else ignore  # asked for now, needed at the end
        m = lowest
        total = T(0)
        for first in range(lane * width - before, end, (held // width) * stride):
            rest = remaining(classes, first)
            fetch(x, start + first, rest, stride, r, lowest)
            take(r, first, rest, stride, v, lowest)
            m, total = add(m, total, v, held)
        top = group_top(m)
        total = total_of(rescaled(m, total, top))
        log_sum = math.log(total) if total != T(0) else top - top  # NaN: -inf throughout, or +inf
        away = T(0)
        if smooth:
            for first in range(lane * width - before, end, stride):
                rest = remaining(classes, first)
                fetch_one(x, start + first, rest, stride, r, top)
                take_one(r, first, rest, stride, v, top)  # what lies beyond the row adds nothing
                for e in range(width):
                    away += top - v[e]
            away = total_of(away)
        loss, counts = T(0), T(0)
        if inside and lane == 0:
            if target != ignore:
                counts = T(1)
                if target < 0 or target >= classes:
                    flag[0] = ticket
                else:
                    loss = log_sum - (load(x[start + target]) - top)
                    if smooth:
                        loss = loss * (T(1) - smoothing) + (log_sum + away / T(classes)) * smoothing
        return loss, counts, top, log_sum

    return of_row


@functools.cache
def rows(dtype, threads, width, edges, smooth, held):
    """A group of `threads` threads per row; x: (N * C,); targets: (N,); pairs, stats: (2, N); block
    (threads, rows)."""
    of_one = of_row(dtype, threads, width, edges, smooth, held)

    # asking for all accesses at once takes registers: of 96, five blocks find room
    @bounded((max(threads, 128), 640 // max(threads, 128)) if edges else max(threads, 128))
    def cross_entropy_rows(x, targets, pairs, stats, classes, ignore, smoothing, flag, ticket):
        row = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
        loss, counts, top, log_sum = of_one(
            x, targets, row, cuda.threadIdx.x, classes, ignore, smoothing, flag, ticket
        )
        if row < targets.size and cuda.threadIdx.x == 0:
            pairs[0, row] = loss
            pairs[1, row] = counts
            stats[0, row] = top
            stats[1, row] = log_sum

    return cross_entropy_rows


@functools.cache
def few(dtype, threads, width, edges, smooth, held, weighted, reduction):
    """`rows`, `weigh` and what makes the result of them in one launch, by one block of FEW_THREADS,
    `threads` a row.

    x: (N * C,); targets: (N,); weight: (C,), unused unless `weighted`; losses: (N,) without
    reduction, otherwise (1,); stats: (2, N); divisor: (1,)."""
    T = codec(dtype)[2]
    of_one, total_of = of_row(dtype, threads, width, edges, smooth, held), group_sum(FEW_THREADS, T)

    @bounded(
        (FEW_THREADS, 1) if dtype.itemsize == 8 else FEW_THREADS
    )  # no registers are spilled for a second block
    def cross_entropy_few(
        x, targets, weight, losses, stats, divisor, classes, ignore, smoothing, flag, ticket
    ):
        group = cuda.threadIdx.x // threads
        lane = cuda.threadIdx.x % threads
        total, counted = T(0), T(0)
        for first in range(0, targets.size, FEW_THREADS // threads):
            row = first + group
            loss, counts, top, log_sum = of_one(
                x, targets, row, lane, classes, ignore, smoothing, flag, ticket
            )
            if row < targets.size and lane == 0:
                if weighted:
                    target = targets[row]
                    if target != ignore and 0 <= target < classes:
                        loss *= weight[target]
                        counts *= weight[target]
                total += loss
                counted += counts
                stats[0, row] = top
                stats[1, row] = log_sum
                if reduction == "none":
                    losses[row] = loss
        if reduction != "none":
            total = total_of(total)
            counted = total_of(counted)
        if cuda.threadIdx.x == 0:
            if reduction != "none":
                losses[0] = total / counted if reduction == "mean" else total
            divisor[0] = counted if reduction == "mean" else T(1)

    return cross_entropy_few


@functools.cache
def picked(dtype):
    """Device function: the loss of the i-th target in nll_loss, and whether it counts."""
    load, _, T = codec(dtype)

    @device_function
    def picked(x, targets, i, ignore, flag, ticket):
        n = i // targets.shape[1]
        d = i % targets.shape[1]
        target = targets[n, d]
        loss, counts = T(0), T(0)
        if target != ignore:
            counts = T(1)
            if target < 0 or target >= x.shape[1]:
                flag[0] = ticket
            else:
                loss = -load(x[n, target, d])
        return loss, counts

    return picked


@functools.cache
def pick(dtype):
    """The losses of nll_loss, one thread per target; x: (N, C, D); targets: (N, D); pairs: (2, N *
    D) loss, counts."""
    one = picked(dtype)

    @cuda.jit
    def nll_pick(x, targets, pairs, ignore, flag, ticket):
        i = cuda.grid(1)
        if i < targets.size:
            loss, counts = one(x, targets, i, ignore, flag, ticket)
            pairs[0, i] = loss
            pairs[1, i] = counts

    return nll_pick


@functools.cache
def pick_few(dtype, mean):
    """nll_loss of few targets in one launch: `pick` and `finish` by one block of LAST threads, the
    same sums in the same order. x: (N, C, D); targets: (N, D); loss, divisor: (1,)."""
    T = codec(dtype)[2]
    one, total_of = picked(dtype), group_sum(LAST, T)

    @bounded(LAST)
    def nll_few(x, targets, loss, divisor, ignore, flag, ticket):
        total, counted = T(0), T(0)
        for i in range(cuda.threadIdx.x, targets.size, LAST):
            part, counts = one(x, targets, i, ignore, flag, ticket)
            total += part
            counted += counts
        total = total_of(total)
        counted = total_of(counted)
        if cuda.threadIdx.x == 0:
            loss[0] = total / counted if mean else total
            divisor[0] = counted if mean else T(1)

    return nll_few


# Gradients.


@functools.cache
def plain_grad(dtype, reduced):
    """One thread per target; x, dx: (N, C, D); targets: (N, D); stats: (2, N, D); divisor: (1,); g:
    (1,) or (N, D)."""
    load, store, T = codec(dtype)

    @cuda.jit
    def cross_entropy_plain_grad(g, x, targets, stats, divisor, dx, ignore, smoothing):
        i = cuda.grid(1)
        samples, classes, depth = x.shape
        if i < samples * depth:
            n = i // depth
            d = i % depth
            target = targets[n, d]
            factor = (g[0] if reduced else g[n, d]) / divisor[0]
            top = stats[0, n, d]
            log_sum = stats[1, n, d]
            spread_out = smoothing / T(classes)
            for c in range(classes):
                v = math.exp(load(x[n, c, d]) - top - log_sum) - spread_out
                if c == target:
                    v -= T(1) - smoothing
                dx[n, c, d] = store(v * factor if target != ignore else T(0))

    return cross_entropy_plain_grad


@functools.cache
def rows_grad(dtype, reduced, threads, rows, width, edges, held):
    """x, dx: (N * C,); targets: (N,); stats: (2, N); divisor: (1,); g: (1,) or (N,).

    Block (threads, rows), `held` elements a thread; grid (rows, chunks of a row).
    """
    T = codec(dtype)[2]
    vectors, step = held // width, threads * width
    fetch, take, size, kind = row_reader(dtype, width, vectors, edges)
    write, exp = row_writer(dtype, width, edges), exponential(dtype)

    @bounded(threads * rows)
    def cross_entropy_rows_grad(g, x, targets, stats, divisor, dx, classes, ignore, smoothing):
        row = cuda.blockIdx.x * rows + cuda.threadIdx.y
        first = cuda.blockIdx.y * (threads * held) + cuda.threadIdx.x * width
        r = cuda.local.array(size, kind)
        v = cuda.local.array(held, T)
        if row < targets.size:
            start = row * classes
            first -= start % width if edges else 0
            at, rest = start + first, remaining(classes, first)
            fetch(x, at, rest, step, r, T(0))
            take(r, first, rest, step, v, T(0))
            target = targets[row]
            factor = (g[0] if reduced else g[row]) / divisor[0]
            top = stats[0, row]
            log_sum = stats[1, row]
            spread_out = smoothing / T(classes)
            for k in range(vectors):
                if k * step < rest:
                    here = types.int32(target - (first + k * step))
                    for j in range(width):
                        e = k * width + j
                        v[e] = exp(v[e] - top - log_sum) - spread_out
                        if j == here:
                            v[e] -= T(1) - smoothing
                        v[e] = v[e] * factor if target != ignore else T(0)
                    write(dx, at + k * step, v, k * width, first + k * step, rest - k * step)

    return cross_entropy_rows_grad


@functools.cache
def pick_grad(dtype, reduced):
    """nll_loss: one thread per element; dx: (N, C, D); targets: (N, D); divisor: (1,); g: (1,) or
    (N, D)."""
    _, store, T = codec(dtype)

    @cuda.jit
    def nll_grad(g, targets, divisor, dx, ignore):
        i = cuda.grid(1)
        samples, classes, depth = dx.shape
        if i < samples * classes * depth:
            d = i % depth
            c = i // depth % classes
            n = i // depth // classes
            target = targets[n, d]
            v = T(0)
            if c == target and target != ignore:
                v = -(g[0] if reduced else g[n, d]) / divisor[0]
            dx[n, c, d] = store(v)

    return nll_grad


# Planners. x: (N, C, D), C order; targets: (N, D).


def rows_shape(
    classes: int, width: int, edges: bool, held: int, most: int, together: int = TOGETHER
) -> tuple[int, int]:
    """(threads that share a row, elements of it that each has at a time): at most so many threads
    and `held` elements."""
    alone = spread_between(classes, width, edges, held, most, together // width)
    return (alone.threads, alone.vectors * width) if alone else (most, held)


def plan_plain(p: CrossEntropy) -> Plan:
    """The plan of a thread per target."""
    n, _, depth = p.x.shape
    arguments = [Input(0), Input(1), Temp(0), Output(1), *p.settings]
    return reduced(
        p, Launch(plain(p.x.dtype, p.smooth), blocks(n * depth, 128), 128, arguments), True
    )


def plan_rows(p: CrossEntropy) -> Plan:
    """The plan of a group of threads per row."""
    (n, classes, _), dtype = p.x.shape, p.x.dtype
    width, edges = access(classes, p.x)
    budget = fitting(HELD if p.x.itemsize < 8 else HELD_GRAD, dtype)
    threads, held = rows_shape(classes, width, edges, budget, THREADS)
    block = threads, max(128 // threads, 1) if threads <= WARP else 1
    flat = [Input(0).flat, Input(1).flat, Temp(0).view((2, n)), Output(1).view((2, n))]
    kernel = rows(dtype, threads, width, edges, p.smooth, held)
    return reduced(p, Launch(kernel, blocks(n, block[1]), block, [*flat, classes, *p.settings]))


def plan_one_block(p: CrossEntropy) -> Plan:
    """The plan of one block for all rows, which also adds up their losses."""
    (n, classes, _), dtype, weighted = p.x.shape, p.x.dtype, p.weight is not None
    width, edges = access(classes, p.x)
    threads, held = rows_shape(classes, width, edges, fitting(HELD_GRAD, dtype), WARP)
    kernel = few(dtype, threads, width, edges, p.smooth, held, weighted, p.reduction)
    arrays = [
        Input(0).flat,
        Input(1).flat,
        Input(2) if weighted else Output(1).flat,
        Output(0).flat,
        Output(1).view((2, n)),
        Output(2),
    ]
    step = Launch(kernel, 1, FEW_THREADS, [*arrays, classes, *p.settings])
    return Plan(p.outputs, [step])


def reduced(p: CrossEntropy, first: Launch, one_thread: bool = False) -> Plan:
    """The plan of a launch that leaves each target's loss in Temp(0), and of what adds them up."""
    rest, temps = reduction_steps(
        p.x.dtype, p.targets, p.reduction, Output(2), p.weight, p.ignore_index, one_thread
    )
    return Plan(p.outputs, [first, *rest], temps)


def plan_plain_grad(p: CrossEntropyBackward) -> Plan:
    """The plan of a thread per target."""
    n, _, depth = p.x.shape
    kernel = plain_grad(p.x.dtype, p.reduced)
    arguments = [*map(Input, range(5)), Output(0), *p.settings]
    return Plan([p.x.like()], [Launch(kernel, blocks(n * depth, 128), 128, arguments)])


def plan_rows_grad(p: CrossEntropyBackward) -> Plan:
    """The plan of a group of threads per row, or per chunk of a row."""
    (n, classes, _), dtype = p.x.shape, p.x.dtype
    width, edges = access(classes, p.x)
    threads, held = rows_shape(
        classes, width, edges, fitting(HELD_GRAD, dtype), THREADS, TOGETHER_GRAD
    )
    block = threads, max(128 // threads, 1)
    chunks = blocks(classes + (width - 1 if edges else 0), threads * held)
    arrays = [Input(1).flat, Input(2).flat, Input(3).view((2, n)), Input(4), Output(0).flat]
    kernel = rows_grad(dtype, p.reduced, *block, width, edges, held)
    arguments = [flat_gradient(p.reduced), *arrays, classes, *p.settings]
    return Plan([p.x.like()], [Launch(kernel, (blocks(n, block[1]), chunks), block, arguments)])


def plan_nll_one_block(p: NegativeLogLikelihood) -> Plan:
    """The plan of one block for all targets of nll_loss, which also adds up their losses."""
    arguments = [Input(0), Input(1), Output(0), Output(1), *p.settings]
    kernel = pick_few(p.x.dtype, p.reduction == "mean")
    return Plan(p.outputs, [Launch(kernel, 1, LAST, arguments)])


def plan_nll(p: NegativeLogLikelihood) -> Plan:
    """The plan of a thread per target of nll_loss."""
    count = p.targets.size
    arguments = [Input(0), Input(1), Temp(0).view((2, count)), *p.settings]
    first = Launch(pick(p.x.dtype), blocks(count, 128), 128, arguments)
    rest, temps = reduction_steps(
        p.x.dtype, p.targets, p.reduction, Output(1), p.weight, p.ignore_index
    )
    return Plan(p.outputs, [first, *rest], temps)


def plan_nll_grad(
    g: Layout, targets: Layout, classes: int, ignore_index: int, dtype: np.dtype
) -> Plan:
    """The plan of a thread per element; inputs g, targets, divisor."""
    out = g.like((targets.shape[0], classes, targets.shape[1]), dtype)
    arguments = [Input(0), Input(1), Input(2), Output(0), ignore_index]
    kernel = pick_grad(dtype, g.ndim == 0)
    return Plan([out], [Launch(kernel, blocks(out.size, 256), 256, arguments)])
