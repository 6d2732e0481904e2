"""The cards of products of two sparse matrices: their kernels and their CPU functions beside
SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from gradient_checks import MACHINES, run_version

import cudamath as cm
from cudamath.cpu.sparse import products as host
from cudamath.kernels.sparse import sparse_product
from cudamath.kernels.sparse.sparse_product import SOME, Group, group_of

HOST = [*MACHINES, "host"]


def matrix(lengths, columns, dtype, seed, index=np.int32):
    """Rows of these lengths, of small integers above 0: sums are exact, and none is zero, which
    SciPy would leave out."""
    rng = np.random.default_rng(seed)
    indices = [np.sort(rng.choice(columns, n, replace=False)) for n in lengths]
    values = rng.integers(1, 4, sum(lengths))
    if np.dtype(dtype).kind == "c":
        values = values * (1 - 2j) + 1
    x = sp.csr_array((len(lengths), columns), dtype=dtype)
    x.data = values.astype(dtype)
    x.indices = np.concatenate([np.zeros(0, int), *indices]).astype(index)
    x.indptr = np.cumsum([0, *lengths]).astype(index)
    return x


def computed(machine, planner, *arrays, **how):
    if machine == "host":
        return getattr(host, planner)(*arrays, **how)
    return run_version(machine, lambda *x: getattr(sparse_product, planner)(*x, **how), *arrays)


def check(machine, a, b, listed=False):
    """All three cards, as sparse arrays call them."""
    expected = a @ b
    expected.sort_indices()
    structure = a.indices, a.indptr, b.indices, b.indptr
    counts = computed(machine, "product_counts", *structure[:2], b.indptr)
    lengths = np.diff(b.indptr)[a.indices]
    np.testing.assert_array_equal(
        counts, [lengths[i:j].sum() for i, j in zip(a.indptr[:-1], a.indptr[1:], strict=True)]
    )
    most = int(min(counts.max(initial=1), b.shape[1]))
    how = {"width": b.shape[1], "most": most}
    lists = [np.flatnonzero(counts <= SOME), np.flatnonzero(counts > SOME)] if listed else []
    found = computed(machine, "product_lengths", *structure, *lists, **how)
    starts = np.cumsum(found)
    np.testing.assert_array_equal(starts, expected.indptr)
    columns, values = computed(
        machine,
        "product_rows",
        *(a.data, *structure[:2], b.data, *structure[2:], starts, *lists),
        stored=int(starts[-1]),
        **how,
    )
    np.testing.assert_array_equal(columns, expected.indices)
    np.testing.assert_array_equal(values, expected.data)
    assert values.dtype == expected.dtype


@pytest.mark.parametrize("dtype", ["i1", "i4", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("machine", HOST)
def test_short_rows(machine, dtype):
    """Eight threads a row: rows without elements, rows that meet empty ones."""
    a = matrix([3, 0, 1, 9, 2], 12, dtype, 1)
    b = matrix([0, 3, 1, 2, 0, 0, 4, 1, 2, 3, 0, 1], 700, dtype, 2, np.int64)
    assert group_of(int((a != 0).astype(int).dot((b != 0).sum(1)).max())).lanes == 8
    check(machine, a, b)


@pytest.mark.parametrize("machine", HOST)
def test_rows_of_a_warp(machine):
    """More elements of A than threads, and more products than places."""
    a = matrix([40, 1, 0, 33], 45, "f4", 1)
    b = matrix([3, 0, 7, 5, 1] * 9, 600, "f4", 2)
    check(machine, a, b)


@pytest.mark.parametrize("machine", HOST)
@pytest.mark.parametrize("listed", [True, False])
def test_long_rows(machine, listed):
    """A block a row; beside short ones by lists of rows."""
    a = matrix([3, 90, 0, 2], 100, "f8", 1)
    b = matrix([8, 0, 3, 12, 1] * 20, 300, "f8", 2)
    check(machine, a, b, listed)


@pytest.mark.simulator
def test_groups_share_a_block(monkeypatch):
    """Four rows that are alike, which meet the simulator's barrier of the block together."""
    whole = sparse_product._meet(Group(16, 64, 16))
    monkeypatch.setattr(sparse_product, "_meet", lambda group: whole)
    monkeypatch.setattr(sparse_product, "group_of", lambda products: Group(8, 64, 16))
    a = matrix([9] * 4, 12, "f8", 1)
    a.indices = np.tile(a.indices[:9], 4)
    check("simulator", a, matrix([3] * 12, 700, "f8", 2))


@pytest.mark.parametrize("machine", HOST)
def test_nothing_is_stored(machine):
    check(machine, matrix([0, 0], 3, "f4", 1), matrix([1, 2, 0], 4, "f4", 1))


def test_rows_have_room():
    """Tables of all groups of a block lie in shared memory."""
    from cudamath.runtime.device import assume

    for capability in ((7, 5), (8, 0), (9, 0)):
        with assume(capability):
            for dtype in (np.dtype(t) for t in ("f2", "f4", "f8", "c16")):
                most = sparse_product.most_products(0, dtype)
                assert most >= SOME
                group = group_of(most)
                assert isinstance(group, Group) and group.lanes == sparse_product.WIDE


@pytest.mark.parametrize("shape", ["long", "too long", "graph"])
def test_arrays_beside_scipy(shape, device):
    """Sparse arrays, whatever computes their products; the same bits again."""
    rng = np.random.default_rng(1)
    if shape == "graph":
        weights = np.arange(1, 1001) ** -0.8
        ends = [rng.choice(1000, 6000, p=weights / weights.sum()) for _ in range(2)]
        a = sp.csr_array(sp.coo_array((rng.normal(size=6000), ends), (1000, 1000)))
        b = a
    else:
        n = 600 if shape == "long" else 70_000
        a = sp.csr_array(np.ones((2, 3)) * [[1], [1]])
        b = matrix([n, n // 2, 3], n, "f8", 1)
    ours = [cm.sparse.csr_array(x) for x in (a, b)]
    got = ours[0] @ ours[1]
    expected = a @ b
    expected.sort_indices()
    np.testing.assert_array_equal(got.indptr.to_numpy(), expected.indptr)
    np.testing.assert_array_equal(got.indices.to_numpy(), expected.indices)
    np.testing.assert_allclose(got.data.to_numpy(), expected.data, rtol=1e-12, atol=1e-12)
    again = ours[0] @ ours[1]
    np.testing.assert_array_equal(got.data.to_numpy(), again.data.to_numpy())
