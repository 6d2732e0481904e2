"""Products with sparse matrices: the choice among the versions.

Versions of a product of a CSR matrix and a dense one (csr_product.py), from simple to fast:

    plain       one thread per element of the result: a long row keeps one thread busy
    columns     blocks take equal shares of the elements and ends of rows, threads columns
    vector      the same for vectors: neighbouring threads read neighbouring elements
    rows        vectors; a group of threads per row: for rows that are known to be alike, as a
                matrix knows from its second product on (sparse.products.rows_alike)
    cusparse    the library (cusparse_product.py); products with a vector have the same bits at
                every call, with a matrix not always, so nothing but its name chooses it

and of elements of a product of dense matrices (sampled_product.py):

    plain       one thread per element
    lanes       a group of threads per element
    cusparse    as above

On an H100 "rows" took 0.80 (float32) and 0.87 (float64) of the time of "vector" on 17 matrices
(geometric means); 2.5 and 4.3 times of it on one of 256 rows, which has too few threads. Blocks of
dense elements: block_product.py. Triangular solutions: triangular.py.
"""

from __future__ import annotations

from ...core.dispatch.plan import Plan
from ...core.dtypes import compute_dtype
from ...core.layout import Layout
from ...runtime import cusparse, device
from ..compiler.lazy_numba import SIMULATOR
from ..lib.versions import Version, choose, never
from .problem import ProductProblem, SampledProblem


def has_elements(p: ProductProblem) -> bool:
    return p.stored > 0


def is_vector(p: ProductProblem) -> bool:
    return p.stored > 0 and p.columns == 1


def are_rows_alike(p: ProductProblem) -> bool:
    """Rows are known to be alike, and there are enough for two blocks of each multiprocessor."""
    return p.alike and p.rows * p.lanes >= 512 * device.multiprocessors(p.b.device)


def has_shuffles(p: SampledProblem) -> bool:
    """Shuffles move floating-point numbers, and the simulator has none."""
    return not SIMULATOR and compute_dtype(p.a.dtype).kind == "f" and p.a.shape[1] > 1


def has_cusparse(p: ProductProblem) -> bool:
    """Whether cuSPARSE is there, and has these dtypes; its values are in order."""
    return p.stored > 0 and p.places is None and _in_cusparse(p.indices, p.indptr, p.data, p.b)


def cusparse_samples(p: SampledProblem) -> bool:
    """The same. float16 and bfloat16 are rounded in between there."""
    return (
        p.a.shape[1] > 0 and p.a.dtype.itemsize > 2 and _in_cusparse(p.columns, p.indptr, p.a, p.b)
    )


def _in_cusparse(indices: Layout, indptr: Layout, *values: Layout) -> bool:
    return (
        values[0].dtype in cusparse.DTYPES
        and indices.dtype == indptr.dtype in cusparse.INDICES
        and all(x.aligned for x in (indices, indptr, *values))
        and cusparse.available()
    )


PRODUCT = (
    Version(
        "rows",
        "sparse.csr_product.by_rows",
        is_vector,
        are_rows_alike,
        "a vector, and rows alike: a group of threads for each",
    ),
    Version(
        "vector",
        "sparse.csr_product.by_vector",
        is_vector,
        reason="a vector: blocks take equal shares of elements and rows",
    ),
    Version(
        "columns",
        "sparse.csr_product.by_columns",
        has_elements,
        reason="columns: groups of threads take equal shares of elements and rows",
    ),
    Version("cusparse", "sparse.cusparse_product.plan", has_cusparse, never, "on request"),
    Version("plain", "sparse.csr_product.by_elements", reason="no stored elements: zeros"),
)
SAMPLED = (
    Version(
        "lanes",
        "sparse.sampled_product.by_lanes",
        has_shuffles,
        reason="neighbouring threads read neighbouring elements of a row",
    ),
    Version("cusparse", "sparse.cusparse_product.sampled", cusparse_samples, never, "on request"),
    Version("plain", "sparse.sampled_product.by_elements", reason="one thread per element"),
)


def csr_product(
    data: Layout,
    indices: Layout,
    indptr: Layout,
    b: Layout,
    starts: Layout | None = None,
    _order: Layout | None = None,
    _rows: Layout | None = None,
    _row_starts: Layout | None = None,
    places: Layout | None = None,
    *,
    alike: bool = False,
    version: str | None = None,
) -> Plan:
    """data, indices, places: (nnz,), indptr: (rows + 1,), b: (n, k), starts: (shares + 1,) ->
    (rows, k)."""
    ahead = 4 + sum([x is not None for x in (starts, _order, _rows, _row_starts)])
    p = ProductProblem(data, indices, indptr, b, starts, alike, places, ahead)
    if not p.out.size:
        return Plan([p.out], [])
    return choose("csr_product", PRODUCT, p, version)


def sampled_product(
    rows: Layout,
    columns: Layout,
    indptr: Layout,
    a: Layout,
    b: Layout,
    *,
    version: str | None = None,
) -> Plan:
    """rows, columns: (nnz,), indptr: (m + 1,), a: (m, k), b: (n, k) -> (nnz,)."""
    p = SampledProblem(rows, columns, indptr, a, b)
    if not p.out.size:
        return Plan([p.out], [])
    return choose("sampled_product", SAMPLED, p, version)
