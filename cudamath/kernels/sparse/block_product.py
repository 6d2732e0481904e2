"""A matrix in BSR format (dense blocks, compressed by rows of blocks) times a dense one.

The idea. Each thread has an element of the result and walks over the blocks of its row, whose
indices and elements the threads of a row read together; neighbouring threads have neighbouring
columns of b. For any GPU and the simulator.

Floor: the blocks once, the result once, and of b a row per column of a block.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.lazy_numba import cuda
from ..lib.codec import codec
from ..lib.integers import blocks

THREADS = 128


@functools.cache
def block_product(dtype: np.dtype) -> Any:
    """One thread per element of the result."""
    load, store, T = codec(dtype)

    @cuda.jit
    def block_product(data, indices, indptr, b, out):
        """data: (blocks, height, width); indices: (blocks,); indptr: (rows of blocks + 1,); b: (n,
        k); out: (rows, k)."""
        i = cuda.grid(1)
        if i < out.size:
            row = i // out.shape[1]
            column = i - row * out.shape[1]
            band = row // data.shape[1]
            inner = row - band * data.shape[1]
            total = T(0)
            for e in range(indptr[band], indptr[band + 1]):
                first = indices[e] * data.shape[2]
                for j in range(data.shape[2]):
                    total = T(total + T(load(data[e, inner, j]) * load(b[first + j, column])))
            out[row, column] = store(total)

    return block_product


def bsr_product(data: Layout, indices: Layout, indptr: Layout, b: Layout) -> Plan:
    """data: (blocks, height, width), indices: (blocks,), indptr: (bands + 1,), b: (n, k) ->
    (bands * height, k)."""
    out = b.like(((indptr.size - 1) * data.shape[1], b.shape[1]))
    if not out.size:
        return Plan([out], [])
    launch = Launch(
        block_product(b.dtype),
        blocks(out.size, THREADS),
        THREADS,
        [Input(0), Input(1), Input(2), Input(3), Output(0)],
    )
    return Plan([out], [launch])
