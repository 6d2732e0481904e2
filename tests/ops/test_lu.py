"""LU factors and what is solved with them: the cards exchanged_rows, lu, lu_factor and lu_solve.
Against NumPy and SciPy. Kernels: test_linalg_plans.py; gradients: test_linalg_gradients.py."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matrices import draws, look, near, rand, regular
from strategies import eps

import cudamath as cm

la = cm.linalg
LinAlgError = np.linalg.LinAlgError


@settings(max_examples=20)
@given(draw=draws, m=st.integers(1, 70))
def test_lu(device, draw, m):
    """Packed factors, pivots and solutions as SciPy's; P, L and U give the matrix again."""
    scipy = pytest.importorskip("scipy.linalg")
    dtype, lead, how, n, seed = draw
    rng = np.random.default_rng(seed)
    a = rand(rng, (*lead, m, n), dtype)
    p, low, up = (x.to_numpy() for x in la.lu(look(how, a)))
    assert (p.shape, low.shape, up.shape) == (
        (*lead, m, m),
        (*lead, m, min(m, n)),
        (*lead, min(m, n), n),
    )
    near(p @ low @ up, a)
    bound = 2**0.5 if dtype.kind == "c" else 1  # LAPACK's size of a complex pivot is |re| + |im|
    assert (
        (np.abs(low) <= bound + 4 * eps(dtype)).all()
        and (np.tril(low) == low).all()
        and (np.triu(up) == up).all()
    )
    packed, pivots = la.lu_factor(look(how, a))
    assert pivots.dtype == np.int32
    if m == n:
        one = tuple(0 for _ in lead)
        theirs = scipy.lu_factor(a[one])
        if np.array_equal(
            theirs[1], pivots.to_numpy()[one]
        ):  # of two candidates of almost one size either may win
            near(packed[one] if one else packed, theirs[0].astype(dtype), scale=n)
        a = regular(rng, (*lead, n, n), dtype)
        b = rand(rng, (n, 2), dtype)
        near(la.lu_solve(la.lu_factor(cm.asarray(a)), cm.asarray(b)), np.linalg.solve(a, b))
        near(
            la.lu_solve(la.lu_factor(cm.asarray(a)), cm.asarray(b[:, 0])),
            np.linalg.solve(a, b[:, 0]),
        )


def test_orders_of_rows(device):
    """Of many rows, as SciPy exchanges them; pivots of any integer dtype, in any order in memory,
    in vain and out of range."""
    rng = np.random.default_rng(0)
    for lead, n in (((), 1), ((), 5), ((), 300), ((3, 2), 7)):
        pivots = np.minimum(np.arange(n) + rng.integers(0, n, (*lead, n)), n - 1)
        want = np.broadcast_to(np.arange(n), (*lead, n)).copy()
        for at in np.ndindex(lead):
            for i, other in enumerate(pivots[at]):
                want[at][[i, other]] = want[at][[other, i]]
        b = rng.standard_normal((*lead, n, 2))
        for dtype in ("i4", "i8", "u2"):
            ours = cm.asarray(pivots.astype(dtype))
            for places in (ours, cm.asfortranarray(ours)):
                x = la.lu_solve((cm.eye(n), places), cm.asarray(b)).to_numpy()
                np.testing.assert_array_equal(x, np.take_along_axis(b, want[..., None], -2))
    assert la.lu_solve((cm.zeros((0, 0)), cm.zeros(0, "int32")), cm.zeros((0, 2))).shape == (0, 2)
    assert la.lu(cm.zeros((3, 0)))[0].tolist() == np.eye(3).tolist()
    with pytest.raises(IndexError):
        la.lu_solve((cm.eye(2), cm.asarray([0, 7])), cm.asarray([1.0, 2.0]))
        cm.cuda.synchronize()


def test_pivots_that_are_no_rows(device):
    """IndexError on every device, and LinAlgError for a zero on the diagonal; by every way that the
    solution takes."""
    for n, k, count in ((2, 1, 1), (80, 2, 1), (3, 2, 12)):
        for wrong in (-1, n):
            pivots = np.zeros((count, n), np.int64)
            pivots[count - 1, 1] = wrong
            with pytest.raises(IndexError, match="^lu_solve: "):
                la.lu_solve(
                    (cm.asarray(np.broadcast_to(np.eye(n), (count, n, n))), cm.asarray(pivots)),
                    cm.ones((count, n, k)),
                )
                cm.cuda.synchronize()
        singular = np.broadcast_to(np.eye(n), (count, n, n)).copy()
        singular[0, 1, 1] = 0
        with pytest.raises(LinAlgError, match="^lu_solve: Singular matrix"):
            la.lu_solve(
                (cm.asarray(singular), cm.zeros((count, n), dtype="int32")), cm.ones((count, n, k))
            )
            cm.cuda.synchronize()


def test_factors_broadcast(device):
    """Exchanges of many matrices with one packed matrix, of one with many, and either with many
    right-hand sides."""
    rng = np.random.default_rng(0)
    packed, pivots = (
        rng.standard_normal((3, 4, 4)) + 4 * np.eye(4),
        np.minimum(np.arange(4) + rng.integers(0, 4, (3, 4)), 3),
    )
    for one, other in (
        (packed[0], pivots),
        (packed, pivots[0]),
        (packed[0], pivots[0]),
        (packed, pivots),
    ):
        for shape in ((4,), (4, 2), (3, 4, 2), (2, 3, 4, 2)):
            b = rng.standard_normal(shape)
            columns = b[:, None] if b.ndim == 1 else b
            lead = np.broadcast_shapes(one.shape[:-2], other.shape[:-1], columns.shape[:-2])
            full = [
                np.broadcast_to(x, (*lead, *x.shape[-keep:]))
                for x, keep in ((one, 2), (columns, 2), (other, 1))
            ]
            order = np.broadcast_to(np.arange(4), (*lead, 4)).copy()
            for at in np.ndindex(lead):
                for i, j in enumerate(full[2][at]):
                    order[at][[i, j]] = order[at][[j, i]]
            want = np.linalg.solve(
                (np.tril(full[0], -1) + np.eye(4)) @ np.triu(full[0]),
                np.take_along_axis(full[1], order[..., None], -2),
            )
            got = la.lu_solve((cm.asarray(one), cm.asarray(other)), cm.asarray(b)).to_numpy()
            np.testing.assert_allclose(
                got, want[..., 0] if b.ndim == 1 else want, rtol=1e-9, atol=1e-9
            )


def test_pivots_that_are_no_rows_on_the_cpu():
    for pivots in ([0, 7], [-1, 1], [[0, 1], [2, 1]]):
        with pytest.raises(
            IndexError, match=r"^lu_solve: pivots of shape \(.*\) are numbers of rows, 0 .. 1, got"
        ):
            lead = np.shape(pivots)[:-1]
            la.lu_solve(
                (
                    cm.asarray(np.ones((*lead, 2, 2)), device="cpu"),
                    cm.asarray(pivots, device="cpu"),
                ),
                cm.ones((*lead, 2, 1), device="cpu"),
            )


def test_an_empty_list_of_pivots(device):
    assert la.lu_solve((cm.ones((0, 0)), []), cm.ones((0, 2))).shape == (0, 2)
