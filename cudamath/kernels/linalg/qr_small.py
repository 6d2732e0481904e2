"""QR of small matrices by Householder's reflections: a block for each, in one launch.

The idea. Step j turns column j into a multiple of the j-th unit vector by a reflection 1 - tau v
v^H, and applies that to the columns behind it. A library does the columns of a panel one after the
other, with launches between that wait for each other; here the matrix lies in shared memory, column
after column, and `lanes` threads have a column: all of them work out the same v from column j
(which costs nothing, since they would have to wait for it), each group takes it out of its own
columns, with two sums by shuffles, and there is one barrier a step. Who has column j leaves v in it
after the barrier, when all have read it.

Q is the product of the reflections. Its columns do not know of each other: a group holds one in
registers, the unit vector at first, and applies the reflections in reverse order, without any
barrier.

LAPACK's conventions (v_j = 1, R's diagonal with the sign opposite to the column's), so that Q and R
have NumPy's signs. The largest element of each column is brought near 1 by a power of two first, so
that squares stay inside the range. What is left of a column that is far below its rounding counts
as 0: its square would have no digits.

The floor is the way of one number through all steps: a sum, a root, two divisions, another sum,
some 600 cycles, or 20 us for 64 columns; on an H200 they take 63 us with Q, and cuSOLVER 214. 1,000
matrices of 16 rows take 18. Versions: `qr_small` with Q, `r_small` without. In the simulator sums
go through shared memory.
"""

import functools
import math
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import real_dtype
from ..compiler.decorators import bounded, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..compiler.storage_types import numba_type
from .plan_builder import cube, input_cube
from .problem import QRProblem
from .svd_jacobi import apart, arithmetic, exponent, over_lanes, room

THREADS = 512
at = (
    int if SIMULATOR else types.uint64
)  # a place in memory: of a number with a sign it is asked whether it counts from the end
DEEP, HELD = 8, 64  # elements of a column that a thread has at most, and bytes
MOST = 256  # columns
SHARE = 2  # columns of each group of threads, if there are threads enough: all of them work out v
LEAST = {
    4: 2.0**-80,
    8: 2.0**-900,
}  # squared lengths of columns that count as 0, by a real number's bytes


@functools.cache
def reflector(dtype: np.dtype, lanes: int, deep: int) -> Any:
    """The device function that makes R and the reflections of a matrix in shared memory."""
    real = real_dtype(dtype)
    T, R, is_complex = numba_type(dtype), numba_type(real), dtype.kind == "c"
    top, (conjugate, squared, largest_part, scaled, _) = (
        float(np.finfo(real).max),
        arithmetic(dtype),
    )
    total, total_real, largest_of = (
        over_lanes(dtype, lanes),
        over_lanes(real, lanes),
        over_lanes(real, lanes, True),
    )
    least = LEAST[real.itemsize]

    @device_function
    def reflection(alpha, square):
        """(beta, tau, what turns the rest of the column into v) of a column that begins with alpha,
        the others' squares adding up to `square`."""
        if is_complex:
            one, other = alpha.real, alpha.imag
        else:
            one, other = alpha, R(0)
        square += other * other
        if square == R(0) or one * one + square < R(least):
            return one, T(0), T(0)
        beta = math.sqrt(one * one + square)
        if one > R(0):
            beta = -beta
        if is_complex:
            return (
                beta,
                T(complex((beta - one) / beta, -other / beta)),
                T(T(1) / complex(one - beta, other)),
            )
        return beta, T((beta - one) / beta), T(R(1) / (one - beta))

    @device_function
    def reflected(a, memory, taus, powers, step):
        """Leaves R above the diagonal, column j times 2^powers[j], and v_j below it. a: (count, m,
        n); column j begins at j * step and has lanes * deep places; taus: (min(m, n),); powers:
        (n,)."""
        b, t = cuda.blockIdx.x, cuda.threadIdx.x
        m, n = a.shape[1], a.shape[2]
        group, lane, groups = t // lanes, t % lanes, cuda.blockDim.x // lanes
        for i in range(group, lanes * deep, groups):
            for j in range(lane, n, lanes):
                memory[j * step + i] = a[b, i, j] if i < m else T(0)
        cuda.syncthreads()
        for first in range(
            0, n, groups
        ):  # all go round as often, here and below: they add together
            column, largest = first + group, R(0)
            place = column * step + lane
            if column < n:
                for e in range(deep):
                    size = largest_part(memory[at(place + e * lanes)])
                    if size > largest and size <= R(
                        top
                    ):  # neither NaN nor infinity: they stay what they are
                        largest = size
            _, power = math.frexp(largest_of(largest))
            if column < n:
                power = exponent(-power)
                for e in range(deep):
                    memory[at(place + e * lanes)] = scaled(memory[at(place + e * lanes)], power)
                if lane == 0:
                    powers[column] = power
        cuda.syncthreads()

        v, held = cuda.local.array(deep, T), cuda.local.array(deep, T)
        first, owner, steps = (
            0,
            0,
            min(m, n),
        )  # column j is `owner`'s: the `first`-th and those behind it are one of each group
        last = (
            (n - 1) // groups * groups + t // 32 * (32 // lanes) + 32 // lanes - 1
        )  # of this warp's columns, or behind it
        for j in range(steps):
            if SIMULATOR or last >= j:  # a warp that is done waits for the others
                square = R(0)
                for e in range(deep):
                    v[e] = memory[at(j * step + lane + e * lanes)]
                for e in range(deep):
                    if lane + e * lanes > j:
                        square += squared(v[e])
                beta, tau, factor = reflection(memory[at(j * step + j)], total_real(square))
                for e in range(deep):
                    i = lane + e * lanes
                    v[e] = v[e] * factor if i > j else T(1) if i == j else T(0)
                start = first
                while start < n:
                    column = start + group
                    inside = j < column and column < n
                    place, along = column * step + lane, T(0)
                    if inside:
                        for e in range(deep):
                            held[e] = memory[at(place + e * lanes)]
                        for e in range(deep):
                            along += conjugate(v[e]) * held[e]
                    along = total(along) * conjugate(tau)
                    if inside:
                        for e in range(deep):
                            memory[at(place + e * lanes)] = held[e] - along * v[e]
                    start += groups
            cuda.syncthreads()
            if owner == group:
                for e in range(deep):
                    i = lane + e * lanes
                    if i >= j:
                        memory[at(j * step + i)] = v[e] if i > j else T(beta)
                if lane == 0:
                    taus[j] = tau
            owner += 1
            if owner == groups:
                owner, first = 0, first + groups
        cuda.syncthreads()

    return reflected


@functools.cache
def r_small(dtype: np.dtype, lanes: int, deep: int) -> Any:
    """R alone."""
    T, reflected = numba_type(dtype), reflector(dtype, lanes, deep)
    scaled = arithmetic(dtype)[3]

    @bounded((THREADS, 1))
    def r_small(a, r, step):  # a: (count, m, n); r: (count, min(m, n), n); step: see `reflected`
        memory, taus = cuda.shared.array(0, T), cuda.shared.array(MOST, T)
        powers = cuda.shared.array(MOST, types.int32)
        reflected(a, memory, taus, powers, step)
        b, k, n = cuda.blockIdx.x, r.shape[1], r.shape[2]
        for e in range(cuda.threadIdx.x, k * n, cuda.blockDim.x):
            i, j = e // n, e % n
            r[b, i, j] = scaled(memory[j * step + i], exponent(-powers[j])) if i <= j else T(0)

    return r_small


@functools.cache
def qr_small(dtype: np.dtype, lanes: int, deep: int) -> Any:
    """A = Q R."""
    T, reflected = numba_type(dtype), reflector(dtype, lanes, deep)
    (conjugate, _, _, scaled, _), total = arithmetic(dtype), over_lanes(dtype, lanes)

    @bounded((THREADS, 1))
    def qr_small(a, q, r, step):
        """a: (count, m, n); q: (count, m, k); r: (count, k, n), k from min(m, n) to m; step: see
        `reflected`."""
        memory, taus = cuda.shared.array(0, T), cuda.shared.array(MOST, T)
        powers = cuda.shared.array(MOST, types.int32)
        reflected(a, memory, taus, powers, step)
        b, t = cuda.blockIdx.x, cuda.threadIdx.x
        m, k, n = q.shape[1], q.shape[2], r.shape[2]
        for e in range(t, k * n, cuda.blockDim.x):
            i, j = e // n, e % n
            r[b, i, j] = scaled(memory[j * step + i], exponent(-powers[j])) if i <= j else T(0)
        group, lane, groups = t // lanes, t % lanes, cuda.blockDim.x // lanes
        cuda.syncthreads()  # R is written: above v_j there shall be 0, at its beginning 1
        steps = min(m, n)
        for j in range(group, steps, groups):
            for e in range(deep):
                i = lane + e * lanes
                if i <= j:
                    memory[at(j * step + i)] = T(1) if i == j else T(0)
        cuda.syncthreads()
        last_group = (
            groups - 1 if SIMULATOR else t // 32 * (32 // lanes) + 32 // lanes - 1
        )  # of this warp
        v, held = cuda.local.array(deep, T), cuda.local.array(deep, T)
        for first in range(0, k, groups):
            column = first + group
            for e in range(deep):
                held[e] = T(1) if lane + e * lanes == column else T(0)
            j = min(
                first + last_group, steps - 1
            )  # reflections behind a column leave its unit vector as it is
            while j >= 0:
                along = T(0)
                for e in range(deep):
                    v[e] = memory[at(j * step + lane + e * lanes)]
                for e in range(deep):
                    along += conjugate(v[e]) * held[e]
                along = total(along) * taus[j]
                for e in range(deep):
                    held[e] -= along * v[e]
                j -= 1
            if column < k:
                for e in range(deep):
                    if lane + e * lanes < m:
                        q[b, lane + e * lanes, column] = held[e]

    return qr_small


# -------------------- plans


def qr(p: QRProblem) -> Plan | None:
    """Version "shared_memory". None where the matrices do not fit."""
    a, outputs = p.a, p.outputs
    m, n = a.shape[-2:]
    most = min(DEEP, HELD // a.itemsize)
    lanes = next((lanes for lanes in (8, 16, 32) if lanes * most >= m), 0)
    if not lanes or n > MOST:
        return None
    deep = next(deep for deep in (1, 2, 4, 8) if deep * lanes >= m)
    step = apart(lanes * deep, lanes, a.itemsize)
    shared = n * step * a.itemsize
    if shared > room(a, shared, MOST * (a.itemsize + 4)):
        return None
    given, steps, temps = input_cube(a)
    columns = -(-max(n, *[y.shape[-1] for y in outputs]) // SHARE)
    threads = min(-(-columns * lanes // 32) * 32, THREADS)
    kernel = (qr_small if len(outputs) == 2 else r_small)(a.dtype, lanes, deep)
    found = [cube(Output(i), y) for i, y in enumerate(outputs)]
    return Plan(
        outputs,
        [*steps, Launch(kernel, a.size // (m * n), threads, [given, *found, step], shared=shared)],
        temps,
    )
