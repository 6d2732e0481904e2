"""Convolution on tensor cores of compute capability 9.0, with filters small enough to stay in
shared memory.

fprop_dgrad_sm90.py loads a tile of filters and one of pixels for every step: 40 KiB for 770 cycles
of multiplication, about the bandwidth of the second-level cache. Two changes save most of these
loads where there are few channels and outputs:

- All filters stay in shared memory. Each persistent block loads them once, as its first tile needs
  them: 128 outputs x 9 taps x 64 channels, or half as many outputs of twice the channels, are 144
  KiB.
- The taps of a row share their pixels. Pixels are rows of 128 bytes (64 channels). Neighbouring
  taps see the same pixels, shifted by one, so a run of (pixels + 2) serves three taps: wgmma begins
  one row further. Runs cross the ends of rows. wgrad_sm90_shared_taps.py explains why that does no
  harm if rows of results are walked as if they were longer (`more`). The pixels beyond their edge
  are computed and not stored.

A step is then a row of taps: 25 KiB for 2,300 cycles. The two consumer warpgroups have a tile each
and alternate: one multiplies while the other stores, as in fprop_dgrad_sm90.py's ``alternating``.
The size of tiles is chosen so that the last turn is not left to a few blocks.

(Filters of 288 KiB, of which neighbouring blocks kept a half each and read the same pixels, took as
long as fprop_dgrad_sm90.py.)
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.dispatch.arguments import ArrayArg
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import bfloat16
from ...runtime.device import multiprocessors
from ..compiler.lazy_numba import SIMULATOR, cuda, types
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
    possible,
    reach,
    skip,
)

if not SIMULATOR:
    from ..lib import tma_pipeline
    from ..ptx import sm80 as ptx_sm80
    from ..ptx import sm90 as ptx

CHANNELS = 64  # of a step: rows of 128 bytes in shared memory
PIECE = 128 * 64  # bytes of 64 outputs under one tap
i32, i64, f32 = types.int32, types.int64, types.float32


class Tile(NamedTuple):
    """The results that a warpgroup computes at a time: outputs (64 or 128, all there are) x
    pixels; taps of a filter; chunks of CHANNELS channels; apart: pixels from one tap of a row to
    the next."""

    outputs: int
    pixels: int
    taps: tuple[int, int]
    chunks: int
    apart: int = 1

    @property
    def run(self) -> int:
        """Pixels that the taps of a row see."""
        return self.pixels + (self.taps[1] - 1) * self.apart

    @property
    def stage(self) -> int:
        """Bytes of a run, in groups of eight pixels."""
        return 1024 * blocks(self.run, 8)

    @property
    def resident(self) -> int:
        """Bytes of all filters."""
        return 2 * CHANNELS * self.outputs * self.taps[0] * self.taps[1] * self.chunks

    @property
    def stages(self) -> int:
        """How many there is room for."""
        return tma_pipeline.ring_stages(self.stage, self.resident)

    @property
    def shared(self) -> int:
        """Dynamic shared memory; a barrier for each step's filters besides."""
        return (
            tma_pipeline.ring_bytes(self.stage, self.stages, self.resident)
            + 8 * self.taps[0] * self.chunks
        )


@functools.cache
def conv2d_wgmma_kept(dtype: np.dtype, tile: Tile, across: bool) -> Any:
    """Convolution with resident filters. across: these are read across their rows (input
    gradient)."""
    kind = "bf16" if dtype == bfloat16 else "f16"
    rows, pixels, (taps_down, taps_right), chunks, apart = tile
    stages, stage_bytes, resident_bytes, run_bytes = (
        tile.stages,
        tile.stage,
        tile.resident,
        128 * tile.run,
    )
    high, sums, pieces = rows // 64, pixels // 2, rows // 64
    count = high * sums
    filter_bytes = pieces * PIECE
    steps_a, steps_b = [
        tma_pipeline.descriptor_steps(transposed, CHANNELS // 16) for transposed in (across, False)
    ]
    base_b = tma_pipeline.descriptor_base()
    base_a = tma_pipeline.descriptor_base(PIECE) if across else base_b
    add, add_last = [
        ptx.wgmma(kind, pixels, steps_a, steps_b, trans_a=across, commit=commit)
        for commit in (False, True)
    ]
    low = PIECE >> 4  # to the second 64 outputs
    next_a, last_a = filter_bytes >> 4, (taps_right - 1) * filter_bytes >> 4
    next_b, last_b = 128 * apart >> 4, (taps_right - 1) * 128 * apart >> 4
    wait_before, wait_all = (
        ptx.wgmma_wait(high),
        ptx.wgmma_wait(0, count),
    )  # a step is `high` groups
    registers_down, registers_up = ptx.registers_down(40), ptx.registers_up(232)
    round_outputs = outputs_of_pixel(dtype)

    @cuda.jit(launch_bounds=(THREADS, 1))
    def conv2d_wgmma_kept(
        images,
        filters,
        y,
        tiles,
        positions,
        area,
        width,
        real,
        row_start,
        column_start,
        first_tap,
        tap_down,
        tap_right,
        down,
        steps,
        outputs,
        y_image,
        y_row,
        y_column,
    ):
        """images: im2col tensor map of x (N, H, W, C), box (tile.run, CHANNELS); filters: of w (K,
        R * S, C), box (outputs of a tile, 1, CHANNELS), or if across (CHANNELS, 1, 64); y: its
        memory as a line.

        positions: of results and of those beyond their edge, area to an image, width to a row, of
        which `real` are there; a window starts at row_start + row, column_start + column; number in
        w of the first tap, of the next down, right; down: rows between taps; steps: taps_down *
        chunks, not known to the compiler, which would write the loop out and then serialise its
        products; strides of y in bytes."""
        base = tma_pipeline.first_tile(cuda.shared.array(0, types.uint8))
        resident = i32(base + stages * stage_bytes)
        full = i32(resident + resident_bytes)
        ready = i32(full + 16 * stages)
        thread = i32(cuda.threadIdx.x)
        group_of_threads = thread >> 7
        if thread == 0:
            for i in range(taps_down * chunks):
                ptx.barrier_init(ready + 8 * i, 1)
            tma_pipeline.make_ring(full, stages, 1, 1)
        cuda.syncthreads()
        ptx.let_next_begin()
        ptx.wait_for_previous()
        t = i32(cuda.blockIdx.x)
        blocks = i32(cuda.gridDim.x)
        if group_of_threads == 0:  # ---------------- the one that fetches
            registers_down()
            if thread == 0:
                stage, phase, to, there = i32(0), i32(1), resident, ready
                while t < tiles:
                    image, p, q = pixel_of(i32(t * pixels), area, width)
                    h, v = i32(row_start + p), i32(column_start + q)
                    for i in range(taps_down):
                        for c in range(chunks):
                            if (
                                there < ready + 8 * steps
                            ):  # the first tile: this step's filters, which stay
                                ptx.barrier_expect(there, taps_right * filter_bytes)
                                for j in range(taps_right):
                                    tap = i32(first_tap + i * tap_down + j * tap_right)
                                    if across:
                                        for k in range(pieces):
                                            ptx.tma_load_3d(
                                                to + k * PIECE,
                                                filters,
                                                64 * k,
                                                tap,
                                                CHANNELS * c,
                                                there,
                                            )
                                    else:
                                        ptx.tma_load_3d(to, filters, CHANNELS * c, tap, 0, there)
                                    to = i32(to + filter_bytes)
                                there = i32(there + 8)
                            barrier = tma_pipeline.refill(full, stages, stage, phase, run_bytes)
                            ptx.tma_load_im2col_4d(
                                base + stage * stage_bytes,
                                images,
                                CHANNELS * c,
                                v,
                                h,
                                image,
                                barrier,
                                0,
                                i * down,
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
            if me == 1:
                ptx.named_arrive(1, 256)
                stage, phase = skip(stage, phase, steps, stages)
                t = i32(t + blocks)
            while t < tiles:
                for i in range(count):
                    total[i] = f32(0)
                ptx.named_sync(1 + me, 256)  # the other one has multiplied all its stages
                before, a = i32(-1), resident
                for step in range(i32(steps)):
                    ptx.barrier_wait(ready + 8 * step, 0)
                    ptx.barrier_wait(full + 8 * stage, phase)
                    filters_here = tma_pipeline.descriptor(a, base_a)
                    pixels_here = tma_pipeline.descriptor(i32(base + stage * stage_bytes), base_b)
                    add(total, 0, filters_here, pixels_here)
                    if taps_right == 3:
                        add(total, 0, filters_here + next_a, pixels_here + next_b)
                    add_last(total, 0, filters_here + last_a, pixels_here + last_b)
                    if high == 2:
                        add(total, sums, filters_here + low, pixels_here)
                        if taps_right == 3:
                            add(total, sums, filters_here + next_a + low, pixels_here + next_b)
                        add_last(total, sums, filters_here + last_a + low, pixels_here + last_b)
                    a = i32(a + taps_right * filter_bytes)
                    if before >= 0:
                        wait_before()
                        tma_pipeline.release(full, stages, before, thread)
                    before = stage
                    stage, phase = tma_pipeline.advance(stage, phase, stages)
                ptx.named_arrive(2 - me, 256)
                wait_all(total, 0)
                tma_pipeline.release(full, stages, before, thread)
                odd, upper = lane & 1, lane & 2  # see outputs_of_pixel
                output = i32(16 * warp + 8 * odd)
                line = ptx_sm80.global_address(y) + 2 * i64(output)
                for i in range(pixels // 16):
                    at = i32(t * pixels + (lane >> 2) + 4 * upper + 16 * i)
                    image, p, q = pixel_of(at, area, width)
                    to = line + i64(image) * y_image + i64(p) * y_row + i64(q) * y_column
                    for k in range(high):
                        v0, v1, v2, v3 = round_outputs(total, k * sums + 8 * i, lane)
                        if at < positions and q < real and output + 64 * k < outputs:
                            ptx_sm80.store_global_4(to + 128 * k, v0, v1, v2, v3)
                stage, phase = skip(stage, phase, steps, stages)  # the other's tile
                t = i32(t + 2 * blocks)

    return conv2d_wgmma_kept


# -------------------- planner

#: Pixels of a tile, by its outputs: no more fit into a warpgroup's registers, or fewer were faster.
PIXELS = {64: 256, 128: 160}
#: Tiles for each multiprocessor from which on loading all filters pays: two for each warpgroup.
LEAST_TILES = 4


def choose(outputs: int, positions: int, multiprocessors: int) -> int:
    """Pixels of a tile with which the blocks take least time. A last turn in which few blocks have
    work is lost. A turn also costs as much as 36 pixels: reading filters from shared memory, and
    the change between warpgroups."""
    sizes = range(PIXELS[outputs], PIXELS[outputs] * 5 // 8, -16)
    return min(
        sizes, key=lambda pixels: blocks(blocks(positions, pixels), multiprocessors) * (pixels + 36)
    )


def launch(
    products: Sequence[Product],
    problem: Problem,
    images: ArrayArg,
    filters: ArrayArg,
    bias: ArrayArg | None,
    y: ArrayArg,
    across: bool,
    pixels: int | None = None,
) -> list[Launch] | None:
    """The launch of a product (implicit_gemm.py). None where shared memory has no room for the
    filters, TMA cannot bring the windows, or there are too few tiles. With `pixels` of a tile, any
    number of tiles will do."""
    shape, weight, dtype = problem.operands[0].shape, problem.weight.shape, problem.dtype
    many = multiprocessors(problem.device)
    product, (number, channels, height, width) = products[0], shape
    outputs = weight[1] if across else weight[0]
    apart = product.columns.tap
    if (
        len(products) > 1
        or problem.groups > 1
        or bias is not None
        or channels % CHANNELS
        or outputs % 8
        or outputs > 128
        or product.taps[1] not in (2, 3)
        or product.rows.step != 1
        or product.columns.step != 1
        or apart > 8
    ):
        return None
    reached = (product.taps[1] - 1) * apart  # from the first tap of a row to its last
    beyond = product.size[2] + product.columns.start + reached - width
    more = max(0, reached - min(-product.columns.start, beyond))
    real = product.size[2]
    product = product._replace(size=(*product.size[:2], real + more))
    area = product.size[1] * product.size[2]
    positions = number * area
    rows = 64 if outputs <= 64 else 128
    best = pixels or choose(rows, positions, many)
    tile = Tile(rows, best, product.taps, channels // CHANNELS, apart)
    if tile.stages < 2 or more > 127 or not possible(product, (height, width)):
        return None
    tiles = blocks(positions, tile.pixels)
    if pixels is None and tiles < LEAST_TILES * many:
        return None
    maps = [
        map_of_images(
            images, shape, (tile.run, CHANNELS), reach(product, (height, width)), (1, 1), dtype
        ),
        map_of_filters(filters, weight, rows, CHANNELS, across, dtype),
    ]
    numbers = [
        tiles,
        positions,
        area,
        product.size[2],
        real,
        product.rows.start,
        product.columns.start,
        *product.tap,
        product.rows.tap,
        product.taps[0] * tile.chunks,
        outputs,
    ]
    size = product.offset // dtype.itemsize + product.size[0] * product.size[1] * real * outputs
    return [
        Launch(
            conv2d_wgmma_kept(dtype, tile, across),
            min(many, tiles),
            THREADS,
            [
                *maps,
                y.view((size,)),
                *[np.int32(n) for n in numbers],
                *[np.int64(n) for n in product.strides],
            ],
            tile.shared,
            early=True,
        )
    ]


def forward(problem: Problem, pixels: int | None = None) -> Plan | None:
    """x (N, C, H, W), weight (M, C, R, S) -> y (N, M, P, Q); None: see `launch`."""
    return implicit_gemm.forward(functools.partial(launch, pixels=pixels), problem)


def input_gradient(problem: Problem, pixels: int | None = None) -> Plan | None:
    """y (N, M, P, Q), weight (M, C, R, S), bias (C,) -> x (N, C, H, W); None: see `launch`."""
    return implicit_gemm.input_gradient(functools.partial(launch, pixels=pixels), problem)
