"""Few elements: one kernel of each reduction for all layouts, and for all dtypes that are
accumulated in one type.

As with elementwise operations (elementwise/small.py) a call takes its time on the host, and the
dtypes, the strides and the number of threads that share a result are arguments: of the kernels of
reductions that NumPy's own tests ask for, 1,854, this leaves 435.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.specs.reduction import Accumulator
from ..compiler.decorators import bounded, device_function
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..lib.accumulators import accumulator
from ..lib.integers import blocks, power_of_two
from ..ptx.coded_access import CODES, kind, loader, storer
from .block_reduce import components, lane_swap
from .problem import EACH, MOST, RANK, THREADS, Problem


@device_function
def offset(n, size, a, b):
    """The distance of element n of two dimensions from the first, in bytes; size: of the second
    dimension; a, b: bytes along them."""
    if n < size:  # as mostly: no division
        return types.int64(n) * b
    row = n // size
    return types.int64(row) * a + types.int64(n - row * size) * b


@functools.cache
def across_any(reduce: Accumulator) -> Any:
    """Device function: the accumulators of the threads of a block that have one y -> one, valid
    where x = 0. Their number is a power of two; more than a warp are a whole block."""
    combine, identity, swap = reduce.combine, reduce.identity, lane_swap(reduce)
    put, get = components(reduce)
    first, second, third = (reduce.kinds * 3)[:3]

    @device_function
    def warp(a, lanes):
        distance = lanes // 2
        while distance:
            a = combine(a, swap(a, distance))
            distance //= 2
        return a

    @device_function
    def together(a):
        shared = (
            cuda.shared.array(32, first),
            cuda.shared.array(32, second),
            cuda.shared.array(32, third),
        )
        a = warp(a, min(cuda.blockDim.x, 32))
        if cuda.blockDim.x > 32:
            if cuda.threadIdx.x & 31 == 0:
                put(shared, cuda.threadIdx.x >> 5, a)
            cuda.syncthreads()
            if cuda.threadIdx.x < 32:
                warps = cuda.blockDim.x >> 5
                a = get(shared, cuda.threadIdx.x) if cuda.threadIdx.x < warps else identity()
                a = warp(a, 32)
        return a

    return together


@functools.cache
def reduce_small(reduce: Accumulator, source: np.dtype, target: np.dtype) -> Any:
    """Blocks of (threads of a result, results). source, target: the kinds of elements and results,
    between which `reduce` is."""
    lift, identity, finish = reduce.lift, reduce.identity, reduce.finish
    follow, together = reduce.in_order.combine, across_any(reduce)
    load, store, T = loader(source), storer(target), numba_type(target)
    whole, own = target.kind in "iu", CODES[source]

    @bounded(MOST)
    def reduce_small(
        x,  # uint8: memory of any dtype
        out,
        codes,  # of x, and 16 times that of out
        kept,  # sizes of the last kept and the last reduced dimension
        reduced,
        a0,  # bytes along the kept dimensions of x,
        a1,
        b0,  # its reduced ones,
        b1,
        c0,  # and the dimensions of the results
        c1,
        results,
        count,
        divisor,
    ):
        o = types.uint32(cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y)
        inside = o < results  # threads past the end take part in the shuffles
        where = o if inside else types.uint32(0)
        base, code = offset(where, kept, a0, a1), types.int32(codes & 15)
        a = identity()
        j = types.uint32(cuda.threadIdx.x)
        last = count if inside else types.uint32(0)
        if code == own:  # two loads at a time, with no switch between them
            while j < last:
                k = types.uint32(j + cuda.blockDim.x)
                both = k < last
                first = load(x, base + offset(j, reduced, b0, b1), types.int32(own))
                second = load(x, base + offset(k if both else j, reduced, b0, b1), types.int32(own))
                a = follow(a, lift(first, j))
                if both:
                    a = follow(a, lift(second, k))
                j = types.uint32(k + cuda.blockDim.x)
        else:
            while j < last:
                a = follow(a, lift(load(x, base + offset(j, reduced, b0, b1), code), j))
                j = types.uint32(j + cuda.blockDim.x)
        a = together(a)
        if inside and cuda.threadIdx.x == 0:
            result, place = finish(a, divisor), offset(where, kept, c0, c1)
            store(out, place, types.int32(codes >> 4), T(result) if whole else result)

    return reduce_small


def plan(problem: Problem) -> Plan:
    """Planner."""
    x, out, view = problem.x, problem.out, problem.view
    source, target = kind(x.dtype), kind(out.dtype)
    reduce = accumulator(problem.reduction, source, target)
    count, results = problem.count, out.size
    threads = max(power_of_two(blocks(count, EACH)), min(power_of_two(count), 32))
    threads = min(threads, MOST)
    height = THREADS // threads if threads <= 32 else 1
    byte = np.dtype(np.uint8)
    kept, reduced = ((1,) * (RANK - len(side)) + side for side in (view.kept, view.reduced))
    strides = [
        step
        for steps in (view.kept_strides, view.reduced_strides, view.out_strides)
        for step in (0,) * (RANK - len(steps)) + steps
    ]
    launch = Launch(
        reduce_small(reduce, source, target),
        blocks(results, height),
        (threads, height),
        [
            Input(0).view((1,), dtype=byte, offset=view.offset),
            Output(0).view((1,), dtype=byte),
            np.int32(CODES[x.dtype] + 16 * CODES[out.dtype]),
            *map(np.uint32, (kept[1], reduced[1])),
            *strides,
            np.uint32(results),
            np.uint32(count),
            problem.divisor_for(reduce),
        ],
    )
    return Plan([out], [launch])
