"""Dropout: y = x * scale where a random word says keep, else 0. The mask is computed, never stored.

The idea. Element i is kept when word i % 4 of Philox block first + i // 4 reaches a threshold (p
times 2^32). The gradient needs the same mask for the gradient of y: it runs this very kernel on it,
with the same counter, and the same words come out. A stored mask would cost one byte per element of
memory and of traffic, both ways.

Versions: `each`, one thread per element (any GPU, the simulator); `vectors`, a few runs of 16 bytes
per thread, all of them loaded before the first Philox round, so that memory and arithmetic overlap.

The floor is one read and one write of x: 8 bytes per element for float32, 4 for the 16-bit types.
Philox adds about 12 instructions per element; at two bytes each way that is as long as the memory
takes.

Measured (row versions_dropout):
dropout of 2^27, float32; NVIDIA H200, commit 52457ee46004, 2026-11-23

                  GB/s     of a copy
    each         1,463          0.35
    vectors      4,159          0.98

(end of what was measured)
"""

import functools

import numpy as np

from ...core.dispatch.arguments import Input, Output, Scalar
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import compute_dtype
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.philox import beginning, counter, philox
from .distributions import run_width

if not SIMULATOR:
    from ..lib.vector_io import reader, writer

THREADS = 256
RUNS = {
    2: 4
    # by bytes of an element: the fewer these are, the more of them share what a thread does once;
    # else 2
}
LANES = 4  # elements a Philox block decides


@functools.cache
def each(dtype, from_cell):
    """x, y: (n,) dtype; key, stream, first, threshold: uint64 (from_cell: key is a generator's
    cell, see lib/philox.py); scale: compute type. One thread per element.
    """
    load, store, T = codec(dtype)
    begin = beginning(from_cell)

    @cuda.jit
    def each(x, y, key, stream, first, threshold, scale):
        i = cuda.grid(1)
        if i < x.size:
            k, s, start = begin(key, stream, first)
            w0, w1, w2, w3 = philox(start + types.uint64(i // LANES), s, k)
            lane = i % LANES
            w = (w0 if lane == 0 else w1) if lane < 2 else (w2 if lane == 2 else w3)
            y[i] = store(load(x[i]) * scale if types.uint64(w) >= threshold else T(0))

    return each


@functools.cache
def vectors(dtype, read_width, from_cell):
    """Arguments of `each`; y 16-byte aligned, and x too if read_width > 1.

    Only the last threads may reach beyond the end, and go by another way, number by number. All
    others are free of branches: so their loads are under way together, and wait for nothing but the
    words to be done.
    """
    load, store, T = codec(dtype)
    width, runs = run_width(dtype), runs_of(dtype)
    G = max(LANES, width)  # elements per run
    size, stride = runs * G, THREADS * G
    begin = beginning(from_cell)
    read, write = reader(dtype, read_width), writer(dtype, width)

    @cuda.jit
    def vectors(x, y, key, stream, first, threshold, scale):
        v = cuda.local.array(size, T)
        k, s, start = begin(key, stream, first)
        place = cuda.blockIdx.x * (runs * THREADS) + cuda.threadIdx.x  # of the thread's first run
        at = place * G
        start += types.uint64(place) * types.uint64(G // LANES)
        most = types.uint32(
            threshold - types.uint64(1)
        )  # the greatest word that drops: so 2^32 fits into 32 bits, too
        if at + (runs - 1) * stride + G <= x.size:
            for run in range(runs):
                for e in range(0, G, read_width):
                    read(x, at + run * stride + e, v, run * G + e)
            for run in range(runs):
                for e in range(0, G, LANES):
                    w0, w1, w2, w3 = philox(start + types.uint64((run * stride + e) // LANES), s, k)
                    j = run * G + e
                    v[j] = v[j] * scale if w0 > most else T(0)
                    v[j + 1] = v[j + 1] * scale if w1 > most else T(0)
                    v[j + 2] = v[j + 2] * scale if w2 > most else T(0)
                    v[j + 3] = v[j + 3] * scale if w3 > most else T(0)
                for e in range(0, G, width):
                    write(y, at + run * stride + e, v, run * G + e)
        else:
            for group in range(runs * G // LANES):
                ahead = group // (G // LANES) * stride + group % (G // LANES) * LANES
                words = philox(start + types.uint64(ahead // LANES), s, k)
                for j in range(LANES):
                    i = at + ahead + j
                    if i < x.size:
                        y[i] = store(
                            load(x[i]) * scale if types.uint64(words[j]) >= threshold else T(0)
                        )

    return vectors


def runs_of(dtype):
    """Runs of a thread."""
    return RUNS.get(dtype.itemsize, 2)


def dropout(x, *cell, version="vectors"):
    """Planner: x contiguous -> y like x. Scalars: key, stream, first block, threshold, scale."""
    y = x.like()
    from_cell = bool(cell)
    arguments = [
        Input(0).flat,
        Output(0).flat,
        *counter(from_cell, 1),
        Scalar(3, np.uint64),
        Scalar(4, compute_dtype(x.dtype)),
    ]
    if version == "each":
        return Plan(
            [y], [Launch(each(x.dtype, from_cell), blocks(x.size, THREADS), THREADS, arguments)]
        )
    width = run_width(x.dtype)
    per_block = THREADS * runs_of(x.dtype) * max(LANES, width)
    kernel = vectors(x.dtype, width if x.aligned else 1, from_cell)
    return Plan([y], [Launch(kernel, blocks(x.size, per_block), THREADS, arguments)])
