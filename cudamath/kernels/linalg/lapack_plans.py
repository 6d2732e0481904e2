"""Matrix decompositions: plans of cuSOLVER and cuBLAS calls. The small kernels between them:
kernels/linalg/lapack_helpers.py.

The idea. LAPACK's routines, which both libraries have, work in place on column-major matrices. The
copy that this takes is one that is needed anyway, since inputs must stay what they are; so each
planner chooses the order of the copy such that nothing has to be moved afterwards:

- A row-major A, read as columns, is A^T. P A^T = L U solves A X = B as well (as its transpose) and
  has the same determinant; its inverse, read as rows, is the inverse of A. So LU takes matrices in
  the order in which they lie.
- cuSOLVER finds lower Cholesky factors twice as fast as upper ones. A^T = conj(L L^H) is what rows
  of A are: so an upper factor comes from A as it lies, as the lower one of A^T, and a lower one
  from A in columns.
- A wide matrix is decomposed as its transpose (A^T = U S V^H gives A = conj(V) S U^T): what comes
  back, read in rows, is what was asked for.
- Solutions, Q, L, eigenvectors and the factors of a tall matrix come out in columns and are handed
  on like that: an array's strides say so, and a product reads either order.

One matrix, or a few large ones, go to cuSOLVER one after the other. Batches go to the routines that
take a table of addresses, which ``addresses`` writes on the device. ``reflected`` multiplies out Q
of such a batch, one thread per column; no library does that, nor LU of a batch of rectangles.

Versions in shared memory, singular values, and the choice: dispatch.py.

Failures (a singular matrix, an iteration that does not converge) are known on the device only:
``check_info`` writes the call's ticket, negative, into the error flag, and the next synchronisation
raises LinAlgError.

The floor: (2/3) n^3 operations for LU, n^3 / 3 for Cholesky, (4/3) n^3 for QR, 4 n^3 and more for
eigenvalues; the copies move 2 n^2 numbers beside them.
"""

import math
from typing import Any

import numpy as np

from ...core import shapes
from ...core.dispatch.arguments import Flag, Input, Output, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import real_dtype
from ...core.layout import Layout
from ...runtime import cusolver, kernel_errors
from ..copy.dispatch import copy_part
from ..copy.parts import Part, whole
from .lapack_helpers import (
    THREADS,
    check_diagonal,
    identity,
    inverse_values,
    log_determinant,
    one_based,
    paired,
    reflected,
    row_order,
    triangle,
)
from .lu_plan import lu_plan
from .plan_builder import (
    INT32,
    INT64,
    Work,
    batch,
    in_columns,
    is_batched,
    lies_in_columns,
    new_cube,
    real_like,
)
from .problem import (
    FactoredProblem,
    HermitianProblem,
    LUProblem,
    QRProblem,
    TriangularProblem,
)

JACOBI = 32  # the largest that cuSOLVER's batched Jacobi method takes
# Rows of a matrix without symmetry up to which LAPACK is faster than cuSOLVER (6 and 5 ms, on an
# H200): real ones and complex ones with their vectors, and eigenvalues alone. With more, its
# threads can take ten times as long on a machine of many processors.
ON_HOST, VALUES_ON_HOST = {"f": 64, "c": 48}, 64
# larger triangular matrices in rows are copied into columns: systems with a transposed one take 1.7
# times as long
TURNED = 64
# A batched routine takes as long for one matrix as for many, and far longer than the other routine
# does for one: a batch goes there if n^2 <= count * one of these (measured on an H200, n from 64 to
# 1,024). Batched LU itself is the least slow.
LU, INVERSE, EIGENVALUES, REFLECTORS = 32768, 8192, 65536, 512

kernel_errors.failures.update(
    {
        "solve": "Singular matrix",
        "inv": "Singular matrix",
        "cholesky": "Matrix is not positive definite",
        "eig": "Eigenvalues did not converge",
        "eigvals": "Eigenvalues did not converge",
    }
)


def factor(
    work: Work, a: Layout, columns: bool, share: int = LU
) -> tuple[Any, Layout, Any, Any, Any]:
    """LU of a square matrix, or of its transpose, in scratch: (the factors, their layout, pivots,
    info, table of addresses or None)."""
    n, count = a.shape[-1], batch(a)
    inner = in_columns(a) if columns else a.like()
    lu = work.copy(Input(0), a, work.temp(inner), inner)
    info = work.info(a, count)
    if is_batched(count, n, share):
        table = work.table(lu, inner, count, n * n * a.itemsize)
        pivots = work.temp(a.like((count, n), INT32))
        work.call(cusolver.getrf_batched(a.dtype, n, count), table, pivots, info)
    else:
        table, pivots = None, work.temp(a.like((count, n), INT64))
        work.call(cusolver.getrf(a.dtype, n, n, count), lu, pivots, info)
    return lu, inner, pivots, info, table


# -------------------- planners
# Arrays are never empty here (ops/linalg/solve.py sees to that). a: (..., m, n); batch axes of all
# inputs are the same.


def solve(a: Layout, b: Layout) -> Plan:
    """a: (..., n, n), b: (..., n, k) -> x: (..., n, k)."""
    n, k, count = *b.shape[-2:], batch(a)
    x = in_columns(b)
    work = Work(x)
    columns = lies_in_columns(a) or not is_batched(
        count, n, LU
    )  # large transposed systems take longer than turning them round
    lu, _, pivots, info, table = factor(work, a, columns)
    work.check(info, count)
    work.copy(Input(1), b, Output(0), x)
    transpose = cusolver.NO_TRANSPOSE if columns else cusolver.TRANSPOSE
    if table is None:
        work.call(cusolver.getrs(a.dtype, n, k, transpose, count), lu, pivots, Output(0), info)
    else:
        to = work.table(Output(0), x, count, n * k * a.itemsize)
        work.call(cusolver.getrs_batched(a.dtype, n, k, transpose, count), table, pivots, to)
    return work.plan()


def _determinant(work: Work, lu: Any, layout: Layout, pivots: Any, sign: Any, logdet: Any) -> None:
    """Sign and logarithm of determinants from the factors, arrays of one number a matrix."""
    count = batch(layout)
    work.steps.append(
        Launch(
            log_determinant(layout.dtype),
            count,
            THREADS,
            [new_cube(lu, layout), pivots, sign.view((count,)), logdet.view((count,))],
        )
    )


def inv(a: Layout) -> Plan:
    """a: (..., n, n) -> (..., n, n), in the order in which a lies."""
    return _inverse(a, False)


def inv_and_sign(a: Layout) -> Plan:
    """a: (..., n, n) -> inverses and signs of determinants, (...). Of a singular matrix, whose sign
    is 0, any numbers."""
    return _inverse(a, True)


def _inverse(a: Layout, sign: bool) -> Plan:
    n, count, lead = a.shape[-1], batch(a), a.shape[:-2]
    x = in_columns(a) if lies_in_columns(a) else a.like()
    work = Work(x, a.like(lead)) if sign else Work(x)
    lu, inner, pivots, info, table = factor(work, a, lies_in_columns(a), INVERSE)
    if sign:
        _determinant(work, lu, inner, pivots, Output(1), work.temp(real_like(a, lead)))
    else:
        work.check(info, count)
    if table is None:
        work.launch(identity(a.dtype), a.size, new_cube(Output(0), x))
        work.call(
            cusolver.getrs(a.dtype, n, n, cusolver.NO_TRANSPOSE, count), lu, pivots, Output(0), info
        )
    else:
        to = work.table(Output(0), x, count, n * n * a.itemsize)
        work.call(cusolver.getri_batched(a.dtype, n, count), table, pivots, to, info)
    return work.plan()


def slogdet(a: Layout) -> Plan:
    """a: (..., n, n) -> sign and log |det|, both (...). A singular matrix is none of the failures:
    0 and -inf."""
    lead = a.shape[:-2]
    work = Work(a.like(lead), real_like(a, lead))
    lu, inner, pivots, _, _ = factor(work, a, lies_in_columns(a))
    _determinant(work, lu, inner, pivots, Output(0), Output(1))
    return work.plan()


def lu(p: LUProblem) -> Plan:
    """Version "cusolver" of an LU decomposition."""
    return lu_plan(p, _packed)


def _packed(work: Work, a: Layout, target: Any, to: Layout, pivots: Any) -> tuple[Any, int]:
    """See `lu_plan`."""
    (m, n), count = a.shape[-2:], batch(a)
    work.copy(Input(0), a, target, to)
    info = work.info(a, count)
    if m == n and is_batched(count, n, LU):
        found = work.temp(a.like((count, n), INT32))
        work.call(
            cusolver.getrf_batched(a.dtype, n, count),
            work.table(target, to, count, n * n * a.itemsize),
            found,
            info,
        )
    else:
        found = work.temp(a.like((count, min(m, n)), INT64))
        work.call(cusolver.getrf(a.dtype, m, n, count), target, found, info)
    return found, 1


def exchanged(pivots: Layout, *, m: int) -> Plan:
    """pivots: (..., k), 0-based, in C order -> the order of the rows of P A, (..., m), int64."""
    lead, k = pivots.shape[:-1], pivots.shape[-1]
    work = Work(pivots.like((*lead, m), INT64))
    count = math.prod(lead)
    if count * m:
        work.launch(row_order, count * m, Input(0).view((count, k)), Output(0).view((count, m)), 0)
    return work.plan()


def lu_solve(p: FactoredProblem) -> Plan:
    """Version "cusolver" of a solution from LU factors."""
    packed, b, x = p.a, p.b, p.x
    n, k, count = *b.shape[-2:], batch(packed)
    work = Work(x)
    inner, lu = in_columns(packed), Input(0)
    if packed.strides != inner.strides:
        lu = work.copy(lu, packed, work.temp(inner), inner)
    work.launch(check_diagonal(packed.dtype), count * n, new_cube(lu, inner), Flag(), Ticket())
    together = is_batched(count, n, LU)
    rows = work.temp(packed.like((count * n,), INT32 if together else INT64))
    work.launch(one_based, count * n, Input(2).view((count * n,)), rows, n, Flag(), Ticket())
    work.copy(Input(1), b, Output(0), x)
    if together:
        step = n * packed.itemsize
        tables = work.table(lu, inner, count, n * step), work.table(Output(0), x, count, k * step)
        work.call(
            cusolver.getrs_batched(packed.dtype, n, k, cusolver.NO_TRANSPOSE, count),
            tables[0],
            rows,
            tables[1],
        )
    else:
        work.call(
            cusolver.getrs(packed.dtype, n, k, cusolver.NO_TRANSPOSE, count),
            lu,
            rows,
            Output(0),
            work.info(packed, count),
        )
    return work.plan()


def solve_triangular(p: TriangularProblem) -> Plan:
    """Version "cublas" of a triangular solution."""
    a, b, x, lower, unit = p.a, p.b, p.x, p.lower, p.unit
    n, k, count, item = *b.shape[-2:], batch(a), a.itemsize
    work = Work(x)
    read: Any = Input(0)
    lead, steps = shapes.collapse(a.shape[:-2], a.strides[:-2])
    columnwise = lies_in_columns(a)
    row, column = (s // item for s in (a.strides[-2:] if not columnwise else a.strides[:-3:-1]))
    unreadable = (
        len(lead) > 1
        or any(s % item for s in a.strides)
        or column != 1
        and n > 1
        or row < n
        and n > 1
    )
    if unreadable or count == 1 and n > TURNED and not columnwise:
        inner = in_columns(a)
        read, a = work.copy(read, a, work.temp(inner), inner), inner
        lead, steps = shapes.collapse(a.shape[:-2], a.strides[:-2])
        columnwise, row = True, n
    step = steps[0] if lead else 0
    if not unit:
        work.launch(
            check_diagonal(a.dtype),
            count * n,
            read.view((count, n, n), (step, *a.strides[-2:])),
            Flag(),
            Ticket(),
        )
    work.copy(Input(1), b, Output(0), x)
    # rows of A, read as columns, are A^T, whose triangle is the other one
    transpose = cusolver.NO_TRANSPOSE if columnwise else cusolver.TRANSPOSE
    stored = cusolver.LOWER if lower == columnwise else cusolver.UPPER
    size = (cusolver.LEFT, stored, transpose, unit, n, k, max(row, n), n)
    if count == 1:
        work.call(cusolver.trsm(a.dtype, *size), read, Output(0))
    else:
        tables = work.table(read, a, count, step), work.table(Output(0), x, count, n * k * item)
        work.call(cusolver.trsm(a.dtype, *size, count), *tables)
    return work.plan()


def cholesky(a: Layout, *, upper: bool) -> Plan:
    """a: (..., n, n), one triangle of it -> its factor: a lower one in columns, an upper one in
    rows."""
    n, count = a.shape[-1], batch(a)
    out = a.like() if upper else in_columns(a)
    work = Work(out)
    work.copy(Input(0), a, Output(0), out)
    info = work.info(a, count)
    if count > 2:
        table = work.table(Output(0), out, count, n * n * a.itemsize)
        work.call(cusolver.potrf_batched(a.dtype, n, cusolver.LOWER, count), table, info)
    else:
        work.call(cusolver.potrf(a.dtype, n, cusolver.LOWER, count), Output(0), info)
    work.check(info, count)
    work.launch(
        triangle(a.dtype, upper), a.size, new_cube(Output(0), out), new_cube(Output(0), out)
    )
    return work.plan()


def _reflectors(work: Work, a: Layout, target: Any, to: Layout) -> Any:
    """Householder's reflectors of `a` in the first columns of a column-major target; their factors
    tau."""
    m, n = a.shape[-2:]
    count, k = batch(a), min(m, n)
    inside = to.view((*to.shape[:-1], n), to.strides)
    work.steps += copy_part(whole(Input(0), a), Part(target, inside))
    taus = a.like((count, k))
    tau = work.temp(taus)
    if is_batched(count, max(m, n), REFLECTORS):
        tables = (
            work.table(target, to, count, m * to.shape[-1] * a.itemsize),
            work.table(tau, taus, count, k * a.itemsize),
        )
        work.call(cusolver.geqrf_batched(a.dtype, m, n, count), *tables)
    else:
        work.call(
            cusolver.geqrf(a.dtype, m, n, m * to.shape[-1], count), target, tau, work.info(a, count)
        )
    return tau


def qr(p: QRProblem) -> Plan:
    """Version "cusolver" of a QR decomposition."""
    if not p.vectors:
        return _r(p)
    a, k, (q, r) = p.a, p.k, p.outputs
    (m, n), count = a.shape[-2:], batch(a)
    work = Work(q, r)
    together = is_batched(count, max(m, n), REFLECTORS)
    if n <= k and not together:
        target, to = Output(0), q
    else:
        to = in_columns(a)
        target = work.temp(to)
    tau = _reflectors(work, a, target, to)
    work.launch(triangle(a.dtype, True), r.size, new_cube(target, to), new_cube(Output(1), r))
    if together:
        work.launch(
            reflected(a.dtype), count * k, new_cube(target, to), tau, new_cube(Output(0), q)
        )
        return work.plan()
    if target != Output(0):
        work.steps += copy_part(Part(target, to.view(q.shape, to.strides)), whole(Output(0), q))
    work.call(cusolver.orgqr(a.dtype, m, k, min(m, n), count), Output(0), tau, work.info(a, count))
    return work.plan()


def _r(p: QRProblem) -> Plan:
    """R alone."""
    a, (r,) = p.a, p.outputs
    work = Work(r)
    to = in_columns(a)
    target = work.temp(to)
    _reflectors(work, a, target, to)
    work.launch(triangle(a.dtype, True), r.size, new_cube(target, to), new_cube(Output(0), r))
    return work.plan()


def symmetric(count: int, n: int) -> Any:
    """The routine for the eigenvalues of so many Hermitian matrices."""
    if not is_batched(count, n, EIGENVALUES):
        return cusolver.syevd
    return cusolver.syevj_batched if n <= JACOBI else cusolver.syev_batched


def eigh(p: HermitianProblem) -> Plan:
    """Version "cusolver" of the eigenvalues of Hermitian matrices."""
    a, vectors = p.a, p.vectors
    n, count = a.shape[-1], batch(a)
    w, v = p.outputs[0], in_columns(a)
    work = Work(w, v) if vectors else Work(w)
    target = Output(1) if vectors else work.temp(v)
    work.copy(Input(0), a, target, v)
    info = work.info(a, count)
    routine, half = symmetric(count, n), cusolver.UPPER if p.upper else cusolver.LOWER
    work.call(routine(a.dtype, n, half, vectors, count), target, Output(0), info)
    work.check(info, count)
    return work.plan()


def _general(a: Layout, vectors: bool) -> Plan:
    n, count = a.shape[-1], batch(a)
    dtype = np.dtype(np.complex64 if real_dtype(a.dtype).itemsize == 4 else np.complex128)
    w, v, inner = a.like(a.shape[:-1], dtype), in_columns(a.like(dtype=dtype)), in_columns(a)
    work = Work(w, v) if vectors else Work(w)
    copied = work.copy(Input(0), a, work.temp(inner), inner)
    if n <= (ON_HOST[a.dtype.kind] if vectors else VALUES_ON_HOST):
        work.call(
            cusolver.geev_on_host(a.dtype, n, vectors, count),
            copied,
            Output(0),
            Output(1) if vectors else 0,
        )
        return work.plan()
    info = work.info(a, count)
    packed = a.dtype != dtype
    into = 0 if not vectors else work.temp(inner) if packed else Output(1)
    work.call(cusolver.geev(a.dtype, n, vectors, count), copied, Output(0), into, info)
    work.check(info, count)
    if vectors and packed:
        work.launch(
            paired(dtype),
            v.size,
            Output(0).view((count, n)),
            new_cube(into, inner),
            new_cube(Output(1), v),
        )
    return work.plan()


def eig(a: Layout) -> Plan:
    """a: (..., n, n) -> w: (..., n), v: (..., n, n), in columns; both complex."""
    return _general(a, True)


def eigvals(a: Layout) -> Plan:
    """a: (..., n, n) -> w: (..., n), complex."""
    return _general(a, False)


def inverted(s: Layout, *, ratio: float) -> Plan:
    """s: (..., k), descending -> 1 / s or 0, (..., k); rank: (...), int64."""
    k, count = s.shape[-1], batch(s, 1)
    work = Work(s.like(), s.like(s.shape[:-1], INT64))
    values, inverse, rank = (
        Input(0).view((count, k)),
        Output(0).view((count, k)),
        Output(1).view((count,)),
    )
    work.launch(inverse_values(s.dtype), s.size, values, inverse, rank, s.dtype.type(ratio))
    return work.plan()
