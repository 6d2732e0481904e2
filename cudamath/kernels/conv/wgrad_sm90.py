"""The weight gradient of a convolution on tensor cores of compute capability 9.0.

    dw[m, (r, s), c] = sum over pixels of  dy[pixel, m] * x[pixel's window, (r, s), c]

is a product whose sum runs over the pixels, so both its operands lie across it: dy's rows are
pixels, and so are those of the windows that TMA loads in im2col mode (fprop_dgrad_sm90.py). wgmma
reads 16-bit operands transposed, so nothing is copied. A step is 64 pixels: dy for `rows` outputs,
and x for `columns` / 64 *pieces* of 64 channels under one tap each.

There are few results and very many pixels: these are split over blocks, as many as fill the device.
Each block leaves its sums in float32, and ``add_splits`` (lib/split_k_reduce.py) adds them in a
fixed order: no atomics, the same bits every time. Either kernel is launched early, while the one
ahead of it ends, and waits for its memory inside.

Where neighbouring taps can share their loads, wgrad_sm90_shared_taps.py is 1.3 to 1.5 times as
fast. The floor is that of fprop_dgrad_sm90.py; the partial sums cost 8 * splits bytes a weight
besides.
"""

import functools
from typing import Any, NamedTuple

import numpy as np

from ...core.dispatch.arguments import TensorMap
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import bfloat16, float32
from ...core.layout import Layout
from ...runtime.device import multiprocessors
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..copy.channels_last import ReorderedPlan
from ..lib.integers import blocks
from ..lib.split_k_reduce import add
from .geometry import Walk
from .implicit_gemm import Product
from .problem import Problem
from .tiles_sm90 import THREADS, map_of_images, pixel_of, place_of, possible, reach, store_channels

if not SIMULATOR:
    from ..lib import tma_pipeline
    from ..ptx import sm80 as ptx_sm80
    from ..ptx import sm90 as ptx

PIXELS = 64  # a step
PIECE = 128 * PIXELS  # bytes of 64 outputs or channels of a step
i32, i64, f32 = types.int32, types.int64, types.float32


class Tile(NamedTuple):
    """Outputs x channels-under-taps that a block sums up: rows 64 (its warpgroups share columns),
    128 or 256."""

    rows: int
    columns: int

    @property
    def stage(self) -> int:
        """Bytes of a step."""
        return 2 * PIXELS * (self.rows + self.columns)

    @property
    def stages(self) -> int:
        """In the ring."""
        return tma_pipeline.ring_stages(self.stage)

    @property
    def shared(self) -> int:
        """Dynamic shared memory."""
        return tma_pipeline.ring_bytes(self.stage, self.stages)


def sum_of_steps(
    kind: str,
    products: list[tuple[int, int, int, int]],
    lead_a: int,
    lead_b: int,
    stages: int,
    stage_bytes: int,
) -> Any:
    """A device function that adds up a warpgroup's products of gradients and pixels, as they come
    through the ring: (sums, `full` of the ring, addresses of gradients and pixels in its first
    stage, first pixel, the one behind the last, thread).

    products: one or two of a step: columns, place of the sums, offsets of the descriptors of
    gradients and pixels; lead: see tma_pipeline.descriptor_base. Both operands lie across the
    sum."""
    steps = tma_pipeline.descriptor_steps(True, PIXELS // 16)
    base_a, base_b = tma_pipeline.descriptor_base(lead_a), tma_pipeline.descriptor_base(lead_b)
    two, (_, second, next_a, next_b) = len(products) == 2, products[-1]
    (set_first, set_last), (add_first, add_last) = [
        [
            ptx.wgmma(
                kind,
                product[0],
                steps,
                steps,
                zero=zero,
                trans_a=True,
                trans_b=True,
                commit=product == products[-1],
            )
            for product in (products[0], products[-1])
        ]
        for zero in (True, False)
    ]
    wait_one, wait_all = (
        ptx.wgmma_wait(1),
        ptx.wgmma_wait(0, sum(product[0] for product in products) // 2),
    )

    @device_function
    def sum_of_steps(sums, full, first_a, first_b, begin, end, thread):
        # the first step sets the sums, apart from the loop: any other write to them would make
        # ptxas serialise wgmma
        ptx.barrier_wait(full, 0)
        grads, pixels = (
            tma_pipeline.descriptor(first_a, base_a),
            tma_pipeline.descriptor(first_b, base_b),
        )
        set_first(sums, 0, grads, pixels)
        if two:
            set_last(sums, second, grads + next_a, pixels + next_b)
        stage, phase, before = i32(1), i32(0), i32(0)
        at = i32(begin + PIXELS)
        while at < end:
            ptx.barrier_wait(full + 8 * stage, phase)
            grads = tma_pipeline.descriptor(i32(first_a + stage * stage_bytes), base_a)
            pixels = tma_pipeline.descriptor(i32(first_b + stage * stage_bytes), base_b)
            add_first(sums, 0, grads, pixels)
            if two:
                add_last(sums, second, grads + next_a, pixels + next_b)
            wait_one()
            tma_pipeline.release(full, stages, before, thread)
            before = stage
            stage, phase = tma_pipeline.advance(stage, phase, stages)
            at = i32(at + PIXELS)
        wait_all(sums, 0)

    return sum_of_steps


@functools.cache
def conv2d_weight_wgmma(dtype: np.dtype, tile: Tile) -> Any:
    """A block sums a tile of the weight gradient over its share of the pixels."""
    kind = "bf16" if dtype == bfloat16 else "f16"
    rows, columns = tile
    stages, stage_bytes = tile.stages, tile.stage
    high = max(1, rows // 128)  # tiles of 64 outputs a warpgroup has
    own_rows, own_columns = (0, columns // 2) if rows == 64 else (rows // 2, columns)
    sums = own_columns // 2
    count = high * sums
    rows_pieces, pieces, own_pieces = rows // 64, columns // 64, own_columns // 64
    shift_a, shift_b = (
        (0, own_pieces * PIECE) if rows == 64 else (high * PIECE, 0)
    )  # of the second warpgroup
    products = [(own_columns, i * sums, i * (PIECE >> 4), 0) for i in range(high)]
    add_steps = sum_of_steps(kind, products, PIECE, PIECE, stages, stage_bytes)
    registers_down, registers_up = ptx.registers_down(40), ptx.registers_up(232)
    divide = ptx_sm80.divide_unsigned

    @cuda.jit(launch_bounds=(THREADS, 1))
    def conv2d_weight_wgmma(
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
        chunks,
        channels,
        outputs,
        all_outputs,
    ):
        """grads: tensor map of dy (pixels, G * M), box (PIXELS, 64); images: im2col map of x (N, H,
        W, G * C), box (PIXELS, 64); partial (splits, G * M, taps, C) float32, as a line.

        tiles in all, in a group, in a row; share: pixels a split adds up, a multiple of PIXELS;
        positions: output pixels, area to an image, width to a row; window and taps as in
        conv2d_wgmma; chunks: pieces of 64 channels to a tap; channels and outputs of a group;
        all_outputs: G * M."""
        base = tma_pipeline.first_tile(cuda.shared.array(0, types.uint8))
        full = i32(base + stages * stage_bytes)
        thread = i32(cuda.threadIdx.x)
        group_of_threads = thread >> 7
        if thread == 0:
            tma_pipeline.make_ring(full, stages, 1, 2)
        cuda.syncthreads()
        ptx.let_next_begin()
        ptx.wait_for_previous()
        split, group, tile_row, tile_column = place_of(
            cuda.blockIdx.x, tiles, group_tiles, across_tiles
        )
        piece0 = i32(tile_column * pieces)
        output0 = i32(tile_row * rows)
        begin = i32(split * share)
        end = i32(min(begin + share, positions))
        if group_of_threads == 0:  # ---------------- the one that fetches
            registers_down()
            if thread == 0:
                there = i32(min(pieces, taps * chunks - piece0))
                expected = i32((rows_pieces + there) * PIECE)
                stage, phase = i32(0), i32(1)
                at = begin
                while at < end:
                    image, p, q = pixel_of(at, area, width)
                    h, v = i32(row_start + p * row_step), i32(column_start + q * column_step)
                    barrier = tma_pipeline.refill(full, stages, stage, phase, expected)
                    to = i32(base + stage * stage_bytes)
                    for i in range(rows_pieces):
                        ptx.tma_load_2d(to, grads, group * outputs + output0 + 64 * i, at, barrier)
                        to = i32(to + PIECE)
                    for i in range(there):
                        tap = divide(piece0 + i, chunks)
                        r = divide(tap, taps_right)
                        ptx.tma_load_im2col_4d(
                            to,
                            images,
                            group * channels + 64 * (piece0 + i - tap * chunks),
                            v,
                            h,
                            image,
                            barrier,
                            (tap - r * taps_right) * right,
                            r * down,
                        )
                        to = i32(to + PIECE)
                    stage, phase = tma_pipeline.advance(stage, phase, stages)
                    at = i32(at + PIXELS)
        else:  # ---------------- those that multiply
            registers_up()
            me = i32(group_of_threads - 1)
            thread = i32(thread & 127)
            lane = thread & 31
            total = cuda.local.array(count, f32)
            first_a = i32(base + me * shift_a)
            first_b = i32(base + rows_pieces * PIECE + me * shift_b)
            add_steps(total, full, first_a, first_b, begin, end, thread)
            for half in range(2 * high):
                row = i32(
                    output0
                    + me * own_rows
                    + (half >> 1) * 64
                    + (half & 1) * 8
                    + (thread >> 5) * 16
                    + (lane >> 2)
                )
                if row < outputs:
                    line = (i64(split) * all_outputs + group * outputs + row) * taps
                    for piece in range(own_pieces):
                        number = i32(piece0 + piece)
                        if rows == 64:
                            number = i32(number + me * own_pieces)
                        tap = divide(number, chunks)
                        c = i32(64 * (number - tap * chunks) + 2 * (lane & 3))
                        if tap < taps:
                            store_channels(
                                partial,
                                (line + tap) * channels + c,
                                total,
                                (half >> 1) * sums + 2 * (half & 1) + 32 * piece,
                                c,
                                channels,
                            )

    return conv2d_weight_wgmma


# -------------------- planner

TILES = (
    Tile(128, 256),
    Tile(128, 192),
    Tile(256, 128),
    Tile(128, 128),
    Tile(64, 256),
    Tile(64, 384),
    Tile(64, 512),
)
MOST_SPLITS = 128


@functools.cache
def choose(outputs: int, pieces: int, groups: int, steps: int, many: int) -> tuple[Tile, int]:
    """The tile, and the number of splits, with which the blocks take least time. pieces: of 64
    channels under a tap; many: multiprocessors."""

    def cost(tile: Tile, splits: int) -> float:
        tiles = groups * blocks(outputs, tile.rows) * blocks(pieces, tile.columns // 64)
        step = max(
            tile.rows * tile.columns / 32768, 0.75 * (tile.rows + tile.columns) / 384
        )  # arithmetic or loads
        waves = blocks(tiles * splits, many)
        return (
            waves * step * (blocks(steps, splits) + 8)
            + splits * outputs * groups * pieces * 64 / 5e5
        )

    return min(
        ((tile, splits) for tile in TILES for splits in range(1, min(MOST_SPLITS, steps) + 1)),
        key=lambda pair: cost(*pair),
    )


def weight_gradient(
    problem: Problem, tile: Tile | None = None, splits: int | None = None
) -> Plan | None:
    """y (N, G*M, P, Q), x (N, G*C, H, W) -> weight (G*M, C, R, S); None where TMA cannot bring the
    windows."""
    grad, x, out = problem.y, problem.x, problem.weight
    stride, padding, dilation = problem.stride, problem.padding, problem.dilation
    groups = problem.groups
    plan = ReorderedPlan(out, grad, x)
    images, all_outputs, tall, wide = grad.shape
    height, width = x.shape[2:]
    channels, taps_down, taps_right = out.shape[1:]
    outputs = all_outputs // groups
    walks = [Walk(-padding[2 * i], stride[i], dilation[i]) for i in (0, 1)]
    product = Product(
        (images, tall, wide), *walks, (taps_down, taps_right), (0, 0, 0), 0, (0, 0, 0)
    )
    if channels % 8 or outputs % 8 or not possible(product, (height, width)):
        return None
    taps, chunks = taps_down * taps_right, blocks(channels, 64)
    positions = images * tall * wide
    best, most = choose(
        outputs,
        taps * chunks,
        groups,
        blocks(positions, PIXELS),
        multiprocessors(problem.device),
    )
    tile, splits = tile or best, splits or most
    share = blocks(blocks(positions, PIXELS), splits) * PIXELS
    splits = blocks(positions, share)
    partial = plan.temp(Layout.new((splits, out.size), float32, out.device))
    maps = [
        TensorMap(
            plan.operands[0], (positions, all_outputs), None, (PIXELS, 64), kind=grad.dtype.name
        ),
        map_of_images(
            plan.operands[1],
            x.shape,
            (PIXELS, 64),
            reach(product, (height, width)),
            stride,
            x.dtype,
        ),
    ]
    across_tiles = blocks(taps * chunks, tile.columns // 64)
    group_tiles = across_tiles * blocks(outputs, tile.rows)
    numbers = [
        groups * group_tiles,
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
        chunks,
        channels,
        outputs,
        all_outputs,
    ]
    plan.steps += [
        Launch(
            conv2d_weight_wgmma(grad.dtype, tile),
            groups * group_tiles * splits,
            THREADS,
            [*maps, partial.flat, *[np.int32(n) for n in numbers]],
            tile.shared,
            early=True,
        ),
        add(out, splits, partial.flat, plan.target.view((out.size,)), early=True),
    ]
    return plan.build()
