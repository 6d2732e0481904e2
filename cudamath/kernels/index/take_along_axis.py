"""Elements picked along an axis by an index array: out[b, j, a] = x[b, index[b, j, a], a]
(take_along_axis). The choice: dispatch.py.

``gather_along``  Any axis and strides; a thread takes four elements.
``along_rows``    Long rows of many picked elements. A warp that picks 32 elements of a row at
                  random asks the L1 cache for up to 32 lines, one after the other, and a miss costs
                  a sector of 32 bytes. So a block loads its whole row into shared memory, by
                  accesses of 16 bytes, and picks there, where 32 random words take the time of
                  three or four. Rows of up to 48 KB that lie together.

The floor is memory: x, index and out once.
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Flag, Input, Output, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import bounded
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..copy.contiguous import box, dense
from ..copy.parts import WORDS, index_type
from ..lib.integers import blocks
from ..lib.vector_io import reader, writer
from .problem import TakeAlongProblem

THREADS = 256
IN_FLIGHT = 4  # elements of a thread of ``gather_along``
STAGES = 4  # accesses of a thread in flight while ``along_rows`` loads the row


# -------------------- kernels


@functools.cache
def gather_along(index: Any, word: np.dtype, last: bool) -> Any:
    """out[b, j, a] = x[b, indices[b, j, a], a]; last: there is but one a. A thread takes IN_FLIGHT
    elements: all indices are read before the first is used, and so are the elements. Beyond the end
    it reads the last one again."""
    W = numba_type(word)

    @cuda.jit
    def gather_along(
        x, indices, out, m, flag, ticket
    ):  # x: (before, n, after); indices, out: (before * m * after,)
        first = index(index(cuda.blockIdx.x) * index(THREADS * IN_FLIGHT) + index(cuda.threadIdx.x))
        n, after = x.shape[1], index(x.shape[2])
        rows = cuda.local.array(IN_FLIGHT, np.int64)
        found = cuda.local.array(IN_FLIGHT, W)
        for e in range(IN_FLIGHT):
            i = min(index(first + index(e * THREADS)), index(out.size - 1))
            rows[e] = indices[i]
        wrong = False
        for e in range(IN_FLIGHT):
            i = min(index(first + index(e * THREADS)), index(out.size - 1))
            k = rows[e] + n if rows[e] < 0 else rows[e]
            outside = k < 0 or k >= n
            wrong = wrong or outside
            q = i if last else i // after
            found[e] = x[q // index(m), 0 if outside else k, 0 if last else i - q * after]
        for e in range(IN_FLIGHT):
            i = index(first + index(e * THREADS))
            if i < out.size:
                out[i] = found[e]
        if wrong:
            flag[0] = ticket

    return gather_along


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


# -------------------- planners


def _inputs(p: TakeAlongProblem) -> tuple[list, Any, Any, Layout, list[Layout]]:
    """(steps, x as a box, dense index array, layout of the box, scratch)."""
    temps: list[Layout] = []
    steps, x, layout, _ = box(Input(0), p.x, p.axis, 1, temps)
    more, index = dense(Input(1), p.index, p.index.shape, p.index.dtype, temps)
    return [*steps, *more], x, index, layout, temps


def in_shared_memory(p: TakeAlongProblem) -> Plan:
    """Version "shared_memory": ``along_rows``."""
    steps, x, index, layout, temps = _inputs(p)
    before, n, _ = layout.shape
    word = np.dtype(WORDS[p.x.itemsize])
    launch = Launch(
        along_rows(word, p.index.dtype, min(16 // word.itemsize, 8)),
        before,
        THREADS,
        [
            x.view((layout.size,), dtype=word),
            index.view((p.index.size,)),
            Output(0).view((p.index.size,), dtype=word),
            n,
            p.m,
            Flag(),
            Ticket(),
        ],
        shared=n * word.itemsize,
    )
    return Plan([p.out], [*steps, launch], temps)


def by_elements(p: TakeAlongProblem) -> Plan:
    """Version "elements": ``gather_along``."""
    steps, x, index, layout, temps = _inputs(p)
    size, word = p.out.size, np.dtype(WORDS[p.x.itemsize])
    kernel = gather_along(index_type(size + THREADS * IN_FLIGHT), word, layout.shape[2] == 1)
    launch = Launch(
        kernel,
        blocks(size, THREADS * IN_FLIGHT),
        THREADS,
        [
            x.view(layout.shape, layout.strides, dtype=word),
            index.view((size,)),
            Output(0).view((size,), dtype=word),
            p.m,
            Flag(),
            Ticket(),
        ],
    )
    return Plan([p.out], [*steps, launch], temps)
