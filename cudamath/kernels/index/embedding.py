"""Embedding: rows of a table chosen by index, and the gradient that adds rows of equal index.

The floor is memory: n rows read, n rows written (2 x n x columns x itemsize bytes). A row is copied
as words of 16, 8, 4 or 2 bytes, as wide as its length and place allow; a float is never looked
into, so one kernel serves all dtypes.

Versions: `plain`, one thread an element of the result, any GPU and the simulator; `rows`, a group
of up to 256 threads per row, which reads the index once a group and several words per thread;
`long`, for rows of half a kilobyte or more, a warp for a piece of a row, of which each thread has
up to three accesses in flight (`gather_long`, gather.py).

An index outside the table raises the device's error flag; its row of the result stays undefined.
Negative indices are errors, not counted from the end: in a table of tokens, -1 is a mistake.

The gradient is a scatter-add in a fixed order: scatter_add_by_owner.py, or scatter_add.py.

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


def lookup(version: str, indices: Layout, weight: Layout, classes: int | None = None) -> Plan:
    """The plan of one version by name: "plain", "rows", or "long", which is "rows" where it does
    not suit. The kernels see `classes` rows of the table, or all."""
    n, columns = indices.size, weight.shape[1]
    count = weight.shape[0] if classes is None else classes
    out = weight.like((n, columns))
    if version == "plain":
        return Plan(
            [out],
            [
                Launch(
                    plain,
                    blocks(out.size, 128),
                    128,
                    [Input(0), Input(1).view((count, columns)), Output(0), Flag(), Ticket()],
                )
            ],
        )
    nbytes = columns * weight.itemsize
    if version == "long" and weight.aligned and nbytes % 16 == 0 and not SIMULATOR:
        long = long_rows(Input(1), Input(0), Output(0), in_table, 1, count, n, nbytes // 16)
        if long:
            return Plan([out], [long])
    itemsize = min(weight.itemsize, 4)
    width = next(
        w
        for w in (16 // itemsize, 8 // itemsize, 4 // itemsize, 1)
        if w
        and nbytes % (w * itemsize) == 0
        and (weight.aligned or w * itemsize <= weight.itemsize)
    )
    words = nbytes // itemsize
    word = np.dtype(f"uint{8 * itemsize}")
    threads = min(power_of_two(blocks(words, width)), THREADS)
    block = threads, THREADS // threads
    flat = [Input(1).view((count * words,), dtype=word), Output(0).view((n * words,), dtype=word)]
    return Plan(
        [out],
        [
            Launch(
                rows(width),
                blocks(n, block[1]),
                block,
                [Input(0), *flat, count, words, Flag(), Ticket()],
            )
        ],
    )


def embedding(indices: Layout, weight: Layout, *, classes: int | None) -> Plan:
    """indices: (n,) integers below `classes` (None: rows), weight: (rows, columns), C order -> (n,
    columns)."""
    return lookup("long", indices, weight, classes)


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
