"""Bernoulli numbers of chances by element: out = word < rint(p 2^32). One launch, whatever dtype
the chances are.

The idea. Element i is decided by word i % 4 of Philox block first + i // 4, as in distributions.py
for one chance of all elements. The threshold rint(p 2^32) is computed in float32, of float64
chances in float64: exactly, for 2^32 only moves the exponent. So the numbers depend on the chance
alone, not on its dtype.

Versions: `chances_each`, one thread per element (any GPU, the simulator); `chances_vectors`, RUNS
runs of G elements per thread, all of their chances loaded before the first Philox round, so that
memory and arithmetic overlap.

The floor is one read of p and one write of a byte: 5 bytes per element for float32.
"""

import functools

import numpy as np

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.philox import INLINE, beginning, counter, philox
from .distributions import run_width

if not SIMULATOR:
    from ..lib.vector_io import reader, writer

THREADS = 256
LANES = 4  # elements a Philox block decides
G = 8  # elements of a run: two Philox blocks, one store of 8 bools
RUNS = 2
BOOL = np.dtype(np.bool_)


@functools.cache
def below_of(dtype):
    """The device function (word, p) -> word < rint(p 2^32), p being of `dtype`, widened. NaN and p
    < 0: False; p > 1: True."""
    F = types.float64 if dtype == np.float64 else types.float32

    @cuda.jit(device=True, **INLINE)
    def below(word, p):
        chance = F(p)
        chance = chance if chance > F(0) else F(0)
        chance = chance if chance < F(1) else F(1)
        return types.int64(word) < round(
            chance * F(2.0**32)
        )  # the product is exact; round gives an int64, half to even

    return below


@functools.cache
def chances_each(dtype, from_cell):
    """p: (n,) dtype; out: (n,) bool; key, stream, first: uint64 (from_cell: key is a generator's
    cell, see lib/philox.py). One thread per element."""
    load, _, _ = codec(dtype)
    begin, below = beginning(from_cell), below_of(dtype)

    @cuda.jit
    def chances_each(p, out, key, stream, first):
        i = cuda.grid(1)
        if i < out.size:
            k, s, start = begin(key, stream, first)
            w0, w1, w2, w3 = philox(start + types.uint64(i // LANES), s, k)
            lane = i % LANES
            out[i] = below(
                (w0 if lane == 0 else w1) if lane < 2 else (w2 if lane == 2 else w3), load(p[i])
            )

    return chances_each


@functools.cache
def chances_vectors(dtype, width, from_cell):
    """Arguments of `chances_each`; out 8-byte aligned, and p as `width` of its elements. RUNS runs
    a thread, whose chances are all loaded before the first word is computed."""
    load, _, T = codec(dtype)
    _, store, B = codec(BOOL)
    size, stride = RUNS * G, THREADS * G
    begin, below = beginning(from_cell), below_of(dtype)
    read, write = reader(dtype, width), writer(BOOL, G)

    @cuda.jit
    def chances_vectors(p, out, key, stream, first):
        v = cuda.local.array(size, T)
        results = cuda.local.array(G, B)
        k, s, start = begin(key, stream, first)
        at = (types.int64(cuda.blockIdx.x) * (RUNS * THREADS) + cuda.threadIdx.x) * G
        start += types.uint64(at // LANES)
        if at + (RUNS - 1) * stride + G <= out.size:
            for run in range(RUNS):
                for e in range(0, G, width):
                    read(p, at + run * stride + e, v, run * G + e)
            for run in range(RUNS):
                for e in range(0, G, LANES):
                    w0, w1, w2, w3 = philox(start + types.uint64((run * stride + e) // LANES), s, k)
                    j = run * G + e
                    results[e] = B(below(w0, v[j]))
                    results[e + 1] = B(below(w1, v[j + 1]))
                    results[e + 2] = B(below(w2, v[j + 2]))
                    results[e + 3] = B(below(w3, v[j + 3]))
                write(out, at + run * stride, results, 0)
        else:
            for group in range(size // LANES):
                ahead = group // (G // LANES) * stride + group % (G // LANES) * LANES
                words = philox(start + types.uint64(ahead // LANES), s, k)
                for j in range(LANES):
                    i = at + ahead + j
                    if i < out.size:
                        out[i] = store(B(below(words[j], load(p[i]))))

    return chances_vectors


def chances(p, *cell, version="vectors"):
    """Planner: p contiguous, of any real dtype -> bool of its shape. Scalars: key, stream, first
    block."""
    out, from_cell = Layout.new(p.shape, BOOL, p.device), bool(cell)
    arguments = [Input(0).flat, Output(0).flat, *counter(from_cell, 1)]
    if version == "each":
        return Plan(
            [out],
            [
                Launch(
                    chances_each(p.dtype, from_cell), blocks(out.size, THREADS), THREADS, arguments
                )
            ],
        )
    kernel = chances_vectors(p.dtype, run_width(p.dtype) if p.aligned else 1, from_cell)
    return Plan([out], [Launch(kernel, blocks(out.size, THREADS * RUNS * G), THREADS, arguments)])
