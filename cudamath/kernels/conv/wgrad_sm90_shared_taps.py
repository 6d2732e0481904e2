"""The weight gradient of a convolution on tensor cores of compute capability 9.0, where the taps of
a row share their pixels.

The product is that of wgrad_sm90.py. But that kernel loads the windows of every tap separately, and
so it reads x as often as there are taps: with tiles of 128 outputs x 192 channels-under-taps 40 KiB
per step of 64 pixels, for which the multiplication takes some 770 cycles. That exceeds the
bandwidth of the second-level cache and, together with the reads of wgmma, that of shared memory.
Neighbouring taps of a row, however, see the same pixels, shifted by one:

    tap        0        1        2
    pixels  q .. q+63  q+1 .. q+64  q+2 .. q+65

so one run of 64 + 2 pixels serves all three. In shared memory a pixel's 64 channels are a row of
128 bytes. wgmma's descriptor says where the columns from 64 on lie, as a distance from the first
64: here not the size of a piece, but *one row*, 128 bytes (times the dilation). The swizzle depends
on a row's address, so this is allowed. A step brings 25 KiB.

Runs of pixels cross the ends of rows. There the pixel after the last one must be one beyond the
edge, a zero, and not the first of the next row. Therefore rows of results are walked as if they
were longer (`more`): TMA loads zeros for gradients beyond their edge, and the pixel beyond the
right edge of one row of x serves as the one before the left edge of the next. This costs (Q + more)
/ Q of the time: 4 % for rows of 28. An infinity or NaN of x meets those zeros, so it may reach all
taps of its channel, not only those whose sums contain it.

With a stride of 2 along rows, every second tap shares its pixels: taps 0 and 2 one run, tap 1 (and
3) another. A step is then two products side by side. Larger strides: wgrad_sm90.py.

With more than 64 outputs a block has 128, 64 for each of the two consumer warpgroups. With up to 64
there is a consumer warpgroup for each *row* of taps: two or three that share the gradients, each
with runs of its own, 35 KiB for 1,150 cycles.

Where filters are many and pixels few, writing and reading the partial sums is expensive: 2 x 9 MB
for 512 x 512 filters. Then two blocks are a *pair*, a cluster: each sums up half of the positions,
and adds the sums of both for half of the columns (wgrad_sm90_pointwise.py). Or, if there are enough
blocks, one block sums up all positions and stores the result. Then no float32 sums go through
memory, and there is no second kernel. (Clusters of 4 and 8 blocks: the device has no room for 128
such blocks at a time, and they took 1.1 to 2 times as long as partial sums do.)
"""

import functools
from typing import Any, NamedTuple

import numpy as np

from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import bfloat16, float32
from ...core.layout import Layout
from ...runtime.device import multiprocessors
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..copy.channels_last import ReorderedPlan
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.split_k_reduce import add
from .geometry import Walk
from .implicit_gemm import Product
from .problem import Problem
from .tiles_sm90 import map_of_images, pixel_of, place_of, possible, reach, store_channels
from .wgrad_sm90 import MOST_SPLITS, PIECE, PIXELS, sum_of_steps
from .wgrad_sm90_pointwise import swap_halves

if not SIMULATOR:
    from ..lib import tma_pipeline
    from ..lib.cluster_exchange import cluster_arrive, cluster_wait
    from ..ptx import sm80 as ptx_sm80
    from ..ptx import sm90 as ptx
    from ..ptx.vector_access import store_vector

i32, i64, f32 = types.int32, types.int64, types.float32
PAIR = 3  # time in which two blocks add their sums, in the units of `choose`
MOST_TAPS = 4  # 64 channels under each: the columns of a wgmma


class Tile(NamedTuple):
    """The sums of a block: 128 outputs x the taps of a row, or 64 outputs x those of all `rows`, 2
    or 3; all with the same 64 channels. apart: dilation; stride: also the number of runs of pixels
    for a row of taps, 1 or 2. paired: two blocks, a cluster, sum up half the positions each,
    and add their sums themselves. whole: one block sums up all."""

    taps: int
    apart: int = 1
    stride: int = 1
    rows: int = 1
    paired: bool = False
    whole: bool = False

    @property
    def outputs(self) -> int:
        return 128 if self.rows == 1 else 64

    @property
    def consumers(self) -> int:
        """Warpgroups that multiply."""
        return max(2, self.rows)

    @property
    def threads(self) -> int:
        """With those of the warpgroup that fetches."""
        return 128 * (1 + self.consumers)

    @property
    def pixels(self) -> int:
        """Of x in a run, that the first tap and those that share with it see for 64 results."""
        return PIXELS + (blocks(self.taps, self.stride) - 1) * self.apart

    @property
    def run(self) -> int:
        """Bytes of a run of pixels, in groups of eight."""
        return 1024 * blocks(self.pixels, 8)

    @property
    def stage(self) -> int:
        """Bytes of a step: gradients and runs."""
        return 2 * PIXELS * self.outputs + self.rows * self.stride * self.run

    @property
    def stages(self) -> int:
        """In the ring."""
        return tma_pipeline.ring_stages(self.stage, self.exchange)

    @property
    def received(self) -> int:
        """Bytes that come from the other block of a pair for a warpgroup: half its sums."""
        return 8192 * self.taps

    @property
    def exchange(self) -> int:
        """Bytes besides the ring: the other block's sums, and a barrier for each warpgroup."""
        return self.consumers * (self.received + 8) if self.paired else 0

    @property
    def shared(self) -> int:
        """Dynamic shared memory."""
        return tma_pipeline.ring_bytes(self.stage, self.stages, self.exchange)


@functools.cache
def store_weights(dtype: np.dtype) -> Any:
    """A device function that rounds and stores a pair of weights where there is such a channel:
    (weights as a line, place, channel, channels, a, b)."""
    store = codec(dtype)[1]

    @device_function
    def store_weights(weights, to, channel, channels, a, b):
        if channel < channels:
            store_vector(weights, to, (store(a), store(b)))

    return store_weights


@functools.cache
def conv2d_weight_wgmma_taps(dtype: np.dtype, tile: Tile) -> Any:
    """A block sums a tile of the weight gradient, outputs x the taps of a row, over its share of
    the pixels. `partial` has the dtype of the weights if paired or whole, else float32."""
    kind = "bf16" if dtype == bfloat16 else "f16"
    taps_right, apart, stride, rows, paired, whole = tile
    stages, stage_bytes, run_bytes = tile.stages, tile.stage, tile.run
    first_run = blocks(taps_right, stride)  # taps
    count = 32 * taps_right  # registers of the sums
    pieces, consumers, own_outputs = tile.outputs // 64, tile.consumers, tile.outputs
    expected = pieces * PIECE + rows * stride * 128 * tile.pixels
    # from warpgroup to warpgroup: the next 64 outputs, or the next row of taps
    shift_outputs, shift_a, shift_r, shift_b = (
        (64, PIECE, 0, 0) if rows == 1 else (0, 0, 1, stride * run_bytes)
    )
    # of a run: its taps' columns, the place of their sums, how much further it lies
    products = [
        (64 * len(range(run, taps_right, stride)), 32 * first_run * run, 0, run * run_bytes >> 4)
        for run in range(stride)
    ]
    add_steps = sum_of_steps(
        kind, products, PIECE, 128 * apart, stages, stage_bytes
    )  # the next tap: so many pixels on
    registers_down, registers_up = (
        (ptx.registers_down(40), ptx.registers_up(232))
        if consumers == 2
        else (ptx.registers_down(32), ptx.registers_up(160))
    )

    received_bytes, own = tile.received, count // 2
    swap, store_pair = swap_halves(count), store_weights(dtype)

    @cuda.jit(launch_bounds=(tile.threads, 1))
    def conv2d_weight_wgmma_taps(
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
        taps,
        down,
        chunks,
        channels,
        outputs,
        all_outputs,
    ):
        """grads: im2col map of dy (N, P, Q, G * M), box (PIXELS, 64); images: of x (N, H, W, G *
        C), box (tile.pixels, 64); partial (splits, G * M, taps, C), as a line; paired or whole: (G
        * M, taps, C).

        tiles in all, in a group, in a row (of chunks; times taps down where rows of taps are summed
        apart); share: positions a split adds up, a multiple of PIXELS; positions: of results and of
        those beyond their edge, area to an image, width to a row; a result's window starts at
        row_start + row * row_step, column_start + column * stride; taps of a filter; down: rows
        between them; chunks: pieces of 64 channels; channels and outputs of a group; all_outputs: G
        * M."""
        base = tma_pipeline.first_tile(cuda.shared.array(0, types.uint8))
        received = i32(base + stages * stage_bytes)
        full = i32(received + consumers * received_bytes) if paired else received
        arrived = i32(full + 16 * stages)
        thread = i32(cuda.threadIdx.x)
        group_of_threads = thread >> 7
        if thread == 0:
            if paired:
                for i in range(consumers):
                    ptx.barrier_init(i32(arrived + 8 * i), 1)
                    ptx.barrier_expect(i32(arrived + 8 * i), received_bytes)
            tma_pipeline.make_ring(full, stages, 1, consumers)
        if paired:
            cluster_arrive()
        cuda.syncthreads()
        ptx.let_next_begin()
        block = i32(cuda.blockIdx.x >> 1 if paired else cuda.blockIdx.x)
        split, group, tile_row, unit = place_of(block, tiles, group_tiles, across_tiles)
        half_of = i32(cuda.blockIdx.x & 1)
        if paired:
            split = half_of
        r = ptx_sm80.divide_unsigned(
            unit, chunks
        )  # a row of taps (or the first of all), and 64 of the channels
        channel = i32(64 * (unit - r * chunks))
        output0 = i32(tile_row * own_outputs)
        begin = i32(split * share)
        end = i32(min(begin + share, positions))
        ptx.wait_for_previous()
        if group_of_threads == 0:  # ---------------- the one that fetches
            registers_down()
            if thread == 0:
                stage, phase = i32(0), i32(1)
                at = begin
                while at < end:
                    image, p, q = pixel_of(at, area, width)
                    barrier = tma_pipeline.refill(full, stages, stage, phase, expected)
                    to = i32(base + stage * stage_bytes)
                    for i in range(pieces):
                        ptx.tma_load_im2col_4d(
                            to,
                            grads,
                            group * outputs + output0 + 64 * i,
                            q,
                            p,
                            image,
                            barrier,
                            0,
                            0,
                        )
                        to = i32(to + PIECE)
                    for row in range(rows):
                        for run in range(stride):
                            ptx.tma_load_im2col_4d(
                                to,
                                images,
                                group * channels + channel,
                                column_start + q * stride,
                                row_start + p * row_step,
                                image,
                                barrier,
                                run,
                                (r + row) * down,
                            )
                            to = i32(to + run_bytes)
                    stage, phase = tma_pipeline.advance(stage, phase, stages)
                    at = i32(at + PIXELS)
            if paired:
                cuda.syncwarp()
                cluster_wait()
        else:  # ---------------- those that multiply
            registers_up()
            me = i32(group_of_threads - 1)
            thread = i32(thread & 127)
            lane = thread & 31
            total = cuda.local.array(count, f32)
            first_a = i32(base + me * shift_a)
            first_b = i32(base + pieces * PIECE + me * shift_b)
            add_steps(total, full, first_a, first_b, begin, end, thread)
            if paired:
                mine = cuda.local.array(own, f32)
                cluster_wait()  # the other block has begun, long since
                here = i32(received + me * received_bytes + 16 * thread)
                swap(total, mine, half_of, here, i32(arrived + 8 * me))
            for half in range(2):
                row = i32(
                    output0 + me * shift_outputs + 8 * half + (thread >> 5) * 16 + (lane >> 2)
                )
                if row < outputs:
                    line = (
                        i64(0 if paired else split) * all_outputs + group * outputs + row
                    ) * taps
                    line += (r + me * shift_r) * taps_right
                    if paired:
                        for k in range(own // 4):  # eight columns each, of those of the tile
                            all_k = i32(k + half_of * (own // 4))
                            number = i32(all_k >> 3)
                            tap = i32(
                                number * stride
                                if number < first_run
                                else (number - first_run) * stride + 1
                            )
                            c = i32(channel + 8 * (all_k & 7) + 2 * (lane & 3))
                            store_pair(
                                partial,
                                (line + tap) * channels + c,
                                c,
                                channels,
                                mine[4 * k + 2 * half],
                                mine[4 * k + 2 * half + 1],
                            )
                    else:
                        c = i32(channel + 2 * (lane & 3))
                        for number in range(
                            taps_right
                        ):  # as they lie in registers: every second tap, then the others
                            tap = (
                                number * stride
                                if number < first_run
                                else (number - first_run) * stride + 1
                            )
                            to = (line + tap) * channels + c
                            if whole:
                                for k in range(8):
                                    e = 2 * half + 32 * number + 4 * k
                                    store_pair(
                                        partial,
                                        to + 8 * k,
                                        i32(c + 8 * k),
                                        channels,
                                        total[e],
                                        total[e + 1],
                                    )
                            else:
                                store_channels(
                                    partial, to, total, 2 * half + 32 * number, c, channels
                                )

    return conv2d_weight_wgmma_taps


# -------------------- planner


def tiles_for(outputs: int, taps: tuple[int, int], apart: int, stride: int) -> list[Tile]:
    """The tiles for filters of these taps and so many outputs of a group. With two runs for each
    row of taps there is room for three stages only: then rows together were slower."""
    down, right = taps
    together = (
        [Tile(right, apart, stride, down)]
        if stride == 1 and (down == 2 or down == 3 and right <= 3)
        else []
    )
    return ([Tile(right, apart, stride)] if outputs > 64 else []) + together


def blocks_of(tile: Tile, outputs: int, groups: int, taps_down: int, chunks: int) -> int:
    """How many blocks a split has."""
    return groups * blocks(outputs, tile.outputs) * (taps_down // tile.rows) * chunks


@functools.cache
def choose(
    tiles: tuple[Tile, ...],
    outputs: int,
    groups: int,
    taps_down: int,
    chunks: int,
    steps: int,
    many: int,
) -> tuple[Tile, int]:
    """The tile, and the number of splits, with which the blocks take least time, in units of 128 x
    256 products of 64 pixels, 0.6 us. steps: of all splits; many: multiprocessors."""

    def cost(tile: Tile, splits: int) -> float:
        waves = blocks(blocks_of(tile, outputs, groups, taps_down, chunks) * splits, many)
        step = (
            tile.taps * tile.consumers / 8 * (1 if tile.rows == 1 else 1.05)
        )  # three warpgroups share the bandwidth of memory
        results = outputs * groups * taps_down * tile.taps * 64 * chunks
        summed = PAIR if tile.paired else splits * results / 5e5 if splits > 1 else 0
        return waves * step * (blocks(steps, splits) + 8) + summed

    found = [(tile, splits) for tile in tiles for splits in range(1, min(MOST_SPLITS, steps) + 1)]
    found += [(tile._replace(paired=True), 2) for tile in tiles if steps >= 2]
    return min(found, key=lambda pair: cost(*pair))


def fills_device(problem: Problem) -> bool:
    """Whether its blocks fill the device and its longer rows cost little. It was faster than cuDNN
    wherever both held in a measurement."""
    images, _, tall, wide = problem.y.shape
    outputs, chunks = problem.group_outputs, blocks(problem.group_channels, 64)
    groups, (taps_down, taps_right) = problem.groups, problem.taps
    tiles = tiles_for(outputs, (taps_down, taps_right), 1, problem.stride[1])
    if wide < 14 or outputs < 64 or not problem.stride[1] < taps_right <= MOST_TAPS or not tiles:
        return False
    many = multiprocessors(problem.device)
    steps = blocks(images * tall * (wide + 1), PIXELS)
    tile, splits = choose(tuple(tiles), outputs, groups, taps_down, chunks, steps, many)
    launched = blocks_of(tile, outputs, groups, taps_down, chunks) * splits
    return splits > 1 and launched >= 0.9 * many * blocks(launched, many)


def weight_gradient(
    problem: Problem,
    splits: int | None = None,
    rows: int | None = None,
    paired: bool = False,
) -> Plan | None:
    """y (N, G*M, P, Q), x (N, G*C, H, W) -> weight (G*M, C, R, S); None where no tile has these
    taps, or TMA cannot bring the windows. rows, paired: see Tile; by default as suits the sizes."""
    grad, x, out = problem.y, problem.x, problem.weight
    stride, padding, dilation = problem.stride, problem.padding, problem.dilation
    groups = problem.groups
    images, all_outputs, tall, wide = grad.shape
    height, width = x.shape[2:]
    channels, taps_down, taps_right = out.shape[1:]
    outputs, apart = all_outputs // groups, dilation[1]
    if (
        not stride[1] < taps_right <= MOST_TAPS
        or not (apart == 1 or stride[1] == 1 and apart <= 8)
        or channels % 8
        or outputs % 8
    ):
        return None
    tiles = tiles_for(outputs, (taps_down, taps_right), apart, stride[1])
    tiles = [Tile(taps_right, apart, stride[1], rows)] if rows else tiles
    if not tiles:
        return None
    more = (
        max(0, (taps_right - 1) * apart - min(padding[2:]))
        if stride[1] == 1
        else blocks(taps_right, 2) - 1
    )
    walks = [Walk(-padding[2 * i], stride[i], dilation[i]) for i in (0, 1)]
    size = (images, tall, wide + more)
    product = Product(size, *walks, (taps_down, taps_right), (0, 0, 0), 0, (0, 0, 0))
    if more > 127 or not possible(product, (height, width)):
        return None
    plan = ReorderedPlan(out, grad, x)
    chunks = blocks(channels, 64)
    positions = images * tall * (wide + more)
    steps = blocks(positions, PIXELS)
    many = multiprocessors(problem.device)
    tile, most = choose(tuple(tiles), outputs, groups, taps_down, chunks, steps, many)
    across_tiles = taps_down // tile.rows * chunks
    group_tiles = across_tiles * blocks(outputs, tile.outputs)
    if splits or paired:
        tile, most = tile._replace(paired=paired and steps > 1), 2 if paired else splits
    share = blocks(steps, most) * PIXELS
    splits = blocks(positions, share)
    target = plan.target.view((out.size,))
    tile = tile._replace(whole=splits == 1)
    partial = (
        target
        if tile.paired or tile.whole
        else plan.temp(Layout.new((splits, out.size), float32, out.device)).flat
    )
    maps = [
        map_of_images(
            plan.operands[0], grad.shape, (PIXELS, 64), ((0, 0), (0, more)), (1, 1), grad.dtype
        ),
        map_of_images(
            plan.operands[1],
            x.shape,
            (tile.pixels, 64),
            reach(product, (height, width)),
            stride,
            x.dtype,
        ),
    ]
    numbers = [
        groups * group_tiles,
        group_tiles,
        across_tiles,
        share,
        positions,
        tall * (wide + more),
        wide + more,
        walks[0].start,
        walks[0].step,
        walks[1].start,
        taps_down * taps_right,
        walks[0].tap,
        chunks,
        channels,
        outputs,
        all_outputs,
    ]
    plan.steps += [
        Launch(
            conv2d_weight_wgmma_taps(grad.dtype, tile),
            groups * group_tiles * splits,
            tile.threads,
            [*maps, partial, *[np.int32(n) for n in numbers]],
            tile.shared,
            2 if tile.paired else 1,
            early=True,
        ),
        *[add(out, splits, partial, target, early=True)] * (not (tile.paired or tile.whole)),
    ]
    return plan.build()
