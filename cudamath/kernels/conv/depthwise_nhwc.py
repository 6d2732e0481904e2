"""Depthwise convolution of images channels last, and its input gradient: strips of results, two
channels per thread.

depthwise_nchw.py explains the sums, and what a scheme, a strip and its reach are. Channels last,
neighbouring threads have neighbouring channels: a warp reads 64 channels of a pixel by one access
of whole lines, wherever the pixel is, so nothing goes through shared memory. Strips beside and
below each other read some pixels twice, which then come from the L1 cache. A thread keeps its
channels' filters in registers and makes several strips below each other.

The floor is bytes(x) + bytes(y). A strip of 4 x 4 results reads 6 x 6 pixels for 3 x 3 taps and 10
x 10 for 7 x 7: 2.3 and 6.3 times x, from the cache.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...runtime.device import multiprocessors
from ..compiler.decorators import bounded, device_function
from ..compiler.generated import compiled
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..copy.channels_last import ReorderedPlan
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.vector_io import reader, writer
from .depthwise_nchw import HIGH, THREADS, Axis, Scheme, read_as
from .geometry import numbers
from .problem import Lengths, Problem, add_bias

WIDE = 4  # columns of a strip
FEW = 16  # taps up to which a thread has registers for two channels
ENOUGH_THREADS = 2048  # of a multiprocessor: threads take more strips while there are so many


def scheme(taps: Lengths, up: Lengths, down: Lengths, before: Lengths) -> Scheme:
    """Of these numbers for rows and columns."""
    rows, columns = (
        Axis(taps[i], up[i], down[i], before[i], wide) for i, wide in enumerate((HIGH, WIDE))
    )
    return Scheme(rows, columns)


@functools.cache
def _strip(dtype: np.dtype, how: Scheme, width: int) -> Any:
    """Device function that walks down the rows below a strip, written out (see
    depthwise_nchw.straight)."""
    C = codec(dtype)[2]
    read = reader(dtype, width)
    low, high = how.columns.reach
    span = high - low + 1

    @device_function
    def fetch(x, at, h, u, H, W, channels, v):
        """v (span * width,): pixels u, u + 1, ... of row h; 0 outside. at: place of the first."""
        for k in range(span * width):
            v[k] = C(0)
        if h >= 0 and h < H:
            for k in range(span):
                if u + k >= 0 and u + k < W:
                    read(x, at + k * channels, v, k * width)

    body = [
        f"    total[{width} * (n0 + {j}) + {e}] += w[{width} * (t0 + {s}) + {e}] * "
        f"v[{width * k + e}]"
        for k in range(span)
        for j, s in how.columns.pairs(low + k)
        for e in range(width)
    ]
    meet = device_function(
        compiled("\n".join(["def meet(v, n0, t0, w, total):", *body, ""]), "meet", {})
    )
    lines = ["def strip(x, at, h, u, H, W, pitch, channels, v, w, total):"]
    for row in range(how.height):
        lines.append(f"    fetch(x, at + i64({row}) * pitch, h + i64({row}), u, H, W, channels, v)")
        lines += [
            f"    meet(v, i64({i * WIDE}), i64({r * how.columns.taps}), w, total)"
            for i, r in how.rows.pairs(how.first + row)
        ]
    return device_function(
        compiled(
            "\n".join([*lines, ""]), "strip", {"fetch": fetch, "meet": meet, "i64": types.int64}
        )
    )


@functools.cache
def conv2d_depthwise_last(dtype: np.dtype, how: Scheme, width: int) -> Any:
    """A thread `width` channels of `each` strips below each other."""
    load, _, C = codec(dtype)
    strip, write = _strip(dtype, how, width), writer(dtype, width)
    (up_down, up_across), (step_down, step_across) = (
        (axis.up for axis in how),
        (axis.down for axis in how),
    )
    area, results = how.rows.taps * how.columns.taps, HIGH * WIDE
    left = how.columns.reach[0]
    first, window = how.first, (how.columns.reach[1] - left + 1) * width
    w_size, total_size = area * width, results * width

    @bounded((THREADS, 4))
    def conv2d_depthwise_last(
        x,
        weights,
        bias,
        y,
        biased,
        flipped,
        count,
        channels,
        H,
        W,
        P,
        Q,
        strips_down,
        strips_across,
        each,
    ):
        """x (images, H, W, channels), weights (channels, R, S), y (images, P, Q, channels): flat;
        bias (channels,) if biased; flipped: filters are read backwards; count: threads with
        something to do; strips_down: groups of `each` strips."""
        v = cuda.local.array(window, C)
        w = cuda.local.array(w_size, C)
        total = cuda.local.array(total_size, C)
        i = cuda.grid(1)
        if i >= count:
            return
        pieces = types.uint32(channels // width)
        rest = types.uint32(i) // pieces
        c = types.int64(types.uint32(i) - rest * pieces) * width
        line = rest // types.uint32(strips_across)
        q = types.int64(rest - line * types.uint32(strips_across)) * WIDE
        image = types.int64(line // types.uint32(strips_down))
        p0 = (types.int64(line) - image * strips_down) * each * HIGH
        for k in range(area):
            for e in range(width):
                w[k * width + e] = load(weights[(c + e) * area + (area - 1 - k if flipped else k)])
        u = q * step_across // up_across + left
        for p in range(p0, min(p0 + each * HIGH, P), HIGH):
            for e in range(width):
                start = load(bias[c + e]) if biased else C(0)
                for k in range(results):
                    total[k * width + e] = start
            h = p * step_down // up_down + first
            strip(
                x,
                ((image * H + h) * W + u) * channels + c,
                h,
                u,
                H,
                W,
                W * channels,
                channels,
                v,
                w,
                total,
            )
            for k in range(HIGH):
                for j in range(WIDE):
                    if p + k < P and q + j < Q:
                        write(
                            y,
                            ((image * P + p + k) * Q + q + j) * channels + c,
                            total,
                            (k * WIDE + j) * width,
                        )

    return conv2d_depthwise_last


def _sum(problem: Problem, biased: bool) -> Plan | None:
    """The plan of a forward convolution or input gradient; biased: whether the kernel adds the
    bias. None: there are too many threads."""
    out, how, reverse = problem.out, scheme(*read_as(problem)), problem.kind == "input"
    images, channels, H, W = problem.operands[0].shape
    P, Q = out.shape[2:]
    width = (
        2 if channels % 2 == 0 and how.rows.taps * how.columns.taps <= FEW and not SIMULATOR else 1
    )
    rows, strips_across = blocks(P, HIGH), blocks(Q, WIDE)
    across = images * strips_across * (channels // width)
    enough = ENOUGH_THREADS * multiprocessors(problem.device)
    each = max(1, min(rows, across * rows // enough))
    strips_down = blocks(rows, each)
    count = across * strips_down
    if count >= 1 << 31:
        return None
    plan = ReorderedPlan(out, *problem.operands)
    x, w = plan.operands
    w = w.view(
        (channels * how.rows.taps * how.columns.taps,)
    )  # filters of one channel: both orders are the same
    plan.steps.append(
        Launch(
            conv2d_depthwise_last(out.dtype, how, width),
            blocks(count, THREADS),
            THREADS,
            [
                x.view((problem.operands[0].size,)),
                w,
                Input(2) if biased else w,
                plan.target.view((out.size,)),
                *numbers(
                    biased, reverse, count, channels, H, W, P, Q, strips_down, strips_across, each
                ),
            ],
        )
    )
    return plan.build()


def forward(problem: Problem) -> Plan | None:
    """x (N, C, H, W), weight (C, 1, R, S), bias (C,) -> y (N, C, P, Q)."""
    return _sum(problem, problem.bias is not None)


def input_gradient(problem: Problem) -> Plan | None:
    """y (N, C, P, Q), weight (C, 1, R, S), bias (C,) -> x (N, C, H, W)."""
    return add_bias(_sum(problem, False), problem)
