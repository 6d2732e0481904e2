"""Batch norm: every channel standardised by its own mean and variance. (The gradient:
batch_norm_backward.py.)

    y = (x - mean) * rstd * weight + bias,   mean, variance over all but the channel axis,   rstd =
                                             1 / sqrt(variance + eps)

An array is seen as (N, C, S): for N, C, H, W in C order S = H W; with channels last in memory N H W
takes the place of N, and S = 1. The floor is memory: statistics need all of x before the first y,
so read x, read x, write y (3 x size bytes). The L2 cache takes some of the second reads.

Steps: (a) parts of each channel -> (count, mean, M2, pivot), M2 the sum of squared distances from
that mean; (b) the parts of a channel merged; (c) y.

Two parts merge exactly (Chan, Golub & LeVeque 1979): with f = n2 / (n1 + n2) and delta = mean2 -
mean1,

    mean = mean1 + delta f,   M2 = M2_1 + M2_2 + delta^2 n1 f

so a thread takes some elements at a time, finds their mean and M2, and merges them with what it
has. Here mean2 - mean1 would cancel under a large mean: 3000 in float32 is only known to 1e-4, and
the error of each delta goes into M2. So all this is done with x - pivot, the pivot a typical
element of the channel: that difference is exact for elements close to the pivot, and the pivot is
added to the mean of the differences at the end, with one rounding. All orders are fixed by the
shapes: no atomics.

Versions of (a): `plain_*` one thread per channel (any GPU, and the simulator); for S > 1 that of
batch_norm_nchw.py, a block reads the runs of S elements of one channel; `columns_*` for S = 1,
threads own neighbouring channels and walk down N. Weight, bias and running statistics have x's
dtype or float32; mean and rstd the compute type T.

Loads stand outside of all tests: what would lie beyond the end is read from the last place once
more, and not used. A load in a branch, converted there, is waited for before the next one is sent:
then a thread has one in flight instead of four.

What follows a batch norm in a network, adding a residual and relu, is done in (c) while y is in
registers: by itself each would read and write all of y again. Flags of the kernels, `add` and
`relu`, say what there is to do.

Measured (row versions_batch_norm):
batch norm in training of 256 x 1,024 x 14 x 14, float32; NVIDIA H200, commit 52457ee46004,
2026-11-23

                         GB/s     of a copy
    plain                24.9          0.01
    split_channels      3,663          0.87

(end of what was measured)
"""

import functools
import itertools
import math

import numpy as np

from ...core.dispatch.arguments import Constant, Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import bounded
from ..compiler.lazy_numba import cuda
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.row_layout import fitting
from ..lib.vector_io import RUN, fetcher, reader, writer
from ..lib.widths import wide
from .batch_norm_welford import (
    ALONE,
    HELD,
    LONG,
    NEIGHBOURS,
    Geometry,
    chan,
    geometry,
    present,
    running_average,
    typical,
)
from .problem import BatchForward

# elements, at most, for which one launch beats three (of 4,096 three took 10 us, one 16)
MERGERS = 64


@functools.cache
def plain_moments(dtype):
    """One thread per channel; x: (N, C, S); parts: (4, 1, C)."""
    load, _, T = codec(dtype)
    pivot = typical(dtype)

    @cuda.jit
    def batch_plain_moments(x, parts):
        c = cuda.grid(1)
        samples, channels, run = x.shape
        if c < channels:
            origin = pivot(x[0, c, 0], x[samples // 2, c, run // 2], x[samples - 1, c, run - 1])
            size = samples * run
            total = T(0)
            for start in range(0, size, RUN):
                part = T(0)
                for i in range(start, min(start + RUN, size)):
                    part += load(x[i // run, c, i % run]) - origin
                total += part
            mean = total / T(size)
            total = T(0)
            for start in range(0, size, RUN):
                part = T(0)
                for i in range(start, min(start + RUN, size)):
                    d = load(x[i // run, c, i % run]) - origin - mean
                    part += d * d
                total += part
            parts[0, 0, c] = T(size)
            parts[1, 0, c] = mean
            parts[2, 0, c] = total
            parts[3, 0, c] = origin

    return batch_plain_moments


@functools.cache
def columns_moments(dtype, threads, rows, width):
    """Threads own `width` neighbouring channels and walk down N; x: (N * C,); parts: (4, splits,
    C).

    Block (threads, rows): `rows` threads share a channel. Grid: (channels, splits). A thread takes
    LONG rounds of loads at a time and adds up distances to the mean it has so far, and their
    squares: three operations per element. What cancels in the sum of squares is then as small as
    the mean still moves. The first time it takes one round, to have a mean at all.
    """
    _, _, T = codec(dtype)
    read, pivot = reader(dtype, width), typical(dtype)
    merged = chan(T)
    elements = fitting(2 * HELD, dtype)
    depth = elements // width

    @bounded(threads * rows)
    def batch_columns_moments(x, parts, n, channels):
        counts = cuda.shared.array((rows, threads), T)
        means = cuda.shared.array((width, rows, threads), T)
        squares = cuda.shared.array((width, rows, threads), T)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        c = (cuda.blockIdx.x * threads + tx) * width
        v = cuda.local.array(elements, T)
        mean = cuda.local.array(width, T)
        m2 = cuda.local.array(width, T)
        total = cuda.local.array(width, T)
        square = cuda.local.array(width, T)
        origin = cuda.local.array(width, T)
        count = T(0)
        for j in range(width):
            mean[j] = T(0)
            m2[j] = T(0)
            if c < channels:
                origin[j] = pivot(
                    x[c + j], x[n // 2 * channels + c + j], x[(n - 1) * channels + c + j]
                )
        step = cuda.gridDim.y * rows
        first = cuda.blockIdx.y * rows + ty
        end = first + depth * step
        while c < channels and first < n:
            begin = first
            for j in range(width):
                total[j] = T(0)
                square[j] = T(0)
            stop = min(end, n)
            while first < stop:
                for k in range(depth):
                    at = min(first + k * step, n - 1) * channels + c
                    read(x, at, v, k * width)
                for k in range(depth):
                    if first + k * step < n:
                        for j in range(width):
                            d = v[k * width + j] - origin[j] - mean[j]
                            total[j] += d
                            square[j] += d * d
                first += depth * step
            end = first + LONG * depth * step
            here = T((min(first, n) - begin + step - 1) // step)
            together = count + here
            share = here / together
            for j in range(width):
                delta = total[j] / here
                m2[j] += max(square[j] - total[j] * delta, T(0)) + delta * delta * count * share
                mean[j] += delta * share
            count = together
        counts[ty, tx] = count
        for j in range(width):
            means[j, ty, tx] = mean[j]
            squares[j, ty, tx] = m2[j]
        half = rows // 2
        while half > 0:
            cuda.syncthreads()
            if ty < half:
                mine, other = counts[ty, tx], counts[ty + half, tx]
                for j in range(width):
                    count, means[j, ty, tx], squares[j, ty, tx] = merged(
                        mine,
                        means[j, ty, tx],
                        squares[j, ty, tx],
                        other,
                        means[j, ty + half, tx],
                        squares[j, ty + half, tx],
                    )
                counts[ty, tx] = mine + other
            half //= 2
        if ty == 0 and c < channels:
            for j in range(width):
                parts[0, cuda.blockIdx.y, c + j] = counts[0, tx]
                parts[1, cuda.blockIdx.y, c + j] = means[j, 0, tx]
                parts[2, cuda.blockIdx.y, c + j] = squares[j, 0, tx]
                parts[3, cuda.blockIdx.y, c + j] = origin[j]

    return batch_columns_moments


@functools.cache
def finish(param):
    """One thread per channel merges the parts; parts: (4, splits, C); everything else: (C,)."""
    T = codec(param)[2]
    merged, mixed = chan(T), running_average(param)

    @cuda.jit
    def batch_finish(
        parts, running_mean, running_var, mean, rstd, new_mean, new_var, momentum, eps
    ):
        c = cuda.grid(1)
        if c < parts.shape[2]:
            count = parts[0, 0, c]
            middle = parts[1, 0, c]
            m2 = parts[2, 0, c]
            for split in range(1, parts.shape[1]):
                count, middle, m2 = merged(
                    count, middle, m2, parts[0, split, c], parts[1, split, c], parts[2, split, c]
                )
            middle += parts[3, 0, c]
            mean[c] = middle
            rstd[c] = T(1) / math.sqrt(m2 / count + eps)
            new_mean[c] = mixed(running_mean, c, middle, momentum)
            new_var[c] = mixed(running_var, c, m2 / (count - T(1)), momentum)

    return batch_finish


@functools.cache
def finish_many(param):
    """`finish` for many parts: MERGERS threads per channel merge every MERGERS-th part, then meet
    in a tree.

    Block (NEIGHBOURS, MERGERS): the parts of neighbouring channels are read together.
    """
    T = codec(param)[2]
    merged, mixed = chan(T), running_average(param)

    @bounded(NEIGHBOURS * MERGERS)
    def batch_finish_many(
        parts, running_mean, running_var, mean, rstd, new_mean, new_var, momentum, eps
    ):
        counts = cuda.shared.array((MERGERS, NEIGHBOURS), T)
        means = cuda.shared.array((MERGERS, NEIGHBOURS), T)
        squares = cuda.shared.array((MERGERS, NEIGHBOURS), T)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        c = cuda.blockIdx.x * NEIGHBOURS + tx
        count, middle, m2 = T(0), T(0), T(0)
        if c < parts.shape[2]:
            for split in range(ty, parts.shape[1], MERGERS):
                count, middle, m2 = merged(
                    count, middle, m2, parts[0, split, c], parts[1, split, c], parts[2, split, c]
                )
        counts[ty, tx] = count
        means[ty, tx] = middle
        squares[ty, tx] = m2
        half = MERGERS // 2
        while half > 0:
            cuda.syncthreads()
            if ty < half:
                u = ty + half
                count, middle, m2 = merged(
                    count, middle, m2, counts[u, tx], means[u, tx], squares[u, tx]
                )
                counts[ty, tx] = count
                means[ty, tx] = middle
                squares[ty, tx] = m2
            half //= 2
        if ty == 0 and c < parts.shape[2]:
            middle += parts[3, 0, c]
            mean[c] = middle
            rstd[c] = T(1) / math.sqrt(m2 / count + eps)
            new_mean[c] = mixed(running_mean, c, middle, momentum)
            new_var[c] = mixed(running_var, c, m2 / (count - T(1)), momentum)

    return batch_finish_many


@functools.cache
def apply_columns(dtype, param, stat, inference, add, relu, threads, rows, width):
    """y, for S = 1; x, more, y: (N * C,); weight, bias, mean, scale: (C,); block (threads, rows),
    grid (channels, splits)."""
    _, _, T = codec(dtype)
    read, write = reader(dtype, width), writer(dtype, width)
    load_param, load_stat = codec(param)[0], codec(stat)[0]
    depth = HELD // width

    @bounded(threads * rows)
    def batch_apply_columns(x, more, mean, scale, weight, bias, y, n, channels, eps):
        c = (cuda.blockIdx.x * threads + cuda.threadIdx.x) * width
        v = cuda.local.array(HELD, T)
        r = cuda.local.array(HELD, T)
        factor = cuda.local.array(width, T)
        middle = cuda.local.array(width, T)
        shift = cuda.local.array(width, T)
        step = cuda.gridDim.y * rows
        if c < channels:
            for j in range(width):
                spread_ = load_stat(scale[c + j])
                rstd = T(1) / math.sqrt(spread_ + eps) if inference else spread_
                factor[j] = rstd * load_param(weight[c + j])
                middle[j] = load_stat(mean[c + j])
                shift[j] = load_param(bias[c + j])
            for first in range(cuda.blockIdx.y * rows + cuda.threadIdx.y, n, depth * step):
                for k in range(depth):
                    at = min(first + k * step, n - 1) * channels + c
                    read(x, at, v, k * width)
                    if add:
                        read(more, at, r, k * width)
                for k in range(depth):
                    if first + k * step < n:
                        for j in range(width):
                            e = k * width + j
                            v[e] = (v[e] - middle[j]) * factor[j] + shift[j]
                            if add:
                                v[e] += r[e]
                            if relu:
                                v[e] = T(0) if v[e] < T(0) else v[e]
                        write(y, (first + k * step) * channels + c, v, k * width)

    return batch_apply_columns


# Planners.


def packed(array, x: Layout, width: int):
    """An array like x, as the accesses that `vector_io.fetcher` takes."""
    _, _, words, kind = fetcher(x.dtype, width)
    return array.view((x.size * words // width,), dtype=kind)


def split_moments(p: BatchForward) -> tuple[Launch, Layout]:
    """Step (a) by several blocks per channel: the launch, which fills Temp(0), and the layout of
    that."""
    x, geo = p.x, p.geometry
    splits = geo.parts()
    parts = x.like((4, splits, geo.channels), wide(x.dtype))
    flat = Input(0).view((x.size,))
    if geo.segments:
        from . import batch_norm_nchw as segments

        return Launch(
            segments.moments(x.dtype, *geo.block, geo.width),
            (geo.channels, splits),
            geo.block,
            [
                *(packed(Input(0), x, geo.width), flat, Temp(0)),
                *(geo.n * geo.chunks, geo.chunks, geo.channels, geo.run),
            ],
        ), parts
    return Launch(
        columns_moments(x.dtype, *geo.block, geo.width),
        (geo.side, splits),
        geo.block,
        [flat, Temp(0), geo.n, geo.channels],
    ), parts


def apply(
    x: Layout,
    param,
    stat,
    inference: bool,
    add: bool,
    relu: bool,
    geo: Geometry,
    arrays,
    eps: float,
) -> Launch:
    """Step (c); arrays: x, what is added, mean, scale, weight, bias, y."""
    options = x.dtype, param, stat, inference, add, relu, *geo.block, geo.width
    if geo.segments:
        from . import batch_norm_nchw as segments

        kernel, read = (
            segments.apply(*options, geo.transposed),
            [packed(array, x, geo.width) for array in arrays[:2]],
        )
        sizes = [geo.n * geo.channels, geo.channels, geo.run]
    else:
        kernel, read = apply_columns(*options), [array.view((x.size,)) for array in arrays[:2]]
        sizes = [geo.n, geo.channels]
    return Launch(
        kernel,
        geo.whole(),
        geo.block,
        [*read, *arrays[2:6], arrays[6].view((x.size,)), *sizes, wide(x.dtype).type(eps)],
    )


def merging(alone, many, param, parts: Layout, arguments: list) -> Launch:
    """Step (b): one thread per channel, or several where there are many parts (..., splits, C)."""
    splits, channels = parts.shape[1:]
    if splits <= ALONE:
        return Launch(alone(param), blocks(channels, 128), 128, arguments)
    return Launch(many(param), blocks(channels, NEIGHBOURS), (NEIGHBOURS, MERGERS), arguments)


def plan_plain(p: BatchForward) -> Plan:
    """The plan of a thread per channel for step (a)."""
    geo = p.geometry
    view = Input(0).view((geo.n, geo.channels, geo.run))
    first = Launch(plain_moments(p.x.dtype), blocks(geo.channels, 128), 128, [view, Temp(0)])
    return three_steps(p, first, p.x.like((4, 1, geo.channels), wide(p.x.dtype)))


def plan_split_channels(p: BatchForward) -> Plan:
    """The plan of several blocks per channel for step (a)."""
    return three_steps(p, *split_moments(p))


def three_steps(p: BatchForward, first: Launch, parts: Layout) -> Plan:
    """The plan of step (a), which leaves `parts` in Temp(0), and of the steps behind it."""
    param, T = p.weight.dtype, wide(p.x.dtype)
    more = Input(5) if p.add else Input(0)
    second = merging(
        finish,
        finish_many,
        param,
        parts,
        [Temp(0), Input(3), Input(4), *map(Output, range(1, 5)), T.type(p.momentum), T.type(p.eps)],
    )
    arrays = [Input(0), more, Output(1), Output(2), Input(1), Input(2), Output(0)]
    third = apply(p.x, param, T, False, p.add, p.relu, p.geometry, arrays, p.eps)
    return Plan(p.outputs, [first, second, third], [parts])


def inference(
    x: Layout,
    running_mean: Layout,
    running_var: Layout,
    weight: Layout | None,
    bias: Layout | None,
    residual: Layout | None = None,
    *,
    eps: float,
    relu: bool,
) -> Plan:
    """x, residual: (N, C, ...), others (C,) -> y like x. Without weight and bias: 1 and 0."""
    out = Layout.of(x.shape, x.strides, x.dtype, x.device)
    if x.size == 0:
        return Plan([out], [])
    param = (weight or bias or running_mean).dtype
    number = itertools.count()  # inputs that are missing have none
    image, mean, var, *scaling, more = [
        None if each is None else Input(next(number))
        for each in (x, running_mean, running_var, weight, bias, residual)
    ]
    weight_and_bias = [
        Constant(np.full(x.shape[1], value, param)) if each is None else each
        for each, value in zip(scaling, (1, 0), strict=True)
    ]
    arrays = [image, more or image, mean, var, *weight_and_bias, Output(0)]
    geo = geometry(x, *present(residual))
    return Plan(
        [out],
        [apply(x, param, running_mean.dtype, True, residual is not None, relu, geo, arrays, eps)],
    )
