"""Small triangular systems, and those whose LU factors are known: a block solves one for a few
columns of the right-hand side.

The idea. The matrix and the columns lie in shared memory. Row after row the solution of this row is
found, for all columns at once, and taken out of all rows that come later: n barriers, and between
two of them each thread has at most n / ROWS updates of its column. A library takes three launches
for that (the check of the diagonal, the copy of the right-hand side, the solution); of small
systems launches are all that counts. With LU factors the columns' rows are loaded in the order of
the exchanges, and both triangles follow one another. For any GPU and the simulator.
"""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Flag, Input, Output, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..lib.integers import blocks
from .plan_builder import LARGEST, cube
from .problem import FactoredProblem, TriangularProblem

COLUMNS = 16  # of a right-hand side, in a block
ROWS = 16  # threads that share a column
THREADS = COLUMNS * ROWS


@functools.cache
def _sweep(lower: bool, unit: bool) -> Any:
    """Device function: the columns in `found` become those of a^-1 found, for one triangle of a.
    All threads of a block."""

    @device_function
    def sweep(matrix, found, n, column, first):
        for step in range(n):
            i = step if lower else n - 1 - step
            if i % ROWS == first and not unit:  # who has row i has all updates of it made
                found[i, column] = found[i, column] / matrix[i, i]
            cuda.syncthreads()
            value = found[i, column]
            if lower:
                j = i + 1 + (first - i - 1) % ROWS
                while j < n:
                    found[j, column] -= matrix[j, i] * value
                    j += ROWS
            else:
                j = first
                while j < i:
                    found[j, column] -= matrix[j, i] * value
                    j += ROWS

    return sweep


@functools.cache
def solve_small(dtype: np.dtype, lower: bool, unit: bool) -> Any:
    """x = a^-1 b for triangular a, of which one triangle is read; a zero on its diagonal raises the
    flag."""
    T, largest, sweep = numba_type(dtype), LARGEST[dtype.itemsize], _sweep(lower, unit)

    @cuda.jit
    def solve_small(
        a, b, x, flag, ticket
    ):  # a: (systems, n, n); b, x: (systems, n, k); any strides
        matrix = cuda.shared.array((largest, largest), T)
        found = cuda.shared.array((largest, COLUMNS), T)
        n, t = a.shape[1], cuda.threadIdx.x
        column, first = t % COLUMNS, t // COLUMNS
        system, k = cuda.blockIdx.y, cuda.blockIdx.x * COLUMNS + column
        inside = k < b.shape[2]
        for e in range(t, n * n, THREADS):
            i, j = e // n, e % n
            if (j < i if lower else j > i) or (j == i and not unit):
                value = a[system, i, j]
                matrix[i, j] = value
                if j == i and value == T(0):
                    flag[0] = -ticket
        for i in range(first, n, ROWS):
            found[i, column] = b[system, i, k] if inside else T(0)
        cuda.syncthreads()
        sweep(matrix, found, n, column, first)
        for i in range(first, n, ROWS):
            if inside:
                x[system, i, k] = found[i, column]

    return solve_small


@functools.cache
def solve_factored(dtype: np.dtype) -> Any:
    """x = U^-1 L^-1 P b from packed factors and the exchanges of rows. A zero on U's diagonal
    raises the flag, and so does, as another error, an exchange with what is no row."""
    T, largest = numba_type(dtype), LARGEST[dtype.itemsize]
    forward, backward = _sweep(True, True), _sweep(False, False)

    @cuda.jit
    def solve_factored(packed, b, pivots, x, flag, ticket):
        """packed: (systems, n, n); b, x: (systems, n, k); pivots: (systems, n) integers, 0-based;
        any strides."""
        matrix = cuda.shared.array((largest, largest), T)
        found = cuda.shared.array((largest, COLUMNS), T)
        exchanges = cuda.shared.array(largest, types.int64)
        order = cuda.shared.array(largest, types.int64)
        n, t = packed.shape[1], cuda.threadIdx.x
        column, first = t % COLUMNS, t // COLUMNS
        system, k = cuda.blockIdx.y, cuda.blockIdx.x * COLUMNS + column
        inside = k < b.shape[2]
        for e in range(t, n * n, THREADS):
            i, j = e // n, e % n
            value = packed[system, i, j]
            matrix[i, j] = value
            if j == i and value == T(0):
                flag[0] = -ticket
        if t < n:
            other = types.int64(pivots[system, t])
            if other < 0 or other >= n:
                flag[0] = ticket
                other = types.int64(t)
            exchanges[t] = other
        cuda.syncthreads()
        if t < n:  # row t of P b is row t of b, taken back through the exchanges
            row = types.int64(t)
            for back in range(n):
                j = n - 1 - back
                other = exchanges[j]
                if row == j:
                    row = other
                elif row == other:
                    row = types.int64(j)
            order[t] = row
        cuda.syncthreads()
        for i in range(first, n, ROWS):
            found[i, column] = b[system, order[i], k] if inside else T(0)
        cuda.syncthreads()
        forward(matrix, found, n, column, first)
        cuda.syncthreads()
        backward(matrix, found, n, column, first)
        for i in range(first, n, ROWS):
            if inside:
                x[system, i, k] = found[i, column]

    return solve_factored


# -------------------- plans


def solve_triangular(p: TriangularProblem) -> Plan:
    """Version "shared_memory" of a triangular solution."""
    launch = Launch(
        solve_small(p.a.dtype, p.lower, p.unit),
        (blocks(p.b.shape[-1], COLUMNS), p.systems),
        THREADS,
        [cube(Input(0), p.a), cube(Input(1), p.b), cube(Output(0), p.x), Flag(), Ticket()],
    )
    return Plan([p.x], [launch])


def lu_solve(p: FactoredProblem) -> Plan:
    """Version "shared_memory" of a solution from LU factors."""
    launch = Launch(
        solve_factored(p.a.dtype),
        (blocks(p.b.shape[-1], COLUMNS), p.systems),
        THREADS,
        [
            cube(Input(0), p.a),
            cube(Input(1), p.b),
            Input(2).view((p.systems, p.a.shape[-1])),
            cube(Output(0), p.x),
            Flag(),
            Ticket(),
        ],
    )
    return Plan([p.x], [launch])
