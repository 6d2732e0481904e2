"""Triangular systems with sparse matrices: x = A^-1 b.

The idea. A row can be solved as soon as the rows of its elements are. Nobody analyses which rows
these are: every row has a warp, which waits for each element's row by looking at its flag in
memory, adds the products, and raises its own flag (Liu et al. 2016). Blocks take their rows from a
counter, so that whoever waits, waits for rows of blocks that run already or are done.

    waiting     As above, a row a warp; the sum of a row has a fixed order.
    plain       One thread per column of b, row after row; any GPU, the simulator, complex numbers.

Floor: the longest chain of rows that depend on each other, each of which waits for a word that
crosses the L2 cache.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Flag, Input, Output, Temp, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ...runtime import kernel_errors
from ..compiler.decorators import FULL, WARP
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..compiler.storage_types import numba_type
from ..lib.integers import blocks
from ..lib.versions import Version, choose
from .problem import TriangularProblem

if not SIMULATOR:
    from ..ptx.lookback import load_relaxed, store_relaxed

kernel_errors.failures["spsolve_triangular"] = "A has a zero on its diagonal"
THREADS = 128
ROWS = THREADS // WARP  # of a block


@functools.cache
def plain_triangular(dtype: np.dtype, lower: bool, unit: bool) -> Any:
    """One thread per column; a zero on the diagonal raises the flag."""
    T = numba_type(dtype)

    @cuda.jit
    def plain_triangular(data, indices, indptr, b, x, flag, ticket):
        """data, indices: (nnz,); indptr: (n + 1,); b, x: (n, k)."""
        column = cuda.grid(1)
        n = x.shape[0]
        if column < x.shape[1]:
            for step in range(n):
                row = step if lower else n - 1 - step
                total = b[row, column]
                pivot = T(1) if unit else T(0)
                for e in range(indptr[row], indptr[row + 1]):
                    other = indices[e]
                    if other == row:
                        pivot = pivot if unit else T(pivot + data[e])
                    elif (other < row) == lower:
                        total = T(total - data[e] * x[other, column])
                if pivot == T(0):
                    flag[0] = -ticket
                x[row, column] = total if unit else T(total / pivot)

    return plain_triangular


@cuda.jit
def clear_flags(flags):
    """flags: (n + 1,): zeros."""
    i = cuda.grid(1)
    if i < flags.size:
        flags[i] = 0


@functools.cache
def waiting_triangular(dtype: np.dtype, lower: bool, unit: bool) -> Any:
    """One warp per row."""
    T = numba_type(dtype)

    @cuda.jit
    def waiting_triangular(data, indices, indptr, b, x, flags, flag, ticket):
        """data, indices: (nnz,); indptr: (n + 1,); b, x: (n, k); flags: (n + 1,) uint32, zeros: a
        row's is 1 where it is solved; the last one counts blocks."""
        turn = cuda.shared.array(1, types.uint32)
        n = x.shape[0]
        if cuda.threadIdx.x == 0:
            turn[0] = cuda.atomic.add(flags, n, types.uint32(1))
        cuda.syncthreads()
        step = types.int64(turn[0]) * ROWS + cuda.threadIdx.x // WARP
        lane = cuda.threadIdx.x % WARP
        if step < n:
            row = step if lower else n - 1 - step
            begin, end = indptr[row], indptr[row + 1]
            pivot = T(1) if unit else T(0)
            for e in range(begin + lane, end, WARP):
                other = indices[e]
                if other == row:
                    pivot = pivot if unit else T(pivot + data[e])
                elif (other < row) == lower:
                    while load_relaxed(flags, types.int64(other)) == 0:
                        pass
            cuda.threadfence()  # what was written before the flags is seen from here on
            cuda.syncwarp(FULL)
            if not unit:
                for distance in (16, 8, 4, 2, 1):
                    pivot = T(pivot + cuda.shfl_xor_sync(FULL, pivot, distance))
                if lane == 0 and pivot == T(0):
                    flag[0] = -ticket
            for column in range(x.shape[1]):
                total = T(0)
                for e in range(begin + lane, end, WARP):
                    other = indices[e]
                    if other != row and (other < row) == lower:
                        total = T(total + data[e] * x[other, column])
                for distance in (16, 8, 4, 2, 1):
                    total = T(total + cuda.shfl_xor_sync(FULL, total, distance))
                if lane == 0:
                    rest = T(b[row, column] - total)
                    x[row, column] = rest if unit else T(rest / pivot)
            if lane == 0:
                cuda.threadfence()
                store_relaxed(flags, types.int64(row), types.uint32(1))

    return waiting_triangular


# -------------------- plans


def by_columns(p: TriangularProblem) -> Plan:
    """Version "plain"."""
    launch = Launch(
        plain_triangular(p.b.dtype, p.lower, p.unit),
        blocks(p.b.shape[1], WARP),
        WARP,
        [Input(0), Input(1), Input(2), Input(3), Output(0), Flag(), Ticket()],
    )
    return Plan([p.b.like()], [launch])


def by_rows(p: TriangularProblem) -> Plan:
    """Version "waiting"."""
    n = p.b.shape[0]
    flags = p.b.like((n + 1,), np.dtype(np.uint32))
    clear = Launch(clear_flags, blocks(n + 1, THREADS), THREADS, [Temp(0)])
    launch = Launch(
        waiting_triangular(p.b.dtype, p.lower, p.unit),
        blocks(n, ROWS),
        THREADS,
        [Input(0), Input(1), Input(2), Input(3), Output(0), Temp(0), Flag(), Ticket()],
    )
    return Plan([p.b.like()], [clear, launch], [flags])


def waits(p: TriangularProblem) -> bool:
    """Shuffles move real numbers; in the simulator a block would wait for ever."""
    return not SIMULATOR and p.b.dtype.kind == "f"


VERSIONS = (
    Version("waiting", "sparse.triangular.by_rows", waits, reason="rows wait for each other"),
    Version("plain", "sparse.triangular.by_columns", reason="columns are independent"),
)


def solve(
    data: Layout,
    indices: Layout,
    indptr: Layout,
    b: Layout,
    *,
    lower: bool,
    unit: bool,
    version: str | None = None,
) -> Plan:
    """data, indices: (nnz,), indptr: (n + 1,), b: (n, k) -> (n, k)."""
    p = TriangularProblem(b, lower, unit)
    if not b.size:
        return Plan([b.like()], [])
    return choose("spsolve_triangular", VERSIONS, p, version)
