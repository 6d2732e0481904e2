"""Depthwise convolution on the CPU: a vector holds as many neighbouring channels as it has lanes.

Every channel has a filter of its own, so a loop over columns would be as short as a row of one
channel: seven elements of a 7 x 7 image. Instead `lanes` channels of an image are transposed so
that they are neighbours, with their padding,

    line[plane, row, column, channel],          planes, shifts and all other tables as in conv.py,

and every tap multiplies a vector of channels by the vector of their weights, whatever the length of
the rows:

    y[row, column, :] = bias + sum_j  w[j, :] * line[shift[j] + (row, column), :]

TILE columns at a time keep their sums in registers. The results are transposed back. The weight
gradient sums over the positions, a few taps at a time, also in vectors: w[j, :] = sum_p dy[p, :] *
line[shift[j] + p, :].

The transposes move squares of `lanes` x `lanes` elements by shuffles between registers:
log2(lanes) per vector. The floor is the loads of the products: one vector per product, one product
per cycle.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from .lib.llvm_compiled import parallel
from .lib.llvm_compiler import counted, emitted, prange
from .lib.llvm_vectors import VECTOR, Emit

TILE = 8  # columns whose sums are in registers
# taps of the weight gradient whose sums are in registers: enough to hide how long an addition takes
TAPS = 5


@emitted
def channel_tile(b, weights, w0, source, s0, shifts, count, bias, b0, out, o0):
    """out[o0 + v * lanes + c] = bias[b0 + c] + sum over j < count of weights[w0 + j * lanes + c] *
    source[s0 + shifts[j] + v * lanes + c] for v < TILE, c < lanes; arrays and flat positions."""
    do = Emit(b, out.dtype)
    w0, s0, count, b0, o0 = do.words(w0, s0, count, b0, o0)
    sums = do.sums(TILE)
    start = do.load(do.at(bias, b0))
    for total in sums:
        b.store(start, total)
    with counted(b, count) as j:
        shift = b.load(do.at(shifts, j))
        weight = do.load(do.at(weights, w0, b.mul(j, ir.IntType(64)(do.lanes))))
        for v, total in enumerate(sums):
            do.add_product(total, weight, do.load(do.at(source, s0, shift, v * do.lanes)))
    for v, total in enumerate(sums):
        do.store(b.load(total), do.at(out, o0, v * do.lanes))


@emitted
def channel_products(b, grad, g0, source, s0, shifts, j0, columns, total):
    """total[(j0 + j) * lanes + c] += sum over p < columns of grad[g0 + p * lanes + c] * source[s0 +
    shifts[j0 + j] + p * lanes + c] for j < TAPS, c < lanes; arrays and flat positions."""
    do, word = Emit(b, total.dtype), ir.IntType(64)
    g0, s0, j0, columns = do.words(g0, s0, j0, columns)
    sums = do.sums(TAPS)
    lines = [b.load(do.at(shifts, j0, j)) for j in range(TAPS)]
    with counted(b, columns) as column:
        p = b.mul(column, word(do.lanes))
        slope = do.load(do.at(grad, g0, p))
        for line, each in zip(lines, sums, strict=True):
            do.add_product(each, slope, do.load(do.at(source, s0, line, p)))
    at = b.mul(j0, word(do.lanes))
    for j, each in enumerate(sums):
        place = do.at(total, at, j * do.lanes)
        do.store(b.fadd(do.load(place), b.load(each)), place)


@emitted
def channels_last(b, source, s0, apart, channels, count, line, l0):
    """line[l0 + p * lanes + c] = source[s0 + c * apart + p] for p < count <= lanes, c < channels,
    and 0 for other c < lanes; contiguous arrays and flat positions."""
    do, word = Emit(b, line.dtype), ir.IntType(64)
    s0, apart, channels, count, l0 = do.words(s0, apart, channels, count, l0)
    mask = do.first(count)
    rows = do.sums(do.lanes)
    for c, row in enumerate(rows):
        with b.if_then(b.icmp_signed(">", channels, word(c))):
            at = do.at(source, s0, b.mul(apart, word(c)))
            b.store(do.load_masked(at, mask), row)
    for p, column in enumerate(do.transposed([b.load(row) for row in rows])):
        with b.if_then(b.icmp_signed(">", count, word(p))):
            do.store(column, do.at(line, l0, p * do.lanes))


@emitted
def channels_first(b, line, l0, channels, count, out, o0, apart):
    """out[o0 + c * apart + p] = line[l0 + p * lanes + c] for p < count <= lanes, c < channels; of
    the line, `lanes` times `lanes` numbers are read. Contiguous arrays and flat positions."""
    do, word = Emit(b, line.dtype), ir.IntType(64)
    l0, channels, count, o0, apart = do.words(l0, channels, count, o0, apart)
    mask = do.first(count)
    columns = [do.load(do.at(line, l0, p * do.lanes)) for p in range(do.lanes)]
    for c, row in enumerate(do.transposed(columns)):
        with b.if_then(b.icmp_signed(">", channels, word(c))):
            do.store_masked(row, do.at(out, o0, b.mul(apart, word(c))), mask)


@emitted
def copy_channels(b, source, s0, line, l0):
    """line[l0 + c] = source[s0 + c] for c < lanes."""
    do = Emit(b, line.dtype)
    s0, l0 = do.words(s0, l0)
    do.store(do.load(do.at(source, s0)), do.at(line, l0))


def _turn(image, first, planes, step, rows, pitch, lanes, line, row):
    """Rows of `image` (channels, H, W) to line[plane, row, column, channel], zeros so far; planes,
    step, pitch as in conv.py; rows: of a plane; first: row of the image above them; row: scratch
    for one row of the image."""
    channels, height, width = image.shape
    for plane in range(planes.shape[0]):
        left = planes[plane, 1]
        low = min(
            pitch, max(0, -(left // step[1]))
        )  # 0 <= left + u * step < width from low to high
        high = min(pitch, (width - left + step[1] - 1) // step[1])
        begin, end = left + low * step[1], left + (high - 1) * step[1] + 1
        for r in range(rows):
            h = planes[plane, 0] + first + r * step[0]
            if 0 <= h < height and low < high:
                at = ((plane * rows + r) * pitch + low) * lanes
                target, t0 = (line, at) if step[1] == 1 else (row, 0)
                for w in range(begin, end, lanes):
                    channels_last(
                        image,
                        h * width + w,
                        height * width,
                        channels,
                        min(lanes, end - w),
                        target,
                        t0 + (w - begin) * lanes,
                    )
                if step[1] != 1:
                    for u in range(high - low):
                        copy_channels(row, u * step[1] * lanes, line, at + u * lanes)


def _turn_back(sums, across, rows, columns, lanes, out, place, first, piece):
    """sums[row, column, channel], `across` columns a row, to out[channel, top + (first + row) *
    down, left + column * right]; piece: scratch for a square of `lanes` times `lanes` numbers."""
    channels, height, width = out.shape
    top, left, down, right = place
    for y in range(rows):
        h = top + (first + y) * down
        for u in range(0, columns, lanes):
            count = min(lanes, columns - u)
            if right == 1:
                channels_first(
                    sums,
                    (y * across + u) * lanes,
                    channels,
                    count,
                    out,
                    h * width + left + u,
                    height * width,
                )
            else:
                channels_first(sums, (y * across + u) * lanes, channels, count, piece, 0, lanes)
                for c in range(channels):
                    row, part = out[c, h, left + u * right :], piece[c * lanes :]
                    for v in range(count):
                        row[v * right] = part[v]


def _distances(shifts, line_rows, pitch, lanes, here):
    """here[j]: how far tap j lies from a position in the line."""
    for j in range(shifts.shape[0]):
        here[j] = ((shifts[j, 0] * line_rows + shifts[j, 1]) * pitch + shifts[j, 2]) * lanes


@parallel
def shifted(source, weights, shifts, planes, step, halo, pitch, bias, out, place, shape, block):
    """out[n, c, top + y * down, left + u * right] = bias[c] + sum_j weights[c, j] *
    source_nc[shifts[j] + (y, u)].

    source (N, C, H, W); weights (panels, J, lanes) and bias (panels, lanes): the channels, filled
    up with zeros; out (N, C, ...); all others as in conv.py."""
    images, channels = source.shape[:2]
    panels, taps, lanes = weights.shape
    blocks = (shape[0] + block - 1) // block
    across = (shape[1] + TILE - 1) // TILE * TILE
    flat = weights.reshape(-1)
    shared = max(1, images * blocks // 64)  # images and blocks that share their scratch memory
    runs = (images * blocks + shared - 1) // shared
    for unit in prange(panels * runs):
        panel, run = unit // runs, unit % runs
        line = np.empty(((planes.shape[0] * (block + halo)) * pitch + TILE) * lanes, source.dtype)
        here = np.empty(taps, np.int64)
        row = np.empty(source.shape[3] * lanes, source.dtype)
        sums = np.empty((block * across + lanes) * lanes, source.dtype)
        piece = np.empty(lanes * lanes, source.dtype)
        c0 = panel * lanes
        c1 = min(channels, c0 + lanes)
        for item in range(run * shared, min(images * blocks, (run + 1) * shared)):
            n, first = item // blocks, item % blocks * block
            rows = min(block, shape[0] - first)
            line[:] = 0
            _turn(
                source[n, c0:c1],
                first * step[0],
                planes,
                step,
                rows + halo,
                pitch,
                lanes,
                line,
                row,
            )
            _distances(shifts, rows + halo, pitch, lanes, here)
            for y in range(rows):
                for u in range(0, across, TILE):
                    channel_tile(
                        flat,
                        panel * taps * lanes,
                        line,
                        (y * pitch + u) * lanes,
                        here,
                        taps,
                        bias,
                        panel * lanes,
                        sums,
                        (y * across + u) * lanes,
                    )
            _turn_back(sums, across, rows, shape[1], lanes, out[n, c0:c1], place, first, piece)


@parallel
def products(grad, source, shifts, planes, step, halo, pitch, block, partial):
    """partial[k, panel, j, lane] = sum over the items of chunk k of grad[c, p] * source_c[shifts[j]
    + p].

    grad (N, C, P, Q); source (N, C, H, W); shifts: filled up to whole groups of TAPS; partial
    (chunks, panels, J, lanes), zeros; all others as in conv.py."""
    images, channels, height, width = grad.shape
    chunks, panels, taps, lanes = partial.shape
    blocks = (height + block - 1) // block
    corner = np.zeros((1, 2), np.int64)  # of the gradient's only plane
    for unit in prange(chunks * panels):
        k, panel = unit // panels, unit % panels
        line = np.empty(((planes.shape[0] * (block + halo)) * pitch + 1) * lanes, source.dtype)
        slopes = np.empty(block * width * lanes, source.dtype)
        row = np.empty(source.shape[3] * lanes, source.dtype)
        here = np.empty(taps, np.int64)
        total = partial[k, panel].reshape(-1)
        c0 = panel * lanes
        c1 = min(channels, c0 + lanes)
        for item in range(images * blocks * k // chunks, images * blocks * (k + 1) // chunks):
            n, first = item // blocks, item % blocks * block
            rows = min(block, height - first)
            line[:] = 0
            _turn(
                source[n, c0:c1],
                first * step[0],
                planes,
                step,
                rows + halo,
                pitch,
                lanes,
                line,
                row,
            )
            _turn(grad[n, c0:c1], first, corner, (1, 1), rows, width, lanes, slopes, row)
            _distances(shifts, rows + halo, pitch, lanes, here)
            for j in range(0, taps, TAPS):
                for y in range(rows):
                    channel_products(
                        slopes, y * width * lanes, line, y * pitch * lanes, here, j, width, total
                    )


# -------------------- for conv.py


def pays(channels: int, outputs: int, groups: int, itemsize: int) -> bool:
    """Whether this is a depthwise convolution of enough channels to fill vectors. channels,
    outputs: of a group."""
    return channels == outputs == 1 and 2 * groups >= VECTOR // itemsize


def panels(weights: np.ndarray) -> np.ndarray:
    """(C, ...) -> (panels, ..., lanes): channels last, filled up with zeros."""
    lanes = VECTOR // weights.itemsize
    count = -(-len(weights) // lanes)
    filled = np.zeros((count * lanes, *weights.shape[1:]), weights.dtype)
    filled[: len(weights)] = weights
    return np.ascontiguousarray(
        np.moveaxis(filled.reshape(count, lanes, *weights.shape[1:]), 1, -1)
    )


def weight_grad(grad, source, shifts, planes, step, halo, pitch, cached):
    """grad (N, C, P, Q), source (N, C, H, W) -> (C, J); cached: bytes of an item's line; all others
    as in conv.py."""
    images, channels, height = grad.shape[:3]
    lanes = VECTOR // source.itemsize
    taps, count = len(shifts), -(-channels // lanes)
    shifts = np.pad(shifts, ((0, -taps % TAPS), (0, 0)), mode="edge").copy("C")
    block = min(height, max(4, cached // (2 * len(planes) * pitch * VECTOR) - halo))
    chunks = max(1, min(images * -(-height // block), 32 // count))
    partial = np.zeros((chunks, count, len(shifts), lanes), source.dtype)
    products(grad, source, shifts, planes, step, halo, pitch, block, partial)
    return np.moveaxis(partial.sum(0), -1, 1).reshape(-1, len(shifts))[:channels, :taps]
