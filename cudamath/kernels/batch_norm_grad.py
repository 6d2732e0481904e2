"""The gradient of batch norm (batch_norm.py explains the picture, the geometry and the merging).

    dbias = sum g,   dweight = rstd * sum g d,   d = x - mean
    dx    = weight * rstd * (g - sum(g) / m - d * rstd^2 * sum(g d) / m),   m elements a channel

The floor: the sums need all of g and x before the first dx, so both are read twice and dx is written (5 x size bytes).

Steps: (a) parts of each channel -> (sum g, sum g d); (b) the parts of a channel added, in order; (c) dx.
Versions of (a): `plain_sums` one thread a channel (any GPU, and the simulator); `segments_sums` and `columns_sums`
as their counterparts forward.
"""

import functools

from numba import cuda

from ..core.layout import Layout
from ..core.plan import Input, Launch, Output, Plan, Temp
from .batch_norm import HELD, WARPS, geometry, merging
from .build import blocks, codec
from .rows import RUN, WARP, bounded, group_sum, reader, wide, writer


@functools.cache
def plain_sums(dtype):
    """One thread a channel; g, x: (N, C, S); mean: (C,); parts: (2, 1, C)."""
    load, _, T = codec(dtype)

    @cuda.jit
    def batch_plain_sums(g, x, mean, parts):
        c = cuda.grid(1)
        if c < x.shape[1]:
            sum_g = T(0)
            sum_gd = T(0)
            run = x.shape[2]
            size = x.shape[0] * run
            for start in range(0, size, RUN):
                part_g = T(0)
                part_gd = T(0)
                for i in range(start, min(start + RUN, size)):
                    a = load(g[i // run, c, i % run])
                    part_g += a
                    part_gd += a * (load(x[i // run, c, i % run]) - mean[c])
                sum_g += part_g
                sum_gd += part_gd
            parts[0, 0, c] = sum_g
            parts[1, 0, c] = sum_gd

    return batch_plain_sums


@functools.cache
def segments_sums(dtype, threads, rows, width):
    """As segments_moments; g, x: (N * C * S,); mean: (C,); parts: (2, splits, C)."""
    _, _, T = codec(dtype)
    read = reader(dtype, width)
    vectors = HELD // width
    chunk = threads * HELD
    size = threads * rows

    @bounded(threads * rows)
    def batch_segments_sums(g, x, mean, parts, items, chunks, channels, run):
        sums_g = cuda.shared.array(size, T)
        sums_gd = cuda.shared.array(size, T)
        c = cuda.blockIdx.x
        middle = mean[c]
        a = cuda.local.array(HELD, T)
        v = cuda.local.array(HELD, T)
        sum_g = T(0)
        sum_gd = T(0)
        for item in range(cuda.blockIdx.y * rows + cuda.threadIdx.y, items, cuda.gridDim.y * rows):
            start = (item // chunks * channels + c) * run
            first = item % chunks * chunk + cuda.threadIdx.x * width
            for k in range(vectors):
                if first + k * threads * width < run:
                    read(g, start + first + k * threads * width, a, k * width)
                    read(x, start + first + k * threads * width, v, k * width)
            for k in range(vectors):
                if first + k * threads * width < run:
                    for e in range(k * width, (k + 1) * width):
                        sum_g += a[e]
                        sum_gd += a[e] * (v[e] - middle)
        t = cuda.threadIdx.y * threads + cuda.threadIdx.x
        sums_g[t] = sum_g
        sums_gd[t] = sum_gd
        half = size // 2
        while half > 0:
            cuda.syncthreads()
            if t < half:
                sums_g[t] += sums_g[t + half]
                sums_gd[t] += sums_gd[t + half]
            half //= 2
        if t == 0:
            parts[0, cuda.blockIdx.y, c] = sums_g[0]
            parts[1, cuda.blockIdx.y, c] = sums_gd[0]

    return batch_segments_sums


@functools.cache
def columns_sums(dtype, threads, rows, width):
    """As columns_moments; g, x: (N * C,); mean: (C,); parts: (2, splits, C)."""
    _, _, T = codec(dtype)
    read = reader(dtype, width)
    depth = HELD // width

    @bounded(threads * rows)
    def batch_columns_sums(g, x, mean, parts, n, channels):
        sums_g = cuda.shared.array((rows, threads), T)
        sums_gd = cuda.shared.array((rows, threads), T)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        c = (cuda.blockIdx.x * threads + tx) * width
        a = cuda.local.array(HELD, T)
        v = cuda.local.array(HELD, T)
        middle = cuda.local.array(width, T)
        sum_g = cuda.local.array(width, T)
        sum_gd = cuda.local.array(width, T)
        for j in range(width):
            sum_g[j] = T(0)
            sum_gd[j] = T(0)
        step = cuda.gridDim.y * rows
        if c < channels:
            for j in range(width):
                middle[j] = mean[c + j]
            for first in range(cuda.blockIdx.y * rows + ty, n, depth * step):
                for k in range(depth):
                    if first + k * step < n:
                        read(g, (first + k * step) * channels + c, a, k * width)
                        read(x, (first + k * step) * channels + c, v, k * width)
                for k in range(depth):
                    if first + k * step < n:
                        for j in range(width):
                            sum_g[j] += a[k * width + j]
                            sum_gd[j] += a[k * width + j] * (v[k * width + j] - middle[j])
        for j in range(width):
            sums_g[ty, tx] = sum_g[j]
            sums_gd[ty, tx] = sum_gd[j]
            cuda.syncthreads()
            if ty == 0 and c < channels:
                total_g = sum_g[j]
                total_gd = sum_gd[j]
                for r in range(1, rows):
                    total_g += sums_g[r, tx]
                    total_gd += sums_gd[r, tx]
                parts[0, cuda.blockIdx.y, c + j] = total_g
                parts[1, cuda.blockIdx.y, c + j] = total_gd
            cuda.syncthreads()

    return batch_columns_sums


@functools.cache
def finish_grad(param):
    """A thread a channel adds the parts; parts: (2, splits, C); means: (2, C), the two constants of dx; others (C,)."""
    _, store, T = codec(param)

    @cuda.jit
    def batch_finish_grad(parts, rstd, dweight, dbias, means, count):
        c = cuda.grid(1)
        if c < parts.shape[2]:
            sum_g = T(0)
            sum_gd = T(0)
            for split in range(parts.shape[1]):
                sum_g += parts[0, split, c]
                sum_gd += parts[1, split, c]
            dweight[c] = store(sum_gd * rstd[c])
            dbias[c] = store(sum_g)
            means[0, c] = sum_g / T(count)
            means[1, c] = sum_gd / T(count) * rstd[c] * rstd[c]

    return batch_finish_grad


@functools.cache
def finish_grad_warps(param):
    """`finish_grad` by a warp a channel, for many parts; block (32, WARPS)."""
    _, store, T = codec(param)
    total_of = group_sum(WARP, T)

    @bounded(WARP * WARPS)
    def batch_finish_grad_warps(parts, rstd, dweight, dbias, means, count):
        c = cuda.blockIdx.x * WARPS + cuda.threadIdx.y
        if c < parts.shape[2]:  # the same for all lanes of a warp
            sum_g = T(0)
            sum_gd = T(0)
            for split in range(cuda.threadIdx.x, parts.shape[1], WARP):
                sum_g += parts[0, split, c]
                sum_gd += parts[1, split, c]
            sum_g = total_of(sum_g)
            sum_gd = total_of(sum_gd)
            if cuda.threadIdx.x == 0:
                dweight[c] = store(sum_gd * rstd[c])
                dbias[c] = store(sum_g)
                means[0, c] = sum_g / T(count)
                means[1, c] = sum_gd / T(count) * rstd[c] * rstd[c]

    return batch_finish_grad_warps


@functools.cache
def slope_segments(dtype, param, threads, rows, width):
    """dx, for S > 1; g, x, dx: (N * C * S,); weight, mean, rstd: (C,); means: (2, C); launched as apply_segments."""
    _, _, T = codec(dtype)
    read, write = reader(dtype, width), writer(dtype, width)
    load_param = codec(param)[0]
    vectors = HELD // width

    @bounded(threads * rows)
    def batch_slope_segments(g, x, weight, mean, rstd, means, dx, runs, channels, run):
        line = cuda.blockIdx.x * rows + cuda.threadIdx.y
        first = cuda.blockIdx.y * (threads * HELD) + cuda.threadIdx.x * width
        a = cuda.local.array(HELD, T)
        v = cuda.local.array(HELD, T)
        if line < runs:
            c = line % channels
            start = line * run
            for k in range(vectors):
                if first + k * threads * width < run:
                    read(g, start + first + k * threads * width, a, k * width)
                    read(x, start + first + k * threads * width, v, k * width)
            factor = load_param(weight[c]) * rstd[c]
            middle = mean[c]
            mean_g = means[0, c]
            mean_gd = means[1, c]
            for k in range(vectors):
                if first + k * threads * width < run:
                    for e in range(k * width, (k + 1) * width):
                        a[e] = factor * (a[e] - mean_g - (v[e] - middle) * mean_gd)
                    write(dx, start + first + k * threads * width, a, k * width)

    return batch_slope_segments


@functools.cache
def slope_columns(dtype, param, threads, rows, width):
    """dx, for S = 1; g, x, dx: (N * C,); weight, mean, rstd: (C,); means: (2, C); launched as apply_columns."""
    _, _, T = codec(dtype)
    read, write = reader(dtype, width), writer(dtype, width)
    load_param = codec(param)[0]
    depth = HELD // width

    @bounded(threads * rows)
    def batch_slope_columns(g, x, weight, mean, rstd, means, dx, n, channels):
        c = (cuda.blockIdx.x * threads + cuda.threadIdx.x) * width
        a = cuda.local.array(HELD, T)
        v = cuda.local.array(HELD, T)
        factor = cuda.local.array(width, T)
        middle = cuda.local.array(width, T)
        mean_g = cuda.local.array(width, T)
        mean_gd = cuda.local.array(width, T)
        step = cuda.gridDim.y * rows
        if c < channels:
            for j in range(width):
                factor[j] = load_param(weight[c + j]) * rstd[c + j]
                middle[j] = mean[c + j]
                mean_g[j] = means[0, c + j]
                mean_gd[j] = means[1, c + j]
            for first in range(cuda.blockIdx.y * rows + cuda.threadIdx.y, n, depth * step):
                for k in range(depth):
                    if first + k * step < n:
                        read(g, (first + k * step) * channels + c, a, k * width)
                        read(x, (first + k * step) * channels + c, v, k * width)
                for k in range(depth):
                    if first + k * step < n:
                        for j in range(width):
                            e = k * width + j
                            a[e] = factor[j] * (a[e] - mean_g[j] - (v[e] - middle[j]) * mean_gd[j])
                        write(dx, (first + k * step) * channels + c, a, k * width)

    return batch_slope_columns


# Planners.


def gradient(version: str, g: Layout, x: Layout, weight: Layout) -> Plan:
    """The plan of one version of step (a) by name, "plain" or "fast"; inputs g, x, weight, mean, rstd."""
    T = wide(x.dtype)
    outputs = [Layout.of(x.shape, x.strides, x.dtype, x.device), weight.like(), weight.like()]
    geo = geometry(x, g)
    size, channels = (x.size,), geo.channels
    flat = [Input(0).view(size), Input(1).view(size)]
    if version == "plain" or x.size == 0:  # without elements, `plain_sums` and step (b) write zeros
        splits = 1
        views = [Input(i).view((geo.n, channels, geo.run)) for i in (0, 1)]
        first = Launch(plain_sums(x.dtype), blocks(channels, 128), 128, [*views, Input(3), Temp(0)])
    else:
        splits = geo.parts()
        if geo.segments:
            first = Launch(segments_sums(x.dtype, *geo.block, geo.width), (channels, splits), geo.block,
                           [*flat, Input(3), Temp(0), geo.n * geo.chunks, geo.chunks, channels, geo.run])
        else:
            first = Launch(columns_sums(x.dtype, *geo.block, geo.width), (geo.side, splits), geo.block,
                           [*flat, Input(3), Temp(0), geo.n, channels])
    parts = x.like((2, splits, channels), T)
    second = merging(finish_grad, finish_grad_warps, weight.dtype, parts,
                     [Temp(0), Input(4), Output(1), Output(2), Temp(1), max(geo.n * geo.run, 1)])
    slope = slope_segments if geo.segments else slope_columns
    sizes = [geo.n * channels, channels, geo.run] if geo.segments else [geo.n, channels]
    third = Launch(slope(x.dtype, weight.dtype, *geo.block, geo.width), geo.whole(), geo.block,
                   [*flat, Input(2), Input(3), Input(4), Temp(1), Output(0).view(size), *sizes])
    return Plan(outputs, [first, second, third], [parts, x.like((2, channels), T)])


def batch_norm_grad(g: Layout, x: Layout, weight: Layout, mean: Layout, rstd: Layout) -> Plan:
    """g, x: (N, C, ...); weight, mean, rstd: (C,) -> dx, dweight, dbias."""
    return gradient("fast", g, x, weight)
