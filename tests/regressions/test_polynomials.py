"""Regressions of polynomials: each test failed on an earlier version."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy_comparison import agree

import cudamath as cm

RNG = np.random.default_rng(7)


CUBE = RNG.integers(-9, 9, (2, 3, 4))


#: Functions of the module and of a function that makes its arrays.
CALLS = [
    # a polynomial of a polynomial was one of its coefficients
    lambda m, a: m.asarray(m.polyval(a([1.0, 2, 3]), m.poly1d([1.0, -2])).coeffs),
    lambda m, a: m.asarray(m.polyval([2, 1], m.poly1d([3, 4]))(5)),
    lambda m, a: m.roots(a([])),
    lambda m, a: m.roots([]),
    # condition of nothing but zeros; constants of integration: none, or several
    *[
        lambda m, a, k=k, t=t: m.polyint(a([3.0, 2.0, 5.0]), t, k)
        for k, t in (
            (None, 2),
            (4, 2),
            ([7], 2),
            ([1, 2], 2),
            ([1, 2, 3], 2),
            (np.array([1.5, 2]), 2),
            (None, 0),
            ([], 0),
        )
    ],
    # float32 weights of whole numbers; what is left of a division by a longer polynomial begins
    # with no zeros
    lambda m, a: m.polydiv(a([0.0, -2.0]), a([1.0, 2.0, 3.0])),
    lambda m, a: m.polydiv(a([0, 0]), a([1, 2, 3])),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_values_and_dtypes_of_numpy(device, call):
    mine, theirs = call(cm, lambda x: cm.asarray(x, copy=True)), call(np, np.asarray)
    for got, expected in (
        zip(mine, theirs, strict=True) if isinstance(theirs, tuple) else [(mine, theirs)]
    ):
        assert got.dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(
            got.to_numpy(), expected, rtol=1e-12 if got.dtype == np.float64 else 1e-6
        )


EIGHTHS, KEPT = np.array([1.875, 2.125, 2.875], "f4"), np.array([True, False, True])


TURNED = np.array([1 + 2j, 3 - 1j, 0.5])


def at(m: Any, function: str, x: Any, values: Any) -> Any:
    """What `ufunc.at` leaves, where one position occurs twice."""
    getattr(m, function).at(x, [0, 2, 0], values)
    return x


def diagonal(m: Any, x: Any, values: Any, wrap: bool) -> Any:
    """What `fill_diagonal` leaves."""
    m.fill_diagonal(x, values, wrap)
    return x


def over(m: Any, x: Any) -> Any:
    """Quotients and remainders, the first of which are written into what both are of."""
    return m.divmod(x, 3, out=(x, None))


#: Functions of the module and of a function that makes its arrays, whose answers are NumPy's.
REVIEWED_CALLS = [
    # bools are numbers, 0 and 1
    *[
        lambda m, a, p=p, x=x: m.polyval(a(p), a(x))
        for p in (KEPT, [1, 2], EIGHTHS)
        for x in (KEPT, [3, 4], 2.5)
    ],
]


@pytest.mark.parametrize("call", REVIEWED_CALLS)
def test_results_agree_with_numpy(call, device):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = call(np, lambda x: np.array(x))
    agree(call(cm, lambda x: cm.asarray(np.array(x))), theirs)
