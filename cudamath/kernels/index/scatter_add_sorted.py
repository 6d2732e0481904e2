"""Rows added into rows chosen by index, in a fixed order, by a sort of the destinations.

Many sources may go to one destination. Float atomics would add them in an order that changes from
run to run; here the order is that of the sources, so the sum is the same bit for bit every time.
Three steps:

1. Sort the destinations, keeping each one's source number, by as many bits as the largest
   destination has (sort/key_steps.py): two passes of 8 bits for a vocabulary of 50,257.
2. ``sum_chunks``: the sorted sources are cut into chunks of 32. A block walks its chunk in order
   with a sum per column in registers. A destination that lies within the chunk is written at once;
   a sum that began in the chunk before or goes on in the next is put aside.
3. ``join_chunks``: where a destination goes on over chunks, the block of its first chunk adds the
   sums that were put aside.

So a destination that occurs 16,000 times (padding) costs 500 additions one after another, not
16,000. The floor is one read of the sources and a read and a write of the destinations that occur:
(sources + 2 x distinct destinations) x row bytes / bandwidth.
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import compute_dtype
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda
from ..copy.contiguous import box, dense
from ..copy.dispatch import copy_part
from ..copy.fill import fill_part
from ..copy.parts import whole
from ..lib.codec import codec
from ..lib.integers import blocks
from ..sort.key_steps import key_steps
from ..sort.radix_keys import coding
from .folding import folding
from .positions import flat_positions
from .problem import ScatterAddProblem

CHUNK = 32
AHEAD = 8  # sources of it whose loads are in flight at once
THREADS = 256


# -------------------- sorting


@cuda.jit
def number_keys(positions, keys, rows):  # positions: (m,) int64, keys: (m,) uint32 or uint64
    """keys = positions with -1 (out of range) replaced by ``rows``, which sorts last."""
    j = cuda.grid(1)
    if j < keys.size:
        keys[j] = positions[j] if positions[j] >= 0 else rows


def sorted_layouts(m: int, rows: int, device: int) -> list[Layout]:
    """Of sorted keys below ``rows``, and of the source number of each."""
    word = coding(np.dtype(np.uint32 if rows < 2**32 else np.uint64)).word
    return [Layout.new((m,), kind, device) for kind in (word, np.dtype(np.int64))]


def sort_steps(
    positions: Any,
    m: int,
    rows: int,
    device: int,
    temps: list[Layout],
    into: tuple[Any, Any] | None = None,
) -> tuple[list[Launch], Any, Any]:
    """Steps that sort ``m`` positions below ``rows``: (steps, sorted keys, source number of each).
    Keys out of range come last, as ``rows``. into: the arguments of these; scratch by default."""
    code = coding(np.dtype(np.uint32 if rows < 2**32 else np.uint64))
    here, (keys, numbers) = len(temps), sorted_layouts(m, rows, device)
    temps += [keys] if into else [keys, keys, numbers]
    given = Temp(here)
    ordered, order = into or (Temp(here + 1), Temp(here + 2))
    steps = [
        Launch(number_keys, blocks(m, THREADS), THREADS, [positions, given, rows]),
        *key_steps(
            given, ordered, order, code, (1, m), code.no_flip, device, temps, rows.bit_length()
        ),
    ]
    return steps, ordered, order


# -------------------- summing


@functools.cache
def sum_chunks(dtype: np.dtype, kind: str) -> Any:
    """x[b, key, a] += the sum of the sources of that key, for keys within one chunk; other sums are
    put aside: aside[0] for a key that began in an earlier chunk, aside[1] for one that goes on in
    the next."""
    load, store, T = codec(dtype)
    fold, nothing = folding(kind, dtype)

    @cuda.jit
    def sum_chunks(x, values, keys, order, aside):
        # x: (before, rows, after), values: (before, m, after), keys, order: (m,), aside: (2,
        # chunks, columns) of T
        i = cuda.grid(1)  # neighbouring threads: neighbouring columns
        columns = aside.shape[2]
        chunk = i // columns
        column = i - chunk * columns
        after = values.shape[2]
        if chunk < aside.shape[1]:
            b = column // after
            a = column - b * after
            first = chunk * CHUNK
            last = min(first + CHUNK, keys.size)
            key = keys[first]
            began_before = first > 0 and keys[first - 1] == key
            total = nothing
            before = nothing  # what x holds of this key: nobody else writes there meanwhile
            v = cuda.local.array(AHEAD, T)
            held = cuda.local.array(AHEAD, T)
            for start in range(first, last, AHEAD):
                for k in range(AHEAD):  # all loads go out before the first is waited for
                    if start + k < last:
                        v[k] = load(values[b, order[start + k], a])
                        if keys[start + k] < x.shape[1]:
                            held[k] = load(x[b, keys[start + k], a])
                for k in range(AHEAD):
                    if start + k < last:
                        if keys[start + k] != key:
                            if began_before:
                                aside[0, chunk, column] = total
                            elif key < x.shape[1]:
                                x[b, key, a] = store(fold(before, total))
                            key = keys[start + k]
                            began_before = False
                            total = nothing
                        before = held[k]
                        total = fold(total, v[k])
            if began_before:
                aside[0, chunk, column] = total
            elif last < keys.size and keys[last] == key:
                aside[1, chunk, column] = total
            elif key < x.shape[1]:
                x[b, key, a] = store(fold(before, total))

    return sum_chunks


@functools.cache
def join_chunks(dtype: np.dtype, kind: str) -> Any:
    """For a key that begins in this thread's chunk and goes on: x[b, key, a] += all that was put
    aside for it."""
    load, store, _ = codec(dtype)
    fold, _ = folding(kind, dtype)

    @cuda.jit
    def join_chunks(
        x, keys, aside, after
    ):  # x: (before, rows, after), keys: (m,), aside: (2, chunks, columns) of T
        i = cuda.grid(1)
        chunk = i // aside.shape[2]
        column = i - chunk * aside.shape[2]
        last = (chunk + 1) * CHUNK
        if last < keys.size:
            key = keys[last]
            begins_here = keys[last - 1] == key and (chunk == 0 or keys[chunk * CHUNK - 1] != key)
            if begins_here and key < x.shape[1]:
                total = aside[1, chunk, column]
                while last < keys.size and keys[last] == key:
                    total = fold(total, aside[0, last // CHUNK, column])
                    last += CHUNK
                b = column // after
                a = column - b * after
                x[b, key, a] = store(fold(load(x[b, key, a]), total))

    return join_chunks


@functools.cache
def sum_chosen(dtype: np.dtype, scaled: bool) -> Any:
    """``sum_chunks`` of rows that a second index chooses from a table, each times its weight if
    ``scaled``, into zeros, which are not read."""
    load, store, T = codec(dtype)

    @device_function
    def weighted(value, weights, j):
        return value * load(weights[j])

    @device_function
    def plain(value, weights, j):
        return value

    term = weighted if scaled else plain

    @cuda.jit
    def sum_chosen(x, table, weights, keys, sources, aside):
        # x: (1, rows, after), table: (n, after), weights: (m,), or anything if they are not used,
        # keys, sources: (m,), aside: (2, chunks, after) of T
        i = cuda.grid(1)  # neighbouring threads: neighbouring columns
        chunk = i // table.shape[1]
        a = i - chunk * table.shape[1]
        if chunk < aside.shape[1]:
            first = chunk * CHUNK
            last = min(first + CHUNK, keys.size)
            key = keys[first]
            began_before = first > 0 and keys[first - 1] == key
            total = T(0)
            v = cuda.local.array(AHEAD, T)
            for start in range(first, last, AHEAD):
                for k in range(AHEAD):  # all loads go out before the first is waited for
                    if start + k < last:
                        v[k] = term(load(table[sources[start + k], a]), weights, start + k)
                for k in range(AHEAD):
                    if start + k < last:
                        if keys[start + k] != key:
                            if began_before:
                                aside[0, chunk, a] = total
                            elif key < x.shape[1]:
                                x[0, key, a] = store(total)
                            key = keys[start + k]
                            began_before = False
                            total = T(0)
                        total += v[k]
            if began_before:
                aside[0, chunk, a] = total
            elif last < keys.size and keys[last] == key:
                aside[1, chunk, a] = total
            elif key < x.shape[1]:
                x[0, key, a] = store(total)

    return sum_chosen


@cuda.jit
def order_sources(positions, order, sources):  # all (m,)
    """sources[j] = positions[order[j]]; row 0 for one out of range, which is flagged already."""
    j = cuda.grid(1)
    if j < sources.size:
        sources[j] = max(positions[order[j]], 0)


def add_steps(
    target: Any,
    x: Layout,
    source: Any,
    positions: Any,
    m: int,
    temps: list[Layout],
    kind: str = "add",
) -> list[Launch]:
    """Steps for ``x[:, positions[j], :] += values[:, j, :]``; x: (before, rows, after) with its
    argument ``target``; ``source``: the argument of the values, contiguous (before, m, after);
    kind: see ``folding``."""
    steps, keys, order = sort_steps(positions, m, x.shape[1], x.device, temps)
    return [*steps, *sum_steps(target, x, source, keys, order, m, temps, kind)]


def sum_steps(
    target: Any,
    x: Layout,
    source: Any,
    keys: Any,
    order: Any,
    m: int,
    temps: list[Layout],
    kind: str = "add",
) -> list[Launch]:
    """The same where the positions are sorted: see ``sort_steps``."""
    before, _, after = x.shape
    columns = before * after
    chunks = blocks(m, CHUNK)
    temps.append(Layout.new((2, chunks, columns), compute_dtype(x.dtype), x.device))
    aside = Temp(len(temps) - 1)
    grid = blocks(chunks * columns, THREADS)
    values = source.view((before, m, after))
    return [
        Launch(sum_chunks(x.dtype, kind), grid, THREADS, [target, values, keys, order, aside]),
        Launch(join_chunks(x.dtype, kind), grid, THREADS, [target, keys, aside, after]),
    ]


# -------------------- planners


def in_place(p: ScatterAddProblem) -> Plan:
    temps: list[Layout] = []
    steps, target, layout, copied = box(Input(0), p.x, p.axis, p.count, temps)
    again, source = dense(Input(1), p.values, p.shape, p.x.dtype, temps)
    merged, positions = flat_positions(p.indices, p.sizes, 2, temps)
    added = add_steps(target, layout, source, positions, p.m, temps, p.kind)
    back = [] if copied is None else copy_part(copied, whole(Input(0), p.x))
    return Plan([], [*steps, *again, *merged, *added, *back], temps)


def in_copy(p: ScatterAddProblem) -> Plan:
    """Values are added to a copy of x."""
    out, temps = p.x.like(), []
    again, source = dense(Input(2), p.values, p.values.shape, p.x.dtype, temps)
    steps = copy_part(whole(Input(0), p.x), whole(Output(0), out))
    if p.m:
        merged, positions = flat_positions(p.indices, p.sizes, 1, temps)
        added = add_steps(Output(0).view(p.box.shape), p.box, source, positions, p.m, temps)
        steps += [*again, *merged, *added]
    return Plan([out], steps, temps)


def in_zeros(p: ScatterAddProblem) -> Plan:
    """The gradient of a gather."""
    out, temps = p.x.like(), []
    again, source = dense(Input(0), p.values, p.values.shape, p.x.dtype, temps)
    steps = fill_part(whole(Output(0), out), np.uint64(0), np.uint64(0), None)
    if p.values.size:
        merged, positions = flat_positions(p.indices, p.sizes, 1, temps)
        added = add_steps(Output(0).view(p.box.shape), p.box, source, positions, p.m, temps)
        steps += [*again, *merged, *added]
    return Plan([out], steps, temps)


# -------------------- several sums by one index


def sorted_places(index: Layout, *, rows: int) -> Plan:
    """Planner: places (m,) of rows -> (these in ascending order, the number that each had)."""
    temps: list[Layout] = []
    outputs = sorted_layouts(index.size, rows, index.device)
    merged, positions = flat_positions((index,), (rows,), 0, temps)
    into = Output(0), Output(1)
    steps, *_ = sort_steps(positions, index.size, rows, index.device, temps, into)
    return Plan(outputs, [*merged, *steps], temps)


def sums_of_sorted(g: Layout, keys: Layout, order: Layout, *, shape: tuple[int, ...]) -> Plan:
    """Planner: zeros of ``shape`` with g[order[j]] added at keys[j]: ``gather_grad`` of what
    ``sorted_places`` gave."""
    out, temps = g.like(shape), []
    box = out.like((1, shape[0], g.size // g.shape[0]))
    again, source = dense(Input(0), g, g.shape, g.dtype, temps)
    added = sum_steps(Output(0).view(box.shape), box, source, Input(1), Input(2), keys.size, temps)
    zeros = fill_part(whole(Output(0), out), np.uint64(0), np.uint64(0), None)
    return Plan([out], [*zeros, *again, *added], temps)


def sorted_sources(index: Layout, order: Layout, *, rows: int) -> Plan:
    """Planner: places (m,) of rows of a table -> those, in the order of the sums that they go
    to."""
    temps: list[Layout] = []
    word, _ = sorted_layouts(index.size, rows, index.device)
    merged, positions = flat_positions((index,), (rows,), 0, temps)
    grid = blocks(index.size, THREADS)
    ordered = Launch(order_sources, grid, THREADS, [positions, Input(1), Output(0)])
    return Plan([word], [*merged, ordered], temps)


def sums_of_chosen(
    table: Layout, keys: Layout, sources: Layout, *weights: Layout, shape: tuple[int, ...]
) -> Plan:
    """Planner: zeros of ``shape`` with table[sources[j]], times weights[j], added at keys[j]: see
    ``sorted_places`` and ``sorted_sources``."""
    out, temps = table.like(shape), []
    columns = table.size // table.shape[0]
    chunks = blocks(keys.size, CHUNK)
    again, source = dense(Input(0), table, table.shape, table.dtype, temps)
    temps.append(Layout.new((2, chunks, columns), compute_dtype(out.dtype), out.device))
    target, aside = Output(0).view((1, shape[0], columns)), Temp(len(temps) - 1)
    grid = blocks(chunks * columns, THREADS)
    rows = source.view((table.shape[0], columns))
    scale = Input(3) if weights else Input(1)
    zeros = fill_part(whole(Output(0), out), np.uint64(0), np.uint64(0), None)
    sums = [target, rows, scale, Input(1), Input(2), aside]
    return Plan(
        [out],
        [
            *zeros,
            *again,
            Launch(sum_chosen(out.dtype, bool(weights)), grid, THREADS, sums),
            Launch(
                join_chunks(out.dtype, "add"), grid, THREADS, [target, Input(1), aside, columns]
            ),
        ],
        temps,
    )
