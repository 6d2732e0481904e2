"""Losses that compare two arrays element by element, summed as they are computed, and their
gradients.

The idea. A loss like the mean of (x - t)^2 reads two arrays and returns a number. Made of
elementwise functions and a sum it would write differences and squares to memory and read them back:
6 x the size of an array where 2 x will do. Here each thread adds up the losses of the elements it
reads. The gradient by one of them is an elementwise kernel (elementwise/dispatch.py) of the
incoming gradient, one number, and both arrays; nothing but the inputs is kept for it. Where the
gradients by both are wanted, `pointwise_slopes` reads the arrays once for the two.

The floor is bytes(x) + bytes(t) forward, and once more that and the gradients' own bytes backward.
The loss has the dtype that it is computed in: float32 for 16-bit numbers.

Versions of the sum: `plain`, one thread (the simulator); `pointwise_total`, blocks that walk over
the arrays in strides, two accesses of 16 bytes to each array in flight. What a thread adds is a
matter of the size alone, so the same numbers give the same bits. The blocks' sums are added by one
more block.
"""

from __future__ import annotations

import functools
import re

import numpy as np

from ...core.dispatch.arguments import Input, Output, Scalar, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import bounded
from ..compiler.lazy_numba import cuda
from ..elementwise.dispatch import launch, result_layout
from ..elementwise.generator import NAMES, scalar_function
from ..lib.block_reduce import group_sum
from ..lib.codec import codec
from ..lib.integers import blocks, with_tail
from ..lib.vector_io import RUN, reader, writer
from ..lib.widths import vector_width, wide
from .problem import PointwiseLoss, PointwiseLossBackward

THREADS = 256
UNROLLED = 2  # accesses to each array that a thread has in flight
MOST_BLOCKS = 1024  # the last block has a thread for each

_D = "(x - t)"
_RISE, _FALL = (
    "(maximum(x, 0) + log1p(exp(-abs(x))))",
    "(maximum(-x, 0) + log1p(exp(-abs(x))))",
)  # softplus of x, -x
_LOG, _LOG1 = "maximum(log(x), -100)", "maximum(log1p(-x), -100)"

#: Loss, its slope by x and by t, on x, t and a parameter p; None: minus the other slope.
#: (cpu/losses/elementwise.py has them too.)
EXPRESSIONS: dict[str, tuple[str, str, str | None]] = {
    "mse_loss": (f"{_D} * {_D}", f"2 * {_D}", None),
    "l1_loss": (f"abs{_D}", f"sign{_D}", None),
    "huber_loss": (
        f"0.5 * {_D} * {_D} if abs{_D} <= p else p * (abs{_D} - 0.5 * p)",
        f"maximum(minimum({_D}, p), -p)",
        None,
    ),
    "smooth_l1_loss": (
        f"0.5 * {_D} * {_D} / p if abs{_D} < p else abs{_D} - 0.5 * p",
        f"{_D} / p if abs{_D} < p else sign{_D}",
        None,
    ),
    "bce_with_logits": (
        f"(1 - t) * {_RISE} + p * t * {_FALL}",
        "(1 - t) / (1 + exp(-x)) - p * t / (1 + exp(x))",
        f"p * {_FALL} - {_RISE}",
    ),
    "binary_cross_entropy": (
        f"-t * {_LOG} - (1 - t) * {_LOG1}",
        "(x - t) / maximum(x * (1 - x), 1e-12)",
        f"{_LOG1} - {_LOG}",
    ),
    "kl_div": ("t * (log(t) - x) if t != 0 else t", "-t", "log(t) + 1 - x"),
    "kl_div (log)": (
        "exp(t) * (t - x) if exp(t) > 0 else exp(t)",
        "-exp(t)",
        "exp(t) * (t - x + 1) if exp(t) > 0 else exp(t)",
    ),
}


def named(expression: str, **names: str) -> str:
    """The expression with other names in it."""
    return re.sub(rf"\b({'|'.join(names)})\b", lambda found: names[found[1]], expression)


@functools.cache
def value(kind: str, dtype: np.dtype):
    """Device function (x, t, p) -> loss, all of the compute type."""
    T = wide(dtype)
    return scalar_function(named(EXPRESSIONS[kind][0], t="y", p="z"), (T, T, T), T, T, stored=False)


@functools.cache
def plain(kind: str, dtype: np.dtype):
    """One thread; x, t: (n,); p: the parameter; total: (1,), their sum over `divisor`."""
    load, _, T = codec(dtype)
    loss = value(kind, dtype)

    @cuda.jit
    def pointwise_plain(x, t, p, total, n, divisor):
        s = T(0)
        for start in range(0, n, RUN):
            part = T(0)
            for i in range(start, min(start + RUN, n)):
                part += loss(load(x[i]), load(t[i]), p)
            s += part
        total[0] = s / divisor

    return pointwise_plain


@functools.cache
def pointwise_total(kind: str, dtype: np.dtype, width: int, alone: bool):
    """Blocks of THREADS; x, t: (n,); p: the parameter; sums: (blocks,), or, `alone`, the result
    (1,)."""
    load, _, T = codec(dtype)
    loss = value(kind, dtype)
    read = reader(dtype, width)
    total_of = group_sum(THREADS, T)
    held = UNROLLED * width
    chunk = THREADS * held  # elements that a block reads at a time

    @bounded(THREADS)
    def pointwise_total(x, t, p, sums, n, divisor):
        a = cuda.local.array(held, T)
        b = cuda.local.array(held, T)
        total = T(0)
        whole = n // chunk
        for c in range(cuda.blockIdx.x, whole, cuda.gridDim.x):
            first = c * chunk + cuda.threadIdx.x * width
            for k in range(UNROLLED):
                read(x, first + k * (THREADS * width), a, k * width)
                read(t, first + k * (THREADS * width), b, k * width)
            part = T(0)
            for e in range(held):
                part += loss(a[e], b[e], p)
            total += part
        if cuda.blockIdx.x == whole % cuda.gridDim.x:  # what is left is less than a chunk
            for i in range(whole * chunk + cuda.threadIdx.x, n, THREADS):
                total += loss(load(x[i]), load(t[i]), p)
        total = total_of(total)
        if cuda.threadIdx.x == 0:
            if alone:
                sums[0] = total / divisor
            else:
                sums[cuda.blockIdx.x] = total

    return pointwise_total


@functools.cache
def pointwise_finish(dtype: np.dtype):
    """One block of MOST_BLOCKS threads; sums: (blocks,); out: (1,), their sum over `divisor`."""
    T = codec(dtype)[2]
    total_of = group_sum(MOST_BLOCKS, T)

    @bounded(MOST_BLOCKS)
    def pointwise_finish(sums, out, divisor):
        i = cuda.threadIdx.x
        total = total_of(sums[i] if i < sums.size else T(0))
        if i == 0:
            out[0] = total / divisor

    return pointwise_finish


# -------------------- planners


def plan_elements(x: Layout, t: Layout, kind: str) -> Plan:
    """The plan of the loss of each element."""
    dtype, T = x.dtype, wide(x.dtype)
    expression = named(EXPRESSIONS[kind][0], t="y", p="z")
    out = result_layout([x, t], x.shape, T)
    function = scalar_function(expression, (dtype, dtype, T), T, T)
    return Plan([out], [launch(function, [x, t, T], out, Output(0))])


def plan_plain(p: PointwiseLoss) -> Plan:
    """The plan of one thread."""
    arguments = [*arrays_of(p), Output(0), p.x.size, p.divisor]
    return Plan([loss_of(p)], [Launch(plain(p.kind, p.x.dtype), 1, 1, arguments)])


def plan_blocks(p: PointwiseLoss) -> Plan:
    """The plan of blocks that read the arrays in strides, and of one that adds their sums."""
    x, dtype, T = p.x, p.x.dtype, wide(p.x.dtype)
    width = vector_width(0, x, p.t)  # 0 is a multiple of anything
    grid = min(max(blocks(x.size, THREADS * UNROLLED * width), 1), MOST_BLOCKS)
    kernel = pointwise_total(p.kind, dtype, width, grid == 1)
    if grid == 1:
        arguments = [*arrays_of(p), Output(0), x.size, p.divisor]
        return Plan([loss_of(p)], [Launch(kernel, 1, THREADS, arguments)])
    steps = [
        Launch(kernel, grid, THREADS, [*arrays_of(p), Temp(0), x.size, T.type(1)]),
        Launch(pointwise_finish(dtype), 1, MOST_BLOCKS, [Temp(0), Output(0), p.divisor]),
    ]
    return Plan([loss_of(p)], steps, [x.like((grid,), T)])


def loss_of(p: PointwiseLoss) -> Layout:
    """The loss, in the dtype that it is computed in."""
    return p.x.like((), wide(p.x.dtype))


def arrays_of(p: PointwiseLoss) -> list:
    """x, t, and the loss's parameter."""
    return [Input(0).flat, Input(1).flat, Scalar(0, wide(p.x.dtype))]


def _slope(kind: str, by: int, x: str, t: str) -> str:
    """The gradient by x (0) or t (1) with these names for x and t: an expression of x (the incoming
    gradient), both, the parameter and the scale."""
    slope = EXPRESSIONS[kind][1 + by]
    if (
        slope is None
    ):  # a loss of the distance alone: by t it is what it is by x with both exchanged
        slope, x, t = EXPRESSIONS[kind][1], t, x
    return f"x * {NAMES[4]} * ({named(slope, x=x, t=t, p=NAMES[3])})"


@functools.cache
def pointwise_slopes(kind: str, dtype: np.dtype, incoming: np.dtype, single: bool, width: int):
    """Both gradients, `width` neighbours per thread, but for the last elements (`with_tail`). g:
    (1,) if `single`, else as x, t, dx and dt: (n,), of dtype `incoming`."""
    load, store, T = codec(dtype)
    load_g, read_g = codec(incoming)[0], reader(incoming, width)
    read, write, C = reader(dtype, width), writer(dtype, width), wide(dtype)
    by_x, by_t = (
        scalar_function(_slope(kind, by, "y", "z"), (C,) * 5, C, C, stored=False) for by in (0, 1)
    )

    @bounded(THREADS)
    def pointwise_slopes(g, x, t, p, scale, dx, dt):
        a = cuda.local.array(width, T)
        b = cuda.local.array(width, T)
        c = cuda.local.array(width, T)
        i = cuda.grid(1) * width
        if i + width <= x.size:
            read(x, i, a, 0)
            read(t, i, b, 0)
            if single:
                one = load_g(g[0])
                for e in range(width):
                    c[e] = one
            else:
                read_g(g, i, c, 0)
            for e in range(width):
                by = by_x(c[e], a[e], b[e], p, scale)
                b[e] = by_t(c[e], a[e], b[e], p, scale)
                a[e] = by
            write(dx, i, a, 0)
            write(dt, i, b, 0)
        else:
            j = cuda.grid(1) + x.size // width * (width - 1)
            if j < x.size:
                one = load_g(g[0 if single else j])
                dx[j] = store(by_x(one, load(x[j]), load(t[j]), p, scale))
                dt[j] = store(by_t(one, load(x[j]), load(t[j]), p, scale))

    return pointwise_slopes


def _grad_step(
    g: Layout, x: Layout, t: Layout, out: Layout, kind: str, by: int, place: Output
) -> Launch:
    T = wide(x.dtype)
    function = scalar_function(
        _slope(kind, by, "y", "z"), (g.dtype, x.dtype, t.dtype, T, T), T, x.dtype
    )
    return launch(function, [g, x, t, T, T], out, place)


def plan_grad(g: Layout, x: Layout, t: Layout, kind: str, by: int) -> Plan:
    """The plan of one gradient."""
    out = result_layout([x, t], x.shape, x.dtype)
    return Plan([out], [_grad_step(g, x, t, out, kind, by, Output(0))])


def plan_grads(p: PointwiseLossBackward) -> Plan:
    """The plan of both gradients in one launch."""
    T = wide(p.x.dtype)
    out = result_layout([p.x, p.t], p.x.shape, p.x.dtype)
    arrays = [Input(0).flat, Input(1).flat, Input(2).flat]
    arguments = [*arrays, Scalar(0, T), Scalar(1, T), Output(0).flat, Output(1).flat]
    kernel = pointwise_slopes(p.kind, p.x.dtype, p.g.dtype, p.single, p.width)
    grid = blocks(with_tail(p.x.size, p.width), THREADS)
    return Plan([out, out], [Launch(kernel, grid, THREADS, arguments)])


def plan_grads_apart(p: PointwiseLossBackward) -> Plan:
    """The plan of both gradients in two launches, for any strides."""
    out = result_layout([p.x, p.t], p.x.shape, p.x.dtype)
    steps = [_grad_step(p.g, p.x, p.t, out, p.kind, by, Output(by)) for by in (0, 1)]
    return Plan([out, out], steps)
