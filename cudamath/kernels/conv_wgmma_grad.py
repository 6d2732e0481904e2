"""The weight gradient of a convolution on tensor cores of compute capability 9.0.

    dw[m, (r, s), c] = sum over pixels of  dy[pixel, m] * x[pixel's window, (r, s), c]

is a product whose sum runs over the pixels, so both its operands lie across it: dy's rows are pixels, and so are those of
the windows that TMA brings in im2col mode (conv_wgmma.py). wgmma reads 16-bit operands transposed, so nothing is
turned. A step is 64 pixels: dy for `rows` outputs, and x for `columns` / 64 *pieces* of 64 channels under one tap each.

There are few results and very many pixels: these are split over blocks, as many as fill the device. Each leaves its sums in
float32, and ``add_splits`` (conv_splits.py) adds them in a fixed order: no atomics, the same bits every time. Either kernel
begins early, while the one ahead of it ends, and waits for it inside.

Where neighbouring taps can share what is brought, conv_wgmma_taps.py is 1.3 to 1.5 times as fast. The floor is that of
conv_wgmma.py; the partial sums cost 8 * splits bytes a weight besides.
"""

import functools
from typing import Any, NamedTuple

import numpy as np

from ..core.dtypes import bfloat16, float32
from ..core.layout import Layout
from ..core.plan import Launch, Plan, TensorMap
from .build import SIMULATOR, blocks
from .conv_layout import Turned
from .conv_product import Product
from .conv_simt import Walk
from .conv_splits import add
from .conv_wgmma import MULTIPROCESSORS, SHARED, THREADS, possible, reach, signed
from .lazy import cuda, types

if not SIMULATOR:
    from . import ptx, ptx_mma
    from . import ptx_hopper as hopper

PIXELS = 64                  # a step
PIECE = 128 * PIXELS         # bytes of 64 outputs or channels of a step
CODE = signed((1 << 62) | (1024 >> 4 << 32) | (PIECE >> 4 << 16))       # descriptor: swizzle, next 8 pixels, next 64 columns
i32, i64, f32 = types.int32, types.int64, types.float32


class Tile(NamedTuple):
    """Outputs x channels-under-taps that a block sums up: rows 64 (its warpgroups share columns), 128 or 256."""

    rows: int
    columns: int

    @property
    def stage(self) -> int:
        """Bytes of a step."""
        return 2 * PIXELS * (self.rows + self.columns)

    @property
    def stages(self) -> int:
        return min(8, (SHARED - 2048) // self.stage)

    @property
    def shared(self) -> int:
        """Dynamic shared memory: stages, two barriers each, and room to align the first."""
        return 1024 + self.stages * (self.stage + 16)


@functools.cache
def conv2d_weight_wgmma(dtype: np.dtype, tile: Tile) -> Any:
    """A block sums a tile of the weight gradient over its share of the pixels."""
    kind = "bf16" if dtype == bfloat16 else "f16"
    rows, columns = tile
    stages, stage_bytes = tile.stages, tile.stage
    high = max(1, rows // 128)                              # tiles of 64 outputs a warpgroup has
    own_rows, own_columns = (0, columns // 2) if rows == 64 else (rows // 2, columns)
    sums = own_columns // 2
    count = high * sums
    rows_pieces, pieces, own_pieces = rows // 64, columns // 64, own_columns // 64
    shift_a, shift_b = (0, own_pieces * PIECE) if rows == 64 else (high * PIECE, 0)     # of the second warpgroup
    steps = tuple(128 * i for i in range(PIXELS // 16))     # 16 pixels: 16 rows of 128 bytes
    (begin_first, begin_last), (add_first, add_last) = [
        [hopper.wgmma(kind, own_columns, steps, steps, zero=zero, trans_a=True, trans_b=True, commit=i == high - 1)
         for i in (0, high - 1)] for zero in (True, False)]
    next_a = PIECE >> 4
    wait_one, wait_all = hopper.wgmma_wait(1), hopper.wgmma_wait(0, count)
    registers_down, registers_up = hopper.registers_down(40), hopper.registers_up(232)
    barrier_init, barrier_expect = hopper.barrier_init, hopper.barrier_expect
    barrier_arrive, barrier_wait = hopper.barrier_arrive, hopper.barrier_wait
    fence_barrier_init, load_pixels, load_grads = hopper.fence_barrier_init, hopper.tma_load_im2col_4d, hopper.tma_load_2d
    let_next_begin, wait_for_previous = hopper.let_next_begin, hopper.wait_for_previous
    shared_address, divide, store_vector = ptx_mma.shared_address, ptx_mma.divide_unsigned, ptx.store_vector

    @cuda.jit(launch_bounds=(THREADS, 1))
    def conv2d_weight_wgmma(grads, images, partial, tiles, group_tiles, across_tiles, share, positions, area, width,
                            row_start, row_step, column_start, column_step, taps, taps_right, down, right, chunks, channels,
                            outputs, all_outputs):
        """grads: tensor map of dy (pixels, G * M), box (PIXELS, 64); images: im2col map of x (N, H, W, G * C), box (PIXELS,
        64); partial (splits, G * M, taps, C) float32, as a line.

        tiles in all, in a group, in a row; share: pixels a split adds up, a multiple of PIXELS; positions: output pixels, area
        to an image, width to a row; window and taps as in conv2d_wgmma; chunks: pieces of 64 channels to a tap; channels and
        outputs of a group; all_outputs: G * M."""
        shared = cuda.shared.array(0, types.uint8)
        base = (shared_address(shared) + i32(1023)) & i32(-1024)
        full = i32(base + stages * stage_bytes)
        empty = i32(full + 8 * stages)
        thread = i32(cuda.threadIdx.x)
        group_of_threads = thread >> 7
        if thread == 0:
            for s in range(stages):
                barrier_init(full + 8 * s, 1)
                barrier_init(empty + 8 * s, 2)
            fence_barrier_init()
        cuda.syncthreads()
        let_next_begin()
        wait_for_previous()
        split = divide(cuda.blockIdx.x, tiles)
        rest = i32(cuda.blockIdx.x - split * tiles)
        group = divide(rest, group_tiles)
        rest = i32(rest - group * group_tiles)
        tile_row = divide(rest, across_tiles)
        piece0 = i32((rest - tile_row * across_tiles) * pieces)
        output0 = i32(tile_row * rows)
        begin = i32(split * share)
        end = i32(min(begin + share, positions))
        if group_of_threads == 0:                          # ---------------- the one that fetches
            registers_down()
            if thread == 0:
                there = i32(min(pieces, taps * chunks - piece0))
                expected = i32((rows_pieces + there) * PIECE)
                slot, parity = i32(0), i32(1)
                at = begin
                while at < end:
                    image = divide(at, area)
                    pixel = i32(at - image * area)
                    p = divide(pixel, width)
                    h = i32(row_start + p * row_step)
                    v = i32(column_start + (pixel - p * width) * column_step)
                    barrier_wait(empty + 8 * slot, parity)
                    barrier_expect(full + 8 * slot, expected)
                    to = i32(base + slot * stage_bytes)
                    for i in range(rows_pieces):
                        load_grads(to, grads, group * outputs + output0 + 64 * i, at, full + 8 * slot)
                        to = i32(to + PIECE)
                    for i in range(there):
                        tap = divide(piece0 + i, chunks)
                        r = divide(tap, taps_right)
                        load_pixels(to, images, group * channels + 64 * (piece0 + i - tap * chunks), v, h, image,
                                    full + 8 * slot, (tap - r * taps_right) * right, r * down)
                        to = i32(to + PIECE)
                    slot = i32(slot + 1)
                    if slot == stages:
                        slot, parity = i32(0), i32(parity ^ 1)
                    at = i32(at + PIXELS)
        else:                                              # ---------------- those that multiply
            registers_up()
            me = i32(group_of_threads - 1)
            thread = i32(thread & 127)
            lane = thread & 31
            total = cuda.local.array(count, f32)
            first_a = i32(base + me * shift_a)
            first_b = i32(base + rows_pieces * PIECE + me * shift_b)
            # the first step sets the sums, apart from the loop: any other write to them would make ptxas serialise wgmma
            barrier_wait(full, 0)
            begin_first(total, 0, i64(first_a >> 4) | i64(CODE), i64(first_b >> 4) | i64(CODE))
            if high == 2:
                begin_last(total, sums, (i64(first_a >> 4) | i64(CODE)) + next_a, i64(first_b >> 4) | i64(CODE))
            slot, parity, before = i32(1), i32(0), i32(0)
            at = i32(begin + PIXELS)
            while at < end:
                barrier_wait(full + 8 * slot, parity)
                a_code = i64((first_a + slot * stage_bytes) >> 4) | i64(CODE)
                b_code = i64((first_b + slot * stage_bytes) >> 4) | i64(CODE)
                add_first(total, 0, a_code, b_code)
                if high == 2:
                    add_last(total, sums, a_code + next_a, b_code)
                wait_one()
                if thread == 0:
                    barrier_arrive(empty + 8 * before)
                before = slot
                slot = i32(slot + 1)
                if slot == stages:
                    slot, parity = i32(0), i32(parity ^ 1)
                at = i32(at + PIXELS)
            wait_all(total, 0)
            for half in range(2 * high):
                row = i32(output0 + me * own_rows + (half >> 1) * 64 + (half & 1) * 8 + (thread >> 5) * 16 + (lane >> 2))
                if row < outputs:
                    line = (i64(split) * all_outputs + group * outputs + row) * taps
                    for piece in range(own_pieces):
                        number = i32(piece0 + piece)
                        if rows == 64:
                            number = i32(number + me * own_pieces)
                        tap = divide(number, chunks)
                        c = i32(64 * (number - tap * chunks) + 2 * (lane & 3))
                        if tap < taps:
                            to = (line + tap) * channels + c
                            for k in range(8):
                                e = (half >> 1) * sums + 2 * (half & 1) + 32 * piece + 4 * k
                                if c + 8 * k < channels:
                                    store_vector(partial, to + 8 * k, (total[e], total[e + 1]))

    return conv2d_weight_wgmma


# ------------------------------------------------------------------------------------------------- planner

TILES = (Tile(128, 256), Tile(128, 192), Tile(256, 128), Tile(128, 128), Tile(64, 256), Tile(64, 384), Tile(64, 512))
MOST_SPLITS = 128


def choose(outputs: int, pieces: int, groups: int, steps: int) -> tuple[Tile, int]:
    """The tile, and the number of splits, with which the blocks take least time. Pieces: of 64 channels under a tap."""

    def cost(tile: Tile, splits: int) -> float:
        tiles = groups * blocks(outputs, tile.rows) * blocks(pieces, tile.columns // 64)
        step = max(tile.rows * tile.columns / 32768, 0.75 * (tile.rows + tile.columns) / 384)  # arithmetic or loads
        waves = blocks(tiles * splits, MULTIPROCESSORS)
        return waves * step * (blocks(steps, splits) + 8) + splits * outputs * groups * pieces * 64 / 5e5

    return min(((tile, splits) for tile in TILES for splits in range(1, min(MOST_SPLITS, steps) + 1)),
               key=lambda pair: cost(*pair))


def conv2d_weight_grad(out: Layout, grad: Layout, x: Layout, *, stride: tuple[int, int],
                       padding: tuple[int, int, int, int], dilation: tuple[int, int], groups: int,
                       tile: Tile | None = None, splits: int | None = None) -> Plan | None:
    """grad (N, G*M, P, Q), x (N, G*C, H, W) -> out (G*M, C, R, S); None where it cannot be done this way."""
    turned = Turned(out, grad, x)
    images, all_outputs, tall, wide = grad.shape
    number, all_channels, height, width = x.shape
    channels, taps_down, taps_right = out.shape[1:]
    outputs = all_outputs // groups
    walks = [Walk(-padding[2 * i], stride[i], dilation[i]) for i in (0, 1)]
    product = Product((images, tall, wide), *walks, (taps_down, taps_right), (0, 0, 0), 0, (0, 0, 0))
    if channels % 8 or outputs % 8 or not possible(product, (height, width)):
        return None
    lower, upper = reach(product, (height, width))
    item, taps, chunks = out.itemsize, taps_down * taps_right, blocks(channels, 64)
    positions = images * tall * wide
    best, most = choose(outputs, taps * chunks, groups, blocks(positions, PIXELS))
    tile, splits = tile or best, splits or most
    share = blocks(blocks(positions, PIXELS), splits) * PIXELS
    splits = blocks(positions, share)
    partial = turned.temp(Layout.new((splits, out.size), float32, out.device))
    maps = [TensorMap(turned.operands[0], (positions, all_outputs), (item * all_outputs, item), (PIXELS, 64),
                      kind=grad.dtype.name),
            TensorMap(turned.operands[1], (number, height, width, all_channels),
                      tuple([item * n for n in (height * width * all_channels, width * all_channels, all_channels, 1)]),
                      (PIXELS, 64), 128, (1, *stride, 1), lower, upper, x.dtype.name)]
    across_tiles = blocks(taps * chunks, tile.columns // 64)
    group_tiles = across_tiles * blocks(outputs, tile.rows)
    numbers = [groups * group_tiles, group_tiles, across_tiles, share, positions, tall * wide, wide, walks[0].start,
               walks[0].step, walks[1].start, walks[1].step, taps, taps_right, walks[0].tap, walks[1].tap, chunks, channels,
               outputs, all_outputs]
    turned.steps += [
        Launch(conv2d_weight_wgmma(grad.dtype, tile), groups * group_tiles * splits, THREADS,
               [*maps, partial.flat, *[np.int32(n) for n in numbers]], tile.shared, early=True),
        add(out, splits, partial.flat, turned.target.view((out.size,)), early=True)]
    return turned.plan()
