"""Long rows added into rows chosen by index, in a fixed order and without a sort.

The idea. Block `b` owns the rows whose number ends in the bits of `b`, so rows that are chosen
often are dealt out among the blocks. Every block looks through all indices, which the second-level
cache holds, and finds the sources of its own rows:

1. Count. Each warp goes through a stretch of the indices and counts, for each row of the block, how
   often it is chosen. Counts of warps before it and of rows before it give each warp a first place
   in the list of sources for each row.
2. Rows without sources are written: zeros, or what they were. These stores are in flight during
   what follows.
3. Place. Each warp goes through its stretch once more and writes the numbers of sources to their
   places in the list; lanes that meet the same row find each other by a vote. So the list is in the
   order of rows, and of sources within a row.
4. Sum. A warp takes a row, adds its sources in their order, and writes it.

A row of more than OFTEN sources is left to `add_often`, in which it is cut into slices of 128
bytes: a block has a slice, 64 groups of threads take the sources by turns, and the sums of the
groups are added in their order.

On an H200, device time by CUDA events, us: zeros and the sums of rows of 50,257 x 768 float32
(gradient of an embedding), rows at random, as words of a text are (zipf), or one row only. What
must be moved takes 37, 42 and 83 us at a copy's rate:

    sources         1,024   8,192   65,536   8,192 zipf   65,536 zipf   8,192 of one row
    with a sort        82     113      339          123           503                197
    add_rows           52      61      141           82           223                128

Tried: 32 warps per block, which leave a thread 64 registers: 72 us for 8,192 sources; 256 and 512
owners: 71 and 87; zeros written before the indices are looked at, or by bulk stores out of shared
memory: no difference; zeros written among the sums: 5 us more; by warps of their own while the
others sum: 2 of them 61.8, 4 60.2, one with bulk stores 72.7, where it takes 59.9 (of 1,024 sources
47.4, 47.9 and 68.8 beside 51.5); rows with sources dealt out evenly among the warps 59.0 (49.2),
for one more loop around them. Of the 59.9 us zeros alone take 41.1, sums alone 28.5, and the second
launch is 2.8.

`add_often` took 9 us to find no such row in 12 blocks per multiprocessor that each looked at its
owners in turn: now it looks at all of them at once. 2 blocks per multiprocessor: 60 and 255 us
(8,192 sources, 65,536 zipf), 12: 65 and 213.

The order of all additions depends on the indices alone: same bits on every run. Floor: one write of
the result and one read of the sources, against twice the writes and a sort in
scatter_add_sorted.py, which serves shorter rows and more indices.
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Flag, Input, Output, Temp, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ...runtime.device import capability, multiprocessors
from ..compiler.decorators import FULL, WARP, bounded
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..copy.contiguous import box, dense
from ..copy.dispatch import copy_part
from ..copy.parts import whole
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.vector_io import fetcher, writer
from .folding import folding
from .owners import owners_of
from .positions import positions_of
from .problem import ScatterAddProblem

if not SIMULATOR:
    from ..ptx import sm90 as ptx_sm90

WARPS = 16
THREADS = WARPS * WARP
NUMBERS = 2 * WARPS + 1  # that warps tell each other
AHEAD = 8  # indices that a lane has in flight
OFTEN = 32  # sources of a row that one warp adds one after another
UNDER_WAY, MOST_SOURCES = (
    12,
    4,
)  # accesses of 16 bytes, and sources, that a thread has in flight at most
GROUPS, LANES, DEEP = (
    64,
    8,
    4,
)  # of `add_often`: groups of so many threads, accesses of a thread in flight
OFTEN_THREADS = GROUPS * LANES
OFTEN_BLOCKS = 4  # of `add_often` per multiprocessor


@functools.cache
def add_rows(dtype: np.dtype, kind: str, base: str, row_of: Any, each: int) -> Any:
    """out[row] = base of the row, folded with the sum of its sources. base: "zeros", "copy" (x),
    "place" (x is out, and rows without sources stay as they are). row_of: (index, rows) -> row or
    -1; each: accesses of a lane to a piece of a row."""
    _, _, T = codec(dtype)
    width = 16 // dtype.itemsize
    fetch, widen, words, word = fetcher(dtype, width)
    write = writer(dtype, width)
    fold, nothing = folding(kind, dtype)
    sources = min(MOST_SOURCES, UNDER_WAY // each)  # that are in flight at once
    raw_words, numbers = sources * each * words, each * width
    stored = getattr(types, word.name)
    zeros, copied, in_place = base == "zeros", base == "copy", base == "place"
    nothing = T(0) if zeros else nothing

    @bounded((THREADS, 1))
    def add_rows(x, values, index, out, order, often, rows, vectors, bits, flag, ticket):
        # x: (rows * vectors,), values: (m * vectors,) accesses of words; out: (rows * vectors *
        # width,); index: (m,); order: (m,) int32; often: (owners, 1 + 3 most) int32: how many rows
        # are left, and of each its number, the place of its first source in order, and how many it
        # has; bits: the base-2 logarithm of owners
        counts = cuda.shared.array(
            0, types.int32
        )  # (WARPS, own), and the first places of the rows: (own + 1,)
        shared = cuda.shared.array(NUMBERS, types.int32)
        ahead = cuda.local.array(AHEAD, types.int64)
        t = types.int32(cuda.threadIdx.x)
        lane, warp = t % types.int32(WARP), t // types.int32(WARP)
        owner = types.int32(cuda.blockIdx.x)
        mask = types.int32((types.int32(1) << bits) - types.int32(1))
        own = types.int32((types.int32(rows) + mask) >> bits)
        first_places = types.int32(types.int32(WARPS) * own)
        m = types.int32(index.size)
        for i in range(t, first_places, types.int32(THREADS)):
            counts[i] = 0
        if t == 0:
            shared[2 * WARPS] = 0
        cuda.syncthreads()
        share = types.int32(
            (m + types.int32(THREADS * AHEAD - 1))
            // types.int32(THREADS * AHEAD)
            * types.int32(WARP * AHEAD)
        )
        first = min(types.int32(warp * share), m)
        last = min(types.int32(first + share), m)
        column = types.int32(warp * own)

        # 1. Count, and how many sources go to rows of the blocks before this one.
        smaller = types.int32(0)
        for start in range(types.int32(first + lane), last, types.int32(WARP * AHEAD)):
            for k in range(AHEAD):  # all loads go out before the first is waited for
                ahead[k] = index[
                    min(types.int32(start + types.int32(k * WARP)), types.int32(m - types.int32(1)))
                ]
            for k in range(AHEAD):
                if start + types.int32(k * WARP) < last:
                    row = types.int32(row_of(ahead[k], rows))
                    if row < 0:
                        flag[0] = ticket
                    elif row & mask < owner:
                        smaller += types.int32(1)
                    elif row & mask == owner:
                        cuda.atomic.add(counts, types.int32(column + (row >> bits)), 1)
        for s in range(5):
            smaller += cuda.shfl_xor_sync(FULL, smaller, 1 << s)
        if lane == 0:
            shared[warp] = smaller
        cuda.syncthreads()

        # A thread has a few neighbouring rows. Sums over the threads before it, by warps and then
        # over warps.
        each_own = types.int32((own + types.int32(THREADS - 1)) // types.int32(THREADS))
        low = min(types.int32(t * each_own), own)
        high = min(types.int32(low + each_own), own)
        mine = types.int32(0)
        for r in range(low, high):
            for w in range(WARPS):
                mine += counts[types.int32(types.int32(w) * own + r)]
        upto = mine
        for s in range(5):
            before = cuda.shfl_up_sync(FULL, upto, 1 << s)
            if lane >= 1 << s:
                upto += before
        if lane == WARP - 1:
            shared[WARPS + warp] = upto
        cuda.syncthreads()
        at = types.int32(upto - mine)
        for w in range(WARPS):
            at += shared[w]
            if w < warp:
                at += shared[WARPS + w]
        for r in range(low, high):
            counts[types.int32(first_places + r)] = at
            for w in range(WARPS):
                i = types.int32(types.int32(w) * own + r)
                here = counts[i]
                counts[i] = at
                at += here
        if high == own and low < own:
            counts[types.int32(first_places + own)] = at
        cuda.syncthreads()

        # 2. Rows without sources.
        total = cuda.local.array(numbers, T)
        raw = cuda.local.array(raw_words, stored)
        if not in_place:
            for i in range(numbers):
                total[i] = T(0)
            for r in range(warp, own, types.int32(WARPS)):
                row = types.int64(types.int32(types.int32(r << bits) | owner))
                place = types.int32(first_places + r)
                if row < rows and counts[types.int32(place + types.int32(1))] == counts[place]:
                    for piece in range(lane, vectors, types.int32(each * WARP)):
                        for v in range(each):
                            i = types.int32(piece + types.int32(v * WARP))
                            if i < vectors and copied:
                                fetch(x, row * vectors + i, raw, v * words)
                        for v in range(each):
                            i = types.int32(piece + types.int32(v * WARP))
                            if i < vectors:
                                if copied:
                                    widen(raw, v * words, total, v * width)
                                write(out, (row * vectors + i) * width, total, v * width)

        # 3. Place.
        below = types.uint32((types.uint32(1) << types.uint32(lane)) - types.uint32(1))
        for start in range(first, last, types.int32(WARP * AHEAD)):
            for k in range(AHEAD):
                j = types.int32(start + types.int32(k * WARP) + lane)
                ahead[k] = index[min(j, types.int32(m - types.int32(1)))]
            for k in range(AHEAD):
                j = types.int32(start + types.int32(k * WARP) + lane)
                row = types.int32(row_of(ahead[k], rows))
                here = j < last and row >= 0 and (row & mask) == owner
                if cuda.any_sync(FULL, here):
                    r = types.int32(row >> bits) if here else types.int32(-1)
                    peers = types.uint32(cuda.match_any_sync(FULL, r))
                    earlier = types.int32(cuda.popc(types.uint32(peers & below)))
                    i = types.int32(column + r)
                    if here:
                        order[types.int32(counts[i] + earlier)] = j
                    cuda.syncwarp()
                    if here and earlier == 0:
                        counts[i] += types.int32(cuda.popc(peers))
                    cuda.syncwarp()
        cuda.syncthreads()

        # 4. Sum.
        held = cuda.local.array(width, T)
        for r in range(warp, own, types.int32(WARPS)):
            row = types.int64(types.int32(types.int32(r << bits) | owner))
            begin = counts[types.int32(first_places + r)]
            end = counts[types.int32(first_places + r + types.int32(1))]
            if end - begin > OFTEN:
                if lane == 0:
                    entry = 1 + 3 * cuda.atomic.add(shared, 2 * WARPS, 1)
                    often[owner, entry] = row
                    often[owner, entry + 1] = begin
                    often[owner, entry + 2] = end - begin
            elif end > begin:
                for piece in range(lane, types.int32(vectors + lane), types.int32(each * WARP)):
                    for i in range(numbers):
                        total[i] = nothing
                    for s in range(begin, end, types.int32(sources)):
                        for q in range(sources):
                            if s + q < end:
                                source = (
                                    types.int64(order[types.int32(s + types.int32(q))]) * vectors
                                )
                                for v in range(each):
                                    i = types.int32(piece + types.int32(v * WARP))
                                    if i < vectors:
                                        fetch(values, source + i, raw, (q * each + v) * words)
                        for q in range(sources):
                            if s + q < end:
                                for v in range(each):
                                    widen(raw, (q * each + v) * words, held, 0)
                                    for e in range(width):
                                        total[v * width + e] = fold(total[v * width + e], held[e])
                    for v in range(each):
                        i = types.int32(piece + types.int32(v * WARP))
                        if i < vectors:
                            if not zeros:
                                fetch(x, row * vectors + i, raw, 0)
                                widen(raw, 0, held, 0)
                                for e in range(width):
                                    total[v * width + e] = fold(held[e], total[v * width + e])
                            write(out, (row * vectors + i) * width, total, v * width)
        cuda.syncthreads()
        if t == 0:
            often[owner, 0] = shared[2 * WARPS]

    return add_rows


@functools.cache
def add_often(dtype: np.dtype, kind: str, zeros: bool, early: bool) -> Any:
    """The rows that `add_rows` left: a block has a slice of LANES accesses. early: launched before
    they are known (9.0)."""
    _, store, T = codec(dtype)
    load = codec(dtype)[0]
    width = 16 // dtype.itemsize
    fetch, widen, words, word = fetcher(dtype, width)
    fold, nothing = folding(kind, dtype)
    nothing = T(0) if zeros else nothing
    columns = LANES * width
    raw_words = DEEP * words
    stored = getattr(types, word.name)
    wait = ptx_sm90.wait_for_previous if early else None

    def add_often(x, values, out, order, often, vectors, owners):
        # x, out: (rows * vectors * width,); the others as in add_rows; block (slice, first owner)
        if early:
            wait()
        sums = cuda.shared.array((GROUPS, columns), T)
        total = cuda.local.array(width, T)
        held = cuda.local.array(width, T)
        raw = cuda.local.array(raw_words, stored)
        t = types.int32(cuda.threadIdx.x)
        lane, group = t % types.int32(LANES), t // types.int32(LANES)
        slot = types.int32(cuda.blockIdx.x) * types.int32(LANES) + lane
        left = types.int32(0)
        step = types.int32(cuda.gridDim.y)
        for owner in range(
            types.int32(types.int32(cuda.blockIdx.y) + t * step),
            owners,
            types.int32(OFTEN_THREADS) * step,
        ):
            left |= types.int32(often[owner, 0])
        if not cuda.syncthreads_or(left):
            return
        for owner in range(types.int32(cuda.blockIdx.y), owners, step):
            for n in range(often[owner, 0]):
                row = types.int64(often[owner, 1 + 3 * n])
                begin = often[owner, 2 + 3 * n]
                end = begin + often[owner, 3 + 3 * n]
                for e in range(width):
                    total[e] = nothing
                if slot < vectors:
                    for s in range(begin + group, end, DEEP * GROUPS):
                        for q in range(DEEP):
                            if s + q * GROUPS < end:
                                fetch(
                                    values,
                                    types.int64(order[s + q * GROUPS]) * vectors + slot,
                                    raw,
                                    q * words,
                                )
                        for q in range(DEEP):
                            if s + q * GROUPS < end:
                                widen(raw, q * words, held, 0)
                                for e in range(width):
                                    total[e] = fold(total[e], held[e])
                for e in range(width):
                    sums[group, lane * width + e] = total[e]
                cuda.syncthreads()
                place = types.int64(cuda.blockIdx.x) * columns + t
                if t < columns and place < vectors * width:
                    sum = sums[0, t]
                    for g in range(1, GROUPS):
                        sum = fold(sum, sums[g, t])
                    if not zeros:
                        sum = fold(load(x[row * (vectors * width) + place]), sum)
                    out[row * (vectors * width) + place] = store(sum)
                cuda.syncthreads()

    if early:
        add_often.__name__ = "add_often_early"
    return bounded(OFTEN_THREADS)(add_often)


def row_steps(
    base: str,
    given: Any,
    target: Any,
    x: Layout,
    source: Any,
    index: Any,
    row_of: Any,
    m: int,
    temps: list[Layout],
    kind: str = "add",
) -> list[Launch]:
    """Steps for target[index[j]] += source[j], as add_rows says; `given`: the argument of x: (1,
    rows, after)."""
    _, rows, after = x.shape
    owners = owners_of(rows)
    own = blocks(rows, owners)
    vectors = after * x.itemsize // 16
    lanes = blocks(vectors, WARP)
    each = next(n for n in (1, 2, 3, 4, 6, 8) if n >= blocks(lanes, blocks(lanes, 8)))
    word = fetcher(x.dtype, 16 // x.itemsize)[3]
    temps += [
        Layout.new((m,), np.dtype(np.int32), x.device),
        Layout.new((owners, 1 + 3 * min(own, m // (OFTEN + 1))), np.dtype(np.int32), x.device),
    ]
    order, often = Temp(len(temps) - 2), Temp(len(temps) - 1)
    words = 16 // word.itemsize * vectors
    values, lines = source.view((m * words,), dtype=word), target.view((rows * after,))
    old = values if base == "zeros" else given.view((rows * words,), dtype=word)
    early, slices = capability(x.device) >= (9, 0), blocks(vectors, LANES)
    first = Launch(
        add_rows(x.dtype, kind, base, row_of, each),
        owners,
        THREADS,
        [
            old,
            values,
            index,
            lines,
            order,
            often,
            rows,
            np.int32(vectors),
            np.int32(owners.bit_length() - 1),
            Flag(),
            Ticket(),
        ],
        ((WARPS + 1) * own + 1) * 4,
    )
    if m <= OFTEN:  # of which no row can have more
        return [first]
    return [
        first,
        Launch(
            add_often(x.dtype, kind, base == "zeros", early),
            (slices, min(owners, max(OFTEN_BLOCKS * multiprocessors(x.device) // slices, 1))),
            OFTEN_THREADS,
            [
                lines if base == "zeros" else given.view((rows * after,)),
                values,
                lines,
                order,
                often,
                np.int32(vectors),
                np.int32(owners),
            ],
            early=early,
        ),
    ]


# -------------------- planners


def in_place(p: ScatterAddProblem) -> Plan:
    temps: list[Layout] = []
    steps, target, layout, copied = box(Input(0), p.x, p.axis, p.count, temps)
    again, source = dense(Input(1), p.values, p.shape, p.x.dtype, temps)
    merged, *places = positions_of(p.indices, p.sizes, 2, temps)
    added = row_steps("place", target, target, layout, source, *places, p.m, temps, p.kind)
    back = [] if copied is None else copy_part(copied, whole(Input(0), p.x))
    return Plan([], [*steps, *again, *merged, *added, *back], temps)


def in_copy(p: ScatterAddProblem) -> Plan:
    """Values are added to a copy of x."""
    temps: list[Layout] = []
    again, source = dense(Input(2), p.values, p.values.shape, p.x.dtype, temps)
    more, x = dense(Input(0), p.x, p.x.shape, p.x.dtype, temps)
    merged, *places = positions_of(p.indices, p.sizes, 1, temps)
    added = row_steps("copy", x, Output(0), p.box, source, *places, p.m, temps)
    return Plan([p.x.like()], [*again, *more, *merged, *added], temps)


def in_zeros(p: ScatterAddProblem) -> Plan:
    """The gradient of a gather."""
    temps: list[Layout] = []
    again, source = dense(Input(0), p.values, p.values.shape, p.x.dtype, temps)
    merged, *places = positions_of(p.indices, p.sizes, 1, temps)
    added = row_steps("zeros", source, Output(0), p.box, source, *places, p.m, temps)
    return Plan([p.x.like()], [*again, *merged, *added], temps)
