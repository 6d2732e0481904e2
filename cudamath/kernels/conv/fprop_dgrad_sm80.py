"""Convolution on tensor cores of compute capability 8.0 and later: cp.async brings the windows,
mma.sync multiplies them.

The product is that of fprop_dgrad_sm90.py, y[pixel, m] = sum over taps and channels, for
channels-last images of 16-bit numbers. Here every thread does the work of TMA. A step is one tap
and 32 channels:

- A thread loads 16 bytes (8 channels) of two pixels and of some filters, with `cp.async`, straight
  into shared memory. Where the window of a pixel leaves the image, or channels end, it copies 0
  bytes: nothing is read, and the hardware writes zeros.
- Four stages are in flight at a time; one barrier per step.
- Rows of shared memory are 64 bytes (128 or 256 for filters read across). Their 16-byte pieces are
  stored in an order that depends on the row, so that the eight rows which `ldmatrix` reads at a
  time lie in different banks.
- Eight warps share a tile of 128 pixels x 128 (or 64) outputs: each multiplies 64 x 32 (or 32 x 32)
  of it, 16 x 8 x 16 at a time, from fragments in registers.

The input gradient sums filters along their outputs: they are loaded as they lie, and `ldmatrix`
transposes them. The floor is 2 * N * K * P * Q * C * R * S operations at the rate of mma.sync. This
kernel does not reach it yet: on an H200 it took 1.6 to 3 times as long as fprop_dgrad_sm90.py on
ResNet-50's layers.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.dispatch.arguments import ArrayArg
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import bfloat16
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..lib.codec import codec
from ..lib.integers import blocks
from . import implicit_gemm
from .implicit_gemm import Product
from .problem import Problem

if not SIMULATOR:
    from ..ptx import sm80 as ptx_sm80

THREADS = 256
PIXELS = 128  # of a tile
DEPTH = 32  # channels per step
STAGES = 4
i32, i64, f32 = types.int32, types.int64, types.float32


@functools.cache
def quad_columns() -> Any:
    """A device function: the packed pairs of columns that four neighbouring lanes hold of four
    tiles of eight columns, traded so that each lane holds the four pairs, eight columns, of one
    tile: lane i that of tile i."""
    exchange = ptx_sm80.shuffle_xor

    @device_function
    def quad_columns(v0, v1, v2, v3, lane):
        odd, upper = lane & 1, lane & 2
        z = exchange(v0 if odd else v1, 1)
        u = exchange(v2 if odd else v3, 1)
        if odd:
            v0, v2 = z, u
        else:
            v1, v3 = z, u
        z = exchange(v0 if upper else v2, 2)
        u = exchange(v1 if upper else v3, 2)
        if upper:
            v0, v1 = z, u
        else:
            v2, v3 = z, u
        return v0, v1, v2, v3

    return quad_columns


@functools.cache
def conv2d_mma(dtype: np.dtype, columns: int, across: bool, biased: bool) -> Any:
    """Convolution by cp.async and mma.sync, tiles of PIXELS x columns (64 or 128). across: see
    fprop_dgrad_sm90.py."""
    kind = "bf16" if dtype == bfloat16 else "f16"
    pack = ptx_sm80.pack_bf16 if dtype == bfloat16 else ptx_sm80.pack_f16
    load = codec(dtype)[0]
    down_warps = 2 if columns == 128 else 4
    high = PIXELS // down_warps // 16  # tiles of 16 pixels a warp has; and four of 8 outputs
    sums = high * 16
    a_bytes = 2 * DEPTH * PIXELS
    stage_bytes = a_bytes + 2 * DEPTH * columns
    copies = columns * DEPTH // 8 // THREADS  # 16-byte pieces of filters a thread loads
    row_pieces = columns // 8  # of a row of filters read across
    row_bytes = 2 * columns
    multiply = ptx_sm80.mma(kind)
    copy, commit, wait = (
        ptx_sm80.copy_16_or_zero,
        ptx_sm80.copy_commit,
        ptx_sm80.copy_wait(STAGES - 2),
    )
    drain = ptx_sm80.copy_wait(0)
    fragment, transposed = ptx_sm80.load_matrix_4, ptx_sm80.load_matrix_4_transposed
    shared_address, global_address = ptx_sm80.shared_address, ptx_sm80.global_address
    divide, store, turn = ptx_sm80.divide_unsigned, ptx_sm80.store_global_4, quad_columns()
    size_a, size_b = 4 * high, 8

    @cuda.jit(launch_bounds=(THREADS, 2))
    def conv2d_mma(
        images,
        filters,
        bias,
        y,
        across_tiles,
        group_tiles,
        positions,
        area,
        width,
        row_start,
        row_step,
        column_start,
        column_step,
        taps_down,
        taps_right,
        tap,
        tap_down,
        tap_right,
        down,
        right,
        channels,
        outputs,
        height,
        breadth,
        all_channels,
        kernel_area,
        filter_row,
        y_image,
        y_row,
        y_column,
    ):
        """images: x (N, H, W, G * C), filters: w (K, R * S, C), y: each its memory as a line; bias
        (outputs in all,) if biased.

        Tiles in a row of them, in a group; positions .. right, channels, outputs and strides of y:
        as in conv2d_wgmma; height, breadth: H, W; all_channels: G * C; kernel_area: R * S;
        filter_row: C, of w. A block a tile."""
        shared = cuda.shared.array(0, types.uint8)
        base = (shared_address(shared) + i32(127)) & i32(-128)
        thread = i32(cuda.threadIdx.x)
        lane, warp = thread & 31, thread >> 5
        group = divide(cuda.blockIdx.x, group_tiles)
        rest = i32(cuda.blockIdx.x - group * group_tiles)
        tile_row = divide(rest, across_tiles)
        pixel0 = i32(tile_row * PIXELS)
        output0 = i32((rest - tile_row * across_tiles) * columns)

        # this thread loads channels 8 piece .. of two pixels
        piece = i32(thread & 3)
        first = i32(thread >> 2)
        to_a = i32(first * 64 + ((piece ^ ((first >> 1) & 3)) << 4))
        image = divide(pixel0 + first, area)
        at = i32(pixel0 + first - image * area)
        p = divide(at, width)
        h0 = i32(row_start + p * row_step)
        v0 = i32(column_start + (at - p * width) * column_step)
        if pixel0 + first >= positions:
            h0 = i32(-(1 << 30))
        from0 = i32((image * height + h0) * breadth + v0)  # number of the input pixel
        image = divide(pixel0 + first + 64, area)
        at = i32(pixel0 + first + 64 - image * area)
        p = divide(at, width)
        h1 = i32(row_start + p * row_step)
        v1 = i32(column_start + (at - p * width) * column_step)
        if pixel0 + first + 64 >= positions:
            h1 = i32(-(1 << 30))
        from1 = i32((image * height + h1) * breadth + v1)

        total = cuda.local.array(sums, f32)
        for i in range(sums):
            total[i] = f32(0)
        a = cuda.local.array(size_a, i32)
        b = cuda.local.array(size_b, i32)
        pixel_w = i32((warp & (down_warps - 1)) * (16 * high))  # of this warp in the tile
        output_w = i32(warp // down_warps * 32)
        steps = i32(taps_down * taps_right * ((channels + (DEPTH - 1)) // DEPTH))
        r, s, c = i32(0), i32(0), i32(0)  # tap and channel of the step to bring next
        for k in range(-(STAGES - 1), steps):
            if k >= 0:  # step k has come, and all warps are done with step k - 1
                wait()
                cuda.syncthreads()
            if r < taps_down:
                slot = i32(base + ((k + (STAGES - 1)) & (STAGES - 1)) * stage_bytes)
                offset = i32(r * down * breadth + s * right)
                channel = group * channels + c + 8 * piece
                here = c + 8 * piece < channels
                h, v = h0 + r * down, v0 + s * right
                inside = (
                    here
                    and types.uint32(h) < types.uint32(height)
                    and types.uint32(v) < types.uint32(breadth)
                )
                copy(
                    slot + to_a,
                    global_address(images) + 2 * (i64(from0 + offset) * all_channels + channel),
                    16 if inside else 0,
                )
                h, v = h1 + r * down, v1 + s * right
                inside = (
                    here
                    and types.uint32(h) < types.uint32(height)
                    and types.uint32(v) < types.uint32(breadth)
                )
                copy(
                    slot + to_a + 64 * 64,
                    global_address(images) + 2 * (i64(from1 + offset) * all_channels + channel),
                    16 if inside else 0,
                )
                number = tap + r * tap_down + s * tap_right
                for i in range(copies):
                    if across:  # channels of dy are rows of w, outputs along them
                        n = i32(i * THREADS + thread)
                        row = n // row_pieces
                        along = n - row * row_pieces
                        to = row * row_bytes + ((along ^ (row & 7)) << 4)
                        inside = c + row < channels and output0 + 8 * along < outputs
                        source = (
                            (i64(group * channels + c + row) * kernel_area + number) * filter_row
                            + output0
                            + 8 * along
                        )
                    else:
                        row = i32(first + 64 * i)
                        to = row * 64 + ((piece ^ ((row >> 1) & 3)) << 4)
                        inside = here and output0 + row < outputs
                        source = (
                            (i64(group * outputs + output0 + row) * kernel_area + number)
                            * filter_row
                            + c
                            + 8 * piece
                        )
                    copy(
                        slot + a_bytes + to,
                        global_address(filters) + 2 * source,
                        16 if inside else 0,
                    )
                c = i32(c + DEPTH)
                if c >= channels:
                    c, s = i32(0), i32(s + 1)
                    if s == taps_right:
                        s, r = i32(0), i32(r + 1)
            commit()
            if k >= 0:
                slot = i32(base + (k & (STAGES - 1)) * stage_bytes)
                for half in range(2):  # 16 channels
                    for i in range(high):
                        row = i32(pixel_w + 16 * i + (lane & 15))
                        found = fragment(
                            slot + row * 64 + (((2 * half + (lane >> 4)) ^ ((row >> 1) & 3)) << 4)
                        )
                        a[4 * i], a[4 * i + 1], a[4 * i + 2], a[4 * i + 3] = (
                            found[0],
                            found[1],
                            found[2],
                            found[3],
                        )
                    for j in range(2):
                        if across:
                            row = i32(16 * half + (lane & 15))
                            along = (output_w >> 3) + 2 * j + (lane >> 4)
                            found = transposed(
                                slot + a_bytes + row * row_bytes + ((along ^ (row & 7)) << 4)
                            )
                        else:
                            row = i32(output_w + 16 * j + (lane & 7) + ((lane >> 4) << 3))
                            found = fragment(
                                slot
                                + a_bytes
                                + row * 64
                                + (((2 * half + ((lane >> 3) & 1)) ^ ((row >> 1) & 3)) << 4)
                            )
                        b[4 * j], b[4 * j + 1], b[4 * j + 2], b[4 * j + 3] = (
                            found[0],
                            found[1],
                            found[2],
                            found[3],
                        )
                    for i in range(high):
                        for j in range(4):
                            multiply(total, 16 * i + 4 * j, a, 4 * i, b, 2 * j)
        drain()

        output = output0 + output_w
        for i in range(2 * high):
            at = i32(pixel0 + pixel_w + 16 * (i >> 1) + 8 * (i & 1) + (lane >> 2))
            e = 16 * (i >> 1) + 2 * (i & 1)
            if biased:
                for j in range(4):
                    m = output + 8 * j + 2 * (lane & 3)
                    if m < outputs:
                        total[e + 4 * j] += load(bias[group * outputs + m])
                        total[e + 4 * j + 1] += load(bias[group * outputs + m + 1])
            w0, w1, w2, w3 = turn(
                pack(total[e], total[e + 1]),
                pack(total[e + 4], total[e + 5]),
                pack(total[e + 8], total[e + 9]),
                pack(total[e + 12], total[e + 13]),
                lane,
            )
            if at < positions and output + 8 * (lane & 3) < outputs:
                image = divide(at, area)
                at = i32(at - image * area)
                p = divide(at, width)
                store(
                    global_address(y)
                    + i64(image) * y_image
                    + i64(p) * y_row
                    + i64(at - p * width) * y_column
                    + 2 * i64(group * outputs + output + 8 * (lane & 3)),
                    w0,
                    w1,
                    w2,
                    w3,
                )

    return conv2d_mma


# -------------------- planner


def launches(products: Sequence[Product], problem: Problem, *arrays: Any) -> list[Launch] | None:
    """The launches of products (implicit_gemm.py), one each, or None where sizes forbid it."""
    one_each = [launch(product, problem, *arrays) for product in products]
    return None if None in one_each else one_each  # type: ignore[return-value]


def launch(
    product: Product,
    problem: Problem,
    images: ArrayArg,
    filters: ArrayArg,
    bias: ArrayArg | None,
    y: ArrayArg,
    across: bool,
) -> Launch | None:
    """The launch of one product."""
    shape, weight, groups = problem.operands[0].shape, problem.weight.shape, problem.groups
    _, channels, height, width = shape
    own = channels // groups
    outputs = weight[1] if across else weight[0] // groups
    columns = 64 if outputs <= 64 else 128
    positions = product.size[0] * product.size[1] * product.size[2]
    across_tiles = blocks(outputs, columns)
    group_tiles = across_tiles * blocks(positions, PIXELS)
    if (
        max(positions, shape[0] * height * width) >= 1 << 30
        or group_tiles * groups >= 1 << 31
        or own % 8
        or outputs % 8
    ):
        return None
    numbers = [
        across_tiles,
        group_tiles,
        positions,
        product.size[1] * product.size[2],
        product.size[2],
        product.rows.start,
        product.rows.step,
        product.columns.start,
        product.columns.step,
        *product.taps,
        *product.tap,
        product.rows.tap,
        product.columns.tap,
        own,
        outputs,
        height,
        width,
        channels,
        weight[2] * weight[3],
        weight[1],
    ]
    last = sum((n - 1) * s for n, s in zip(product.size, product.strides, strict=True))
    line = [
        images.view((shape[0] * channels * height * width,)),
        filters.view((weight[0] * weight[1] * weight[2] * weight[3],)),
    ]
    return Launch(
        conv2d_mma(problem.dtype, columns, across, bias is not None),
        group_tiles * groups,
        THREADS,
        [
            *line,
            line[1] if bias is None else bias,
            y.view((last // 2 + outputs * groups,), offset=product.offset),
            *[np.int32(n) for n in numbers],
            *[np.int64(n) for n in product.strides],
        ],
        128 + STAGES * 2 * DEPTH * (PIXELS + columns),
    )


def forward(problem: Problem) -> Plan | None:
    """x (N, G*C, H, W), weight (G*M, C, R, S), bias (G*M,) -> y (N, G*M, P, Q); None where sizes
    forbid it."""
    return implicit_gemm.forward(launches, problem)


def input_gradient(problem: Problem) -> Plan | None:
    """y (N, G*M, P, Q), weight (G*M, C, R, S), bias (G*C,) -> x (N, G*C, H, W); None where sizes
    forbid it."""
    return implicit_gemm.input_gradient(launches, problem)
