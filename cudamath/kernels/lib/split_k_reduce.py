"""Reduction of a split-k workspace: partial sums of several blocks, added in a fixed order. The
same numbers give the same bits.

Each of `splits` blocks left its part of all n sums in float32. The floor is to read 4 * splits * n
bytes once. Mostly they lie in the L2 cache, so the number of loads in flight decides: on SM 9.0 and
later a thread issues all loads before it adds the first number (`add_splits_early`). An H200, us
with the kernel ahead of it, before and since: 126 parts of 4,096 sums 22.5, 18.9; 66 of 16,384
39.2, 36.4; 128 of 36,864 35.7, 32.2; 16 of 65,536 23.0, 22.7; 22 of 147,456 28.5, 28.0; 4 of
262,144 17.4, 17.1. With more threads for each sum (32 instead of 4, 147,456 sums) 31.6.
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import ArrayArg
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import FULL, WARP
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from .codec import codec
from .integers import blocks, power_of_two

if not SIMULATOR:
    from ..ptx import vector_access


if not SIMULATOR:
    from ..ptx import sm80 as ptx_sm80
    from ..ptx import sm90 as ptx_sm90

THREADS = 256
THREADS_AT_ONCE = 1 << 17  # of the device: 1,024 to a multiprocessor
MANY = 32  # parts, and threads that share them
EACH = 8  # parts of four sums, which a thread's registers can hold
i32, i64, f32 = types.int32, types.int64, types.float32


@functools.cache
def add_splits(dtype: np.dtype, lanes: int) -> Any:
    """Partial sums added in a fixed order: a thread four neighbouring weights; `lanes` threads take
    turns at the splits."""
    store = codec(dtype)[1]
    load_vector, store_vector = vector_access.load_vector, vector_access.store_vector
    wide, room = THREADS // lanes, 4 * THREADS

    @cuda.jit
    def add_splits(partial, out, splits):
        """partial (splits * n,) float32, out (n,), n a multiple of 4. Blocks of THREADS / lanes x
        lanes threads."""
        sums = cuda.shared.array(room, f32, alignment=16)
        n = i64(out.size)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        i = (i64(cuda.blockIdx.x) * wide + x) * 4
        a, b, c, d = f32(0), f32(0), f32(0), f32(0)
        if i < n:
            for split in range(y, splits, lanes):
                v = load_vector(partial, split * n + i, 4)
                a, b, c, d = f32(a + v[0]), f32(b + v[1]), f32(c + v[2]), f32(d + v[3])
        if lanes > 1:
            store_vector(sums, (y * wide + x) * 4, (a, b, c, d))
            cuda.syncthreads()
            if y > 0:
                return
            for k in range(1, lanes):
                v = load_vector(sums, (k * wide + x) * 4, 4)
                a, b, c, d = f32(a + v[0]), f32(b + v[1]), f32(c + v[2]), f32(d + v[3])
        if i < n:
            store_vector(out, i, (store(a), store(b), store(c), store(d)))

    return add_splits


@functools.cache
def add_splits_early(dtype: np.dtype, lanes: int, each: int) -> Any:
    """The same, launched before the parts are there (compute capability 9.0). Up to four lanes are
    threads of one warp, which need no shared memory; more are those of all warps. Each has `each`
    parts of four sums, all under way together."""
    store, load_vector, store_vector = (
        codec(dtype)[1],
        vector_access.load_vector,
        vector_access.store_vector,
    )
    warps, across = THREADS // WARP, lanes > 4
    width = (
        THREADS if across else WARP
    ) // lanes  # accesses of 16 bytes side by side, 128 bytes of a part at least
    of_warp = WARP // width  # lanes
    rounds = of_warp.bit_length() - 1
    room, shared = 4 * each, 4 * warps * width
    load_four, global_address = ptx_sm80.load_global_float_4, ptx_sm80.global_address
    let_next_begin, wait_for_previous = ptx_sm90.let_next_begin, ptx_sm90.wait_for_previous

    @cuda.jit(launch_bounds=(THREADS, 4))  # enough registers for all that is under way
    def add_splits_early(partial, out, splits):
        """partial (splits * n,) float32, out (n,), n a multiple of 4. Blocks of THREADS."""
        let_next_begin()
        wait_for_previous()
        n = i64(out.size)
        thread = i32(cuda.threadIdx.x)
        warp, x, y = i32(thread >> 5), i32(thread & (width - 1)), i32((thread & 31) // width)
        first = y == 0
        if across:
            i = (i64(cuda.blockIdx.x) * width + x) * 4
            y = i32(y + of_warp * warp)
        else:
            i = ((i64(cuda.blockIdx.x) * warps + warp) * width + x) * 4
        last = i32(splits - 1)
        start = i64(global_address(partial) + 4 * min(i, n - 4))
        v = cuda.local.array(room, f32)
        for k in range(each):  # beyond the last: the last again
            e = 4 * k
            v[e], v[e + 1], v[e + 2], v[e + 3] = load_four(
                start + 4 * n * min(i32(y + k * lanes), last)
            )
        a, b, c, d = f32(0), f32(0), f32(0), f32(0)
        for k in range(each):
            if i32(y + k * lanes) <= last:
                e = 4 * k
                a, b, c, d = f32(a + v[e]), f32(b + v[e + 1]), f32(c + v[e + 2]), f32(d + v[e + 3])
        for r in range(rounds):
            far = i32(width << r)
            a = f32(a + cuda.shfl_xor_sync(FULL, a, far))
            b = f32(b + cuda.shfl_xor_sync(FULL, b, far))
            c = f32(c + cuda.shfl_xor_sync(FULL, c, far))
            d = f32(d + cuda.shfl_xor_sync(FULL, d, far))
        if across:
            sums = cuda.shared.array(shared, f32, alignment=16)
            if first:
                store_vector(sums, 4 * (i64(warp) * width + x), (a, b, c, d))
            cuda.syncthreads()
            first = thread < width
            if first:
                for k in range(1, warps):
                    w = load_vector(sums, 4 * (i64(k) * width + x), 4)
                    a, b, c, d = f32(a + w[0]), f32(b + w[1]), f32(c + w[2]), f32(d + w[3])
        if first and i < n:
            store_vector(out, i, (store(a), store(b), store(c), store(d)))

    return add_splits_early


def lanes_for(sums: int, splits: int) -> int:
    """How many threads share the parts of four sums, a power of two: enough for THREADS_AT_ONCE
    together, or for EACH parts of four a thread; from more than MANY parts on these may be threads
    of several warps."""
    lanes = power_of_two(blocks(splits, EACH))
    while lanes < min(splits, MANY) and lanes * sums < 4 * THREADS_AT_ONCE:
        lanes *= 2
    return lanes if splits > MANY else min(lanes, 4)


def add(
    out: Layout, splits: int, partial: ArrayArg, target: ArrayArg, *, early: bool = False
) -> Launch:
    """The launch that adds: partial (splits * out.size,) float32 -> target (out.size,). early:
    add_splits_early.

    Few sums of many parts want more threads a sum than one."""
    if early and splits <= MANY * EACH:
        lanes = lanes_for(out.size, splits)
        kernel = add_splits_early(out.dtype, lanes, blocks(splits, lanes))
        return Launch(
            kernel,
            blocks(out.size, 4 * THREADS // lanes),
            THREADS,
            [partial, target, np.int32(splits)],
            early=True,
        )
    lanes = 1 if splits < 8 or out.size > 1 << 19 else 8
    return Launch(
        add_splits(out.dtype, lanes),
        blocks(out.size, 4 * THREADS // lanes),
        (THREADS // lanes, lanes),
        [partial, target, splits],
    )
