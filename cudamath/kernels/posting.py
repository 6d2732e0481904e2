"""Numbers and little arrays for the host, written by a kernel into page-locked host memory where the host waits for them.

The idea. A copy by the driver takes it some 8 us before the call returns, however little is copied. A kernel can write into
mapped host memory itself, over the bus, and a thread of the host that looks at the memory sees it at once: what is left is a
launch and the way of the bytes. So that the host knows that what it sees is what it waits for, each request has a ticket,
another one than the last that used the same memory, and the kernel writes the ticket with the bytes:

``post_number``   one number, in pieces of at most 32 bits, each beside the ticket in one 64-bit word, which is written whole:
                  whoever sees the ticket sees the piece, and no fence is needed.
``post_block``    a block writes 4 KiB, waits until all of it has arrived (a fence for the whole system), then its own ticket.

The floor is a launch and the way over the bus; what the driver's copy takes beyond that is saved.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..core.layout import Layout
from ..core.plan import Input, Launch, Plan, Scalar
from ..core.posted import CHUNK, HEAD
from .build import blocks
from .lazy import cuda, dtype_of, types

THREADS = 256


@functools.cache
def post_number_kernel(T: Any) -> Any:
    """A thread writes a piece of the number and the ticket in one word."""

    @cuda.jit
    def post_number(x, words, ticket):
        """x: (n,) T, unsigned of at most 32 bits; words: (n,) int64 in host memory; ticket: int64, of 31 bits. One block."""
        i = cuda.threadIdx.x
        if i < x.size:
            words[i] = (ticket << types.int64(32)) | types.int64(x[i])

    return post_number


@functools.cache
def post_block_kernel(T: Any) -> Any:
    """A block copies its part, and writes its ticket when all of that is in host memory."""
    share = CHUNK // dtype_of(T).itemsize

    @cuda.jit
    def post_block(x, out, tickets, ticket):
        """x: (n,) T; out: (n,) T and tickets: (blocks,) int64, both in host memory; ticket: int64."""
        first = cuda.blockIdx.x * share
        for i in range(first + cuda.threadIdx.x, min(first + share, x.size), THREADS):
            out[i] = x[i]
        cuda.threadfence_system()
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            tickets[cuda.blockIdx.x] = ticket

    return post_block


def _pieces(nbytes: int, widest: int) -> tuple[Any, int]:
    """(type, count) of unsigned integers that make up elements of so many bytes."""
    size = min(nbytes, widest)
    return {1: types.uint8, 2: types.uint16, 4: types.uint32, 8: types.uint64}[size], nbytes // size


def number(x: Layout, words: Layout) -> Plan:
    """Planner: x of one element, words: (pieces,) int64 in host memory; one run-time scalar, the ticket."""
    T, count = _pieces(x.itemsize, 4)
    return Plan([], [Launch(post_number_kernel(T), 1, 32, [Input(0).view((count,), dtype=dtype_of(T)), Input(1),
                                                           Scalar(0, np.dtype(np.int64))])])


def array(x: Layout, room: Layout) -> Plan:
    """Planner: x contiguous; room: bytes in host memory, HEAD for tickets and then x's; one run-time scalar, the ticket."""
    T, pieces = _pieces(x.itemsize, 8 if x.dtype.kind != "c" else x.itemsize // 2)
    count, parts = blocks(x.nbytes, CHUNK), (x.size * pieces,)
    return Plan([], [Launch(post_block_kernel(T), count, THREADS, [
        Input(0).view(parts, dtype=dtype_of(T)), Input(1).view(parts, dtype=dtype_of(T), offset=HEAD),
        Input(1).view((count,), dtype=np.int64), Scalar(0, np.dtype(np.int64))])])
