"""Cross entropy and negative log likelihood with class indices, and their gradients.

For logits x and a target class t,   loss = log sum exp(x_j) - x_t = log_sum - (x_t - top),   top =
                                     max x
with label smoothing a:              (1 - a) * that + a * mean over c of (log_sum - (x_c - top))
gradient:                            (exp(x_c - top - log_sum) - a / C - (1 - a) [c = t]) * g /
                                     divisor

Fused, the logits are read once and nothing of their size is written; `top` and `log_sum` are kept
for the gradient, apart, because their sum would lose the digits of log_sum behind those of top. The
gradient reads the logits and writes their gradient. So the floor is 1 x size bytes forward and 2 x
backward; log_softmax followed by picking and by its own gradients moves 6 x.

Logits are (N, C, D): samples, classes, positions per sample; targets (N, D). Versions:

1. `plain`  one thread per target, walking over the classes with an online softmax (see
            softmax/dispatch.py).
   For D > 1 it is
            also the fast one: neighbouring threads read neighbouring positions. Any GPU, and the
            simulator.
2. `rows`   D = 1: one group of threads per row (see lib/vector_io.py), vector reads; rows of any
            length, a chunk at a time.
            Label smoothing sums x_c - top, once top is known, in a second trip (out of the caches).
3. `few`    D = 1: the rows as above, and their sum in the same launch, by one block: for so few
            logits that launches are what
            takes time.
4. `long_rows` (cross_entropy_long_rows.py)  D = 1, thousands of classes: the same in half as many
                                             instructions
   per element. The choice for
            float32 and for 16-bit numbers, which memory delivers faster than the other versions can
            process.

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

from ...core.dispatch.arguments import Flag, Input, Output, Temp, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import WARP, bounded, device_function
from ..compiler.lazy_numba import cuda, types
from ..lib.block_reduce import group_max, group_sum
from ..lib.codec import codec
from ..lib.fast_math import exponential
from ..lib.integers import blocks
from ..lib.row_layout import access, fitting, spread
from ..lib.vector_io import RUN, row_reader, row_writer
from ..lib.widths import vector_width, wide
from ..softmax.online import online, rescale

HELD = (
    32  # elements of a row a thread reads at a time: a warp then has rows of a thousand to itself
)
HELD_GRAD = (
    16  # the gradient writes as many, too; float64's exponential leaves no more registers forward
)
# Elements that neighbouring threads read in one piece, forward and in the gradient: rows of 64
# float32 81 and 135 us, with 32 and 16 of them 108 and 137 (H200)
TOGETHER, TOGETHER_GRAD = 16, 32
LAST = 1024  # threads of the last kernel, which is one block
LONG = 4096  # classes from which rows are long
FEW = 4 * LAST  # targets of nll_loss that the one block also picks: a launch less
FEW_LOGITS = 1 << 14  # up to which one block reads them all: some microseconds, as long as a launch
FEW_THREADS = 512
MANY = (
    1 << 14
)  # more pairs than this are first added by FOLDS blocks: of 65,536 in 6 us instead of 12 (H200)
FOLDS = 128
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
    read = row_reader(dtype, width, edges)
    take, rescaled = online(dtype), rescale(dtype)
    group_top, total_of = group_max(threads, T), group_sum(threads, T)
    vectors = held // width
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
        v = cuda.local.array(held, T)
        target = targets[row] if inside else ignore  # asked for now, needed at the end
        m = lowest
        total = T(0)
        for first in range(lane * width - before, end, vectors * stride):
            for e in range(held):
                v[e] = lowest
            for k in range(vectors):
                if first + k * stride < classes:
                    read(x, start + first + k * stride, v, k * width, start, start + classes)
            m, total = take(m, total, v, held)
        top = group_top(m)
        total = total_of(rescaled(m, total, top))
        log_sum = math.log(total) if total != T(0) else top - top  # NaN: -inf throughout, or +inf
        away = T(0)
        if smooth:
            for first in range(lane * width - before, end, stride):
                for e in range(width):
                    v[e] = top  # what lies beyond the row adds nothing
                read(x, start + first, v, 0, start, start + classes)
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

    @bounded(max(threads, 128))
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
    _, store, T = codec(dtype)
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
                    losses[row] = store(loss)
        if reduction != "none":
            total = total_of(total)
            counted = total_of(counted)
        if cuda.threadIdx.x == 0:
            if reduction != "none":
                losses[0] = store(total / counted) if reduction == "mean" else store(total)
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
    _, store, T = codec(dtype)
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
            loss[0] = store(total / counted) if mean else store(total)
            divisor[0] = counted if mean else T(1)

    return nll_few


@functools.cache
def weigh(dtype):
    """Losses and counts times the weight of their class, one thread per target; pairs: (2, N * D);
    targets: (N * D,); weight: (C,) in compute precision."""

    @cuda.jit
    def loss_weigh(pairs, targets, weight, ignore):
        i = cuda.grid(1)
        if i < targets.size:
            target = targets[i]
            if (
                target != ignore and 0 <= target < weight.size
            ):  # the kernel before has said so if it lies elsewhere
                pairs[0, i] *= weight[target]
                pairs[1, i] *= weight[target]

    return loss_weigh


@functools.cache
def copy_losses(dtype):
    """Without reduction; pairs: (2, n); losses: (n,) in the logits' dtype; divisor: (1,), set to
    1."""
    _, store, T = codec(dtype)

    @cuda.jit
    def loss_copy(pairs, losses, divisor):
        i = cuda.grid(1)
        if i < losses.size:
            losses[i] = store(pairs[0, i])
        if i == 0:
            divisor[0] = T(1)

    return loss_copy


@functools.cache
def fold(dtype):
    """FOLDS blocks of LAST threads add up a share of the pairs each; pairs: (2, n); sums: (2,
    FOLDS)."""
    T = codec(dtype)[2]
    total_of = group_sum(LAST, T)

    @bounded(LAST)
    def loss_fold(pairs, sums):
        loss = T(0)
        counted = T(0)
        for i in range(cuda.blockIdx.x * LAST + cuda.threadIdx.x, pairs.shape[1], FOLDS * LAST):
            loss += pairs[0, i]
            counted += pairs[1, i]
        loss = total_of(loss)
        counted = total_of(counted)
        if cuda.threadIdx.x == 0:
            sums[0, cuda.blockIdx.x] = loss
            sums[1, cuda.blockIdx.x] = counted

    return loss_fold


@functools.cache
def finish(dtype, mean):
    """One block of LAST threads; pairs: (2, n); loss: (1,), their sum or mean; divisor: (1,), by
    what was divided."""
    _, store, T = codec(dtype)
    total_of = group_sum(LAST, T)

    @bounded(LAST)
    def loss_finish(pairs, loss, divisor):
        total, counted = T(0), T(0)
        for i in range(cuda.threadIdx.x, pairs.shape[1], LAST):
            total += pairs[0, i]
            counted += pairs[1, i]
        total = total_of(total)
        counted = total_of(counted)
        if cuda.threadIdx.x == 0:
            loss[0] = store(total / counted) if mean else store(total)
            divisor[0] = counted if mean else T(1)

    return loss_finish


@functools.cache
def plain_finish(dtype, mean):
    """As `finish`, by one thread: for the simulator."""
    _, store, T = codec(dtype)

    @cuda.jit
    def loss_plain_finish(pairs, loss, divisor):
        total, counted = T(0), T(0)
        for start in range(0, pairs.shape[1], RUN):
            part = T(0)
            for i in range(start, min(start + RUN, pairs.shape[1])):
                part += pairs[0, i]
                counted += pairs[1, i]
            total += part
        loss[0] = store(total / counted) if mean else store(total)
        divisor[0] = counted if mean else T(1)

    return loss_plain_finish


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
            factor = (load(g[0]) if reduced else load(g[n, d])) / divisor[0]
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
    load, _, T = codec(dtype)
    read, write = row_reader(dtype, width, edges), row_writer(dtype, width, edges)
    vectors = held // width
    exp = exponential(dtype)

    @bounded(threads * rows)
    def cross_entropy_rows_grad(g, x, targets, stats, divisor, dx, classes, ignore, smoothing):
        row = cuda.blockIdx.x * rows + cuda.threadIdx.y
        first = cuda.blockIdx.y * (threads * held) + cuda.threadIdx.x * width
        v = cuda.local.array(held, T)
        if row < targets.size:
            start = row * classes
            first -= start % width if edges else 0
            for k in range(vectors):
                if first + k * threads * width < classes:
                    read(
                        x, start + first + k * threads * width, v, k * width, start, start + classes
                    )
            target = targets[row]
            factor = (load(g[0]) if reduced else load(g[row])) / divisor[0]
            top = stats[0, row]
            log_sum = stats[1, row]
            spread_out = smoothing / T(classes)
            for k in range(vectors):
                column = first + k * threads * width
                if column < classes:
                    here = types.int32(target - column)
                    for j in range(width):
                        e = k * width + j
                        v[e] = exp(v[e] - top - log_sum) - spread_out
                        if j == here:
                            v[e] -= T(1) - smoothing
                        v[e] = v[e] * factor if target != ignore else T(0)
                    write(dx, start + column, v, k * width, start, start + classes)

    return cross_entropy_rows_grad


@functools.cache
def pick_grad(dtype, reduced):
    """nll_loss: one thread per element; dx: (N, C, D); targets: (N, D); divisor: (1,); g: (1,) or
    (N, D)."""
    load, store, T = codec(dtype)

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
                v = -(load(g[0]) if reduced else load(g[n, d])) / divisor[0]
            dx[n, c, d] = store(v)

    return nll_grad


# Planners. x: (N, C, D), C order; targets: (N, D).


def reduction_steps(
    version: str,
    dtype,
    targets: Layout,
    reduction: str,
    divisor,
    weight: Layout | None = None,
    ignore_index: int = 0,
) -> tuple[list[Launch], list[Layout]]:
    """From pairs in Temp(0) to Output(0), the loss, and `divisor`; the scratch arrays. weight: of
    Input(2), if there is one."""
    T = wide(dtype)
    n = targets.size
    pairs = Temp(0).view((2, n))
    temps = [targets.like((2, *targets.shape), T)]
    steps = []
    if weight is not None:
        steps.append(
            Launch(weigh(T), blocks(n, 256), 256, [pairs, Input(1).flat, Input(2), ignore_index])
        )
    if reduction == "none":
        return [
            *steps,
            Launch(
                copy_losses(dtype), max(blocks(n, 256), 1), 256, [pairs, Output(0).flat, divisor]
            ),
        ], temps
    if version == "plain":
        return [
            *steps,
            Launch(plain_finish(dtype, reduction == "mean"), 1, 1, [pairs, Output(0), divisor]),
        ], temps
    if n > MANY:
        steps.append(Launch(fold(dtype), FOLDS, LAST, [pairs, Temp(1)]))
        temps.append(targets.like((2, FOLDS), T))
        pairs = Temp(1)
    steps.append(Launch(finish(dtype, reduction == "mean"), 1, LAST, [pairs, Output(0), divisor]))
    return steps, temps


def shares(
    classes: int, width: int, edges: bool, held: int, most: int, together: int = TOGETHER
) -> tuple[int, int]:
    """(threads that share a row, elements of it that each has at a time): at most so many threads
    and `held` elements."""
    alone = spread(classes + (width - 1 if edges else 0), width, held, most, together // width)
    return (alone.threads, alone.vectors * width) if alone else (most, held)


def losses(
    version: str,
    x: Layout,
    targets: Layout,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    weight: Layout | None = None,
) -> Plan:
    """The plan of one version of cross entropy by name, "plain", or for D = 1 "rows", "few" or
    "long_rows"."""
    T = wide(x.dtype)
    n, classes, depth = x.shape
    outputs = [
        x.like(targets.shape if reduction == "none" else ()),
        x.like((2, *targets.shape), T),
        x.like((), T),
    ]
    smooth = label_smoothing != 0
    settings = [ignore_index, T.type(label_smoothing), Flag(), Ticket()]
    if version == "plain":
        first = Launch(
            plain(x.dtype, smooth),
            blocks(n * depth, 128),
            128,
            [Input(0), Input(1), Temp(0), Output(1), *settings],
        )
    elif version == "long_rows":
        from . import cross_entropy_long_rows

        first = cross_entropy_long_rows.launch(
            x, smooth, [Input(1).flat, Temp(0).view((2, n)), Output(1).view((2, n))], settings
        )
    else:
        width, edges = access(classes, x)
        most, budget = (THREADS, HELD) if version == "rows" else (WARP, HELD_GRAD)
        threads, held = shares(
            classes, width, edges, fitting(budget if x.itemsize < 8 else HELD_GRAD, x.dtype), most
        )
        if version == "few":
            kernel = few(
                x.dtype, threads, width, edges, smooth, held, weight is not None, reduction
            )
            arrays = [
                Input(0).flat,
                Input(1).flat,
                Output(1).flat if weight is None else Input(2),
                Output(0).flat,
                Output(1).view((2, n)),
                Output(2),
            ]
            return Plan(outputs, [Launch(kernel, 1, FEW_THREADS, [*arrays, classes, *settings])])
        block = threads, max(128 // threads, 1) if threads <= WARP else 1
        flat = [Input(0).flat, Input(1).flat, Temp(0).view((2, n)), Output(1).view((2, n))]
        first = Launch(
            rows(x.dtype, threads, width, edges, smooth, held),
            blocks(n, block[1]),
            block,
            [*flat, classes, *settings],
        )
    rest, temps = reduction_steps(
        version, x.dtype, targets, reduction, Output(2), weight, ignore_index
    )
    return Plan(outputs, [first, *rest], temps)


def gradient(version: str, g: Layout, x: Layout, label_smoothing: float, ignore_index: int) -> Plan:
    """The plan of one version of the gradient by name; inputs g, x, targets, stats, divisor."""
    T = wide(x.dtype)
    n, classes, depth = x.shape
    reduced = g.ndim == 0
    settings = [ignore_index, T.type(label_smoothing)]
    arrays = [Input(i) for i in range(5)]
    if version == "plain":
        return Plan(
            [x.like()],
            [
                Launch(
                    plain_grad(x.dtype, reduced),
                    blocks(n * depth, 128),
                    128,
                    [*arrays, Output(0), *settings],
                )
            ],
        )
    if version == "long_rows":
        from . import cross_entropy_long_rows

        rest = [Input(2).flat, Input(3).view((2, n)), Input(4), Output(0).flat]
        return Plan(
            [x.like()],
            [cross_entropy_long_rows.launch_grad(x, label_smoothing != 0, reduced, rest, settings)],
        )
    width, edges = access(classes, x)
    threads, held = shares(
        classes, width, edges, fitting(HELD_GRAD, x.dtype), THREADS, TOGETHER_GRAD
    )
    block = threads, max(128 // threads, 1)
    chunks = blocks(classes + (width - 1 if edges else 0), threads * held)
    flat = [
        Input(0) if reduced else Input(0).flat,
        Input(1).flat,
        Input(2).flat,
        Input(3).view((2, n)),
        Input(4),
    ]
    kernel = rows_grad(x.dtype, reduced, *block, width, edges, held)
    return Plan(
        [x.like()],
        [
            Launch(
                kernel,
                (blocks(n, block[1]), chunks),
                block,
                [*flat, Output(0).flat, classes, *settings],
            )
        ],
    )


def _version(x: Layout) -> str:
    """The version for x (N, C, D), the fastest measured on an H200."""
    if x.shape[2] != 1:
        return "plain"
    return (
        "long_rows" if x.itemsize <= 4 and x.shape[1] >= LONG and vector_width(0, x) > 1 else "rows"
    )


def cross_entropy(
    x: Layout,
    targets: Layout,
    weight: Layout | None = None,
    *,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
) -> Plan:
    """x: (N, C, D), targets: (N, D), weight: (C,) -> loss () or (N, D), stats (2, N, D): top and
    log_sum, divisor ()."""
    version = _version(x)
    if version == "rows" and x.size <= FEW_LOGITS:
        version = "few"
    return losses(version, x, targets, reduction, ignore_index, label_smoothing, weight)


def cross_entropy_grad(
    g: Layout,
    x: Layout,
    targets: Layout,
    stats: Layout,
    divisor: Layout,
    *,
    ignore_index: int,
    label_smoothing: float,
) -> Plan:
    """g: () or (N, D), x: (N, C, D), targets: (N, D), stats: (2, N, D), divisor: () -> like x."""
    return gradient(_version(x), g, x, label_smoothing, ignore_index)


def nll_loss(
    x: Layout, targets: Layout, weight: Layout | None = None, *, reduction: str, ignore_index: int
) -> Plan:
    """x: (N, C, D), targets: (N, D), weight: (C,) -> loss () or (N, D), divisor ()."""
    outputs = [x.like(targets.shape if reduction == "none" else ()), x.like((), wide(x.dtype))]
    settings = [ignore_index, Flag(), Ticket()]
    if reduction != "none" and targets.size <= FEW and weight is None:
        return Plan(
            outputs,
            [
                Launch(
                    pick_few(x.dtype, reduction == "mean"),
                    1,
                    LAST,
                    [Input(0), Input(1), Output(0), Output(1), *settings],
                )
            ],
        )
    first = Launch(
        pick(x.dtype),
        blocks(targets.size, 128),
        128,
        [Input(0), Input(1), Temp(0).view((2, targets.size)), *settings],
    )
    rest, temps = reduction_steps(
        "fast", x.dtype, targets, reduction, Output(1), weight, ignore_index
    )
    return Plan(outputs, [first, *rest], temps)


def nll_loss_grad(
    g: Layout, targets: Layout, divisor: Layout, *, classes: int, ignore_index: int
) -> Plan:
    """g: () or (N, D), targets: (N, D), divisor: () -> (N, C, D) in g's dtype."""
    out = g.like((targets.shape[0], classes, targets.shape[1]))
    return Plan(
        [out],
        [
            Launch(
                pick_grad(g.dtype, g.ndim == 0),
                blocks(out.size, 256),
                256,
                [Input(0), Input(1), Input(2), Output(0), ignore_index],
            )
        ],
    )
