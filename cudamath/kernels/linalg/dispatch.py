"""Decompositions and solutions of matrices: the choice among their versions.

    operation                versions                             files
    svd, svdvals             jacobi, products, gesvd              svd_jacobi, svd_products
    eigh, eigvalsh           jacobi, cusolver                     eigh_jacobi, lapack_plans
    qr, qr_r                 shared_memory, cusolver              qr_small, lapack_plans
    lu, lu_factor            shared_memory, cusolver              lu_small, lapack_plans
    lu_solve                 shared_memory, cusolver              triangular_solve, lapack_plans
    solve_triangular         shared_memory, cublas                triangular_solve, lapack_plans

Small matrices take one launch, in which a block holds a matrix in shared memory. Libraries take
several launches for each, and of small matrices launches are all that counts.

Of one version each: solve, inv, inv_and_sign, slogdet, cholesky, eig, eigvals, exchanged and
inverted (lapack_plans.py), cross (cross.py). Among cuSOLVER's routines, for one matrix or for a
batch, lapack_plans.py chooses by the number of matrices and their size.
"""

from __future__ import annotations

from ...core.dispatch.arguments import Input
from ...core.dispatch.plan import Plan
from ...core.dtypes import real_dtype
from ...core.layout import Layout
from ...runtime import kernel_errors
from ..lib.integers import blocks
from ..lib.versions import Version, choose, never
from .plan_builder import LARGEST, MOST_ROWS, SOLVED_COLUMNS, batch, cube
from .problem import (
    FactoredProblem,
    HermitianProblem,
    LUProblem,
    QRProblem,
    SVDProblem,
    TriangularProblem,
)

kernel_errors.failures.update(
    {
        "solve_triangular": "Singular matrix",
        "lu_solve": "Singular matrix",
        "eigh": "Eigenvalues did not converge",
        "eigvalsh": "Eigenvalues did not converge",
        "svd": "SVD did not converge",
        "svdvals": "SVD did not converge",
    }
)

# -------------------- systems of equations


MOST = 256  # blocks that an H100 runs at a time: of more systems or columns a library's products


def fits_panels(p: TriangularProblem | FactoredProblem) -> bool:
    """Small systems that lie one after the other."""
    regular = None not in (cube(Input(0), p.a), cube(Input(1), p.b))
    return regular and p.a.shape[-1] <= MOST_ROWS[p.a.itemsize]


def runs_at_once(p: TriangularProblem | FactoredProblem) -> bool:
    return blocks(p.b.shape[-1], SOLVED_COLUMNS) * p.systems <= MOST


SMALL_SYSTEMS = "small systems, few blocks: one launch"
SOLVE_TRIANGULAR = (
    Version(
        "shared_memory",
        "linalg.triangular_solve.solve_triangular",
        fits_panels,
        runs_at_once,
        SMALL_SYSTEMS,
    ),
    Version("cublas", "linalg.lapack_plans.solve_triangular", reason="large systems, or many"),
)
LU_SOLVE = (
    Version(
        "shared_memory",
        "linalg.triangular_solve.lu_solve",
        fits_panels,
        runs_at_once,
        SMALL_SYSTEMS,
    ),
    Version("cusolver", "linalg.lapack_plans.lu_solve", reason="large systems, or many"),
)


def solve_triangular(
    a: Layout, b: Layout, *, lower: bool, unit: bool, version: str | None = None
) -> Plan:
    """a: (..., n, n), one triangle of it; b: (..., n, k) -> (..., n, k), in columns. version: a
    name in SOLVE_TRIANGULAR; by default the preferred one."""
    problem = TriangularProblem(a, b, lower, unit)
    return choose("solve_triangular", SOLVE_TRIANGULAR, problem, version)


def lu_solve(packed: Layout, b: Layout, pivots: Layout, *, version: str | None = None) -> Plan:
    """packed: (..., n, n), b: (..., n, k), pivots: (..., n), 0-based, in C order -> x: (..., n, k),
    in columns. version: a name in LU_SOLVE; by default the preferred one."""
    return choose("lu_solve", LU_SOLVE, FactoredProblem(packed, b, pivots), version)


# -------------------- LU


def is_small_rectangle(p: LUProblem) -> bool:
    """Matrices that lie one after the other in memory, each of which fits into shared memory."""
    return max(p.a.shape[-2:]) <= LARGEST[p.a.itemsize] and cube(Input(0), p.a) is not None


def prefers_rectangles(p: LUProblem) -> bool:
    """Many rectangles: cuBLAS factors batches of square matrices only."""
    m, n = p.a.shape[-2:]
    return m != n and batch(p.a) > 1


LU = (
    Version(
        "shared_memory",
        "linalg.lu_small.lu",
        is_small_rectangle,
        prefers_rectangles,
        "many small rectangles: a block for each",
    ),
    Version("cusolver", "linalg.lapack_plans.lu", reason="one matrix, square or large ones"),
)


def lu_factor(a: Layout, *, version: str | None = None) -> Plan:
    """a: (..., m, n) -> the packed factors (..., m, n), in columns, and the pivots (..., min(m,
    n)), int32, 0-based. version: a name in LU; by default the preferred one."""
    return choose("lu_factor", LU, LUProblem(a, True), version)


def lu(a: Layout, *, version: str | None = None) -> Plan:
    """a: (..., m, n) -> p: (..., m, m), l: (..., m, k), u: (..., k, n), all in columns; k = min(m,
    n). version: as for `lu_factor`."""
    return choose("lu", LU, LUProblem(a, False), version)


# -------------------- QR

QR = (
    Version("shared_memory", "linalg.qr_small.qr", reason="matrices that fit into shared memory"),
    Version("cusolver", "linalg.lapack_plans.qr", reason="large matrices"),
)


def qr(a: Layout, *, complete: bool, version: str | None = None) -> Plan:
    """a: (..., m, n) -> q: (..., m, k), in columns, and r: (..., k, n); k is m if `complete`, else
    min(m, n). version: a name in QR; by default the preferred one that can do it."""
    return choose("qr", QR, QRProblem(a, complete, True), version)


def qr_r(a: Layout, *, version: str | None = None) -> Plan:
    """a: (..., m, n) -> r: (..., min(m, n), n). version: as for `qr`."""
    return choose("qr_r", QR, QRProblem(a, False, False), version)


# -------------------- eigenvalues of Hermitian matrices

# Bytes of a row, and rows where no vectors are computed, up to which eigh_jacobi.py is faster than
# cuSOLVER (on an H200: 1.1 to 8 times; at batches of about 100 up to a fifth slower, and there as
# everywhere some ten times as exact).
HERMITIAN_ROW, HERMITIAN_VALUES = 256, 32


def prefers_two_sided_jacobi(p: HermitianProblem) -> bool:
    n = p.a.shape[-1]
    return n * p.a.itemsize <= HERMITIAN_ROW and (p.vectors or n <= HERMITIAN_VALUES)


EIGH = (
    Version(
        "jacobi",
        "linalg.eigh_jacobi.eigh",
        prefers=prefers_two_sided_jacobi,
        reason="small matrices: Jacobi's method in shared memory",
    ),
    Version("cusolver", "linalg.lapack_plans.eigh", reason="large matrices"),
)


def eigh(a: Layout, *, upper: bool, version: str | None = None) -> Plan:
    """a: (..., n, n) -> w: (..., n), v: (..., n, n), in columns. version: a name in EIGH; by
    default the preferred one that can do it."""
    return choose("eigh", EIGH, HermitianProblem(a, upper, True), version)


def eigvalsh(a: Layout, *, upper: bool, version: str | None = None) -> Plan:
    """a: (..., n, n) -> w: (..., n). version: as for `eigh`."""
    return choose("eigvalsh", EIGH, HermitianProblem(a, upper, False), version)


# -------------------- singular values

# Rows and columns beyond which products take less time for the singular values of a matrix of
# float32.
SVD_PRODUCTS = 64


def prefers_one_sided_jacobi(p: SVDProblem) -> bool:
    """Kernels take as long for one matrix as for a hundred, all at once. Products of many give
    their eigenvalues together, but one by one their vectors."""
    alone = batch(p.a) == 1 or not p.vectors
    single = real_dtype(p.a.dtype).itemsize == 4
    return not (alone and single and p.k > SVD_PRODUCTS)


SVD = (
    Version(
        "jacobi",
        "linalg.svd_jacobi.svd",
        prefers=prefers_one_sided_jacobi,
        reason="small matrices: Jacobi's method in shared memory",
    ),
    Version(
        "products",
        "linalg.svd_products.svd",
        reason="large matrices: from the eigenvectors of A^H A",
    ),
    Version("gesvd", "linalg.svd_products.gesvd", prefers=never, reason="on request"),
)


def svd(a: Layout, *, full: bool, version: str | None = None) -> Plan:
    """a: (..., m, n) -> u: (..., m, m or k), s: (..., k), vh: (..., n or k, n), where k = min(m,
    n). version: a name in SVD; by default the preferred one that can do it."""
    return choose("svd", SVD, SVDProblem(a, full, True), version)


def svdvals(a: Layout, *, version: str | None = None) -> Plan:
    """a: (..., m, n) -> s: (..., min(m, n)). version: as for `svd`."""
    return choose("svdvals", SVD, SVDProblem(a, False, False), version)
