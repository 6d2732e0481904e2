"""A matrix in CSR format times a dense one: the parts of rows that equal shares of the stored
elements hold, then the rows that lie in several shares.

The idea. Rows may be of any length: of a graph's, a few hold most elements. So the stored elements
are divided, not the rows. Each share finds the row that its first element belongs to by a search
in `indptr`, and sums row after row. A row that lies in one share is written at once. Of any other,
the share in which it begins keeps a *tail* and later ones keep a *head*; a second launch adds them
in the order of the shares. No atomics: the same bits at every call, whatever the grid.

    chunk_sums      Vectors. A block takes a share: it multiplies neighbouring elements by
                    neighbouring threads, into shared memory, and gives each row of the share as
                    many threads as there are for it.
    span_sums       Matrices. A group of threads takes a share, a thread a column: neighbouring
                    threads read neighbouring elements of b, and one address of the matrix.
    plain           One thread per element of the result; any GPU and the simulator.

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
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..lib.codec import codec
from ..lib.integers import blocks, power_of_two
from .problem import ProductProblem

THREADS = 256
CHUNK, SMALL_CHUNK = 2048, 512  # stored elements of a block, where there are many and few
MANY = 1 << 19  # stored elements, from which large shares still give work to all multiprocessors
SPAN = 64  # stored elements of a group


@device_function
def row_of(indptr, element, low, high):
    """The row in low .. high - 1 that holds this stored element: the last one with indptr[row] <=
    element."""
    low, high = types.int64(low), types.int64(high)
    while high - low > 1:
        middle = (low + high) // 2
        if indptr[middle] <= element:
            low = middle
        else:
            high = middle
    return low


@functools.cache
def plain_product(dtype: np.dtype) -> Any:
    """One thread per element of the result."""
    load, store, T = codec(dtype)

    @cuda.jit
    def plain_product(data, indices, indptr, b, out):
        """data, indices: (nnz,); indptr: (rows + 1,); b: (n, k); out: (rows, k)."""
        i = cuda.grid(1)
        if i < out.size:
            row = i // out.shape[1]
            column = i - row * out.shape[1]
            total = T(0)
            for e in range(indptr[row], indptr[row + 1]):
                total = T(total + T(load(data[e]) * load(b[indices[e], column])))
            out[row, column] = store(total)

    return plain_product


@functools.cache
def chunk_sums(dtype: np.dtype, chunk: int) -> Any:
    """A block sums the rows, and parts of rows, among `chunk` stored elements."""
    load, store, T = codec(dtype)

    @cuda.jit
    def chunk_sums(data, indices, indptr, b, out, heads, tails):
        """data, indices: (nnz,); indptr: (rows + 1,); b, out: vectors; heads, tails: (chunks,)."""
        products = cuda.shared.array(chunk, T)
        parts = cuda.shared.array(THREADS, T)
        bounds = cuda.shared.array(2, types.int64)
        t, share = cuda.threadIdx.x, cuda.blockIdx.x
        rows, stored = out.size, data.size
        start = share * chunk
        end = min(start + chunk, stored)
        if t == 0:
            bounds[0] = row_of(indptr, start, 0, rows) if share > 0 else 0
        if t == 32:
            bounds[1] = row_of(indptr, end, 0, rows) if end < stored else rows - 1
        for e in range(start + t, end, THREADS):
            products[e - start] = T(load(data[e]) * load(b[indices[e]]))
        cuda.syncthreads()
        first, last = bounds[0], bounds[1]
        lanes = 1  # threads of a row
        while lanes < 32 and 2 * lanes * (last - first + 1) <= THREADS:
            lanes = 2 * lanes
        lane = t % lanes
        base = first
        while base <= last:
            row = base + t // lanes
            total = T(0)
            if row <= last:
                low, high = max(indptr[row], start), min(indptr[row + 1], end)
                for e in range(low + lane, high, lanes):
                    total = T(total + products[e - start])
            parts[t] = total
            cuda.syncthreads()
            step = lanes // 2
            while step > 0:
                if lane < step:
                    parts[t] = T(parts[t] + parts[t + step])
                cuda.syncthreads()
                step = step // 2
            if row <= last and lane == 0:
                if indptr[row] < start:
                    heads[share] = parts[t]
                elif indptr[row + 1] > end:
                    tails[share] = parts[t]
                else:
                    out[row] = store(parts[t])
            cuda.syncthreads()
            base += THREADS // lanes

    return chunk_sums


@functools.cache
def span_sums(dtype: np.dtype, lanes: int) -> Any:
    """A group of `lanes` threads sums the rows, and parts of rows, among SPAN stored elements; a
    thread has a column."""
    load, store, T = codec(dtype)

    @cuda.jit
    def span_sums(data, indices, indptr, b, out, heads, tails):
        """data, indices: (nnz,); indptr: (rows + 1,); b: (n, k); out: (rows, k); heads, tails:
        (spans, k)."""
        share = cuda.grid(1) // lanes
        column = cuda.blockIdx.y * lanes + cuda.threadIdx.x % lanes
        start = share * SPAN
        if start < data.size and column < out.shape[1]:
            end = min(start + SPAN, data.size)
            e = start
            while e < end:
                row = row_of(indptr, e, 0, out.shape[0])
                edge = types.int64(indptr[row + 1])
                while e < end:  # row after row, as long as none is empty
                    total = T(0)
                    for each in range(e, min(edge, end)):
                        total = T(total + T(load(data[each]) * load(b[indices[each], column])))
                    if indptr[row] < start:
                        heads[share, column] = total
                    elif edge > end:
                        tails[share, column] = total
                    else:
                        out[row, column] = store(total)
                    e = min(edge, end)
                    if e < end:
                        row += 1
                        edge = types.int64(indptr[row + 1])
                        if edge == e:  # an empty row: many may follow
                            break

    return span_sums


@functools.cache
def clear_empty_rows(dtype: np.dtype) -> Any:
    """Zeros in the rows that hold no element; one thread per element of the result."""
    _, store, T = codec(dtype)

    @cuda.jit
    def clear_empty_rows(indptr, out):
        """indptr: (rows + 1,); out: (rows, k)."""
        i = cuda.grid(1)
        if i < out.size:
            row = i // out.shape[1]
            if indptr[row] == indptr[row + 1]:
                out[row, i - row * out.shape[1]] = store(T(0))

    return clear_empty_rows


@functools.cache
def join_shares(dtype: np.dtype, length: int) -> Any:
    """The rows that lie in several shares of `length` elements; one thread per share in which such
    a row may begin, and column."""
    _, store, T = codec(dtype)

    @cuda.jit
    def join_shares(indptr, heads, tails, out):
        """indptr: (rows + 1,); heads, tails: (shares, k); out: (rows, k)."""
        i = cuda.grid(1)
        share = i // out.shape[1]
        column = i - share * out.shape[1]
        if share < heads.shape[0] - 1:
            end = (share + 1) * length
            row = row_of(indptr, end - 1, 0, out.shape[0])
            if indptr[row] >= share * length and indptr[row + 1] > end:
                total = tails[share, column]
                while indptr[row + 1] > end:
                    share += 1
                    end += length
                    total = T(total + heads[share, column])
                out[row, column] = store(total)

    return join_shares


# -------------------- plans


def _join(p: ProductProblem, length: int, shares: int) -> Launch:
    arguments = [Input(2), Temp(0), Temp(1), Output(0)]
    grid = blocks(shares * p.columns, THREADS)
    return Launch(join_shares(p.b.dtype, length), grid, THREADS, arguments)


def by_elements(p: ProductProblem) -> Plan:
    """Version "plain"."""
    launch = Launch(
        plain_product(p.b.dtype),
        blocks(p.out.size, THREADS),
        THREADS,
        [Input(0), Input(1), Input(2), Input(3), Output(0)],
    )
    return Plan([p.out], [launch])


def by_chunks(p: ProductProblem) -> Plan:
    """Version "chunks": b is a vector."""
    chunk = CHUNK if p.stored >= MANY else SMALL_CHUNK
    shares = blocks(p.stored, chunk)
    arguments = [Input(0), Input(1), Input(2)]
    arguments += [x.flat for x in (Input(3), Output(0), Temp(0), Temp(1))]
    launch = Launch(chunk_sums(p.b.dtype, chunk), shares, THREADS, arguments)
    return Plan([p.out], [launch, _join(p, chunk, shares)], [p.partial(shares), p.partial(shares)])


def by_spans(p: ProductProblem) -> Plan:
    """Version "spans"."""
    lanes = min(power_of_two(p.columns), 32)
    shares = blocks(p.stored, SPAN)
    clear = Launch(
        clear_empty_rows(p.b.dtype),
        blocks(p.out.size, THREADS),
        THREADS,
        [Input(2), Output(0)],
    )
    launch = Launch(
        span_sums(p.b.dtype, lanes),
        (blocks(shares * lanes, THREADS), blocks(p.columns, lanes)),
        THREADS,
        [Input(0), Input(1), Input(2), Input(3), Output(0), Temp(0), Temp(1)],
    )
    partial = p.partial(shares)
    return Plan([p.out], [clear, launch, _join(p, SPAN, shares)], [partial, partial])
