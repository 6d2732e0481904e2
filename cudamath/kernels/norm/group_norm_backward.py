"""The gradient of group norm. (forward.py has the forward pass, and the picture of rows.)

A sample's channels c lie in groups k of `share` channels, a channel is a run of `run` elements.
With the mean and rstd of its group, d = x - mean, and a channel's two sums

    S[n, c] = sum of g,     X[n, c] = rstd * sum of g d        (over the run)

everything follows:

    dbias[c]   = sum over n of S[n, c]          mean_g[n, k]  = sum of w[c] S[n, c] / columns
    dweight[c] = sum over n of X[n, c]          mean_gx[n, k] = sum of w[c] X[n, c] / columns
    dx         = rstd (g w[c] - mean_g - d rstd mean_gx),       columns = share * run

(the sums of mean_g and mean_gx over the channels of the group).

The floor is memory: read g and x, write dx (3 x size bytes).

Versions.

1. `plain`        One thread per channel of a sample for its sums, one thread per group for dx. Any
                  GPU, and the simulator.
2. `cluster`      (group_norm_backward_cluster.py) A group in the registers of a block, or of a
                  cluster of blocks (SM 9.0 and later). Read once.
3. `long_groups`  Groups of any length, in three kernels: the sums of pieces of channels, the means
                  of groups, dx. Read twice.

Each leaves the sums of the pieces of channels, (2, samples * pieces, channels), X first. `finish`
of backward.py adds them over samples and pieces, in order.

Measured (row versions_norm_group_grad):
gradient of group norm, 32 groups, 64 x 256 x 64 x 64, float32; NVIDIA H200, commit 52457ee46004,
2026-11-23

                      GB/s     of a copy
    plain             59.6          0.01
    long_groups      2,429          0.57
    cluster          4,074          0.96

(end of what was measured)
"""

import functools

from ...core.dispatch.arguments import Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import bounded
from ..compiler.lazy_numba import cuda
from ..lib.block_reduce import group_sums
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.vector_io import RUN, reader, writer
from ..lib.widths import wide
from .backward import LANES, LAST, finish
from .group_norm_parts import PIECE, THREADS
from .problem import GroupBackward
from .row_parts import Parts


@functools.cache
def plain_sums(dtype):
    """One thread per channel of a sample; g, x: (N * C * run,); mean, rstd: (N * groups,); sums:
    (2, N, C)."""
    load, _, T = codec(dtype)

    @cuda.jit
    def group_plain_sums(g, x, mean, rstd, sums, share, run):
        i = cuda.grid(1)
        channels = sums.shape[2]
        if i < sums.shape[1] * channels:
            middle = mean[i // share]
            sum_g = T(0)
            sum_gd = T(0)
            for start in range(i * run, (i + 1) * run, RUN):
                part_g = T(0)
                part_gd = T(0)
                for e in range(start, min(start + RUN, (i + 1) * run)):
                    part_g += load(g[e])
                    part_gd += load(g[e]) * (load(x[e]) - middle)
                sum_g += part_g
                sum_gd += part_gd
            sums[0, i // channels, i % channels] = sum_gd * rstd[i // share]
            sums[1, i // channels, i % channels] = sum_g

    return group_plain_sums


@functools.cache
def plain(dtype, param, weighted):
    """One thread per group; g, x, dx: (N * C * run,); weight: (C,); mean, rstd: (N * groups,);
    sums: (2, N, C)."""
    load, store, T = codec(dtype)
    load_param = codec(param)[0]

    @cuda.jit
    def group_plain_grad(g, x, weight, mean, rstd, sums, dx, share, run):
        row = cuda.grid(1)
        if row < rstd.size:
            channels = sums.shape[2]
            middle = mean[row]
            scale = rstd[row]
            mean_g = T(0)
            mean_gx = T(0)
            for i in range(row * share, (row + 1) * share):
                w = load_param(weight[i % channels]) if weighted else T(1)
                mean_g += w * sums[1, i // channels, i % channels]
                mean_gx += w * sums[0, i // channels, i % channels]
            mean_g /= T(share * run)
            mean_gx /= T(share * run)
            for e in range(row * share * run, (row + 1) * share * run):
                w = load_param(weight[e // run % channels]) if weighted else T(1)
                dx[e] = store(
                    scale * (load(g[e]) * w - mean_g - (load(x[e]) - middle) * scale * mean_gx)
                )

    return group_plain_grad


@functools.cache
def piece_sums(dtype, width):
    """One block per piece of a channel; g, x: (N * C * run,); mean, rstd: (N * groups,); sums: (2,
    N * pieces, C)."""
    _, _, T = codec(dtype)
    read, sums_of = reader(dtype, width), group_sums(THREADS, T)

    @bounded(THREADS)
    def group_piece_sums(g, x, mean, rstd, sums, share, run, pieces):
        channels = sums.shape[2]
        i = cuda.blockIdx.x // pieces
        piece = cuda.blockIdx.x % pieces
        middle = mean[i // share]
        begin = i * run + piece * PIECE
        end = min(begin + PIECE, (i + 1) * run)
        a = cuda.local.array(width, T)
        v = cuda.local.array(width, T)
        sum_g = T(0)
        sum_gd = T(0)
        for e in range(begin + cuda.threadIdx.x * width, end, THREADS * width):
            read(g, e, a, 0)
            read(x, e, v, 0)
            for j in range(width):
                sum_g += a[j]
                sum_gd += a[j] * (v[j] - middle)
        sum_g, sum_gd = sums_of(sum_g, sum_gd, 0)
        if cuda.threadIdx.x == 0:
            place = i // channels * pieces + piece
            sums[0, place, i % channels] = sum_gd * rstd[i // share]
            sums[1, place, i % channels] = sum_g

    return group_piece_sums


@functools.cache
def means(param, T, weighted):
    """One block per group; weight: (C,); sums: (2, N * pieces, C); mean_pairs: (2, N * groups),
    mean_g and mean_gx."""
    load_param = codec(param)[0]
    sums_of = group_sums(THREADS, T)

    @bounded(THREADS)
    def group_means(weight, sums, mean_pairs, share, run, pieces):
        row = cuda.blockIdx.x
        channels = sums.shape[2]
        sum_g = T(0)
        sum_gx = T(0)
        for e in range(cuda.threadIdx.x, share * pieces, THREADS):
            i = row * share + e // pieces
            place = i // channels * pieces + e % pieces
            w = T(load_param(weight[i % channels])) if weighted else T(1)
            sum_g += w * sums[1, place, i % channels]
            sum_gx += w * sums[0, place, i % channels]
        sum_g, sum_gx = sums_of(sum_g, sum_gx, 0)
        if cuda.threadIdx.x == 0:
            mean_pairs[0, row] = sum_g / T(share * run)
            mean_pairs[1, row] = sum_gx / T(share * run)

    return group_means


@functools.cache
def long(dtype, param, width, weighted):
    """One block per piece of a channel; g, x, dx: (N * C * run,); weight: (C,); mean, rstd: (N *
    groups,); mean_pairs: (2, them)."""
    _, _, T = codec(dtype)
    read, write, load_param = reader(dtype, width), writer(dtype, width), codec(param)[0]

    @bounded(THREADS)
    def group_long_grad(g, x, weight, mean, rstd, mean_pairs, dx, channels, share, run, pieces):
        i = cuda.blockIdx.x // pieces
        row = i // share
        scale = rstd[row]
        middle = mean[row]
        mean_g = mean_pairs[0, row] * scale
        mean_gx = mean_pairs[1, row] * scale * scale
        factor = scale * load_param(weight[i % channels]) if weighted else scale
        begin = i * run + cuda.blockIdx.x % pieces * PIECE
        end = min(begin + PIECE, (i + 1) * run)
        a = cuda.local.array(width, T)
        v = cuda.local.array(width, T)
        for e in range(begin + cuda.threadIdx.x * width, end, THREADS * width):
            read(g, e, a, 0)
            read(x, e, v, 0)
            for j in range(width):
                a[j] = a[j] * factor - mean_g - (v[j] - middle) * mean_gx
            write(dx, e, a, 0)

    return group_long_grad


# Planners.


def plan_plain(p: GroupBackward) -> Plan:
    """The plan of a thread per channel of a sample for its sums, and one per group for dx."""
    g, x, w, m, s = p.inputs
    share, run, dtype = p.channels.share, p.channels.run, p.x.dtype
    sums = [g.flat, x.flat, m, s, Temp(0), share, run]
    slopes = [g.flat, x.flat, w, m, s, Temp(0), Output(0).flat, share, run]
    kernel = plain(dtype, p.param.dtype, p.weighted)
    steps = [
        Launch(plain_sums(dtype), blocks(p.x.shape[0] * p.count, 128), 128, sums),
        Launch(kernel, blocks(p.rows, 128), 128, slopes),
    ]
    return finished(p, steps, 1)


def plan_empty(p: GroupBackward) -> Plan:
    """The plan without samples: dweight and dbias are zeros."""
    return finished(p, [], 1)


def plan_long_groups(p: GroupBackward) -> Plan:
    """The plan of groups of any length: sums of pieces of channels, means of groups, dx."""
    g, x, w, m, s = p.inputs
    _, share, run = p.channels
    dtype, T = p.x.dtype, codec(p.x.dtype)[2]
    pieces = blocks(run, PIECE)
    grid, sizes = p.x.shape[0] * p.count * pieces, [share, run, pieces]
    sums = [g.flat, x.flat, m, s, Temp(0), *sizes]
    slopes = [g.flat, x.flat, w, m, s, Temp(1), Output(0).flat, p.count, *sizes]
    steps = [
        Launch(piece_sums(dtype, p.width), grid, THREADS, sums),
        Launch(means(p.param.dtype, T, p.weighted), p.rows, THREADS, [w, Temp(0), Temp(1), *sizes]),
        Launch(long(dtype, p.param.dtype, p.width, p.weighted), grid, THREADS, slopes),
    ]
    return finished(p, steps, pieces, p.x.like((2, p.rows), wide(dtype)))


def finished(p: GroupBackward, steps: list[Launch], pieces: int, *temps: Layout) -> Plan:
    """The plan of steps that leave sums of so many pieces of each channel in Temp(0), and of what
    adds these up."""
    rstd = p.inputs[4]
    if len(p.outputs) > 1:
        dweight = Output(1).flat if p.weighted else rstd
        dbias = Output(len(p.outputs) - 1).flat if p.biased else rstd
        kernel = finish(p.param.dtype, Parts(weight=p.weighted, bias=p.biased))
        grid = blocks(p.count, LANES), 2
        steps = [*steps, Launch(kernel, grid, (LANES, LAST), [Temp(0), dweight, dbias])]
    sums = p.x.like((2, p.x.shape[0] * pieces, p.count), wide(p.x.dtype))
    return Plan(p.outputs, steps, [sums, *temps], several=True)
