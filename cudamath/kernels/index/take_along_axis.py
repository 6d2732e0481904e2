"""Elements of long rows picked by an index array of many columns: out[b, j] = x[b, index[b, j]]
(take_along_axis).

The idea. A warp that picks 32 elements of a row at random asks the L1 cache for up to 32 lines, one
after the other, and what it does not find there comes by sectors of 32 bytes. The floor is memory:
x, index and out once. So a block loads its whole row into shared memory, by 16-byte accesses, and
picks there, where 32 random words take the time of three or four.

Versions: `gather_along` (gather.py), any axis and strides, a thread four elements; `along_rows`,
this one, for rows of up to 48 KB that lie together, of which about as much is picked as has to be
brought.
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import ArrayArg, Flag, Ticket
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ...runtime.device import multiprocessors
from ..compiler.decorators import bounded
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..compiler.storage_types import numba_type
from ..lib.vector_io import reader, writer

THREADS = 256
STAGES = 4  # accesses of a thread in flight while the row is loaded
ROW = 48 << 10  # bytes of a row
SECTOR = 32  # bytes that an element picked from memory costs


@functools.cache
def along_rows(word: np.dtype, number: np.dtype, width: int) -> Any:
    """x: (rows * n,), index: (rows * m,) of `number`, out: (rows * m,); one block per row; `width`
    divides n and m."""
    pair = min(16 // number.itemsize, width)  # indices of an access
    read, read_index, write = reader(word, width), reader(number, pair), writer(word, width)
    W, N = numba_type(word), numba_type(number)
    signed, held = number.kind == "i", STAGES * width

    @bounded(THREADS)
    def along_rows(x, index, out, n, m, flag, ticket):
        row = cuda.shared.array(0, W)
        v = cuda.local.array(held, W)
        places = cuda.local.array(width, N)
        mine = cuda.threadIdx.x * width
        start = cuda.blockIdx.x * n
        for first in range(mine, n, STAGES * THREADS * width):
            for s in range(STAGES):
                if first + s * THREADS * width < n:
                    read(x, start + first + s * THREADS * width, v, s * width)
            for s in range(STAGES):
                if first + s * THREADS * width < n:
                    write(row, first + s * THREADS * width, v, s * width)
        cuda.syncthreads()
        start = cuda.blockIdx.x * m
        wrong = False
        for j in range(mine, m, THREADS * width):
            for p in range(0, width, pair):
                read_index(index, start + j + p, places, p)
            for e in range(width):
                k = types.int64(places[e])
                if signed and k < 0:
                    k += n
                outside = k < 0 or k >= n
                wrong = wrong or outside
                v[e] = row[0 if outside else k]
            write(out, start + j, v, 0)
        if wrong:
            flag[0] = ticket

    return along_rows


def in_rows(
    x: Layout, index: Layout, m: int, word: np.dtype, arguments: tuple[ArrayArg, ArrayArg, ArrayArg]
) -> Launch | None:
    """The launch of `along_rows` for x (before, n, after) and a dense index with m places a row, or
    None where it does not fit or pay. arguments: x, index and the result."""
    before, n, after = x.shape
    width, row = min(16 // word.itemsize, 8), n * word.itemsize
    fits = (
        after == 1
        and x.contiguous
        and x.aligned
        and index.aligned
        and n % width == m % width == 0
        and width > 1
        and row <= ROW
        and SECTOR * m >= 2 * row
        and before >= 2 * multiprocessors(x.device)
    )
    if SIMULATOR or not fits:
        return None
    given, places, out = arguments
    return Launch(
        along_rows(word, index.dtype, width),
        before,
        THREADS,
        [
            given.view((x.size,), dtype=word),
            places.view((index.size,)),
            out.view((index.size,), dtype=word),
            n,
            m,
            Flag(),
            Ticket(),
        ],
        shared=row,
    )
