"""Convolution on tensor cores of compute capability 9.0: TMA brings the windows, wgmma multiplies
them.

The idea. Images lie channels last, so a pixel's channels are one run of memory. With a *row* of the
product for each output channel m, a *column* for each output pixel, and the sum over taps (r, s)
and channels c,

    y[m, pixel] = sum over (r, s) sum over c of  w[m, (r, s), c] * x[pixel's window, (r, s), c]

is a matrix product. TMA makes its right-hand matrix on the way into shared memory: in its *im2col*
mode one instruction fetches, for a run of output pixels (across the ends of rows and images), a
piece of the channels under one tap. It applies stride, dilation and padding, and writes zeros for
elements outside. So a step of the sum is one tap and `depth` channels: a tile of filters (outputs x
depth) and one of pixels (pixels x depth), both laid out as wgmma reads them. Pixels are the columns
because columns may be any multiple of 8, and rows only of 64: so tiles can be cut to fill the
device.

A block has three warpgroups. One producer thread of the first keeps a ring of stages filled: it
waits until a stage is empty, announces the bytes to expect, and issues TMA loads of A and B. The
two consumer warpgroups wait until a stage is full and multiply it. They release it one step later,
when the multiplication has read it; so the tensor cores always have the next product queued behind
the present one. Blocks are persistent: while the sums of one tile are stored, the stages of the
next tile are filled. Two ways to share tiles:

``shared``       both consumer warpgroups work at one tile, each on half its outputs, with the same
                 pixels.
``alternating``  each has a tile of its own, and they alternate: one multiplies while the other
                 stores. The tiles are smaller; it pays where sums are short.

The input gradient is the same product over dy (fprop_simt.py explains how a stride splits it). Its
filters, summed along the *output* channels, lie across the memory of w: wgmma reads them
transposed, and nothing is copied. The weight gradient: wgrad_sm90.py. Where all filters fit into
shared memory: fprop_dgrad_sm90_resident_filters.py.

The floor is 2 * N * K * P * Q * C * R * S operations at the tensor cores' rate (about 660 TFLOP/s
sustained on an H200), or the bytes of x, w and y, whichever takes longer: a 1 x 1 convolution of
few channels is a copy.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.dispatch.arguments import ArrayArg, Constant
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import bfloat16
from ...runtime.device import multiprocessors
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..lib.codec import codec
from ..lib.integers import blocks
from . import implicit_gemm
from .implicit_gemm import Product
from .problem import Problem
from .tiles_sm90 import (
    THREADS,
    map_of_filters,
    map_of_images,
    outputs_of_pixel,
    pixel_of,
    place_of,
    possible,
    reach,
    skip,
)

if not SIMULATOR:
    from ..lib import tma_pipeline
    from ..ptx import sm80 as ptx_sm80
    from ..ptx import sm90 as ptx

i32, i64, f32 = types.int32, types.int64, types.float32


class Tile(NamedTuple):
    """The results that a block computes at a time (if alternating: each of its two consumer
    warpgroups), and the channels of a step.

    outputs 64: the warpgroups share them, and halve the pixels; 128 or 256: they share the pixels.
    """

    outputs: int
    pixels: int
    depth: int = 64
    alternating: bool = False

    @property
    def own_outputs(self) -> int:
        """Of one warpgroup."""
        return self.outputs if self.alternating or self.outputs == 64 else self.outputs // 2

    @property
    def own_pixels(self) -> int:
        """Of one warpgroup: columns of a wgmma."""
        return self.pixels // 2 if self.outputs == 64 and not self.alternating else self.pixels

    @property
    def stage(self) -> int:
        """Bytes of filters and pixels in a stage."""
        return 2 * self.depth * (self.outputs + self.pixels)

    @property
    def stages(self) -> int:
        """In the ring."""
        return tma_pipeline.ring_stages(self.stage)

    @property
    def shared(self) -> int:
        """Dynamic shared memory."""
        return tma_pipeline.ring_bytes(self.stage, self.stages)


@device_function
def steps_of(table, tile, product_tiles, chunks):
    """How many steps a tile takes."""
    entry = 8 * types.int32(types.uint32(tile) // types.uint32(product_tiles))
    return types.int32(table[entry] * table[entry + 1] * chunks)


@functools.cache
def conv2d_wgmma(dtype: np.dtype, tile: Tile, across: bool, biased: bool, spread: bool) -> Any:
    """Convolution by TMA im2col and wgmma. across: filters are read across their rows (input
    gradient); spread: the output pixels are not one after the other in memory."""
    kind = "bf16" if dtype == bfloat16 else "f16"
    load, round_outputs = codec(dtype)[0], outputs_of_pixel(dtype)
    rows, pixels, depth, alternating = tile
    stages, stage_bytes = tile.stages, tile.stage
    filter_bytes = 2 * depth * rows
    high, wide = tile.own_outputs // 64, tile.own_pixels
    sums = wide // 2  # registers of a tile of 64 outputs
    count = high * sums
    piece = 2 * depth * 64  # bytes of 64 outputs, either way
    pieces = rows // 64
    steps_a, steps_b = [
        tma_pipeline.descriptor_steps(transposed, depth // 16) for transposed in (across, False)
    ]
    base_b = tma_pipeline.descriptor_base(row=2 * depth)
    base_a = tma_pipeline.descriptor_base(piece) if across else base_b
    shift_outputs, shift_pixels = 0, 0  # of the second warpgroup
    if not alternating:
        shift_outputs, shift_pixels = (0, wide) if rows == 64 else (64 * high, 0)
    shift_a, shift_b, next_a = shift_outputs * 2 * depth, shift_pixels * 2 * depth, piece >> 4
    multiply = [
        ptx.wgmma(kind, wide, steps_a, steps_b, trans_a=across, commit=i == high - 1)
        for i in range(high)
    ]
    first, last = multiply[0], multiply[-1]
    wait_one, wait_all = ptx.wgmma_wait(1), ptx.wgmma_wait(0, count)
    arrivals = 1 if alternating else 2
    registers_down, registers_up = ptx.registers_down(40), ptx.registers_up(232)

    @cuda.jit(launch_bounds=(THREADS, 1))
    def conv2d_wgmma(
        images,
        filters,
        bias,
        y,
        table,
        tiles,
        product_tiles,
        group_tiles,
        across_tiles,
        positions,
        area,
        width,
        row_start,
        row_step,
        column_start,
        column_step,
        chunks,
        channels,
        outputs,
        y_image,
        y_row,
        y_column,
    ):
        """images: im2col tensor map of x (N, H, W, C), box (pixels, depth); filters: of w (K, R *
        S, C), box (outputs of a tile, 1, depth), or if across (depth, 1, 64); bias (outputs in
        all,) if biased; y: its memory as a line.

        table: eight int32 a product, in a line: taps down, taps right; number in w of the first
        tap, of the next down, right; distance in x of taps down, right; place of the first pixel in
        y, in bytes. Tiles in all, in a product, in a group, in a row of them (the same pixels).
        positions: output pixels, area to an image, width to a row; a pixel's window starts at
        row_start + row * row_step. chunks: steps to a tap; channels: of a group in x; outputs: of a
        group; strides of y in bytes."""
        base = tma_pipeline.first_tile(cuda.shared.array(0, types.uint8))
        full = i32(base + stages * stage_bytes)
        thread = i32(cuda.threadIdx.x)
        group_of_threads = thread >> 7
        if thread == 0:
            tma_pipeline.make_ring(full, stages, 1, arrivals)
        cuda.syncthreads()
        ptx.let_next_begin()
        ptx.wait_for_previous()
        t = i32(cuda.blockIdx.x)
        blocks = i32(cuda.gridDim.x)
        if group_of_threads == 0:  # ---------------- the one that fetches
            registers_down()
            if thread == 0:
                stage, phase = i32(0), i32(1)
                while t < tiles:
                    number, group, tile_row, tile_column = place_of(
                        t, product_tiles, group_tiles, across_tiles
                    )
                    output = i32(tile_column * rows)
                    image, p, q = pixel_of(i32(tile_row * pixels), area, width)
                    h, v = i32(row_start + p * row_step), i32(column_start + q * column_step)
                    entry = 8 * number
                    taps_down, taps_right = table[entry], table[entry + 1]
                    for i in range(taps_down):
                        for j in range(taps_right):
                            tap = i32(
                                table[entry + 2] + i * table[entry + 3] + j * table[entry + 4]
                            )
                            down, right = i32(i * table[entry + 5]), i32(j * table[entry + 6])
                            for c in range(chunks):
                                to = i32(base + stage * stage_bytes)
                                barrier = tma_pipeline.refill(
                                    full, stages, stage, phase, stage_bytes
                                )
                                if across:
                                    for k in range(pieces):
                                        ptx.tma_load_3d(
                                            to + k * piece,
                                            filters,
                                            output + 64 * k,
                                            tap,
                                            group * channels + c * depth,
                                            barrier,
                                        )
                                else:
                                    ptx.tma_load_3d(
                                        to,
                                        filters,
                                        c * depth,
                                        tap,
                                        group * outputs + output,
                                        barrier,
                                    )
                                ptx.tma_load_im2col_4d(
                                    to + filter_bytes,
                                    images,
                                    group * channels + c * depth,
                                    v,
                                    h,
                                    image,
                                    barrier,
                                    right,
                                    down,
                                )
                                stage, phase = tma_pipeline.advance(stage, phase, stages)
                    t = i32(t + blocks)
        else:  # ---------------- those that multiply
            registers_up()
            me = i32(group_of_threads - 1)
            thread = i32(thread & 127)
            lane, warp = thread & 31, thread >> 5
            total = cuda.local.array(count, f32)
            stage, phase = i32(0), i32(0)
            if alternating:
                if me == 1:
                    ptx.named_arrive(1, 256)
                    stage, phase = skip(
                        stage, phase, steps_of(table, t, product_tiles, chunks), stages
                    )
                    t = i32(t + blocks)
            while t < tiles:
                for i in range(count):
                    total[i] = f32(0)
                if alternating:  # the other one has multiplied all its stages
                    ptx.named_sync(1 + me, 256)
                before = i32(-1)
                for _ in range(steps_of(table, t, product_tiles, chunks)):
                    ptx.barrier_wait(full + 8 * stage, phase)
                    a = i32(base + stage * stage_bytes)
                    filters_here = tma_pipeline.descriptor(i32(a + me * shift_a), base_a)
                    pixels_here = tma_pipeline.descriptor(
                        i32(a + filter_bytes + me * shift_b), base_b
                    )
                    first(total, 0, filters_here, pixels_here)
                    if high == 2:
                        last(total, sums, filters_here + next_a, pixels_here)
                    if before >= 0:
                        wait_one()
                        tma_pipeline.release(full, stages, before, thread)
                    before = stage
                    stage, phase = tma_pipeline.advance(stage, phase, stages)
                if alternating:
                    ptx.named_arrive(2 - me, 256)
                wait_all(total, 0)
                if before >= 0:
                    tma_pipeline.release(full, stages, before, thread)

                number, group, tile_row, tile_column = place_of(
                    t, product_tiles, group_tiles, across_tiles
                )
                output = i32(tile_column * rows + me * shift_outputs + 16 * warp)
                odd, upper = lane & 1, lane & 2  # see outputs_of_pixel
                pixel = i32(tile_row * pixels + me * shift_pixels + (lane >> 2) + 4 * upper)
                line = (
                    ptx_sm80.global_address(y)
                    + table[8 * number + 7]
                    + 2 * i64(group * outputs + output + 8 * odd)
                )
                for i in range(wide // 16):
                    at = i32(pixel + 16 * i)
                    to = line + i64(at) * y_column
                    if spread:
                        image, p, q = pixel_of(at, area, width)
                        to = line + i64(image) * y_image + i64(p) * y_row + i64(q) * y_column
                    for k in range(high):
                        e = k * sums + 8 * i
                        if biased:
                            for half in range(2):
                                row = output + 64 * k + 8 * half + (lane >> 2)
                                add = f32(0)
                                if row < outputs:
                                    add = load(bias[group * outputs + row])
                                for n in range(2):
                                    total[e + 4 * n + 2 * half] += add
                                    total[e + 4 * n + 2 * half + 1] += add
                        v0, v1, v2, v3 = round_outputs(total, e, lane)
                        if at < positions and output + 64 * k + 8 * odd < outputs:
                            ptx_sm80.store_global_4(to + 128 * k, v0, v1, v2, v3)
                if alternating:
                    t = i32(t + blocks)
                    if t < tiles:  # the other's tile
                        stage, phase = skip(
                            stage, phase, steps_of(table, t, product_tiles, chunks), stages
                        )
                t = i32(t + blocks)

    return conv2d_wgmma


# -------------------- planner

TILES = (
    *[Tile(128, n) for n in (64, 96, 128, 160, 192, 224, 256)],
    *[Tile(256, n) for n in (64, 96, 128)],
    *[Tile(64, n) for n in (128, 192, 256, 384)],
    *[Tile(128, n, 64, True) for n in (64, 96, 128, 160, 192)],
    *[Tile(64, n, 64, True) for n in (64, 128, 192, 256)],
)


@functools.cache
def choose_tile(
    pixels: int, outputs: int, groups: int, steps: int, depth: int, multiprocessors: int
) -> Tile:
    """The tile with which the blocks take least time, by the limits of a step and of the epilogue,
    in cycles."""

    def cost(tile: Tile) -> float:
        tiles = groups * blocks(pixels, tile.pixels) * blocks(outputs, tile.outputs)
        products = tile.outputs * tile.pixels // (64 * tile.own_pixels)  # of 64 outputs, a step
        arithmetic = tile.outputs * tile.pixels * depth / 2048
        memory = products * depth / 16 * (2048 + 32 * tile.own_pixels) + 2 * depth * (
            tile.outputs + tile.pixels
        )
        step = max(arithmetic, memory / 128, 2 * depth * (tile.outputs + tile.pixels) / 48) + 30
        epilogue = tile.outputs * tile.pixels / 10 + 600
        each = blocks(tiles, multiprocessors)
        if tile.alternating:
            return each * max(steps * step + 100, (steps * step + epilogue) / 2) + epilogue
        return each * (steps * step + epilogue)

    return min(TILES, key=cost)


def depth_of(channels: int, groups: int) -> int | None:
    """Channels a step: 64, or fewer where a group has fewer; None if a step would read another
    group's."""
    depth = next(d for d in (16, 32, 64) if channels <= d or d == 64)
    if groups > 1 and channels % depth:
        depth = next((d for d in (64, 32, 16) if channels % d == 0), 0)
    return depth or None


def launch(
    products: Sequence[Product],
    problem: Problem,
    images: ArrayArg,
    filters: ArrayArg,
    bias: ArrayArg | None,
    y: ArrayArg,
    across: bool,
    tile: Tile | None = None,
) -> list[Launch] | None:
    """The launches of products (implicit_gemm.py), or None where TMA cannot bring them. Products
    that differ in their taps alone share a launch."""
    shape, weight, dtype = problem.operands[0].shape, problem.weight.shape, problem.dtype
    groups, many = problem.groups, multiprocessors(problem.device)
    kinds: dict[Product, list[Product]] = {}
    for product in products:
        if not possible(product, shape[2:]):
            return None
        alike = product._replace(
            taps=(0, 0),
            tap=(0, 0, 0),
            offset=0,
            rows=product.rows._replace(tap=0),
            columns=product.columns._replace(tap=0),
        )
        kinds.setdefault(alike, []).append(product)
    own = shape[1] // groups  # channels summed, of a group
    outputs = weight[1] if across else weight[0] // groups
    depth = depth_of(own, groups)
    if depth is None or own % 8 or outputs % 8:
        return None
    chunks = blocks(own, depth)
    launches = []
    for first, alike in kinds.items():
        alike.sort(key=lambda product: -product.taps[0] * product.taps[1])  # long sums first
        positions = first.size[0] * first.size[1] * first.size[2]
        taps = sum(product.taps[0] * product.taps[1] for product in alike)
        best = tile or choose_tile(
            positions * len(alike), outputs, groups, blocks(taps * chunks, len(alike)), depth, many
        )
        best = best._replace(depth=depth)
        maps = [
            map_of_images(
                images,
                shape,
                (best.pixels, depth),
                reach(first, shape[2:]),
                (first.rows.step, first.columns.step),
                dtype,
            ),
            map_of_filters(filters, weight, best.outputs, depth, across, dtype),
        ]
        table = np.array(
            [
                (*product.taps, *product.tap, product.rows.tap, product.columns.tap, product.offset)
                for product in alike
            ],
            np.int32,
        )
        across_tiles = blocks(outputs, best.outputs)
        group_tiles = across_tiles * blocks(positions, best.pixels)
        tiles = group_tiles * groups * len(alike)
        numbers = [
            tiles,
            group_tiles * groups,
            group_tiles,
            across_tiles,
            positions,
            first.size[1] * first.size[2],
            first.size[2],
            first.rows.start,
            first.rows.step,
            first.columns.start,
            first.columns.step,
            chunks,
            own,
            outputs,
        ]
        last = sum((n - 1) * s for n, s in zip(first.size, first.strides, strict=True))
        in_line = tuple(
            [first.strides[2] * n for n in (first.size[1] * first.size[2], first.size[2], 1)]
        )
        launches.append(
            Launch(
                conv2d_wgmma(dtype, best, across, bias is not None, first.strides != in_line),
                min(many, tiles),
                THREADS,
                [
                    *maps,
                    filters.view((1,)) if bias is None else bias,
                    y.view((last // dtype.itemsize + outputs * groups,)),
                    Constant(table.ravel()),
                    *[np.int32(n) for n in numbers],
                    *[np.int64(n) for n in first.strides],
                ],
                best.shared,
                early=True,
            )
        )
    return launches


def forward(problem: Problem, tile: Tile | None = None) -> Plan | None:
    """x (N, G*C, H, W), weight (G*M, C, R, S), bias (G*M,) -> y (N, G*M, P, Q); None where TMA
    cannot bring the windows."""
    return implicit_gemm.forward(functools.partial(launch, tile=tile), problem)


def input_gradient(problem: Problem, tile: Tile | None = None) -> Plan | None:
    """y (N, G*M, P, Q), weight (G*M, C, R, S), bias (G*C,) -> x (N, G*C, H, W); None where TMA
    cannot bring the windows."""
    return implicit_gemm.input_gradient(functools.partial(launch, tile=tile), problem)
