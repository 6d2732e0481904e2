"""Convolutions of stride two over images of few channels, as convolutions of stride one over folded
images: 2 x 2 pixels become one, of four times the channels.

    z[n, (2 a + b) C + c, i, j] = x[n, c, 2 i + a, 2 j + b]

with zeros beyond the edges and in the channels that are left. Tensor cores multiply 16 channels at
a time. The first convolution of most networks sees 3 (red, green, blue) and has a stride of two: a
product of 3 numbers would fill a fifth of them. Folded, its 12 numbers fill three quarters, and it
has a quarter of the taps.

Output row p meets row 2 p + r - padding of x at tap r. That is one of the two rows of folded row p
+ r' - padding', if r is counted so that r - padding is even where r' begins. So filters get zeros
in front where the padding is odd, and behind where their size is then odd. Folded like the images,
they have half the taps along each axis.

    forward          fold x, fold w, and the convolution of fprop_dgrad_sm90.py
    weight gradient  fold x; the gradient of folded filters by wgrad_sm90_shared_taps.py (rows of 2
                     or 3 folded taps) or wgrad_sm90.py; ``unfold_filters`` takes the filter out of
                     it

On an H200, 64 images of 3 x 224 x 224 channels last, bfloat16 (cuDNN in brackets): 64 filters of 7
x 7 taps, forward 221 us (456), weight gradient 274 (304); 32 of 3 x 3, 86 (127) and 64 (148). 16
images of 3 x 64 x 64, forward 16 (11): three launches.

(The gradient of images: dgrad.py.) A block makes a row of z, and a thread a pixel:
threads write pixels side by side, 16 bytes at once. Zeros times an infinity of x are NaN: an
infinity reaches the outputs one pixel further. The floor is memory: read x, write y.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ....core.dispatch.arguments import ArrayArg, Input, Output, Temp
from ....core.dispatch.plan import Plan
from ....core.dispatch.steps import Launch
from ....core.layout import Layout
from ...compiler.lazy_numba import cuda
from ...copy.channels_last import as_channels_last
from ...lib.codec import codec
from ...lib.integers import blocks
from ...lib.plan_edit import renumber
from ...lib.vector_io import writer
from ...lib.widths import vector_width
from .. import fprop_dgrad_sm90, wgrad_sm90, wgrad_sm90_shared_taps
from ..problem import Pair, Problem

Planner = Callable[[Problem], Plan | None]
THREADS = 128
CHANNELS = 16  # summed by tensor cores at a time


class Axis(NamedTuple):
    """How rows (or columns) of folded filters and images lie."""

    front: int  # zeros before the first tap
    taps: int  # of folded filters
    before: int  # padding of folded images


def axis(taps: int, before: int) -> Axis:
    """Of filters of so many taps, with so much padding in front."""
    front = before % 2
    return Axis(front, (taps + front + 1) // 2, (before + front) // 2)


# -------------------- kernels


@functools.cache
def conv_fold(dtype: np.dtype, own: int, width: int) -> Any:
    """width: channels that are written at a time."""
    load, _, T = codec(dtype)
    write = writer(dtype, width)

    @cuda.jit
    def conv_fold(x, z, tall, wide, top, left):
        """x (images, own, H, W), of which row `top` and column `left` before the first are where z
        begins; z (images, tall, wide, CHANNELS): flat."""
        _, _, height, columns = x.shape
        v = cuda.local.array(CHANNELS, T)
        n = cuda.blockIdx.x // tall
        h = (cuda.blockIdx.x - n * tall) * 2 - top
        for j in range(cuda.threadIdx.x, wide, THREADS):
            for e in range(CHANNELS):
                c, at = e % own, e // own
                row, column = h + at // 2, 2 * j - left + at % 2
                v[e] = T(0)
                if at < 4 and row >= 0 and row < height and column >= 0 and column < columns:
                    v[e] = load(x[n, c, row, column])
            for e in range(0, CHANNELS, width):
                write(z, (cuda.blockIdx.x * wide + j) * CHANNELS + e, v, e)

    return conv_fold


@cuda.jit
def unfold_filters(z, w, top, left):
    """z (outputs, CHANNELS, tall, wide), w (outputs, own, R, S), any strides. A block has an
    output, a thread some of it."""
    _, own, R, S = w.shape
    k = cuda.blockIdx.x
    for i in range(cuda.threadIdx.x, own * R * S, THREADS):
        c, r, s = i // (R * S), i // S % R + top, i % S + left
        w[k, c, r - top, s - left] = z[k, (r % 2 * 2 + s % 2) * own + c, r // 2, s // 2]


# -------------------- planner


def fold(
    source: ArrayArg, layout: Layout, target: ArrayArg, size: Pair, front: Pair = (0, 0)
) -> tuple[Layout, Launch]:
    """The layout of an array folded to this size, and the launch that folds it."""
    out = as_channels_last(layout, (layout.shape[0], CHANNELS, *size))
    kernel = conv_fold(layout.dtype, layout.shape[1], vector_width(CHANNELS, out))
    return out, Launch(
        kernel,
        layout.shape[0] * size[0],
        THREADS,
        [source, target.view((out.size,)), *size, *front],
    )


def forward(problem: Problem, convolve: Planner = fprop_dgrad_sm90.forward) -> Plan | None:
    """x (N, C, H, W), weight (K, C, R, S), bias (K,) -> y (N, K, P, Q). convolve: the planner of
    the convolution inside; None where it has none."""
    x, weight, padding = problem.x, problem.weight, problem.padding
    down, right = [axis(problem.taps[i], padding[2 * i]) for i in (0, 1)]
    height, columns = x.shape[2:]
    images, first = fold(Input(0), x, Temp(0), (blocks(height, 2), blocks(columns, 2)))
    filters, second = fold(
        Input(1), weight, Temp(1), (down.taps, right.taps), (down.front, right.front)
    )
    before = (down.before, 0, right.before, 0)
    inner = convolve(Problem("forward", images, filters, problem.y, problem.bias, padding=before))
    if inner is None:
        return None
    places: dict[ArrayArg, ArrayArg] = {Input(i): Temp(i) for i in (0, 1)} | {
        Temp(i): Temp(2 + i) for i in range(len(inner.temps))
    }
    return Plan(
        [problem.y],
        [first, second, *renumber(inner.steps, places)],
        [images, filters, *inner.temps],
    )


def gradient_of_filters(problem: Problem) -> Plan | None:
    """The weight gradient inside."""
    return wgrad_sm90_shared_taps.weight_gradient(problem) or wgrad_sm90.weight_gradient(problem)


def weight_gradient(problem: Problem, convolve: Planner = gradient_of_filters) -> Plan | None:
    """y (N, K, P, Q), x (N, C, H, W) -> weight (K, C, R, S). convolve: as in `forward`."""
    x, out, padding = problem.x, problem.weight, problem.padding
    down, right = [axis(problem.taps[i], padding[2 * i]) for i in (0, 1)]
    height, columns = x.shape[2:]
    images, first = fold(Input(1), x, Temp(0), (blocks(height, 2), blocks(columns, 2)))
    filters = as_channels_last(out, (out.shape[0], CHANNELS, down.taps, right.taps))
    before = (down.before, 0, right.before, 0)
    inner = convolve(Problem("weight", images, filters, problem.y, padding=before))
    if inner is None:
        return None
    places: dict[ArrayArg, ArrayArg] = {Input(1): Temp(0), Output(0): Temp(1)} | {
        Temp(i): Temp(2 + i) for i in range(len(inner.temps))
    }
    temps = [images, *inner.outputs, *inner.temps]
    last = Launch(
        unfold_filters, out.shape[0], THREADS, [Temp(1), Output(0), down.front, right.front]
    )
    return Plan([out], [first, *renumber(inner.steps, places), last], temps)
