"""Radix sort that reads and writes every key once per digit ("onesweep"): the fast version of
kernels/sort/dispatch.py.

The idea. A stable sort by the lowest 8 bits, then by the next 8, and so on, is a sort by all of
them. For one digit a key's place is known from three counts: keys of smaller digits anywhere; equal
digits in the tiles before; equal digits before it in its own tile. The first comes from a histogram
of all digits, taken in one pass over the keys at the start. The third is counted where the keys
are, in registers and shared memory. The second is what usually costs another pass over the keys;
here the tiles publish to each other while they run (*decoupled look-back*):

    tile 0       tile 1       tile 2       tile 3
    [20 T]       [31 T]       [17 P]       ?          P: this tile's count   T: total up to here
                 (20, 11 + 20, ...)

Tile 3 publishes its own counts (P), then walks back, adding counts until it meets a total, and
publishes its total (T). Tiles are numbered by an atomic counter in the order in which they start,
so a tile waits only for tiles that run already. All of it is integers: the order in which tiles
meet changes nothing in the result.

Kernels:

``count_digits``  Histograms of all digits of all rows; ``scan_digits`` turns them into first
                  places.
``onesweep``      One digit. 256 threads hold ITEMS keys each. Equal digits in a warp are found by
                  eight votes, one a bit (``same_digit``); each warp counts in columns of its own.
                  Keys (and then what goes with them) are exchanged through shared memory, so that
                  neighbours in a run of one digit are written by neighbouring threads.

The rows of a matrix are sorted in the same launches: a look-back ends at the beginning of its row.

Of 8-byte keys a digit that all share moves nothing: its launch ends at once (whole numbers below
1,000 have six of eight such digits). Keys go to and fro between two buffers, so which one a launch
reads, and that the last one writes the result, follows from how many launches around it move keys.
The device knows that from the counts; the host need not wait for them: 2^24 such numbers are sorted
in 371 us on an H200 instead of 1,081. Shorter keys have few digits, and their buffers are the
host's choice: of pointers that are chosen as the kernel runs, the compiler no longer knows that
they are to global memory, nor reads through them ahead (2^24 float32 with their positions took 954
us instead of 571).

Floor: (1 + 2 x digits) x key bytes, and 2 x digits x 4 bytes for positions; bandwidth-bound at
best, in practice bound by shared memory and votes.

Source: Adinets and Merrill (2022), Onesweep: A Faster Least Significant Digit Radix Sort for GPUs,
arXiv:2206.01784.
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import FULL, WARP, bounded, device_function
from ..compiler.lazy_numba import cuda, intrinsic, ir, types
from ..copy.fill import fill_part
from ..copy.parts import whole
from ..lib.integers import blocks
from ..ptx.lookback import bits, load_relaxed, number, store_relaxed
from .problem import SortProblem, sorted_by_keys
from .radix_keys import Coding
from .radix_keys import coding as key_coding

DIGIT_BITS = 8
DIGITS = 1 << DIGIT_BITS
THREADS = 256  # one for each digit when counts are summed
WARPS = THREADS // WARP
COUNTERS = WARPS * DIGITS
COUNT_AHEAD = 8  # loads in flight of a thread of ``count_digits``
COUNT_LEAST = (
    32 * THREADS
)  # keys of a block of ``count_digits``, at least: each adds all its counts to memory
COUNT_BLOCKS = 1056  # of them, about: eight a multiprocessor
# of the histograms in shared memory: lanes that meet the same digit take turns, a quarter of them
# each
COPIES = 4
COPIES_APART = 8  # words between them, so that the same digit of each is in another bank
LOOK = 4  # tiles that a thread looks back at in one go
_WIDE = 1 << 30  # so many keys need counts and places of 64 bits
LONG = 8  # bytes of keys whose launches find out for themselves what they read and write


def items_of(size: int, values: bool, width: int) -> tuple[int, int]:
    """(keys a thread of ``onesweep`` holds, blocks that share a multiprocessor's registers at
    least), for keys of that many bytes, with or without positions of that many bits.

    2^24 float32 on an H200: (12, 4), (16, 3), (20, 3), (24, 2): 468, 430, 396, 414 us; with
    positions 646, 587, 624, 572.
    """
    if size == 4 and width == 32:
        return (24, 2) if values else (20, 3)
    return 12 if size == 8 else 16, 3 if width == 32 else 2


@functools.cache
def count_digits(coding: Coding, passes: int, count: Any) -> Any:
    """counts[p, row, d] += how many keys of the row have digit d in pass p. Blocks are divided
    evenly among rows."""
    word, _, K, _ = coding
    key_of = key_function(coding)
    copies = COPIES if passes <= 4 else COPIES // 2
    bins = passes * DIGITS
    apart = bins + COPIES_APART
    all_bins = copies * apart
    kind = getattr(types, word.name)

    @bounded(THREADS)
    def count_digits(keys, counts, flip, per_row, length):
        # keys: (rows, n) words, counts: (passes * rows * 256,); per_row: blocks per row, length:
        # keys per block
        seen = cuda.shared.array(all_bins, types.int32)
        ahead = cuda.local.array(COUNT_AHEAD, kind)
        t = cuda.threadIdx.x
        for i in range(t, all_bins, THREADS):
            seen[i] = 0
        cuda.syncthreads()
        rows, n = keys.shape
        row = cuda.blockIdx.x // per_row
        first = (cuda.blockIdx.x - row * per_row) * length
        stop = min(first + length, n)
        copy = types.uint32(t % copies * apart)
        for start in range(first + t, stop, COUNT_AHEAD * THREADS):
            for j in range(COUNT_AHEAD):  # all loads go out before the first is waited for
                if start + j * THREADS < stop:
                    ahead[j] = keys[row, start + j * THREADS]
            for j in range(COUNT_AHEAD):
                if start + j * THREADS < stop:
                    k = key_of(ahead[j], flip)
                    for p in range(passes):
                        d = types.uint32((k >> K(p * DIGIT_BITS)) & K(DIGITS - 1))
                        cuda.atomic.add(seen, types.uint32(copy + d + types.uint32(p * DIGITS)), 1)
        cuda.syncthreads()
        for i in range(t, bins, THREADS):
            total = seen[i]
            for c in range(1, copies):
                total += seen[c * apart + i]
            if total:
                p = i // DIGITS
                cuda.atomic.add(counts, (p * rows + row) * DIGITS + (i - p * DIGITS), count(total))

    return count_digits


@functools.cache
def scan_digits(count: Any) -> Any:
    """counts[p, row, d] becomes the first place of digit d: the start of the row + the keys of
    smaller digits."""

    @bounded(DIGITS)
    def scan_digits(counts, places, idle, rows, n):
        # counts: (passes * rows * 256,), places: the same as int64; idle: (passes,) int32: whether
        # all keys have one digit
        shared = cuda.shared.array(DIGITS, types.int64)
        d = cuda.threadIdx.x
        at = types.int64(cuda.blockIdx.x) * DIGITS + d
        mine = types.int64(counts[at])
        shared[d] = mine
        alike = cuda.syncthreads_or(types.int32(1 if mine == n and rows == 1 else 0))
        if d == 0 and cuda.blockIdx.x % rows == 0:
            idle[cuda.blockIdx.x // rows] = alike
        step = 1
        while step < DIGITS:
            before = shared[d - step] if d >= step else types.int64(0)
            cuda.syncthreads()
            shared[d] += before
            cuda.syncthreads()
            step *= 2
        places[at] = (cuda.blockIdx.x % rows) * n + shared[d] - mine

    return scan_digits


#: Bit {0} of digit $1: the lanes that have it as this one has it. Of Numba's votes the compiler
#: makes seven instructions a bit, of this two and a half: bits become predicates together, a vote
#: and its complement, an intersection of three at a time.
_BIT = (
    "and.b32 v{0}, $1, {1}; setp.ne.b32 p, v{0}, 0; vote.sync.ballot.b32 v{0}, p, 0xffffffff; "
    "@!p not.b32 v{0}, v{0}; "
)
_ALL = (
    "lop3.b32 v0, v0, v1, v2, 0x80; lop3.b32 v3, v3, v4, v5, 0x80; lop3.b32 v0, v0, v3, v6, "
    "0x80; and.b32 $0, v0, v7; "
)
_VOTES = (
    "{ .reg .pred p; .reg .b32 v<8>; "
    + "".join([_BIT.format(b, 1 << b) for b in range(DIGIT_BITS)])
    + _ALL
    + "}"
)


@intrinsic
def same_digit(typingctx, digit):
    """The lanes of the warp whose digit, uint32 below DIGITS, is this lane's, as a mask. For whole
    warps."""

    def generate(context, builder, sig, values):
        word = ir.IntType(32)
        return builder.call(
            ir.InlineAsm(ir.FunctionType(word, [word]), _VOTES, "=r,r", side_effect=True), values
        )

    return types.uint32(types.uint32), generate


@functools.cache
def key_function(coding: Coding) -> Any:
    """The coding's function from a word to its key; of float32 in half the instructions."""
    if coding != key_coding(np.dtype(np.float32)):
        return coding.key
    sign, zero = types.uint32(1 << 31), types.float32(0)

    @device_function
    def key(word, flip):
        k = bits(types.float32(number(word) + zero))  # so every zero is 0.0, and every NaN 7fffffff
        return types.uint32(k ^ (types.uint32(types.int32(k) >> types.int32(31)) | sign) ^ flip)

    return key


@functools.cache
def onesweep(coding: Coding, values: bool, count: Any) -> Any:
    """One digit of a stable radix sort of rows of keys; with ``values`` their positions go along.

    ``count``: the type of places, positions and the words that tiles publish: two flags on top, the
    rest a count. Indices are unsigned, because Numba takes signed ones apart to see whether they
    count from the end.
    """
    word, _, K, _ = coding
    key_of = key_function(coding)
    kind = getattr(types, word.name)
    items, least_blocks = items_of(word.itemsize, values, count.bitwidth)
    tile_size = THREADS * items
    warp_size = WARP * items
    width = count.bitwidth
    PARTIAL, TOTAL, VALUE = (
        count(1 << (width - 2)),
        count(1 << (width - 1)),
        count((1 << (width - 2)) - 1),
    )
    mask, zero = K(DIGITS - 1), count(0)
    skipping = word.itemsize == LONG

    @bounded((THREADS, least_blocks))
    def onesweep(
        given,
        even,
        odd,
        even_order,
        odd_order,
        last_order,
        places,
        status,
        tickets,
        idle,
        digit,
        flip,
        n,
        per_row,
        step,
        keep,
    ):
        # skipping: given, even, odd: (rows * n,) words: keys as they were, and after an even or odd
        # number of passes before the end; even_order, odd_order: (rows * n,), their positions;
        # last_order: (step * rows * n,), positions at the end, of which every step-th word is
        # written, and with step 2 the next one zeroed; idle: (passes,) int32, passes that move
        # nothing; keep: whether the last pass writes keys. Else even and even_order are what this
        # pass reads, odd and odd_order what it writes, step and keep are this pass's. places:
        # (passes, rows * 256) int64; status: (passes, tiles * 256); tickets: (passes,); digit: the
        # pass; per_row: tiles per row
        exchange = cuda.shared.array(0, kind)
        carried = cuda.shared.array(0, count)
        counters = cuda.shared.array(COUNTERS, types.uint32)  # (warps, digits)
        sums = cuda.shared.array(WARPS, types.uint32)
        target = cuda.shared.array(DIGITS, count)
        number = cuda.shared.array(1, types.int64)
        key = cuda.local.array(items, kind)
        t = types.uint32(cuda.threadIdx.x)
        lane = types.uint32(t % types.uint32(WARP))
        warp = types.uint32(t // types.uint32(WARP))
        column = types.uint32(warp * types.uint32(DIGITS))  # where the warp's counters begin
        shift = K(digit * DIGIT_BITS)
        if t == 0:
            number[0] = types.int64(cuda.atomic.add(tickets, digit, types.uint32(1)))
        keys, new_keys, order, new_order = even, odd, even_order, odd_order
        first_pass, spread, kept = digit == 0, step, keep != 0
        if skipping:
            passes = types.uint32(idle.size)
            moving = types.uint32(
                cuda.ballot_sync(
                    FULL, lane < passes and idle[min(lane, types.uint32(passes - 1))] == 0
                )
            )
            if moving == 0:  # all keys are equal, and still have to get there
                moving = types.uint32(1)
            if (moving >> types.uint32(digit)) & types.uint32(1) == 0:
                return
            to_come = cuda.popc(types.uint32(moving >> types.uint32(digit + 1)))
            first_pass = (
                types.uint32(
                    moving
                    & types.uint32((types.uint32(1) << types.uint32(digit)) - types.uint32(1))
                )
                == 0
            )
            last_pass = to_come == 0
            if to_come % 2 == 0:
                keys, new_keys, order, new_order = odd, even, odd_order, even_order
            if first_pass:
                keys = given
            if last_pass:
                new_order = last_order
            spread = step if last_pass else 1
            kept = keep != 0 or not last_pass
        for w in range(WARPS):
            counters[types.uint32(types.uint32(w * DIGITS) + t)] = types.uint32(0)
        cuda.syncthreads()
        tile = number[0]
        row = tile // per_row
        begin = (tile - row * per_row) * tile_size
        here = types.uint32(min(types.int64(tile_size), n - begin))  # keys in this tile
        start = types.uint32(warp * types.uint32(warp_size) + lane)
        base = types.uint64(row * n + begin)
        for i in range(items):
            at = types.uint32(start + types.uint32(i * WARP))
            key[i] = keys[types.uint64(base + at)] if at < here else kind(0)

        # 1. How many keys of each digit in each warp. Beyond the end, keys count as the last digit,
        # behind all others.
        place = cuda.local.array(
            items, types.uint32
        )  # at first the digit, from 4. on the place in the tile
        for i in range(items):
            d = types.uint32((key_of(key[i], flip) >> shift) & mask)
            if types.uint32(start + types.uint32(i * WARP)) >= here:
                d = types.uint32(DIGITS - 1)
            place[i] = d
            cuda.atomic.add(counters, types.uint32(column + d), types.uint32(1))
        cuda.syncthreads()

        # 2. Thread d: how many of digit d in the warps before each warp, and in the tile. That is
        # published at once:
        #    the tiles behind will need it, and what follows takes longer than the way there.
        mine = types.uint32(0)
        for w in range(WARPS):
            at = types.uint32(types.uint32(w * DIGITS) + t)
            found = counters[at]
            counters[at] = mine
            mine = types.uint32(mine + found)
        slot = tile * DIGITS + t
        first_tile = begin == 0
        published = status[digit]
        store_relaxed(published, slot, (TOTAL if first_tile else PARTIAL) | count(mine))

        # 3. Where digit d begins in this tile: an exclusive sum over the digits.
        inclusive = types.int32(mine)
        for s in range(5):
            up = cuda.shfl_up_sync(FULL, inclusive, 1 << s)
            if lane >= 1 << s:
                inclusive += up
        if lane == WARP - 1:
            sums[warp] = types.uint32(inclusive)
        cuda.syncthreads()
        offset = types.uint32(types.uint32(inclusive) - mine)
        for w in range(WARPS):
            if w < warp:
                offset = types.uint32(offset + sums[w])
        for w in range(WARPS):
            at = types.uint32(types.uint32(w * DIGITS) + t)
            counters[at] = types.uint32(counters[at] + offset)
        cuda.syncthreads()

        # 4. Each key's place in the tile, in order. Lanes with the same digit find each other by
        # votes, a bit at a time;
        #    the lowest of them moves their counter on.
        below = types.uint32((types.uint32(1) << lane) - types.uint32(1))
        for i in range(items):
            peers = same_digit(place[i])
            earlier = types.uint32(cuda.popc(types.uint32(peers & below)))
            at = types.uint32(column + place[i])
            so_far = counters[at]
            cuda.syncwarp()
            if earlier == 0:
                counters[at] = types.uint32(so_far + types.uint32(cuda.popc(peers)))
            cuda.syncwarp()
            place[i] = types.uint32(so_far + earlier)
            exchange[place[i]] = key[i]
        if values:  # on their way while we look back
            moved = cuda.local.array(items, count)
            for i in range(items):
                at = types.uint32(start + types.uint32(i * WARP))
                if at < here:
                    moved[i] = count(begin + at) if first_pass else order[types.uint64(base + at)]

        # 5. Look back: how many of digit d in the tiles before. LOOK words are requested at once.
        before = zero
        if not first_tile:
            back = slot - DIGITS
            words = cuda.local.array(LOOK, count)
            row_start = row * per_row * DIGITS + t
            looking = True
            while looking:
                for k in range(LOOK):
                    words[k] = load_relaxed(published, max(back - k * DIGITS, row_start))
                for k in range(LOOK):
                    if looking and words[k] != zero:
                        before += words[k] & VALUE
                        back -= DIGITS
                        looking = (words[k] & TOTAL) == zero
                    elif looking:
                        break
            store_relaxed(published, slot, TOTAL | count(before + count(mine)))
        target[t] = count(count(places[digit, row * DIGITS + t]) + before - count(offset))
        cuda.syncthreads()

        # 6. Write run by run.
        goal = cuda.local.array(items, count)
        for i in range(items):
            at = types.uint32(t + types.uint32(i * THREADS))
            if at < here:
                k = exchange[at]
                goal[i] = count(target[types.uint32((key_of(k, flip) >> shift) & mask)] + count(at))
                if kept:
                    new_keys[goal[i]] = k
        if values:
            cuda.syncthreads()
            for i in range(items):
                if types.uint32(start + types.uint32(i * WARP)) < here:
                    carried[place[i]] = moved[i]
            cuda.syncthreads()
            for i in range(items):
                at = types.uint32(t + types.uint32(i * THREADS))
                if at < here:
                    to = types.uint64(goal[i]) * types.uint64(spread)
                    new_order[to] = carried[at]
                    if spread == 2:
                        new_order[types.uint64(to + types.uint64(1))] = zero

    return onesweep


def sweep_steps(
    keys: Any,
    target: Any,
    order: Any,
    coding: Coding,
    shape: tuple[int, int],
    flip: Any,
    device: int,
    temps: list[Layout],
    bits: int | None = None,
) -> list[Launch]:
    """Steps that sort the rows of ``keys``, an argument of shape (rows, n), by their lowest
    ``bits`` bits.

    target: argument for the sorted keys, or None; order: argument for the positions within their
    rows, int64 and flat, or None. Scratch is appended to ``temps``.
    """
    rows, n = shape
    wide = rows * n >= _WIDE
    count, index = (
        (types.uint64, np.dtype(np.uint64)) if wide else (types.uint32, np.dtype(np.uint32))
    )
    passes = blocks(coding.bits if bits is None else max(bits, 1), DIGIT_BITS)
    tile = THREADS * items_of(coding.word.itemsize, order is not None, 8 * index.itemsize)[0]
    per_row = blocks(n, tile)
    tiles = rows * per_row

    def temp(shape: tuple[int, ...], dtype: Any) -> Any:
        temps.append(Layout.new(shape, np.dtype(dtype), device))
        return Temp(len(temps) - 1)

    bins = passes * rows * DIGITS
    words = bins + passes * tiles * DIGITS
    state, places, idle = (
        temp((words + passes,), index),
        temp((passes, rows * DIGITS), np.int64),
        temp((passes,), np.int32),
    )
    zero = np.uint64(0)
    counts = state.view((bins,), dtype=index)
    status = state.view((passes, tiles * DIGITS), dtype=index, offset=bins * index.itemsize)
    tickets = state.view((passes,), dtype=np.uint32, offset=words * index.itemsize)
    chunks = max(1, min(blocks(n, COUNT_LEAST), blocks(COUNT_BLOCKS, rows)))
    box, line = (rows, n), (rows * n,)
    steps = [
        *fill_part(whole(state, temps[state.index]), zero, zero, None),
        Launch(
            count_digits(coding, passes, count),
            rows * chunks,
            THREADS,
            [keys.view(box, dtype=coding.word), counts, flip, chunks, blocks(n, chunks)],
        ),
        Launch(scan_digits(count), passes * rows, DIGITS, [counts, places.flat, idle, rows, n]),
    ]
    given = keys.view(line, dtype=coding.word)
    odd = (
        temp(box, coding.word).view(line) if passes > 1 else given
    )  # what no pass reads or writes is some array of its type
    if target is not None:
        even = target.view(line, dtype=coding.word)
    else:
        even = temp(box, coding.word).view(line) if passes > 2 else odd
    step, last_order = 8 // index.itemsize, state.view((1,), dtype=index)
    lines = [last_order, last_order]
    if order is not None:
        last_order = order.view((rows * n * step,), dtype=index)
        lines = [temp(line, index) if passes > 1 + k else last_order for k in range(2)]
    shared = tile * max(coding.word.itemsize, index.itemsize if order is not None else 0)
    kernel, spread, keep = onesweep(coding, order is not None, count), step, int(target is not None)
    buffers = (even, odd), (lines[1], lines[0])
    for p in range(passes):
        (keys, new_keys), (places_of, new_places) = buffers
        if coding.word.itemsize < LONG:  # what the kernel finds for itself of longer keys
            last = p == passes - 1
            if (passes - 1 - p) % 2 == 0:
                keys, new_keys, places_of, new_places = new_keys, keys, new_places, places_of
            keys, new_places = keys if p else given, last_order if last else new_places
            spread, keep = step if last else 1, int(target is not None or not last)
        steps.append(
            Launch(
                kernel,
                tiles,
                THREADS,
                [
                    given,
                    keys,
                    new_keys,
                    places_of,
                    new_places,
                    last_order,
                    places,
                    status,
                    tickets,
                    idle,
                    p,
                    flip,
                    n,
                    per_row,
                    spread,
                    keep,
                ],
                shared,
            )
        )
    return steps


def sort(p: SortProblem) -> Plan:
    """Version "onesweep" of a sort."""
    return sorted_by_keys(p, sweep_steps)
