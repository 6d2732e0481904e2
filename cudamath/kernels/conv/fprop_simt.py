"""Convolution on any GPU: one matrix product over a table of taps. (One thread for each result:
direct.py. Gradients: dgrad_simt.py, wgrad_simt.py.)

The idea. With *positions* n = (image, row p, column q) of the output and *taps* k = (channel, row
r, column s),

    y[m, n] = sum over k of w[m, k] * x[tap(k) + position(n)]

is a matrix product. Its right-hand matrix never exists in memory: the offset of its element (k, n)
in x is the sum of two numbers, one of the tap and one of the position. So are its row and its
column, which show padding: the element is 0 outside 0 <= row < H, 0 <= column < W. All three
functions are this sum:

    forward          y[m, n]  = sum over taps       w[m, k]  * x[k + n]
    weight gradient  dw[m, k] = sum over positions  dy[m, n] * x[k + n]
    input gradient   the forward sum over dy. With a stride, an input row h meets only those taps r
                     for which h + top - r * dilation is a multiple of the stride. So the rows (and
                     columns) of one residue form a convolution of their own, with every stride-th
                     tap and no stride: one launch for each.

In ``conv2d_implicit_gemm`` a block computes a tile of (up to) 128 outputs m x 128 positions n. It
brings 8 taps at a time through shared memory. A thread keeps 8 x 8 sums in registers and does 64
multiply-adds for 16 numbers read. The table of taps lies in memory; all threads of a warp read the
same row. While one slab of 8 taps is multiplied, the next slab is loaded into registers, and the
table is read one step further ahead.

Small images have few tiles, so many multiprocessors would have one block or none. Then the channels
are split over blocks like groups. Each part leaves its sums in memory, and ``add_splits``
(lib/split_k_reduce.py) adds them in a fixed order.

The floor is 2 * N * K * P * Q * C * R * S operations: on an H200 67 TFLOP/s in float32, of which
this tile can reach about 3/4 (512 of some 690 instructions per 8 taps are multiply-adds).

kernels/matmul/dispatch.py explains how the threads share a tile: four warps side by side, 32
positions each; in a warp, 8 lanes down (4 outputs each, and 4 more 32 further) and 4 across (4
positions, and 4 more 16 further).
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...core.dispatch.arguments import ArrayArg, Constant, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import compute_dtype, float32
from ...core.layout import Layout
from ...runtime.device import multiprocessors
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.split_k_reduce import add
from .geometry import (
    DEPTH,
    OUTSIDE,
    PITCH,
    POSITIONS,
    SIZE_B,
    TILES,
    Sources,
    Tile,
    View,
    Walk,
    choose_tile,
    grouped,
    multiply_slab,
    numbers,
    place_in_tile,
    split_position,
    tap_table,
)
from .problem import Problem
from .work import choose_splits

if not SIMULATOR:
    from ..ptx.vector_access import load_vector, store_vector

THREADS = 256  # of a block of the kernels that prepare operands


# -------------------- simple kernels


@functools.cache
def pack_weights(dtype: np.dtype) -> Any:
    """Weights in the order in which tiles read them: outputs side by side, in the compute type,
    padded with zeros."""
    load, _, C = codec(dtype)

    @cuda.jit
    def pack_weights(w, packed):
        """w (G, M, C, R, S), any strides; packed (G, taps, outputs), both rounded up. A thread an
        element."""
        groups, taps, outputs = packed.shape
        i = cuda.grid(1)
        if i >= groups * taps * outputs:
            return
        m = i % outputs
        k = i // outputs % taps
        g = i // outputs // taps
        area = w.shape[3] * w.shape[4]
        value = C(0)
        if m < w.shape[1] and k < w.shape[2] * area:
            c = k // area
            r = (k - c * area) // w.shape[4]
            value = C(load(w[g, m, c, r, k - c * area - r * w.shape[4]]))
        packed[g, k, m] = value

    return pack_weights


# -------------------- the tile in registers


@functools.cache
def _leave(dtype: np.dtype, high: int) -> tuple[Any, Any]:
    """Device functions that store a thread's sums of one position, and of four that are neighbours
    in y.

    y: a line; to: place of the thread's first output; apart: from one output to the next; room:
    outputs there are from the first one on; j: column of the sums (a constant, so that they stay in
    registers)."""
    store = codec(dtype)[1]

    @cuda.jit(device=True)
    def leave_1(y, to, apart, room, total, j):
        for i in range(high):
            row = (i & 3) + (i >> 2) * 32
            if row < room:
                y[to + row * apart] = store(total[8 * i + j])

    @cuda.jit(device=True)
    def leave_4(y, to, apart, room, total, j):
        for i in range(high):
            row = (i & 3) + (i >> 2) * 32
            if row < room:
                store_vector(
                    y,
                    to + row * apart,
                    (
                        store(total[8 * i + j]),
                        store(total[8 * i + j + 1]),
                        store(total[8 * i + j + 2]),
                        store(total[8 * i + j + 3]),
                    ),
                )

    return leave_1, leave_4


@functools.cache
def conv2d_implicit_gemm(dtype: np.dtype, tile: Tile) -> Any:
    """One block per tile of outputs x positions."""
    load, _, C = codec(dtype)
    multiply = multiply_slab(C, tile)
    leave_1, leave_4 = _leave(dtype, tile.high)
    rows, threads, high = tile.rows, tile.threads, tile.high
    rows_per_warp, pitch_a, sums = rows // tile.down, rows + 4, 8 * high
    size_a = 2 * DEPTH * pitch_a
    each_a, each_b = rows * DEPTH // threads, POSITIONS * DEPTH // threads

    @cuda.jit(launch_bounds=(threads, 2 if threads == 256 or C == types.float64 else 3))
    def conv2d_implicit_gemm(
        weights,
        x,
        taps,
        bias,
        y,
        biased,
        wide,
        outputs,
        depth,
        packed,
        positions,
        area,
        width,
        row_start,
        row_step,
        column_start,
        column_step,
        x_height,
        x_width,
        x_image,
        x_group,
        x_row,
        x_column,
        y_image,
        y_group,
        y_output,
        y_row,
        y_column,
    ):
        """weights: (G, depth, packed) flattened; taps: (depth + DEPTH, 4) int32 flattened: place in
        x, -, row, column; x, y: their memory as a line; bias (G * outputs,) if biased; all others
        int64 numbers, strides in elements. wide: four neighbouring positions are neighbours in y,
        and aligned, so that they leave by one store."""
        slab_a = cuda.shared.array(size_a, C, alignment=16)
        slab_b = cuda.shared.array(SIZE_B, C, alignment=16)
        total = cuda.local.array(sums, C)
        a = cuda.local.array(8, C)
        b = cuda.local.array(8, C)
        next_b = cuda.local.array(each_b, C)
        tap_place = cuda.local.array(each_b, types.int32)
        tap_h = cuda.local.array(each_b, types.int32)
        tap_v = cuda.local.array(each_b, types.int32)

        tiles_down = packed // rows
        tile_column = cuda.blockIdx.x // tiles_down
        m0 = (cuda.blockIdx.x - tile_column * tiles_down) * rows
        n0 = tile_column * POSITIONS
        group = cuda.blockIdx.y
        thread = cuda.threadIdx.x
        m, n = place_in_tile(thread, rows_per_warp)

        # this thread loads each_a neighbouring weights of one tap, and one position of each_b
        # neighbouring taps
        k_a = thread * each_a // rows
        m_a = thread * each_a - k_a * rows
        from_a = group * depth * packed + k_a * packed + m0 + m_a
        n_b = thread & (POSITIONS - 1)
        k_b = (thread // POSITIONS) * each_b
        from_b, h_b, v_b = types.int32(0), types.int32(OUTSIDE), types.int32(OUTSIDE)
        if n0 + n_b < positions:
            image, p, q = split_position(n0 + n_b, area, width)
            h_b = types.int32(row_start + p * row_step)
            v_b = types.int32(column_start + q * column_step)
            from_b = types.int32(image * x_image + group * x_group + h_b * x_row + v_b * x_column)

        for i in range(8 * high):
            total[i] = C(0)
        for i in range(each_b):
            tap_place[i], _, tap_h[i], tap_v[i] = load_vector(taps, (k_b + i) * 4, 4)
        stage = types.int64(0)  # no literal: `multiply` is compiled once
        for k in range(
            0, depth + DEPTH, DEPTH
        ):  # bring taps k ..., while those before them are multiplied
            if k < depth:
                next_a = load_vector(weights, from_a + k * packed, each_a)
                for i in range(each_b):
                    value = C(0)
                    if types.uint32(h_b + tap_h[i]) < types.uint32(x_height) and types.uint32(
                        v_b + tap_v[i]
                    ) < types.uint32(x_width):
                        value = C(load(x[types.uint32(from_b + tap_place[i])]))
                    next_b[i] = value
                for i in range(each_b):  # the table is read one step ahead of the images
                    tap_place[i], _, tap_h[i], tap_v[i] = load_vector(
                        taps, (k + DEPTH + k_b + i) * 4, 4
                    )
            if k > 0:
                multiply(slab_a, slab_b, stage * DEPTH, m, n, a, b, total)
                stage ^= 1
            if k < depth:
                store_vector(slab_a, (stage * DEPTH + k_a) * pitch_a + m_a, next_a)
                for i in range(each_b):
                    slab_b[(stage * DEPTH + k_b + i) * PITCH + n_b] = next_b[i]
                cuda.syncthreads()

        if biased != 0:
            for i in range(high):
                row = m0 + m + (i & 3) + (i >> 2) * 32
                if row < outputs:
                    base = C(load(bias[group * outputs + row]))
                    for j in range(8):
                        total[8 * i + j] += base
        to = group * y_group + (m0 + m) * y_output
        room = outputs - m0 - m
        if wide != 0:  # positions n .. n + 3, then n + 16 .. n + 19
            for half in range(2):
                if n0 + n + half * 16 < positions:
                    image, p, q = split_position(n0 + n + half * 16, area, width)
                    leave_4(
                        y, to + image * y_image + p * y_row + q, y_output, room, total, 4 * half
                    )
        else:
            for e in range(4):
                if n0 + n + e < positions:
                    image, p, q = split_position(n0 + n + e, area, width)
                    leave_1(
                        y, to + image * y_image + p * y_row + q * y_column, y_output, room, total, e
                    )
            for e in range(4):
                if n0 + n + e + 16 < positions:
                    image, p, q = split_position(n0 + n + e + 16, area, width)
                    leave_1(
                        y,
                        to + image * y_image + p * y_row + q * y_column,
                        y_output,
                        room,
                        total,
                        e + 4,
                    )

    return conv2d_implicit_gemm


# -------------------- planners


def _split(sources: Sources, x: View, w: View, y: View, splits: int) -> tuple[View, View, View]:
    """The same operands with the channels of the one group in `splits` groups, each with a result
    of its own in memory."""
    each, size = x.shape[2] // splits, math.prod(y.shape)
    partial = sources.temp(Layout.new((splits, size), float32, sources.operands[0][1].device))
    return (
        View(
            x.argument,
            (x.shape[0], splits, each, *x.shape[3:]),
            (x.strides[0], each * x.strides[2], *x.strides[2:]),
            x.offset,
        ),
        View(
            w.argument,
            (splits, w.shape[1], each, *w.shape[3:]),
            (each * w.strides[2], *w.strides[1:]),
            w.offset,
        ),
        View(partial, (y.shape[0], splits, *y.shape[2:]), (y.strides[0], 4 * size, *y.strides[2:])),
    )


def append_launches(
    sources: Sources,
    dtype: np.dtype,
    x: View,
    w: View,
    bias: ArrayArg | None,
    y: View,
    rows: Walk,
    columns: Walk,
    splits: int | None = None,
) -> None:
    """Append the launches of y[n, g, m, p, q] = bias + sum over (c, r, s) of w * x. splits: of the
    channels, where they can be split; by default as many as take the least time."""
    images, groups, outputs, height, width = y.shape
    channels, taps = w.shape[2], w.shape[2] * w.shape[3] * w.shape[4]
    positions, item = images * height * width, dtype.itemsize
    biased = bias is not None
    bias = bias if biased else w.argument.view((1,), (item,))  # not read
    tile = choose_tile(outputs, dtype)
    target, size, device = y, math.prod(y.shape), sources.operands[0][1].device
    if (
        dtype != float32
        or tile != TILES[128]
        or groups > 1
        or biased
        or size % 4
        or y.span(item) > size
    ):  # a result that does not lie in one piece
        splits = 1
    elif splits is None:
        splits = choose_splits(
            blocks(positions, POSITIONS) * blocks(outputs, tile.rows),
            channels,
            taps // channels,
            size,
            multiprocessors(device),
        )
    if splits > 1:
        x, w, y = _split(sources, x, w, y, splits)
        groups, channels, taps = splits, channels // splits, taps // splits
    depth, wide_outputs = blocks(taps, DEPTH) * DEPTH, blocks(outputs, tile.rows) * tile.rows
    table = tap_table(channels, w.shape[3], w.shape[4], rows, columns, x, item, depth + DEPTH)
    packed = Layout.new((groups, depth, wide_outputs), compute_dtype(dtype), device)
    weights = sources.temp(packed)
    to = [stride // item for stride in y.strides]
    wide = (
        to[4] == 1
        and to[3] == width
        and y.offset % (4 * item) == 0
        and height * width % 4 == 0
        and all(stride % 4 == 0 for stride in to[:3])
    )
    from_ = [stride // item for stride in x.strides]
    sources.steps += [
        Launch(pack_weights(dtype), blocks(packed.size, THREADS), THREADS, [w.array(), weights]),
        Launch(
            conv2d_implicit_gemm(dtype, tile),
            (blocks(positions, POSITIONS) * (wide_outputs // tile.rows), groups),
            tile.threads,
            [
                weights.flat,
                x.line(item),
                Constant(table.ravel()),
                bias,
                y.line(item),
                *numbers(
                    biased,
                    wide,
                    outputs,
                    depth,
                    wide_outputs,
                    positions,
                    height * width,
                    width,
                    rows.start,
                    rows.step,
                    columns.start,
                    columns.step,
                    x.shape[3],
                    x.shape[4],
                    from_[0],
                    from_[1],
                    from_[3],
                    from_[4],
                    *to,
                ),
            ],
        ),
    ]
    if splits > 1:
        sources.steps.append(
            add(Layout.new((size,), dtype, device), splits, y.line(item), target.line(item))
        )


def forward(problem: Problem, splits: int | None = None) -> Plan:
    """x (N, G*C, H, W), weight (G*M, C, R, S), bias (G*M,) -> y (N, G*M, P, Q). splits: see
    `append_launches`."""
    sources = Sources(*problem.inputs)
    (x, x_layout), (w, w_layout), *bias = sources.operands
    stride, padding, dilation, groups = (
        problem.stride,
        problem.padding,
        problem.dilation,
        problem.groups,
    )
    append_launches(
        sources,
        problem.dtype,
        grouped(x, x_layout, groups, 1),
        grouped(w, w_layout, groups, 0),
        bias[0][0] if bias else None,
        grouped(Output(0), problem.y, groups, 1),
        Walk(-padding[0], stride[0], dilation[0]),
        Walk(-padding[2], stride[1], dilation[1]),
        splits,
    )
    return Plan([problem.y], sources.steps, sources.temps)
