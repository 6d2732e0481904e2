"""Depthwise convolution of images channels last, and its gradients: strips of results, a thread has
one or two channels.

nchw.py explains the sums, and what a scheme, a strip and its reach are. Channels last,
neighbouring threads have neighbouring channels: a warp reads 64 channels of a pixel by one access
of whole lines, wherever the pixel is, so nothing goes through shared memory. Strips beside and
below each other read some pixels twice, which then come from the L1 cache.

The floor is bytes(x) + bytes(y). What keeps from it are instructions: a result of 3 x 3 taps takes
nine that multiply, and a pixel that is found, tested and widened by itself takes more than those.
So which columns of a strip lie inside the image is a word of bits, found once; a row outside makes
it 0; and pixels are asked for a row ahead, as they lie in memory.

The filters of a block's channels go through shared memory into registers: read from where they lie,
each tap of a warp's channels would touch as many lines as it has lanes. The weight gradient
reverses the roles: a thread holds results dy, and its channels' R * S sums grow while rows pass.
The groups of a block add theirs in turn, then ``strips_summed`` those of the blocks: the same bits
every time.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from ....core.dispatch.arguments import Input
from ....core.dispatch.plan import Plan
from ....core.dispatch.steps import Launch
from ....core.dtypes import compute_dtype
from ....core.layout import Layout
from ....runtime.device import multiprocessors
from ...compiler.decorators import WARP, bounded, device_function
from ...compiler.generated import compiled
from ...compiler.lazy_numba import SIMULATOR, cuda, types
from ...compiler.storage_types import numba_type
from ...copy.channels_last import ReorderedPlan, as_channels_last
from ...lib.codec import codec
from ...lib.integers import blocks
from ...lib.vector_io import fetcher, inside_bits, writer
from ..geometry import numbers
from ..problem import Problem, add_bias
from ..wgrad_simt import strips_summed
from .nchw import Axis, Scheme, meeting, read_as

if not SIMULATOR:
    from ...ptx.predicated_access import LOADS, STORES
    from ...ptx.sm80 import global_address

THREADS = 128
WIDE = 4  # columns of a strip
FEW = 25  # taps up to which a thread has registers for two channels
ENOUGH_THREADS = 1024  # of a multiprocessor: threads take more strips while there are so many
MEETING = 32  # rows and columns that a strip meets at most: a word has so many bits


class Shares(NamedTuple):
    """What a thread has: `width` channels of `lanes` that lie side by side, `high` rows of a
    strip."""

    width: int
    lanes: int
    high: int


def shares(problem: Problem) -> Shares:
    """Two channels where there are registers for their filters; else strips are higher. As many
    lanes as leave few idle."""
    channels, dtype = problem.x.shape[1], problem.dtype
    few = problem.taps[0] * problem.taps[1] <= FEW and dtype.itemsize <= 4
    width = 2 if channels % 2 == 0 and few and not SIMULATOR else 1
    room = width == 1 and dtype.itemsize <= 4 and problem.kind != "weight"
    high = 8 if room and scheme(problem, 8).height <= MEETING else 4
    pieces = channels // width
    idle = {lanes: blocks(pieces, lanes) * lanes / pieces for lanes in (WARP, 16, 8)}
    fewest = min(idle.values())
    return Shares(width, next(n for n in idle if idle[n] <= 1.1 * fewest), high)


ADDING = 3  # blocks of weight gradients of a multiprocessor: a thread takes 168 registers


def resident(how: Scheme) -> int:
    """Other blocks of a multiprocessor: of few taps a thread takes 128 registers."""
    return 4 if how.rows.taps * how.columns.taps <= 16 else 3


def scheme(problem: Problem, high: int) -> Scheme:
    """How strips of so many rows meet pixels."""
    taps, up, down, before = read_as(problem)
    rows, columns = (
        Axis(taps[i], up[i], down[i], before[i], long, problem.dilation[i])
        for i, long in enumerate((high, WIDE))
    )
    return Scheme(rows, columns)


def _form(dtype: np.dtype, width: int) -> tuple[str, int]:
    """An access as predicated_access.py names it."""
    if dtype.itemsize == 4:
        return "float32", width
    return "uint32" if width == 2 else "uint16", 1


@functools.cache
def _row_fetcher(dtype: np.dtype, width: int, span: int) -> Any:
    """Device function (x, at, channels, inside, r): r = the accesses from elements at, at +
    channels, ... on, as they lie in memory, of those whose bit of `inside` is set; 0 for the
    others."""
    fetch, _, words, kind = fetcher(dtype, width)
    zero = numba_type(kind)(0)

    @device_function
    def fetch_row(x, at, channels, inside, r):
        for k in range(span * words):
            r[k] = zero
        for k in range(span):
            if inside & types.uint32(1 << k):
                fetch(x, (at + k * channels) // width, r, k * words)

    if SIMULATOR or dtype.itemsize == 8:
        return fetch_row
    size = dtype.itemsize
    lines = [
        "def fetch_row(x, at, channels, inside, r):",
        f"    address, step = global_address(x) + at * {size}, channels * {size}",
    ]
    for k in range(span):
        into = ", ".join(f"r[{k * words + j}]" for j in range(words))
        lines.append(f"    {into} = load(address + {k} * step, u32(inside & u32({1 << k})))")
    names = {
        "global_address": global_address,
        "load": LOADS[_form(dtype, width)],
        "u32": types.uint32,
    }
    return device_function(compiled("\n".join([*lines, ""]), "fetch_row", names))


@functools.cache
def _strip_writer(dtype: np.dtype, width: int, high: int) -> Any:
    """Device function (y, at, pitch, channels, rows, columns, total): the results `total` of a
    strip, to elements at + j * channels of the rows `pitch` apart, of those whose row and column
    have their bits in `rows` and `columns`."""
    _, store, _ = codec(dtype)
    write = writer(dtype, width)

    @device_function
    def write_strip(y, at, pitch, channels, rows, columns, total):
        for i in range(high):
            for j in range(WIDE):
                if rows & types.uint32(1 << i) and columns & types.uint32(1 << j):
                    write(y, at + i * pitch + j * channels, total, (i * WIDE + j) * width)

    if SIMULATOR or dtype.itemsize == 8:
        return write_strip

    @device_function
    def packed(a, b):
        return types.uint32(types.uint32(store(b)) << types.uint32(16)) | types.uint32(store(a))

    size = dtype.itemsize
    lines = [
        "def write_strip(y, at, pitch, channels, rows, columns, total):",
        f"    address, step = global_address(y) + at * {size}, channels * {size}",
        f"    below = pitch * {size}",
    ]
    for i in range(high):
        lines.append(f"    row = u32(columns if rows & u32({1 << i}) else u32(0))")
        for j in range(WIDE):
            e = (i * WIDE + j) * width
            if size == 2 and width == 2:
                values = f"u32(packed(total[{e}], total[{e + 1}]))"
            elif size == 2:
                values = f"u32(store(total[{e}]))"
            else:
                values = ", ".join(f"store(total[{e + k}])" for k in range(width))
            lines.append(
                f"    put(address + {i} * below + {j} * step, u32(row & u32({1 << j})), {values})"
            )
    names = {
        "global_address": global_address,
        "packed": packed,
        "store": store,
        "put": STORES[_form(dtype, width)],
        "u32": types.uint32,
    }
    return device_function(compiled("\n".join([*lines, ""]), "write_strip", names))


@functools.cache
def _places_inside(span: int) -> Any:
    """Device function (first, length) -> bit k: whether place first + k lies in 0 ... length -
    1."""
    inside = inside_bits(span)

    @device_function
    def places_inside(first, length):
        return inside(types.int32(first), types.int32(length - first))

    return places_inside


@functools.cache
def _strip(dtype: np.dtype, how: Scheme, width: int, arguments: str, term: str) -> Any:
    """Device function (x, at, pitch, channels, rows, columns, now, ahead, v, <arguments>) that
    walks down the rows below a strip, written out (see nchw.straight).

    at: place of its first pixel; rows, columns: which of its rows and columns lie in the image;
    now, ahead: registers for a row as it lies in memory; v: for its numbers. term: the statement
    where result `n` meets tap `t` at number `k`, for each of the channels."""
    low, high = how.columns.reach
    span = high - low + 1
    fetch = _row_fetcher(dtype, width, span)
    _, widen, words, _ = fetcher(dtype, width)

    @device_function
    def take(r, v):
        for k in range(span):
            widen(r, k * words, v, k * width)

    terms = [
        term.format(
            n=f"{width} * (n0 + {j}) + {e}", t=f"{width} * (t0 + {s}) + {e}", k=k * width + e
        )
        for k in range(span)
        for j, s in how.columns.pairs(low + k)
        for e in range(width)
    ]
    meet = meeting(arguments, terms)
    lines = [f"def strip(x, at, pitch, channels, rows, columns, now, ahead, v, {arguments}):"]
    held = ("now", "ahead")
    for row in range(how.height + 1):
        if row < how.height:
            lines.append(
                f"    fetch(x, at + {row} * pitch, channels, "
                f"u32(columns if rows & u32({1 << row}) else u32(0)), {held[row % 2]})"
            )
        if row > 0:
            lines.append(f"    take({held[(row - 1) % 2]}, v)")
            lines += [
                f"    meet(v, i64({i * WIDE}), i64({r * how.columns.taps}), {arguments})"
                for i, r in how.rows.pairs(how.first + row - 1)
            ]
    names = {
        "fetch": fetch,
        "take": take,
        "meet": meet,
        "i64": types.int64,
        "u32": types.uint32,
    }
    return device_function(compiled("\n".join([*lines, ""]), "strip", names))


@functools.cache
def conv2d_depthwise_last(dtype: np.dtype, how: Scheme, width: int, lanes: int) -> Any:
    """A thread `width` channels of `each` strips below each other; block (lanes, strips)."""
    load, _, C = codec(dtype)
    high = how.rows.wide
    strip = _strip(dtype, how, width, "w, total", "total[{n}] += w[{t}] * v[{k}]")
    write, (_, _, words, kind) = _strip_writer(dtype, width, high), fetcher(dtype, width)
    raw, rows_inside, results_inside = numba_type(kind), _places_inside(high), _places_inside(WIDE)
    (up_down, up_across), (step_down, step_across) = (
        (axis.up for axis in how),
        (axis.down for axis in how),
    )
    area, results = how.rows.taps * how.columns.taps, high * WIDE
    left, first = how.columns.reach[0], how.first
    span = how.columns.reach[1] - left + 1
    columns_met, rows_met = _places_inside(span), _places_inside(how.height)
    window, packed = span * width, span * words
    w_size, total_size, filters = area * width, results * width, lanes * width * area
    groups = THREADS // lanes

    @bounded((THREADS, resident(how)))
    def conv2d_depthwise_last(
        x,
        weights,
        bias,
        y,
        biased,
        flipped,
        items,
        channels,
        H,
        W,
        P,
        Q,
        strips_down,
        strips_across,
        each,
    ):
        """x (images, H, W, channels), weights (channels, R, S), y (images, P, Q, channels): flat;
        bias (channels,) if biased; flipped: filters are read backwards; items: groups of `each`
        strips below each other, strips_down of them in an image. Grid: chunks of channels, the
        fastest, and blocks of items."""
        room = cuda.shared.array(filters, C)
        now = cuda.local.array(packed, raw)
        ahead = cuda.local.array(packed, raw)
        v = cuda.local.array(window, C)
        w = cuda.local.array(w_size, C)
        total = cuda.local.array(total_size, C)
        lane, group = cuda.threadIdx.x, cuda.threadIdx.y
        begin = cuda.blockIdx.x * filters
        for k in range(group * lanes + lane, filters, THREADS):
            if begin + k < channels * area:
                tap = k % area
                to = k - tap + (area - 1 - tap if flipped else tap)
                room[types.uint32(to)] = load(weights[types.uint64(begin + k)])
        cuda.syncthreads()
        item = cuda.blockIdx.y * groups + group
        c = (cuda.blockIdx.x * lanes + lane) * width
        if item >= items or c >= channels:
            return
        own = types.uint32(lane * (width * area))
        for k in range(area):
            for e in range(width):
                w[k * width + e] = room[own + types.uint32(e * area + k)]
        line = types.uint32(item) // types.uint32(strips_across)
        q = types.int64(types.uint32(item) - line * types.uint32(strips_across)) * WIDE
        image = types.int64(line // types.uint32(strips_down))
        p0 = (types.int64(line) - image * strips_down) * each * high
        u = q * step_across // up_across + left
        columns = columns_met(u, W)
        for p in range(p0, min(p0 + each * high, P), high):
            for e in range(width):
                start = load(bias[c + e]) if biased else C(0)
                for k in range(results):
                    total[k * width + e] = start
            h = p * step_down // up_down + first
            strip(
                x,
                ((image * H + h) * W + u) * channels + c,
                W * channels,
                channels,
                rows_met(h, H),
                columns,
                now,
                ahead,
                v,
                w,
                total,
            )
            to = ((image * P + p) * Q + q) * channels + c
            write(y, to, Q * channels, channels, rows_inside(p, P), results_inside(q, Q), total)

    return conv2d_depthwise_last


@functools.cache
def conv2d_depthwise_last_weight(dtype: np.dtype, how: Scheme, width: int, lanes: int) -> Any:
    """A thread the sums of `width` channels over its share of the strips; block (lanes, groups)."""
    _, _, C = codec(dtype)
    high = how.rows.wide
    strip = _strip(dtype, how, width, "held, sums", "sums[{t}] += held[{n}] * v[{k}]")
    _, widen, words, kind = fetcher(dtype, width)
    raw, fetch = numba_type(kind), _row_fetcher(dtype, width, WIDE)
    step_down, step_across = how.rows.down, how.columns.down
    area, results = how.rows.taps * how.columns.taps, high * WIDE
    left, first = how.columns.reach[0], how.first
    span = how.columns.reach[1] - left + 1
    columns_met, rows_met = _places_inside(span), _places_inside(how.height)
    results_inside = _places_inside(WIDE)
    window, packed, held_packed = span * width, span * words, WIDE * words
    sums_size, held_size, filters = area * width, results * width, lanes * width * area
    groups = THREADS // lanes

    @bounded((THREADS, ADDING))
    def conv2d_depthwise_last_weight(
        dy, x, partial, items, channels, H, W, P, Q, strips_down, strips_across
    ):
        """dy (images, P, Q, channels), x (images, H, W, channels), partial (splits, channels, R *
        S): flat; items: strips of all images. Grid: chunks of channels, splits."""
        room = cuda.shared.array(filters, C)
        now = cuda.local.array(packed, raw)
        ahead = cuda.local.array(packed, raw)
        line_dy = cuda.local.array(held_packed, raw)
        v = cuda.local.array(window, C)
        held = cuda.local.array(held_size, C)
        sums = cuda.local.array(sums_size, C)
        lane, group = cuda.threadIdx.x, cuda.threadIdx.y
        c = (cuda.blockIdx.x * lanes + lane) * width
        for k in range(sums_size):
            sums[k] = C(0)
        end = items if c < channels else 0
        for item in range(cuda.blockIdx.y * groups + group, end, cuda.gridDim.y * groups):
            line = types.uint32(item) // types.uint32(strips_across)
            q = types.int64(types.uint32(item) - line * types.uint32(strips_across)) * WIDE
            image = types.int64(line // types.uint32(strips_down))
            p = (types.int64(line) - image * strips_down) * high
            at = ((image * P + p) * Q + q) * channels + c
            there = results_inside(q, Q)
            for k in range(high):
                fetch(
                    dy,
                    at + k * Q * channels,
                    channels,
                    there if p + k < P else types.uint32(0),
                    line_dy,
                )
                for j in range(WIDE):
                    widen(line_dy, j * words, held, (k * WIDE + j) * width)
            u, h = q * step_across + left, p * step_down + first
            strip(
                x,
                ((image * H + h) * W + u) * channels + c,
                W * channels,
                channels,
                rows_met(h, H),
                columns_met(u, W),
                now,
                ahead,
                v,
                held,
                sums,
            )
        for other in range(groups):
            cuda.syncthreads()
            if group == other:
                for k in range(area):
                    for e in range(width):
                        place = (lane * width + e) * area + k
                        before = room[place] if other > 0 else C(0)
                        room[place] = before + sums[k * width + e]
        cuda.syncthreads()
        begin = cuda.blockIdx.x * filters
        for k in range(group * lanes + lane, filters, THREADS):
            if begin + k < channels * area:
                partial[cuda.blockIdx.y * (channels * area) + begin + k] = room[k]

    return conv2d_depthwise_last_weight


# -------------------- planners


def _sum(problem: Problem, biased: bool) -> Plan | None:
    """The plan of a forward convolution or input gradient; biased: whether the kernel adds the
    bias. None: there are too many strips."""
    out, (width, lanes, high) = problem.out, shares(problem)
    how = scheme(problem, high)
    images, channels, H, W = problem.operands[0].shape
    P, Q = out.shape[2:]
    rows, strips_across = blocks(P, high), blocks(Q, WIDE)
    chunks = blocks(channels // width, lanes)
    across = images * strips_across * (channels // width)
    enough = ENOUGH_THREADS * multiprocessors(problem.device)
    each = max(1, min(rows, across * rows // enough))
    strips_down = blocks(rows, each)
    items, groups = images * strips_across * strips_down, THREADS // lanes
    if blocks(items, groups) > 65535:
        return None
    plan = ReorderedPlan(out, *problem.operands)
    x, w = plan.operands
    area = how.rows.taps * how.columns.taps
    w = w.view((channels * area,))  # filters of one channel: both orders are the same
    plan.steps.append(
        Launch(
            conv2d_depthwise_last(out.dtype, how, width, lanes),
            (chunks, blocks(items, groups)),
            (lanes, groups),
            [
                x.view((problem.operands[0].size,)),
                w,
                Input(2) if biased else w,
                plan.target.view((out.size,)),
                *numbers(
                    biased,
                    problem.kind == "input",
                    *(items, channels, H, W, P, Q, strips_down, strips_across, each),
                ),
            ],
        )
    )
    return plan.build()


def forward(problem: Problem) -> Plan | None:
    """x (N, C, H, W), weight (C, 1, R, S), bias (C,) -> y (N, C, P, Q)."""
    return _sum(problem, problem.bias is not None)


def input_gradient(problem: Problem) -> Plan | None:
    """y (N, C, P, Q), weight (C, 1, R, S), bias (C,) -> x (N, C, H, W)."""
    return add_bias(_sum(problem, False), problem)


def weight_gradient(problem: Problem) -> Plan:
    """y (N, C, P, Q), x (N, C, H, W) -> weight (C, 1, R, S)."""
    grad, x, out = problem.y, problem.x, problem.weight
    (images, channels, H, W), (P, Q) = x.shape, grad.shape[2:]
    width, lanes, high = shares(problem)
    how, groups = scheme(problem, high), THREADS // lanes
    chunks = blocks(channels // width, lanes)
    strips_down, strips_across = blocks(P, high), blocks(Q, WIDE)
    items = images * strips_down * strips_across
    at_once = max(1, ADDING * multiprocessors(problem.device) // chunks)
    splits = min(blocks(items, groups), at_once)
    plan = ReorderedPlan(out, grad, x)
    partial = plan.temp(Layout.new((splits, out.size), compute_dtype(out.dtype), out.device))
    dy, image = plan.operands
    plan.steps += [
        Launch(
            conv2d_depthwise_last_weight(out.dtype, how, width, lanes),
            (chunks, splits),
            (lanes, groups),
            [
                dy.view((grad.size,)),
                image.view((x.size,)),
                partial.flat,
                *numbers(items, channels, H, W, P, Q, strips_down, strips_across),
            ],
        ),
        strips_summed(
            problem,
            partial,
            plan.target.view((out.size,)),
            plan.operands,
            [as_channels_last(grad), as_channels_last(x)],
        ),
    ]
    return plan.build()
