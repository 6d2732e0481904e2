"""The small kernels between a library's decompositions: triangles, identities, determinants, Q,
pairs of eigenvectors, inverse singular values, tables of addresses, and the reports of failures.
What they are for: kernels/linalg/lapack_plans.py.

All are bound by memory, each element read and written once, next to decompositions that take n
operations per element; so they are written plainly, one thread per element (``log_determinant``:
one block per matrix; ``reflected``: one thread per column).
"""

import functools
import math
from typing import Any

import numpy as np

from ...core.dtypes import real_dtype
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, intrinsic, ir, types
from ..compiler.storage_types import numba_type

if not SIMULATOR:

    @intrinsic
    def address_of(typingctx, array):
        """Address of an array's first element, int64."""

        def generate(context, builder, signature, arguments):
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            return builder.ptrtoint(data, ir.IntType(64))

        return types.int64(array), generate


THREADS = 128


@cuda.jit
def check_info(info, flag, ticket):  # info: (n,) int32; flag: (1,) int64
    """Report a matrix that a routine could not do."""
    i = cuda.grid(1)
    if i < info.size and info[i] != 0:
        flag[0] = -ticket


@functools.cache
def check_diagonal(dtype: np.dtype) -> Any:
    """Report a zero on the diagonal of a triangular matrix."""
    T = numba_type(dtype)

    @cuda.jit
    def check_diagonal(a, flag, ticket):  # a: (count, n, n); flag: (1,) int64
        i = cuda.grid(1)
        n = a.shape[1]
        if i < a.shape[0] * n:
            if a[i // n, i % n, i % n] == T(0):
                flag[0] = -ticket

    return check_diagonal


@cuda.jit
def addresses(x, step, table):  # x: any array; table: (n,) int64
    """table[i] = address of x + i * step bytes: where the matrices of a batch begin."""
    i = cuda.grid(1)
    if i < table.size:
        table[i] = address_of(x) + i * step


@functools.cache
def identity(dtype: np.dtype) -> Any:
    """Identity matrices."""
    T = numba_type(dtype)

    @cuda.jit
    def identity(x):  # x: (count, n, n)
        i = cuda.grid(1)
        n = x.shape[1]
        if i < x.size:
            row = i // n % n
            x[i // (n * n), row, i % n] = T(1) if row == i % n else T(0)

    return identity


@functools.cache
def triangle(dtype: np.dtype, upper: bool) -> Any:
    """y = the upper (lower) triangle of x and zeros elsewhere; y may be x."""
    T = numba_type(dtype)

    @cuda.jit
    def triangle(x, y):  # x: (count, >= m, >= n); y: (count, m, n)
        i = cuda.grid(1)
        if i < y.size:
            m, n = y.shape[1], y.shape[2]
            b, row, column = i // (m * n), i // n % m, i % n
            inside = column >= row if upper else row >= column
            y[b, row, column] = x[b, row, column] if inside else T(0)

    return triangle


@functools.cache
def paired(dtype: np.dtype) -> Any:
    """Eigenvectors of a real matrix: a pair of conjugate ones, x + i y and x - i y, comes as two
    columns, x and y."""
    C = numba_type(dtype)
    R = numba_type(real_dtype(dtype))

    @cuda.jit
    def paired(
        w, packed, v
    ):  # w: (count, n) complex; packed: (count, n, n) real; v: (count, n, n) complex
        i = cuda.grid(1)
        n = v.shape[1]
        if i < v.size:
            b, column, row = i // (n * n), i // n % n, i % n  # neighbours lie in columns
            part = w[b, column].imag
            if part == R(0):
                v[b, row, column] = C(complex(packed[b, row, column], R(0)))
            elif part > R(0):
                v[b, row, column] = C(complex(packed[b, row, column], packed[b, row, column + 1]))
            else:
                v[b, row, column] = C(complex(packed[b, row, column - 1], -packed[b, row, column]))

    return paired


@functools.cache
def reflected(dtype: np.dtype) -> Any:
    """Q = (1 - tau_1 v_1 v_1^H) (1 - tau_2 v_2 v_2^H) ... of small matrices; each thread applies
    all to a column of 1."""
    T = numba_type(dtype)
    kind = dtype.kind

    @device_function
    def conjugated(v):
        return v.conjugate() if kind == "c" else v

    @cuda.jit
    def reflected(packed, tau, q):
        """packed: (count, m, n), v_j below the diagonal of column j, whose 1 is not stored; tau:
        (count, min(m, n)); q: (count, m, k)."""
        i = cuda.grid(1)
        m, k = q.shape[1], q.shape[2]
        if i < q.shape[0] * k:
            b, c = i // k, i % k
            for row in range(m):
                q[b, row, c] = T(1) if row == c else T(0)
            for back in range(tau.shape[1]):
                j = tau.shape[1] - 1 - back
                if j <= c:  # v_j begins in row j: until then it does not touch this column
                    total = q[b, j, c]
                    for row in range(j + 1, m):
                        total = total + conjugated(packed[b, row, j]) * q[b, row, c]
                    total = total * tau[b, j]
                    q[b, j, c] = q[b, j, c] - total
                    for row in range(j + 1, m):
                        q[b, row, c] = q[b, row, c] - total * packed[b, row, j]

    return reflected


@functools.cache
def inverse_values(dtype: np.dtype) -> Any:
    """1 / s where a singular value is above `ratio` times the largest of its matrix and 0
    elsewhere, and how many are."""
    T = numba_type(dtype)

    @cuda.jit
    def inverse_values(
        s, inverse, rank, ratio
    ):  # s, inverse: (count, k), s descending; rank: (count,) int64; ratio: T
        i = cuda.grid(1)
        k = s.shape[1]
        if i < s.size:
            b, j = i // k, i % k
            bound = ratio * s[b, 0]
            large = s[b, j] > bound
            inverse[b, j] = T(1) / s[b, j] if large else T(0)
            if large and (j + 1 == k or not s[b, j + 1] > bound):
                rank[b] = j + 1
            elif j == 0 and not large:
                rank[b] = 0

    return inverse_values


@cuda.jit
def zero_based(pivots, out):  # pivots: (n,) int32 or int64, 1-based; out: (n,) int32
    i = cuda.grid(1)
    if i < out.size:
        out[i] = pivots[i] - 1


@cuda.jit
def one_based(
    pivots, out, rows, flag, ticket
):  # pivots: (n,) integers, 0-based; out: (n,) int32 or int64; rows: int64
    """The other way; what is no row is reported."""
    i = cuda.grid(1)
    if i < out.size:
        row = types.int64(pivots[i])
        if row < 0 or row >= rows:
            flag[0] = ticket
            row = types.int64(0)
        out[i] = row + 1


@cuda.jit
def row_order(
    pivots, out, first
):  # pivots: (count, k) integers, counted from `first`; out: (count, m) int64, m >= k
    """Which row of A is row i of P A: i, taken back through the exchanges of rows j and pivots[j],
    the last one first. One thread per row; the threads of a matrix read the same pivot at a time.
    """
    i = cuda.grid(1)
    m = out.shape[1]
    if i < out.size:
        b, row = i // m, i % m
        for back in range(pivots.shape[1]):
            j = pivots.shape[1] - 1 - back
            other = types.int64(pivots[b, j]) - first
            if row == j:
                row = other
            elif row == other:
                row = j
        out[b, i % m] = row


@functools.cache
def factors(dtype: np.dtype) -> Any:
    """P, L and U of A = P L U, from packed factors and the order of the rows of P^T A: all three in
    one launch."""
    T = numba_type(dtype)

    @cuda.jit
    def factors(packed, order, p, low, up):
        """packed: (count, m, n); order: (count, m) int64; p: (count, m, m); low: (count, m, k); up:
        (count, k, n), where k = min(m, n). One thread per element of the largest of them;
        neighbours lie in columns."""
        i = cuda.grid(1)
        m, n, k = packed.shape[1], packed.shape[2], low.shape[2]
        size = m * max(m, n)
        if i < packed.shape[0] * size:
            b, column, row = i // size, i % size // m, i % m
            if column < n:
                value = packed[b, row, column]
                if column < k:
                    low[b, row, column] = value if row > column else T(1) if row == column else T(0)
                if row < k:
                    up[b, row, column] = value if row <= column else T(0)
            if column < m:
                p[b, row, column] = T(1) if order[b, column] == row else T(0)

    return factors


@functools.cache
def log_determinant(dtype: np.dtype) -> Any:
    """Sign (or phase) and logarithm of the absolute value of det A, from the LU factors: one block
    per matrix.

    Each thread multiplies the signs and adds the logarithms of every THREADS-th diagonal element,
    and the block combines them in a fixed order: the same bits on every run. A row exchange (pivot
    i not i + 1) turns the sign.
    """
    T = numba_type(dtype)
    R = numba_type(real_dtype(dtype))
    kind = dtype.kind

    @device_function
    def sign_of(v, size):
        if kind == "c":
            return v / T(size)
        return T(1) if v > T(0) else T(-1)

    @cuda.jit
    def log_determinant(lu, pivots, sign, logdet):
        """lu: (count, n, n); pivots: (count, n) int32 or int64, 1-based; sign: (count,) of lu's
        dtype; logdet: (count,)."""
        signs = cuda.shared.array(THREADS, T)
        logs = cuda.shared.array(THREADS, R)
        b, t = cuda.blockIdx.x, cuda.threadIdx.x
        s, total = T(1), R(0)
        for i in range(t, lu.shape[1], THREADS):
            v = lu[b, i, i]
            size = abs(v)
            if size == R(0):
                s = T(0)
                total = R(-math.inf)
            else:
                s = s * sign_of(v, size)
                total += math.log(size)
            if pivots[b, i] != i + 1:
                s = -s
        signs[t] = s
        logs[t] = total
        cuda.syncthreads()
        half = THREADS // 2
        while half > 0:
            if t < half:
                signs[t] = signs[t] * signs[t + half]
                logs[t] = logs[t] + logs[t + half]
            cuda.syncthreads()
            half //= 2
        if t == 0:
            sign[b] = signs[0]
            logdet[b] = logs[0]

    return log_determinant
