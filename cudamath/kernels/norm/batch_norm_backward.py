"""The gradient of batch norm (batch_norm.py explains the picture, the geometry and the merging).

    dbias = sum g,   dweight = rstd * sum g d,   d = x - mean
    dx    = weight * rstd * (g - sum(g) / m - d * rstd^2 * sum(g d) / m),   m elements per channel

The floor: the sums need all of g and x before the first dx, so both are read twice and dx is
written (5 x size bytes).

Steps: (a) parts of each channel -> (sum g, sum g d, sum d); (b) the parts of a channel added, in
order; (c) dx.

With the exact mean sum d would be 0. The mean there is has been rounded, by up to half a unit in
its last place, which all d have in common: `drift` = sum d / m. Where g hardly changes sign, drift
* sum g is more than all other errors of sum g d, and is taken off; in (c), where d is multiplied by
the same number throughout, off the mean of g.

Where a relu followed, the g above is the gradient where its input z was positive, and 0 elsewhere.
Without a residual z is computed from x once more, in (a) and in (c): nothing else need be read.
With one, (a) reads y, which is positive where z was, and writes the masked g: that is the gradient
of the residual, and what (c) reads. The flags of the kernels: `relu`, z is computed; `with_y`, y is
read and the masked g written to `dr`; `two`, g comes as two arrays to be added, as it does where y
was used twice: by the next block and by the connection around it.

Versions of (a): `plain_sums` one thread per channel (any GPU, and the simulator); `sums` of
batch_norm_nchw.py and `columns_sums` as their counterparts forward.

Measured (row versions_batch_norm_grad):
gradient of batch norm, 256 x 1,024 x 14 x 14, float32; NVIDIA H200, commit 52457ee46004, 2026-11-23

                         GB/s     of a copy
    plain                67.7          0.02
    split_channels      4,075          0.96

(end of what was measured)
"""

import functools

from ...core.dispatch.arguments import ArrayArg, Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.decorators import bounded, device_function
from ..compiler.lazy_numba import cuda
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.vector_io import RUN, reader, writer
from ..lib.widths import wide
from . import batch_norm_nchw as segments
from .batch_norm import MERGERS, merging, packed
from .batch_norm_welford import HELD, NEIGHBOURS
from .problem import BatchBackward


@functools.cache
def plain_sums(dtype, param, relu, with_y, two):
    """One thread per channel; g, more, x, y, dr: (N, C, S); weight, bias, mean, rstd: (C,); parts:
    (3, 1, C)."""
    load, store, T = codec(dtype)
    load_param = codec(param)[0]

    @cuda.jit
    def batch_plain_sums(g, more, x, y, weight, bias, mean, rstd, dr, parts):
        c = cuda.grid(1)
        if c < x.shape[1]:
            factor = load_param(weight[c]) * rstd[c]
            shift = load_param(bias[c])
            sum_g = T(0)
            sum_gd = T(0)
            sum_d = T(0)
            run = x.shape[2]
            size = x.shape[0] * run
            for start in range(0, size, RUN):
                part_g = T(0)
                part_gd = T(0)
                part_d = T(0)
                for i in range(start, min(start + RUN, size)):
                    a = load(g[i // run, c, i % run])
                    if two:
                        a += load(more[i // run, c, i % run])
                    d = load(x[i // run, c, i % run]) - mean[c]
                    if relu:
                        a = a if d * factor + shift > T(0) else T(0)
                    if with_y:
                        a = a if load(y[i // run, c, i % run]) > T(0) else T(0)
                        dr[i // run, c, i % run] = store(a)
                    part_g += a
                    part_gd += a * d
                    part_d += d
                sum_g += part_g
                sum_gd += part_gd
                sum_d += part_d
            parts[0, 0, c] = sum_g
            parts[1, 0, c] = sum_gd
            parts[2, 0, c] = sum_d

    return batch_plain_sums


@functools.cache
def columns_sums(dtype, param, relu, with_y, two, threads, rows, width):
    """As columns_moments; g, more, x, y, dr: (N * C,); weight, bias, mean, rstd: (C,); parts: (3,
    splits, C)."""
    _, _, T = codec(dtype)
    read, write = reader(dtype, width), writer(dtype, width)
    load_param = codec(param)[0]
    depth = HELD // width

    @bounded(threads * rows)
    def batch_columns_sums(g, more, x, y, weight, bias, mean, rstd, dr, parts, n, channels):
        sums_g = cuda.shared.array((width, rows, threads), T)
        sums_gd = cuda.shared.array((width, rows, threads), T)
        sums_d = cuda.shared.array((width, rows, threads), T)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        c = (cuda.blockIdx.x * threads + tx) * width
        a = cuda.local.array(HELD, T)
        v = cuda.local.array(HELD, T)
        z = cuda.local.array(HELD, T)
        b = cuda.local.array(HELD, T)
        middle = cuda.local.array(width, T)
        factor = cuda.local.array(width, T)
        shift = cuda.local.array(width, T)
        sum_g = cuda.local.array(width, T)
        sum_gd = cuda.local.array(width, T)
        sum_d = cuda.local.array(width, T)
        for j in range(width):
            sum_g[j] = T(0)
            sum_gd[j] = T(0)
            sum_d[j] = T(0)
        step = cuda.gridDim.y * rows
        if c < channels:
            for j in range(width):
                middle[j] = mean[c + j]
                factor[j] = load_param(weight[c + j]) * rstd[c + j]
                shift[j] = load_param(bias[c + j])
            for first in range(cuda.blockIdx.y * rows + ty, n, depth * step):
                for k in range(depth):
                    at = min(first + k * step, n - 1) * channels + c
                    read(g, at, a, k * width)
                    read(x, at, v, k * width)
                    if two:
                        read(more, at, b, k * width)
                    if with_y:
                        read(y, at, z, k * width)
                for k in range(depth):
                    if first + k * step < n:
                        for j in range(width):
                            e = k * width + j
                            d = v[e] - middle[j]
                            if two:
                                a[e] += b[e]
                            if relu:
                                z[e] = d * factor[j] + shift[j]
                            if relu or with_y:
                                a[e] = a[e] if z[e] > T(0) else T(0)
                            sum_g[j] += a[e]
                            sum_gd[j] += a[e] * d
                            sum_d[j] += d
                        if with_y:
                            write(dr, (first + k * step) * channels + c, a, k * width)
        for j in range(width):
            sums_g[j, ty, tx] = sum_g[j]
            sums_gd[j, ty, tx] = sum_gd[j]
            sums_d[j, ty, tx] = sum_d[j]
        half = rows // 2
        while half > 0:
            cuda.syncthreads()
            if ty < half:
                for j in range(width):
                    sums_g[j, ty, tx] += sums_g[j, ty + half, tx]
                    sums_gd[j, ty, tx] += sums_gd[j, ty + half, tx]
                    sums_d[j, ty, tx] += sums_d[j, ty + half, tx]
            half //= 2
        if ty == 0 and c < channels:
            for j in range(width):
                parts[0, cuda.blockIdx.y, c + j] = sums_g[j, 0, tx]
                parts[1, cuda.blockIdx.y, c + j] = sums_gd[j, 0, tx]
                parts[2, cuda.blockIdx.y, c + j] = sums_d[j, 0, tx]

    return batch_columns_sums


@functools.cache
def constants_of(param):
    """Device function (channel, its three sums, rstd, four results, count): step (b) once the parts
    are added."""
    _, store, T = codec(param)

    @device_function
    def constants(c, sum_g, sum_gd, sum_d, rstd, dweight, dbias, means, count):
        drift = sum_d / T(count)
        sum_gd -= drift * sum_g
        mean_gd = sum_gd / T(count) * rstd[c] * rstd[c]
        dweight[c] = store(sum_gd * rstd[c])
        dbias[c] = store(sum_g)
        means[0, c] = sum_g / T(count) - drift * mean_gd
        means[1, c] = mean_gd

    return constants


@functools.cache
def finish_grad(param):
    """One thread per channel adds the parts; parts: (3, splits, C); means: (2, C), the two
    constants of dx; others (C,)."""
    T = codec(param)[2]
    constants = constants_of(param)

    @cuda.jit
    def batch_finish_grad(parts, rstd, dweight, dbias, means, count):
        c = cuda.grid(1)
        if c < parts.shape[2]:
            sum_g = T(0)
            sum_gd = T(0)
            sum_d = T(0)
            for split in range(parts.shape[1]):
                sum_g += parts[0, split, c]
                sum_gd += parts[1, split, c]
                sum_d += parts[2, split, c]
            constants(c, sum_g, sum_gd, sum_d, rstd, dweight, dbias, means, count)

    return batch_finish_grad


@functools.cache
def finish_grad_many(param):
    """`finish_grad` for many parts, as finish_many."""
    T = codec(param)[2]
    constants = constants_of(param)

    @bounded(NEIGHBOURS * MERGERS)
    def batch_finish_grad_many(parts, rstd, dweight, dbias, means, count):
        sums_g = cuda.shared.array((MERGERS, NEIGHBOURS), T)
        sums_gd = cuda.shared.array((MERGERS, NEIGHBOURS), T)
        sums_d = cuda.shared.array((MERGERS, NEIGHBOURS), T)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        c = cuda.blockIdx.x * NEIGHBOURS + tx
        sum_g = T(0)
        sum_gd = T(0)
        sum_d = T(0)
        if c < parts.shape[2]:
            for split in range(ty, parts.shape[1], MERGERS):
                sum_g += parts[0, split, c]
                sum_gd += parts[1, split, c]
                sum_d += parts[2, split, c]
        sums_g[ty, tx] = sum_g
        sums_gd[ty, tx] = sum_gd
        sums_d[ty, tx] = sum_d
        half = MERGERS // 2
        while half > 0:
            cuda.syncthreads()
            if ty < half:
                sums_g[ty, tx] += sums_g[ty + half, tx]
                sums_gd[ty, tx] += sums_gd[ty + half, tx]
                sums_d[ty, tx] += sums_d[ty + half, tx]
            half //= 2
        if ty == 0 and c < parts.shape[2]:
            constants(
                c, sums_g[0, tx], sums_gd[0, tx], sums_d[0, tx], rstd, dweight, dbias, means, count
            )

    return batch_finish_grad_many


@functools.cache
def slope_columns(dtype, param, relu, threads, rows, width):
    """dx, for S = 1; g, x, dx: (N * C,); weight, bias, mean, rstd: (C,); means: (2, C); launched as
    apply_columns."""
    _, _, T = codec(dtype)
    read, write = reader(dtype, width), writer(dtype, width)
    load_param = codec(param)[0]
    depth = HELD // width

    @bounded(threads * rows)
    def batch_slope_columns(g, x, weight, bias, mean, rstd, means, dx, n, channels):
        c = (cuda.blockIdx.x * threads + cuda.threadIdx.x) * width
        a = cuda.local.array(HELD, T)
        v = cuda.local.array(HELD, T)
        factor = cuda.local.array(width, T)
        shift = cuda.local.array(width, T)
        middle = cuda.local.array(width, T)
        mean_g = cuda.local.array(width, T)
        mean_gd = cuda.local.array(width, T)
        step = cuda.gridDim.y * rows
        if c < channels:
            for j in range(width):
                factor[j] = load_param(weight[c + j]) * rstd[c + j]
                shift[j] = load_param(bias[c + j])
                middle[j] = mean[c + j]
                mean_g[j] = means[0, c + j]
                mean_gd[j] = means[1, c + j]
            for first in range(cuda.blockIdx.y * rows + cuda.threadIdx.y, n, depth * step):
                for k in range(depth):
                    at = min(first + k * step, n - 1) * channels + c
                    read(g, at, a, k * width)
                    read(x, at, v, k * width)
                for k in range(depth):
                    if first + k * step < n:
                        for j in range(width):
                            e = k * width + j
                            d = v[e] - middle[j]
                            if relu:
                                a[e] = a[e] if d * factor[j] + shift[j] > T(0) else T(0)
                            a[e] = factor[j] * (a[e] - mean_g[j] - d * mean_gd[j])
                        write(dx, (first + k * step) * channels + c, a, k * width)

    return batch_slope_columns


# Planners.


def plan_plain(p: BatchBackward) -> Plan:
    """The plan of a thread per channel for step (a): without elements it and step (b) write
    zeros."""
    geo = p.geometry
    shape = geo.n, geo.channels, geo.run
    *views, target = [array.view(shape) for array in (*arrays_of(p), masked_of(p))]
    kernel = plain_sums(*flags_of(p), p.y is not None, p.more is not None)
    first = Launch(kernel, blocks(geo.channels, 128), 128, [*views, *CONSTANTS, target, Temp(0)])
    return three_steps(p, first, 1)


def plan_split_channels(p: BatchBackward) -> Plan:
    """The plan of several blocks per channel for step (a)."""
    geo, splits, size = p.geometry, p.geometry.parts(), (p.x.size,)
    if geo.segments:
        kernel, grid = segments.sums, (geo.channels, splits)
        walk = [geo.n * geo.chunks, geo.chunks, geo.channels, geo.run]
        views = [packed(array, p.x, geo.width) for array in arrays_of(p)]
    else:
        kernel, grid, walk = columns_sums, (geo.side, splits), [geo.n, geo.channels]
        views = [array.view(size) for array in arrays_of(p)]
    first = Launch(
        kernel(*flags_of(p), p.y is not None, p.more is not None, *geo.block, geo.width),
        grid,
        geo.block,
        [*views, *CONSTANTS, masked_of(p).view(size), Temp(0), *walk],
    )
    return three_steps(p, first, splits)


CONSTANTS = [Input(i) for i in (2, 3, 4, 5)]  # weight, bias, mean, rstd


def arrays_of(p: BatchBackward) -> list[ArrayArg]:
    """g, more, x, y; g in the place of one that is missing."""
    more = Input(7) if p.more is not None else Input(0)
    return [Input(0), more, Input(1), Input(6) if p.y is not None else Input(0)]


def masked_of(p: BatchBackward) -> ArrayArg:
    """The gradient of the residual, which is g where y is positive; without a residual g."""
    return Output(3) if p.y is not None else Input(0)


def flags_of(p: BatchBackward) -> tuple:
    """The dtypes, and whether z is computed from x."""
    return p.x.dtype, p.weight.dtype, p.relu and p.y is None


def three_steps(p: BatchBackward, first: Launch, splits: int) -> Plan:
    """The plan of step (a), which leaves parts in Temp(0), and of the steps behind it."""
    x, geo, size = p.x, p.geometry, (p.x.size,)
    T, channels = wide(x.dtype), geo.channels
    parts = x.like((3, splits, channels), T)
    second = merging(
        finish_grad,
        finish_grad_many,
        p.weight.dtype,
        parts,
        [Temp(0), Input(5), Output(1), Output(2), Temp(1), max(geo.n * geo.run, 1)],
    )
    if geo.segments:
        slope = segments.slope(*flags_of(p), *geo.block, geo.width, geo.transposed)
        sizes = [geo.n * channels, channels, geo.run]
        views = [packed(array, x, geo.width) for array in (masked_of(p), Input(1))]
    else:
        slope = slope_columns(*flags_of(p), *geo.block, geo.width)
        sizes = [geo.n, channels]
        views = [array.view(size) for array in (masked_of(p), Input(1))]
    arguments = [*views, *CONSTANTS, Temp(1), Output(0).view(size), *sizes]
    third = Launch(slope, geo.whole(), geo.block, arguments)
    return Plan(p.outputs, [first, second, third], [parts, x.like((2, channels), T)])
