"""Singular values and vectors by products of matrices, and by cuSOLVER. The choice: dispatch.py.

The idea of the products. V, the eigenvectors of A^H A, makes the columns of A V orthogonal to each
other, and an orthonormal basis Q of these, the largest first, makes Q^H A V = R triangular. R is
the diagonal of singular values but for what rounding left: an error of A^H A, eps s_1^2, is one of
eps s_1^2 / s_i in row i. Q and V are orthonormal whatever the values are.

- float32 and complex64 are computed in double precision, where all of that is below their own
  rounding (of the largest value): R's diagonal is the answer.
- Of float64 and complex128, R goes to cuSOLVER's Jacobi method: from where A would take 12 to 25
  sweeps over all pairs of columns, R takes none to 6. Powers of two bring A near 1 first, or its
  squares could leave the range.

Of -A^H A instead, since eigenvalues come ascending. A wide matrix is decomposed as its transpose:
A^T = U S V^H gives A = conj(V) S U^T.

The floor: 2 m n^2 operations for A^H A, 9 n^3 for its eigenvectors, some 4 m n^2 for Q R. On an
H200 512 columns of float32 take 6.6 ms, of float64 7.1. There cuSOLVER's QR algorithm (`gesvd`)
takes 49 and 55 and its Jacobi method 17 and 26, with errors that are 20 times as large and more.
"""

import functools
import math
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Flag, Input, Output, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import promote, real_dtype
from ...core.layout import Layout
from ...runtime import cublas, cusolver
from ..compiler.lazy_numba import cuda
from ..compiler.storage_types import numba_type
from ..copy.dispatch import copy_part
from ..copy.parts import Part
from .lapack_helpers import triangle
from .lapack_plans import symmetric
from .plan_builder import INT32, Work, batch, in_columns, new_cube, real_like, transposed
from .problem import SVDProblem
from .svd_jacobi import arithmetic, exponent

THREADS = 512
DOUBLE = np.dtype(np.float64)


# -------------------- kernels


@functools.cache
def near_one(dtype: np.dtype) -> Any:
    """Bring the largest element of each matrix near 1 by a power of two; a block has one."""
    R, (_, _, largest_part, scaled, _), top = (
        numba_type(real_dtype(dtype)),
        arithmetic(dtype),
        float(np.finfo(dtype).max),
    )

    @cuda.jit
    def near_one(a, powers):  # a: (count, m n), changed; powers: (count,) int32
        parts = cuda.shared.array(THREADS, R)
        b, t = cuda.blockIdx.x, cuda.threadIdx.x
        largest = R(0)
        for i in range(t, a.shape[1], THREADS):
            size = largest_part(a[b, i])
            if size > largest and size <= R(
                top
            ):  # neither NaN nor infinity: they stay what they are
                largest = size
        parts[t] = largest
        half = THREADS // 2
        while half > 0:
            cuda.syncthreads()
            if t < half:
                parts[t] = max(parts[t], parts[t + half])
            half //= 2
        cuda.syncthreads()
        _, power = math.frexp(parts[0])
        power = exponent(-power)
        for i in range(t, a.shape[1], THREADS):
            a[b, i] = scaled(a[b, i], power)
        if t == 0:
            powers[b] = power

    return near_one


@cuda.jit
def as_they_were(found, powers, s, flag, ticket):  # found, s: (count, n); powers: (count,) int32
    """Singular values of what `near_one` changed."""
    i = cuda.grid(1)
    n = s.shape[1]
    if i < s.size:
        b, j = i // n, i % n
        s[b, j] = math.ldexp(found[b, j], exponent(-powers[b]))
        if not found[b, j] < math.inf:
            flag[0] = -ticket


@cuda.jit
def diagonal_values(
    r, signed, s, flag, ticket
):  # r: (count, m, k), in double precision; signed, s: (count, n), n <= k
    """Singular values from R, whose diagonal holds them with either sign. Those that are but
    rounding may not descend; each is raised to the largest of those behind it, so that all do."""
    i = cuda.grid(1)
    n = s.shape[1]
    if i < s.size:
        b, j = i // n, i % n
        signed[b, j] = r[b, j, j].real
        largest = abs(signed[b, j])
        for behind in range(j + 1, n):
            largest = max(largest, abs(r[b, behind, behind].real))
        s[b, j] = largest
        if not largest < math.inf:
            flag[0] = -ticket


@functools.cache
def root_values(dtype: np.dtype) -> Any:
    """Singular values s = sqrt(-w) from the eigenvalues of -A^H A, of which rounding may leave some
    above 0."""
    T = numba_type(dtype)

    @cuda.jit
    def root_values(w, s, flag, ticket):  # w: (count, n) float64; s: (count, n)
        i = cuda.grid(1)
        n = s.shape[1]
        if i < s.size:
            b, j = i // n, i % n
            s[b, j] = T(math.sqrt(max(-w[b, j], 0.0)))
            if not abs(w[b, j]) < math.inf:
                flag[0] = -ticket

    return root_values


@functools.cache
def singular_vectors(dtype: np.dtype) -> Any:
    """From double precision: left = Q, with the signs of R's diagonal, and right = V^H."""
    T, conjugate = numba_type(dtype), arithmetic(dtype)[0]

    @cuda.jit
    def singular_vectors(q, v, signed, left, right):
        """q, left: (count, m, k); v, right: (count, n, n); signed: (count, n), n <= k. Neighbours
        lie in columns."""
        i = cuda.grid(1)
        m, k, n = left.shape[1], left.shape[2], right.shape[1]
        if i < left.size:
            b, j, row = i // (m * k), i // m % k, i % m
            found = q[b, row, j]
            left[b, row, j] = T(-found if j < n and signed[b, min(j, n - 1)] < 0 else found)
        elif i < left.size + right.size:
            i -= left.size
            b, j, row = i // (n * n), i // n % n, i % n
            right[b, row, j] = conjugate(T(v[b, j, row]))

    return singular_vectors


# -------------------- plans


class _Products:
    """The steps that all share, in scratch of double precision, of matrices with m >= n."""

    def __init__(self, work: Work, a: Layout):
        self.work, self.a = work, a
        *self.lead, self.m, self.n = a.shape
        self.count, self.dtype = batch(a), promote(a.dtype, DOUBLE)
        self.single = a.dtype != self.dtype
        inner = in_columns(a.like(dtype=self.dtype))
        self.columns = work.copy(Input(0), a, work.temp(inner), inner)
        if not self.single:
            self.powers = work.temp(a.like((self.count,), INT32))
            flat = self.columns.view((self.count, self.m * self.n))
            work.steps.append(
                Launch(near_one(self.dtype), self.count, THREADS, [flat, self.powers])
            )

    def temp(self, *shape: int, real: bool = False) -> Any:
        layout = self.a.like((self.count, *shape), self.dtype)
        return self.work.temp(real_like(layout, layout.shape) if real else layout)

    def multiply(
        self,
        rows: int,
        columns: int,
        depth: int,
        a: Any,
        b: Any,
        c: Any,
        *forms: cublas.Matrix,
        alpha: float = 1,
    ) -> None:
        """C (rows x columns) = alpha A B of what is read row by row."""
        self.work.call(
            cublas.gemm(self.dtype, rows, columns, depth, *forms, self.count, alpha=alpha), a, b, c
        )

    def eigenvectors(self, vectors: bool) -> tuple[Any, Any]:
        """V in columns, and the eigenvalues, of -A^H A, ascending."""
        m, n = self.m, self.n
        product, values, info = (
            self.temp(n, n),
            self.temp(n, real=True),
            self.work.info(self.a, self.count),
        )
        forms = [
            cublas.Matrix(how, rows, rows * n) for how, rows in ((0, m), (2, m), (0, n))
        ]  # 2: conjugate, transposed
        self.multiply(n, n, m, self.columns, self.columns, product, *forms, alpha=-1)
        self.work.call(
            symmetric(self.count, n)(self.dtype, n, cusolver.LOWER, vectors, self.count),
            product,
            values,
            info,
        )
        self.work.check(info, self.count)
        return product, values

    def triangular(self, v: Any, k: int) -> tuple[Any, Any]:
        """A V = Q R in the first n of k columns, R above the diagonal, and the reflections'
        factors."""
        m, n = self.m, self.n
        target, tau = self.temp(k, m), self.temp(n)
        self.multiply(
            n,
            m,
            n,
            v,
            self.columns,
            target,
            *[cublas.Matrix(0, rows, rows * width) for rows, width in ((n, n), (m, n), (m, k))],
        )
        self.work.call(
            cusolver.geqrf(self.dtype, m, n, m * k, self.count),
            target,
            tau,
            self.work.info(self.a, self.count),
        )
        return target, tau

    def orthonormal(self, target: Any, tau: Any, k: int) -> None:
        """Q in place of the reflections."""
        info = self.work.info(self.a, self.count)
        self.work.call(cusolver.orgqr(self.dtype, self.m, k, self.n, self.count), target, tau, info)

    def turned_on(self, target: Any, k: int, vectors: bool) -> tuple[Any, Any]:
        """R = U S V^H by Jacobi's method: U and V in columns, if wanted; s becomes the first output
        but for those two."""
        n, item = self.n, self.dtype.itemsize
        r, found = self.temp(n, n), self.temp(n, real=True)
        u, v = (self.temp(n, n), self.temp(n, n)) if vectors else (0, 0)
        columns = target.view((self.count, n, n), (self.m * k * item, item, self.m * item))
        self.work.launch(triangle(self.dtype, True), self.count * n * n, columns, self.square(r))
        info = self.work.info(self.a, self.count)
        self.work.call(cusolver.gesvdj(self.dtype, n, vectors, self.count), r, found, u, v, info)
        self.work.check(info, self.count)
        s = Output(1 if vectors else 0).view((self.count, n))
        self.work.launch(as_they_were, self.count * n, found, self.powers, s, Flag(), Ticket())
        return u, v

    def square(self, scratch: Any) -> Any:
        """(count, n, n) in columns."""
        item = self.dtype.itemsize
        return scratch.view(
            (self.count, self.n, self.n), (self.n * self.n * item, item, self.n * item)
        )


def svd(p: SVDProblem) -> Plan:
    """Version "products"."""
    if not p.vectors:
        return _values(p)
    a, (u, s, vh) = p.a, _in_order(p)
    work = Work(u, s, vh)
    left, right, outer = Output(0), Output(2), (u, vh)
    if a.shape[-2] < a.shape[-1]:
        a, left, right, outer = transposed(a), right, left, (transposed(vh), transposed(u))
    m, n, k, count = *a.shape[-2:], outer[0].shape[-1], batch(a)
    on = _Products(work, a)
    v, _ = on.eigenvectors(True)
    target, tau = on.triangular(v, k)
    q = target.view(
        (count, m, k), (m * k * on.dtype.itemsize, on.dtype.itemsize, m * on.dtype.itemsize)
    )
    if on.single:
        signed = on.temp(n, real=True)
        work.launch(
            diagonal_values, count * n, q, signed, Output(1).view((count, n)), Flag(), Ticket()
        )
        on.orthonormal(target, tau, k)
        work.launch(
            singular_vectors(a.dtype),
            u.size + vh.size,
            q,
            on.square(v),
            signed,
            *map(new_cube, (left, right), outer),
        )
        return work.plan()
    of_r = on.turned_on(target, k, True)
    on.orthonormal(target, tau, k)
    if k > n:  # the columns that full matrices add
        shape, step = (count, m, k - n), on.dtype.itemsize
        added = Layout.of(shape, (m * k * step, step, m * step), on.dtype, a.device)
        work.steps += copy_part(Part(target, added, m * n * step), Part(left, added, m * n * step))
    forms = [cublas.Matrix(0, rows, rows * width) for rows, width in ((n, n), (m, k), (m, k))]
    on.multiply(n, m, n, of_r[0], target, left, *forms)  # U = Q times R's
    forms = [cublas.Matrix(how, n, n * n) for how in (2, 2, 0)]
    on.multiply(n, n, n, v, of_r[1], right, *forms)  # V^H, of V times R's
    return work.plan()


def _in_order(p: SVDProblem) -> list[Layout]:
    """u, s, vh: those of a tall matrix in columns."""
    u, s, vh = p.outputs
    m, n = p.a.shape[-2:]
    return [in_columns(u), s, in_columns(vh)] if m >= n else [u, s, vh]


def _values(p: SVDProblem) -> Plan:
    """The singular values alone."""
    a, k, (s,) = p.a, p.k, p.outputs
    (m, n), count = a.shape[-2:], batch(a)
    work = Work(s)
    on = _Products(work, a if m >= n else transposed(a))
    v, values = on.eigenvectors(not on.single)
    if on.single:
        work.launch(
            root_values(s.dtype), s.size, values, Output(0).view((count, k)), Flag(), Ticket()
        )
    else:
        on.turned_on(on.triangular(v, k)[0], k, False)
    return work.plan()


def gesvd(p: SVDProblem) -> Plan:
    """Version "gesvd": cuSOLVER's QR algorithm on two diagonals."""
    a, k = p.a, p.k
    (m, n), count = a.shape[-2:], batch(a)
    outputs = _in_order(p) if p.vectors else p.outputs
    work = Work(*outputs)
    inner = in_columns(a) if m >= n else a.like()
    copied = work.copy(Input(0), a, work.temp(inner), inner)
    info = work.info(a, count)
    left, s, right, job = 0, Output(0), 0, "N"
    if p.vectors:
        left, s, right, job = Output(0), Output(1), Output(2), "A" if p.full else "S"
        if m < n:
            left, right = right, left
    work.call(cusolver.gesvd(a.dtype, max(m, n), k, job, count), copied, s, left, right, info)
    work.check(info, count)
    return work.plan()
