"""Embedding: rows of a table chosen by index, and the gradient that adds rows of equal index.

The floor is memory: n rows read, n rows written (2 x n x columns x itemsize bytes). A row is copied
as words of 16, 8, 4 or 2 bytes, as wide as its length and place allow; a float is never looked
into, so one kernel serves all dtypes.

Versions, chosen in dispatch.py:

    plain       One thread per element of the result; any GPU and the simulator.
    rows        A group of up to 256 threads per row. The group reads the index once, and a thread
                several words.
    long_rows   Rows of half a kilobyte or more: a warp moves a piece of a row, of which each thread
                has up to three accesses in flight (`gather_long`, gather.py). "long" below.

An index outside the table raises the device's error flag; its row of the result stays undefined.
Negative indices are errors, not counted from the end: in a table of tokens, -1 is a mistake.

The gradient is a scatter-add in a fixed order: `gather_grad` of dispatch.py.

`one_hot` gives rows of the identity: it writes n x classes elements and reads next to nothing.

Measured (row versions_embedding):
65,536 rows of 50,257 x 768, float32; NVIDIA H200, commit 52457ee46004, 2026-11-23

                GB/s     of a copy
    plain      1,553          0.37
    rows       3,341          0.79
    long       4,164          0.98

(end of what was measured)
"""

import functools

import numpy as np

from ...core.dispatch.arguments import Flag, Input, Output, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import SIMULATOR, cuda
from ..lib.codec import codec
from ..lib.integers import blocks, power_of_two
from .gather import long_rows
from .problem import EmbeddingProblem

if not SIMULATOR:
    from ..ptx.vector_access import load_vector, store_vector

THREADS = 256


@cuda.jit
def plain(indices, weight, out, flag, ticket):
    """One thread an element; indices: (n,); weight: (rows, columns); out: (n, columns)."""
    i = cuda.grid(1)
    if i < out.size:
        row = i // out.shape[1]
        column = i % out.shape[1]
        index = indices[row]
        if index < 0 or index >= weight.shape[0]:
            flag[0] = ticket
        else:
            out[row, column] = weight[index, column]


@functools.cache
def rows(width):
    """Groups of threads copy rows; indices: (n,); weight: (rows * columns,); out: (n * columns,),
    words.

    An access moves `width` words; `columns` counts words. Block (threads per row, rows).
    """

    @cuda.jit
    def embedding_rows(indices, weight, out, rows, columns, flag, ticket):
        row = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
        if row < indices.size:
            index = indices[row]
            if index < 0 or index >= rows:
                flag[0] = ticket
            else:
                for column in range(cuda.threadIdx.x * width, columns, cuda.blockDim.x * width):
                    store_vector(
                        out,
                        row * columns + column,
                        load_vector(weight, index * columns + column, width),
                    )

    return embedding_rows


@device_function
def in_table(index, j, rows, flag, ticket):
    """Row index[j]; row 0 and the flag if there is no such row."""
    i = np.int64(index[j])
    if i < 0 or i >= rows:
        flag[0] = ticket
        i = np.int64(0)
    return i


@functools.cache
def one_hot_kernel(dtype):
    """One thread per element; indices: (n,); out: (n, classes)."""
    _, store, T = codec(dtype)

    @cuda.jit
    def one_hot(indices, out, flag, ticket):
        i = cuda.grid(1)
        if i < out.size:
            row = i // out.shape[1]
            column = i - row * out.shape[1]
            index = indices[row]
            out[row, column] = store(T(1) if index == column else T(0))
            if column == 0 and (index < 0 or index >= out.shape[1]):
                flag[0] = ticket

    return one_hot


def by_elements(p: EmbeddingProblem) -> Plan:
    """Version "plain"."""
    arguments = [
        Input(0),
        Input(1).view((p.classes, p.weight.shape[1])),
        Output(0),
        Flag(),
        Ticket(),
    ]
    return Plan([p.out], [Launch(plain, blocks(p.out.size, 128), 128, arguments)])


def by_rows(p: EmbeddingProblem) -> Plan:
    """Version "rows"."""
    n, itemsize = p.indices.size, min(p.weight.itemsize, 4)
    width = next(
        w
        for w in (16 // itemsize, 8 // itemsize, 4 // itemsize, 1)
        if w
        and p.row_bytes % (w * itemsize) == 0
        and (p.weight.aligned or w * itemsize <= p.weight.itemsize)
    )
    words, word = p.row_bytes // itemsize, np.dtype(f"uint{8 * itemsize}")
    threads = min(power_of_two(blocks(words, width)), THREADS)
    block = threads, THREADS // threads
    flat = [
        Input(1).view((p.classes * words,), dtype=word),
        Output(0).view((n * words,), dtype=word),
    ]
    launch = Launch(
        rows(width),
        blocks(n, block[1]),
        block,
        [Input(0), *flat, p.classes, words, Flag(), Ticket()],
    )
    return Plan([p.out], [launch])


def by_long_rows(p: EmbeddingProblem) -> Plan | None:
    """Version "long_rows": None where rows are too short for a warp."""
    long = long_rows(
        Input(1), Input(0), Output(0), in_table, 1, p.classes, p.indices.size, p.row_bytes // 16
    )
    return Plan([p.out], [long]) if long else None


def one_hot(indices: Layout, *, classes: int, dtype: np.dtype) -> Plan:
    """indices: (n,) integers -> (n, classes) of `dtype`: 1 at the index, else 0."""
    out = indices.like((indices.size, classes), dtype)
    return Plan(
        [out],
        [
            Launch(
                one_hot_kernel(dtype),
                blocks(out.size, THREADS),
                THREADS,
                [Input(0), Output(0), Flag(), Ticket()],
            )
        ],
    )
