"""Order statistics: the elements that would stand at some ranks of a sorted line, without sorting
it; lines divided there.

The idea. A key (radix_keys.py) is a number of so many digits of up to DIGIT bits. Counting how
often each value of the highest digit occurs tells, by running sums, with which digit the key at a
rank begins, and what its rank is among the keys that begin so (``narrow``). Then the next digit is
counted of those keys alone (``count_candidates``): of most lines the first counting leaves one
candidate in a hundred. All ranks are looked for at the same time, each with its own beginning of a
key. Three digits find a float32: three reads of the line, where a sort reads and writes it four
times.

The element is made from its key again, so a zero is 0.0 and a NaN is the usual one. Counts are
integers: the same result on every run. The floor is one read of the elements for each digit.

A line is divided at a rank (``divide``) in one more read and one write, however its elements lie:

    rank 4 of    7 1 5 5 9 3 5 8          border: 5, of which 2 are less
                 1 3 | 5 5 5 | 8 9 7      less and equal elements from where they begin upwards,
                                          greater ones from the end down

So the position of an element follows from how many less and how many equal ones are before it. Both
counts share a word, which tiles publish while they run (decoupled look-back, see onesweep.py). Less
and equal elements keep their order, which ``topk`` needs.

Measured (row partition_float32):
partition(a, 2^23), float32, 2^24; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

                   GB/s     of a copy
    cudamath      1,299          0.31
    cupy            646          0.15

(end of what was measured)
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Constant, Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import FULL, WARP, bounded, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..copy.axis_last import neighbours
from ..copy.contiguous import dense
from ..copy.fill import fill_part
from ..copy.parts import whole
from ..lib.integers import blocks, power_of_two
from .problem import PartitionProblem
from .radix_keys import Coding, coding, flipped

if not SIMULATOR:
    from ..ptx.lookback import load_relaxed, store_relaxed

DIGIT = 11  # bits of a digit, at most
VALUES = 1 << DIGIT
THREADS = 256
EACH = VALUES // THREADS  # values of a digit that a thread of `narrow` adds
ITEMS = 8  # elements that a thread has in flight
MOST_BLOCKS = 1056  # of all lines together, about: eight a multiprocessor
MOST = 5  # ranks: 40 KB of counters in shared memory
# of counters, by turns: half of all normal numbers begin with one of 20 digits; of each rank's
# tables as many as fit beside each other
COPIES = 4
WARPS = THREADS // WARP
LOOK = 8  # times 32 tiles that a warp looks back at in one go
LINE_THREADS = 1024  # of `divide_line`
MOST_HELD = 8  # elements a thread of it holds
EQUAL = 31  # bits of a count: less elements below, equal ones above, and two flags on top


@functools.cache
def count_candidates(coding: Coding, ranks: int, first: bool) -> Any:
    """counts[line, r, d] += how many keys of the line begin as the r-th one wanted does and go on
    with digit d; at `first` none is known to begin in any way, and all count for r = 0."""
    _, key_of, K, _ = coding
    plain = K(0)
    tables = 1 if first else ranks
    copies = max(1, COPIES // tables)
    size = tables * VALUES
    apart = size + 8  # from one copy to the next, so that the same digit of each is in another bank
    all_seen = copies * apart

    @cuda.jit
    def count_candidates(x, begins, counts, shift, width, flip):
        # x: (lines, n) words, begins: (lines, ranks) uint64: keys above the digit, which is `width`
        # bits from `shift` on
        seen = cuda.shared.array(all_seen, types.int32)
        begin = cuda.local.array(tables, K)
        held = cuda.local.array(ITEMS, K)
        t = cuda.threadIdx.x
        line = cuda.blockIdx.y
        own = t % copies * apart
        for i in range(t, all_seen, THREADS):
            seen[i] = 0
        for r in range(tables):
            begin[r] = K(begins[line, r]) if not first else plain
        cuda.syncthreads()
        mask = K((1 << width) - 1)
        n = x.shape[1]
        stride = types.int64(cuda.gridDim.x) * (THREADS * ITEMS)
        for start in range(types.int64(cuda.blockIdx.x) * (THREADS * ITEMS), n, stride):
            for k in range(ITEMS):
                held[k] = key_of(x[line, min(start + k * THREADS + t, n - 1)], flip)
            for r in range(tables):
                if r > 0 and begin[r] == begin[r - 1]:
                    continue  # `narrow` reads the table before
                # a run of equal digits is one addition: of equal elements, and of small integers,
                # which begin alike, all would wait for each other
                digit, run = types.int64(0), types.int32(0)
                for k in range(ITEMS):
                    rest = K(held[k] >> K(shift))
                    if start + k * THREADS + t < n and (first or K(rest >> K(width)) == begin[r]):
                        another = types.int64(rest & mask)
                        if run > 0 and another != digit:
                            cuda.atomic.add(seen, own + r * VALUES + digit, run)
                            run = types.int32(0)
                        digit = another
                        run += types.int32(1)
                if run > 0:
                    cuda.atomic.add(seen, own + r * VALUES + digit, run)
        cuda.syncthreads()
        for i in range(t, size, THREADS):
            total = seen[i]
            for c in range(1, copies):
                total += seen[c * apart + i]
            if total:
                cuda.atomic.add(counts, (line, i // VALUES, i % VALUES), total)

    return count_candidates


@functools.cache
def word_of(kind: str, bits: int) -> Any:
    """Device function: the element, as a word, whose key this is."""
    K = types.uint64 if bits == 64 else types.uint32
    sign, every = K(1 << (bits - 1)), K((1 << bits) - 1)

    @device_function
    def word_of(key):
        if kind == "u":
            return key
        if kind == "i":
            return key ^ sign
        return key ^ sign if key & sign else key ^ every

    return word_of


@functools.cache
def narrow(kind: str, bits: int, ranks: int, first: bool) -> Any:
    """begins[line, r]: longer by the digit that the key at rank left[line, r] has; left: its rank
    among those that begin so. The counts become zero again. One block per line."""
    K = types.uint64 if bits == 64 else types.uint32
    decoded = word_of(kind, bits)

    @cuda.jit
    def narrow(counts, wanted, begins, left, out, width, last):
        # counts: (lines, ranks, VALUES) int32, wanted: (ranks,) int64, begins: (lines, ranks)
        # uint64, left: the same, int64; out: (lines, ranks) words, written at the last digit
        sums = cuda.shared.array(THREADS, types.int64)
        held = cuda.local.array(EACH, types.int32)
        tables = cuda.local.array(ranks, types.int32)
        t = cuda.threadIdx.x
        line = cuda.blockIdx.x
        for r in range(ranks):  # of ranks whose keys begin alike the first one's is filled
            tables[r] = r
            if r > 0 and (first or begins[line, r] == begins[line, r - 1]):
                tables[r] = tables[r - 1]
        cuda.syncthreads()
        own = types.int64(0)
        for r in range(ranks):
            rank = wanted[r] if first else left[line, r]
            if tables[r] == r:
                own = types.int64(0)
                for i in range(EACH):
                    held[i] = counts[line, r, t * EACH + i]
                for i in range(EACH):
                    own += held[i]
                sums[t] = own
                cuda.syncthreads()
                step = 1
                while step < THREADS:  # Hillis and Steele
                    before = sums[t - step] if t >= step else types.int64(0)
                    cuda.syncthreads()
                    sums[t] += before
                    cuda.syncthreads()
                    step *= 2
            cuda.syncthreads()  # all know the rank, which one of them makes another
            before = sums[t] - own
            if before <= rank < sums[t]:
                digit = t * EACH
                for i in range(EACH - 1):
                    if digit == t * EACH + i and rank - before >= held[i]:
                        before += held[i]
                        digit += 1
                begin = types.uint64(digit)
                if not first:
                    begin |= begins[line, r] << types.uint64(width)
                begins[line, r] = begin
                left[line, r] = rank - before
                if last:
                    out[line, r] = decoded(K(begin))
            cuda.syncthreads()
        for r in range(ranks):
            for i in range(t, VALUES, THREADS):
                counts[line, r, i] = 0

    return narrow


def held_of(size: int) -> int:
    """Elements of that many bytes a thread of ``divide`` holds."""
    return 8 if size == 8 else 16


@functools.cache
def placing(coding: Coding, positions: bool, items: int) -> Any:
    """Device function: writes a warp's elements to their places; lane l holds number first + 32 i
    of the line."""
    _, key_of, _, _ = coding
    W = types.uint64

    @device_function
    def place(held, out, base, first, n, border, flip, less, equal, begin, limit, below):
        # less, equal: how many are before the warp's elements; begin: where the equal ones begin;
        # base: out's first place; below: the lower lanes, as a mask
        for i in range(items):
            at = first + i * WARP
            key = key_of(held[i], flip)
            is_less = at < n and key < border
            is_equal = at < n and key == border
            votes = types.uint32(cuda.ballot_sync(FULL, is_less))
            equal_votes = types.uint32(cuda.ballot_sync(FULL, is_equal))
            less_here = less + types.int64(cuda.popc(types.uint32(votes & below)))
            equal_here = equal + types.int64(cuda.popc(types.uint32(equal_votes & below)))
            less += types.int64(cuda.popc(votes))
            equal += types.int64(cuda.popc(equal_votes))
            to = n - 1 - (at - less_here - equal_here)
            if is_less:
                to = less_here
            elif is_equal:
                to = begin + equal_here
            if at < n and to < limit:
                if positions:
                    out[W(base + to)] = at
                else:
                    out[W(base + to)] = held[i]

    return place


@functools.cache
def divide_line(coding: Coding, positions: bool, items: int) -> Any:
    """``divide`` for lines of up to 1,024 items elements, which a block holds: it finds the key at
    the rank itself, byte by byte."""
    word, key_of, K, bits = coding
    kind = getattr(types, word.name)
    place = placing(coding, positions, items)
    passes = bits // 8
    warps = LINE_THREADS // WARP
    warp_size = WARP * items

    @bounded(LINE_THREADS)
    def divide_line(x, out, flip, n, rank, limit):  # x: (lines * n,) words, out: (lines * limit,)
        held = cuda.local.array(items, kind)
        counts = cuda.shared.array(256, types.int32)
        found = cuda.shared.array(2, types.int32)
        of_warp = cuda.shared.array(warps, types.int32)
        t = types.int32(cuda.threadIdx.x)
        lane = types.int32(t % types.int32(WARP))
        warp = types.int32(t // types.int32(WARP))
        line = types.int64(cuda.blockIdx.x)
        first = types.int64(warp) * warp_size + types.int64(lane)
        for i in range(items):
            at = first + i * WARP
            held[i] = x[types.uint64(line * n + at)] if at < n else kind(0)
        border = K(0)  # as far as it is known
        left = types.int32(rank)  # among the keys that begin so
        for p in range(passes):
            shift = K(8 * (passes - 1 - p))
            if t < 256:
                counts[t] = 0
            cuda.syncthreads()
            for i in range(items):
                rest = K(key_of(held[i], flip) >> shift)
                if first + i * WARP < n and K(rest >> K(8)) == border:
                    cuda.atomic.add(counts, types.uint32(rest & K(255)), 1)
            cuda.syncthreads()
            if warp == 0:  # lane l: digits 8 l to 8 l + 7
                own = types.int32(0)
                for j in range(8):
                    own += counts[types.uint32(lane * 8 + j)]
                up_to = own
                for s in range(5):
                    lower = cuda.shfl_up_sync(FULL, up_to, 1 << s)
                    if lane >= 1 << s:
                        up_to += lower
                before = types.int32(up_to - own)
                if before <= left < up_to:
                    digit = types.int32(lane * 8)
                    while left - before >= counts[types.uint32(digit)]:
                        before += counts[types.uint32(digit)]
                        digit += types.int32(1)
                    found[0] = digit
                    found[1] = left - before
            cuda.syncthreads()
            border = K((border << K(8)) | K(found[0]))
            left = found[1]
        mine = types.int32(0)  # less elements, and equal ones times 2^16
        for i in range(items):
            key = key_of(held[i], flip)
            if first + i * WARP < n:
                if key < border:
                    mine += types.int32(1)
                elif key == border:
                    mine += types.int32(1 << 16)
        for s in range(5):
            mine += cuda.shfl_xor_sync(FULL, mine, 1 << s)
        if lane == 0:
            of_warp[warp] = mine
        cuda.syncthreads()
        before = types.int32(0)
        for w in range(warps):
            if w < warp:
                before += of_warp[types.uint32(w)]
        place(
            held,
            out,
            line * limit,
            first,
            n,
            border,
            flip,
            types.int64(before & types.int32(0xFFFF)),
            types.int64(before >> types.int32(16)),
            rank - types.int64(left),
            limit,
            types.uint32((types.uint32(1) << types.uint32(lane)) - types.uint32(1)),
        )

    return divide_line


@functools.cache
def divide(coding: Coding, positions: bool) -> Any:
    """A line's elements that are less than its border, those that equal it, those that are greater;
    or their positions."""
    word, key_of, K, _ = coding
    kind = getattr(types, word.name)
    items = held_of(word.itemsize)
    tile_size, warp_size = THREADS * items, WARP * items
    place = placing(coding, positions, items)
    W = types.uint64
    one, equal_one = W(1), W(1 << EQUAL)
    COUNT = W((1 << EQUAL) - 1)
    PARTIAL, TOTAL, VALUE = W(1 << 62), W(1 << 63), W((1 << 62) - 1)

    @bounded((THREADS, 3 if word.itemsize == 8 else 4))
    def divide(x, borders, wanted, left, out, status, flip, n, per_line, limit):
        # x: (lines * n,) words; borders: (lines, 1) keys, uint64, of rank wanted: (1,) in the line
        # and left: (lines, 1) among equal ones; out: (lines * limit,), places from limit on are not
        # written; per_line: tiles per line; status: (lines * per_line + 1,) uint64, 0 at first: a
        # word of each tile, and how many tiles have begun
        held = cuda.local.array(items, kind)
        of_warp = cuda.shared.array(WARPS, W)
        before_tile = cuda.shared.array(1, W)
        number = cuda.shared.array(1, W)
        t = types.uint32(cuda.threadIdx.x)
        lane = types.uint32(t % types.uint32(WARP))
        warp = types.uint32(t // types.uint32(WARP))
        below = types.uint32((types.uint32(1) << lane) - types.uint32(1))
        if t == 0:
            number[0] = cuda.atomic.add(status, status.size - 1, one)
        cuda.syncthreads()
        tile = types.int64(number[0])
        line = tile // per_line
        k = tile - line * per_line
        border = K(borders[line, 0])
        first = k * tile_size + types.int64(
            warp * types.uint32(warp_size) + lane
        )  # of this thread's elements, within the line
        for i in range(items):
            at = first + i * WARP
            held[i] = x[W(line * n + at)] if at < n else kind(0)

        # 1. How many less and equal elements in each warp, and in the tile; published at once.
        mine = W(0)
        for i in range(items):
            key = key_of(held[i], flip)
            if first + i * WARP < n:
                if key < border:
                    mine += one
                elif key == border:
                    mine += equal_one
        for s in range(5):
            mine += W(cuda.shfl_xor_sync(FULL, types.int64(mine), 1 << s))
        if lane == 0:
            of_warp[warp] = mine
        cuda.syncthreads()
        if warp == 0:
            whole_tile = W(0)
            for w in range(WARPS):
                whole_tile += of_warp[types.uint32(w)]
            if lane == 0:
                store_relaxed(status, tile, PARTIAL | whole_tile)

            # 2. Look back: lane l at tile k - 1 - l, and so on, until a total is met. Before the
            # line's first tile: nothing.
            words = cuda.local.array(LOOK, W)
            before = W(0)
            back = k - 1 - types.int64(lane)
            looking = True
            while looking:
                for j in range(LOOK):
                    at = back - j * WARP
                    words[j] = TOTAL
                    if at >= 0:
                        words[j] = load_relaxed(status, line * per_line + at)
                for j in range(LOOK):
                    if looking:
                        while cuda.any_sync(FULL, words[j] == W(0)):
                            if words[j] == W(0):
                                words[j] = load_relaxed(status, line * per_line + back - j * WARP)
                        totals = types.uint32(cuda.ballot_sync(FULL, words[j] >= TOTAL))
                        if types.uint32(totals & below) == types.uint32(
                            0
                        ):  # no total nearer than this lane's tile
                            before += words[j] & VALUE
                        looking = totals == types.uint32(0)
                back -= LOOK * WARP
            for s in range(5):
                before += W(cuda.shfl_xor_sync(FULL, types.int64(before), 1 << s))
            if lane == 0:
                store_relaxed(status, tile, TOTAL | (before + whole_tile))
                before_tile[0] = before
        cuda.syncthreads()

        # 3. Each element to its place.
        before = before_tile[0]
        for w in range(WARPS):
            if types.uint32(w) < warp:
                before += of_warp[types.uint32(w)]
        begin = wanted[0] - left[line, 0]  # of the equal elements
        place(
            held,
            out,
            line * limit,
            first,
            n,
            border,
            flip,
            types.int64(before & COUNT),
            types.int64(before >> W(EQUAL)),
            begin,
            limit,
            below,
        )

    return divide


def rank_steps(
    given: Any,
    target: Any,
    x: Layout,
    shape: tuple[int, int],
    ranks: tuple[int, ...],
    flip: Any,
    temps: list[Layout],
    words: int = 0,
) -> tuple[list[Launch], tuple[Any, ...]]:
    """Steps that find the elements at these ranks of the rows of ``given``, an argument of x's
    dtype and of that shape, and write them to ``target``. And arguments: the ranks (int64); the
    keys there, (lines, ranks) uint64; their ranks among equal ones (int64); so many words of 64
    bits that are 0."""
    lines, n = shape
    count = len(ranks)
    code = coding(x.dtype)
    kind = {"b": "u", "V": "f"}.get(x.dtype.kind, x.dtype.kind)
    here = len(temps)
    table = lines * count * VALUES  # counts of 32 bits, ahead of the words
    temps += [
        x.like((table // 2 + words,), np.dtype(np.uint64)),
        x.like((lines, count), np.dtype(np.uint64)),
        x.like((lines, count), np.dtype(np.int64)),
    ]
    state, begins, left = (Temp(here + i) for i in range(3))
    counts = state.view((lines, count, VALUES), dtype=np.dtype(np.int32))
    wanted = Constant(np.array(ranks, np.int64))
    steps = [*fill_part(whole(state, temps[here]), np.uint64(0), np.uint64(0), None)]
    grid = min(blocks(n, THREADS * ITEMS), blocks(MOST_BLOCKS, lines)), lines
    digits = blocks(code.bits, DIGIT)
    high = code.bits
    for d in range(digits):
        width = blocks(high, digits - d)
        high -= width
        steps += [
            Launch(
                count_candidates(code, count, d == 0),
                grid,
                THREADS,
                [given.view((lines, n), dtype=code.word), begins, counts, high, width, flip],
            ),
            Launch(
                narrow(kind, code.bits, count, d == 0),
                lines,
                THREADS,
                [
                    counts,
                    wanted,
                    begins,
                    left,
                    target.view((lines, count), dtype=code.word),
                    width,
                    int(high == 0),
                ],
            ),
        ]
    return steps, (wanted, begins, left, state.view((words,), offset=4 * table))


def order_statistics(x: Layout, *, ranks: tuple[int, ...]) -> Plan:
    """The elements at these ranks of the sorted lines along the last axis: (..., len(ranks))."""
    out = x.like((*x.shape[:-1], len(ranks)))
    if not out.size:
        return Plan([out], [])
    temps: list[Layout] = []
    steps, given = dense(Input(0), x, x.shape, x.dtype, temps)
    n = x.shape[-1]
    found, _ = rank_steps(
        given, Output(0), x, (x.size // n, n), ranks, coding(x.dtype).no_flip, temps
    )
    return Plan([out], [*steps, *found], temps)


def divide_steps(
    source: Any,
    target: Any,
    x: Layout,
    shape: tuple[int, int],
    rank: int,
    flip: Any,
    positions: bool,
    limit: int,
    temps: list[Layout],
) -> list[Launch]:
    """Steps that divide the rows of ``source``, an argument of x's dtype and of that shape, at a
    rank, and write the first ``limit`` elements of each, or their positions (int64), to ``target``.
    """
    lines, n = shape
    code = coding(x.dtype)
    kind = np.dtype(np.int64) if positions else code.word
    source, target = (
        source.view((lines * n,), dtype=code.word),
        target.view((lines * limit,), dtype=kind),
    )
    if n <= LINE_THREADS * MOST_HELD:
        items = power_of_two(blocks(n, LINE_THREADS))
        return [
            Launch(
                divide_line(code, positions, items),
                lines,
                LINE_THREADS,
                [source, target, flip, n, rank, limit],
            )
        ]
    temps.append(x.like((lines, 1)))  # the elements at the rank, which are not a result
    per_line = blocks(n, THREADS * held_of(code.word.itemsize))
    tiles = lines * per_line
    steps, (wanted, borders, left, state) = rank_steps(
        source, Temp(len(temps) - 1), x, shape, (rank,), flip, temps, tiles + 1
    )
    return [
        *steps,
        Launch(
            divide(code, positions),
            tiles,
            THREADS,
            [source, borders, wanted, left, target, state, flip, n, per_line, limit],
        ),
    ]


def partition(p: PartitionProblem) -> Plan:
    """Version "radix_select" of a partition: the line divided at its one rank."""
    return _divided(p.x, p.axis, p.ranks[0], p.positions, p.n, False)


def leading(x: Layout, *, axis: int, count: int, descending: bool) -> Plan:
    """The positions (int64) along ``axis`` of the first ``count`` elements that a sort would give:
    in any order, but equal ones in theirs. For long lines; not for the simulator."""
    return _divided(x, axis, count - 1, True, count, descending)


def _divided(
    x: Layout, axis: int, rank: int, positions: bool, count: int, descending: bool
) -> Plan:
    out = x.like(
        (*x.shape[:axis], count, *x.shape[axis + 1 :]), np.dtype(np.int64) if positions else x.dtype
    )
    if not out.size:
        return Plan([out], [])
    temps: list[Layout] = []
    steps, source, back, target = neighbours(x, out, axis, temps)
    n = x.shape[axis]
    steps += divide_steps(
        source,
        target,
        x,
        (x.size // n, n),
        rank,
        flipped(x.dtype, descending),
        positions,
        count,
        temps,
    )
    return Plan([out], [*steps, *back], temps)
