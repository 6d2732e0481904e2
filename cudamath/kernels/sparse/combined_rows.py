"""A function of the elements of two compressed matrices of one shape: sums, differences, products,
extremes and comparisons, of which zeros are not stored.

The idea. Row after row, the elements of both matrices in the order of their columns (of a pair, the
first matrix's element is ahead) and then the end of the row are the items of one list (the merge
path of Green, McColl and Bader 2012). Blocks take equal shares of it and threads equal pieces, so
rows may have any lengths. Where a piece begins is found by bisection, first among the ends of rows,
then in the row. An element that has a partner gives one result, which the thread with the first
matrix's element computes.

    count_kept      how many results of each share are not zero
    running_counts  the sums of these numbers, by one block
    write_kept      the results behind those of the shares ahead, and the starts of rows

The results have room for as many elements as there can be; the last start of a row says how many
there are. Nothing waits for the host between the launches.

Floor: both matrices once, and the result once. Here both are read twice.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..elementwise.scalar_functions import functions
from ..lib.codec import codec
from ..lib.integers import blocks

THREADS = 256
PIECE = 8  # items of a thread
i32, i64 = types.int32, types.int64

COMPARISONS = {
    "not_equal": device_function(lambda x, y: x != y),
    "less": device_function(lambda x, y: x < y),
    "less_equal": device_function(lambda x, y: x <= y),
    "greater": device_function(lambda x, y: x > y),
    "greater_equal": device_function(lambda x, y: x >= y),
}
ARITHMETIC = {
    "add": device_function(lambda x, y: x + y),
    "subtract": device_function(lambda x, y: x - y),
    "multiply": device_function(lambda x, y: x * y),
}
EXTREMES = ("maximum", "minimum")
FUNCTIONS = (*ARITHMETIC, *COMPARISONS, *EXTREMES)


def result_dtype(function: str, dtype: np.dtype) -> np.dtype:
    return np.dtype(np.bool_) if function in COMPARISONS else dtype


@device_function
def rows_ended(a_starts, b_starts, item):
    """How many rows end before this item."""
    low, high = i64(0), i64(a_starts.size - 1)
    while low < high:
        middle = (low + high) // 2
        if i64(a_starts[middle + 1]) + b_starts[middle + 1] + middle < item:
            low = middle + 1
        else:
            high = middle
    return low


@device_function
def taken_of_first(a_columns, b_columns, a_first, a_count, b_first, b_count, taken):
    """How many of the first `taken` elements of a row are the first matrix's."""
    low, high = max(taken - b_count, i64(0)), min(taken, a_count)
    while low < high:
        middle = (low + high) // 2
        if a_columns[a_first + middle] <= b_columns[b_first + taken - 1 - middle]:
            low = middle + 1
        else:
            high = middle
    return low


@functools.cache
def _element(dtype: np.dtype, function: str) -> tuple[Any, Any]:
    """Device functions: the result of two elements as it is stored, and whether it is not zero."""
    load, store, T = codec(dtype)
    if function in COMPARISONS:
        compare = COMPARISONS[function]

        @device_function
        def compared(x, y):
            return types.uint8(1) if compare(x, y) else types.uint8(0)

        @device_function
        def is_true(value):
            return value != 0

        return compared, is_true
    operation = functions(T)[function] if function in EXTREMES else ARITHMETIC[function]

    @device_function
    def computed(x, y):
        return store(T(operation(x, y)))

    @device_function
    def is_kept(value):
        return load(value) != T(0)

    return computed, is_kept


@functools.cache
def _walk(dtype: np.dtype, function: str, both: bool) -> Any:
    """A device function: the results of a thread's piece, which are noted by `note(k, ...)`."""
    load, _, T = codec(dtype)
    computed, is_kept = _element(dtype, function)

    @device_function
    def walk(a, a_columns, a_starts, b, b_columns, b_starts, first, kinds, places, values):
        """kinds: of each item 0 (nothing), 1 (a result) or 2 (the end of a row); places: of the
        results their columns; values. Returns (results, the row of the first item)."""
        rows = i64(a_starts.size - 1)
        items = i64(a_columns.size) + b_columns.size + rows
        row = rows_ended(a_starts, b_starts, min(first, items))
        first_row = row
        i, a_end = i64(0), i64(0)
        j, b_first, b_end = i64(0), i64(0), i64(0)
        if row < rows:
            i, a_end = i64(a_starts[row]), i64(a_starts[row + 1])
            b_first, b_end = i64(b_starts[row]), i64(b_starts[row + 1])
            taken = first - i - b_first - row
            ours = taken_of_first(
                a_columns, b_columns, i, a_end - i, b_first, b_end - b_first, taken
            )
            a_first = i
            i = i + ours
            j = b_first + taken - ours
        else:
            a_first = i
        found = i32(0)
        for k in range(PIECE):
            kinds[k] = i32(0)
            if first + k < items:
                if i < a_end and (j >= b_end or a_columns[i] <= b_columns[j]):
                    column = a_columns[i]
                    pair = j < b_end and b_columns[j] == column
                    if pair or not both:
                        other = T(0)
                        if pair:
                            other = T(load(b[j]))
                        value = computed(T(load(a[i])), other)
                        if is_kept(value):
                            kinds[k] = i32(1)
                            places[k] = i64(column)
                            values[k] = value
                            found += 1
                    i += 1
                elif j < b_end:
                    column = b_columns[j]
                    alone = i == a_first or a_columns[i - 1] != column
                    if alone and not both:
                        value = computed(T(0), T(load(b[j])))
                        if is_kept(value):
                            kinds[k] = i32(1)
                            places[k] = i64(column)
                            values[k] = value
                            found += 1
                    j += 1
                else:
                    kinds[k] = i32(2)
                    row += 1
                    if row < rows:
                        i, a_end = i64(a_starts[row]), i64(a_starts[row + 1])
                        j, b_end = i64(b_starts[row]), i64(b_starts[row + 1])
                        a_first = i
        return found, first_row

    return walk


@device_function
def sums_upto(value, sums):
    """The sum of the values of the threads up to this one. sums: (THREADS,) in shared memory."""
    t = cuda.threadIdx.x
    sums[t] = value
    cuda.syncthreads()
    step = 1
    while step < THREADS:
        before = i64(0)
        if t >= step:
            before = i64(sums[t - step])
        cuda.syncthreads()
        sums[t] += before
        cuda.syncthreads()
        step *= 2
    return sums[t]


@functools.cache
def _taken(dtype: np.dtype, function: str, both: bool) -> Any:
    """A device function, `walk` of this thread's piece: (its first item, the row of that, its
    results, those of the block's threads up to this one)."""
    walk = _walk(dtype, function, both)

    @device_function
    def taken(a, a_columns, a_starts, b, b_columns, b_starts, kinds, places, values):
        sums = cuda.shared.array(THREADS, i64)
        first = (i64(cuda.blockIdx.x) * THREADS + cuda.threadIdx.x) * PIECE
        found, row = walk(
            a, a_columns, a_starts, b, b_columns, b_starts, first, kinds, places, values
        )
        return first, row, found, sums_upto(i64(found), sums)

    return taken


@functools.cache
def _stored(dtype: np.dtype, function: str) -> Any:
    """What a result is in registers."""
    from ..compiler.storage_types import numba_type

    return numba_type(result_dtype(function, dtype))


@functools.cache
def count_kept(dtype: np.dtype, function: str, both: bool) -> Any:
    take, S = _taken(dtype, function, both), _stored(dtype, function)

    @cuda.jit
    def count_kept(a, a_columns, a_starts, b, b_columns, b_starts, counts):
        """a, b: (nnz,) and their columns; starts: (rows + 1,); counts: (shares,) int64."""
        kinds = cuda.local.array(PIECE, i32)
        places = cuda.local.array(PIECE, i64)
        values = cuda.local.array(PIECE, S)
        _, _, _, total = take(a, a_columns, a_starts, b, b_columns, b_starts, kinds, places, values)
        if cuda.threadIdx.x == THREADS - 1:
            counts[cuda.blockIdx.x] = total

    return count_kept


@cuda.jit
def running_counts(counts):
    """counts: (shares,), each becomes the sum of those ahead of it. One block."""
    sums = cuda.shared.array(THREADS, i64)
    t = cuda.threadIdx.x
    each = (counts.size + THREADS - 1) // THREADS
    total = i64(0)
    for k in range(t * each, min((t + 1) * each, counts.size)):
        total += counts[k]
    ahead = sums_upto(total, sums) - total
    for k in range(t * each, min((t + 1) * each, counts.size)):
        own = counts[k]
        counts[k] = ahead
        ahead += own


@functools.cache
def write_kept(dtype: np.dtype, function: str, both: bool) -> Any:
    take, S = _taken(dtype, function, both), _stored(dtype, function)

    @cuda.jit
    def write_kept(a, a_columns, a_starts, b, b_columns, b_starts, counts, columns, out, starts):
        """counts: (shares,), the results ahead of each share; columns, out: room for all results;
        starts: (rows + 1,)."""
        kinds = cuda.local.array(PIECE, i32)
        places = cuda.local.array(PIECE, i64)
        values = cuda.local.array(PIECE, S)
        first, row, found, total = take(
            a, a_columns, a_starts, b, b_columns, b_starts, kinds, places, values
        )
        at = total - found + counts[cuda.blockIdx.x]
        if first == 0:
            starts[0] = 0
        for k in range(PIECE):
            if kinds[k] == 1:
                columns[at] = places[k]
                out[at] = values[k]
                at += 1
            elif kinds[k] == 2:
                row += 1
                starts[row] = at

    return write_kept


def combined_rows(
    a: Layout,
    a_columns: Layout,
    a_starts: Layout,
    b: Layout,
    b_columns: Layout,
    b_starts: Layout,
    *,
    function: str,
    both: bool,
) -> Plan:
    """Two matrices of one dtype, contiguous, the columns of their rows ascending -> (columns,
    values), with room for all that may be, and the starts of rows. both: results are stored where
    both matrices have an element."""
    rows, dtype = a_starts.size - 1, a.dtype
    room = min(a.size, b.size) if both else a.size + b.size
    index = np.dtype(np.int32 if a.size + b.size < 1 << 31 else np.int64)
    index = max(index, a_columns.dtype, b_columns.dtype, key=lambda kind: kind.itemsize)
    outputs = [
        a.like((room,), index),
        a.like((room,), result_dtype(function, dtype)),
        a.like((rows + 1,), index),
    ]
    shares = max(blocks(a.size + b.size + rows, THREADS * PIECE), 1)
    given = [Input(i) for i in range(6)]
    how = dtype, function, both
    steps = [
        Launch(count_kept(*how), shares, THREADS, [*given, Temp(0)]),
        Launch(running_counts, 1, THREADS, [Temp(0)]),
        Launch(
            write_kept(*how),
            shares,
            THREADS,
            [*given, Temp(0), Output(0), Output(1), Output(2)],
        ),
    ]
    return Plan(outputs, steps, [a.like((shares,), np.dtype(np.int64))])
