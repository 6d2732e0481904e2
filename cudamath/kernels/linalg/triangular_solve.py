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

from ...core import shapes
from ...core.dispatch.arguments import Flag, Input, Output, Temp, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..copy.strided import copy_part, whole
from ..lib.integers import blocks

COLUMNS = 16  # of a right-hand side, in a block
ROWS = 16  # threads that share a column
THREADS = COLUMNS * ROWS
LARGEST = {
    8: 64,
    4: 64,
    16: 32,
}  # unknowns, by an element's bytes: the matrix lies in shared memory
FEW = 8  # systems; of more than these a library's batched routine


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


def cube(argument: Any, layout: Layout, turned: bool = False) -> Any:
    """An argument as (matrices, rows, columns), or, `turned`, its transpose; None if its leading
    axes do not merge into one."""
    lead, steps = shapes.collapse(layout.shape[:-2], layout.strides[:-2])
    if len(lead) > 1:
        return None
    order = -1 if turned else 1
    return argument.view(
        (*(lead or (1,)), *layout.shape[-2:][::order]),
        (*(steps if lead else (0,)), *layout.strides[-2:][::order]),
    )


def input_cube(a: Layout, turned: bool = False) -> tuple[Any, list[Launch], list[Layout]]:
    """(the first input as `cube` has it; steps that copy it first, where its leading axes do not
    merge; their scratch)."""
    given = cube(Input(0), a, turned)
    if given is not None:
        return given, [], []
    dense = a.like()
    return (
        cube(Temp(0), dense, turned),
        copy_part(whole(Input(0), a), whole(Temp(0), dense)),
        [dense],
    )


def _fits(a: Layout, b: Layout, given: tuple) -> int:
    """How many small systems these are; 0 if they are too large, too many or do not lie one after
    the other."""
    systems = b.size // (b.shape[-1] * b.shape[-2])
    return 0 if a.shape[-1] > LARGEST[a.itemsize] or systems > FEW or None in given else systems


def solved(a: Layout, b: Layout, x: Layout, *, lower: bool, unit: bool) -> Plan | None:
    """The plan of small systems, few of them; x: the result's layout."""
    given = cube(Input(0), a), cube(Input(1), b)
    systems = _fits(a, b, given)
    if not systems:
        return None
    kernel = solve_small(a.dtype, lower, unit)
    return Plan(
        [x],
        [
            Launch(
                kernel,
                (blocks(b.shape[-1], COLUMNS), systems),
                THREADS,
                [*given, cube(Output(0), x), Flag(), Ticket()],
            )
        ],
    )


def solved_factored(packed: Layout, b: Layout, pivots: Layout, x: Layout) -> Plan | None:
    """The same from LU factors and exchanges, (..., n) in C order."""
    given = cube(Input(0), packed), cube(Input(1), b)
    systems = _fits(packed, b, given)
    if not systems:
        return None
    grid = blocks(b.shape[-1], COLUMNS), systems
    return Plan(
        [x],
        [
            Launch(
                solve_factored(packed.dtype),
                grid,
                THREADS,
                [
                    *given,
                    Input(2).view((systems, packed.shape[-1])),
                    cube(Output(0), x),
                    Flag(),
                    Ticket(),
                ],
            )
        ],
    )
