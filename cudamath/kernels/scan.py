"""Running totals along an axis (cumsum, cumprod, cummax, cummin), and of counts, in one pass.

The idea. A scan is an associative ``combine`` and y[i] = x[0] combine ... combine x[i]. One thread can walk a line and
write as it goes, at the price of one read and one write an element. Few long lines need more threads than lines, and
then somebody has to know what came before his part:

``scan_lines``  a thread a line; neighbouring threads, neighbouring lines. Any strides, any GPU, the simulator; the
                right choice where lines are many (a scan down the columns of a matrix). Where they are few they are
                cut into segments: ``line_totals`` reads each segment once more to know its total.
``scan_columns`` lines whose neighbours are other lines (a scan down the columns of a matrix), a strip of 32 columns a
                block. It goes down tile by tile of 16 warps x some rows, while the next tile's numbers are on their way:
                each thread scans its rows, the warps meet in shared memory, and the total goes on to the next tile.
``scan_tiles``  lines of neighbours, in tiles of 512 threads x some 16-byte accesses. Within a tile: each thread
                scans its vectors, a warp scans their totals by shuffles, the warps meet in shared memory. Between
                tiles, while all of them run:

                    group 0                         group 1
                    tile 0   tile 1  ...  tile 511  tile 512  tile 513 ...
                    A0       A1           A511      A512      A513          A: the tile's total, published at once
                    P1 = all of group 0, by its last tile ->                P2 = P1 + all of group 1

                A tile needs the P of its group and the A's before it in its group, which 512 threads read at once and
                add as a tree. So the order of additions depends on positions alone: a float scan is the same bit for
                bit whichever tile is first, unlike the usual look-back, which adds what it happens to find. Blocks start in
                the order of their numbers, as every single-pass scan takes for granted: whom a tile waits for runs already.

The floor is a read and a write of each element; ``scan_tiles`` adds one read in L2 of up to 512 totals a tile, nothing
to memory. What is published is 32 bits with a flag beside them in one 64-bit word (ptx_lookback.py): no fences.

Totals are kept in the type of the result, 16-bit floats in float32. ``combine`` of max and min: NaN wins.

Source: Merrill and Garland (2016), Single-pass Parallel Prefix Scan with Decoupled Look-back; the groups are ours.

Measured (row versions_scan):
running sums of the rows of 64 x 2^20, float32; NVIDIA H200, commit bc5531f4aab2, 2026-11-22

                     GB/s     of a copy
    scan_lines       45.1          0.01
    scan_tiles      3,007          0.74

(end of what was measured)
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ..core.dtypes import compute_dtype
from ..core.layout import Layout
from ..core.plan import Input, Launch, Output, Plan, Temp
from .accumulate import accumulator
from .build import SIMULATOR, blocks, codec, numba_type
from .copy import fill_part, whole
from .index import box
from .lazy import cuda, dtype_of, types
from .lines import neighbours
from .rows import FULL, WARP, bounded, device, vector_width, writer

if not SIMULATOR:
    from .ptx import load_vector
    from .ptx_lookback import bits, load_relaxed, number, store_relaxed

THREADS = 512
WARPS = THREADS // WARP
LINE_THREADS = 256
GROUP = THREADS  # tiles whose totals a block reads at once
BLOCKS = 3  # on a multiprocessor: while one waits for the tiles before it, others read and write
TILE_BYTES = 64  # of its input that a thread of ``scan_tiles`` holds
LINE_STEP = 8  # loads in flight of a thread of ``scan_lines``
LINE_RUN = 64  # elements that it combines one after another before it starts a new part: rounding errors of a float
# sum then grow with the number of parts, not of elements
MOST_SEGMENTS = 64
STRIP_BYTES = 32  # of a column that a thread of ``scan_columns`` holds, and has on their way
STRIPS = 2  # blocks of ``scan_columns`` on a multiprocessor
_READY = 1 << 32  # the flag beside 32 bits


class Combining(NamedTuple):
    """What a scan does: lift an element to the type A of totals, combine two totals, and the total of nothing."""

    lift: Any
    combine: Any
    identity: Any
    A: Any


@functools.cache
def combining(kind: str, source: np.dtype, target: np.dtype) -> Combining:
    """kind: sum, prod, max, min, or nansum, nanprod, nanmax, nanmin, which skip NaNs; dtypes of elements and result."""
    A = accumulator(target) if kind.endswith(("sum", "prod")) else numba_type(compute_dtype(target))
    load = codec(source)[0]
    skip = kind in ("nansum", "nanprod") and source.kind in "fcV"
    if kind.endswith(("sum", "prod")):
        identity = A(0 if kind.endswith("sum") else 1)
    elif dtype_of(A).kind in "iu":
        identity = A(np.iinfo(dtype_of(A)).min if kind.endswith("max") else np.iinfo(dtype_of(A)).max)
    elif kind.startswith("nan"):
        identity = A(math.nan)  # where only NaNs came before
    else:
        identity = A(-math.inf if kind == "max" else math.inf)

    @device
    def lift(value):
        v = A(load(value))
        if skip and v != v:
            v = identity
        return v

    if kind.endswith("sum"):

        @device
        def combine(a, b):
            return A(a + b)

    elif kind.endswith("prod"):

        @device
        def combine(a, b):
            return A(a * b)

    elif kind == "max":

        @device
        def combine(a, b):  # x != x: NaN wins
            return a if a >= b or a != a else b

    elif kind == "min":

        @device
        def combine(a, b):
            return a if a <= b or a != a else b

    elif kind == "nanmax":

        @device
        def combine(a, b):  # x != x: NaN loses
            return a if a >= b or b != b else b

    else:

        @device
        def combine(a, b):
            return a if a <= b or b != b else b

    return Combining(lift, combine, identity, A)


# ------------------------------------------------------------------------------------------------ a thread a line


@functools.cache
def line_totals(kind: str, source: np.dtype, target: np.dtype) -> Any:
    """totals[s, line] = all of segment s of a line combined, in order."""
    lift, combine, identity, A = combining(kind, source, target)

    @cuda.jit
    def line_totals(x, totals, length):  # x: (before, n, after); totals: (segments, before * after); length: of one
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
    """y[b, j, a] = x[b, 0, a] combine ... combine x[b, j, a]; a thread a segment of a line, after ``line_totals``."""
    lift, combine, identity, A = combining(kind, source, target)
    store = codec(target)[1]

    @cuda.jit
    def scan_lines(x, y, totals, length, segments):
        # x, y: (before, n, after), totals: (segments, before * after), not read if there is 1 segment
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


# ------------------------------------------------------------------------------------------------ a block a strip of lines


@functools.cache
def scan_columns(kind: str, source: np.dtype, target: np.dtype, held: int) -> Any:
    """y[b, j, a] = x[b, 0, a] combine ... combine x[b, j, a]; a block for WARP neighbours a, ``held`` rows a thread."""
    lift, combine, identity, A = combining(kind, source, target)
    store = codec(target)[1]
    tile = WARPS * held

    @device
    def read(x, b, j, a, end, v):
        for k in range(held):
            v[k] = lift(x[b, j + k, a]) if j + k < end else identity

    @bounded((THREADS, STRIPS))
    def scan_columns(x, y, strips):
        # x, y: (before, n, after); strips: of WARP columns, the last of which may reach beyond them
        ends = cuda.shared.array((2, WARPS, WARP), A)  # of two tiles in turn, so that one barrier a tile is enough
        ahead = cuda.local.array(held, A)
        v = cuda.local.array(held, A)
        lane = cuda.threadIdx.x % WARP
        warp = cuda.threadIdx.x // WARP
        b = cuda.blockIdx.x // strips
        a = (cuda.blockIdx.x - b * strips) * WARP + lane
        n = x.shape[1]
        end = n if a < x.shape[2] else 0
        j = warp * held
        read(x, b, j, a, end, ahead)
        total = identity  # of the tiles above
        turn = 0
        for _ in range(0, n, tile):
            v[0] = ahead[0]
            for k in range(1, held):
                v[k] = combine(v[k - 1], ahead[k])
            read(x, b, j + tile, a, end, ahead)  # arrives while this tile is finished
            ends[turn, warp, lane] = v[held - 1]
            cuda.syncthreads()
            above = identity  # of this tile, the warps above
            inside = identity
            for w in range(WARPS):
                if w == warp:
                    above = inside
                inside = combine(inside, ends[turn, w, lane])
            above = combine(total, above)
            total = combine(total, inside)
            for k in range(held):
                if j + k < end:
                    y[b, j + k, a] = store(combine(above, v[k]))
            j += tile
            turn = 1 - turn

    return scan_columns


# ----------------------------------------------------------------------------------------------- tiles of a line


@functools.cache
def handing(A: Any) -> tuple[Any, Any, Any, Any, int]:
    """Device functions for totals of type A: shift (a, lanes): that of a lower lane; last (a): that of the warp's last lane;
    publish (words, slot, a); await (words, slot); and how many words a total takes."""
    if dtype_of(A).kind == "c":
        F = A.underlying_float
        shift_part, last_part, publish_part, await_part, parts = handing(F)

        @device
        def shift(a, lanes):
            return A(complex(shift_part(a.real, lanes), shift_part(a.imag, lanes)))

        @device
        def last(a):
            return A(complex(last_part(a.real), last_part(a.imag)))

        @device
        def publish(words, at, a):
            publish_part(words, at, a.real)
            publish_part(words, at + parts, a.imag)

        @device
        def await_(words, at):
            return A(complex(await_part(words, at), await_part(words, at + parts)))

        return shift, last, publish, await_, 2 * parts

    floating = dtype_of(A).kind == "f"
    S = A if floating else types.int64 if A.bitwidth == 64 else types.int32  # what shuffles move

    @device
    def shift(a, lanes):
        return A(cuda.shfl_up_sync(FULL, S(a), lanes))

    @device
    def last(a):
        return A(cuda.shfl_sync(FULL, S(a), WARP - 1))

    @device
    def wait(words, at):
        word = load_relaxed(words, at)
        while word < types.uint64(_READY):
            word = load_relaxed(words, at)
        return word & types.uint64(0xFFFFFFFF)

    if A.bitwidth <= 32:

        @device
        def publish(words, at, a):
            store_relaxed(words, at, types.uint64(bits(a) if floating else types.uint32(a)) | types.uint64(_READY))

        @device
        def await_(words, at):
            low = types.uint32(wait(words, at))
            return number(low) if floating else A(low)

        return shift, last, publish, await_, 1

    @device
    def publish(words, at, a):
        w = bits(a) if floating else types.uint64(a)
        store_relaxed(words, at, (w & types.uint64(0xFFFFFFFF)) | types.uint64(_READY))
        store_relaxed(words, at + 1, (w >> types.uint64(32)) | types.uint64(_READY))

    @device
    def await_(words, at):
        low, high = load_relaxed(words, at), load_relaxed(words, at + 1)  # both on their way at once
        while low < types.uint64(_READY):
            low = load_relaxed(words, at)
        while high < types.uint64(_READY):
            high = load_relaxed(words, at + 1)
        w = types.uint64((low & types.uint64(0xFFFFFFFF)) | (high << types.uint64(32)))
        return number(w) if floating else A(w)

    return shift, last, publish, await_, 2


@functools.cache
def scan_tiles(kind: str, source: np.dtype, target: np.dtype, width: int, vectors: int) -> Any:
    """Rows of neighbours in tiles of 512 threads x ``vectors`` accesses of ``width`` elements."""
    lift, combine, identity, A = combining(kind, source, target)
    shift, last, publish, await_, parts = handing(A)
    held = vectors * width
    stride = WARP * width  # elements that a warp reads at once
    warp_size = stride * vectors
    tile_size = warp_size * WARPS
    write = writer(target, width)

    @device
    def read(x, i, v, e):
        if width == 1:
            v[e] = lift(x[i])
        else:
            packed = load_vector(x, i, width)
            for j in range(width):
                v[e + j] = lift(packed[j])

    @device
    def warp_scan(a, lane):
        for s in range(5):
            lower = shift(a, 1 << s)
            if lane >= 1 << s:
                a = combine(lower, a)
        return a

    @bounded((THREADS, BLOCKS if A.bitwidth <= 64 else 2))
    def scan_tiles(x, y, totals, sums, n, per_row, groups):
        # x, y: (rows * n,); totals: (tiles * parts,), sums: (rows * groups * parts,): published words, 0 at first;
        # n: elements a row, per_row: tiles a row, groups: groups a row
        shared = cuda.shared.array(WARP, A)
        v = cuda.local.array(held, A)
        up_to = cuda.local.array(vectors, A)
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

        # 1. Within the warp: each access by itself, side by side; then ``carry`` goes from one to the next.
        for r in range(vectors):
            for j in range(1, width):
                v[r * width + j] = combine(v[r * width + j - 1], v[r * width + j])
            up_to[r] = v[r * width + width - 1]
        for s in range(5):
            for r in range(vectors):
                lower = shift(up_to[r], 1 << s)
                if lane >= 1 << s:
                    up_to[r] = combine(lower, up_to[r])
        carry = identity
        for r in range(vectors):
            before = shift(up_to[r], 1)
            before = carry if lane == 0 else combine(carry, before)
            for j in range(width):
                v[r * width + j] = combine(before, v[r * width + j])
            carry = combine(carry, last(up_to[r]))
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
            cuda.syncthreads()  # everybody has read the totals of the warps
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
            if first + r * stride < n:
                write(y, base + first + r * stride, v, r * width)

    return scan_tiles


# ----------------------------------------------------------------------------------------------------- planners

MANY_LINES = 1 << 14  # so many threads are enough for ``scan_lines`` with a few segments each
SHORT = 64  # lines of neighbours up to this length are walked by a thread


def scan(x: Layout, *, kind: str, axis: int, dtype: np.dtype, version: str | None = None) -> Plan:
    """Running totals along ``axis`` in ``dtype``; version: None, "lines", "columns" or "tiles"."""
    out = x.like(dtype=dtype)
    if not out.size:
        return Plan([out], [])
    temps: list[Layout] = []
    n = x.shape[axis]
    after = x.size // n if axis == 0 else math.prod(x.shape[axis + 1 :])
    if version is None:
        many = x.size // n >= (1 << 10 if n <= SHORT else MANY_LINES)
        version = "lines" if SIMULATOR or (many and (after > 1 or n <= SHORT)) else "tiles"
    if version == "tiles":
        steps, source, back, target = neighbours(x, out, axis, temps)
        steps += tile_steps(kind, source, target, (x.size // n, n), x, out.dtype, temps)
        return Plan([out], [*steps, *back], temps)
    steps, source, layout, _ = box(Input(0), x, axis, 1, temps)
    target = Output(0).view(layout.shape)
    along = column_steps if version == "columns" else line_steps
    return Plan([out], [*steps, *along(kind, source, target, layout, dtype, temps)], temps)


def column_steps(kind: str, source: Any, target: Any, layout: Layout, dtype: np.dtype, _temps: list[Layout]) -> list[Launch]:
    """The step of ``scan_columns`` for an argument of ``layout``: (before, n, after)."""
    kinds = kind, layout.dtype, dtype
    strips = blocks(layout.shape[2], WARP)
    kernel = scan_columns(*kinds, STRIP_BYTES // max(dtype_of(combining(*kinds).A).itemsize, 4))  # a register holds 4 bytes
    return [Launch(kernel, layout.shape[0] * strips, THREADS, [source, target, strips])]


def line_steps(kind: str, source: Any, target: Any, layout: Layout, dtype: np.dtype, temps: list[Layout]) -> list[Launch]:
    """Steps of ``scan_lines`` for an argument of ``layout``: (before, n, after)."""
    before, n, after = layout.shape
    lines = before * after
    segments = max(1, min(blocks(16 * MANY_LINES, lines), n // (8 * LINE_STEP), MOST_SEGMENTS))
    length = blocks(n, segments)
    kinds = kind, layout.dtype, dtype
    temps.append(Layout.new((segments, lines), dtype_of(combining(*kinds).A), layout.device))
    totals = Temp(len(temps) - 1)
    grid = blocks(segments * lines, LINE_THREADS)
    first = [Launch(line_totals(*kinds), grid, LINE_THREADS, [source, totals, length])] if segments > 1 else []
    return [*first, Launch(scan_lines(*kinds), grid, LINE_THREADS, [source, target, totals, length, segments])]


def tile_steps(kind: str, source: Any, target: Any, shape: tuple[int, int], x: Layout, dtype: np.dtype,
               temps: list[Layout]) -> list[Launch]:
    """Steps of ``scan_tiles`` for arguments of shape (rows, n) and contiguous; x: layout of the elements."""
    rows, n = shape
    kinds = kind, x.dtype, dtype
    A = combining(*kinds).A
    held = TILE_BYTES // dtype_of(A).itemsize
    width = min(vector_width(n, x), 8, held)  # of a wider result a thread writes several vectors
    vectors = max(1, min(blocks(n, THREADS * width), held // width))
    per_row = blocks(n, THREADS * width * vectors)
    groups = blocks(per_row, GROUP)
    parts = handing(A)[4]
    words = (rows * per_row * parts, rows * groups * parts) if per_row > 1 else (1, 1)  # of one tile nothing is published
    temps.append(Layout.new((sum(words),), np.dtype(np.uint64), x.device))
    state = Temp(len(temps) - 1)
    totals, sums = state.view((words[0],)), state.view((words[1],), offset=8 * words[0])
    zero = np.uint64(0)
    reset = fill_part(whole(state, temps[-1]), zero, zero, None) if per_row > 1 else []
    return [*reset, Launch(scan_tiles(*kinds, width, vectors), rows * per_row, THREADS,
                           [source.view((x.size,), dtype=x.dtype), target.view((x.size,), dtype=dtype), totals, sums,
                            n, per_row, groups])]


def vector_steps(vector: Any, layout: Layout, temps: list[Layout]) -> list[Launch]:
    """Running sums of a vector of integers, an argument of that layout, in place."""
    n, dtype = layout.size, layout.dtype
    if SIMULATOR:
        return line_steps("sum", vector.view((1, n, 1)), vector.view((1, n, 1)), layout.like((1, n, 1)), dtype, temps)
    return tile_steps("sum", vector, vector, (1, n), layout, dtype, temps)
