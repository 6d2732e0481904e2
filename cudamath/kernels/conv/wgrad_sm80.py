"""The weight gradient of a convolution on tensor cores of compute capability 8.0 and later.

    dw[m, (r, s), c] = sum over pixels of  dy[pixel, m] * x[pixel's window, (r, s), c]

by the instructions of fprop_dgrad_sm80.py. The sum runs over pixels, so a step is 32 pixels: rows
of 128 outputs of dy, and of 128 columns of x's windows. Columns are all (r, s), c in a line: a
thread loads the same tap and channels in every step. Both operands lie across the sum, and
`ldmatrix` transposes both on their way into registers. The pixels are split over blocks, and
``add_splits`` adds the blocks' float32 sums in a fixed order.
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import bfloat16, float32
from ...core.layout import Layout
from ...runtime.device import multiprocessors
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..copy.channels_last import ReorderedPlan
from ..lib.integers import blocks
from ..lib.split_k_reduce import add
from .geometry import Walk
from .problem import Problem

if not SIMULATOR:
    from ..ptx import sm80 as ptx_sm80
    from ..ptx import vector_access

THREADS = 256
SIDE = 128  # outputs, and columns, of a tile
PIXELS = 32  # a step
STAGES = 4
HALF = 2 * PIXELS * SIDE  # bytes of one operand of a stage
ENOUGH_BLOCKS = 2  # for each multiprocessor
MOST_SPLITS = 128
i32, i64, f32 = types.int32, types.int64, types.float32


@functools.cache
def conv2d_weight_mma(dtype: np.dtype) -> Any:
    """A block sums a tile of the weight gradient over its share of the pixels."""
    kind = "bf16" if dtype == bfloat16 else "f16"
    multiply = ptx_sm80.mma(kind)
    copy, commit, wait = (
        ptx_sm80.copy_16_or_zero,
        ptx_sm80.copy_commit,
        ptx_sm80.copy_wait(STAGES - 2),
    )
    drain, transposed = ptx_sm80.copy_wait(0), ptx_sm80.load_matrix_4_transposed
    shared_address, global_address = ptx_sm80.shared_address, ptx_sm80.global_address
    divide, store_vector = ptx_sm80.divide_unsigned, vector_access.store_vector

    @cuda.jit(launch_bounds=(THREADS, 2))
    def conv2d_weight_mma(
        grads,
        images,
        partial,
        tiles,
        group_tiles,
        across_tiles,
        share,
        positions,
        area,
        width,
        row_start,
        row_step,
        column_start,
        column_step,
        taps,
        taps_right,
        down,
        right,
        channels,
        outputs,
        all_outputs,
        height,
        breadth,
        all_channels,
    ):
        """grads: dy (pixels, G * M), images: x (N, H, W, G * C): their memory as a line; partial
        (splits, G * M, taps, C) float32, as a line. Tiles in all, in a group, in a row; share:
        pixels a split adds up, a multiple of PIXELS; others as in conv2d_mma. A block a tile of a
        split."""
        shared = cuda.shared.array(0, types.uint8)
        base = (shared_address(shared) + i32(127)) & i32(-128)
        thread = i32(cuda.threadIdx.x)
        lane, warp = thread & 31, thread >> 5
        split = divide(cuda.blockIdx.x, tiles)
        rest = i32(cuda.blockIdx.x - split * tiles)
        group = divide(rest, group_tiles)
        rest = i32(rest - group * group_tiles)
        tile_row = divide(rest, across_tiles)
        output0 = i32(tile_row * SIDE)
        column0 = i32((rest - tile_row * across_tiles) * SIDE)
        begin = i32(split * share)
        end = i32(min(begin + share, positions))

        # this thread loads 8 outputs, and 8 channels under one tap, of pixels `first` and
        # `first` + 16 of a step
        piece = i32(thread & 15)
        first = i32(thread >> 4)
        to = i32(first * (2 * SIDE) + ((piece ^ (first & 7)) << 4))
        has_outputs = output0 + 8 * piece < outputs
        from_a = global_address(grads) + 2 * i64(group * outputs + output0 + 8 * piece)
        tap = divide(column0 + 8 * piece, channels)
        c = i32(column0 + 8 * piece - tap * channels)
        r = divide(tap, taps_right)
        h0 = i32(row_start + r * down)
        v0 = i32(column_start + (tap - r * taps_right) * right)
        if tap >= taps:
            h0 = i32(-(1 << 30))
        from_b = global_address(images) + 2 * i64(group * channels + c)

        total = cuda.local.array(64, f32)
        for i in range(64):
            total[i] = f32(0)
        a = cuda.local.array(16, i32)
        b = cuda.local.array(8, i32)
        output_w, column_w = i32((warp & 1) * 64), i32((warp >> 1) * 32)
        steps = i32((end - begin + (PIXELS - 1)) // PIXELS)
        for k in range(-(STAGES - 1), steps):
            if k >= 0:  # step k has come, and all warps are done with step k - 1
                wait()
                cuda.syncthreads()
            if k + (STAGES - 1) < steps:
                slot = i32(base + ((k + (STAGES - 1)) & (STAGES - 1)) * (2 * HALF))
                for half in range(2):
                    at = i32(begin + (k + (STAGES - 1)) * PIXELS + first + 16 * half)
                    inside = at < end and has_outputs
                    copy(
                        slot + to + half * (16 * 2 * SIDE),
                        from_a + 2 * i64(at) * all_outputs,
                        16 if inside else 0,
                    )
                    image = divide(at, area)
                    pixel = i32(at - image * area)
                    p = divide(pixel, width)
                    h = i32(h0 + p * row_step)
                    v = i32(v0 + (pixel - p * width) * column_step)
                    inside = (
                        at < end
                        and types.uint32(h) < types.uint32(height)
                        and types.uint32(v) < types.uint32(breadth)
                    )
                    source = ((i64(image) * height + h) * breadth + v) * all_channels
                    copy(
                        slot + HALF + to + half * (16 * 2 * SIDE),
                        from_b + 2 * source,
                        16 if inside else 0,
                    )
            commit()
            if k >= 0:
                slot = i32(base + (k & (STAGES - 1)) * (2 * HALF))
                for half in range(2):  # 16 pixels
                    for i in range(4):
                        row = i32(16 * half + (lane & 7) + ((lane >> 4) << 3))
                        along = (output_w >> 3) + 2 * i + ((lane >> 3) & 1)
                        found = transposed(slot + row * (2 * SIDE) + ((along ^ (row & 7)) << 4))
                        a[4 * i], a[4 * i + 1], a[4 * i + 2], a[4 * i + 3] = (
                            found[0],
                            found[1],
                            found[2],
                            found[3],
                        )
                    for j in range(2):
                        row = i32(16 * half + (lane & 15))
                        along = (column_w >> 3) + 2 * j + (lane >> 4)
                        found = transposed(
                            slot + HALF + row * (2 * SIDE) + ((along ^ (row & 7)) << 4)
                        )
                        b[4 * j], b[4 * j + 1], b[4 * j + 2], b[4 * j + 3] = (
                            found[0],
                            found[1],
                            found[2],
                            found[3],
                        )
                    for i in range(4):
                        for j in range(4):
                            multiply(total, 16 * i + 4 * j, a, 4 * i, b, 2 * j)
        drain()
        for i in range(8):
            row = i32(output0 + output_w + 16 * (i >> 1) + 8 * (i & 1) + (lane >> 2))
            if row < outputs:
                line = (i64(split) * all_outputs + group * outputs + row) * (taps * channels)
                for j in range(4):
                    column = column0 + column_w + 8 * j + 2 * (lane & 3)
                    e = 16 * (i >> 1) + 4 * j + 2 * (i & 1)
                    if column < taps * channels:
                        store_vector(partial, line + column, (total[e], total[e + 1]))

    return conv2d_weight_mma


# -------------------- planner


def weight_gradient(problem: Problem, splits: int | None = None) -> Plan | None:
    """y (N, G*M, P, Q), x (N, G*C, H, W) -> weight (G*M, C, R, S); None where there are too many
    positions."""
    grad, x, out = problem.y, problem.x, problem.weight
    stride, padding, dilation = problem.stride, problem.padding, problem.dilation
    groups = problem.groups
    plan = ReorderedPlan(out, grad, x)
    images, all_outputs, tall, wide = grad.shape
    number, all_channels, height, width = x.shape
    channels, taps_down, taps_right = out.shape[1:]
    outputs, taps, positions = all_outputs // groups, taps_down * taps_right, images * tall * wide
    if positions >= 1 << 30 or channels % 8 or outputs % 8:
        return None
    walks = [Walk(-padding[2 * i], stride[i], dilation[i]) for i in (0, 1)]
    across_tiles = blocks(taps * channels, SIDE)
    group_tiles = across_tiles * blocks(outputs, SIDE)
    tiles = groups * group_tiles
    if splits is None:
        enough = ENOUGH_BLOCKS * multiprocessors(problem.device)
        splits = max(1, min(MOST_SPLITS, enough // tiles, blocks(positions, 8 * PIXELS)))
    share = blocks(blocks(positions, splits), PIXELS) * PIXELS
    splits = blocks(positions, share)
    partial = plan.temp(Layout.new((splits, out.size), float32, out.device))
    numbers = [
        tiles,
        group_tiles,
        across_tiles,
        share,
        positions,
        tall * wide,
        wide,
        walks[0].start,
        walks[0].step,
        walks[1].start,
        walks[1].step,
        taps,
        taps_right,
        walks[0].tap,
        walks[1].tap,
        channels,
        outputs,
        all_outputs,
        height,
        width,
        all_channels,
    ]
    plan.steps += [
        Launch(
            conv2d_weight_mma(grad.dtype),
            tiles * splits,
            THREADS,
            [
                plan.operands[0].view((grad.size,)),
                plan.operands[1].view((x.size,)),
                partial.flat,
                *[np.int32(n) for n in numbers],
            ],
            128 + STAGES * 2 * HALF,
        ),
        add(out, splits, partial.flat, plan.target.view((out.size,))),
    ]
    return plan.build()
