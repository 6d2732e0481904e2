"""Singular values and vectors of small matrices: one block and one launch a matrix (Jacobi's
method, one-sided, of Hestenes).

The idea. A rotation of two columns of A can make them orthogonal to each other. Done to every pair,
over and over, it turns A into W = A V, whose columns are orthogonal: their lengths are the singular
values, the columns divided by them are U, and V is the product of the rotations. A sweep takes
every pair once. Of n columns n / 2 pairs can be turned at the same time, and n - 1 such rounds, in
which the columns meet like players of a tournament, are a sweep; after about log2(n) + 3 of them no
pair has an angle left that rounding would not make. A and V lie in shared memory, a column after
the other; `lanes` threads share a pair, so that a round is a few loads, three sums by shuffles, a
rotation and one barrier.

The error. Each column of A is disturbed in proportion to its own length only, so that small
singular values of graded matrices keep their digits, as they do not where a matrix is first reduced
to two diagonals (Demmel and Veselic 1992). All lengths are taken after a multiplication by a power
of two that keeps squares inside the range.

A column that depends on the others becomes rounding error, which is orthogonalised like any column.
Where that in turn has been reduced to its own rounding error, nothing is left of it: its singular
value is 0, and its vector is made up, as those are that full_matrices adds, of the unit vector that
is farthest from the vectors so far, less its part along them.

The floor is shared memory: a round moves all of A and V in and out, 4 n^3 numbers a sweep of n
columns, 128 bytes a cycle. A library's reduction to two diagonals has some 20 launches per column.
Versions: `svd_small` with vectors, `values_small` without. In the simulator sums go through shared
memory.
"""

import functools
import math
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Flag, Output, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import real_dtype
from ...core.layout import Layout
from ...runtime.device import capability
from ..compiler.decorators import bounded, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..compiler.storage_types import numba_type
from .plan_builder import cube, input_cube
from .problem import SVDProblem

f32 = types.float32
exponent = int if SIMULATOR else types.int32  # what the simulator's ldexp wants
if SIMULATOR:
    reciprocal = device_function(lambda x: f32(1) / x)
    rsqrt = device_function(lambda x: f32(1) / math.sqrt(x))
else:
    from ..ptx.sm80 import reciprocal, rsqrt

FULL = 0xFFFFFFFF
MOST = 128  # columns
THREADS = 512
HELD = 64  # bytes of a column that a thread keeps in registers
SMALL = 2.0**-12  # of angles below, sine, tangent and the angle are the same to float32
SWEEPS = 40  # random matrices take 5 to 14
# rows of a matrix to which full_matrices adds columns: they are made up one after the other
ADDED = 128
# Bytes of shared memory that a block can have: by compute capability, on all others, and without
# asking.
ROOM = {(7, 5): 64 << 10, (8, 0): 163 << 10, (9, 0): 227 << 10, (10, 0): 227 << 10}
OTHERS, ALWAYS = 99 << 10, 48 << 10
KEPT = 3 << 10  # of them for what is kept of each column
# By a real number's bytes: the exponent to which the largest is brought, and the squared length
# below which a column is 0.
SCALE = {4: (40, 2.0**-100), 8: (300, 2.0**-900)}


@functools.cache
def arithmetic(dtype: np.dtype) -> Any:
    """What real and complex numbers do differently: (conjugate, square of the absolute value,
    largest part, times 2^power, divided by a real number)."""
    T, R = numba_type(dtype), numba_type(real_dtype(dtype))
    if dtype.kind != "c":
        return (
            device_function(lambda v: v),
            device_function(lambda v: v * v),
            device_function(lambda v: abs(v)),
            device_function(lambda v, power: T(math.ldexp(v, power))),
            device_function(lambda v, by: v / by),
        )

    @device_function
    def largest(v):  # NaN if one of them is
        one, other = abs(v.real), abs(v.imag)
        return one if one > other or one != one else other

    return (
        device_function(lambda v: v.conjugate()),
        device_function(lambda v: R(v.real * v.real + v.imag * v.imag)),
        largest,
        device_function(
            lambda v, power: T(complex(R(math.ldexp(v.real, power)), R(math.ldexp(v.imag, power))))
        ),
        device_function(lambda v, by: T(complex(v.real / by, v.imag / by))),
    )


@functools.cache
def over_lanes(dtype: np.dtype, lanes: int, largest: bool = False) -> Any:
    """The device function that adds a number of each of `lanes` neighbouring threads, or finds the
    largest. All threads of a block call it."""
    T, R, steps = numba_type(dtype), numba_type(real_dtype(dtype)), lanes.bit_length() - 1
    both = device_function(
        (lambda one, other: max(one, other)) if largest else (lambda one, other: one + other)
    )

    @device_function
    def total(value):
        if SIMULATOR:
            parts = cuda.shared.array(THREADS, R)
            t = cuda.threadIdx.x
            parts[t] = value
            cuda.syncthreads()
            value = parts[t - t % lanes]
            for e in range(1, lanes):
                value = both(value, parts[t - t % lanes + e])
            cuda.syncthreads()
        else:
            for e in range(steps):
                value = both(value, cuda.shfl_xor_sync(FULL, value, 1 << e))
        return value

    if dtype.kind != "c":
        return total
    return device_function(lambda value: T(complex(total(value.real), total(value.imag))))


@functools.cache
def rotator(dtype: np.dtype) -> Any:
    """The device function that turns two numbers."""
    T, is_complex = numba_type(dtype), dtype.kind == "c"

    @device_function
    def rotated(one, other, sine, half, phase):
        """x cos - y sin, y cos + x sin. With 1 - cos as sin tan(angle / 2), small angles lose no
        digits. A complex y is first multiplied by a phase that makes its product with x real."""
        if is_complex:
            other = other * phase
        return T(one - sine * (other + half * one)), T(other + sine * (one - half * other))

    return rotated


@functools.cache
def sweeper(dtype: np.dtype, vectors: bool, lanes: int, deep: int, whole: bool) -> Any:
    """The device function that makes the columns of a matrix orthogonal. A pair has `lanes`
    threads; `deep` elements of each of them are under way at once, a `whole` column if it has no
    more."""
    real, is_complex = real_dtype(dtype), dtype.kind == "c"
    T, R, near = numba_type(dtype), numba_type(real), float(np.finfo(real).eps)
    top, (scale, least) = float(np.finfo(real).max), SCALE[real.itemsize]
    dead, total, total_product = near * near, over_lanes(real, lanes), over_lanes(dtype, lanes)
    (conjugate, squared, largest_part, scaled, over), rotated = arithmetic(dtype), rotator(dtype)

    @device_function
    def turn(alpha, beta, gamma, tolerance):
        """The rotation that makes columns of these squared lengths and this product orthogonal: its
        sine and the tangent of half its angle, the smaller of the two possible angles; 0 where
        nothing is left to be done.

        Only the sine has to be exact, of whatever tangent: then the rotation is one. So the angle
        is found in float32."""
        sine, half = R(0), R(0)
        if abs(gamma) > tolerance * math.sqrt(alpha) * math.sqrt(beta):
            scale = R(1) / (alpha + beta)
            gap, product = (
                (beta - alpha) * scale,
                R(2) * gamma * scale,
            )  # the cotangent of twice the angle: their ratio
            if abs(product) <= R(SMALL) * abs(gap):
                half = R(0.25) * product / gap
            else:
                one, other = f32(abs(gap)), f32(abs(product))
                square = one * one + other * other
                tangent = other * reciprocal(one + square * rsqrt(square))
                square = f32(1) + tangent * tangent
                half = R(tangent * reciprocal(f32(1) + square * rsqrt(square)))
                if (gap < R(0)) != (product < R(0)):
                    half = -half
            sine = R(2) * half / (R(1) + half * half)
        return sine, half

    @device_function
    def rotate(memory, x, y, end, sine, half, phase):
        for first in range(cuda.threadIdx.x % lanes, end, lanes * deep):
            for e in range(deep):
                i = first + e * lanes
                memory[x + i], memory[y + i] = rotated(
                    memory[x + i], memory[y + i], sine, half, phase
                )

    @device_function
    def swept(a, memory, sizes, noise, step, rows, v_step, v_rows, flag, ticket):
        """Leaves A V in `memory`, then V, and the columns' lengths in `sizes`, all times 2^power.
        Returns (whether A is finite, power).

        a: (count, m, n); column j of A V begins at j * step and has `rows` places, V's, behind
        them, likewise. noise: (n,), the square of the rounding error of each column. Both kinds of
        rows: multiples of lanes * deep.
        """
        b, t = cuda.blockIdx.x, cuda.threadIdx.x
        m, n = a.shape[1], a.shape[2]
        group, lane, groups = t // lanes, t % lanes, cuda.blockDim.x // lanes
        v = n * step
        for i in range(group, rows, groups):
            for j in range(lane, n, lanes):
                memory[j * step + i] = a[b, i, j] if i < m else T(0)
        if vectors:
            for j in range(group, n, groups):
                for i in range(lane, v_rows, lanes):
                    memory[v + j * v_step + i] = T(1) if i == j else T(0)
        cuda.syncthreads()
        for j in range(t, n, cuda.blockDim.x):
            largest = R(0)
            for i in range(m):
                value = largest_part(memory[j * step + i])
                largest = (
                    largest if value <= largest else value if value <= R(top) else R(math.inf)
                )  # NaN too
            sizes[j] = largest
        cuda.syncthreads()
        largest = R(0)
        for j in range(n):
            largest = max(largest, sizes[j])
        if largest > R(top):
            if t == 0:
                flag[0] = -ticket
            return False, exponent(0)
        _, power = math.frexp(largest)
        power = exponent(scale - power)
        for first in range(0, n, groups):  # all threads go round as often: they add together
            j = first + group
            square = R(0)
            if j < n:
                for i in range(lane, rows, lanes):
                    value = scaled(memory[j * step + i], power)
                    memory[j * step + i] = value
                    square += squared(value)
            square = total(square)
            if lane == 0 and j < n:
                noise[j] = R(dead) * square
        cuda.syncthreads()

        last = n - 1 + n % 2  # the player that keeps its place, the empty one of an odd number
        tolerance = R(near) * math.sqrt(R(m))
        one, other = (
            last if group == 0 else group,
            0 if group == 0 else last - group,
        )  # the players of this pair
        kept, kept_other = cuda.local.array(deep, T), cuda.local.array(deep, T)
        going = True
        for _ in range(SWEEPS):
            turned = types.int32(0)
            for _ in range(last):
                x, y = min(one, other), max(one, other)
                inside = 2 * group < last and y < n
                end = rows if inside else 0
                if group > 0:
                    one = one + 1 if one + 1 < last else 0
                other = other + 1 if other + 1 < last else 0
                alpha, beta, gamma = R(0), R(0), T(0)
                for first in range(lane, end, lanes * deep):
                    for e in range(deep):
                        kept[e], kept_other[e] = (
                            memory[x * step + first + e * lanes],
                            memory[y * step + first + e * lanes],
                        )
                    for e in range(deep):
                        alpha += squared(kept[e])
                        beta += squared(kept_other[e])
                        gamma += conjugate(kept[e]) * kept_other[e]
                x_noise, y_noise = R(0), R(0)
                if inside:
                    x_noise, y_noise = noise[x], noise[y]
                if not SIMULATOR:
                    cuda.syncwarp()  # all lanes have read them: lane 0 changes them below
                alpha, beta, gamma = total(alpha), total(beta), total_product(gamma)
                if is_complex:
                    product = R(math.hypot(gamma.real, gamma.imag))
                else:
                    product = gamma
                if alpha > max(R(dead) * x_noise, R(least)) and beta > max(
                    R(dead) * y_noise, R(least)
                ):
                    sine, half = turn(alpha, beta, product, tolerance)
                    if sine != R(0):
                        turned = types.int32(1)
                        phase = over(conjugate(gamma), product)
                        if whole:
                            for e in range(deep):
                                i = lane + e * lanes
                                memory[x * step + i], memory[y * step + i] = rotated(
                                    kept[e], kept_other[e], sine, half, phase
                                )
                        else:
                            rotate(memory, x * step, y * step, end, sine, half, phase)
                        if vectors:
                            rotate(
                                memory, v + x * v_step, v + y * v_step, v_rows, sine, half, phase
                            )
                        if lane == 0:
                            sine *= sine
                            noise[x] = x_noise + sine * (y_noise - x_noise)
                            noise[y] = y_noise + sine * (x_noise - y_noise)
                cuda.syncthreads()
            if not cuda.syncthreads_or(turned):
                going = False
                break
        if going and t == 0:
            flag[0] = -ticket
        for first in range(0, n, groups):
            j = first + group
            square = R(0)
            if j < n:
                for i in range(lane, rows, lanes):
                    square += squared(memory[j * step + i])
            square = total(square)
            if lane == 0 and j < n:
                sizes[j] = math.sqrt(square) if square > max(R(dead) * noise[j], R(least)) else R(0)
        cuda.syncthreads()
        return True, power

    return swept


@device_function
def place(sizes, n, j):
    """The place of column j in descending order; of equal ones, the first comes first."""
    mine, before = sizes[j], 0
    for other in range(n):
        if sizes[other] > mine or (sizes[other] == mine and other < j):
            before += 1
    return before


@functools.cache
def values_small(dtype: np.dtype, lanes: int, deep: int, whole: bool) -> Any:
    """Singular values, one block a matrix."""
    T, R, swept = (
        numba_type(dtype),
        numba_type(real_dtype(dtype)),
        sweeper(dtype, False, lanes, deep, whole),
    )

    @bounded((THREADS, 1))
    def values_small(
        a, s, step, rows, flag, ticket
    ):  # a: (count, m, n), m >= n; s: (count, n); step, rows: see `swept`
        memory = cuda.shared.array(0, T)
        sizes = cuda.shared.array(MOST, R)  # a line each: by it the simulator tells arrays apart
        noise = cuda.shared.array(MOST, R)
        n = s.shape[1]
        finite, power = swept(a, memory, sizes, noise, step, rows, 0, 0, flag, ticket)
        for j in range(cuda.threadIdx.x, n, cuda.blockDim.x):
            if finite:
                s[cuda.blockIdx.x, place(sizes, n, j)] = math.ldexp(sizes[j], -power)
            else:
                s[cuda.blockIdx.x, j] = R(math.nan)

    return values_small


@functools.cache
def svd_small(dtype: np.dtype, lanes: int, deep: int, whole: bool) -> Any:
    """A = U diag(s) V^H, one block a matrix."""
    T, R, swept = (
        numba_type(dtype),
        numba_type(real_dtype(dtype)),
        sweeper(dtype, True, lanes, deep, whole),
    )
    conjugate, squared, _, _, over = arithmetic(dtype)

    @device_function
    def complete(u, memory, found):
        """Columns of U from number `found` on, orthonormal to each other and to all before them; u:
        (count, m, k)."""
        b, t, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
        m, k = u.shape[1], u.shape[2]
        parts, taken = (
            m,
            2 * m,
            # in memory: the vector, its parts along the columns, how much of each unit vector they
            # hold
        )
        for i in range(t, m, threads):
            held = R(0)
            for j in range(found):
                held += squared(u[b, i, j])
            memory[taken + i] = T(held)
        cuda.syncthreads()
        while found < k:
            best, least = 0, memory[taken].real
            for i in range(1, m):
                held = memory[taken + i].real
                if held < least:
                    best, least = i, held
            for i in range(t, m, threads):
                memory[i] = T(1) if i == best else T(0)
            for _ in range(2):  # once more, for what rounding left
                cuda.syncthreads()
                for j in range(t, found, threads):
                    along = T(0)
                    for i in range(m):
                        along += conjugate(u[b, i, j]) * memory[i]
                    memory[parts + j] = along
                cuda.syncthreads()
                for i in range(t, m, threads):
                    value = memory[i]
                    for j in range(found):
                        value -= u[b, i, j] * memory[parts + j]
                    memory[i] = value
            cuda.syncthreads()
            square = R(0)
            for i in range(m):
                square += squared(memory[i])
            length = math.sqrt(square)
            for i in range(t, m, threads):
                value = over(memory[i], length)
                u[b, i, found] = value
                memory[taken + i] += T(squared(value))
            cuda.syncthreads()
            found += 1

    @bounded((THREADS, 1))
    def svd_small(a, u, s, v, step, rows, v_step, v_rows, flag, ticket):
        """a: (count, m, n), m >= n; u: (count, m, k), n <= k <= m; s: (count, n); v: (count, n, n),
        conj(V); the others: see `swept`."""
        memory = cuda.shared.array(0, T)
        sizes = cuda.shared.array(MOST, R)  # a line each: by it the simulator tells arrays apart
        noise = cuda.shared.array(MOST, R)
        order = cuda.shared.array(MOST, types.int32)
        b, t = cuda.blockIdx.x, cuda.threadIdx.x
        m, n, k = u.shape[1], s.shape[1], u.shape[2]
        group, lane, groups = t // lanes, t % lanes, cuda.blockDim.x // lanes
        finite, power = swept(a, memory, sizes, noise, step, rows, v_step, v_rows, flag, ticket)
        if not finite:
            for r in range(group, k, groups):
                for i in range(lane, m, lanes):
                    u[b, i, r] = T(math.nan)
                if r < n:
                    s[b, r] = R(math.nan)
                    for i in range(lane, n, lanes):
                        v[b, i, r] = T(math.nan)
            return
        for j in range(t, n, cuda.blockDim.x):
            r = place(sizes, n, j)
            order[r] = j
            s[b, r] = math.ldexp(sizes[j], -power)
        cuda.syncthreads()
        found = 0
        for j in range(n):
            if sizes[j] > R(0):
                found += 1
        for r in range(group, n, groups):
            j = order[r]
            size = sizes[j]
            if size > R(0):
                for i in range(lane, m, lanes):
                    u[b, i, r] = over(memory[j * step + i], size)
            for i in range(lane, n, lanes):
                v[b, i, r] = conjugate(memory[n * step + j * v_step + i])
        cuda.syncthreads()
        if found < k:
            complete(u, memory, found)

    return svd_small


# -------------------- plans


def _lanes(rows: int, n: int, itemsize: int) -> tuple[int, int, bool]:
    """Threads of a pair, elements of each that are under way at once, and whether these are a
    column."""
    lanes = 8 if rows <= 64 or n > 64 else 16 if rows <= 128 or n > 32 else 32
    deep = next((d for d in (1, 2, 4, 8, 16) if d * lanes >= rows and d * itemsize <= HELD), None)
    return lanes, deep or 4, deep is not None


def apart(count: int, lanes: int, itemsize: int) -> int:
    """From column to column: such that pairs that are read together lie in different banks."""
    banks = 128 // itemsize
    return count + (min(lanes, banks) - count) % banks


def room(a: Layout, wanted: int, kept: int) -> int:
    """How much shared memory a block can have that wants so many bytes, besides those that it keeps
    for other things."""
    return (ALWAYS if wanted + kept <= ALWAYS else ROOM.get(capability(a.device), OTHERS)) - kept


def svd(p: SVDProblem) -> Plan | None:
    """Version "jacobi". None where the matrices do not fit.

    A wide matrix is done as its transpose, A^T = U S V^H: then A = conj(V) S U^T.
    """
    a, outputs = p.a, p.outputs
    is_wide = a.shape[-2] < a.shape[-1]
    m, n = a.shape[-2:][::-1] if is_wide else a.shape[-2:]
    count, vectors = a.size // (m * n), len(outputs) > 1
    lanes, deep, alone = _lanes(m, n, a.itemsize)
    rows, v_rows = (-(-size // (lanes * deep)) * lanes * deep for size in (m, n))
    step, v_step = (apart(size, lanes, a.itemsize) for size in (rows, v_rows))
    shared = max(n * (step + v_step * vectors), 3 * m * vectors) * a.itemsize
    adds = vectors and outputs[0].shape[-1] + outputs[2].shape[-2] > 2 * n
    threads = (
        -(-max((n + n % 2) // 2 * lanes, m if adds else 1) // 32) * 32
    )  # of added columns, one of a row
    if n > MOST or threads > THREADS or adds and m > ADDED:
        return None
    if shared > room(a, shared, KEPT):
        return None
    given, steps, temps = input_cube(a, is_wide)
    if not vectors:
        kernel, arguments = (
            values_small(a.dtype, lanes, deep, alone),
            [given, Output(0).view((count, n)), step, rows],
        )
    else:
        left, right = cube(Output(0), outputs[0]), cube(Output(2), outputs[2], transpose=True)
        if is_wide:
            left, right = right, left
        kernel = svd_small(a.dtype, lanes, deep, alone)
        arguments = [given, left, Output(1).view((count, n)), right, step, rows, v_step, v_rows]
    return Plan(
        outputs,
        [*steps, Launch(kernel, count, threads, [*arguments, Flag(), Ticket()], shared=shared)],
        temps,
    )
