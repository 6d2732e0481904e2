"""The product of two compressed matrices, row by row: the rows of B that a row of A meets are added
in a hash table of columns, which lies in shared memory.

The idea (Gustavson 1978; Nagasaka, Nishino and Matsuoka 2017). A group of threads has a row. It
takes as many elements of A as it has threads, finds the rows of B that they meet, and divides those
rows' elements among its threads, whatever their lengths. First the columns of a result are counted
(`product_lengths`), then, as the sums of these counts say where each row begins, computed
(`product_rows`): sums in the table, its columns sorted by exchanges.

Columns come into the table in any order, but products are added in the order of A's elements: of
the products that are under way together, those of one element of A have different columns; they
take turns. So results have the same bits at every call, and no atomics on numbers are needed.

    short rows      at most 32 products: eight threads and a table of 64 places
    rows            at most 256 products: a warp, 512 places
    long rows       a block; twice as many places as the longest row has products, or B columns

What is longer than shared memory allows is not computed here (`most_products`).

Floor: A, B's rows as often as they are met (from the L2 cache), and the result once.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import compute_dtype
from ...core.layout import Layout
from ...runtime import device
from ..compiler.decorators import WARP, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..lib.codec import codec
from ..lib.integers import blocks, power_of_two
from .problem import lanes_of_rows

THREADS = 128  # of a block of several groups
WIDE = 256  # of a block with one row
FEW, SOME = 32, 256  # products of short rows, and of those that a warp takes
FREE, LAST = -1, 0x7FFFFFFF  # no column; what is sorted behind every column
KEPT = 8192  # bytes of shared memory beside the table
i32, i64, u32 = types.int32, types.int64, types.uint32


class Group(NamedTuple):
    """lanes: threads of a row; size: places of its table, a power of two, at most half of them
    taken; threads of a block."""

    lanes: int
    size: int
    threads: int

    @property
    def groups(self) -> int:
        return self.threads // self.lanes

    def shared(self, itemsize: int) -> int:
        """Bytes of the tables of a block: columns, those that are taken, sums."""
        return self.groups * self.size * (4 + 2 + itemsize)


def group_of(products: int) -> Group:
    """The group for rows of so many products, or so many columns."""
    lanes, size = (8, 2 * FEW) if products <= FEW else (WARP, 2 * SOME)
    if products > SOME:
        lanes, size = WIDE, 2 * power_of_two(products)
    # the simulator has no barrier for a part of a block
    return Group(lanes, size, lanes if SIMULATOR else max(lanes, THREADS))


def most_products(place: int, dtype: np.dtype) -> int:
    """How many different columns of a row a block has room for; a power of two."""
    room = device.properties(place).max_shared_memory - KEPT
    places = room // (6 + compute_dtype(dtype).itemsize)
    return power_of_two(places // 2 + 1) // 2


# -------------------- device functions


@functools.cache
def _meet(group: Group) -> Any:
    """A barrier of the group's threads."""
    if group.lanes >= group.threads:

        @device_function
        def meet():
            cuda.syncthreads()

    elif group.lanes == WARP:

        @device_function
        def meet():
            cuda.syncwarp()

    else:
        lanes, mask = group.lanes, (1 << group.lanes) - 1

        @device_function
        def meet():
            first = cuda.threadIdx.x % WARP // lanes * lanes
            cuda.syncwarp(u32(mask) << u32(first))

    return meet


@functools.cache
def _find(size: int) -> Any:
    """Device function (columns, base, column): the place of a column in the table that begins at
    `base`, and whether it is new there."""
    shift = 32 - (size.bit_length() - 1)

    @device_function
    def find(columns, base, column):
        place = i32((i64(column) * i64(0x9E3779B1) & i64(0xFFFFFFFF)) >> i64(shift))
        while True:
            held = columns[base + place]
            if held == FREE:
                held = cuda.atomic.cas(columns, base + place, i32(FREE), column)
                if held == FREE:
                    return base + place, True
            if held == column:
                return base + place, False
            place = i32((place + 1) & (size - 1))

    return find


@functools.cache
def _gather(group: Group) -> Any:
    """A device function: the rows of B that the next elements of A meet, one for each thread."""
    lanes, meet = group.lanes, _meet(group)

    @device_function
    def gather(indices, e, high, b_starts, begins, ends, t):
        """begins, ends: (threads,) in shared memory, where each begins, and the sum of the lengths
        up to each. Returns the sum of the group's."""
        length = i32(0)
        if e < high:
            met = indices[e]
            begins[t] = b_starts[met]
            length = i32(b_starts[met + 1] - b_starts[met])
        ends[t] = length
        meet()
        lane = t % lanes
        step = i32(1)
        while step < lanes:
            before = i32(0)
            if lane >= step:
                before = ends[t - step]
            meet()
            ends[t] += before
            meet()
            step *= 2
        return ends[t - lane + lanes - 1]

    return gather


@functools.cache
def _owner(lanes: int) -> Any:
    """Device function (ends, first, product): which thread's row of B a product is in."""

    @device_function
    def owner(ends, first, product):
        low, high = first, first + i32(lanes - 1)
        while low < high:
            middle = i32((low + high) // 2)
            if ends[middle] > product:
                high = middle
            else:
                low = i32(middle + 1)
        return low

    return owner


@functools.cache
def _row_of(chosen: bool) -> Any:
    """Device function (rows, number, count) -> the row of a group: the one that is listed at its
    number, or else, of `count` rows, its number; -1 where there is none."""

    @device_function
    def listed(rows, number, count):
        return i64(rows[number]) if number < rows.size else i64(-1)

    @device_function
    def own(rows, number, count):
        return number if number < count else i64(-1)

    return listed if chosen else own


# -------------------- kernels


@functools.cache
def products_of_rows(lanes: int) -> Any:
    @cuda.jit
    def products_of_rows(indices, starts, b_starts, out):
        """indices: (nnz,); starts: (rows + 1,); b_starts; out: (rows,), the products of each row.
        A group of `lanes` threads per row."""
        sums = cuda.shared.array(THREADS, i64)
        t = cuda.threadIdx.x
        row = (cuda.blockIdx.x * i64(THREADS) + t) // lanes
        total = i64(0)
        if row < out.size:
            for e in range(i64(starts[row]) + t % lanes, i64(starts[row + 1]), lanes):
                met = indices[e]
                total += b_starts[met + 1] - b_starts[met]
        sums[t] = total
        cuda.syncthreads()
        if t % lanes == 0 and row < out.size:
            for other in range(t + 1, t + lanes):
                total += sums[other]
            out[row] = total

    return products_of_rows


@functools.cache
def row_lengths(group: Group, chosen: bool) -> Any:
    """How many columns rows have; chosen: of rows that are listed."""
    lanes, size, threads = group
    groups = group.groups
    meet, find, gather, owner = _meet(group), _find(size), _gather(group), _owner(lanes)
    row_of = _row_of(chosen)

    @cuda.jit
    def row_lengths(indices, starts, b_columns, b_starts, rows, out):
        """The matrices' columns and starts of rows; rows: (n,), their numbers; out: (rows + 1,), of
        each row its length behind it."""
        columns = cuda.shared.array(0, i32)
        begins = cuda.shared.array(threads, i64)
        ends = cuda.shared.array(threads, i32)
        counts = cuda.shared.array(groups, i32)
        t = i32(cuda.threadIdx.x)
        mine, lane = t // i32(lanes), t % i32(lanes)
        base, front = i32(mine * size), i32(mine * lanes)
        number = cuda.blockIdx.x * i64(groups) + mine
        low, high, row = i64(0), i64(0), row_of(rows, number, out.size - 1)
        if row >= 0:
            low, high = i64(starts[row]), i64(starts[row + 1])
        for k in range(lane, size, lanes):
            columns[base + k] = FREE
        if lane == 0:
            counts[mine] = 0
        while low < high:
            total = gather(indices, low + lane, high, b_starts, begins, ends, t)
            product = lane
            while product < total:
                m = owner(ends, front, product)
                ahead = i32(0)
                if m > front:
                    ahead = ends[m - 1]
                column = i32(b_columns[begins[m] + (product - ahead)])
                if find(columns, base, column)[1]:
                    cuda.atomic.add(counts, mine, 1)
                product += i32(lanes)
            meet()
            low += lanes
        meet()
        if row >= 0 and lane == 0:
            out[row + 1] = counts[mine]
        if cuda.blockIdx.x == 0 and t == 0:
            out[0] = 0

    return row_lengths


@functools.cache
def row_sums(group: Group, dtype: np.dtype, chosen: bool) -> Any:
    """Rows of the product; chosen: those that are listed."""
    lanes, size, threads = group
    groups = group.groups
    load, store, T = codec(dtype)
    meet, find, gather, owner = _meet(group), _find(size), _gather(group), _owner(lanes)
    row_of = _row_of(chosen)
    half = size // 2
    sums_at = groups * size * 6 // compute_dtype(dtype).itemsize  # behind the columns

    @cuda.jit
    def row_sums(a, indices, starts, b, b_columns, b_starts, out_starts, rows, out_columns, out):
        """The matrices' elements, their columns, and the starts of rows; rows: (n,), numbers of
        rows; out_starts: (rows + 1,); out_columns, out: (stored,)."""
        columns = cuda.shared.array(0, i32)  # of the tables, then those that are taken
        sums = cuda.shared.array(0, T)
        begins = cuda.shared.array(threads, i64)
        ends = cuda.shared.array(threads, i32)
        factors = cuda.shared.array(threads, T)
        counts = cuda.shared.array(groups, i32)
        t = i32(cuda.threadIdx.x)
        mine, lane = t // i32(lanes), t % i32(lanes)
        base, front = i32(mine * size), i32(mine * lanes)
        taken = i32(groups * size + mine * half)
        number = cuda.blockIdx.x * i64(groups) + mine
        low, high, row = i64(0), i64(0), row_of(rows, number, out_starts.size - 1)
        if row >= 0:
            low, high = i64(starts[row]), i64(starts[row + 1])
        for k in range(lane, size, lanes):
            columns[base + k] = FREE
            sums[sums_at + base + k] = T(0)
        if lane == 0:
            counts[mine] = 0
        meet()
        while low < high:
            if low + lane < high:
                factors[t] = T(load(a[low + lane]))
            total = gather(indices, low + lane, high, b_starts, begins, ends, t)
            first = i32(0)
            while first < total:
                product, m, place, value = i32(first + lane), i32(-1), i32(0), T(0)
                if product < total:
                    m = owner(ends, front, product)
                    ahead = i32(0)
                    if m > front:
                        ahead = ends[m - 1]
                    at = begins[m] + (product - ahead)
                    column = i32(b_columns[at])
                    value = T(factors[m] * load(b[at]))
                    place, new = find(columns, base, column)
                    if new:
                        columns[taken + cuda.atomic.add(counts, mine, 1)] = column
                turn = owner(ends, front, first)
                last = owner(ends, front, min(i32(first + lanes), total) - i32(1))
                while turn <= last:
                    if turn == m:
                        sums[sums_at + place] = T(sums[sums_at + place] + value)
                    meet()
                    turn += i32(1)
                first += i32(lanes)
            meet()
            low += lanes
        meet()

        count = counts[mine]
        room = i32(1)
        while room < count:
            room *= 2
        for k in range(count + lane, room, lanes):
            columns[taken + k] = LAST
        meet()
        run = i32(2)
        while run <= room:
            step = i32(run // 2)
            while step > 0:
                k = lane
                while k < room // 2:
                    one = i32(2 * step * (k // step) + k % step)
                    other = i32(one + step)
                    x, y = columns[taken + one], columns[taken + other]
                    if (x > y) == ((one & run) == 0):
                        columns[taken + one] = y
                        columns[taken + other] = x
                    k += i32(lanes)
                meet()
                step = i32(step // 2)
            run *= 2
        if row >= 0:
            begin = i64(out_starts[row])
            for k in range(lane, count, lanes):
                column = columns[taken + k]
                out_columns[begin + k] = column
                out[begin + k] = store(sums[sums_at + find(columns, base, column)[0]])

    return row_sums


# -------------------- planners


def product_counts(indices: Layout, starts: Layout, b_starts: Layout) -> Plan:
    """-> (rows,) int64: how many products each row of A has with B's."""
    rows = starts.size - 1
    out = starts.like((rows,), np.dtype(np.int64))
    if not rows:
        return Plan([out], [])
    lanes = lanes_of_rows(rows, indices.size)
    arguments = [Input(0), Input(1), Input(2), Output(0)]
    grid = blocks(rows * lanes, THREADS)
    return Plan([out], [Launch(products_of_rows(lanes), grid, THREADS, arguments)])


def _parts(
    rows: int, short: Layout | None, long: Layout | None, most: int, first: int
) -> Iterator[tuple[Group, bool, int, Any]]:
    """(group, whether rows are chosen, how many, the argument that lists them): of all rows, or of
    those of two lists, the inputs from `first` on."""
    if short is None or long is None:
        yield group_of(most), False, rows, Input(first - 1)
        return
    for place, chosen, products in ((first, short, SOME), (first + 1, long, most)):
        if chosen.size:
            yield group_of(products), True, chosen.size, Input(place)


def product_lengths(
    indices: Layout,
    starts: Layout,
    b_columns: Layout,
    b_starts: Layout,
    short: Layout | None = None,
    long: Layout | None = None,
    *,
    width: int,
    most: int,
) -> Plan:
    """-> (rows + 1,) int64: 0, and how many columns each row of the product has.

    short, long: the numbers of rows of at most SOME products, and of the others; without them all
    rows are alike. most: products of a row, or columns of B. width: B's columns.
    """
    rows = starts.size - 1
    out = starts.like((rows + 1,), np.dtype(np.int64))
    steps = []
    for group, chosen, count, listed in _parts(rows, short, long, most, 4):
        kernel = row_lengths(group, chosen)
        arguments = [*[Input(i) for i in range(4)], listed, Output(0)]
        grid = max(blocks(count, group.groups), 1)
        steps.append(Launch(kernel, grid, group.threads, arguments, group.shared(0)))
    return Plan([out], steps)


def product_rows(
    a: Layout,
    indices: Layout,
    starts: Layout,
    b: Layout,
    b_columns: Layout,
    b_starts: Layout,
    out_starts: Layout,
    short: Layout | None = None,
    long: Layout | None = None,
    *,
    width: int,
    stored: int,
    most: int,
) -> Plan:
    """-> (columns, values) of the product, (stored,): a and b of one dtype; out_starts: where each
    of its rows begins; the others as in `product_lengths`."""
    outputs = [a.like((stored,), np.dtype(np.int32)), a.like((stored,))]
    steps = []
    for group, chosen, count, listed in _parts(starts.size - 1, short, long, most, 7):
        kernel = row_sums(group, a.dtype, chosen)
        arguments = [*[Input(i) for i in range(7)], listed, Output(0), Output(1)]
        grid = blocks(count, group.groups)
        bytes_of = group.shared(compute_dtype(a.dtype).itemsize)
        steps.append(Launch(kernel, grid, group.threads, arguments, bytes_of))
    return Plan(outputs, steps if stored else [])
