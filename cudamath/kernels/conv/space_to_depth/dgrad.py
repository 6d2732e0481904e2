"""The gradient of images of few channels on tensor cores: the red, green and blue of a first layer,
in 16-bit numbers.

    dx[n, c, h, w] = sum over m, r, s of w[m, c, r, s] * dy[n, m, p, q]
                     with p * stride + r - top = h   (columns alike)

A product on tensor cores has 64 rows at least, and three channels would fill three. So 4 x 4 pixels
of dx become one, of 16 times the channels:

    z[n, (4 a + b) C + c, i, j] = dx[n, c, 4 i + a, 4 j + b]

Row i of z meets row p of dy at tap r = 4 i + a + top - p * stride. For all four a these are
neighbouring rows of dy, which advance by 4 / stride from one row of z to the next: a convolution of
dy, without the residues of a stride. Its tap t is row p = i * 4 / stride + t - back, of the filters

    f[(4 a + b) C + c, m, t, u] = w[m, c, r, s],     r = a + top + back * stride - t * stride,
        zero where there is none

    stride 2, taps r of 7 (top 3, back 1)      t = 0   1   2   3   4
                                      a = 0        5   3   1   .   .
                                      a = 1        6   4   2   0   .
                                      a = 2        .   5   3   1   .
                                      a = 3        .   6   4   2   0

Three launches: ``fold_filters`` writes f, the forward kernel of fprop_dgrad_sm90.py (before compute
capability 9.0 of fprop_dgrad_sm80.py) makes z, ``unfold_images`` puts its numbers where they
belong. For 7 x 7 taps of three channels, 37 % of the factors are not zero: 48 of 64 rows, 49 taps
of 4 pixels each in 5 x 5 of 16. Zeros times an infinity of dy are NaN: an infinity reaches all
pixels of a 4 x 4 square if it reaches one.

The floor is memory: read dy, write dx. On an H200, ResNet-50's first layer, 64 images channels
last, bfloat16: 113 us, 238 by fprop_dgrad_sm80.py (dgrad_few_channels.py 844, cuDNN 931, PyTorch
821); 3 x 3 taps at every pixel 183 (cuDNN 549), 11 x 11 at every fourth 77 (147); of 16 images of
64 x 64 15 (27).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ....core.dispatch.arguments import ArrayArg, Input, Output, Temp
from ....core.dispatch.plan import Plan
from ....core.dispatch.steps import Launch
from ....core.layout import is_channels_last
from ...compiler.lazy_numba import SIMULATOR, cuda
from ...copy.channels_last import ReorderedPlan, as_channels_last
from ...lib.codec import codec
from ...lib.integers import blocks
from ...lib.plan_edit import renumber
from ...lib.vector_io import reader, writer
from .. import fprop_dgrad_sm80, fprop_dgrad_sm90
from ..problem import Problem, add_bias

FOLD = 4  # pixels along each axis that become one
FILTERS, ACROSS = 64, 64  # threads of a block: along the planes of dy, and along a row of z


class Axis(NamedTuple):
    """How rows (or columns) of z are a convolution of those of dy."""

    step: int  # rows of dy from one row of z to the next
    back: int  # rows of dy before the first
    taps: int
    first: int  # tap of w at the first tap of f, for a = 0; it falls by `stride` from tap to tap


def axis(taps: int, stride: int, before: int) -> Axis:
    """Of filters of so many taps, with so much padding in front."""
    back = (taps - 1 - before) // stride
    first = before + back * stride
    return Axis(FOLD // stride, back, (FOLD - 1 + first) // stride + 1, first)


# -------------------- kernels


@functools.cache
def fold_filters(dtype: np.dtype) -> Any:
    """A block writes one tap of one output of f."""
    load, store, C = codec(dtype)

    @cuda.jit
    def fold_filters(
        w, f, stride_down, stride_right, first_down, first_right, taps_down, taps_right
    ):
        """w (planes, channels, R, S), f (16 * channels, taps_down, taps_right, planes) in a
        line."""
        planes, channels, R, S = w.shape
        line = cuda.blockIdx.x
        tap, output = line // taps_right % taps_down, line // (taps_right * taps_down)
        pixel, c = output // channels, output % channels
        r = first_down + pixel // FOLD - tap * stride_down
        s = first_right + pixel % FOLD - line % taps_right * stride_right
        for m in range(cuda.threadIdx.x, planes, FILTERS):
            value = C(0)
            if r >= 0 and r < R and s >= 0 and s < S:
                value = load(w[m, c, r, s])
            f[line * planes + m] = store(value)

    return fold_filters


@functools.cache
def unfold_images(dtype: np.dtype, channels: int, width: int, last: bool) -> Any:
    """A block takes a row of z apart, a thread four neighbours of one row of dx, `width` numbers at
    a time. last: dx lies channels last, else in C order."""
    _, _, T = codec(dtype)
    read, write = reader(dtype, width), writer(dtype, width)
    run = FOLD * channels

    @cuda.jit
    def unfold_images(z, dx, tall, wide, height, columns):
        """z (images, tall, wide, 16 * channels), dx of images (height, columns): flat."""
        v = cuda.local.array(run, T)
        u = cuda.local.array(run, T)
        image = cuda.blockIdx.x // tall
        row = (cuda.blockIdx.x - image * tall) * FOLD + cuda.threadIdx.y
        if row < height:
            for j in range(cuda.threadIdx.x, wide, ACROSS):
                left = columns - j * FOLD  # of the row of dx
                begin = ((cuda.blockIdx.x * wide + j) * FOLD + cuda.threadIdx.y) * run
                for e in range(0, run, width):
                    read(z, begin + e, v, e)
                if last:
                    to = ((image * height + row) * columns + j * FOLD) * channels
                    for e in range(0, run, width):
                        if e < left * channels:
                            write(dx, to + e, v, e)
                else:
                    for c in range(channels):
                        for b in range(FOLD):
                            u[c * FOLD + b] = v[b * channels + c]
                        to = ((image * channels + c) * height + row) * columns + j * FOLD
                        for b in range(0, FOLD, width):
                            if b < left:
                                write(dx, to + b, u, c * FOLD + b)

    return unfold_images


# -------------------- planner


def access(channels: int, columns: int, last: bool) -> int:
    """Numbers that one access of `unfold_images` moves: rows of dx are whole accesses, and so are a
    thread's neighbours."""
    row, run = (columns * channels, FOLD * channels) if last else (columns, FOLD)
    return 1 if SIMULATOR else next(n for n in (8, 4, 2, 1) if row % n == 0 and run % n == 0)


# -------------------- planner


def convolution_inside(problem: Problem) -> Plan | None:
    """The forward convolution on tensor cores."""
    newest = problem.capability[0] == 9
    return (fprop_dgrad_sm90 if newest else fprop_dgrad_sm80).forward(problem)


def input_gradient(
    problem: Problem, convolve: Callable[[Problem], Plan | None] = convolution_inside
) -> Plan | None:
    """y (N, K, P, Q), weight (K, C, R, S), bias (C,) -> x (N, C, H, W). convolve: the planner of
    the convolution inside; None where it has none."""
    out, grad, weight = problem.x, problem.y, problem.weight
    stride, padding = problem.stride, problem.padding
    (images, channels, height, columns), planes = out.shape, weight.shape[0]
    down, right = [axis(weight.shape[2 + i], stride[i], padding[2 * i]) for i in (0, 1)]
    tall, wide = blocks(height, FOLD), blocks(columns, FOLD)
    outputs = FOLD * FOLD * channels
    folded, filters = (
        as_channels_last(out, (images, outputs, tall, wide)),
        as_channels_last(weight, (outputs, planes, down.taps, right.taps)),
    )
    before = (down.back, 0, right.back, 0)
    inner = convolve(
        Problem("forward", grad, filters, folded, stride=(down.step, right.step), padding=before)
    )
    if inner is None:
        return None
    plan = ReorderedPlan(out, last=is_channels_last(out))
    f, z = plan.temp(filters), plan.temp(folded)
    places: dict[ArrayArg, ArrayArg] = {Input(1): f, Output(0): z}
    places |= {Temp(i): plan.temp(scratch) for i, scratch in enumerate(inner.temps)}
    width = access(channels, columns, plan.last)
    plan.steps += [
        Launch(
            fold_filters(weight.dtype),
            outputs * down.taps * right.taps,
            FILTERS,
            [
                Input(1),
                f.view((filters.size,)),
                *stride,
                down.first,
                right.first,
                down.taps,
                right.taps,
            ],
        ),
        *renumber(inner.steps, places),
        Launch(
            unfold_images(out.dtype, channels, width, plan.last),
            images * tall,
            (ACROSS, FOLD),
            [z.view((folded.size,)), plan.target.view((out.size,)), tall, wide, height, columns],
        ),
    ]
    return add_bias(plan.build(), problem)
