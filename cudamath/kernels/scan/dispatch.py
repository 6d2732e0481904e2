"""Running totals along an axis (cumsum, cumprod, cummax, cummin), in one pass.

The idea. A scan is an associative ``combine`` and y[i] = x[0] combine ... combine x[i]. One thread
can walk a line and write as it goes, at the price of one read and one write per element. Few long
lines need more threads than lines, and then each thread has to know the total of what comes before
its part:

``scan_lines``  one thread per line; neighbouring threads, neighbouring lines. Any strides, any GPU,
the simulator; the
                right choice where lines are many (a scan down the columns of a matrix). Where they
                are few they are cut into segments: ``line_totals`` reads each segment once more to
                know its total.
``scan_rows``   many rows of neighbours, too short for the threads of a tile: a warp or a part of
                one for each, which goes
                along it with the total in registers. No block waits for another, no warp for
                another.
``scan_ring``    (sm90.py) long lines on 9.0, in tiles that are prefetched and whose totals are
                 published ahead.
``scan_columns`` (strided.py) lines whose neighbours are other lines, one block per strip of
them: one pass. ``scan_tiles``  lines of neighbours, in tiles of 512 threads x some 16-byte
accesses. Within a tile: each thread
                scans its vectors, a warp scans their totals by shuffles, the warps meet in shared
                memory. Between tiles, while all of them run:

                    group 0                         group 1
                    tile 0   tile 1  ...  tile 511  tile 512  tile 513 ...
                    A0       A1           A511      A512      A513          A: the tile's total,
                             published at once
                    P1 = all of group 0, by its last tile ->                P2 = P1 + all of group 1

                A tile needs the P of its group and the A's before it in its group, which 512
                threads read at once and add as a tree. So the order of additions depends on
                positions alone: a float scan is the same bit for bit whichever tile is first,
                unlike the usual look-back, which adds what it happens to find. Blocks start in the
                order of their numbers, as every single-pass scan assumes: the tiles that a tile
                waits for already run.

The floor is a read and a write of each element; ``scan_tiles`` adds one read in L2 of up to 512
totals a tile, nothing to memory. What is published is 32 bits with a flag beside them in one 64-bit
word (ptx/lookback.py): no fences.

Totals are kept in the type of the result, 16-bit floats in float32. ``combine`` of max and min: NaN
wins.

Source: Merrill and Garland (2016), Single-pass Parallel Prefix Scan with Decoupled Look-back; the
groups are ours.

Measured (row versions_scan):
running sums of the rows of 64 x 2^20, float32; NVIDIA H200, commit 52457ee46004, 2026-11-23

                     GB/s     of a copy
    scan_lines       45.2          0.01
    scan_tiles      2,882          0.68
    scan_ring       3,948          0.93

(end of what was measured)
"""

import functools
import math
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ...runtime.device import multiprocessors
from ..compiler.decorators import WARP, bounded, device
from ..compiler.lazy_numba import SIMULATOR, cuda, dtype_of, types
from ..copy.axis_last import neighbours
from ..copy.contiguous import box
from ..copy.strided import fill_part, whole
from ..lib.codec import codec
from ..lib.integers import blocks, power_of_two
from ..lib.vector_io import reading
from ..lib.widths import vector_width
from . import strided
from .decoupled_lookback import THREADS, WARPS, combining, handing, putting, side_by_side

if not SIMULATOR:
    from . import sm90

LINE_THREADS = 256
GROUP = THREADS  # tiles whose totals a block reads at once
BLOCKS = 3  # on a multiprocessor: while one waits for the tiles before it, others read and write
TILE_BYTES = 64  # of its input that a thread of ``scan_tiles`` holds
ROW_THREADS = 256
ROW_BYTES, ROW_VECTORS = (
    128,
    8,
)  # of totals that a thread of ``scan_rows`` holds at most, and accesses
ROW_LANES = 8  # that share a row at least, if it has an access for each: 128 bytes in one piece
# for each multiprocessor, from which on rows that take ``scan_rows`` several steps are many enough
# for it
ROWS = 32
LINE_STEP = 8  # loads in flight of a thread of ``scan_lines``
# elements that it combines one after another before it starts a new part: rounding errors of a
# float
LINE_RUN = 64
# sum then grow with the number of parts, not of elements
MOST_SEGMENTS = 64


# -------------------- one thread per line


@functools.cache
def line_totals(kind: str, source: np.dtype, target: np.dtype) -> Any:
    """totals[s, line] = all of segment s of a line combined, in order."""
    lift, combine, identity, A = combining(kind, source, target)

    @cuda.jit
    def line_totals(
        x, totals, length
    ):  # x: (before, n, after); totals: (segments, before * after); length: of one
        i = cuda.grid(1)
        lines = totals.shape[1]
        s = i // lines
        if s < totals.shape[0]:
            line = i - s * lines
            b = line // x.shape[2]
            a = line - b * x.shape[2]
            total = identity
            part = identity
            first = s * length
            j = first
            stop = min(j + length, x.shape[1])
            ahead = cuda.local.array(LINE_STEP, A)
            while j + LINE_STEP <= stop:  # all loads go out before the first is waited for
                for k in range(LINE_STEP):
                    ahead[k] = lift(x[b, j + k, a])
                for k in range(LINE_STEP):
                    part = combine(part, ahead[k])
                j += LINE_STEP
                if (j - first) % LINE_RUN == 0:
                    total = combine(total, part)
                    part = identity
            while j < stop:
                part = combine(part, lift(x[b, j, a]))
                j += 1
            total = combine(total, part)
            totals[s, line] = total

    return line_totals


@functools.cache
def scan_lines(kind: str, source: np.dtype, target: np.dtype) -> Any:
    """y[b, j, a] = x[b, 0, a] combine ... combine x[b, j, a]; a thread a segment of a line, after
    ``line_totals``."""
    lift, combine, identity, A = combining(kind, source, target)
    store = codec(target)[1]

    @cuda.jit
    def scan_lines(x, y, totals, length, segments):
        # x, y: (before, n, after), totals: (segments, before * after), not read if there is 1
        # segment
        i = cuda.grid(1)
        lines = x.shape[0] * x.shape[2]
        s = i // lines
        if s < segments:
            line = i - s * lines
            b = line // x.shape[2]
            a = line - b * x.shape[2]
            n = x.shape[1]
            total = identity
            for p in range(s):
                total = combine(total, totals[p, line])
            part = identity
            begin = s * length
            j = begin
            stop = min(j + length, n)
            ahead = cuda.local.array(LINE_STEP, A)
            while j + LINE_STEP <= stop:  # all loads go out before the first store waits for one
                for k in range(LINE_STEP):
                    ahead[k] = lift(x[b, j + k, a])
                for k in range(LINE_STEP):
                    part = combine(part, ahead[k])
                    y[b, j + k, a] = store(combine(total, part))
                j += LINE_STEP
                if (j - begin) % LINE_RUN == 0:
                    total = combine(total, part)
                    part = identity
            while j < stop:
                part = combine(part, lift(x[b, j, a]))
                y[b, j, a] = store(combine(total, part))
                j += 1

    return scan_lines


# -------------------- short rows


@functools.cache
def scan_rows(
    kind: str, source: np.dtype, target: np.dtype, width: int, vectors: int, lanes: int
) -> Any:
    """Rows of neighbours, each for `lanes` of a warp, which go along it by ``vectors`` accesses of
    ``width`` elements."""
    kinds = kind, source, target
    lift, _, identity, A = combining(*kinds)
    read, scan_lanes, put = (
        reading(lift, width),
        side_by_side(kinds, lanes, width, vectors),
        putting(A, target, width),
    )
    held = vectors * width
    stride = lanes * width  # elements that the lanes of a row read at once
    step = stride * vectors

    @bounded(ROW_THREADS)
    def scan_rows(x, y, rows, n):  # x, y: (rows * n,)
        v = cuda.local.array(held, A)
        t = types.int64(cuda.grid(1))
        lane = cuda.threadIdx.x % WARP
        place = lane % lanes
        end = lane - place + lanes - 1
        row = t // lanes
        base = row * n
        stop = n if row < rows else 0  # lanes past the last row take part in the shuffles
        carry = identity
        for start in range(0, n, step):
            first = start + place * width
            if start + step <= stop:  # all loads go out before the first is waited for
                for r in range(vectors):
                    read(x, base + first + r * stride, v, r * width)
            else:
                for r in range(vectors):
                    if first + r * stride < stop:
                        read(x, base + first + r * stride, v, r * width)
                    else:
                        for j in range(width):
                            v[r * width + j] = identity
            carry = scan_lanes(v, place, end, carry)
            for r in range(vectors):
                put(y, base, first + r * stride, stop, lane, v, r * width)

    return scan_rows


# -------------------- tiles of a line


@functools.cache
def scan_tiles(kind: str, source: np.dtype, target: np.dtype, width: int, vectors: int) -> Any:
    """Rows of neighbours in tiles of 512 threads x ``vectors`` accesses of ``width`` elements."""
    lift, combine, identity, A = combining(kind, source, target)
    shift, _, publish, await_, parts = handing(A)
    read = reading(lift, width)
    scan_warp = side_by_side((kind, source, target), WARP, width, vectors)
    held = vectors * width
    stride = WARP * width  # elements that a warp reads at once
    warp_size = stride * vectors
    tile_size = warp_size * WARPS
    put = putting(A, target, width)

    @device
    def warp_scan(a, lane):
        for s in range(5):
            lower = shift(a, 1 << s)
            if lane >= 1 << s:
                a = combine(lower, a)
        return a

    @bounded((THREADS, BLOCKS if A.bitwidth <= 64 else 2))
    def scan_tiles(x, y, totals, sums, n, per_row, groups):
        # x, y: (rows * n,); totals: (tiles * parts,), sums: (rows * groups * parts,): published
        # words, 0 at first; n: elements per row, per_row: tiles per row, groups: groups per row
        shared = cuda.shared.array(WARP, A)
        v = cuda.local.array(held, A)
        t = cuda.threadIdx.x
        lane = t % WARP
        warp = t // WARP
        tile = types.int64(cuda.blockIdx.x)  # blocks start in this order: those before run already
        row = tile // per_row
        k = tile - row * per_row
        base = row * n
        first = k * tile_size + warp * warp_size + lane * width
        for r in range(vectors):
            if first + r * stride < n:
                read(x, base + first + r * stride, v, r * width)
            else:
                for j in range(width):
                    v[r * width + j] = identity

        # 1. Within the warp.
        carry = scan_warp(v, lane, WARP - 1, identity)
        if lane == WARP - 1:
            shared[warp] = carry
        cuda.syncthreads()

        # 2. Of the warps before this one, and of the whole tile.
        before = identity
        whole_tile = identity
        for w in range(WARPS):
            if w == warp:
                before = whole_tile
            whole_tile = combine(whole_tile, shared[w])

        # 3. Of the tiles before this one: those of its group as a tree, then all groups before.
        if per_row > 1:
            group = k // GROUP
            member = k - group * GROUP
            if t == 0:
                publish(totals, tile * parts, whole_tile)
            earlier = identity
            if t < member:
                earlier = await_(totals, (tile - member + t) * parts)
            earlier = warp_scan(earlier, lane)
            cuda.syncthreads()  # all threads have read the totals of the warps
            if lane == WARP - 1:
                shared[warp] = earlier
            cuda.syncthreads()
            if t == 0:
                inside = shared[0]
                for w in range(1, WARPS):
                    inside = combine(inside, shared[w])
                prefix = inside
                if group > 0:
                    prefix = combine(await_(sums, (row * groups + group) * parts), inside)
                if member == GROUP - 1 and k < per_row - 1:
                    publish(sums, (row * groups + group + 1) * parts, combine(prefix, whole_tile))
                shared[WARPS] = prefix
            cuda.syncthreads()
            before = combine(shared[WARPS], before)
        for i in range(held):
            v[i] = combine(before, v[i])
        for r in range(vectors):
            put(y, base, first + r * stride, n, lane, v, r * width)

    return scan_tiles


# -------------------- planners

MANY_LINES = 1 << 14  # so many threads are enough for ``scan_lines`` with a few segments each
SHORT = 64  # lines of neighbours up to this length are walked by a thread
LONGEST = (
    1 << 16
)  # numbers of a row that ``scan_rows`` takes: it adds step after step, and as many roundings


def scan(x: Layout, *, kind: str, axis: int, dtype: np.dtype, version: str | None = None) -> Plan:
    """Running totals along ``axis`` in ``dtype``; version: None, "lines", "columns", "rows",
    "tiles" or "ring"."""
    out = x.like(dtype=dtype)
    if not out.size:
        return Plan([out], [])
    temps: list[Layout] = []
    n = x.shape[axis]
    after = x.size // n if axis == 0 else math.prod(x.shape[axis + 1 :])
    steps, source, layout, _ = box(Input(0), x, axis, 1, temps)
    ring = None if version is None else version == "ring"
    if version is None:
        many = x.size // n >= (1 << 10 if n <= SHORT else MANY_LINES // 2)
        short = n <= SHORT and (
            many or after > 1
        )  # few lines as well: copies to and from rows take three launches for one
        version = (
            "lines"
            if SIMULATOR or short
            else "columns"
            if strided.worth(kind, layout, dtype)
            else "lines"
            if many and after > 1
            else "tiles"
        )
        if version == "tiles" and worth_rows((kind, x.dtype, dtype), x.size // n, n, x):
            version = "rows"
    if version in ("rows", "tiles", "ring"):
        temps = []
        steps, source, back, target = neighbours(x, out, axis, temps)
        if version == "rows":
            if n > LONGEST:
                raise ValueError(
                    f"scan: version rows is for rows of up to {LONGEST} numbers, got {n}"
                )
            steps.append(row_step((kind, x.dtype, out.dtype), source, target, x.size // n, n, x))
        else:
            steps += tile_steps(kind, source, target, (x.size // n, n), x, out.dtype, temps, ring)
        return Plan([out], [*steps, *back], temps)
    target = Output(0).view(layout.shape)
    if version == "columns":
        return Plan(
            [out], [*steps, *strided.column_steps(kind, source, target, layout, dtype)], temps
        )
    return Plan([out], [*steps, *line_steps(kind, source, target, layout, dtype, temps)], temps)


def line_steps(
    kind: str, source: Any, target: Any, layout: Layout, dtype: np.dtype, temps: list[Layout]
) -> list[Launch]:
    """Steps of ``scan_lines`` for an argument of ``layout``: (before, n, after)."""
    before, n, after = layout.shape
    lines = before * after
    segments = max(1, min(blocks(16 * MANY_LINES, lines), n // (8 * LINE_STEP), MOST_SEGMENTS))
    length = blocks(n, segments)
    kinds = kind, layout.dtype, dtype
    temps.append(Layout.new((segments, lines), dtype_of(combining(*kinds).A), layout.device))
    totals = Temp(len(temps) - 1)
    grid = blocks(segments * lines, LINE_THREADS)
    first = (
        [Launch(line_totals(*kinds), grid, LINE_THREADS, [source, totals, length])]
        if segments > 1
        else []
    )
    return [
        *first,
        Launch(scan_lines(*kinds), grid, LINE_THREADS, [source, target, totals, length, segments]),
    ]


def row_shape(kinds: tuple[str, np.dtype, np.dtype], n: int, x: Layout) -> tuple[int, int, int]:
    """(elements of an access, accesses of a thread, lanes of a row) of ``scan_rows``."""
    held = ROW_BYTES // dtype_of(combining(*kinds).A).itemsize
    width = min(vector_width(n, x), 8, held)
    wanted = max(blocks(n, min(held, width * ROW_VECTORS)), min(ROW_LANES, blocks(n, width)), 2)
    lanes = min(power_of_two(wanted), WARP)
    return width, min(power_of_two(blocks(n, lanes * width)), held // width, ROW_VECTORS), lanes


def worth_rows(kinds: tuple[str, np.dtype, np.dtype], rows: int, n: int, x: Layout) -> bool:
    """Whether ``scan_rows`` takes one step, or rows are many and fill less than half of a tile."""
    width, vectors, lanes = row_shape(kinds, n, x)
    short = n <= THREADS * TILE_BYTES // dtype_of(combining(*kinds).A).itemsize // 2
    return n <= width * vectors * lanes or short and rows >= ROWS * multiprocessors(x.device)


def row_step(
    kinds: tuple[str, np.dtype, np.dtype], source: Any, target: Any, rows: int, n: int, x: Layout
) -> Launch:
    """The launch of ``scan_rows`` for arguments of shape (rows, n) and contiguous; x: layout of the
    elements."""
    width, vectors, lanes = row_shape(kinds, n, x)
    return Launch(
        scan_rows(*kinds, width, vectors, lanes),
        blocks(rows * lanes, ROW_THREADS),
        ROW_THREADS,
        [source.view((x.size,), dtype=x.dtype), target.view((x.size,), dtype=kinds[2]), rows, n],
    )


def tile_steps(
    kind: str,
    source: Any,
    target: Any,
    shape: tuple[int, int],
    x: Layout,
    dtype: np.dtype,
    temps: list[Layout],
    ring: bool | None,
) -> list[Launch]:
    """Steps for arguments of shape (rows, n) and contiguous; x: layout of the elements. ring:
    whether by ``scan_ring``, else by ``scan_tiles``; None: by what suits."""
    rows, n = shape
    kinds = kind, x.dtype, dtype
    if sm90.worth(kinds, rows, n, x) if ring is None else ring:
        return sm90.ring_steps(kinds, source, target, rows, n, x, temps)
    A = combining(*kinds).A
    held = TILE_BYTES // dtype_of(A).itemsize
    width = min(vector_width(n, x), 8, held)  # of a wider result a thread writes several vectors
    vectors = max(1, min(blocks(n, THREADS * width), held // width))
    per_row = blocks(n, THREADS * width * vectors)
    groups = blocks(per_row, GROUP)
    parts = handing(A)[4]
    words = (
        (rows * per_row * parts, rows * groups * parts) if per_row > 1 else (1, 1)
    )  # of one tile nothing is published
    temps.append(Layout.new((sum(words),), np.dtype(np.uint64), x.device))
    state = Temp(len(temps) - 1)
    totals, sums = state.view((words[0],)), state.view((words[1],), offset=8 * words[0])
    zero = np.uint64(0)
    reset = fill_part(whole(state, temps[-1]), zero, zero, None) if per_row > 1 else []
    return [
        *reset,
        Launch(
            scan_tiles(*kinds, width, vectors),
            rows * per_row,
            THREADS,
            [
                source.view((x.size,), dtype=x.dtype),
                target.view((x.size,), dtype=dtype),
                totals,
                sums,
                n,
                per_row,
                groups,
            ],
        ),
    ]
