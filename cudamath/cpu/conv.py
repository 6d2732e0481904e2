"""Convolution on the CPU: a matrix product whose right-hand matrix is never written down.

The idea. Write one image with its padding as one long line, row after row, `pitch` numbers per row.
Then

    y[k, p] = sum_j  w[k, j] * line[shift[j] + p]          j = (channel, tap row, tap column)

for every output position p = row * pitch + column: each tap is the *same line, shifted*. So there
is no im2col: one table of shifts turns convolution into a matrix product, and all loads are
contiguous vectors. (The last few columns of each row are computed for nothing, pitch - Q of them,
and dropped.)

- A stride splits the line into *planes*, one per residue of the coordinates (rows 0, 2, 4, ... and
  1, 3, 5, ...), in which the step is one again. Dilation only changes the shifts; groups only which
  channels are read.
- The input gradient is the same sum over the output gradient, once per residue of the input
  coordinates.
- The weight gradient is a sum over p instead: `w[k, j] = sum_p dy[k, p] * line[shift[j] + p]`.
- Depthwise, where an output has one channel only to sum over, channels take the place of columns:
  conv_depthwise.py.

Both inner loops are register tiles of SIMD vectors, written as LLVM's (`shifted_tile`,
`product_tile`; lib/llvm_vectors.py); everything else is plain Python, which LLVM compiles
(lib/llvm_compiler.py). Work is cut into items (a
block of rows of one image) whose line fits in the L2 cache. How it is cut never depends on the
number of threads: the same inputs give the same bits on any number of them.

The floor is arithmetic: 2 * N * K * P * Q * C * R * S operations at two fused multiply-adds per
cycle and lane.
"""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
from llvmlite import ir

from ..core import cpu_pool
from . import conv_depthwise
from .lib.llvm_compiled import parallel
from .lib.llvm_compiler import counted, emitted, prange
from .lib.llvm_numbers import cast
from .lib.llvm_vectors import COLUMNS, ROWS, VECTOR, Emit

GRADIENT_ROWS, GRADIENT_COLUMNS = (
    4,
    ROWS * COLUMNS // 4,
)  # the tile of the weight gradient, equally many sums
CACHED = 384 * 1024  # bytes of an item's line: it and the weights share a 1 MB L2 cache
PARTIALS = 64 * 1024 * 1024  # bytes of partial weight gradients at most


# -------------------- the register tiles


def _make_shifted_tile(columns, rows):
    @emitted
    def shifted_tile(b, weights, w0, source, s0, shifts, count, tile, t0):
        """tile[i, t0 + p] = sum over j < count of weights[w0 + j * rows + i] * source[s0 +
        shifts[j] + p].

        for i < rows, p < columns * lanes; weights, source: flat; shifts: 1-D int64; tile: (ROWS,
        COLUMNS * lanes)."""
        do = Emit(b, tile.dtype)
        w0, s0, count, t0 = do.words(w0, s0, count, t0)
        sums = do.sums(rows * columns)
        with counted(b, count) as j:
            shift = b.load(do.at(shifts, j))
            values = [do.load(do.at(source, s0, shift, v * do.lanes)) for v in range(columns)]
            row = b.mul(j, ir.IntType(64)(rows))
            for i in range(rows):
                weight = do.splat(b.load(do.at(weights, w0, row, i)))
                for v, value in enumerate(values):
                    do.add_product(sums[i * columns + v], weight, value)
        for i, v in itertools.product(range(rows), range(columns)):
            place = do.at(tile, t0, (i * COLUMNS + v) * do.lanes)
            do.store(b.load(sums[i * columns + v]), place)

    return shifted_tile


wide_tile, narrow_tile = _make_shifted_tile(COLUMNS, ROWS), _make_shifted_tile(1, ROWS)
wide_line, narrow_line = (
    _make_shifted_tile(COLUMNS, 1),
    _make_shifted_tile(1, 1),
)  # depthwise: one output a group


@emitted
def store_piece(b, tile, t0, bias, out, o0, count):
    """out[o0 + v] = tile[t0 + v] + bias for v < count <= COLUMNS * lanes; tile, out: arrays, flat
    positions."""
    do = Emit(b, tile.dtype)
    t0, o0, count = do.words(t0, o0, count)
    bias = do.splat(cast(b, bias, tile.dtype).value)
    for v in range(COLUMNS):
        with b.if_then(b.icmp_signed(">", count, ir.IntType(64)(v * do.lanes))):
            value = b.fadd(do.load(do.at(tile, t0, v * do.lanes)), bias)
            do.store_masked(value, do.at(out, o0, v * do.lanes), do.first(count, v * do.lanes))


@emitted
def copy_row(b, source, s0, step, line, l0, count):
    """line[l0 + u] = source[s0 + u * step] for u < count; source, line: contiguous arrays, flat
    positions."""
    do, word = Emit(b, line.dtype), ir.IntType(64)
    s0, step, l0, count = do.words(s0, step, l0, count)
    with b.if_else(b.icmp_signed("==", step, word(1))) as (adjacent, strided):
        with (
            adjacent,
            b.if_else(b.icmp_signed(">", count, word(do.lanes))) as (long, short),
        ):
            with long:
                do.copy(do.at(line, l0), do.at(source, s0), count)
            with short:  # one vector through a mask is quicker than the call
                mask = do.first(count)
                do.store_masked(do.load_masked(do.at(source, s0), mask), do.at(line, l0), mask)
        with strided, counted(b, count) as u:
            value = b.load(do.at(source, s0, b.mul(u, step)))
            b.store(value, do.at(line, l0, u))


@emitted
def fill_row(b, value, line, l0, count):
    """line[l0 + u] = value for u < count; flat positions."""
    do, word = Emit(b, line.dtype), ir.IntType(64)
    l0, count = do.words(l0, count)
    filler = do.splat(cast(b, value, line.dtype).value)
    vectors = b.sdiv(b.add(count, word(do.lanes - 1)), word(do.lanes))
    with counted(b, vectors) as vector:
        at = b.mul(vector, word(do.lanes))
        do.store_masked(filler, do.at(line, l0, at), do.first(b.sub(count, at)))


@emitted
def product_tile(
    b, grad, g0, row, source, shifts, j0, mask, vectors, images, grad_image, line_image, tile
):
    """tile[i, j] = sum over images b, p < vectors * lanes of
    grad[g0 + i * row + b * grad_image + p] * source[shifts[j0 + j] + b * line_image + p],
    for those p whose mask[p] has all bits set (0 skips that p, whatever the source holds there).

    grad, source: 1-D; shifts: 1-D int64; mask: 1-D integers as wide as the numbers;
    tile: (sums of the tile, filled up to whole vectors), overwritten with i * GRADIENT_COLUMNS + j.
    """
    do, word = Emit(b, tile.dtype), ir.IntType(64)
    g0, row, j0, vectors, images = do.words(g0, row, j0, vectors, images)
    grad_image, line_image = do.words(grad_image, line_image)
    sums = do.sums(GRADIENT_ROWS * GRADIENT_COLUMNS)
    lines = [b.load(do.at(shifts, j0, j)) for j in range(GRADIENT_COLUMNS)]
    rows = [b.add(g0, b.mul(row, word(i))) for i in range(GRADIENT_ROWS)]
    with counted(b, images) as image:
        g, s = b.mul(image, grad_image), b.mul(image, line_image)
        with counted(b, vectors) as vector:
            p = b.mul(vector, word(do.lanes))
            keep = do.load(do.at(mask, p), do.bits)
            grads = [do.load(do.at(grad, r, g, p)) for r in rows]
            for j, line in enumerate(lines):
                value = b.and_(do.load(do.at(source, line, s, p), do.bits), keep)
                value = b.bitcast(value, do.vector)
                for i, other in enumerate(grads):
                    do.add_product(sums[i * GRADIENT_COLUMNS + j], other, value)
    totals = [b.load(s) for s in sums]
    totals += [do.zero] * (-len(totals) % do.lanes)
    # The lanes of `lanes` vectors are summed at once: neighbours of two vectors are added into
    # one, until one vector holds all sums.
    for k in range(0, len(totals), do.lanes):
        group = totals[k : k + do.lanes]
        while len(group) > 1:
            group = [
                b.fadd(
                    do.shuffle(x, y, list(range(0, 2 * do.lanes, 2))),
                    do.shuffle(x, y, list(range(1, 2 * do.lanes, 2))),
                )
                for x, y in zip(group[::2], group[1::2], strict=True)
            ]
        do.store(group[0], do.at(tile, k))


@emitted
def add_tile(b, tile, total, t0, row, rows, columns):
    """total[t0 + i * row + j] += tile[i * GRADIENT_COLUMNS + j] for i < rows, j < columns, of the
    tile's; flat positions. The tile may be read `lanes` further."""
    do, word = Emit(b, tile.dtype), ir.IntType(64)
    t0, row, rows, columns = do.words(t0, row, rows, columns)
    for i in range(GRADIENT_ROWS):
        with b.if_then(b.icmp_signed(">", rows, word(i))):
            for j in range(0, GRADIENT_COLUMNS, do.lanes):
                most = min(do.lanes, GRADIENT_COLUMNS - j)
                mask = b.and_(do.first(columns, j), do.first(word(most)))
                place = do.at(total, t0, b.mul(row, word(i)), j)
                part = do.load(do.at(tile, i * GRADIENT_COLUMNS + j))
                do.store_masked(b.fadd(do.load_masked(place, mask), part), place, mask)


# -------------------- the two drivers


def _lay_out(image, first_row, planes, step, rows, pitch, line, at):
    """Copy rows of an image (C, H, W) to line[at:], zeros so far: (C, planes, rows, pitch)
    flattened.

    planes (n, 2): input row and column of each plane's corner, before first_row; step: rows and
    columns apart."""
    channels, height, width = image.shape
    for c in range(channels):
        for plane in range(planes.shape[0]):
            left = planes[plane, 1]
            low = min(
                pitch, max(0, -(left // step[1]))
            )  # 0 <= left + u * step < width from low to high
            high = min(pitch, (width - left + step[1] - 1) // step[1])
            for r in range(rows):
                h = planes[plane, 0] + first_row + r * step[0]
                if 0 <= h < height:
                    start = (c * height + h) * width + left + low * step[1]
                    copy_row(image, start, step[1], line, at + low, high - low)
                at += pitch
    return at


def _shifted_item(
    image,
    weights,
    shifts,
    planes,
    step,
    halo,
    pitch,
    bias,
    out,
    place,
    first,
    rows,
    columns,
    line,
    here,
    tile,
):
    """One block of output rows of one image and group; arguments as in `_shifted`, out: (K, H, W)
    of this image; line, here, tile: scratch for the image with its padding, the shifts as distances
    in it, and a tile of sums."""
    line_rows, taps, depth = rows + halo, shifts.shape[0], weights.shape[2]
    lanes = VECTOR // image.itemsize
    width, end = COLUMNS * lanes, rows * pitch
    size = image.shape[0] * planes.shape[0] * line_rows * pitch
    line[: size + width] = 0  # the last tile reads, and drops, a little more
    _lay_out(image, first * step[0], planes, step, line_rows, pitch, line, 0)
    for j in range(taps):
        here[j] = (shifts[j, 0] * line_rows + shifts[j, 1]) * pitch + shifts[j, 2]
    top, left, down, right = place
    tiles, panels = (end + width - 1) // width, weights.shape[0]
    for step_number in range(
        tiles * panels
    ):  # what is larger, line or weights, is walked once; the other, often
        if size < weights.size:
            p, panel = step_number % tiles * width, step_number // tiles
        else:
            p, panel = step_number // panels * width, step_number % panels
        row, column = p // pitch, p % pitch  # of the tile's first position
        w0 = panel * taps * depth
        if depth == 1:
            if end - p > width - lanes:
                wide_line(weights, w0, line, p, here, taps, tile, 0)
            else:
                for t in range(0, end - p, lanes):
                    narrow_line(weights, w0, line, p + t, here, taps, tile, t)
        elif end - p > width - lanes:
            wide_tile(weights, w0, line, p, here, taps, tile, 0)
        else:
            for t in range(0, end - p, lanes):
                narrow_tile(weights, w0, line, p + t, here, taps, tile, t)
        for i in range(min(depth, out.shape[0] - panel * depth)):
            k = panel * depth + i
            t, y, u = 0, row, column
            while t < min(width, end - p):  # the tile's piece of each row
                count = min(width - t, end - p - t, columns - u)
                h, w = top + (first + y) * down, left + u * right
                if right == 1:
                    store_piece(
                        tile,
                        i * width + t,
                        bias[k],
                        out,
                        (k * out.shape[1] + h) * out.shape[2] + w,
                        count,
                    )
                else:
                    for v in range(count):
                        out[k, h, w + v * right] = tile[i, t + v] + bias[k]
                t += pitch - u
                y, u = y + 1, 0


@parallel(as_written=True)
def _shifted(
    source, weights, shifts, planes, step, halo, pitch, bias, out, place, shape, block, run
):
    """out[n, k, top + y * down, left + u * right] = bias[k] + sum_j weights[k, j] *
    line_n[shifts[j] + (y, u)].

    source (N, G*C, H, W); weights (G, panels, J, outputs beside each other); shifts (J, 3): plane
    (with its channel), row, column; planes (n, 2): corners; step (2,): distance in the source;
    halo: rows a shift can reach down; bias (G*K,); out (N, G*K, ...); place: (top, left, down,
    right); shape: rows, columns to compute; block: rows per item; run: items that share their
    scratch memory."""
    groups = weights.shape[0]
    channels, outputs = source.shape[1] // groups, out.shape[1] // groups
    blocks = (shape[0] + block - 1) // block
    items = source.shape[0] * groups * blocks
    width = COLUMNS * (VECTOR // source.itemsize)
    for start in prange((items + run - 1) // run):
        line = np.empty(channels * planes.shape[0] * (block + halo) * pitch + width, source.dtype)
        here = np.empty(shifts.shape[0], np.int64)
        tile = np.empty((ROWS, width), source.dtype)
        for item in range(start * run, min(items, (start + 1) * run)):
            n = item // (groups * blocks)
            g = item // blocks % groups
            first = item % blocks * block
            _shifted_item(
                source[n, g * channels : (g + 1) * channels],
                weights[g],
                shifts,
                planes,
                step,
                halo,
                pitch,
                bias[g * outputs : (g + 1) * outputs],
                out[n, g * outputs : (g + 1) * outputs],
                place,
                first,
                min(block, shape[0] - first),
                shape[1],
                line,
                here,
                tile,
            )


def _product_item(
    grad,
    source,
    images,
    outputs,
    channels,
    shifts,
    planes,
    step,
    halo,
    pitch,
    keep,
    first,
    rows,
    total,
):
    """Add to total (K, J) what a block of rows gives to the weight gradient of K outputs and one
    group.

    grad (N, G*K, P, Q), source (N, G*C, H, W); images, outputs, channels: from and to which;
    other arguments as in `_product`."""
    columns = grad.shape[3]
    line_rows, taps = rows + halo, shifts.shape[0]
    lanes = VECTOR // source.itemsize
    count, made = images[1] - images[0], outputs[1] - outputs[0]
    vectors = (rows * pitch + lanes - 1) // lanes
    length = vectors * lanes  # of one output and image in `grads`
    image_size = (channels[1] - channels[0]) * planes.shape[0] * line_rows * pitch
    line = np.zeros(count * image_size + lanes, source.dtype)
    panels = (made + GRADIENT_ROWS - 1) // GRADIENT_ROWS
    grads = np.zeros(panels * GRADIENT_ROWS * count * length, source.dtype)
    at = 0
    for n in range(count):
        image = source[images[0] + n, channels[0] : channels[1]]
        at = _lay_out(image, first * step[0], planes, step, line_rows, pitch, line, at)
        for k in range(made):
            for y in range(rows):
                copy_row(
                    grad[images[0] + n, outputs[0] + k],
                    (first + y) * columns,
                    1,
                    grads,
                    (k * count + n) * length + y * pitch,
                    columns,
                )
    mask = np.zeros(
        length, keep.dtype
    )  # 0 * inf is no 0: what is not an output position must not be read
    for y in range(rows):
        fill_row(keep[0], mask, y * pitch, columns)
    here = np.zeros((taps + GRADIENT_COLUMNS - 1) // GRADIENT_COLUMNS * GRADIENT_COLUMNS, np.int64)
    for j in range(taps):
        here[j] = (shifts[j, 0] * line_rows + shifts[j, 1]) * pitch + shifts[j, 2]
    tile = np.empty(GRADIENT_ROWS * GRADIENT_COLUMNS + lanes, source.dtype)
    for j in range(0, taps, GRADIENT_COLUMNS):
        for panel in range(panels):
            k = panel * GRADIENT_ROWS
            product_tile(
                grads,
                k * count * length,
                count * length,
                line,
                here,
                j,
                mask,
                vectors,
                count,
                length,
                image_size,
                tile,
            )
            add_tile(tile, total, k * taps + j, taps, made - k, taps - j)


@parallel(as_written=True)
def _product(
    grad, source, shifts, planes, step, halo, pitch, keep, images, block, outputs, partial
):
    """partial[c, g, k, j] = sum over the items of chunk c of grad[k, p] * line[shifts[j] + p].

    grad (N, G*K, P, Q); source (N, G*C, H, W); shifts, planes, step, halo, pitch as in `_shifted`;
    keep: one integer with all bits set, as wide as the numbers; images, block: images and rows per
    item; outputs: of the K at a time; partial (chunks, G, K, J), zeros."""
    chunks, groups, all_outputs = partial.shape[:3]
    channels = source.shape[1] // groups
    panels = (all_outputs + outputs - 1) // outputs
    blocks = (grad.shape[2] + block - 1) // block
    items = (source.shape[0] + images - 1) // images * blocks
    for unit in prange(chunks * groups * panels):
        c, g, k = unit // (groups * panels), unit // panels % groups, unit % panels * outputs
        k_end = min(all_outputs, k + outputs)
        for item in range(items * c // chunks, items * (c + 1) // chunks):
            n, first = item // blocks * images, item % blocks * block
            _product_item(
                grad,
                source,
                (n, min(grad.shape[0], n + images)),
                (g * all_outputs + k, g * all_outputs + k_end),
                (g * channels, (g + 1) * channels),
                shifts,
                planes,
                step,
                halo,
                pitch,
                keep,
                first,
                min(block, grad.shape[2] - first),
                partial[c, g, k:k_end],
            )


# -------------------- tables and functions


def _shifts(channels, planes, rows, columns):
    """(channels * R * S, 3): plane (with its channel), row and column of every tap; rows, columns:
    (plane, shift)."""
    c, r, q = (
        grid.ravel()
        for grid in np.meshgrid(
            range(channels), range(len(rows)), range(len(columns)), indexing="ij"
        )
    )
    rows, columns = (np.array(axis, np.int64).reshape(-1, 2) for axis in (rows, columns))
    plane = c * planes[0] * planes[1] + rows[r, 0] * planes[1] + columns[q, 0]
    return np.stack([plane, rows[r, 1], columns[q, 1]], 1).astype(np.int64)


@functools.lru_cache(1024)
def _forward_tables(kernel, stride, padding, dilation, channels):
    """planes (n, 2), shifts (channels * R * S, 3) and (rows, columns) a shift reaches at most."""
    corners, taps = [], []
    for i in (0, 1):
        positions = [t * dilation[i] for t in range(kernel[i])]
        residues = sorted({p % stride[i] for p in positions})
        corners.append([r - padding[2 * i] for r in residues])
        taps.append([(residues.index(p % stride[i]), p // stride[i]) for p in positions])
    planes = np.array(list(itertools.product(*corners)), np.int64).reshape(-1, 2)
    shifts = _shifts(channels, [len(c) for c in corners], *taps)
    return planes, shifts, [max(s for _, s in axis) for axis in taps]


@functools.lru_cache(1024)
def _input_tables(kernel, size, stride, padding, dilation, outputs):
    """For each pair of residues that has taps: their slices of the kernel, planes (1, 2), shifts
    (outputs * taps, 3), (rows, columns) a shift reaches, place (top, left, down, right) and number
    (rows, columns) of its positions."""
    axes = []
    for i in (0, 1):
        axis = []
        for residue in range(stride[i]):
            taps = [t for t in range(kernel[i]) if (residue - t * dilation[i]) % stride[i] == 0]
            first = -(
                (residue - padding[2 * i]) // stride[i]
            )  # the first position that is no padding
            start = first * stride[i] + residue - padding[2 * i]
            count = -(-(size[i] - start) // stride[i])
            if taps and count > 0:
                shift = [(residue - t * dilation[i]) // stride[i] for t in taps]
                part = slice(taps[0], None, taps[1] - taps[0] if len(taps) > 1 else kernel[i])
                axis.append(
                    (
                        part,
                        first + min(shift),
                        [(0, s - min(shift)) for s in shift],
                        max(shift) - min(shift),
                        start,
                        count,
                    )
                )
        axes.append(axis)
    return [
        (
            (rows[0], columns[0]),
            np.array([[rows[1], columns[1]]], np.int64),
            _shifts(outputs, (1, 1), rows[2], columns[2]),
            (rows[3], columns[3]),
            (rows[4], columns[4], *stride),
            (rows[5], columns[5]),
        )
        for rows, columns in itertools.product(*axes)
    ]


def _panels(weights):
    """(G, C, K, R, S), any strides -> (G, panels, C * R * S, ROWS): the weights of ROWS outputs
    beside each other, or of the only one."""
    groups, channels, outputs = weights.shape[:3]
    taps, depth = math.prod(weights.shape[3:]), 1 if outputs == 1 else ROWS
    panels = -(-outputs // depth)
    packed = np.zeros((groups, panels * depth, channels, taps), weights.dtype)
    packed[:, :outputs] = weights.reshape(groups, channels, outputs, taps).swapaxes(1, 2)
    packed = packed.reshape(groups, panels, depth, channels * taps)
    return np.ascontiguousarray(packed.swapaxes(2, 3))


def _block(rows, row_bytes, images, halo):
    """Rows an item: its line fits the cache, and a few items there are for every core even if
    images are few."""
    fit = max(4, CACHED // max(row_bytes, 1) - halo)
    share = max(4, -(-rows * images // 8))
    return max(1, min(rows, fit, share))


def _run(items):
    """Items that share their scratch memory: enough units of work remain for every core to be busy
    until the end."""
    return max(1, items // 256)


def _plain(*arrays):
    """C-contiguous, writable (one compiled signature), 16-bit floats widened to float32."""
    wide = [a if a.dtype in (np.float32, np.float64) else a.astype(np.float32) for a in arrays]
    return [np.require(a, requirements=["C", "W"]) for a in wide]


def _correlate(source, weights, shifts, planes, step, reach, bias, out, place, shape):
    """`_shifted` by weights (G, C, K, R, S), cut into items that suit it; depthwise in
    conv_depthwise.py."""
    images, (groups, channels, outputs) = source.shape[0], weights.shape[:3]
    pitch = shape[1] + reach[1]
    row_bytes = channels * len(planes) * pitch * source.itemsize
    if conv_depthwise.pays(channels, outputs, groups, source.itemsize):
        lanes = VECTOR // source.itemsize
        conv_depthwise.shifted(
            source,
            conv_depthwise.panels(weights.reshape(groups, -1)),
            shifts,
            planes,
            step,
            reach[0],
            pitch,
            conv_depthwise.panels(bias),
            out,
            place,
            shape,
            _block(shape[0], row_bytes * lanes, images * groups, reach[0]),
        )
        return
    block = _block(shape[0], row_bytes, images * groups, reach[0])
    _shifted(
        source,
        _panels(weights),
        shifts,
        planes,
        step,
        reach[0],
        pitch,
        bias,
        out,
        place,
        shape,
        block,
        _run(images * groups * -(-shape[0] // block)),
    )


def conv2d(x, weight, bias=None, *, stride, padding, dilation, groups, tf32=False):
    """x (N, G*C, H, W), weight (G*K, C, R, S), bias (G*K,); padding (top, bottom, left, right) ->
    (N, G*K, P, Q).

    tf32 (here and below): a GPU's matter."""
    images, _, height, width = x.shape
    (outputs, channels), kernel = weight.shape[:2], weight.shape[2:]
    size = tuple(
        (n + padding[2 * i] + padding[2 * i + 1] - dilation[i] * (kernel[i] - 1) - 1) // stride[i]
        + 1
        for i, n in enumerate((height, width))
    )
    source, weights = _plain(x, weight)
    out = cpu_pool.taker((images, outputs, *size), source.dtype)()
    bias = np.zeros(outputs, source.dtype) if bias is None else _plain(bias)[0]
    if out.size and weight.size:
        planes, shifts, reach = _forward_tables(kernel, stride, padding, dilation, channels)
        weights = weights.reshape(groups, outputs // groups, channels, *kernel).swapaxes(1, 2)
        _correlate(source, weights, shifts, planes, stride, reach, bias, out, (0, 0, 1, 1), size)
    else:
        out[:] = bias[:, None, None]
    return out.astype(x.dtype, copy=False)


def conv2d_input_grad(
    grad, weight, bias=None, *, size, stride, padding, dilation, groups, tf32=False
):
    """grad (N, G*K, P, Q), weight (G*K, C, R, S), bias (G*C,), size (H, W) -> (N, G*C, H, W).

    Row h of the input meets output row y through tap r where h + top = y * stride + r * dilation.
    For the rows with one residue a = (h + top) mod stride, only the taps with r * dilation = a (mod
    stride) take part, and each is a shift by (a - r * dilation) / stride: stride**2 sums of shifted
    lines, each of which fills its own positions."""
    images = grad.shape[0]
    (outputs, channels), kernel = weight.shape[:2], weight.shape[2:]
    source, weights = _plain(grad, weight)
    out = cpu_pool.taker((images, groups * channels, *size), source.dtype)()
    out[:] = 0
    weights = weights.reshape(groups, outputs // groups, channels, *kernel)
    zeros = np.zeros(groups * channels, source.dtype)
    if images and weights.size:
        for part, planes, shifts, reach, place, count in _input_tables(
            kernel, size, stride, padding, dilation, outputs // groups
        ):
            _correlate(
                source,
                weights[..., part[0], part[1]],
                shifts,
                planes,
                (1, 1),
                reach,
                zeros,
                out,
                place,
                count,
            )
    if bias is not None:
        out += bias.astype(out.dtype)[:, None, None]
    return out.astype(grad.dtype, copy=False)


def conv2d_weight_grad(grad, x, *, kernel, stride, padding, dilation, groups, tf32=False):
    """grad (N, G*K, P, Q), x (N, G*C, H, W), kernel (R, S) -> (G*K, C, R, S)."""
    images, outputs, height, width = grad.shape
    channels = x.shape[1] // groups
    grads, source = _plain(grad, x)
    out = np.zeros((outputs, channels, *kernel), source.dtype)
    if grad.size and out.size:
        planes, shifts, reach = _forward_tables(kernel, stride, padding, dilation, channels)
        pitch = width + reach[1]
        if conv_depthwise.pays(channels, outputs // groups, groups, source.itemsize):
            total = conv_depthwise.weight_grad(
                grads, source, shifts, planes, stride, reach[0], pitch, CACHED
            )
            return total.reshape(out.shape).astype(grad.dtype, copy=False)
        share = min(outputs // groups, 64)  # outputs at a time, so that their gradients stay cached
        row_bytes = (channels * len(planes) + share) * pitch * source.itemsize
        block = min(height, max(4, CACHED // row_bytes - reach[0]))
        together = max(
            1, 512 // (block * pitch)
        )  # small images share an item: sum over >= 512 positions
        items = -(-images // together) * -(-height // block)
        chunks = max(
            1, min(items, 32 // (groups * -(-outputs // groups // share)), PARTIALS // out.nbytes)
        )
        partial = np.zeros((chunks, groups, outputs // groups, len(shifts)), source.dtype)
        keep = np.full(1, -1, np.int32 if source.itemsize == 4 else np.int64)
        _product(
            grads,
            source,
            shifts,
            planes,
            stride,
            reach[0],
            pitch,
            keep,
            together,
            block,
            share,
            partial,
        )
        out[:] = partial.sum(0).reshape(out.shape)
    return out.astype(grad.dtype, copy=False)
