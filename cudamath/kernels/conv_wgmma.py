"""Convolution on tensor cores of compute capability 9.0: TMA brings the windows, wgmma multiplies them.

The idea. Images lie channels last, so a pixel's channels are one run of memory. With a *row* of the product for each
output pixel, a *column* for each output channel, and the sum over taps (r, s) and channels c,

    y[pixel, m] = sum over (r, s) sum over c of  x[pixel's window, (r, s), c] * w[m, (r, s), c]

is a matrix product whose left-hand matrix TMA makes on the way into shared memory: in its *im2col* mode one instruction
fetches, for a run of output pixels (across the ends of rows and images), a piece of the channels under one tap, with stride,
dilation and padding, and writes zeros for what lies outside. So a step of the sum is one tap and `depth` channels: a tile
of A (pixels x depth) and a tile of B (columns x depth), both laid out as wgmma reads them.

Who does what. A block has three warpgroups. One thread of the first keeps a ring of stages filled: it waits until a
stage is empty, names the bytes it expects, and asks TMA for A and B. The two others wait until a stage is full, multiply
it, and hand it back one step later, when the multiplication has read it; so the tensor cores always have the next product
queued behind the present one. Blocks are persistent: while the sums of one tile are being stored, the stages of the next
tile are being filled.

``shared``      both multiplying warpgroups work at one tile, each on half its pixels, with the same B.
``alternating`` each has a tile of its own, and they take turns: one multiplies while the other stores. Worth its
                smaller tiles where sums are short.

The input gradient is the same product over dy (conv_simt.py tells how a stride splits it). Its B, filters along the *output*
channels, lies across the memory of w: wgmma reads it transposed, nothing is turned. The weight gradient:
conv_wgmma_grad.py.

The floor is 2 * N * K * P * Q * C * R * S operations at the tensor cores' rate (about 660 TFLOP/s sustained on an H200), or
the bytes of x, w and y, whichever takes longer: a 1 x 1 convolution of few channels is a copy.
"""

import functools
import itertools
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, types

from ..core.dtypes import bfloat16, float16
from ..core.layout import Layout
from ..core.plan import ArrayArg, Input, Launch, Plan, TensorMap
from .build import SIMULATOR, blocks, codec
from .conv_layout import Turned
from .conv_simt import Walk, residues

if not SIMULATOR:
    from . import ptx_hopper as hopper
    from . import ptx_mma

THREADS = 384
SHARED = 227 << 10           # bytes a block may have
i32, i64, f32 = types.int32, types.int64, types.float32


class Tile(NamedTuple):
    """What a block computes at a time, and from how much."""

    pixels: int              # rows: of each of two tiles if alternating
    columns: int
    depth: int               # channels a step
    alternating: bool = False

    @property
    def stage(self) -> int:
        """Bytes of A and B in a stage."""
        return 2 * self.depth * (self.pixels + self.columns)

    @property
    def stages(self) -> int:
        return min(8, (SHARED - 2048) // self.stage)

    @property
    def shared(self) -> int:
        """Dynamic shared memory: stages, two barriers each, and room to align the first."""
        return 1024 + self.stages * (self.stage + 16)


#: swizzle of rows of 2 * depth bytes -> bits of a descriptor: its code, and the distance of groups of eight rows
_SWIZZLE = {64: (1 << 62) | (1024 >> 4 << 32) | (1 << 16), 32: (2 << 62) | (512 >> 4 << 32) | (1 << 16),
            16: (3 << 62) | (256 >> 4 << 32) | (1 << 16)}


def signed(bits: int) -> int:
    """The int64 with these 64 bits."""
    return bits - (1 << 64) if bits >> 63 else bits


@functools.cache
def conv2d_wgmma(dtype: np.dtype, tile: Tile, across: bool, biased: bool) -> Any:
    """Convolution by TMA im2col and wgmma. across: filters are read across their rows (input gradient)."""
    kind = "bf16" if dtype == bfloat16 else "f16"
    pack = ptx_mma.pack_bf16 if dtype == bfloat16 else ptx_mma.pack_f16
    load = codec(dtype)[0]
    pixels, columns, depth, alternating = tile
    stages, stage_bytes = tile.stages, tile.stage
    a_bytes = 2 * depth * pixels
    own = pixels if alternating else pixels // 2            # rows of a warpgroup
    high = own // 64                                        # in tiles of 64
    sums = columns // 2                                     # registers of one of them
    count = high * sums
    steps_a = tuple(2 * i for i in range(depth // 16))      # 16 channels: 32 bytes along a swizzled row
    if across:                                              # 16 output channels: 16 rows of 128 bytes
        steps_b = tuple(128 * i for i in range(depth // 16))
        code_b = signed((1 << 62) | (1024 >> 4 << 32) | (128 * depth >> 4 << 16))
    else:
        steps_b, code_b = steps_a, signed(_SWIZZLE[depth])
    code_a, pieces = signed(_SWIZZLE[depth]), columns // 64
    multiply = [hopper.wgmma(kind, columns, steps_a, steps_b, trans_b=across, commit=i == high - 1) for i in range(high)]
    first, last = multiply[0], multiply[-1]
    step_a = 64 * 2 * depth >> 4
    wait_one, wait_all = hopper.wgmma_wait(1), hopper.wgmma_wait(0, count)
    arrivals = 1 if alternating else 2
    registers_down, registers_up = hopper.registers_down(40), hopper.registers_up(232)
    barrier_init, barrier_expect = hopper.barrier_init, hopper.barrier_expect
    barrier_arrive, barrier_wait = hopper.barrier_arrive, hopper.barrier_wait
    fence_barrier_init, load_pixels, load_filters = hopper.fence_barrier_init, hopper.tma_load_im2col_4d, hopper.tma_load_3d
    named_sync, named_arrive = hopper.named_sync, hopper.named_arrive
    shared_address, global_address = ptx_mma.shared_address, ptx_mma.global_address
    divide, exchange, store = ptx_mma.divide_unsigned, ptx_mma.shuffle_xor, ptx_mma.store_global_4

    @cuda.jit(launch_bounds=(THREADS, 1))
    def conv2d_wgmma(images, filters, bias, y, tiles, across_tiles, group_tiles, positions, area, width, row_start, row_step,
                     column_start, column_step, taps_down, taps_right, tap, tap_down, tap_right, down, right, chunks,
                     channels, outputs, y_image, y_row, y_column):
        """images: im2col tensor map of x (N, H, W, C), box (pixels, depth); filters: of w (K, R * S, C), box (columns, 1,
        depth), or if across (depth, 1, 64); bias (columns in all,) if biased; y: its memory as a line.

        tiles in all, in a row of them, in a group; positions: output pixels, area to an image, width to a row; an output
        pixel's window starts at row_start + row * row_step. Taps: how many down and right; tap: number of the first in w,
        tap_down, tap_right: to the next; down, right: distance of neighbours in x. chunks: steps to a tap; channels: of a
        group in x; outputs: columns of a group; strides of y in bytes."""
        shared = cuda.shared.array(0, types.uint8)
        base = (shared_address(shared) + i32(1023)) & i32(-1024)
        full = i32(base + stages * stage_bytes)
        empty = i32(full + 8 * stages)
        thread = i32(cuda.threadIdx.x)
        group_of_threads = thread >> 7
        if thread == 0:
            for s in range(stages):
                barrier_init(full + 8 * s, 1)
                barrier_init(empty + 8 * s, arrivals)
            fence_barrier_init()
        cuda.syncthreads()
        steps = i32(taps_down * taps_right * chunks)
        t = i32(cuda.blockIdx.x)
        blocks = i32(cuda.gridDim.x)
        if group_of_threads == 0:                          # ---------------- the one that fetches
            registers_down()
            if thread == 0:
                slot, parity = i32(0), i32(1)
                while t < tiles:
                    group = divide(t, group_tiles)
                    rest = i32(t - group * group_tiles)
                    tile_row = divide(rest, across_tiles)
                    column = i32((rest - tile_row * across_tiles) * columns)
                    at = i32(tile_row * pixels)
                    image = divide(at, area)
                    at = i32(at - image * area)
                    p = divide(at, width)
                    q = i32(at - p * width)
                    h = i32(row_start + p * row_step)
                    v = i32(column_start + q * column_step)
                    for i in range(taps_down):
                        for j in range(taps_right):
                            number = i32(tap + i * tap_down + j * tap_right)
                            for c in range(chunks):
                                barrier_wait(empty + 8 * slot, parity)
                                barrier_expect(full + 8 * slot, stage_bytes)
                                to = i32(base + slot * stage_bytes)
                                load_pixels(to, images, group * channels + c * depth, v, h, image, full + 8 * slot,
                                            j * right, i * down)
                                to = i32(to + a_bytes)
                                if across:
                                    for piece in range(pieces):
                                        load_filters(to + piece * (128 * depth), filters, column + 64 * piece, number,
                                                     group * channels + c * depth, full + 8 * slot)
                                else:
                                    load_filters(to, filters, c * depth, number, group * outputs + column, full + 8 * slot)
                                slot = i32(slot + 1)
                                if slot == stages:
                                    slot, parity = i32(0), i32(parity ^ 1)
                    t = i32(t + blocks)
        else:                                              # ---------------- those that multiply
            registers_up()
            me = i32(group_of_threads - 1)
            thread = i32(thread & 127)
            lane = thread & 31
            total = cuda.local.array(count, f32)
            done = i32(0)                                  # steps of all tiles so far
            if alternating:
                t = i32(t + me * blocks)
                done = i32(me * steps)
                if me == 1:
                    named_arrive(1, 256)
            slot = i32(types.uint32(done) % types.uint32(stages))
            parity = i32(types.uint32(done) // types.uint32(stages) & types.uint32(1))
            while t < tiles:
                for i in range(count):
                    total[i] = f32(0)
                if alternating:                            # the other one has found all its stages full
                    named_sync(1 + me, 256)
                before = i32(-1)
                for _ in range(steps):
                    barrier_wait(full + 8 * slot, parity)
                    a = i32(base + slot * stage_bytes)
                    b = i32(a + a_bytes)
                    if not alternating:
                        a = i32(a + me * (own * 2 * depth))
                    a_code = i64(a >> 4) | i64(code_a)
                    b_code = i64(b >> 4) | i64(code_b)
                    first(total, 0, a_code, b_code)
                    if high == 2:
                        last(total, sums, a_code + step_a, b_code)
                    if before >= 0:
                        wait_one()
                        if thread == 0:
                            barrier_arrive(empty + 8 * before)
                    before = slot
                    slot = i32(slot + 1)
                    if slot == stages:
                        slot, parity = i32(0), i32(parity ^ 1)
                if alternating:
                    named_arrive(2 - me, 256)
                wait_all(total, 0)
                if before >= 0 and thread == 0:
                    barrier_arrive(empty + 8 * before)

                # Four neighbouring lanes hold two columns each of every eight, of the same row; after two exchanges each
                # of them holds eight neighbouring columns, 16 bytes, of every 32.
                group = divide(t, group_tiles)
                rest = i32(t - group * group_tiles)
                tile_row = divide(rest, across_tiles)
                column = i32((rest - tile_row * across_tiles) * columns)
                odd, upper = lane & 1, lane & 2
                for half in range(2 * high):
                    part = (half >> 1) * sums + 2 * (half & 1)
                    row = i32(tile_row * pixels + (half >> 1) * 64 + (half & 1) * 8 + (thread >> 5) * 16 + (lane >> 2))
                    if not alternating:
                        row = i32(row + me * own)
                    image = divide(row, area)
                    pixel = i32(row - image * area)
                    p = divide(pixel, width)
                    to = (global_address(y) + i64(image) * y_image + i64(p) * y_row + i64(pixel - p * width) * y_column
                          + 2 * i64(group * outputs + column) + 16 * (lane & 3))
                    for k in range(columns // 32):
                        e = part + 16 * k
                        if biased:
                            for n in range(4):
                                at = i32(column + 32 * k + 8 * n + 2 * (lane & 3))
                                if at < outputs:
                                    total[e + 4 * n] += load(bias[group * outputs + at])
                                    total[e + 4 * n + 1] += load(bias[group * outputs + at + 1])
                        v0 = pack(total[e], total[e + 1])
                        v1 = pack(total[e + 4], total[e + 5])
                        v2 = pack(total[e + 8], total[e + 9])
                        v3 = pack(total[e + 12], total[e + 13])
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
                        if row < positions and column + 32 * k + 8 * (lane & 3) < outputs:
                            store(to + 64 * k, v0, v1, v2, v3)
                if alternating:
                    done = i32(done + 2 * steps)
                    slot = i32(types.uint32(done) % types.uint32(stages))
                    parity = i32(types.uint32(done) // types.uint32(stages) & types.uint32(1))
                    t = i32(t + 2 * blocks)
                else:
                    t = i32(t + blocks)

    return conv2d_wgmma


# ------------------------------------------------------------------------------------------------ planner


class Product(NamedTuple):
    """One launch: output pixels (images, rows, columns of pixels), how they lie in y, and the taps they sum."""

    size: tuple[int, int, int]
    rows: Walk                 # input row = start + row * step, of the first tap
    columns: Walk              # .tap: rows (columns) of the input from one tap to the next, not negative
    taps: tuple[int, int]      # how many down, right
    tap: tuple[int, int, int]  # number of the first in w, to the next down, right
    offset: int                # bytes, of the first pixel in y
    strides: tuple[int, int, int]


TILES = (Tile(256, 128, 64), Tile(128, 256, 64), Tile(128, 128, 64), Tile(256, 64, 64), Tile(128, 64, 64),
         Tile(128, 128, 64, True), Tile(128, 64, 64, True))
MULTIPROCESSORS = 132
#: measured: what a step of a tile costs, relative to its size; and its epilogue in steps of the largest tile
_STEP = {(256, 128, False): 1.0, (128, 256, False): 1.0, (128, 128, False): 1.15, (256, 64, False): 1.2,
         (128, 64, False): 1.5, (128, 128, True): 1.05, (128, 64, True): 1.35}
_EPILOGUE = {False: 2.4, True: 0.4}


def choose_tile(pixels: int, outputs: int, groups: int, steps: int) -> Tile:
    """The tile with which the waves of blocks take least time."""

    def cost(tile: Tile) -> float:
        tiles = groups * blocks(pixels, tile.pixels) * blocks(outputs, tile.columns)
        each = tile.pixels * tile.columns * (steps * _STEP[tile.pixels, tile.columns, tile.alternating]
                                             + _EPILOGUE[tile.alternating])
        return blocks(tiles, MULTIPROCESSORS) * each

    return min(TILES, key=cost)


def depth_of(channels: int, groups: int) -> int | None:
    """Channels a step: 64, or fewer where a group has fewer; None if a step would read another group's."""
    depth = next(d for d in (16, 32, 64) if channels <= d or d == 64)
    if groups > 1 and channels % depth:
        depth = next((d for d in (64, 32, 16) if channels % d == 0), 0)
    return depth or None


def serves(dtype: np.dtype, capability: tuple[int, int], *channels: int) -> bool:
    """Whether these kernels can be asked at all: TMA's strides are multiples of 16 bytes."""
    return dtype in (bfloat16, float16) and capability[0] == 9 and all(c % 8 == 0 and c for c in channels)


def reach(product: Product, size: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """The corners of the box of windows, as TMA wants them: of the first window, and of the last before the far edge."""
    lower = product.rows.start, product.columns.start
    upper = tuple([(product.size[1 + i] - 1) * walk.step + 1 + walk.start - size[i]
                   for i, walk in enumerate((product.rows, product.columns))])
    return lower, upper


def possible(product: Product, size: tuple[int, int]) -> bool:
    """Whether corners, steps and offsets lie within the bits that TMA has for them."""
    lower, upper = reach(product, size)
    return (all(-128 <= c <= 127 for c in (*lower, *upper)) and max(product.rows.step, product.columns.step) <= 8
            and all((n - 1) * walk.tap <= 255 for n, walk in zip(product.taps, (product.rows, product.columns), strict=True)))


def launch(product: Product, images: ArrayArg, shape: tuple[int, ...], filters: ArrayArg, weight: tuple[int, ...],
           bias: ArrayArg | None, y: ArrayArg, dtype: np.dtype, across: bool, groups: int, tile: Tile | None) -> Launch | None:
    """The launch of one product, or None where TMA cannot bring it.

    images, shape: (N, G * C, H, W) channels last; filters, weight: (K, C, R, S) channels last."""
    number, channels, height, width = shape
    own = channels // groups                                # channels summed, of a group
    outputs = weight[1] if across else weight[0] // groups
    depth = depth_of(own, groups)
    if depth is None or not possible(product, (height, width)):
        return None
    chunks = blocks(own, depth)
    positions = product.size[0] * product.size[1] * product.size[2]
    if tile is None:
        tile = choose_tile(positions, outputs, groups, product.taps[0] * product.taps[1] * chunks)
    tile = tile._replace(depth=depth)
    lower, upper = reach(product, (height, width))
    item, area = 2, weight[2] * weight[3]
    steps = (1, product.rows.step, product.columns.step, 1)
    maps = [TensorMap(images, (number, height, width, channels),
                      tuple([item * n for n in (height * width * channels, width * channels, channels, 1)]),
                      (tile.pixels, depth), 2 * depth, steps, lower, upper, dtype.name),
            TensorMap(filters, (weight[0], area, weight[1]),
                      tuple([item * n for n in (area * weight[1], weight[1], 1)]),
                      (depth, 1, 64) if across else (tile.columns, 1, depth), 128 if across else 2 * depth,
                      kind=dtype.name)]
    across_tiles = blocks(outputs, tile.columns)
    group_tiles = across_tiles * blocks(positions, tile.pixels)
    numbers = [group_tiles * groups, across_tiles, group_tiles, positions, product.size[1] * product.size[2],
               product.size[2], product.rows.start, product.rows.step, product.columns.start, product.columns.step,
               *product.taps, *product.tap, product.rows.tap, product.columns.tap, chunks, own, outputs]
    last = sum((n - 1) * s for n, s in zip(product.size, product.strides, strict=True))
    line = y.view((last // item + outputs * groups,), offset=product.offset)
    return Launch(conv2d_wgmma(dtype, tile, across, bias is not None), min(MULTIPROCESSORS, group_tiles * groups), THREADS,
                  [*maps, filters.view((1,)) if bias is None else bias, line, *[np.int32(n) for n in numbers],
                   *[np.int64(n) for n in product.strides]], tile.shared)


def conv2d(out: Layout, x: Layout, weight: Layout, bias: Layout | None = None, *, stride: tuple[int, int],
           padding: tuple[int, int, int, int], dilation: tuple[int, int], groups: int,
           tile: Tile | None = None) -> Plan | None:
    """x (N, G*C, H, W), weight (G*M, C, R, S), bias (G*M,) -> out (N, G*M, P, Q); None where it cannot be done this way."""
    turned = Turned(out, x, weight)
    walks = [Walk(-padding[2 * i], stride[i], dilation[i]) for i in (0, 1)]
    _, _, taps_down, taps_right = weight.shape
    outputs, height, width = out.shape[1:]
    product = Product((out.shape[0], height, width), *walks, (taps_down, taps_right), (0, taps_right, 1), 0,
                      tuple([2 * n for n in (height * width * outputs, width * outputs, outputs)]))
    step = launch(product, turned.operands[0], x.shape, turned.operands[1], weight.shape,
                  None if bias is None else Input(2), turned.target, x.dtype, False, groups, tile)
    if step is None:
        return None
    turned.steps.append(step)
    return turned.plan()


def conv2d_input_grad(out: Layout, grad: Layout, weight: Layout, *, stride: tuple[int, int],
                      padding: tuple[int, int, int, int], dilation: tuple[int, int], groups: int,
                      tile: Tile | None = None) -> Plan | None:
    """grad (N, G*M, P, Q), weight (G*M, C, R, S) -> out (N, G*C, H, W); None where it cannot be done this way."""
    turned = Turned(out, grad, weight)
    kernel = weight.shape[2:]
    channels, height, width = out.shape[1:]
    strides = tuple([2 * n for n in (height * width * channels, width * channels, channels)])
    axes = [residues(kernel[i], out.shape[2 + i], stride[i], padding[2 * i], dilation[i]) for i in (0, 1)]
    for (top, tall, r, rows), (left, wide, s, columns) in itertools.product(*axes):
        down, right = range(kernel[0])[r], range(kernel[1])[s]          # taps; walked backwards, so that x is forwards
        empty = not down or not right
        walks = [Walk(walk.start + walk.tap * (len(taps) - 1) if taps else 0, 1, -walk.tap)
                 for walk, taps in ((rows, down), (columns, right))]
        product = Product((out.shape[0], tall, wide), *walks, (0, 0) if empty else (len(down), len(right)),
                          (0, 0, 0) if empty else (down[-1] * kernel[1] + right[-1], -down.step * kernel[1], -right.step),
                          top * strides[1] + left * strides[2],
                          (strides[0], stride[0] * strides[1], stride[1] * strides[2]))
        step = launch(product, turned.operands[0], grad.shape, turned.operands[1], weight.shape, None, turned.target,
                      grad.dtype, True, groups, tile)
        if step is None:
            return None
        turned.steps.append(step)
    return turned.plan()
