"""Small triangular systems, and those whose LU factors are known: a block solves one for a few
columns of the right-hand side.

The idea. A warp has a column, whose rows lie in the registers of its lanes: row i in lane i % 32.
Step after step the solution of one row is told to all lanes, and taken out of all rows that come
later. No step waits for another warp. The matrix comes into shared memory by panels of 32 columns,
which the block's warps have in common; the diagonal is inverted as it comes, so that a step is a
shuffle, a multiplication and an addition. (With a barrier and a division a step took half a
microsecond on an H100: 43 rows 23.7 us, where cuBLAS's three launches took 19.7.) A library
takes three launches (the check of the diagonal, the copy of the right-hand side, the solution); of
small systems launches are all that counts. With LU factors the columns' rows are loaded in the
order of the exchanges, and both triangles follow one another. For any GPU and the simulator.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Flag, Input, Output, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..compiler.decorators import WARP, device_function
from ..compiler.generated import compiled
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..lib.integers import blocks
from ..lib.lanes import lane_shuffle
from .plan_builder import SOLVED_COLUMNS, cube
from .problem import FactoredProblem, TriangularProblem

COLUMNS = SOLVED_COLUMNS  # a warp has one
THREADS = COLUMNS * WARP


def registers(rows: int) -> int:
    """Those that a lane has of a column: a power of two, so that few kernels serve all sizes."""
    return 1 << (blocks(rows, WARP) - 1).bit_length()


@device_function
def shuffle(mask, value, lane):
    """Numba's, which its simulator has in kernels alone."""
    return cuda.shfl_sync(mask, value, lane)


@functools.cache
def _sweep(dtype: np.dtype, count: int, lower: bool, unit: bool) -> Any:
    """Device function: a column in `count` registers of each lane becomes that of a^-1, for one
    triangle of a. All threads of a block; `active`: those of warps that have a column."""
    names = [f"v{r}" for r in range(count)]
    lines = []
    for p in range(count) if lower else reversed(range(count)):
        rest = range(p + 1, count) if lower else range(p)
        rows = f"{WARP * p}, n" if lower else f"0, min(n, {WARP * (p + 1)})"
        lines += [
            f"    if n > {WARP * p}:",
            f"        load(a, panel, inverse, flag, ticket, system, {rows}, {WARP * p}, n)",
            f"        width = min({WARP}, n - {WARP * p}) if active else 0",
            "        for step in range(width):",
            f"            s = {'step' if lower else 'width - 1 - step'}",
            f"            value = pick(v{p}, s){'' if unit else ' * inverse[s]'}",
            f"            later = T(v{p} - panel[s, {WARP * p} + lane] * value)",
            f"            v{p} = later if lane {'>' if lower else '<'} s else v{p}",
            f"            v{p} = value if lane == s else v{p}",
            *[f"            v{r} = T(v{r} - panel[s, {WARP * r} + lane] * value)" for r in rest],
        ]
    source = (
        f"def sweep(a, panel, inverse, flag, ticket, system, n, active, {', '.join(names)}):\n"
        f"    lane = types.int32(cuda.threadIdx.x % {WARP})\n"
        + "".join(f"{line}\n" for line in lines)
        + f"    return ({', '.join(names)},)\n"
    )
    T = numba_type(dtype)
    namespace = {
        **{"T": T, "types": types, "cuda": cuda, "load": _load(dtype, lower, unit)},
        "pick": lane_shuffle(T, shuffle),
    }
    return device_function(compiled(source, "sweep", namespace))


@functools.cache
def _load(dtype: np.dtype, lower: bool, unit: bool) -> Any:
    """Device function: the rows from `first` to `last` of a triangle's panel come into shared
    memory, as panel[column, row], and the reciprocals of its diagonal, unless that is taken as
    ones; a zero there raises the flag."""
    T = numba_type(dtype)

    @device_function
    def load(a, panel, inverse, flag, ticket, system, first, last, column, n):
        lane, warp = types.int32(cuda.threadIdx.x % WARP), types.int32(cuda.threadIdx.x // WARP)
        j = column + lane
        cuda.syncthreads()  # all have done with the panel before
        for i in range(first + warp, last, COLUMNS):
            if j < n and (j < i if lower else j > i):
                panel[lane, i] = a[system, i, j]
            if j == i and not unit:
                value = a[system, i, j]
                inverse[lane] = T(1) / value
                if value == T(0):
                    flag[0] = -ticket
        cuda.syncthreads()

    return load


def _column(count: int, row: str, place: str) -> tuple[str, str, str]:
    """Source: the names of a column's registers, the lines that load it from b's row `row`, and
    those that store it in x."""
    names = ", ".join(f"v{r}" for r in range(count))
    load = "".join(
        f"    i = lane + {WARP * r}\n"
        f"    v{r} = b[system, {row}, {place}] if active and i < n else T(0)\n"
        for r in range(count)
    )
    store = "".join(
        f"    i = lane + {WARP * r}\n"
        f"    if active and i < n:\n"
        f"        x[system, i, {place}] = v{r}\n"
        for r in range(count)
    )
    return names, load, store


def _begin(count: int) -> str:
    """Source: where a thread is, and a block's shared memory."""
    return (
        f"    panel = cuda.shared.array(({WARP}, {WARP * count + 1}), T)\n"
        f"    inverse = cuda.shared.array({WARP}, T)\n"
        f"    lane = types.int32(cuda.threadIdx.x % {WARP})\n"
        f"    k = cuda.blockIdx.x * {COLUMNS} + cuda.threadIdx.x // {WARP}\n"
        "    system = cuda.blockIdx.y\n"
        "    active = k < b.shape[2]\n"
    )


@functools.cache
def solve_small(dtype: np.dtype, count: int, lower: bool, unit: bool) -> Any:
    """x = a^-1 b for triangular a, of which one triangle is read; a zero on its diagonal raises the
    flag. a: (systems, n, n); b, x: (systems, n, k); any strides."""
    names, load, store = _column(count, "i", "k")
    source = (
        "def solve_small(a, b, x, flag, ticket):\n"
        f"{_begin(count)}"
        "    n = types.int32(a.shape[1])\n"
        f"{load}"
        f"    {names}, = sweep(a, panel, inverse, flag, ticket, system, n, active, {names})\n"
        f"{store}"
    )
    namespace = {
        **{"cuda": cuda, "types": types, "T": numba_type(dtype)},
        "sweep": _sweep(dtype, count, lower, unit),
    }
    return cuda.jit(compiled(source, "solve_small", namespace))


@device_function
def order_rows(pivots, system, n, exchanges, order, flag, ticket):
    """Row i of P b is row order[i] of b, for i < n: each is taken back through the exchanges. One
    with what is no row raises the flag. All threads of a block."""
    t = cuda.threadIdx.x
    if t < n:
        other = types.int64(pivots[system, t])
        if other < 0 or other >= n:
            flag[0] = ticket
            other = types.int64(t)
        exchanges[t] = other
    cuda.syncthreads()
    if t < n:
        row = types.int32(t)
        for back in range(n):
            j = n - 1 - back
            other = exchanges[j]
            if row == j:
                row = other
            elif row == other:
                row = j
        order[t] = row
    cuda.syncthreads()


@functools.cache
def solve_factored(dtype: np.dtype, count: int) -> Any:
    """x = U^-1 L^-1 P b from packed factors and the exchanges of rows. A zero on U's diagonal
    raises the flag, and so does, as another error, an exchange with what is no row. packed:
    (systems, n, n); b, x: (systems, n, k); pivots: (systems, n) integers, 0-based; any strides."""
    names, load, store = _column(count, "order[i]", "k")
    source = (
        "def solve_factored(packed, b, pivots, x, flag, ticket):\n"
        f"{_begin(count)}"
        f"    exchanges = cuda.shared.array({WARP * count}, types.int32)\n"
        f"    order = cuda.shared.array({WARP * count}, types.int32)\n"
        "    n = types.int32(packed.shape[1])\n"
        "    order_rows(pivots, system, n, exchanges, order, flag, ticket)\n"
        f"{load}"
        + "".join(
            f"    {names}, = {sweep}(packed, panel, inverse, flag, ticket, system, n, active, "
            f"{names})\n"
            for sweep in ("forward", "backward")
        )
        + store
    )
    namespace = {
        **{"cuda": cuda, "types": types, "T": numba_type(dtype), "order_rows": order_rows},
        "forward": _sweep(dtype, count, True, True),
        "backward": _sweep(dtype, count, False, False),
    }
    return cuda.jit(compiled(source, "solve_factored", namespace))


# -------------------- plans


def grid(p: TriangularProblem | FactoredProblem) -> tuple[int, int]:
    """The blocks of a solution."""
    return blocks(p.b.shape[-1], COLUMNS), p.systems


def solve_triangular(p: TriangularProblem) -> Plan:
    """Version "shared_memory" of a triangular solution."""
    launch = Launch(
        solve_small(p.a.dtype, registers(p.a.shape[-1]), p.lower, p.unit),
        grid(p),
        THREADS,
        [cube(Input(0), p.a), cube(Input(1), p.b), cube(Output(0), p.x), Flag(), Ticket()],
    )
    return Plan([p.x], [launch])


def lu_solve(p: FactoredProblem) -> Plan:
    """Version "shared_memory" of a solution from LU factors."""
    launch = Launch(
        solve_factored(p.a.dtype, registers(p.a.shape[-1])),
        grid(p),
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
