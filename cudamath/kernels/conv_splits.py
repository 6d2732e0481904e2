"""Sums that were split over blocks, added in a fixed order: the same bits every time.

Each of `splits` blocks left its part of all n sums in float32. The floor is to read 4 * splits * n bytes once.
"""

import functools
from typing import Any

import numpy as np

from ..core.layout import Layout
from ..core.plan import ArrayArg, Launch
from .build import SIMULATOR, blocks, codec, device_function
from .lazy import cuda, types

if not SIMULATOR:
    from . import ptx, ptx_hopper

THREADS, FEW_THREADS = 256, 128
FEW = 4                      # parts
i64, f32 = types.int64, types.float32


@functools.cache
def add_splits(dtype: np.dtype, lanes: int, early: bool = False) -> Any:
    """Partial sums added in a fixed order: a thread four neighbouring weights; `lanes` threads take turns at the splits.
    early: launched before the parts are there (compute capability 9.0)."""
    store = codec(dtype)[1]
    load_vector, store_vector = ptx.load_vector, ptx.store_vector
    wide, room = THREADS // lanes, 4 * THREADS

    @device_function
    def add_four(partial, out, splits):
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

    @cuda.jit
    def add_splits(partial, out, splits):
        """partial (splits * n,) float32, out (n,), n a multiple of 4. Blocks of THREADS / lanes x lanes threads."""
        add_four(partial, out, splits)

    if not early:
        return add_splits
    let_next_begin, wait_for_previous = ptx_hopper.let_next_begin, ptx_hopper.wait_for_previous

    @cuda.jit
    def add_splits_early(partial, out, splits):
        """The same."""
        let_next_begin()
        wait_for_previous()
        add_four(partial, out, splits)

    return add_splits_early


@functools.cache
def add_few(dtype: np.dtype, splits: int) -> Any:
    """The same where there are few, known to the compiler: all that a thread adds is under way together."""
    store, load_vector, store_vector = codec(dtype)[1], ptx.load_vector, ptx.store_vector
    room = 4 * splits
    let_next_begin, wait_for_previous = ptx_hopper.let_next_begin, ptx_hopper.wait_for_previous

    @cuda.jit
    def add_few(partial, out):
        """partial (splits * n,) float32, out (n,), n a multiple of 4. Blocks of FEW_THREADS."""
        let_next_begin()
        wait_for_previous()
        n = i64(out.size)
        i = (i64(cuda.blockIdx.x) * FEW_THREADS + cuda.threadIdx.x) * 4
        v = cuda.local.array(room, f32)
        if i < n:
            for split in range(splits):
                v[4 * split], v[4 * split + 1], v[4 * split + 2], v[4 * split + 3] = load_vector(partial, split * n + i, 4)
            a, b, c, d = f32(0), f32(0), f32(0), f32(0)
            for split in range(splits):
                e = 4 * split
                a, b, c, d = f32(a + v[e]), f32(b + v[e + 1]), f32(c + v[e + 2]), f32(d + v[e + 3])
            store_vector(out, i, (store(a), store(b), store(c), store(d)))

    return add_few


def add(out: Layout, splits: int, partial: ArrayArg, target: ArrayArg, *, early: bool = False) -> Launch:
    """The launch of add_splits: partial (splits * out.size,) float32 -> target (out.size,). early: see there.

    Few sums of many parts want more threads a sum than one."""
    if early and splits <= FEW:
        return Launch(add_few(out.dtype, splits), blocks(out.size, 4 * FEW_THREADS), FEW_THREADS, [partial, target],
                      early=True)
    lanes = 1 if splits < 8 or out.size > 1 << 19 else 8
    return Launch(add_splits(out.dtype, lanes, early), blocks(out.size, 4 * THREADS // lanes), (THREADS // lanes, lanes),
                  [partial, target, splits], early=early)
