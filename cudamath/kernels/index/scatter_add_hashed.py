"""The gradient of an embedding of a large vocabulary: sources claim slots of their rows, and rows
are written once.

The idea. Most rows of such a table have no source, some have one, few have many. Looking for the
sources of a row takes as long as reading all indices; telling a row of its source takes one atomic.

1. `clear_claims`. Every row has a count of its sources, 0.
2. `claim_slots`. A source raises the count of its row; what it was is its place. The first SLOTS of
   them are written to the row's own list. The next ones go to further lists of SLOTS each, which
   are in no order: a list is found by its row and number in a hash table, and whoever comes first
   enters it there. So no thread waits for another, and the memory is a multiple of the number of
   sources, not of rows. The first source that finds the row's own list full writes the row to the
   list of rows that are chosen often.
3. `sum_claimed`. A warp has a few rows. It writes zeros to those without sources first: these
   stores are in flight while it reads the lists of others. Slots were claimed in any order: each
   source's place is how many of its row are smaller, so they are added in the order of the sources.
   Rows that are chosen often are no warp's: the first blocks of the grid, which begin before all
   others, are crews. A row is cut into slices, and some of them are a crew's task. It puts the
   sources of the row in order (a bit in shared memory for each source there is; bits that are set
   are counted, and give each source its place) and adds them by turns of the groups that it divides
   its threads into: few sources by eight groups of a warp, of many by 128 that have 32 bytes of a
   row each. The sums of the groups are added in their order.

So the order of all additions depends on the indices alone: the same bits on every run. The atomics
are of integers.

Floor: one write of the result and one read of the sources. The counts, 4 bytes a row, and the
slots, 4 a source, are on top. `add_rows` has no slots and no counts, but each of its blocks looks
through all indices before it writes: it remains for short tables and for sums that are added to
something.

On an H200, device time by CUDA events, us, of 8,192 sources for rows of 50,257 x 768 (rows at
random; words of a text; words of a Zipf distribution, sorted by frequency; one row only), float32
and bfloat16:

                  random        text          Zipf        one row
    add_rows      61.1  43.0    85.7  58.0    75.5  49.2  121.9  81.9
    add_claimed   54.0  34.1    72.6  40.8    59.4  35.4   79.5  65.6

Neighbouring rows for a warp instead of rows far apart: Zipf 71.7 and 59.3, since of sorted words
neighbours are frequent. Tried: zeros written to the first rows while slots are claimed: no
difference; two blocks per multiprocessor with 8 accesses of a crew's thread in flight: 57.8.
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Flag, Input, Output, Temp, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ...runtime.device import capability, multiprocessors
from ..compiler.decorators import FULL, WARP, bounded, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..copy.contiguous import dense
from ..lib.codec import codec
from ..lib.integers import blocks, power_of_two
from ..lib.vector_io import fetcher, writer
from .positions import positions_of
from .problem import ScatterAddProblem

if not SIMULATOR:
    from ..ptx import sm90 as ptx_sm90

SLOTS = 32  # of a list: sources of a row that one warp adds one after another, a lane for each
ENTRIES = 4  # of the hash table, for each further list that there can be
WARPS = 8
THREADS = WARPS * WARP
TOGETHER = 3  # blocks that a multiprocessor holds at least
CLAIMS = 128  # threads of a block that claim, or clear
OWN = 6144  # bytes of the rows of a warp, if one row has no more
UNDER_WAY, MOST_SOURCES = (
    6,
    2,
)  # accesses of 16 bytes, and sources, that a thread has in flight at most
NUMBERS = 24  # that it adds to
LOOKS = 8  # sources in lists that a thread of a crew has in flight
DEEP = 4  # accesses of 16 bytes that it has in flight
LIST = 2048  # sources that a crew has in order at once
NARROWER = (
    64,
    128,
    256,
    2048,
)  # sources of a row from which on a group has 16, 8, 4, 2 lanes instead of 32
TASK = 4096  # accesses that a crew makes at a time, if one slice has no more
CREWS = 2  # per multiprocessor


@functools.cache
def clear_claims(early: bool) -> Any:
    """counts, keys = 0. early: this and what follows are launched before what is ahead has ended
    (9.0)."""
    begin_next, wait = (
        (ptx_sm90.let_next_begin, ptx_sm90.wait_for_previous) if early else (None, None)
    )

    def clear_claims(counts, keys):  # counts: (rows + 1,) int32; keys: int64
        if early:
            wait()
            begin_next()
        i = cuda.grid(1)
        if i < counts.size:
            counts[i] = 0
        if i < keys.size:
            keys[i] = 0

    if early:
        clear_claims.__name__ = "clear_claims_early"
    return cuda.jit(clear_claims)


@device_function
def home(row, k, entries):
    """Where list k of a row is looked for first: products spread neighbouring lists, and lists of
    neighbouring rows."""
    return types.int32(
        (types.int64(row) * 0x1E3779B1 + types.int64(k) * 0x25EBCA6B >> 13) & (entries - 1)
    )


@functools.cache
def claim_slots(row_of: Any, early: bool) -> Any:
    """Each source into a slot of its row. row_of: (index, rows) -> row or -1; early: as said
    above."""
    begin_next, wait = (
        (ptx_sm90.let_next_begin, ptx_sm90.wait_for_previous) if early else (None, None)
    )
    int32, int64 = types.int32, types.int64

    def claim_slots(index, counts, lists, often, keys, rows, flag, ticket):
        # index: (m,); counts: (rows + 1,) int32, the last one of rows that are chosen often; lists:
        # ((rows + entries) * SLOTS,) int32, the rows' own lists and those of the hash table; often:
        # (m // SLOTS + 1,) int32, rows; keys: (entries,) int64, row and number of a list, 0 of none
        if early:
            begin_next()
        j = int32(cuda.grid(1))
        row = int32(row_of(int64(index[min(j, int32(index.size - 1))]), rows))
        if early:
            wait()
        if j < index.size:
            if row < 0:
                flag[0] = ticket
            else:
                place = int32(cuda.atomic.add(counts, row, 1))
                k = int32(place // int32(SLOTS))
                at = int64(row)
                if place == SLOTS:
                    often[cuda.atomic.add(counts, rows, 1)] = row
                if k > 0:
                    key = int64(row) << int64(32) | int64(k)
                    entry = home(row, k, keys.size)
                    found = int64(cuda.atomic.cas(keys, entry, 0, key))
                    while found != 0 and found != key:
                        entry = int32(int32(entry + int32(1)) & int32(keys.size - 1))
                        found = int64(cuda.atomic.cas(keys, entry, 0, key))
                    at = int64(rows) + entry
                lists[at * SLOTS + place % int32(SLOTS)] = j

    if early:
        claim_slots.__name__ = "claim_slots_early"
    return cuda.jit(claim_slots)


@functools.cache
def tasks_of(narrower: tuple[int, ...]) -> Any:
    """Device function (count, vectors): (base-2 logarithm of a group's lanes, slices of a task,
    tasks) of a row that is chosen often, from its sources and accesses."""
    int32 = types.int32

    @device_function
    def tasks_of(count, vectors):
        bits = int32(5)
        for n in narrower:
            bits -= int32(1) if count >= n else int32(0)
        slices = int32(int32(vectors + (int32(1) << bits) - int32(1)) >> bits)
        several = (
            max(int32(int32(TASK) // int32(count << bits)), int32(1)) if count <= LIST else int32(1)
        )
        return bits, several, int32(int32(slices + several - int32(1)) // several)

    return tasks_of


@functools.cache
def running(warps: int) -> Any:
    """Device function (value, told): (the sum of the values of the threads up to this one, of all
    threads). told: (warps,) int32 in shared memory."""
    int32 = types.int32

    @device_function
    def running(value, told):
        t = int32(cuda.threadIdx.x)
        upto = int32(value)
        for s in range(5):
            before = cuda.shfl_up_sync(FULL, upto, 1 << s)
            if t % int32(WARP) >= 1 << s:
                upto += before
        cuda.syncthreads()  # nobody reads what was told before
        if t % int32(WARP) == WARP - 1:
            told[t // int32(WARP)] = upto
        cuda.syncthreads()
        whole = int32(0)
        for w in range(warps):
            whole += told[w]
        for w in range(int32(0), int32(t // int32(WARP))):
            upto += told[w]
        return upto, whole

    return running


@functools.cache
def ordered(warps: int) -> Any:
    """Device function that sets a bit for each source of a row: what a crew's threads do together,
    once for each task."""
    int32, int64, uint32 = types.int32, types.int64, types.uint32

    @device_function
    def mark_sources(row, count, lists, keys, rows, bits, words):
        # bits: (words,) uint32 in shared memory. A warp takes each WARPS-th list, and finds 32 of
        # them at once.
        t = int32(cuda.threadIdx.x)
        lane, warp = int32(t % int32(WARP)), int32(t // int32(WARP))
        for i in range(t, words, int32(THREADS)):
            bits[i] = uint32(0)
        cuda.syncthreads()
        looked = cuda.local.array(LOOKS, types.int32)
        for batch in range(
            warp, int32(int32(count + int32(SLOTS - 1)) // int32(SLOTS)), int32(WARP * warps)
        ):
            mine = int32(batch + lane * int32(warps))
            at = int32(row)
            if 0 < mine and int32(mine * int32(SLOTS)) < count:
                entry = home(row, mine, keys.size)
                while keys[entry] != (int64(row) << int64(32) | int64(mine)):
                    entry = int32(int32(entry + int32(1)) & int32(keys.size - 1))
                at = int32(rows + entry)
            for first in range(0, WARP, LOOKS):
                if int32(int32(batch + int32(first * warps)) * int32(SLOTS)) < count:
                    for k in range(LOOKS):  # all loads go out before the first is waited for
                        list = int64(cuda.shfl_sync(FULL, at, first + k))
                        place = int32(
                            int32(batch + int32((first + k) * warps)) * int32(SLOTS) + lane
                        )
                        looked[k] = int32(-1)
                        if lane < SLOTS and place < count:
                            looked[k] = lists[list * SLOTS + lane]
                    for k in range(LOOKS):
                        if looked[k] >= 0:
                            cuda.atomic.or_(
                                bits,
                                int32(looked[k] >> int32(5)),
                                uint32(uint32(1) << uint32(looked[k] & int32(31))),
                            )
        cuda.syncthreads()

    return mark_sources


@functools.cache
def finding(narrower: tuple[int, ...], warps: int) -> Any:
    """Device function that writes a task of a crew's to shared memory; False if there are no more.
    chosen: row, sources, the base-2 logarithm of a group's lanes, first slice, last slice + 1; and
    what was passed by already: rows, and their tasks."""
    tasks, running_sum, int32 = tasks_of(narrower), running(warps), types.int32

    @device_function
    def find_task(task, counts, often, rows, vectors, chosen, told):
        t, many = int32(cuda.threadIdx.x), int32(counts[rows])
        while True:
            begin, earlier = int32(chosen[5]), int32(chosen[6])
            row, count, bits, several, parts = int32(0), int32(0), int32(0), int32(0), int32(0)
            if begin + t < many:  # a thread has a row; those before it say which tasks are its own
                row = often[begin + t]
                count = counts[row]
                bits, several, parts = tasks(count, vectors)
            upto, whole = running_sum(parts, told)
            mine = int32(earlier + upto - parts)
            if mine <= task and task < mine + parts:
                slice = int32(int32(task - mine) * several)
                chosen[0], chosen[1], chosen[2], chosen[3] = row, count, bits, slice
                chosen[4] = min(
                    int32(slice + several),
                    int32(int32(vectors + (int32(1) << bits) - int32(1)) >> bits),
                )
            found = task < earlier + whole
            if not found and t == 0:
                chosen[5], chosen[6] = int32(begin + int32(THREADS)), int32(earlier + whole)
            cuda.syncthreads()
            if found or begin + int32(THREADS) >= many:
                return found

    return find_task


@functools.cache
def crew(dtype: np.dtype) -> Any:
    """Device function: rows that are chosen often, a task after the other."""
    _, store, T = codec(dtype)
    width = 16 // dtype.itemsize
    fetch, widen, words_of_access, word = fetcher(dtype, width)
    find_task, running_sum, mark_sources = finding(NARROWER, WARPS), running(WARPS), ordered(WARPS)
    raw_words, stored, held_sums = (
        DEEP * words_of_access,
        getattr(types, word.name),
        THREADS * width,
    )
    int32, int64, uint32 = types.int32, types.int64, types.uint32

    @device_function
    def list_sources(window, bits, words, listed, own):
        """The sources of which a bit is set, from the window-th on."""
        t = int32(cuda.threadIdx.x)
        each = int32(
            int32(words + int32(THREADS - 1)) // int32(THREADS)
        )  # words of bits that a thread has
        place = int32(own[t] - window)
        for i in range(int32(t * each), min(int32(int32(t + int32(1)) * each), words)):
            left = uint32(bits[i])
            if place >= LIST or place + int32(WARP) <= 0:
                place += int32(cuda.popc(left))
                left = uint32(0)
            while left != 0:
                if 0 <= place and place < LIST:
                    listed[place] = int32(int32(i * int32(32)) + int32(cuda.ffs(left) - 1))
                left &= uint32(left - uint32(1))
                place += int32(1)

    @device_function
    def crew(values, counts, often, lists, keys, out, rows, vectors, crews, words):
        bits = cuda.shared.array(0, types.uint32)  # (words,): one for each source there is
        listed = cuda.shared.array(LIST, types.int32)  # sources of a row, in order
        own = cuda.shared.array(
            THREADS, types.int32
        )  # the place of the first source among a thread's bits
        sums = cuda.shared.array(held_sums, T)  # (groups, lanes, width)
        told = cuda.shared.array(WARPS, types.int32)
        chosen = cuda.shared.array(7, types.int32)
        total = cuda.local.array(width, T)
        held = cuda.local.array(width, T)
        raw = cuda.local.array(raw_words, stored)
        t = int32(cuda.threadIdx.x)
        if t == 0:
            chosen[5], chosen[6] = int32(0), int32(0)
        cuda.syncthreads()
        task = int32(cuda.blockIdx.x)
        while find_task(task, counts, often, rows, vectors, chosen, told):
            task += crews
            mark_sources(chosen[0], chosen[1], lists, keys, rows, bits, words)
            each = int32(int32(words + int32(THREADS - 1)) // int32(THREADS))
            found = int32(0)
            for i in range(int32(t * each), min(int32(int32(t + int32(1)) * each), words)):
                found += int32(cuda.popc(bits[i]))
            own[t] = int32(running_sum(found, told)[0] - found)
            slice = int32(chosen[3])
            while slice < chosen[4]:
                narrow = int32(chosen[2])
                group, groups = int32(t >> narrow), int32(int32(THREADS) >> narrow)
                slot = int32(
                    int32(slice << narrow) + int32(t & int32((int32(1) << narrow) - int32(1)))
                )
                for e in range(width):
                    total[e] = T(0)
                window = int32(0)
                while window < chosen[1]:
                    if (
                        slice == chosen[3]
                    ):  # one list serves all slices: where there are more lists, there is one slice
                        list_sources(window, bits, words, listed, own)
                        cuda.syncthreads()
                    length = min(int32(chosen[1] - window), int32(LIST))
                    if slot < vectors:
                        for s in range(group, length, int32(groups * int32(DEEP))):
                            for q in range(DEEP):
                                turn = int32(s + int32(int32(q) * groups))
                                if turn < length:
                                    fetch(
                                        values,
                                        int64(listed[turn]) * vectors + slot,
                                        raw,
                                        q * words_of_access,
                                    )
                            for q in range(DEEP):
                                if int32(s + int32(int32(q) * groups)) < length:
                                    widen(raw, q * words_of_access, held, 0)
                                    for e in range(width):
                                        total[e] += held[e]
                    window += int32(LIST)
                    cuda.syncthreads()
                for e in range(width):
                    sums[t * int32(width) + int32(e)] = total[e]
                cuda.syncthreads()
                columns = int32(int32(width) << narrow)
                for i in range(t, columns, int32(THREADS)):
                    column = int32(slice * columns + i)
                    if column < int32(vectors * int32(width)):
                        sum = sums[i]
                        for at in range(int32(columns + i), int32(held_sums), columns):
                            sum += sums[at]
                        out[int64(chosen[0]) * (vectors * width) + column] = store(sum)
                cuda.syncthreads()
                slice += int32(1)

    return crew


@functools.cache
def sum_claimed(dtype: np.dtype, each: int, early: bool) -> Any:
    """out[row] = the sum of the row's sources, 0 where it has none. each: accesses of a lane to a
    piece of a row."""
    T = codec(dtype)[2]
    width = 16 // dtype.itemsize
    fetch, widen, words_of_access, word = fetcher(dtype, width)
    write, crew_sums = writer(dtype, width), crew(dtype)
    sources = max(min(MOST_SOURCES, UNDER_WAY // each), 1)  # that are in flight at once
    raw_words, numbers = sources * each * words_of_access, each * width
    stored = getattr(types, word.name)
    wait = ptx_sm90.wait_for_previous if early else None
    int32, int64 = types.int32, types.int64

    def sum_claimed(values, counts, lists, often, keys, out, rows, vectors, per, crews, words):
        # values: (m * vectors,) accesses of words; out: (rows * vectors * width,); per: rows of a
        # warp; crews: blocks; words: of a bit for each source; the others as above
        order = cuda.shared.array((WARPS, SLOTS), types.int32)
        total = cuda.local.array(numbers, T)
        held = cuda.local.array(width, T)
        raw = cuda.local.array(raw_words, stored)
        if early:
            wait()
        if cuda.blockIdx.x < crews:
            crew_sums(values, counts, often, lists, keys, out, rows, vectors, crews, words)
            return

        # A lane knows one row's count. The rows of a warp lie far apart: of words sorted by
        # frequency, neighbours are frequent.
        t = int32(cuda.threadIdx.x)
        lane, warp = int32(t % int32(WARP)), int32(t // int32(WARP))
        first, step = (
            int64(cuda.blockIdx.x - crews) * WARPS + warp,
            int64(cuda.gridDim.x - crews) * WARPS,
        )
        known = int32(-1)
        if lane < per and first + lane * step < rows:
            known = counts[first + lane * step]
        for i in range(numbers):
            total[i] = T(0)
        for k in range(per):
            if cuda.shfl_sync(FULL, known, k) == 0:
                for piece in range(lane, vectors, int32(each * WARP)):
                    for v in range(each):
                        i = int32(piece + int32(v * WARP))
                        if i < vectors:
                            write(out, ((first + k * step) * vectors + i) * width, total, v * width)
        for k in range(per):
            count = int32(cuda.shfl_sync(FULL, known, k))
            if 0 < count and count <= SLOTS:
                mine, place = int32(0), int32(0)
                if lane < count:
                    mine = lists[(first + k * step) * SLOTS + lane]
                for s in range(count):
                    if cuda.shfl_sync(FULL, mine, s) < mine:
                        place += int32(1)
                if lane < count:
                    order[warp, place] = mine
                cuda.syncwarp()
                for piece in range(lane, int32(vectors + lane), int32(each * WARP)):
                    for i in range(numbers):
                        total[i] = T(0)
                    for s in range(0, count, sources):
                        for q in range(sources):
                            if s + q < count:
                                source = int64(order[warp, s + q]) * vectors
                                for v in range(each):
                                    i = int32(piece + int32(v * WARP))
                                    if i < vectors:
                                        fetch(
                                            values,
                                            source + i,
                                            raw,
                                            (q * each + v) * words_of_access,
                                        )
                        for q in range(sources):
                            if s + q < count:
                                for v in range(each):
                                    widen(raw, (q * each + v) * words_of_access, held, 0)
                                    for e in range(width):
                                        total[v * width + e] += held[e]
                    for v in range(each):
                        i = int32(piece + int32(v * WARP))
                        if i < vectors:
                            write(out, ((first + k * step) * vectors + i) * width, total, v * width)
                cuda.syncwarp()

    if early:
        sum_claimed.__name__ = "sum_claimed_early"
    return bounded((THREADS, TOGETHER))(sum_claimed)


def claimed_steps(
    target: Any, x: Layout, source: Any, index: Any, row_of: Any, m: int, temps: list[Layout]
) -> list[Launch]:
    """Steps for target = zeros with source[j] added at row index[j]; target is like x: (1, rows,
    after)."""
    _, rows, after = x.shape
    nbytes = after * x.itemsize
    vectors = nbytes // 16
    lanes = blocks(vectors, WARP)
    most = min(UNDER_WAY, NUMBERS * x.itemsize // 16)
    each = next(n for n in (1, 2, 3, 4, 6) if n >= blocks(lanes, blocks(lanes, most)))
    per = min(max(OWN // nbytes, 1), WARP)
    word = fetcher(x.dtype, 16 // x.itemsize)[3]
    early, here = capability(x.device) >= (9, 0), len(temps)
    often = m // (SLOTS + 1)  # rows at most, and further lists
    entries = power_of_two(ENTRIES * max(m // SLOTS, 1)) if often else 1
    sizes = (
        (rows + 1, np.int32),
        ((rows + entries) * SLOTS, np.int32),
        (often + 1, np.int32),
        (entries, np.int64),
    )
    temps += [Layout.new((n,), np.dtype(kind), x.device) for n, kind in sizes]
    counts, lists, chosen, keys = (Temp(here + i) for i in range(4))
    values = source.view((m * (16 // word.itemsize) * vectors,), dtype=word)
    crews = CREWS * multiprocessors(x.device) if often else 0
    words = blocks(m, WARP) if often else 0
    return [
        Launch(
            clear_claims(early),
            blocks(max(rows + 1, entries), CLAIMS),
            CLAIMS,
            [counts, keys],
            early=early,
        ),
        Launch(
            claim_slots(row_of, early),
            blocks(m, CLAIMS),
            CLAIMS,
            [index, counts, lists, chosen, keys, rows, Flag(), Ticket()],
            early=early,
        ),
        Launch(
            sum_claimed(x.dtype, each, early),
            crews + blocks(rows, WARPS * per),
            THREADS,
            [
                values,
                counts,
                lists,
                chosen,
                keys,
                target.view((rows * after,)),
                rows,
                np.int32(vectors),
                np.int32(per),
                np.int32(crews),
                np.int32(words),
            ],
            4 * words,
            early=early,
        ),
    ]


def in_zeros(p: ScatterAddProblem) -> Plan:
    """Version "hashed" of the gradient of a gather."""
    temps: list[Layout] = []
    again, source = dense(Input(0), p.values, p.values.shape, p.x.dtype, temps)
    merged, *places = positions_of(p.indices, p.sizes, 1, temps)
    added = claimed_steps(Output(0), p.box, source, *places, p.m, temps)
    return Plan([p.x.like()], [*again, *merged, *added], temps)
