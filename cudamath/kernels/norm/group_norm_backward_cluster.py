"""The gradient of group norm where a block, or a cluster of blocks, holds a group in registers: g
and x are read once.

(group_norm_backward.py has the formulas.) The sums of g and of g d are asked for twice: for each
channel, and for the group. So threads are dealt out to channels: `lanes` threads have a channel, or
a piece of one, so many accesses each that their registers hold. Four channels of twelve accesses,
by four threads with three accesses each:

    channel   0             1             2             3
    access    0 1 2 3 ..    0 1 2 3 ..    0 1 2 3 ..    0 1 2 3 ..
    thread    0 1 2 3 0 ..  4 5 6 7 4 ..  8 9 ..

Shuffles among these threads give the piece's two sums, which go to memory for dweight and dbias.
Times the channel's weight, they are added up over the block, and those of the blocks over the
cluster (SM 9.0 and later). Then every thread writes dx from what it still holds: 16-bit numbers
stay packed, two to a register.
"""

import functools

from ...core.dispatch.arguments import Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.decorators import bounded
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..lib.block_reduce import group_sum, group_sums
from ..lib.cluster_exchange import table
from ..lib.codec import codec
from ..lib.vector_io import fetcher, writer
from ..ptx.sm90 import cluster_rank
from .group_norm_backward import finished
from .group_norm_parts import pieces_of, spread
from .problem import GroupBackward

i32, i64 = types.int32, types.int64


@functools.cache
def rows(dtype, param, width, lanes, vectors, threads, ranks, weighted):
    """`ranks` blocks per group; g, x: accesses (see rows.fetcher); dx: (N * C * run,); sums: (2 * N
    * pieces * C,).

    weight: (C,); mean, rstd: (N * groups,); most: pieces of a block; accesses: of a channel; part:
    of a piece.
    """
    _, _, T = codec(dtype)
    fetch, widen, words, kind = fetcher(dtype, width)
    raw, write, load_param = numba_type(kind), writer(dtype, width), codec(param)[0]
    piece_sum, sums_of, everybody = group_sum(lanes, T), group_sums(threads, T), group_sum(ranks, T)
    meet, tell = table(ranks)
    halvings, packed = ranks.bit_length() - 1, vectors * words

    @bounded((threads, max(1024 // threads, 1)))
    def norm_group_shared(
        g, x, weight, mean, rstd, dx, sums, groups, share, pieces, most, accesses, part, columns
    ):
        tx = i32(cuda.threadIdx.x)
        rank = i32(0)
        if ranks > 1:
            rank = cluster_rank()
            pairs = meet()
        row = cuda.blockIdx.x >> halvings
        lane = i32(tx & lanes - 1)
        mine = i32(tx // lanes)
        unit = i32(rank * i32(most) + mine)
        channel = i32(types.uint32(unit) // types.uint32(pieces))
        begin = i32((unit - channel * i32(pieces)) * i32(part))
        inside = mine < most and channel < share
        count = i32(min(i32(part), i32(accesses) - begin)) if inside else i32(0)
        at = (row * share + channel) * accesses + begin + lane
        r_g = cuda.local.array(packed, raw)
        r_x = cuda.local.array(packed, raw)
        a = cuda.local.array(width, T)
        v = cuda.local.array(width, T)
        for e in range(packed):
            r_g[e] = raw(0)
            r_x[e] = raw(0)
        for k in range(vectors):
            if i32(k * lanes + lane) < count:
                fetch(g, at + k * lanes, r_g, k * words)
                fetch(x, at + k * lanes, r_x, k * words)
        scale = rstd[row]
        middle = mean[row]
        sample = i64(types.uint32(row) // types.uint32(groups))
        first = (row - sample * groups) * share  # the group's first channel
        w = T(1)
        if weighted and inside:
            w = T(load_param(weight[first + channel]))
        sum_g = T(0)
        sum_gx = T(0)
        for k in range(vectors):  # where nothing was read g = 0, and x does not matter
            widen(r_g, k * words, a, 0)
            widen(r_x, k * words, v, 0)
            for j in range(width):
                sum_g += a[j]
                sum_gx += a[j] * (v[j] - middle)
        sum_g = piece_sum(sum_g)
        sum_gx = piece_sum(sum_gx) * scale
        if inside and lane == 0:
            place = (
                (sample * pieces + (unit - channel * pieces)) * (groups * share) + first + channel
            )
            sums[place] = sum_gx
            sums[sums.size // 2 + place] = sum_g
        alone = inside and lane == 0
        sum_g, sum_gx = sums_of(w * sum_g if alone else T(0), w * sum_gx if alone else T(0), 0)
        if ranks > 1:
            sum_g, sum_gx = tell(pairs, sum_g, sum_gx)
            sum_g = everybody(sum_g)
            sum_gx = everybody(sum_gx)
        mean_g = sum_g / T(columns) * scale
        mean_gx = sum_gx / T(columns) * scale * scale
        factor = w * scale
        for k in range(vectors):
            if i32(k * lanes + lane) < count:
                widen(r_g, k * words, a, 0)
                widen(r_x, k * words, v, 0)
                for j in range(width):
                    a[j] = a[j] * factor - mean_g - (v[j] - middle) * mean_gx
                write(dx, (at + k * lanes) * width, a, 0)

    return norm_group_shared


def plan(p: GroupBackward) -> Plan:
    """The plan of groups in the registers of a block, or of a cluster of blocks."""
    x, (groups, share, run) = p.x, p.channels
    g, data, w, m, s = p.inputs
    pieces, part, lanes, vectors = pieces_of(x.dtype, p.width, run)
    ranks, threads, most = spread(x, p.width, p.channels)
    _, _, words, kind = fetcher(x.dtype, p.width)
    packed = [a.view((x.size * words // p.width,), dtype=kind) for a in (g, data)]
    kernel = rows(x.dtype, p.param.dtype, p.width, lanes, vectors, threads, ranks, p.weighted)
    numbers = [groups, share, pieces, most, run // p.width, part, p.columns]
    step = Launch(
        kernel,
        p.rows * ranks,
        threads,
        [*packed, w, m, s, Output(0).flat, Temp(0).flat, *numbers],
        cluster=ranks,
    )
    return finished(p, [step], pieces)
