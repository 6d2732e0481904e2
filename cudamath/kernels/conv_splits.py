"""Sums that were split over blocks, added in a fixed order: the same bits every time.

By a second kernel, ``add_splits``: each of `splits` blocks left its part of all n sums in float32. The floor is to read
4 * splits * n bytes once. Or by the blocks themselves, where those that sum the same form a cluster (compute capability 9.0):
each leaves its sums in its own shared memory, and ``add_shares`` adds up some of the rows of all. Nothing goes through memory,
and there is no second launch.
"""

import functools
from typing import Any

import numpy as np

from ..core.dtypes import float32
from ..core.layout import Layout
from ..core.plan import ArrayArg, Launch
from .build import SIMULATOR, blocks, codec, device_function
from .conv_layout import Turned
from .lazy import cuda, types

if not SIMULATOR:
    from . import ptx, ptx_hopper, ptx_mma

THREADS = 256
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
def add_shares(own_rows: int, columns: int, threads: int, share: int, dtype: np.dtype) -> Any:
    """A device function that adds up `own_rows` rows of the sums of a cluster of `share` blocks, in their order: (base, thread
    of `threads`, rank, place of the first row in `out`, first piece, from piece to piece, chunks, taps, channels, rows that
    are there, out (.., taps, channels) as a line).

    Each block's sums lie at the shared address `base`, in rows of 4 * columns + 32 bytes: so threads that hold pairs of
    numbers of rows below each other store them side by side. A piece is 64 columns, channels under one tap: number tap *
    chunks + chunk. A warp reads a row at a time, of every block."""
    store, quads, pitch = codec(dtype)[1], columns // 4, 4 * columns + 32
    if own_rows * quads % threads:
        raise AssertionError(f"add_shares: {own_rows} rows of {columns} for {threads} threads")

    @device_function
    def add_shares(base, thread, rank, line, piece, apart, chunks, taps, channels, there, out):
        for i in range(own_rows * quads // threads):
            at = types.int32(threads * i + thread)
            row = types.int32(at // quads)
            column = types.int32(4 * (at - row * quads))
            row = types.int32(row + rank * own_rows)
            from_ = types.int32(base + row * pitch + 4 * column)
            a, b, c, d = ptx_hopper.load_cluster_float_4(from_, 0)
            for other in range(1, share):
                e, f, g, h = ptx_hopper.load_cluster_float_4(from_, types.int32(other))
                a, b, c, d = f32(a + e), f32(b + f), f32(c + g), f32(d + h)
            number = types.int32(piece + (column >> 6) * apart)
            tap = ptx_mma.divide_unsigned(number, chunks)
            channel = types.int32(64 * (number - tap * chunks) + (column & 63))
            if row < there and tap < taps and channel < channels:
                ptx.store_vector(out, line + (i64(row) * taps + tap) * channels + channel,
                                 (store(a), store(b), store(c), store(d)))

    return add_shares


def possible_share(share: int, steps: int) -> int:
    """How many blocks can share so many steps, each at least one: a power of two, at most `share`, which is one."""
    return min(share, 1 << steps.bit_length() - 1)


def partial_sums(turned: Turned, out: Layout, share: int, splits: int) -> tuple[ArrayArg, np.dtype, list[Launch]]:
    """Where `splits` blocks, or clusters of `share`, leave their sums, in which dtype, and the launches that follow."""
    target = turned.target.view((out.size,))
    if share > 1 and splits == 1:
        return target, out.dtype, []
    partial = turned.temp(Layout.new((splits, out.size), float32, out.device)).flat
    return partial, float32, [add(out, splits, partial, target, early=True)]


def add(out: Layout, splits: int, partial: ArrayArg, target: ArrayArg, *, early: bool = False) -> Launch:
    """The launch of add_splits: partial (splits * out.size,) float32 -> target (out.size,). early: see there.

    Few sums of many parts want more threads a sum than one."""
    lanes = 1 if splits < 8 or out.size > 1 << 19 else 8
    return Launch(add_splits(out.dtype, lanes, early), blocks(out.size, 4 * THREADS // lanes), (THREADS // lanes, lanes),
                  [partial, target, splits], early=early)
