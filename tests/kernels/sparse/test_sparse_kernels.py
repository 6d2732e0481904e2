"""The kernels of sparse products by name, in the simulator: rows of every length, shares that cut
them, empty rows, every kind of dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from gradient_checks import MACHINES, run_version

import cudamath as cm
from cudamath.kernels.sparse import block_product, csr_product, dispatch, triangular
from cudamath.kernels.sparse.problem import ProductProblem, SampledProblem
from cudamath.sparse import products


def layouts(*arrays: np.ndarray) -> list[Any]:
    return [cm.testing.layout_of(x) for x in arrays]


def names(plan: Any) -> list[str]:
    return [step.kernel.__name__ for step in plan.steps]


def matrix(
    rows: int, columns: int, lengths: Any, dtype: Any, index: Any = np.int32
) -> sp.csr_array:
    """A CSR array with rows of given lengths, of small integers: sums are exact in any order."""
    rng = np.random.default_rng(7)
    lengths = np.resize(np.asarray(lengths), rows)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.concatenate([[], *[np.sort(rng.choice(columns, n, False)) for n in lengths]])
    values = rng.integers(-4, 5, len(indices))
    values = (
        values + 1j * rng.integers(-4, 5, len(indices)) if np.dtype(dtype).kind == "c" else values
    )
    x = sp.csr_array(
        (values.astype(dtype), indices.astype(index), indptr.astype(index)), (rows, columns)
    )
    x.indices, x.indptr = x.indices.astype(index), x.indptr.astype(index)
    return x


LENGTHS = [[3], [0, 0, 1, 0], [60, 0, 1, 1, 0, 0, 2], [0], [5, 64, 0, 7], [0, 1, 70, 70, 70, 3]]


def check(x: sp.csr_array, b: np.ndarray, plan: Any) -> None:
    got = cm.testing.simulate(plan, x.data, x.indices, x.indptr, b)
    assert got.dtype == b.dtype
    np.testing.assert_array_equal(got, x @ b)


VECTOR = ["share_starts", "vector_sums", "join_shares"]
COLUMNS = ["share_starts", "column_sums", "join_shares"]
# more rows than a share has items, all of them empty; one row that lies in many shares; many parts
HARD = [(700, [0]), (3, [900, 0, 900]), (300, [0] * 299 + [900]), (40, [2, 0, 33, 260])]


@pytest.mark.simulator
@pytest.mark.parametrize("lengths", LENGTHS[:3] + LENGTHS[4:], ids=str)
@pytest.mark.parametrize("dtype", ["f4", "c16"])
def test_vectors(lengths, dtype):
    x = matrix(23, 80, lengths, dtype)
    b = np.arange(80).reshape(80, 1).astype(dtype)
    p = ProductProblem(*layouts(x.data, x.indices, x.indptr, b))
    assert dispatch.is_vector(p)
    plan = csr_product.by_vector(p)
    assert names(plan) == VECTOR
    check(x, b, plan)
    plan = csr_product.by_rows(p)
    assert names(plan) == ["row_sums"]
    check(x, b, plan)


@pytest.mark.simulator
@pytest.mark.parametrize("rows, lengths", HARD, ids=["empty", "long", "last", "mixed"])
@pytest.mark.parametrize("columns", [1, 3])
def test_shares(rows, lengths, columns, monkeypatch):
    """Rows in many shares, shares without an end of a row, and shares of nothing but ends."""
    monkeypatch.setattr(csr_product, "ALONE", 2)
    x = matrix(rows, 1000, lengths, "f8", np.int64)
    if x.nnz == 0:
        x = sp.vstack([x, matrix(1, 1000, [5], "f8", np.int64)], "csr")
    b = np.arange(1000.0 * columns).reshape(1000, columns) % 13
    p = ProductProblem(*layouts(x.data, x.indices, x.indptr, b))
    plan = (csr_product.by_vector if columns == 1 else csr_product.by_columns)(p)
    check(x, b, plan)


@pytest.mark.simulator
@pytest.mark.parametrize("lengths", LENGTHS[:3] + LENGTHS[4:], ids=str)
@pytest.mark.parametrize("columns", [1, 3, 40])
def test_columns(lengths, columns):
    x = matrix(9, 80, lengths, "f4", np.int64)
    b = np.arange(80 * columns).reshape(80, columns).astype("f4") % 13
    plan = csr_product.by_columns(ProductProblem(*layouts(x.data, x.indices, x.indptr, b)))
    assert names(plan) == COLUMNS
    check(x, b, plan)


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"])
def test_plain_and_dtypes(dtype):
    x = matrix(6, 9, [2, 0, 5], "i8" if np.dtype(dtype).kind in "iu" else "f8")
    x.data = abs(x.data)
    data, b = x.data.astype(dtype), (np.arange(18).reshape(9, 2) % 5).astype(dtype)
    whole = x.toarray().astype(np.complex128 if np.dtype(dtype).kind == "c" else x.dtype)
    expected = (whole @ b.astype(whole.dtype)).astype(dtype)
    for version in ("plain", "columns"):
        plan = dispatch.csr_product(*layouts(data, x.indices, x.indptr, b), version=version)
        got = cm.testing.simulate(plan, data, x.indices, x.indptr, b)
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("version", ["vector", "rows", "columns", "plain"])
@pytest.mark.parametrize("machine", MACHINES)
def test_values_in_another_order(machine, version):
    """A matrix that is stored by columns, with where its values lie there."""
    x = matrix(23, 80, [5, 64, 0, 7], "f4")
    b = np.arange(240 if version in ("columns", "plain") else 80).reshape(80, -1).astype("f4") % 13
    order = np.random.default_rng(1).permutation(x.nnz).astype(np.int32)
    stored = np.empty_like(x.data)
    stored[order] = x.data
    for shares in (
        [],
        [products.share_starts(cm.asarray(x.indptr, device="cpu"), x.nnz).to_numpy()],
    ):

        def plan(*layouts):
            more = *layouts[4:-1], *[None] * (9 - len(layouts))
            return dispatch.csr_product(*layouts[:4], *more, layouts[-1], version=version)

        arrays = stored, x.indices, x.indptr, b, *shares, order
        np.testing.assert_array_equal(run_version(machine, plan, *arrays), x @ b)


@pytest.mark.simulator
def test_no_elements_give_zeros():
    for rows, stored_rows in ((0, 0), (5, 5)):
        x = sp.csr_array((rows, 4), dtype=np.float32)
        b = np.ones((4, 3), np.float32)
        plan = dispatch.csr_product(*layouts(x.data, x.indices, x.indptr, b))
        assert cm.testing.simulate(plan, x.data, x.indices, x.indptr, b).shape == (stored_rows, 3)


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["f4", "c8", "i4"])
@pytest.mark.parametrize("k", [0, 1, 5])
def test_sampled(dtype, k):
    rng = np.random.default_rng(1)
    rows, columns = np.array([0, 0, 2, 3, 3]), np.array([1, 4, 0, 2, 4])
    a, b = (rng.integers(-3, 4, (n, k)).astype(dtype) for n in (4, 5))
    p = SampledProblem(*layouts(rows, columns, rows, a, b))
    plan = dispatch.sampled_product(*layouts(rows, columns, rows, a, b))
    assert names(plan) == ["plain_sampled"] and not dispatch.has_shuffles(p)
    got = cm.testing.simulate(plan, rows, columns, rows, a, b)
    np.testing.assert_array_equal(got, (a @ b.T)[rows, columns])


@pytest.mark.simulator
@pytest.mark.parametrize("size", [(2, 3), (1, 1), (4, 2)])
def test_blocks(size):
    rng = np.random.default_rng(1)
    d = rng.integers(-3, 4, (8, 12)) * (rng.random((8, 12)) < 0.3)
    x = sp.csr_array(d.astype(np.float32)).tobsr(blocksize=size)
    b = rng.integers(-3, 4, (12, 5)).astype(np.float32)
    plan = block_product.bsr_product(*layouts(x.data, x.indices, x.indptr, b))
    assert names(plan) == ["block_product"]
    np.testing.assert_array_equal(cm.testing.simulate(plan, x.data, x.indices, x.indptr, b), d @ b)


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["f4", "c16"])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular(dtype, lower, unit):
    rng = np.random.default_rng(3)
    d = (rng.integers(-2, 3, (9, 9)) * (rng.random((9, 9)) < 0.4)).astype(dtype)
    d = np.tril(d, -1) if lower else np.triu(d, 1)
    diagonal = rng.integers(1, 4, 9)
    x = sp.csr_array(d if unit else d + np.diag(diagonal)).astype(dtype)
    b = rng.integers(-3, 4, (9, 40)).astype(dtype)
    inputs = x.data, x.indices, x.indptr, b
    plan = triangular.solve(*layouts(*inputs), lower=lower, unit=unit)
    assert names(plan) == ["plain_triangular"]
    got = cm.testing.simulate(plan, *inputs)
    whole = d + (np.eye(9) if unit else np.diag(diagonal))
    np.testing.assert_allclose(got, np.linalg.solve(whole.astype("c16"), b), rtol=1e-4, atol=1e-4)
    if not unit:
        with pytest.raises(IndexError):  # what the simulator makes of any flag
            cm.testing.simulate(plan, np.zeros_like(x.data), *inputs[1:])


def test_versions_by_problem():
    """What runs on a GPU: shares of the elements, whatever the rows."""
    from cudamath.core.layout import Layout
    from cudamath.runtime.device import assume

    def plan(stored: int, rows: int, k: int, alike: bool = False) -> list[str]:
        f, i = np.dtype(np.float32), np.dtype(np.int32)
        shapes = ((stored,), f), ((stored,), i), ((rows + 1,), i), ((50, k), f)
        with assume((9, 0)):
            layouts = [Layout.new(s, t, 0) for s, t in shapes]
            return names(dispatch.csr_product(*layouts, alike=alike))

    assert plan(0, 10, 1) == ["plain_product"]
    assert plan(1000, 10, 1) == VECTOR
    assert plan(1000, 10, 2) == COLUMNS
    assert plan(1 << 20, 1 << 18, 1) == VECTOR
    assert plan(1 << 20, 1 << 18, 1, alike=True) == ["row_sums"]
    assert plan(1 << 20, 1 << 8, 1, alike=True) == VECTOR  # too few threads
    assert plan(1 << 20, 1 << 18, 2, alike=True) == COLUMNS


@pytest.mark.parametrize("largest", [True, False])
def test_places_of_extremes_have_one_dtype_on_all_devices(largest: bool) -> None:
    """Stored elements may be more than 32 bits count."""
    from cudamath.core.layout import Layout
    from cudamath.cpu.sparse import products as cpu
    from cudamath.kernels.sparse.row_extremes import row_extremes
    from cudamath.runtime.device import assume

    data, starts = np.array([3.0, -1, 2]), np.array([0, 2, 2, 3])
    expected = cpu.row_extremes(data, starts, largest=largest, skips=False)
    with assume((9, 0)):
        layouts = (Layout.new(x.shape, x.dtype, 0) for x in (data, starts))
        (out,) = row_extremes(*layouts, largest=largest, skips=False).outputs
    assert (out.dtype, out.shape) == (expected.dtype, expected.shape)


@pytest.mark.parametrize(
    "lengths, alike",
    [
        (np.full(5001, 9), True),
        (np.random.default_rng(1).poisson(4, 5000), True),
        (np.random.default_rng(1).poisson(300, 500), True),
        (np.zeros(50, int), False),
        (np.r_[np.full(5000, 3), 4000], False),  # one long row
        (np.resize([17, 0, 0, 0, 0, 0, 0, 0], 5000), False),  # threads that wait for one of eight
        (np.minimum(np.random.default_rng(1).pareto(0.9, 5000), 5000).astype(int), False),
    ],
    ids=["equal", "few", "many", "none", "one long", "waiting", "power law"],
)
def test_rows_alike(lengths, alike):
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    assert products.rows_alike(cm.asarray(indptr), int(indptr[-1])) is alike


GRAPH = [3, 1, 0, 2, 90, 0, 0, 1, 5, 900, 17, 33, 4, 0, 1]
#: name -> (rows, lengths of rows, columns): shares of 256 items, and of 1,024
LARGE = {
    "graph": (900, GRAPH, 1000),
    "long": (5, [0, 400_000, 1, 200_000, 3], 300_001),
    "short": (3000, [5], 1000),
    "empty": (9000, [0] * 4000 + [3], 1000),
    "many": (70_000, [8], 1000),
}


@pytest.mark.gpu
@pytest.mark.parametrize("version", ["vector", "rows", "columns", "cusparse", "plain"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "c16", "i8"])
def test_products_on_gpu(version: str, dtype: str) -> None:
    """Every version by its name: rows in many shares, widths of accesses; the same bits again, and
    in a graph. cuSPARSE has not always the same with matrices, and takes no part in graphs."""
    rng = np.random.default_rng(5)
    wide = "c16" if dtype == "c16" else "i8" if dtype == "i8" else "f8"
    for name in LARGE if dtype == "f4" else ("graph", "long"):
        rows, pattern, inner = LARGE[name]
        indptr = np.concatenate([[0], np.cumsum(np.resize(pattern, rows))]).astype(np.int32)
        indices = rng.integers(0, inner, indptr[-1]).astype(np.int32)
        data = rng.integers(-2, 3, indptr[-1]).astype(dtype)
        x = sp.csr_array((data.astype(wide), indices, indptr), shape=(rows, inner))
        for columns in (1, 2, 3, 8, 32, 40, 130) if dtype == "f4" else (1, 3, 32):
            if (version in ("vector", "rows") and columns > 1) or (inner > 1000 and columns > 32):
                continue
            b = rng.integers(-2, 3, (inner, columns)).astype(dtype)
            given = [cm.asarray(part, device="cuda") for part in (data, indices, indptr, b)]
            shapes = [part._layout for part in given]
            try:
                plan = dispatch.csr_product(*shapes, version=version)
            except ValueError as error:
                assert version == "cusparse" and "does not support" in str(error)
                pytest.skip("cuSPARSE has no such products, or is not there")
            run = plan.bind("csr_product", shapes)
            exact = (x @ b.astype(wide)).astype(dtype)
            what = f"{name}, {columns} columns"
            np.testing.assert_array_equal(run(*given).to_numpy(), exact, err_msg=what)
            if dtype == "f4":
                given[3] = cm.asarray(rng.normal(size=b.shape).astype(dtype), device="cuda")
                first = run(*given).to_numpy()
                replayed = cm.cuda.graph(lambda given=given, run=run: run(*given))
                off = 1e-2 if version == "cusparse" and columns > 1 else 0.0
                if version == "cusparse":
                    replayed()
                    with pytest.raises(RuntimeError, match="cusparseSpM.*CUDA graph"):
                        replayed()
                    replayed = lambda given=given, run=run: run(*given)  # noqa: E731
                for _ in range(3):  # as it is, captured, replayed
                    got = replayed().to_numpy()
                    np.testing.assert_allclose(got, first, rtol=0, atol=off, err_msg=what)


@pytest.mark.gpu
@pytest.mark.parametrize("version", ["lanes", "cusparse", "plain"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_samples_on_gpu(version: str, dtype: str) -> None:
    rng = np.random.default_rng(5)
    indptr = np.concatenate([[0], np.cumsum(np.resize(GRAPH, 900))]).astype(np.int32)
    rows = np.repeat(np.arange(900), np.diff(indptr)).astype(np.int32)
    columns = rng.integers(0, 700, indptr[-1]).astype(np.int32)
    for k in (1, 5, 64):
        a, b = (rng.integers(-2, 3, (n, k)).astype(dtype) for n in (900, 700))
        given = [cm.asarray(part, device="cuda") for part in (rows, columns, indptr, a, b)]
        shapes = [part._layout for part in given]
        try:
            plan = dispatch.sampled_product(*shapes, version=version)
        except ValueError as error:
            assert "does not support" in str(error)
            if version == "cusparse":
                pytest.skip("cuSPARSE is not there")
            assert version == "lanes" and k == 1
            continue
        got = plan.bind("sampled_product", shapes)(*given).to_numpy()
        np.testing.assert_array_equal(got, (a @ b.T)[rows, columns])


@pytest.mark.gpu
@pytest.mark.parametrize("version", ["waiting", "plain"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=str)
@pytest.mark.parametrize("lower", [True, False])
def test_triangular_on_gpu(version: str, dtype: Any, lower: bool) -> None:
    """Chains of rows as long as the matrix, and rows that wait for many others; two columns."""
    rng = np.random.default_rng(3)
    n = 700
    a = sp.random_array((n, n), density=0.02, rng=rng) + sp.diags_array(np.ones(n - 1), offsets=-1)
    a = (sp.tril(a, -1) + 20 * sp.eye_array(n)).tocsr()
    a = (a if lower else a.T.tocsr()).astype(dtype)
    b = rng.normal(size=(n, 2)).astype(dtype)
    given = [cm.asarray(x, device="cuda") for x in (a.data, a.indices, a.indptr, b)]
    shapes = [x._layout for x in given]
    plan = triangular.solve(*shapes, lower=lower, unit=False, version=version)
    got = plan.bind("spsolve_triangular", shapes)(*given).to_numpy()
    exact = np.linalg.solve(a.toarray().astype(np.float64), b)
    bound = 64 * np.finfo(dtype).eps * np.abs(exact).max()
    np.testing.assert_allclose(got, exact, rtol=0, atol=bound)
