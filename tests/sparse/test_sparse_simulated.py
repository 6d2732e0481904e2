"""Whole calls of sparse arrays on a GPU in the simulator: everything they launch, and no array of
the host where one of the device is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from simulated_gpu import simulated_gpu
from sparse_arrays import dense

import cudamath as cm

pytestmark = pytest.mark.simulator
S = cm.sparse

D = np.array([[0, 2.5, 0, 1], [0, 0, 0, 0], [-1, 0, 3, 0.5]])
E = np.array([[1, 0, 0, -1], [0, 4, 0, 0], [2, 0, -3, 0]])
SQUARE = np.array([[4.0, 1, 0], [1, 5, 2], [0, 2, 6]])
RIGHT = np.array([1.0, -2, 3])
DUPLICATES = (np.array([1.0, 2, 3, 4]), (np.array([2, 0, 2, 1]), np.array([1, 3, 1, 0])))

#: call -> (what it gives, what NumPy or SciPy gives)
CALLS: dict[str, tuple[Callable[[], Any], Any]] = {
    "vector": (lambda: S.csr_array(D) @ cm.arange(4.0), D @ np.arange(4.0)),
    "matrix": (lambda: S.csr_array(D) @ cm.asarray(E.T), D @ E.T),
    "csc": (lambda: S.csc_array(D) @ cm.arange(4.0), D @ np.arange(4.0)),
    "left": (lambda: cm.asarray(RIGHT) @ S.csr_array(D), RIGHT @ D),
    "coo, duplicates": (
        lambda: S.coo_array(DUPLICATES, shape=(3, 4)).tocsr(),
        sp.coo_array(DUPLICATES, shape=(3, 4)).toarray(),
    ),
    "blocks": (lambda: S.csr_array(D).tobsr(blocksize=(3, 2)) @ cm.arange(4.0), D @ np.arange(4.0)),
    "diagonals": (
        lambda: S.diags_array([[1.0, 2]], offsets=[1], shape=(3, 3)).tocsr(),
        np.diag([1.0, 2], 1),
    ),
    "sum": (lambda: S.csr_array(D) + S.csr_array(E), D + E),
    "difference": (lambda: S.csc_array(D) - S.csr_array(E), D - E),
    "product": (lambda: S.csr_array(D) * S.csr_array(E), D * E),
    "with dense": (lambda: S.csr_array(D) * cm.asarray(E), D * E),
    "sparse product": (lambda: S.csr_array(D) @ S.csr_array(E.T), D @ E.T),
    "comparison": (lambda: S.csr_array(D) > S.csr_array(E), D > E),
    "sums": (lambda: S.csr_array(D).sum(axis=0), D.sum(axis=0)),
    "largest": (lambda: S.csr_array(D).max(axis=1).toarray(), D.max(axis=1)),
    "place": (lambda: S.csr_array(D).argmin(axis=0), D.argmin(axis=0)),
    "slice": (lambda: S.csr_array(D)[::2, 1:], D[::2, 1:]),
    "positions": (lambda: S.csr_array(D)[[0, 2, 1], [1, 2, 0]], D[[0, 2, 1], [1, 2, 0]]),
    "columns": (lambda: S.csr_array(D)[:, [3, 0]], D[:, [3, 0]]),
    "stacked": (lambda: S.vstack([S.csr_array(D), S.csr_array(E)]), np.vstack([D, E])),
    "kron": (lambda: S.kron(S.csr_array(D), S.eye_array(2)), np.kron(D, np.eye(2))),
    "triangle": (lambda: S.tril(S.csr_array(SQUARE)), np.tril(SQUARE)),
    "sampled": (
        lambda: S.sampled_product(S.csr_array(D), cm.asarray(RIGHT[:, None]), cm.ones((1, 4))),
        (D != 0) * RIGHT[:, None],
    ),
    "substitution": (
        lambda: S.linalg.spsolve_triangular(S.csr_array(SQUARE), cm.asarray(RIGHT)),
        np.linalg.solve(np.tril(SQUARE), RIGHT),
    ),
    "factors": (
        lambda: S.linalg.spsolve(S.csc_array(SQUARE), cm.asarray(RIGHT)),
        np.linalg.solve(SQUARE, RIGHT),
    ),
    "cg": (
        lambda: S.linalg.cg(S.csr_array(SQUARE), cm.asarray(RIGHT), rtol=1e-12)[0],
        np.linalg.solve(SQUARE, RIGHT),
    ),
    "gmres": (
        lambda: S.linalg.gmres(S.csr_array(SQUARE), cm.asarray(RIGHT), rtol=1e-12)[0],
        np.linalg.solve(SQUARE, RIGHT),
    ),
    "lsqr": (
        lambda: S.linalg.lsqr(S.csr_array(SQUARE), cm.asarray(RIGHT), atol=1e-12, btol=1e-12)[0],
        np.linalg.solve(SQUARE, RIGHT),
    ),
    "components": (
        lambda: S.csgraph.connected_components(S.csr_array(np.diag([1.0, 1], 1)))[1],
        np.zeros(3, np.int32),
    ),
    "walk": (
        lambda: S.csgraph.breadth_first_order(S.csr_array(np.diag([1.0, 1], 1)), 0)[0],
        np.arange(3, dtype=np.int32),
    ),
    "paths": (
        lambda: S.csgraph.shortest_path(S.csr_array(np.diag([1.0, 2], 1)), indices=0),
        np.array([0.0, 1, 3]),
    ),
    "gradient": (
        lambda: cm.grad(lambda d: ((S.csr_array(D)._with_data(d) @ cm.arange(4.0)) ** 2).sum())(
            S.csr_array(D).data
        ),
        None,
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name, monkeypatch):
    call, expected = CALLS[name]
    if expected is None:
        with cm.device("cpu"):
            expected = call().to_numpy()
    with simulated_gpu(monkeypatch):
        got = call()
        assert str(got.device).startswith("cuda")
        values = dense(got)
    np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-12)
    assert values.dtype == expected.dtype


def test_to_the_device_and_back(monkeypatch):
    with cm.device("cpu"):
        a = S.csr_array(D)
        others = [a, a.tocsc(), a.tocoo(), a.tobsr(), a.todia()]
    with simulated_gpu(monkeypatch):
        for x in others:
            y = x.to("cuda")
            assert y.format == x.format and str(y.device).startswith("cuda") and x.device == "cpu"
            np.testing.assert_array_equal(y.get().toarray(), D)


def test_structure_on_the_device(monkeypatch):
    with simulated_gpu(monkeypatch):
        for kind in (S.csr_array, S.csc_array, S.csr_matrix):
            a = kind(D)
            theirs = sp.csr_array(D) if a.format == "csr" else sp.csc_array(D)
            for name in ("data", "indices", "indptr"):
                part = getattr(a, name)
                assert str(part.device).startswith("cuda")
                np.testing.assert_array_equal(part.to_numpy(), getattr(theirs, name))
        blocks, theirs = S.csr_array(D[:2]).tobsr((2, 2)), sp.csr_array(D[:2]).tobsr((2, 2))
        np.testing.assert_array_equal(blocks.indices.to_numpy(), theirs.indices)
        np.testing.assert_array_equal(blocks.indptr.to_numpy(), theirs.indptr)
        triples = S.coo_array(D)
        np.testing.assert_array_equal(triples.row.to_numpy(), sp.coo_array(D).row)
        np.testing.assert_array_equal(triples.col.to_numpy(), sp.coo_array(D).col)
        diagonals = S.csr_array(SQUARE).todia()
        np.testing.assert_array_equal(diagonals.offsets.to_numpy(), [-1, 0, 1])


def test_shares_are_kept(monkeypatch):
    """From the second product on; what changes the structure forgets them."""
    long = sp.vstack([sp.csr_array(np.ones((2, 700), np.int64)), sp.csr_array((300, 700))], "csr")
    x = np.arange(700)
    with simulated_gpu(monkeypatch):
        a = S.csr_array(long)
        b = cm.asarray(x)
        np.testing.assert_array_equal((a @ b).to_numpy(), long @ x)
        assert a._found.shares is None
        for dense in (b, b.reshape(-1, 1), b):
            expected = long @ dense.to_numpy()
            np.testing.assert_array_equal((a @ dense).to_numpy(), expected)
        ends = long.indptr[1:] + np.arange(302)
        cuts = np.minimum(np.arange(8) * 256, 1702)
        np.testing.assert_array_equal(a._found.shares.to_numpy(), (ends[:, None] < cuts).sum(0))
        assert a._with_data(2 * a.data)._found is a._found
        c = S.csc_array(long)
        for _ in range(3):
            np.testing.assert_array_equal((c @ b).to_numpy(), long @ x)
        rows = c._found.turned.shares
        np.testing.assert_array_equal(rows.to_numpy(), a._found.shares.to_numpy())
        assert not a._found.alike and not c._found.turned.alike
        assert a.T._found.turned is None  # of its columns nothing is known
        turned = a.T._transposed()
        assert a._transposed() is turned  # found by one of them, kept for both
        a[0, 0] = 0
        a.eliminate_zeros()
        assert a._found.shares is None
        np.testing.assert_array_equal((a @ b).to_numpy(), a.get() @ x)
