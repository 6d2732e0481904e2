"""Clipping gradients by the norm of all of them together: three launches, however many arrays there are.

The idea. The norm needs every element once, the scaling every element once more (read and written): 12 bytes an
element for float32. Hundreds of arrays, most of them small, would cost a launch each; so, as in optim.py, a table made
with the plan cuts all arrays into chunks, a chunk a block, and their addresses come in a table of the call.

1. `squares`: a block sums the squares of its chunk -> one partial sum a block.
2. `norm_of`: one block sums the partial sums in a fixed order -> the norm and the factor min(1, most / (norm + 1e-6)).
3. `scaled`: a block writes its chunk times the factor. The results of one dtype lie in one new array, each beginning on
   a border of 16 bytes.

Versions: `one`, an array a launch and a thread a chunk or an element (any GPU, the simulator); `many`, the fused one,
with 16-byte accesses where arrays are aligned. No atomics: the same gradients give the same bits.
"""

import functools
import math

import numpy as np
from numba import cuda

from ..core.dtypes import compute_dtype
from ..core.plan import Addresses, Constant, Input, Launch, Output, Plan, Scalar, Temp
from .build import SIMULATOR, blocks, codec, numba_type
from .optim import CHUNK, THREADS, chunks
from .rows import RUN, group_sum, reader, writer

if not SIMULATOR:
    from .ptx import array_at

NORM_THREADS = 1024  # of the one block that sums the partial sums
BORDER = 8  # results begin at multiples of so many elements


@functools.cache
def squares_one(dtype, total):
    """x: (n,) dtype; partial: (...,) total; first: int64. Thread t: partial[first + t] = sum of the squares of chunk t."""
    load, T = codec(dtype)[0], numba_type(total)

    @cuda.jit
    def squares_one(x, partial, first):
        t = cuda.grid(1)
        if t * CHUNK < x.size:
            end = min(t * CHUNK + CHUNK, x.size)
            s = T(0)
            for start in range(t * CHUNK, end, RUN):  # runs, so that errors do not grow with every element
                part = T(0)
                for i in range(start, min(start + RUN, end)):
                    part += T(load(x[i])) * T(load(x[i]))
                s += part
            partial[first + t] = s

    return squares_one


@functools.cache
def squares(dtype, total, width):
    """addresses: (arrays,) int64; table: (blocks, 3) int64: array, first element, end; x0: any of the arrays, for its type;
    partial: (...,) total; first: int64. Block b: partial[first + b] = sum of the squares of its chunk."""
    T = numba_type(total)
    read, read_one, together = reader(dtype, width), reader(dtype, 1), group_sum(THREADS, T)
    C = codec(dtype)[2]

    @cuda.jit
    def squares(addresses, table, x0, partial, first):
        x = array_at(x0, addresses[table[cuda.blockIdx.x, 0]])
        start, end = table[cuda.blockIdx.x, 1], table[cuda.blockIdx.x, 2]
        v = cuda.local.array(width, C)
        s = T(0)
        whole = end - (end - start) % width
        for i in range(start + cuda.threadIdx.x * width, whole, THREADS * width):
            read(x, i, v, 0)
            for e in range(width):
                s += T(v[e]) * T(v[e])
        i = whole + cuda.threadIdx.x
        if i < end:
            read_one(x, i, v, 0)
            s += T(v[0]) * T(v[0])
        s = together(s)
        if cuda.threadIdx.x == 0:
            partial[first + cuda.blockIdx.x] = s

    return squares


@functools.cache
def norm_of_one(total):
    """partial: (n,), norm: (1,), factor: (1,) total. One thread."""
    T = numba_type(total)
    one, small = T(1), T(1e-6)

    @cuda.jit
    def norm_of_one(partial, norm, factor, most):
        s = T(0)
        for i in range(partial.size):
            s += partial[i]
        n = math.sqrt(s)
        norm[0] = n
        f = most / (n + small)
        factor[0] = one if f > one else f  # NaN stays

    return norm_of_one


@functools.cache
def norm_of(total):
    """As norm_of_one, one block."""
    T = numba_type(total)
    one, small = T(1), T(1e-6)
    together = group_sum(NORM_THREADS, T)

    @cuda.jit
    def norm_of(partial, norm, factor, most):
        s = T(0)
        for i in range(cuda.threadIdx.x, partial.size, NORM_THREADS):
            s += partial[i]
        s = together(s)
        if cuda.threadIdx.x == 0:
            n = math.sqrt(s)
            norm[0] = n
            f = most / (n + small)
            factor[0] = one if f > one else f

    return norm_of


@functools.cache
def scaled_one(dtype, total):
    """x: (n,), y: (n,) dtype; factor: (1,) total. A thread an element."""
    load, store, T = codec(dtype)

    @cuda.jit
    def scaled_one(x, y, factor):
        i = cuda.grid(1)
        if i < x.size:
            y[i] = store(load(x[i]) * T(factor[0]))

    return scaled_one


@functools.cache
def scaled(dtype, total, width):
    """addresses, table, x0: as for squares, the table with a fourth column: where in y the array begins; y: (m,) dtype."""
    T = codec(dtype)[2]
    read, write = reader(dtype, width), writer(dtype, width)
    read_one, write_one = reader(dtype, 1), writer(dtype, 1)

    @cuda.jit
    def scaled(addresses, table, x0, y, factor):
        x = array_at(x0, addresses[table[cuda.blockIdx.x, 0]])
        start, end, begin = table[cuda.blockIdx.x, 1], table[cuda.blockIdx.x, 2], table[cuda.blockIdx.x, 3]
        f = T(factor[0])
        v = cuda.local.array(width, T)
        whole = end - (end - start) % width
        for i in range(start + cuda.threadIdx.x * width, whole, THREADS * width):
            read(x, i, v, 0)
            for e in range(width):
                v[e] *= f
            write(y, begin + i, v, 0)
        i = whole + cuda.threadIdx.x
        if i < end:
            read_one(x, i, v, 0)
            v[0] *= f
            write_one(y, begin + i, v, 0)

    return scaled


def places(layouts):
    """[(dtype, members, where each begins in the array of their results, its length)], for the card and the planner."""
    groups: dict = {}
    for i, layout in enumerate(layouts):
        groups.setdefault(layout.dtype, []).append(i)
    found = []
    for dtype, members in groups.items():
        begins, end = [], 0
        for i in members:
            begins.append(end)
            end += blocks(layouts[i].size, BORDER) * BORDER
        found.append((dtype, members, begins, end))
    return found


def clip(*layouts, version="many"):
    """Planner: gradients (contiguous) -> the norm (), and one array (length,) for each dtype, see `places`.
    Scalar: the largest norm."""
    double = any(layout.dtype == np.float64 for layout in layouts)
    total = np.dtype(np.float64 if double else np.float32)
    norm, factor = layouts[0].like((), total), layouts[0].like((1,), total)
    groups = places(layouts)
    results = [layouts[0].like((end,), dtype) for dtype, _, _, end in groups]
    first, sums, scales = 0, [], []
    for g, (dtype, members, begins, _) in enumerate(groups):
        y = Output(1 + g).flat
        if version == "one":
            for i, begin in zip(members, begins, strict=True):
                count, size = blocks(layouts[i].size, CHUNK), layouts[i].size
                sums.append(Launch(squares_one(dtype, total), blocks(count, THREADS), THREADS, [Input(i).flat, Temp(0), first]))
                part = Output(1 + g).view((size,), dtype=dtype, offset=begin * dtype.itemsize)
                scales.append(Launch(scaled_one(dtype, total), blocks(size, THREADS), THREADS, [Input(i).flat, part, Temp(1)]))
                first += count
            continue
        for wide in (True, False):
            chosen = [k for k, i in enumerate(members) if layouts[i].aligned == wide and layouts[i].size]
            if not chosen:
                continue
            table = chunks([layouts[members[k]].size for k in chosen])
            begin = np.array([begins[k] for k in chosen], np.int64)[table[:, 0]]
            width = 16 // compute_dtype(dtype).itemsize if wide else 1
            addresses, x0 = Addresses(*[members[k] for k in chosen]), Input(members[chosen[0]]).flat
            sums.append(Launch(squares(dtype, total, width), len(table), THREADS,
                               [addresses, Constant(table), x0, Temp(0), first]))
            scales.append(Launch(scaled(dtype, total, width), len(table), THREADS,
                                 [addresses, Constant(np.column_stack([table, begin])), x0, y, Temp(1)]))
            first += len(table)
    most = Scalar(0, total)
    together = (Launch(norm_of_one(total), 1, 1, [Temp(0), Output(0), Temp(1), most]) if version == "one" else
                Launch(norm_of(total), 1, NORM_THREADS, [Temp(0), Output(0), Temp(1), most]))
    return Plan([norm, *results], [*sums, together, *scales], [layouts[0].like((first,), total), factor])
