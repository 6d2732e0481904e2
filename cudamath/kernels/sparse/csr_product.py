"""A matrix in CSR format times a dense one: equal shares of the stored elements and the ends of
rows, then the rows that lie in several shares.

The idea. Rows may be of any length: of a graph's, a few hold most elements, and many may hold none.
So neither rows nor elements are divided but both together: row after row, its elements and then its
end are items of one list, and each share is as many items of it (the merge path of Merrill and
Garland 2016). `share_starts` finds by bisection the row in which each share begins, and so its
element, too. A row that lies in one share is written at once. Of any other, the shares in which it
does not end keep a *tail* and the one in which it ends keeps a *head*; a last launch adds them in
the order of the shares. No atomics on numbers: the same bits at every call, whatever the grid.

    vector_sums     Vectors. A block takes a share: neighbouring threads multiply neighbouring
                    elements, all loads of a thread under way together, into shared memory; then
                    each row gets as many threads as there are for it, and a long one a warp.
    column_sums     Matrices. A block takes a share, and cuts it once more, for groups of threads
                    that have all columns of a tile: a thread up to four neighbouring ones of each
                    element, of four elements at once. The groups' heads and tails meet in shared
                    memory.
    row_sums        Vectors. A group of threads takes a row, whatever its length.
    plain           One thread per element of the result.

The values of a matrix that is stored by columns lie in another order than its rows': `places` says
where each one lies, so that no call gathers them before.

Floor: the matrix once (values and indices), the result once, and of b as many elements as there are
stored ones, most of which lie in the L2 cache.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import compute_dtype
from ..compiler.decorators import FULL, WARP, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..lib.codec import codec
from ..lib.integers import blocks, power_of_two
from .problem import ProductProblem

if not SIMULATOR:
    from ..ptx.vector_access import load_vector, store_vector

THREADS = 256
LONG = 32  # elements of a thread, beyond which a row in a share gets a warp
AT_ONCE = 4  # elements whose rows of b are under way together
ALONE = 16  # parts of a row that one thread adds
i32, i64, u64 = types.int32, types.int64, types.uint64


@device_function
def rows_before(indptr, item, low, high):
    """How many rows end before this item. At least `low`, at most `high` do."""
    while low < high:
        middle = (low + high) // 2
        if indptr[middle + 1] + middle < item:
            low = middle + 1
        else:
            high = middle
    return low


@functools.cache
def _value(dtype: np.dtype, placed: bool) -> Any:
    """A device function: the value of stored element e; placed: which lies at places[e]."""
    load = codec(dtype)[0]

    @device_function
    def value_there(data, places, e):
        return load(data[u64(places[e])])

    @device_function
    def value_here(data, places, e):
        return load(data[e])

    return value_there if placed else value_here


@functools.cache
def plain_product(dtype: np.dtype, placed: bool) -> Any:
    """One thread per element of the result."""
    load, store, T = codec(dtype)
    value = _value(dtype, placed)

    @cuda.jit
    def plain_product(data, places, indices, indptr, b, out):
        """data, places, indices: (nnz,); indptr: (rows + 1,); b: (n, k); out: (rows, k)."""
        i = cuda.grid(1)
        if i < out.size:
            row = i // out.shape[1]
            column = i - row * out.shape[1]
            total = T(0)
            for e in range(indptr[row], indptr[row + 1]):
                total = T(total + T(value(data, places, e) * load(b[indices[e], column])))
            out[row, column] = store(total)

    return plain_product


@cuda.jit
def share_starts(indptr, starts, items):
    """indptr: (rows + 1,); starts: (shares + 1,): the rows that end before each share. One thread
    per share."""
    share = cuda.grid(1)
    if share < starts.size:
        rows = i64(indptr.size - 1)
        item = min(i64(share) * items, rows + indptr[rows])
        starts[share] = rows_before(indptr, item, i64(0), rows)


@functools.cache
def _group_sum(dtype: np.dtype) -> Any:
    """A device function: the sum of the numbers of `lanes` neighbouring threads, a power of two up
    to 32, for the first of them; all threads of the block call it."""
    T = codec(dtype)[2]

    @device_function
    def by_shuffles(total, lanes, _parts):
        step = lanes // 2
        while step > 0:
            total = T(total + cuda.shfl_down_sync(FULL, total, step))
            step = step // 2
        return total

    @device_function
    def by_memory(total, lanes, parts):
        t = cuda.threadIdx.x
        parts[t] = total
        cuda.syncthreads()
        step = lanes // 2
        while step > 0:
            if t % lanes < step:
                parts[t] = T(parts[t] + parts[t + step])
            cuda.syncthreads()
            step = step // 2
        total = parts[t]
        cuda.syncthreads()
        return total

    shuffled = not SIMULATOR and compute_dtype(dtype).kind == "f"
    return by_shuffles if shuffled else by_memory


@device_function
def place(element):
    """Where a product lies in shared memory: rows of equal lengths begin in different banks."""
    return element + (element >> 5)


@functools.cache
def vector_sums(dtype: np.dtype, items: int, placed: bool) -> Any:
    """A block sums the rows, and parts of rows, in its share."""
    load, store, T = codec(dtype)
    group_sum, value = _group_sum(dtype), _value(dtype, placed)
    each, room, most_long = items // THREADS, items + items // 32, max(items // LONG, 1)

    @device_function
    def keep(row, total, first, last, start, share, indptr, out, heads, tails):
        if row == last:
            tails[share] = total
        elif row == first and indptr[row] < start:
            heads[share] = total
        else:
            out[row] = store(total)

    @cuda.jit
    def vector_sums(data, places, indices, indptr, starts, b, out, heads, tails):
        """data, places, indices: (nnz,); indptr: (rows + 1,); starts: (shares + 1,); b, out:
        vectors; heads, tails: (shares,)."""
        products = cuda.shared.array(room, T)
        parts = cuda.shared.array(THREADS, T)
        long_rows = cuda.shared.array(most_long, i32)
        long_count = cuda.shared.array(1, i32)
        t, share = cuda.threadIdx.x, i64(cuda.blockIdx.x)
        rows, stored = i64(out.size), i64(data.size)
        first, last = i64(starts[share]), i64(starts[share + 1])
        start = share * items - first
        end = min((share + 1) * items, rows + stored) - last
        if t == 0:
            long_count[0] = 0

        values = cuda.local.array(each, T)
        others = cuda.local.array(each, u64)  # not signed: no index counts from the end
        final = max(end - 1, i64(0))
        for k in range(each):
            e = min(start + t + k * THREADS, final)
            values[k] = value(data, places, e)
            others[k] = u64(indices[e])

        count = i32(min(last + 1, rows) - first)  # rows that have a part here
        shift = i32(0)  # of 2^shift threads for each of them
        while shift < 5 and (count << (shift + 1)) <= THREADS:
            shift += 1
        lanes = i32(1) << shift
        lane = t & (lanes - 1)
        turn = t >> shift
        low, high = i64(0), i64(0)
        if turn < count:
            low, high = i64(indptr[first + turn]), i64(indptr[first + turn + 1])

        for k in range(each):
            values[k] = T(values[k] * load(b[others[k]]))
        if first == last:  # the middle of a row: its products need no place in shared memory
            total = T(0)
            for k in range(each):
                if start + t + k * THREADS < end:
                    total = T(total + values[k])
            total = group_sum(total, WARP, parts)
            if t % WARP == 0:
                parts[t // WARP] = total
            cuda.syncthreads()
            if t == 0:
                for k in range(1, THREADS // WARP):
                    total = T(total + parts[k])
                tails[share] = total
            return
        for k in range(each):
            products[place(t + k * THREADS)] = values[k]
        cuda.syncthreads()
        base = i32(0)
        while base < count:
            row = first + turn
            after = turn + (THREADS >> shift)
            low_after, high_after = i64(0), i64(0)
            if after < count:  # loaded now, for the next time around
                low_after, high_after = i64(indptr[first + after]), i64(indptr[first + after + 1])
            near, far = i32(max(low, start) - start), i32(min(high, end) - start)
            wide = shift < 5 and far - near > (LONG << shift)
            total = T(0)
            if turn < count and not wide:
                for e in range(near + lane, far, lanes):
                    total = T(total + products[place(e)])
            total = group_sum(total, lanes, parts)
            if turn < count and lane == 0:
                if wide:
                    long_rows[cuda.atomic.add(long_count, 0, 1)] = turn
                else:
                    keep(row, total, first, last, start, share, indptr, out, heads, tails)
            base += THREADS >> shift
            turn, low, high = after, low_after, high_after
        cuda.syncthreads()
        base = i32(0)
        while base < long_count[0]:
            turn = base + t // WARP
            total = T(0)
            row = i64(0)
            if turn < long_count[0]:
                row = first + long_rows[turn]
                near = i32(max(i64(indptr[row]), start) - start)
                far = i32(min(i64(indptr[row + 1]), end) - start)
                for e in range(near + t % WARP, far, WARP):
                    total = T(total + products[place(e)])
            total = group_sum(total, WARP, parts)
            if turn < long_count[0] and t % WARP == 0:
                keep(row, total, first, last, start, share, indptr, out, heads, tails)
            base += THREADS // WARP

    return vector_sums


@functools.cache
def row_sums(dtype: np.dtype, lanes: int, placed: bool) -> Any:
    """A group of `lanes` threads sums a row."""
    load, store, T = codec(dtype)
    group_sum, value = _group_sum(dtype), _value(dtype, placed)

    @cuda.jit
    def row_sums(data, places, indices, indptr, b, out):
        """data, places, indices: (nnz,); indptr: (rows + 1,); b, out: vectors."""
        parts = cuda.shared.array(THREADS, T)
        t = cuda.threadIdx.x
        row = (cuda.blockIdx.x * i64(THREADS) + t) // lanes
        total = T(0)
        if row < out.size:
            for e in range(i64(indptr[row]) + t % lanes, i64(indptr[row + 1]), lanes):
                total = T(total + T(value(data, places, e) * load(b[u64(indices[e])])))
        total = group_sum(total, lanes, parts)
        if row < out.size and t % lanes == 0:
            out[row] = store(total)

    return row_sums


@functools.cache
def _row_access(dtype: np.dtype, width: int) -> Any:
    """Device functions that read `width` neighbouring elements into an array of registers, and
    write them."""
    load, store, _ = codec(dtype)

    @device_function
    def read_one(source, at, into, index):
        into[index] = load(source[at])

    @device_function
    def write_one(target, at, values):
        target[at] = store(values[0])

    if width == 1:
        return read_one, write_one

    @device_function
    def read(source, at, into, index):
        taken = load_vector(source, at, width)
        for k in range(width):
            into[index + k] = load(taken[k])

    @device_function
    def write_two(target, at, values):
        store_vector(target, at, (store(values[0]), store(values[1])))

    @device_function
    def write_four(target, at, values):
        store_vector(
            target, at, (store(values[0]), store(values[1]), store(values[2]), store(values[3]))
        )

    return read, write_two if width == 2 else write_four


@functools.cache
def column_sums(dtype: np.dtype, items: int, lanes: int, width: int, placed: bool) -> Any:
    """A group of `lanes` threads sums the rows, and parts of rows, in a piece of the block's share;
    a thread has `width` columns."""
    _, store, T = codec(dtype)
    value = _value(dtype, placed)
    read, write = _row_access(dtype, width)
    groups, tile = THREADS // lanes, lanes * width
    piece, room, held = items // groups, groups * tile, AT_ONCE * width

    @cuda.jit
    def column_sums(data, places, indices, indptr, starts, b, out, heads, tails, columns):
        """data, places, indices: (nnz,); indptr: (rows + 1,); starts: (shares + 1,); b, out: flat
        matrices of so many columns; heads, tails: (shares, columns)."""
        group_heads = cuda.shared.array(room, T)
        group_tails = cuda.shared.array(room, T)
        group_rows = cuda.shared.array(groups, i64)
        group_ends = cuda.shared.array(groups, i32)  # 1: a row ends; 2: and began before
        t, share = i32(cuda.threadIdx.x), i64(cuda.blockIdx.x)
        group, lane = t // lanes, t % lanes
        column = cuda.blockIdx.y * i64(tile) + lane * width
        at = min(column, columns - width)
        rows, stored = i64(indptr.size - 1), i64(data.size)
        first, last = i64(starts[share]), i64(starts[share + 1])
        item = min(share * items + group * piece, rows + stored)
        row = rows_before(indptr, item, first, last)
        e = item - row
        item = min(item + piece, rows + stored)
        final_row = rows_before(indptr, item, row, last)
        end = item - final_row
        head = row < final_row and indptr[row] < e
        if lane == 0:
            group_rows[group] = row
            group_ends[group] = (2 if head else 1) if row < final_row else 0
        edge = i64(indptr[min(row + 1, rows)])
        following = i64(indptr[min(row + 2, rows)])

        totals = cuda.local.array(width, T)
        values = cuda.local.array(AT_ONCE, T)
        others = cuda.local.array(AT_ONCE, i64)
        taken = cuda.local.array(held, T)
        for k in range(width):
            totals[k] = T(0)
        while e < end or row < final_row:
            if e < end:
                for u in range(AT_ONCE):
                    each = min(e + u, end - 1)
                    values[u] = value(data, places, each)
                    others[u] = i64(indices[each])
                for u in range(AT_ONCE):
                    read(b, others[u] * columns + at, taken, u * width)
            for u in range(AT_ONCE):
                while row < final_row and edge <= e + u:
                    if head:
                        for k in range(width):
                            group_heads[group * tile + lane * width + k] = totals[k]
                    elif column < columns:
                        write(out, row * columns + at, totals)
                    for k in range(width):
                        totals[k] = T(0)
                    head = False
                    row += 1
                    edge = following
                    following = i64(indptr[min(row + 2, rows)])
                if e + u < end:
                    for k in range(width):
                        totals[k] = T(totals[k] + T(values[u] * taken[u * width + k]))
            e += AT_ONCE
        for k in range(width):
            group_tails[group * tile + lane * width + k] = totals[k]
        cuda.syncthreads()

        column = cuda.blockIdx.y * i64(tile) + t
        if t < tile and column < columns:
            total = T(0)
            for g in range(groups):
                if group_ends[g] == 2:
                    total = T(total + group_heads[g * tile + t])
                    row = group_rows[g]
                    if indptr[row] + row < share * items:
                        heads[share, column] = total
                    else:
                        out[row * columns + column] = store(total)
                if group_ends[g]:
                    total = T(0)
                total = T(total + group_tails[g * tile + t])
            tails[share, column] = total

    return column_sums


@functools.cache
def join_shares(dtype: np.dtype, items: int, lanes: int) -> Any:
    """The rows that lie in several shares. A group of `lanes` threads, with a column each, adds the
    parts of the row that ends in its share; a block those of a row of many parts."""
    _, store, T = codec(dtype)
    groups = THREADS // lanes

    @device_function
    def begin(share, indptr, starts):
        """The share in which the row that ends first in this one begins."""
        row = i64(starts[share])
        item = share * items
        if row < starts[share + 1]:
            item = min(item, i64(indptr[row]) + row)
        return item // items

    @cuda.jit
    def join_shares(indptr, starts, heads, tails, out):
        """indptr: (rows + 1,); starts: (shares + 1,); heads, tails: (shares, k); out: (rows, k)."""
        sums = cuda.shared.array(THREADS, T)
        long_shares = cuda.shared.array(groups, i64)
        long_count = cuda.shared.array(1, i32)
        t = i32(cuda.threadIdx.x)
        share = cuda.blockIdx.x * i64(groups) + t // lanes
        column = cuda.blockIdx.y * i64(lanes) + t % lanes
        if t == 0:
            long_count[0] = 0
        cuda.syncthreads()
        if share < heads.shape[0]:
            part = begin(share, indptr, starts)
            if share - part > ALONE:
                if t % lanes == 0:
                    long_shares[cuda.atomic.add(long_count, 0, 1)] = share
            elif part < share and column < out.shape[1]:
                total = T(0)
                while part < share:
                    total = T(total + tails[part, column])
                    part += 1
                out[starts[share], column] = store(T(total + heads[share, column]))
        cuda.syncthreads()
        for turn in range(long_count[0]):
            share = long_shares[turn]
            total = T(0)
            if column < out.shape[1]:
                for part in range(begin(share, indptr, starts) + t // lanes, share, groups):
                    total = T(total + tails[part, column])
            sums[t] = total
            cuda.syncthreads()
            step = groups // 2
            while step > 0:
                if t < step * lanes:
                    sums[t] = T(sums[t] + sums[t + step * lanes])
                cuda.syncthreads()
                step = step // 2
            if t < lanes and column < out.shape[1]:
                out[starts[share], column] = store(T(sums[t] + heads[share, column]))
            cuda.syncthreads()

    return join_shares


# -------------------- plans


def _values(p: ProductProblem) -> list[Any]:
    """The arguments for the values and their places; any integers where these are in order."""
    return [Input(0), Input(1 if p.places is None else p.ahead)]


def by_elements(p: ProductProblem) -> Plan:
    """Version "plain"."""
    launch = Launch(
        plain_product(p.b.dtype, p.places is not None),
        blocks(p.out.size, THREADS),
        THREADS,
        [*_values(p), Input(1), Input(2), Input(3), Output(0)],
    )
    return Plan([p.out], [launch])


def _plan(p: ProductProblem, kernel: Any, tile: int, flat: bool) -> Plan:
    """Starts of shares, where they are not known, their sums by `kernel`, the rows that lie in
    several."""
    items = p.items
    shares = blocks(p.rows + p.stored, items)
    both = p.partial(2 * shares)
    half = (shares,) if flat else (shares, p.columns)
    heads, tails = (Temp(0).view(half, offset=side * both.nbytes // 2) for side in (0, 1))
    temps, steps = [both], []
    starts: Any = Input(4)
    if p.starts is None:
        temps.append(p.indptr.like((shares + 1,)))
        starts = Temp(1)
        steps.append(
            Launch(share_starts, blocks(shares + 1, THREADS), THREADS, [Input(2), starts, items])
        )
    arguments = [*_values(p), Input(1), Input(2), starts, Input(3).flat, Output(0).flat]
    arguments += [heads, tails] if flat else [heads, tails, p.columns]
    grid = shares if flat else (shares, blocks(p.columns, tile))
    steps.append(Launch(kernel, grid, THREADS, arguments))
    lanes = min(power_of_two(p.columns), WARP)
    columns = (Temp(0).view((shares, p.columns), offset=side * both.nbytes // 2) for side in (0, 1))
    steps.append(
        Launch(
            join_shares(p.b.dtype, items, lanes),
            (blocks(shares * lanes, THREADS), blocks(p.columns, lanes)),
            THREADS,
            [Input(2), starts, *columns, Output(0)],
        )
    )
    return Plan([p.out], steps, temps)


def by_rows(p: ProductProblem) -> Plan:
    """Version "rows": b is a vector."""
    arguments = [*_values(p), Input(1), Input(2), Input(3).flat, Output(0).flat]
    kernel = row_sums(p.b.dtype, p.lanes, p.places is not None)
    return Plan([p.out], [Launch(kernel, blocks(p.rows * p.lanes, THREADS), THREADS, arguments)])


def by_vector(p: ProductProblem) -> Plan:
    """Version "vector": b is one."""
    return _plan(p, vector_sums(p.b.dtype, p.items, p.places is not None), 1, True)


def by_columns(p: ProductProblem) -> Plan:
    """Version "columns"."""
    width = p.width
    lanes = min(power_of_two(blocks(p.columns, width)), WARP)
    kernel = column_sums(p.b.dtype, p.items, lanes, width, p.places is not None)
    return _plan(p, kernel, lanes * width, False)
