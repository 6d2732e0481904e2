"""Depthwise convolution of images in C order: every channel has a filter of its own, so only pixels
can be shared.

    forward          y[n, c, p, q]  = sum over r, s of w[c, r, s] * x[n, c, p * stride + r - top,
                                      q * stride + s - left]
    input gradient   dx[n, c, h, w] = sum over r, s of w[c, r, s] * dy[n, c, (h + top - r) / stride,
                                      (w + left - s) / stride], of those r and s for which these are
                                      integers
    weight gradient  dw[c, r, s]    = sum over n, p, q of dy[n, c, p, q] * x[n, c, p * stride + r -
                                      top, ...]

The first two are one: with the filter reversed (R - 1 - r for r) and before = R - 1 - top, an input
gradient reads row (h - before + r) / stride. So a *scheme* with two factors describes both: results
lie `down` rows apart, their inputs are spread `up` rows apart, and result p meets row (p * down -
before + r) / up at tap r where that is an integer.

The floor is bytes(x) + bytes(y): an image of 4 bytes a pixel and a filter of 7 x 7 take 98
operations a pixel, which are 2/3 of that time on an H200, one of 3 x 3 takes 1/8. A thread for each
result (direct.py) reads 9 or 49 numbers for it, and has to recognise padding at each. Here:

1. A block loads part of an image (or several small images) into shared memory, with a frame of
   zeros where there is padding: no bounds are checked after that.
2. A thread makes a *strip* of HIGH x (4 or 8) results in registers. It walks down the rows below
   them. A row is a few 16-byte reads, and every number is multiplied for all its taps and results.
   All these places are constants of the kernel: the steps of a strip are straight code.

The weight gradient reverses the roles: a thread holds the numbers dy, and R * S sums grow while the
rows pass. A block adds up one channel of its share of the images. The sums of its threads are added
in a fixed order, then those of the blocks (``strips_summed`` of wgrad_simt.py): the same bits every
time.

Measured (row conv_f32_depthwise_7x7_forward):
conv2d forward, f32, 64x96x56x56 * 96x1x7x7, stride 1, groups 96; NVIDIA H200, commit 74447bcdd4c1,
2026-11-23

                TFLOP/s      of torch
    cudamath       18.0          6.04
    torch           3.0          1.00

(end of what was measured)
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ....core.dispatch.plan import Plan
from ....core.dispatch.steps import Launch
from ....core.dtypes import compute_dtype
from ....core.layout import Layout
from ...compiler.decorators import WARP, bounded, device_function
from ...compiler.generated import compiled
from ...compiler.lazy_numba import SIMULATOR, cuda, dtype_of, types
from ...copy.channels_last import ReorderedPlan
from ...lib.block_reduce import group_sum
from ...lib.codec import codec
from ...lib.integers import blocks
from ...lib.vector_io import reader, writer
from ..geometry import numbers
from ..problem import Lengths, Problem, add_bias
from ..wgrad_simt import strips_summed

THREADS = 128
WARPS = THREADS // WARP
HIGH = 4  # rows of a strip
FETCHED = 4  # accesses that a thread has in flight while it fills shared memory
ROOM = 6144  # numbers in shared memory
ACROSS = 128  # columns of results that a tile has at most
ENOUGH_BLOCKS = 2048  # images are shared between blocks until there are about that many


class Axis(NamedTuple):
    """Result p meets place (p * down - before + tap * apart) / up where that is an integer. wide:
    results of a strip."""

    taps: int
    up: int
    down: int
    before: int
    wide: int
    apart: int = 1

    def meets(self, i: int, tap: int) -> int | None:
        """Where result i of a strip meets this tap, relative to the strip's own place."""
        place, rest = divmod(i * self.down - self.before + tap * self.apart, self.up)
        return None if rest else place

    @property
    def reach(self) -> tuple[int, int]:
        """First and last place that the results of a strip meet."""
        met = [
            place
            for i in range(self.wide)
            for t in range(self.taps)
            if (place := self.meets(i, t)) is not None
        ]
        return min(met), max(met)

    def pairs(self, place: int) -> list[tuple[int, int]]:
        """The (result, tap) of a strip that meet there."""
        return [
            (i, t) for i in range(self.wide) for t in range(self.taps) if self.meets(i, t) == place
        ]


class Scheme(NamedTuple):
    """Both axes, and the rows and columns that a strip reads: `height` rows from `first`, and
    `vectors` times 4 columns from `left`, a multiple of 4."""

    rows: Axis
    columns: Axis

    @property
    def first(self) -> int:
        return self.rows.reach[0]

    @property
    def height(self) -> int:
        return self.rows.reach[1] - self.first + 1

    @property
    def left(self) -> int:
        return self.columns.reach[0] // 4 * 4

    @property
    def vectors(self) -> int:
        return (self.columns.reach[1] - self.left) // 4 + 1


def scheme(
    taps: tuple[int, int], up: tuple[int, int], down: tuple[int, int], before: tuple[int, int]
) -> Scheme:
    """The scheme of these numbers for rows and columns. Strips are as wide as is needed to read
    aligned groups of 4 numbers."""
    rows, columns = (
        Axis(taps[i], up[i], down[i], before[i], wide) for i, wide in enumerate((HIGH, 4 * up[1]))
    )
    return Scheme(rows, columns)


# -------------------- device functions


@device_function
def divide(n, inverse):
    """n // d for n < 2 ** 16, by one multiplication; inverse: ceil(2 ** 32 / d)."""
    return types.int64((types.uint64(n) * types.uint64(inverse)) >> types.uint64(32))


def inverse(d: int) -> int:
    """See `divide`."""
    return -(-(1 << 32) // d)


@device_function
def place_of_tile(tile, tall, broad, tiles_down, tiles_across):
    """(image or group of images, first row, first column) of a tile."""
    line = tile // tiles_across
    group = line // tiles_down
    return group, (line - group * tiles_down) * tall, (tile - line * tiles_across) * broad


@functools.cache
def strip_finder(wide: int) -> Any:
    """Device function: (image, first row, first column) of a tile's strip number i, of `down` x
    `across` strips an image; by_...: inverses."""

    @device_function
    def strip_of(i, down, across, by_down, by_across):
        line = divide(i, by_across)
        image = divide(line, by_down)
        return image, (line - image * down) * HIGH, (i - line * across) * wide

    return strip_of


@functools.cache
def strip_writer(dtype: np.dtype, wide: int, writes: int) -> Any:
    """Device function (y, to, total, e, p, q, P, Q): a strip's results total[e], ... go to y[to],
    ..., the place of row p and column q of P x Q. writes: numbers that one access of memory moves.
    """
    write = writer(dtype, writes)

    @device_function
    def write_strip(y, to, total, e, p, q, P, Q):
        for k in range(HIGH):
            if p + k < P:
                for j in range(0, wide, writes):
                    if q + j < Q:
                        write(y, to + k * Q + j, total, e + k * wide + j)

    return write_strip


@functools.cache
def four(C: Any) -> Any:
    """Device function (a, i, v, e): v[e] ... v[e + 3] = four numbers of shared memory from i on."""

    @device_function
    def one_by_one(a, i, v, e):
        for k in range(4):
            v[e + k] = a[i + k]

    return one_by_one if SIMULATOR else reader(dtype_of(C), 4)


@functools.cache
def filler(dtype: np.dtype, width: int, threads: int = THREADS) -> Any:
    """Device function, for blocks of so many threads, that brings a tile of several images into
    shared memory, in compute type; zeros around them."""
    C = codec(dtype)[2]
    read, write = reader(dtype, width), writer(dtype_of(C), width)
    held = FETCHED * width

    @device_function
    def fill(slab, to, x, plane, apart, count, row, column, H, W, rows, pitch, by_rows, by_pitch):
        """x: memory of planes (H, W), of which `count` are taken, `apart` from each other; slab,
        from `to` on: (count, rows, pitch), from row `row` and column `column` on; by_rows,
        by_pitch: the inverses of `rows` and of accesses a row."""
        v = cuda.local.array(held, C)
        across = pitch // width
        total = count * rows * across
        for start in range(cuda.threadIdx.x, total, FETCHED * threads):
            for k in range(FETCHED):
                i = start + k * threads
                line = divide(i, by_pitch)
                image = divide(line, by_rows)
                h = row + line - image * rows
                w = column + (i - line * across) * width
                for e in range(width):
                    v[k * width + e] = C(0)
                if i < total and h >= 0 and h < H and w >= 0 and w < W:
                    read(x, ((plane + image * apart) * H + h) * W + w, v, k * width)
            for k in range(FETCHED):
                if start + k * threads < total:
                    write(slab, to + (start + k * threads) * width, v, k * width)

    return fill


ELEMENT = re.compile(r"\w+\[[^]]+\]")


def meeting(arguments: str, terms: Sequence[str]) -> Any:
    """Device function (v, n0, t0, <arguments>) of terms `a[i] += b[j] * c[k]; ...`. Each element is
    read into a variable, and written when all is added: an access of an array takes a compiler
    longer than ten products of variables."""
    statements = [statement for term in terms for statement in term.split("; ")]
    names: dict[str, str] = {}
    for statement in statements:
        for element in ELEMENT.findall(statement):
            names.setdefault(element, f"e{len(names)}")
    changed = dict.fromkeys([statement.partition(" += ")[0] for statement in statements])
    lines = [
        *[f"{name} = {element}" for element, name in names.items()],
        *[ELEMENT.sub(lambda found: names[found[0]], statement) for statement in statements],
        *[f"{element} = {names[element]}" for element in changed],
    ]
    source = "".join([f"    {line}\n" for line in lines])
    return device_function(compiled(f"def meet(v, n0, t0, {arguments}):\n{source}", "meet", {}))


def straight(how: Scheme, arguments: str, term: str, C: Any) -> Any:
    """Device function (slab, at, pitch, v, <arguments>) that walks down the rows below a strip,
    written out: loops of which most steps meet nothing are not unrolled.

    at: place of the first row's first number; v: registers for a row. term: the statement where
    result `n` of the strip meets tap `t` at number `k` of the row. It is written once, for the
    results and taps of one row each, which begin at n0 and t0 (i64: Numba would compile a function
    anew for every literal argument)."""
    terms = [
        term.format(n=f"n0 + {j}", t=f"t0 + {s}", k=k)
        for k in range(4 * how.vectors)
        for j, s in how.columns.pairs(how.left + k)
    ]
    meet = meeting(arguments, terms)
    lines = [f"def strip(slab, at, pitch, v, {arguments}):"]
    for row in range(how.height):
        lines += [
            f"    read(slab, at + {row} * pitch + {4 * k}, v, i64({4 * k}))"
            for k in range(how.vectors)
        ]
        lines += [
            f"    meet(v, i64({i * how.columns.wide}), i64({r * how.columns.taps}), {arguments})"
            for i, r in how.rows.pairs(how.first + row)
        ]
    return device_function(
        compiled(
            "\n".join([*lines, ""]), "strip", {"read": four(C), "meet": meet, "i64": types.int64}
        )
    )


# -------------------- kernels


@functools.cache
def conv2d_depthwise(dtype: np.dtype, how: Scheme, reads: int, writes: int) -> Any:
    """One block per tile of one image, or of several small ones. reads, writes: numbers that one
    access of memory moves."""
    load, _, C = codec(dtype)
    fill, strip_of = filler(dtype, reads), strip_finder(how.columns.wide)
    write_strip = strip_writer(dtype, how.columns.wide, writes)
    strip = straight(how, "w, total", "total[{n}] += w[{t}] * v[{k}]", C)
    (up_down, up_across), (step_down, step_across) = (
        (axis.up for axis in how),
        (axis.down for axis in how),
    )
    wide, area, window = how.columns.wide, how.rows.taps * how.columns.taps, 4 * how.vectors
    first, left, results = how.first, how.left, HIGH * wide

    @bounded(THREADS)
    def conv2d_depthwise(
        x,
        weights,
        bias,
        y,
        biased,
        flipped,
        channels,
        planes,
        H,
        W,
        P,
        Q,
        count,
        tall,
        broad,
        tiles_down,
        tiles_across,
        rows,
        pitch,
        by_rows,
        by_pitch,
        down,
        across,
        by_down,
        by_across,
    ):
        """x (planes, H, W), weights (channels, R, S), y (planes, P, Q): flat; bias (channels,) if
        biased; flipped: filters are read backwards. A tile: `count` planes, `tall` x `broad`
        results, in `down` x `across` strips; in shared memory (count, rows, pitch). by_...:
        inverses."""
        slab = cuda.shared.array(0, C)
        v = cuda.local.array(window, C)
        w = cuda.local.array(area, C)
        total = cuda.local.array(results, C)
        group, p0, q0 = place_of_tile(cuda.blockIdx.x, tall, broad, tiles_down, tiles_across)
        plane0 = group * count
        count = min(count, planes - plane0)
        fill(
            slab,
            0,
            x,
            plane0,
            1,
            count,
            p0 * step_down // up_down + first,
            q0 * step_across // up_across + left,
            H,
            W,
            rows,
            pitch,
            by_rows,
            by_pitch,
        )
        cuda.syncthreads()
        for i in range(cuda.threadIdx.x, count * down * across, THREADS):
            image, p, q = strip_of(i, down, across, by_down, by_across)
            if p0 + p < P and q0 + q < Q:
                c = types.int64(types.uint32(plane0 + image) % types.uint32(channels))
                for k in range(area):
                    w[k] = load(weights[c * area + (area - 1 - k if flipped else k)])
                start = load(bias[c]) if biased else C(0)
                for k in range(results):
                    total[k] = start
                strip(
                    slab,
                    (image * rows + p * step_down // up_down) * pitch
                    + q * step_across // up_across,
                    pitch,
                    v,
                    w,
                    total,
                )
                to = ((plane0 + image) * P + p0 + p) * Q + q0 + q
                write_strip(y, to, total, 0, p0 + p, q0 + q, P, Q)

    return conv2d_depthwise


@functools.cache
def conv2d_depthwise_weight(dtype: np.dtype, how: Scheme, reads: int, reads_dy: int) -> Any:
    """One block per channel of its share of the images."""
    _, _, C = codec(dtype)
    fill, read = filler(dtype, reads), reader(dtype, reads_dy)
    strip_of = strip_finder(how.columns.wide)
    strip = straight(how, "dy, sums", "sums[{t}] += dy[{n}] * v[{k}]", C)
    within_warp = group_sum(WARP, C)
    step_down, step_across = how.rows.down, how.columns.down
    wide, area, window = how.columns.wide, how.rows.taps * how.columns.taps, 4 * how.vectors
    first, left, results, parts_size = how.first, how.left, HIGH * wide, WARPS * area

    @bounded(THREADS)
    def conv2d_depthwise_weight(
        dy,
        x,
        partial,
        jobs,
        channels,
        planes,
        H,
        W,
        P,
        Q,
        count,
        tall,
        broad,
        tiles_down,
        tiles_across,
        rows,
        pitch,
        by_rows,
        by_pitch,
        down,
        across,
        by_down,
        by_across,
    ):
        """dy (images, channels, P, Q), x (images, channels, H, W), partial (splits, channels, R *
        S): flat; jobs: tiles that a block adds up; planes: images. The rest as in conv2d_depthwise.
        Grid: channels, splits."""
        slab = cuda.shared.array(0, C)
        parts = cuda.shared.array(parts_size, C)
        v = cuda.local.array(window, C)
        held = cuda.local.array(results, C)
        sums = cuda.local.array(area, C)
        c, t = cuda.blockIdx.x, cuda.threadIdx.x
        for k in range(area):
            sums[k] = C(0)
        groups = (planes + count - 1) // count
        end = min((cuda.blockIdx.y + 1) * jobs, groups * tiles_down * tiles_across)
        for tile in range(cuda.blockIdx.y * jobs, end):
            group, p0, q0 = place_of_tile(tile, tall, broad, tiles_down, tiles_across)
            image0 = group * count
            here = min(count, planes - image0)
            cuda.syncthreads()
            fill(
                slab,
                0,
                x,
                image0 * channels + c,
                channels,
                here,
                p0 * step_down + first,
                q0 * step_across + left,
                H,
                W,
                rows,
                pitch,
                by_rows,
                by_pitch,
            )
            cuda.syncthreads()
            for i in range(t, here * down * across, THREADS):
                image, p, q = strip_of(i, down, across, by_down, by_across)
                if p0 + p < P and q0 + q < Q:
                    at = (((image0 + image) * channels + c) * P + p0 + p) * Q + q0 + q
                    for k in range(results):
                        held[k] = C(0)
                    for k in range(HIGH):
                        for j in range(0, wide, reads_dy):
                            if p0 + p + k < P and q0 + q + j < Q:
                                read(dy, at + k * Q + j, held, k * wide + j)
                    strip(
                        slab,
                        (image * rows + p * step_down) * pitch + q * step_across,
                        pitch,
                        v,
                        held,
                        sums,
                    )
        for k in range(area):
            total = within_warp(sums[k])
            if t % WARP == 0:
                parts[k * WARPS + t // WARP] = total
        cuda.syncthreads()
        if t < area:
            total = C(0)
            for k in range(WARPS):
                total += parts[t * WARPS + k]
            partial[(cuda.blockIdx.y * channels + c) * area + t] = total

    return conv2d_depthwise_weight


# -------------------- planners


def read_as(problem: Problem) -> tuple[Lengths, Lengths, Lengths, Lengths]:
    """A forward convolution, or an input gradient with its filters reversed, as the sum in the
    header: the arguments of `scheme`."""
    taps, stride, padding = problem.taps, problem.stride, problem.padding
    if problem.kind == "input":
        reach = [apart * (n - 1) for apart, n in zip(problem.dilation, taps, strict=True)]
        return taps, stride, (1, 1), (reach[0] - padding[0], reach[1] - padding[2])
    return taps, (1, 1), stride, padding[::2]


def access(columns: int) -> int:
    """Numbers that one access may move of images with rows of so many."""
    return 1 if SIMULATOR else next(width for width in (4, 2, 1) if columns % width == 0)


def shared_out(tiles: int, owners: int, wave: int) -> tuple[int, int]:
    """(tiles that a block adds up, blocks that share those of an owner), for about `wave` blocks of
    all owners, channels or groups."""
    jobs = blocks(tiles, min(tiles, blocks(wave, owners), 65535))
    return jobs, blocks(tiles, jobs)


class Tiles(NamedTuple):
    """How results (planes, P, Q) are cut; the last arguments of the kernels, in their order."""

    count: int
    tall: int
    broad: int
    tiles_down: int
    tiles_across: int
    rows: int
    pitch: int
    by_rows: int
    by_pitch: int
    down: int
    across: int
    by_down: int
    by_across: int

    @property
    def shared(self) -> int:
        """Numbers in shared memory."""
        return self.count * self.rows * self.pitch


def tiles(how: Scheme, planes: int, P: int, Q: int, reads: int) -> Tiles:
    """The largest tiles that ROOM holds; several images where these are small."""
    wide = how.columns.wide
    tiles_across = blocks(Q, ACROSS)
    across = blocks(blocks(Q, tiles_across), wide)
    pitch = (across - 1) * wide * how.columns.down // how.columns.up + 4 * how.vectors
    each = HIGH * how.rows.down // how.rows.up  # rows that one more row of strips needs
    most = max(1, (ROOM // pitch - how.height) // each + 1)
    tiles_down = blocks(blocks(P, HIGH), most)
    down = blocks(blocks(P, HIGH), tiles_down)
    rows = (down - 1) * each + how.height
    count = max(1, min(planes, ROOM // (rows * pitch), blocks(2 * THREADS, down * across)))
    tall, broad = down * HIGH, across * wide
    return Tiles(
        count,
        tall,
        broad,
        blocks(P, tall),
        blocks(Q, broad),
        rows,
        pitch,
        inverse(rows),
        inverse(pitch // reads),
        down,
        across,
        inverse(down),
        inverse(across),
    )


def _sum(problem: Problem, operands: tuple[Layout, ...]) -> Plan:
    """The plan of a forward convolution or input gradient; operands: images, filters and, if the
    kernel adds it, the bias."""
    out, how, reverse = problem.out, scheme(*read_as(problem)), problem.kind == "input"
    plan = ReorderedPlan(out, *operands, last=False)
    (images, channels, H, W), (P, Q) = operands[0].shape, out.shape[2:]
    planes, reads = images * channels, access(W)
    cut = tiles(how, planes, P, Q, reads)
    x, w, *bias = [operand.flat for operand in plan.operands]
    plan.steps.append(
        Launch(
            conv2d_depthwise(out.dtype, how, reads, access(Q)),
            blocks(planes, cut.count) * cut.tiles_down * cut.tiles_across,
            THREADS,
            [
                x,
                w,
                *(bias or [w]),
                plan.target.flat,
                *numbers(bool(bias), reverse, channels, planes, H, W, P, Q, *cut),
            ],
            shared=cut.shared * compute_dtype(out.dtype).itemsize,
        )
    )
    return plan.build()


def forward(problem: Problem) -> Plan:
    """x (N, C, H, W), weight (C, 1, R, S), bias (C,) -> y (N, C, P, Q)."""
    return _sum(problem, problem.inputs)


def input_gradient(problem: Problem) -> Plan | None:
    """y (N, C, P, Q), weight (C, 1, R, S), bias (C,) -> x (N, C, H, W)."""
    return add_bias(_sum(problem, problem.operands), problem)


def weight_gradient(problem: Problem) -> Plan:
    """y (N, C, P, Q), x (N, C, H, W) -> weight (C, 1, R, S)."""
    grad, x, out = problem.y, problem.x, problem.weight
    (images, channels, H, W), (P, Q) = x.shape, grad.shape[2:]
    how, reads = scheme(*read_as(problem)), access(W)
    plan = ReorderedPlan(out, grad, x, last=False)
    cut = tiles(how, images, P, Q, reads)
    count = blocks(images, cut.count) * cut.tiles_down * cut.tiles_across
    jobs, splits = shared_out(count, channels, ENOUGH_BLOCKS)
    partial = plan.temp(Layout.new((splits, out.size), compute_dtype(out.dtype), out.device))
    dy, image = [operand.flat for operand in plan.operands]
    plan.steps += [
        Launch(
            conv2d_depthwise_weight(out.dtype, how, reads, access(Q)),
            (channels, splits),
            THREADS,
            [dy, image, partial.flat, *numbers(jobs, channels, images, H, W, P, Q, *cut)],
            shared=cut.shared * compute_dtype(out.dtype).itemsize,
        ),
        strips_summed(problem, partial, plan.target.flat, plan.operands, [grad.like(), x.like()]),
    ]
    return plan.build()
