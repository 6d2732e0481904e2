"""Eigenvalues and vectors of small Hermitian matrices: one block and one launch a matrix (Jacobi's
method, two-sided).

The idea. A rotation in the plane of two unit vectors p and q, of the right angle, makes the element
a_pq of A 0: J^H A J, whose other elements in the rows and columns p and q change. What leaves a_pq
goes to the diagonal, so that all that is off it shrinks with every rotation; the diagonal tends to
the eigenvalues, the product V of all rotations to the eigenvectors. A sweep takes every pair once.
Of n columns n / 2 pairs can be turned at the same time, and n - 1 such rounds, in which they meet
like players of a tournament, are a sweep; after about log2(n) + 3 of them nothing is left (at the
end its square is left of what there was).

A and V lie in shared memory, row after row, V below A. In a round a thread finds each pair's angle;
after a barrier each thread has the columns of one pair: it turns blocks of 2 x 2 elements, where
the rows of another pair meet them, from both sides at once, writes them and what they are the
mirror of, and turns rows of V. Of two pairs one has the block: the other is up to half of all pairs
ahead of it. As many rounds without a rotation as a sweep has are the end, and cost next to nothing.

The error. A pair is turned unless |a_pq| is below rounding of sqrt(|a_pp a_qq|). So positive
definite matrices keep the digits of small eigenvalues as far as they are determined (Demmel and
Veselic 1992), where a reduction to three diagonals loses them. An element of the diagonal changes
in each round, some 500 times for 64 rows: it is kept as the sum of two numbers, with which
eigenvalues of 64 rows of float32 are wrong by 0.6 eps of the largest, where one number makes it 11.
V is orthogonal up to some 5 eps (complex: 20). The angle may be of half the digits: its sine and
the tangent of its half, by which columns are turned, fit each other to all digits. In float64 the
rest of a_pq that such an angle leaves is kept. All is multiplied by a power of two first, so that
squares stay inside the range.

The floor is shared memory: a round moves all of A and V in and out, 4 n^3 numbers a sweep, 128
bytes a cycle. Of few rows it is the way of a number through a round: two barriers, five reads one
after the other, two roots and two divisions, some 1,000 cycles. On an H200 1,000 matrices of 16
rows of float32 take 71 us (row eigh_batch), where CuPy, by cuSOLVER's Jacobi method, takes 86, and
leaves values wrong by 21 eps and vectors by 25; one of 64 rows takes 435 (row eigh_64), by CuPy
668. Versions: `eigh_small` with vectors, `eigvalsh_small` without. Sources: Jacobi 1846; Golub and
Van Loan, Matrix Computations, 8.5; Brent and Luk 1985, for the tournament.
"""

import functools
import math
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Flag, Output, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import real_dtype
from ..compiler.decorators import bounded, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..compiler.storage_types import numba_type
from .plan_builder import cube, input_cube
from .problem import HermitianProblem
from .svd_jacobi import (
    SCALE,
    SMALL,
    SWEEPS,
    apart,
    arithmetic,
    exponent,
    over_lanes,
    place,
    reciprocal,
    room,
    rotator,
    rsqrt,
)

f32 = types.float32
# Places and what counts them: of a number with a sign it is asked whether it counts from the end.
# (And loops are written out: the length of a `range` with a step would be a division of 64 bits.)
u32 = int if SIMULATOR else types.uint32
MOST = 128  # rows
PAIRS = MOST // 2
THREADS = 512
KEPT = 5 << 10  # bytes of shared memory for what is kept of each row


@device_function
def half_tangent(one, other):
    """tan(angle / 2) of the angle whose double has the cotangent one / other; float32, neither
    below 0."""
    square = one * one + other * other
    inverse = rsqrt(square)
    square = f32(0.5) + f32(0.5) * one * inverse  # of the angle's cosine
    sine, inverse = f32(0.5) * other * inverse, rsqrt(square)
    return sine * inverse * reciprocal(f32(1) + square * inverse)


@device_function
def seats(k, turn, last):
    """The two of pair k in this round: number `last` keeps its place, all others move on by one
    each round."""
    one, other = u32(turn + k), u32(turn + last - k)
    one = u32(one - last) if one >= last else one
    other = u32(other - last) if other >= last else other
    return last if k == 0 else one, other


@device_function
def plus(high, low, more):
    """high + low + more, of which high is the larger, as two numbers again (Knuth)."""
    more = low + more
    total = high + more
    back = total - high
    return total, (high - (total - back)) + (more - back)


@functools.cache
def diagonaliser(dtype: np.dtype, vectors: bool) -> Any:
    """The device function that turns a Hermitian matrix until it is diagonal."""
    real, is_complex = real_dtype(dtype), dtype.kind == "c"
    T, R, near, top = (
        numba_type(dtype),
        numba_type(real),
        float(np.finfo(real).eps),
        float(np.finfo(real).max),
    )
    (scale, least), is_single = SCALE[real.itemsize], real.itemsize == 4
    (conjugate, squared, largest_part, scaled, over), rotated = arithmetic(dtype), rotator(dtype)
    largest_of, turning, together = (
        over_lanes(real, 32, largest=True),
        PAIRS if is_complex else 1,
        16 // dtype.itemsize,
    )

    @device_function
    def angle(gap, product):
        """The tangent of half the angle, the smaller of the two possible ones, after which nothing
        is left of a_pq; gap: a_qq - a_pp; product: 2 a_pq."""
        one, other = abs(gap), abs(product)
        if is_single:
            half = half_tangent(one, other)
        elif other <= R(SMALL) * one:
            half = R(0.25) * other / one
        else:
            scale = R(1) / (one + other)
            half = R(half_tangent(f32(one * scale), f32(other * scale)))
        return -half if (gap < R(0)) != (product < R(0)) else half

    @device_function
    def loaded(a, memory, high, low, step, rows, lanes, upper):
        """Brings one triangle of A, and what it is the mirror of, into memory, and the diagonal
        into `high`, all times 2^power: (whether A is finite, power)."""
        parts = cuda.shared.array(32, R)
        b, t, n = cuda.blockIdx.x, u32(cuda.threadIdx.x), u32(a.shape[1])
        group, lane, groups = u32(t // lanes), u32(t % lanes), u32(cuda.blockDim.x // lanes)
        largest, i = R(0), group
        while i < rows:
            j = lane
            while j <= i:
                value = T(0)
                if i < n:
                    value = conjugate(a[b, j, i]) if upper else a[b, i, j]
                    if i == j:
                        value = T(value.real)
                    size = largest_part(value)
                    largest = (
                        largest if size <= largest else size if size <= R(top) else R(math.inf)
                    )  # NaN too
                if i == j:
                    high[i], low[i] = value.real, R(0)
                else:
                    memory[u32(i * step + j)], memory[u32(j * step + i)] = value, conjugate(value)
                j = u32(j + lanes)
            i = u32(i + groups)
        largest = largest_of(largest)
        if t % 32 == 0:
            parts[t // 32] = largest
        cuda.syncthreads()
        for warp in range(cuda.blockDim.x // 32):
            largest = max(largest, parts[warp])
        if largest > R(top):
            return False, exponent(0)
        _, power = math.frexp(largest)
        power, i = exponent(scale - power), group
        while i < rows:
            j = lane
            while j < rows:
                if i == j:
                    high[i] = math.ldexp(high[i], power)
                else:
                    memory[u32(i * step + j)] = scaled(memory[u32(i * step + j)], power)
                j = u32(j + lanes)
            i = u32(i + groups)
        return True, power

    @device_function
    def diagonalised(a, memory, high, step, lanes, upper, flag, ticket):
        """Leaves the eigenvalues, times -2^power, in `high`, and V in `memory`. Returns (whether A
        is finite, power).

        a: (count, n, n); memory: row i of A begins at i * step, and V's rows come behind; an odd n
        has a row and a column of zeros more. high: (MOST,). lanes: so many neighbouring threads
        read a row.
        """
        low = cuda.shared.array(MOST, R)
        sines = cuda.shared.array(PAIRS, R)  # a line each: by it the simulator tells arrays apart
        halves = cuda.shared.array(PAIRS, R)
        phases = cuda.shared.array(turning, T)
        t, threads, n = u32(cuda.threadIdx.x), u32(cuda.blockDim.x), u32(a.shape[1])
        pairs, lanes, step = u32((n + 1) // 2), u32(lanes), u32(step)
        rows, group, lane, groups = (
            u32(2 * pairs),
            u32(t // lanes),
            u32(t % lanes),
            u32(threads // lanes),
        )
        finite, power = loaded(a, memory, high, low, step, rows, lanes, upper)
        if not finite:
            if t == 0:
                flag[0] = -ticket
            return False, power
        if vectors:
            i = group
            while i < rows:
                j = lane
                while j < rows:
                    memory[u32((rows + i) * step + j)] = T(1) if i == j else T(0)
                    j = u32(j + lanes)
                i = u32(i + groups)
        cuda.syncthreads()

        last, turn, quiet = u32(rows - 1), u32(0), u32(0)
        mine, above, down = u32(t % pairs), u32(t // pairs), u32(threads // pairs)
        end = u32(2 * rows)
        x, y = cuda.local.array(together, T), cuda.local.array(together, T)
        if above >= down:  # the last few threads have nothing to turn
            above = end
        p, q = seats(mine, turn, last)
        for _ in range(SWEEPS * last):
            turned = types.int32(0)
            if t < pairs:
                entry = memory[u32(p * step + q)]
                high_p, high_q, low_p, low_q = high[p], high[q], low[p], low[q]
                square, sine, half, phase = squared(entry), R(0), R(0), T(1)
                if square > max(R(near * near) * abs(high_p * high_q), R(least)):
                    turned = types.int32(1)
                    if is_complex:
                        product = R(math.sqrt(square))
                        phase = over(conjugate(entry), product)
                    else:
                        product = entry
                    product += product
                    gap = (high_q - high_p) + (low_q - low_p)
                    half = angle(gap, product)
                    if is_single:
                        sine = R(2) * half * reciprocal(R(1) + half * half)
                    else:
                        sine = R(2) * half / (R(1) + half * half)
                    cosine = R(1) - sine * half
                    moved = R(sine * (cosine * product - sine * gap))
                    high[p], low[p] = plus(high_p, low_p, -moved)
                    high[q], low[q] = plus(high_q, low_q, moved)
                    left = R(0)
                    if not is_single:
                        left = (R(0.5) - sine * sine) * product - sine * cosine * gap
                    memory[u32(p * step + q)] = memory[u32(q * step + p)] = T(left)
                sines[t], halves[t] = sine, half
                if is_complex:
                    phases[t] = phase
            if cuda.syncthreads_or(turned):
                quiet, ahead = u32(0), u32(above + 1)
                sine, half, phase = sines[mine], halves[mine], phases[mine if is_complex else 0]
                while 2 * ahead <= pairs:
                    k = u32(mine + ahead)
                    k = u32(k - pairs) if k >= pairs else k
                    other_sine = sines[k]
                    if (2 * ahead < pairs or mine < ahead) and (sine != R(0) or other_sine != R(0)):
                        other_half, other_phase = (
                            halves[k],
                            conjugate(phases[k if is_complex else 0]),
                        )
                        i, j = seats(k, turn, last)
                        ip, iq = rotated(
                            memory[u32(i * step + p)], memory[u32(i * step + q)], sine, half, phase
                        )
                        jp, jq = rotated(
                            memory[u32(j * step + p)], memory[u32(j * step + q)], sine, half, phase
                        )
                        ip, jp = rotated(ip, jp, other_sine, other_half, other_phase)
                        iq, jq = rotated(iq, jq, other_sine, other_half, other_phase)
                        memory[u32(i * step + p)], memory[u32(p * step + i)] = ip, conjugate(ip)
                        memory[u32(i * step + q)], memory[u32(q * step + i)] = iq, conjugate(iq)
                        memory[u32(j * step + p)], memory[u32(p * step + j)] = jp, conjugate(jp)
                        memory[u32(j * step + q)], memory[u32(q * step + j)] = jq, conjugate(jq)
                    ahead = u32(ahead + down)
                if vectors and sine != R(0):
                    i = u32(rows + above)
                    while i + (together - 1) * down < end:  # several are under way at once
                        for e in range(together):
                            at = u32((i + e * down) * step)
                            x[e], y[e] = memory[u32(at + p)], memory[u32(at + q)]
                        for e in range(together):
                            at = u32((i + e * down) * step)
                            memory[u32(at + p)], memory[u32(at + q)] = rotated(
                                x[e], y[e], sine, half, phase
                            )
                        i = u32(i + together * down)
                    while i < end:
                        at = u32(i * step)
                        one, other = rotated(
                            memory[u32(at + p)], memory[u32(at + q)], sine, half, phase
                        )
                        memory[u32(at + p)], memory[u32(at + q)] = one, other
                        i = u32(i + down)
                cuda.syncthreads()
            else:
                quiet = u32(quiet + 1)
                if quiet == last:
                    break
            turn = u32(turn + 1) if turn + 1 < last else u32(0)
            p, q = seats(mine, turn, last)
        if quiet < last and t == 0:
            flag[0] = -ticket
        cuda.syncthreads()
        if t < n:
            high[t] = -(high[t] + low[t])
        cuda.syncthreads()
        return True, power

    return diagonalised


@functools.cache
def eigvalsh_small(dtype: np.dtype) -> Any:
    """Eigenvalues, one block a matrix."""
    T, R, diagonalised = (
        numba_type(dtype),
        numba_type(real_dtype(dtype)),
        diagonaliser(dtype, False),
    )

    @bounded((THREADS, 1))
    def eigvalsh_small(
        a, w, step, lanes, upper, flag, ticket
    ):  # w: (count, n); the others: see `diagonalised`
        memory = cuda.shared.array(0, T)
        high = cuda.shared.array(MOST, R)
        t, n = u32(cuda.threadIdx.x), u32(w.shape[1])
        finite, power = diagonalised(a, memory, high, step, lanes, upper, flag, ticket)
        if t < n:
            r = place(high, n, t) if finite else t
            w[cuda.blockIdx.x, r] = math.ldexp(-high[t], -power) if finite else R(math.nan)

    return eigvalsh_small


@functools.cache
def eigh_small(dtype: np.dtype) -> Any:
    """A V = V diag(w), one block a matrix."""
    T, R, diagonalised = numba_type(dtype), numba_type(real_dtype(dtype)), diagonaliser(dtype, True)

    @bounded((THREADS, 1))
    def eigh_small(a, w, vectors, step, lanes, upper, flag, ticket):
        """w: (count, n); vectors: (count, n, n), as columns; the others: see `diagonalised`."""
        memory = cuda.shared.array(0, T)
        high = cuda.shared.array(MOST, R)
        order = cuda.shared.array(MOST, types.int32)
        b, t, n, lanes = cuda.blockIdx.x, u32(cuda.threadIdx.x), u32(w.shape[1]), u32(lanes)
        finite, power = diagonalised(a, memory, high, step, lanes, upper, flag, ticket)
        if t < n:
            r = place(high, n, t) if finite else t
            order[r] = t
            w[b, r] = math.ldexp(-high[t], -power) if finite else R(math.nan)
        cuda.syncthreads()
        rows, r = u32(n + n % 2), u32(t // lanes)
        while r < n:
            i = u32(t % lanes)
            while i < n:
                vectors[b, i, r] = (
                    memory[u32((rows + i) * step + order[r])] if finite else T(math.nan)
                )
                i = u32(i + lanes)
            r = u32(r + cuda.blockDim.x // lanes)

    return eigh_small


# -------------------- plans


def eigh(p: HermitianProblem) -> Plan | None:
    """Version "jacobi". None where the matrices do not fit."""
    a, outputs, vectors, n = p.a, p.outputs, p.vectors, p.a.shape[-1]
    count, pairs = a.size // n**2, (n + 1) // 2
    lanes = min(32, 1 << (n - 1).bit_length())
    step = apart(2 * pairs, min(pairs, 32), a.itemsize)
    shared = 2 * pairs * (1 + vectors) * step * a.itemsize
    if n > MOST or shared > room(a, shared, KEPT):
        return None
    given, steps, temps = input_cube(a)
    threads = min(-(-max(pairs * (pairs // 2), n) // 32) * 32, THREADS)  # one of each row at least
    kernel = (eigh_small if vectors else eigvalsh_small)(a.dtype)
    found = [Output(0).view((count, n)), *(cube(Output(1), v) for v in outputs[1:])]
    return Plan(
        outputs,
        [
            *steps,
            Launch(
                kernel,
                count,
                threads,
                [given, *found, step, lanes, int(p.upper), Flag(), Ticket()],
                shared=shared,
            ),
        ],
        temps,
    )
