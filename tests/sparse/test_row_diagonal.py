"""The card row_diagonal: its kernel and its CPU function beside a dense matrix, its gradient, its
batches; diagonals of sparse arrays beside SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from gradient_checks import MACHINES, run_version

import cudamath as cm
from cudamath.cpu.sparse import products as host
from cudamath.kernels.sparse import row_diagonal as planners
from cudamath.sparse import products
from cudamath.testing import layout_of


def stored(dtype, rows, columns, count, seed=0):
    """(data, indices, indptr): in no order, some positions twice, some rows empty."""
    rng = np.random.default_rng(seed)
    row = np.sort(rng.integers(0, rows, count))
    near = rng.integers(-2, 3, count)  # many elements on few diagonals
    data = rng.integers(1, 5, count).astype(dtype)
    if data.dtype.kind == "c":
        data = (data + 2j).astype(dtype)
    indptr = np.searchsorted(row, np.arange(rows + 1)).astype(np.int32)
    return data, np.clip(row + near, 0, columns - 1).astype(np.int32), indptr


def dense(data, indices, indptr, rows, columns):
    whole = np.zeros((rows, columns), data.dtype)
    np.add.at(whole, (np.repeat(np.arange(rows), np.diff(indptr)), indices), data)
    return whole


CASES = [(7, 5, 30), (5, 9, 12), (3, 3, 60), (300, 300, 900)]


@pytest.mark.parametrize("dtype", ["i1", "u8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("machine", [*MACHINES, "host"])
def test_by_name(machine, dtype):
    for rows, columns, count in CASES:
        parts = stored(dtype, rows, columns, count)
        whole = dense(*parts, rows, columns)
        for k in (0, 1, -2):
            truth = np.diagonal(whole, k)
            how = {"k": k, "count": truth.size}
            if machine == "host":
                ours = host.row_diagonal(*parts, **how)
            else:
                ours = run_version(
                    machine, lambda *a, how=how: planners.row_diagonal(*a, **how), *parts
                )
            np.testing.assert_array_equal(ours, truth)


def test_one_launch():
    parts = stored("f4", 7, 5, 30)
    assert len(planners.row_diagonal(*map(layout_of, parts), k=0, count=5).steps) == 1


@pytest.mark.parametrize("format", ["csr", "csc"])
@pytest.mark.parametrize("dtype", ["?", "i4", "f4", "c8"])
def test_beside_scipy(format, dtype, device):
    for rows, columns, count in [*CASES, (4, 6, 0)]:
        parts = stored("i4", rows, columns, count)
        theirs = scipy.sparse.csr_array(
            (parts[0].astype(dtype), *parts[1:]), shape=(rows, columns)
        ).asformat(format)
        ours = getattr(cm.sparse, f"{format}_array")(theirs)
        for k in range(-rows + 1, columns):
            np.testing.assert_array_equal(ours.diagonal(k).to_numpy(), theirs.diagonal(k))


def test_gradients():
    """Each stored element on the diagonal adds to one number of it, also where a position is stored
    twice."""
    data, indices, indptr = stored("f8", 7, 5, 30)
    rows = np.repeat(np.arange(7), np.diff(indptr))
    for k in (0, 1, -2):
        count = np.diagonal(np.zeros((7, 5)), k).size

        def total(data, k=k, count=count):
            y = products.diagonal_of_rows(data, cm.asarray(indices), cm.asarray(indptr), k, count)
            return (y**3).sum()

        d = np.diagonal(dense(data, indices, indptr, 7, 5), k)
        on = indices - rows == k
        place = np.clip(rows - max(-k, 0), 0, count - 1)
        ours = cm.grad(total)(cm.asarray(data))
        np.testing.assert_allclose(ours.to_numpy(), np.where(on, 3 * d[place] ** 2, 0))
        second = cm.grad(lambda x, f=total: cm.grad(f)(x).sum())(cm.asarray(data)).to_numpy()
        among = np.bincount(place[on], minlength=count)  # stored at the same position
        np.testing.assert_allclose(second, np.where(on, 6 * d[place] * among[place], 0))


def test_batches():
    """The matrices of a batch, one below the other."""
    many = [stored("f8", 7, 5, 30, seed) for seed in range(3)]
    stacked = [cm.asarray(np.stack(parts)) for parts in zip(*many, strict=True)]
    for k in (0, 1, -2):
        truth = [np.diagonal(dense(*parts, 7, 5), k) for parts in many]
        call = cm.vmap(lambda *x, k=k, n=truth[0].size: products.diagonal_of_rows(*x, k, n))
        np.testing.assert_array_equal(call(*stacked).to_numpy(), truth)
