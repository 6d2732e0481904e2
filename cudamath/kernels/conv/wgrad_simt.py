"""The weight gradient of a convolution: few results, each a very long sum over the positions.

    dw[m, k] = sum over n of dy[m, n] * x[tap(k) + position(n)]    (symbols as in fprop_simt.py)

Two kernels:

``conv2d_weight_direct``  one block for each weight, which walks all positions: right for depthwise
                          convolutions.
``conv2d_weight_gemm``    the register tile of fprop_simt.py, outputs x taps, 8 positions at a time.
                          Here the long sum runs over positions, so these are the table in memory,
                          which ``position_table`` writes. The taps of a thread stay in its
                          registers. There are too few tiles to fill the device, so the positions
                          are split over blocks. ``sum_partials`` adds the parts in a fixed order:
                          no atomics, and the same bits every time.

A warp reads 8 neighbouring positions of 4 outputs (or taps): four stretches of 32 bytes. The floor
is that of fprop_simt.py.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.dispatch.arguments import ArrayArg, Constant, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import compute_dtype
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..lib.codec import codec
from ..lib.integers import blocks
from .direct import walks_of
from .fprop_simt import THREADS, Tile
from .geometry import (
    DEPTH,
    OUTSIDE,
    PITCH,
    POSITIONS,
    SIZE_B,
    Sources,
    choose_tile,
    grouped,
    multiply_slab,
    numbers,
    place_in_tile,
    split_position,
    tap_table,
    walks,
)
from .problem import Problem

if not SIMULATOR:
    from ..ptx.vector_access import load_vector

REDUCERS = 128  # threads that add up one weight in conv2d_weight_direct
ADDERS = 256  # threads that add up anew what is not finite
ENOUGH_BLOCKS = 512  # sums are split until there are about that many blocks
MOST_SPLITS = 256


@cuda.jit(device=True)
def split_far_position(n, area, width):
    """split_position of 64-bit numbers."""
    image = n // area
    row = (n - image * area) // width
    return image, row, n - image * area - row * width


@functools.cache
def share_of_weight(dtype: np.dtype, large: bool) -> Any:
    """Device function: what thread t of `threads` adds up of weight number i. large: 64-bit
    positions."""
    load, _, C = codec(dtype)
    split = split_far_position if large else split_position

    @device_function
    def share_of_weight(
        dy,
        x,
        dw,
        i,
        t,
        threads,
        plane_start,
        plane_step,
        plane_tap,
        row_start,
        row_step,
        row_tap,
        column_start,
        column_step,
        column_tap,
    ):
        s = i % dw.shape[5]
        i //= dw.shape[5]
        r = i % dw.shape[4]
        i //= dw.shape[4]
        deep = i % dw.shape[3]
        i //= dw.shape[3]
        c = i % dw.shape[2]
        i //= dw.shape[2]
        m = i % dw.shape[1]
        g = i // dw.shape[1]
        depth, height, width = dy.shape[3], dy.shape[4], dy.shape[5]
        total = C(0)
        for n in range(dy.shape[0]):
            for pixel in range(t, depth * height * width, threads):
                o, p, q = split(pixel, height * width, width)
                d = plane_start + o * plane_step + deep * plane_tap
                h = row_start + p * row_step + r * row_tap
                v = column_start + q * column_step + s * column_tap
                if (
                    d >= 0
                    and d < x.shape[3]
                    and h >= 0
                    and h < x.shape[4]
                    and v >= 0
                    and v < x.shape[5]
                ):
                    total += load(dy[n, g, m, o, p, q]) * load(x[n, g, c, d, h, v])
        return total

    return share_of_weight


@functools.cache
def conv2d_weight_direct(dtype: np.dtype, large: bool) -> Any:
    """One block per weight: its threads walk the positions, then add up pairwise. large: 64-bit
    positions."""
    _, store, C = codec(dtype)
    share = share_of_weight(dtype, large)

    @cuda.jit
    def conv2d_weight_direct(
        dy,
        x,
        dw,
        line,
        plane_start,
        plane_step,
        plane_tap,
        row_start,
        row_step,
        row_tap,
        column_start,
        column_step,
        column_tap,
    ):
        """dy (N, G, M, O, P, Q), x (N, G, C, D, H, W), dw (G, M, C, T, R, S), any strides; line:
        dw's memory. Planes, rows and columns as in conv2d_direct."""
        sums = cuda.shared.array(REDUCERS, C)
        t = cuda.threadIdx.x
        sums[t] = share(
            dy,
            x,
            dw,
            cuda.blockIdx.x,
            t,
            REDUCERS,
            plane_start,
            plane_step,
            plane_tap,
            row_start,
            row_step,
            row_tap,
            column_start,
            column_step,
            column_tap,
        )
        cuda.syncthreads()
        half = REDUCERS // 2
        while half > 0:
            if t < half:
                sums[t] += sums[t + half]
            cuda.syncthreads()
            half //= 2
        if t == 0:
            line[cuda.blockIdx.x] = store(sums[0])

    return conv2d_weight_direct


@functools.cache
def sum_partials(dtype: np.dtype) -> Any:
    """Partial sums added in a fixed order."""
    _, store, C = codec(dtype)

    @cuda.jit
    def sum_partials(partial, out):
        """partial (splits, n) in the compute type -> out (n,). Blocks of 32 elements x 8 threads an
        element."""
        sums = cuda.shared.array((8, 32), C)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        i = cuda.blockIdx.x * 32 + x
        total = C(0)
        if i < out.size:
            for split in range(y, partial.shape[0], 8):
                total += partial[split, i]
        sums[y, x] = total
        cuda.syncthreads()
        if y == 0 and i < out.size:
            for k in range(1, 8):
                total += sums[k, x]
            out[i] = store(total)

    return sum_partials


@functools.cache
def added_anew(dtype: np.dtype, large: bool) -> Any:
    """Device function: weight number i, which a block of ADDERS threads adds up in a fixed order.
    parts: their sums, in shared memory; t: the thread. large: 64-bit positions."""
    share = share_of_weight(dtype, large)

    @cuda.jit(device=True)
    def added_anew(
        parts,
        dy,
        x,
        dw,
        i,
        t,
        plane_start,
        plane_step,
        plane_tap,
        row_start,
        row_step,
        row_tap,
        column_start,
        column_step,
        column_tap,
    ):
        parts[t] = share(
            dy,
            x,
            dw,
            i,
            t,
            ADDERS,
            plane_start,
            plane_step,
            plane_tap,
            row_start,
            row_step,
            row_tap,
            column_start,
            column_step,
            column_tap,
        )
        cuda.syncthreads()
        half = ADDERS // 2
        while half > 0:
            if t < half:
                parts[t] += parts[t + half]
            cuda.syncthreads()
            half //= 2
        total = parts[0]
        cuda.syncthreads()
        return total

    return added_anew


@functools.cache
def sum_of_strips(dtype: np.dtype, large: bool) -> Any:
    """`sum_partials` of what strips have added up, in which zeros beyond the edge of dy meet pixels
    of x: an infinite one makes NaN of them. What is not finite is added up anew, without them."""
    _, store, C = codec(dtype)
    anew = added_anew(dtype, large)

    @cuda.jit
    def sum_of_strips(
        partial,
        out,
        dy,
        x,
        dw,
        plane_start,
        plane_step,
        plane_tap,
        row_start,
        row_step,
        row_tap,
        column_start,
        column_step,
        column_tap,
    ):
        """As sum_partials; dy, x, dw and the rest as in conv2d_weight_direct."""
        sums = cuda.shared.array((8, 32), C)
        parts = cuda.shared.array(ADDERS, C)
        column, y = cuda.threadIdx.x, cuda.threadIdx.y
        i = cuda.blockIdx.x * 32 + column
        total = C(0)
        if i < out.size:
            for split in range(y, partial.shape[0], 8):
                total += partial[split, i]
        sums[y, column] = total
        cuda.syncthreads()
        if y == 0:
            for k in range(1, 8):
                total += sums[k, column]
            sums[0, column] = total
            if i < out.size:
                out[i] = store(total)
        cuda.syncthreads()
        t = y * 32 + column
        for k in range(32):
            if not (sums[0, k] - sums[0, k] == C(0)):
                weight = cuda.blockIdx.x * 32 + k
                total = anew(
                    parts,
                    dy,
                    x,
                    dw,
                    weight,
                    t,
                    plane_start,
                    plane_step,
                    plane_tap,
                    row_start,
                    row_step,
                    row_tap,
                    column_start,
                    column_step,
                    column_tap,
                )
                if t == 0:
                    out[weight] = store(total)

    return sum_of_strips


@cuda.jit
def position_table(
    table,
    positions,
    area,
    width,
    row_start,
    row_step,
    column_start,
    column_step,
    x_image,
    x_row,
    x_column,
    y_image,
    y_row,
    y_column,
):
    """table (positions + 2 * DEPTH, 4) int32: place in x, place in y, row and column in x of each
    position, and rows that are read beyond the end; strides in elements. A thread a row."""
    n = cuda.grid(1)
    if n >= table.shape[0]:
        return
    if n >= positions:
        table[n, 0] = 0
        table[n, 1] = 0
        table[n, 2] = OUTSIDE
        table[n, 3] = OUTSIDE
    else:
        image, p, q = split_position(n, area, width)
        h = row_start + p * row_step
        v = column_start + q * column_step
        table[n, 0] = image * x_image + h * x_row + v * x_column
        table[n, 1] = image * y_image + p * y_row + q * y_column
        table[n, 2] = h
        table[n, 3] = v


@functools.cache
def conv2d_weight_gemm(dtype: np.dtype, tile: Tile) -> Any:
    """One block per tile of outputs x taps, summed over its share of the positions."""
    load, _, C = codec(dtype)
    multiply = multiply_slab(C, tile)
    rows, threads, high = tile.rows, tile.threads, tile.high
    rows_per_warp, pitch_a, sums = rows // tile.down, rows + 4, 8 * high
    size_a = 2 * DEPTH * pitch_a
    apart = threads // DEPTH  # a warp reads 8 neighbouring positions of 4 outputs or taps
    each_a, each_b = rows // apart, POSITIONS // apart

    @cuda.jit(launch_bounds=(threads, 2))
    def conv2d_weight_gemm(
        dy,
        x,
        taps,
        table,
        partial,
        outputs,
        tap_count,
        positions,
        share,
        groups,
        x_height,
        x_width,
        x_group,
        y_group,
        y_output,
    ):
        """dy, x: their memory as a line; taps (tap_count, 4) and table (positions + 2 * DEPTH, 4):
        int32, flattened; share: positions a split adds up, a multiple of DEPTH; partial (splits, G,
        outputs, tap_count) flattened. Grid: tiles, splits, groups."""
        slab_a = cuda.shared.array(size_a, C, alignment=16)
        slab_b = cuda.shared.array(SIZE_B, C, alignment=16)
        total = cuda.local.array(sums, C)
        a = cuda.local.array(8, C)
        b = cuda.local.array(8, C)
        next_a = cuda.local.array(each_a, C)
        next_b = cuda.local.array(each_b, C)
        tap_place = cuda.local.array(each_b, types.int32)
        tap_h = cuda.local.array(each_b, types.int32)
        tap_v = cuda.local.array(each_b, types.int32)

        tiles_down = (outputs + rows - 1) // rows
        tile_column = cuda.blockIdx.x // tiles_down
        m0 = (cuda.blockIdx.x - tile_column * tiles_down) * rows
        j0 = tile_column * POSITIONS
        split, group = cuda.blockIdx.y, cuda.blockIdx.z
        thread = cuda.threadIdx.x
        m, n = place_in_tile(thread, rows_per_warp)

        k_t, i_t = (
            thread & (DEPTH - 1),
            thread // DEPTH,
        )  # this thread's position and first output and tap
        for i in range(each_b):
            tap_place[i], tap_h[i], tap_v[i] = 0, OUTSIDE, OUTSIDE
            if j0 + i_t + i * apart < tap_count:
                tap_place[i], _, tap_h[i], tap_v[i] = load_vector(
                    taps, (j0 + i_t + i * apart) * 4, 4
                )
        from_a = group * y_group + (m0 + i_t) * y_output
        from_b = group * x_group
        begin = split * share
        end = min(begin + share, positions)

        for i in range(8 * high):
            total[i] = C(0)
        stage = types.int64(0)  # no literal: `multiply` is compiled once
        x_place, y_place, h, v = load_vector(table, (begin + k_t) * 4, 4)
        for k in range(begin, end + DEPTH, DEPTH):
            if k < end:
                for i in range(each_a):
                    value = C(0)
                    if k + k_t < end and m0 + i_t + i * apart < outputs:
                        value = C(load(dy[types.uint64(from_a + i * apart * y_output + y_place)]))
                    next_a[i] = value
                for i in range(each_b):
                    value = C(0)
                    if types.uint32(h + tap_h[i]) < types.uint32(x_height) and types.uint32(
                        v + tap_v[i]
                    ) < types.uint32(x_width):
                        value = C(load(x[types.uint64(from_b + x_place + tap_place[i])]))
                    next_b[i] = value
                x_place, y_place, h, v = load_vector(table, (k + DEPTH + k_t) * 4, 4)
            if k > begin:
                multiply(slab_a, slab_b, stage * DEPTH, m, n, a, b, total)
                stage ^= 1
            if k < end:
                for i in range(each_a):
                    slab_a[(stage * DEPTH + k_t) * pitch_a + i_t + i * apart] = next_a[i]
                for i in range(each_b):
                    slab_b[(stage * DEPTH + k_t) * PITCH + i_t + i * apart] = next_b[i]
                cuda.syncthreads()

        for i in range(high):
            row = m0 + m + (i & 3) + (i >> 2) * 32
            if row < outputs:
                to = ((split * groups + group) * outputs + row) * tap_count
                for j in range(8):
                    tap = j0 + n + (j & 3) + (j >> 2) * 16
                    if tap < tap_count:
                        partial[to + tap] = total[8 * i + j]

    return conv2d_weight_gemm


# -------------------- planners


def direct(problem: Problem) -> Plan:
    """y (N, G*M, P, Q), x (N, G*C, H, W) -> weight (G*M, C, R, S) by one block for each weight,
    in C order; volumes alike."""
    out, groups = problem.weight.like(), problem.groups
    if not out.size:
        return Plan([out], [])
    sources = Sources(*problem.operands)
    dy, x = (grouped(argument, layout, groups, 1) for argument, layout in sources.operands)
    dw = grouped(Output(0), out, groups, 0)
    large = math.prod(dy.shape[3:]) >= 1 << 31
    sources.steps.append(
        Launch(
            conv2d_weight_direct(problem.dtype, large),
            out.size,
            REDUCERS,
            [
                *(dy.volumes(), x.volumes(), dw.volumes(), Output(0).flat),
                *numbers(*walks(*walks_of(problem))),
            ],
        )
    )
    return Plan([out], sources.steps, sources.temps)


def strips_summed(
    problem: Problem,
    partial: ArrayArg,
    target: ArrayArg,
    operands: Sequence[ArrayArg],
    layouts: Sequence[Layout],
) -> Launch:
    """The launch that adds the partial sums of strips (splits, weights); operands, layouts: of y
    and x. In 16 bits NaN may stay where strips made one."""
    out, groups = problem.weight, problem.groups
    grid, block = blocks(out.size, 32), (32, 8)
    if out.itemsize == 2:
        return Launch(sum_partials(out.dtype), grid, block, [partial, target])
    pairs = zip(operands, layouts, strict=True)
    dy, x = (grouped(argument, layout, groups, 1) for argument, layout in pairs)
    dw = grouped(target, out.like(), groups, 0)
    large = math.prod(dy.shape[3:]) >= 1 << 31
    arrays = [partial, target, dy.volumes(), x.volumes(), dw.volumes()]
    args = [*arrays, *numbers(*walks(*walks_of(problem)))]
    return Launch(sum_of_strips(out.dtype, large), grid, block, args)


def weight_gradient(problem: Problem) -> Plan:
    """y (N, G*M, P, Q), x (N, G*C, H, W) -> weight (G*M, C, R, S) by tiles and split-k, in C
    order."""
    out, groups, kernel = problem.weight.like(), problem.groups, problem.taps
    sources = Sources(*problem.operands)
    dy, source = (grouped(argument, layout, groups, 1) for argument, layout in sources.operands)
    rows, columns = walks_of(problem)
    images, _, outputs, height, width = dy.shape
    dtype, item, positions = problem.dtype, problem.itemsize, images * height * width
    tile = choose_tile(outputs, dtype)
    tap_count = source.shape[2] * kernel[0] * kernel[1]
    taps = tap_table(source.shape[2], *kernel, rows, columns, source, item, tap_count)
    tiles = blocks(outputs, tile.rows) * blocks(tap_count, POSITIONS)
    splits = max(
        1, min(ENOUGH_BLOCKS // (tiles * groups), MOST_SPLITS, blocks(positions, 16 * DEPTH))
    )
    share = blocks(blocks(positions, splits), DEPTH) * DEPTH
    splits = blocks(positions, share)
    rows_read = positions + 2 * DEPTH
    table = sources.temp(Layout.new((rows_read, 4), np.dtype(np.int32), problem.device))
    partial = sources.temp(Layout.new((splits, out.size), compute_dtype(dtype), problem.device))
    from_, to = ([stride // item for stride in view.strides] for view in (source, dy))
    sources.steps += [
        Launch(
            position_table,
            blocks(rows_read, THREADS),
            THREADS,
            [
                table,
                *numbers(
                    positions,
                    height * width,
                    width,
                    rows.start,
                    rows.step,
                    columns.start,
                    columns.step,
                    from_[0],
                    from_[3],
                    from_[4],
                    to[0],
                    to[3],
                    to[4],
                ),
            ],
        ),
        Launch(
            conv2d_weight_gemm(dtype, tile),
            (tiles, splits, groups),
            tile.threads,
            [
                dy.line(item),
                source.line(item),
                Constant(taps.ravel()),
                table.flat,
                partial.flat,
                *numbers(
                    outputs,
                    tap_count,
                    positions,
                    share,
                    groups,
                    source.shape[3],
                    source.shape[4],
                    from_[1],
                    to[1],
                    to[2],
                ),
            ],
        ),
        Launch(sum_partials(dtype), blocks(out.size, 32), (32, 8), [partial, Output(0).flat]),
    ]
    return Plan([out], sources.steps, sources.temps)
