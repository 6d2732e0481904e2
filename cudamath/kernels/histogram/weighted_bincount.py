"""Sums of weights in bins, the same bits on every run: bincount and histograms with weights.

The idea. Atomic additions of floats would add in an order that changes from run to run. Here each
warp has a table of sums of its own in shared memory and walks its share of the numbers 32 at a
time, so nobody else writes there. Lanes that met the same bin take turns, the lowest first:
`match_any` tells each lane its peers, and its turn is the number of peers below it. With many bins
nearly all lanes have the first turn. Then the block adds the tables of its warps
(``sum_in_tables``), and ``join_tables`` those of the blocks, both in a fixed order that depends on
nothing but the number of elements.

More bins than a warp's table holds are sorted and summed instead (`gather_grad` of
index/dispatch.py). The floor is one read of numbers and weights. The worst case, all in one bin,
takes 32 turns each time. On one H200 2^24 float32 weights in 1,000 bins, with the search for the
largest number, take 208 us; by the sort they took 1,578, by CuPy's atomics, in any order, 1,170.
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import compute_dtype
from ...core.layout import Layout
from ..compiler.decorators import FULL
from ..compiler.lazy_numba import cuda, types
from ..copy.contiguous import dense
from ..index.dispatch import gather_grad
from ..lib.codec import codec
from ..lib.integers import blocks
from .problem import SumProblem

WARP = 32
MOST_WARPS = 8
TABLES = 48 << 10  # bytes of shared memory for a block's tables
ITEMS = 4  # numbers a lane reads at a time
LEAST = 4 * ITEMS * WARP  # numbers of a warp, before there are more blocks
MOST_BLOCKS = 1024
GROUPS = 32  # of blocks, whose tables one warp of `join_tables` adds


@functools.cache
def sum_in_tables(source: np.dtype, dtype: np.dtype, warps: int) -> Any:
    """tables[block, bin] = the sum of the weights of this block's numbers in that bin."""
    load, _, T = codec(dtype)
    number = codec(source)[0]
    size, zero = TABLES // compute_dtype(dtype).itemsize, T(0)

    @cuda.jit
    def sum_in_tables(weights, x, tables):  # weights, x: (n,); tables: (blocks, bins) of T
        own = cuda.shared.array(size, T)
        held = cuda.local.array(ITEMS, T)
        place = cuda.local.array(ITEMS, types.int32)
        t = cuda.threadIdx.x
        lane, warp = t % WARP, t // WARP
        bins = tables.shape[1]
        for i in range(t, bins * warps, warps * WARP):
            own[i] = zero
        cuda.syncthreads()
        below = types.uint32((types.uint32(1) << types.uint32(lane)) - types.uint32(1))
        table = warp * bins
        stride = types.int64(cuda.gridDim.x) * (warps * WARP * ITEMS)
        first = (types.int64(cuda.blockIdx.x) * warps + warp) * (WARP * ITEMS)
        while first < x.size:  # alike for the whole warp
            for k in range(ITEMS):
                i = first + k * WARP + lane
                inside = min(i, x.size - 1)
                bin = types.int32(number(x[inside]))
                held[k] = load(weights[inside])
                place[k] = bin if i < x.size else types.int32(-1)
            for k in range(ITEMS):
                peers = types.uint32(cuda.match_any_sync(FULL, place[k]))
                turn = (
                    types.int32(cuda.popc(types.uint32(peers & below)))
                    if place[k] >= 0
                    else types.int32(-1)
                )
                now = types.int32(0)
                more = True
                while more:
                    if turn == now:
                        own[table + place[k]] += held[k]
                    cuda.syncwarp()
                    now += types.int32(1)
                    more = cuda.any_sync(FULL, turn >= now)
            first += stride
        cuda.syncthreads()
        for i in range(t, bins, warps * WARP):
            total = own[i]
            for w in range(1, warps):
                total += own[w * bins + i]
            tables[cuda.blockIdx.x, i] = total

    return sum_in_tables


@functools.cache
def join_tables(dtype: np.dtype) -> Any:
    """out[bin] = the sum over tables[:, bin]; a block has WARP bins, and GROUPS partial sums of
    each."""
    _, store, T = codec(dtype)
    zero = T(0)

    @cuda.jit
    def join_tables(tables, out):  # tables: (blocks, bins) of T, out: (bins,)
        sums = cuda.shared.array((GROUPS, WARP), T)
        column, group = cuda.threadIdx.x, cuda.threadIdx.y
        i = cuda.blockIdx.x * WARP + column
        total = zero
        if i < out.size:
            for row in range(group, tables.shape[0], GROUPS):
                total += tables[row, i]
        sums[group, column] = total
        cuda.syncthreads()
        half = GROUPS // 2
        while half > 0:
            if group < half:
                sums[group, column] += sums[group + half, column]
            cuda.syncthreads()
            half //= 2
        if group == 0 and i < out.size:
            out[i] = store(sums[0, column])

    return join_tables


def warps_of(p: SumProblem) -> int:
    """The warps of a block, each with a table of its own; 0 where not even one table fits."""
    warps, T = MOST_WARPS, compute_dtype(p.weights.dtype)
    while warps and warps * p.bins * T.itemsize > TABLES:
        warps //= 2
    return warps


def in_tables(p: SumProblem) -> Plan | None:
    """Version "tables". None where there is nothing to add, or a table too large."""
    weights, x, bins, warps = p.weights, p.x, p.bins, warps_of(p)
    if not (warps and bins and x.size):
        return None
    T = compute_dtype(weights.dtype)
    temps: list[Layout] = []
    first, given = dense(Input(0), weights, weights.shape, weights.dtype, temps)
    second, numbers = dense(Input(1), x, x.shape, x.dtype, temps)
    count = min(blocks(x.size, warps * LEAST), MOST_BLOCKS)
    temps.append(x.like((count, bins), T))
    tables = Temp(len(temps) - 1)
    return Plan(
        [weights.like((bins,))],
        [
            *first,
            *second,
            Launch(
                sum_in_tables(x.dtype, weights.dtype, warps),
                count,
                warps * WARP,
                [given.flat, numbers.flat, tables],
            ),
            Launch(
                join_tables(weights.dtype), blocks(bins, WARP), (WARP, GROUPS), [tables, Output(0)]
            ),
        ],
        temps,
    )


def by_sort(p: SumProblem) -> Plan:
    """Version "sorted": as the gradient of a gather."""
    return gather_grad(p.weights, p.x, shape=(p.bins,), axis=0)
