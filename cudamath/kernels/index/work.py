"""How long the versions of sums of rows by index take, and how slices are cut.

What a version does is counted; what the parts take is fitted by hand to what the headers of their
files tell of an H200, within 20 %. All rows are taken to have equally many sources.
"""

from __future__ import annotations

import math

from ...core.dtypes import compute_dtype
from ..lib.integers import blocks, power_of_two
from ..lib.prediction import Machine
from ..lib.streams import LATENCY
from .owners import owners_of
from .problem import ScatterAddProblem

BITS = 32  # of a word
# of a source: threads, and as many columns; of a row: sources whose values are on their way at once
LANES, AHEAD = 32, 8
LAUNCH = 3.0  # microseconds until a block has the list of destinations
# of a comparison, and of a source besides; those that a multiprocessor begins in a cycle
COMPARISON, BESIDES, SCHEDULERS = 24, 100, 4
FULL_RATE = 0.87  # of the bandwidth, that a copy reaches

# ``add_few``: cycles of a multiprocessor for 32 comparisons
COMPARED = 9.0
# ``add_rows``: microseconds without a source; cycles for each index that a block looks at, and for
# each source of a row, where they meet. ``add_often``: a launch; cycles of a row's slice, which so
# many blocks have at a time, and of OFTEN_AHEAD sources of it
OWNING, LOOK, MEETING = 6.0, 1.1, 4.0
OFTEN, AGAIN, SLICE, OFTEN_SLICE, OFTEN_BLOCKS, OFTEN_AHEAD = 32, 3.0, 128, 7700, 4, 256
OFTEN_TURN = 1400
# A sort: microseconds of its launches, and cycles in which they wait; microseconds of a byte that
# is read in the order of the keys; cycles of a chunk of a row, which is added to those before
SORTING, PASSES, SCATTERED, CHUNK, JOINING = 20.0, 38_000, 1e-6, 32, 580

# ``sum_slices``: threads of a block, as there is room for a sum of each row; sources that a thread
# reads at once; slices at most, which are added one after the other
SLICE_THREADS, SLICE_ROOM, SLICE_AHEAD, MOST_SLICES = (256, 128, 64), 64 << 10, 8, 64
# bytes of shared memory, and threads, of a multiprocessor; cycles of a source in a thread; sources
# of a block for each row whose sums it writes, at least
SHARED, RESIDENT, SLICE_SOURCE, WORTH = 220 << 10, 1024, 40, 4
# times what is counted of ``sum_slices``: the choice is 4 % from the best of 22 measured problems
# (H100), 19 % without
SLICES_MORE = 1.4


def slice_threads(p: ScatterAddProblem) -> int:
    """Threads of a block of ``sum_slices``; 0 where there is no room for the rows."""
    row = p.box.shape[1] * compute_dtype(p.x.dtype).itemsize
    return next((t for t in SLICE_THREADS if row * t <= SLICE_ROOM), 0)


def slices_of(p: ScatterAddProblem) -> tuple[int, int, int]:
    """(threads of a block, of them for as many columns, slices of the sources) of
    ``sum_slices``."""
    before, rows, after = p.box.shape
    columns, size, threads = before * after, compute_dtype(p.x.dtype).itemsize, slice_threads(p)
    lanes = min(power_of_two(columns), LANES)
    held = min(RESIDENT // threads, SHARED // (rows * threads * size + 1024))
    at_once = Machine.of(p.x.device).multiprocessors * held
    least = max(threads // lanes * SLICE_AHEAD, WORTH * rows)
    wanted = min(blocks(at_once, blocks(columns, lanes)), p.m // least, MOST_SLICES)
    return threads, lanes, max(wanted, 1)


def microseconds(machine: Machine, cycles: float = 0, moved: float = 0) -> float:
    """So many cycles of a multiprocessor, then so many bytes."""
    return 1e6 * (cycles / machine.clock + moved / (FULL_RATE * machine.bandwidth))


def _result(p: ScatterAddProblem) -> float:
    """Bytes of the result that are moved: of zeros once, of a copy twice; in place only those of
    rows that have sources."""
    if p.base == "place":
        _, rows, _ = p.box.shape
        return 2.0 * p.box.nbytes * min(p.m / max(rows, 1), 1)
    return p.box.nbytes * (2.0 if p.base == "copy" else 1.0)


def _bytes(p: ScatterAddProblem) -> float:
    """Bytes of the sources and of the result."""
    before, _, after = p.box.shape
    return _result(p) + p.m * before * after * p.x.itemsize


def _crowd(p: ScatterAddProblem) -> float:
    """Sources of a row."""
    return p.m / max(p.box.shape[1], 1)


def compare_microseconds(p: ScatterAddProblem) -> float:
    """``add_few``: each element of the result is compared with each source, and waits for those of
    its row."""
    machine = Machine.of(p.x.device)
    warps = blocks(p.x.size, 32) / machine.multiprocessors
    cycles = warps * (p.m + 10) * COMPARED + _crowd(p) * LATENCY
    return LAUNCH + microseconds(machine, cycles, _bytes(p))


def fold_microseconds(p: ScatterAddProblem) -> float:
    """The predicted time of ``fold_few``: each source is compared with each other once for LANES
    columns, and a row waits for its sources."""
    before, _, after = p.box.shape
    machine = Machine.of(p.x.device)
    warps = blocks(before * after, LANES) * p.m
    instructions = warps * (COMPARISON * BITS * blocks(p.m, BITS * LANES) + BESIDES)
    waiting = math.ceil(min(_crowd(p), p.m) / AHEAD + 2) * LATENCY
    cycles = instructions / (SCHEDULERS * machine.multiprocessors) + waiting
    launches = LAUNCH if p.base == "place" else 2 * LAUNCH
    return launches + microseconds(machine, cycles, _bytes(p))


def owner_microseconds(p: ScatterAddProblem) -> float:
    """``add_rows``, and ``add_often`` where rows have more than OFTEN sources."""
    _, rows, after = p.box.shape
    machine, crowd, owners = Machine.of(p.x.device), _crowd(p), owners_of(rows)
    waves = blocks(owners, machine.multiprocessors)
    cycles, launches = waves * p.m * LOOK, OWNING
    if p.m > OFTEN:
        launches += AGAIN
    if crowd > OFTEN:
        tasks = rows * blocks(after * p.x.itemsize, SLICE)
        turns = OFTEN_SLICE + blocks(int(crowd), OFTEN_AHEAD) * OFTEN_TURN
        cycles += blocks(tasks, OFTEN_BLOCKS * machine.multiprocessors) * turns
        cycles += min(crowd * blocks(rows, owners), p.m) * MEETING
    return launches + microseconds(machine, cycles, _bytes(p) * 1.05)


def sort_microseconds(p: ScatterAddProblem) -> float:
    """A sort of the destinations, and sums of chunks of 32 sources."""
    before, _, after = p.box.shape
    scattered = p.m * before * after * p.x.itemsize * SCATTERED
    cycles = PASSES + (_crowd(p) / CHUNK * JOINING if _crowd(p) > CHUNK else 0.0)
    return SORTING + scattered + microseconds(Machine.of(p.x.device), cycles, _bytes(p))


def sorted_sum_microseconds(p: ScatterAddProblem, sums: int) -> float:
    """The same of each of so many sums whose destinations are sorted once."""
    sorting = SORTING + microseconds(Machine.of(p.x.device), PASSES)
    return sort_microseconds(p) - sorting * (sums - 1) / sums


def slice_microseconds(p: ScatterAddProblem) -> float:
    """``sum_slices`` and ``join_slices``."""
    threads, lanes, slices = slices_of(p)
    before, rows, after = p.box.shape
    columns, size = before * after, compute_dtype(p.x.dtype).itemsize
    machine, tiles, groups = Machine.of(p.x.device), blocks(columns, lanes), threads // lanes
    held = min(RESIDENT // threads, SHARED // (rows * threads * size + 1024))
    waves = blocks(tiles * slices, machine.multiprocessors * held)
    sources = blocks(p.m, slices * groups)  # of a thread
    waiting = blocks(sources, SLICE_AHEAD) * LATENCY + sources * SLICE_SOURCE
    busy = sources * SLICE_SOURCE * held * threads / (32 * SCHEDULERS)
    ends = rows * (8 + lanes * groups * 30 / threads)
    cycles = waves * (max(waiting, busy) + ends) + blocks(slices, SLICE_AHEAD) * LATENCY + LATENCY
    moved = _bytes(p) + 2.0 * slices * rows * columns * size
    return SLICES_MORE * (2 * LAUNCH + microseconds(machine, cycles, moved))
