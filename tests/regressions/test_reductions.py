"""Regressions of reductions and scans: each test failed on an earlier version."""

from __future__ import annotations

import numpy as np
import pytest

import cudamath as cm

RNG = np.random.default_rng(7)


CUBE = RNG.integers(-9, 9, (2, 3, 4))


#: Functions of the module and of a function that makes its arrays.
CALLS = [
    # dtypes of results
    lambda m, a: m.max(a(CUBE > 0), axis=0, initial=0),
    lambda m, a: m.min(a(CUBE > 0), axis=1, initial=3),
    lambda m, a: m.prod(a(CUBE.astype("f4")), axis=0, initial=np.float64(2)),
    lambda m, a: m.min(a(CUBE.astype("f4")), axis=0, initial=a(np.float64(2))),
    # an initial value that is no number of the result's dtype made another one of it, also where
    # that was requested
    *[
        lambda m, a, f=f, i=i, t=t: getattr(m, f)(
            a(np.array([[1, 0], [3, 5]], t)), axis=1, initial=i
        )
        for f in ("sum", "prod", "max", "min")
        for i in (2.5, 1, np.float64(3.5), True)
        for t in ("i1", "u8", "f4", "?")
    ],
    lambda m, a: m.sum(a(CUBE), axis=1, initial=2.5, dtype="i4"),
    lambda m, a: m.max(a(CUBE)[:, :0], axis=1, initial=2.5),
    lambda m, a: m.min(a(CUBE), axis=0, initial=2.5, where=a(CUBE > 0)),
    # what NumPy lets a number be
    lambda m, a: m.sum(a(3.5), axis=-1, keepdims=True),
    lambda m, a: m.max(a(3), axis=0),
    # a float64 for NaN made float64 of all; integers met one another before they met the float
    *[
        lambda m, a, t=t: m.nan_to_num(
            a(np.array([1, np.nan, np.inf], t)), nan=np.float64(2), posinf=np.float64(3)
        )
        for t in ("f4", "f2", "c8")
    ],
    # scans of a number, and in the dtype they are written in; bounds of bools; angles of small
    # whole numbers
    *[
        lambda m, a, f=f, k=k: getattr(m, f)(a(2.5), axis=k)
        for f in ("cumsum", "cumprod", "nancumsum")
        for k in (0, -1, None)
    ],
    *[
        lambda m, a, f=f, t=t: getattr(m, f)(a(np.array([0.1, 0.7, 1.3], t)), out=a(np.zeros(3)))
        for f in ("cumsum", "cumprod")
        for t in ("f2", "f4")
    ],
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
            np.asarray(got), expected, rtol=1e-12 if got.dtype == np.float64 else 1e-6
        )


@pytest.mark.parametrize("name", ["mean", "var", "std", "any", "all", "count_nonzero"])
def test_reductions_without_an_initial_value(device, name):
    """With where= some took one and forgot it."""
    x = cm.asarray([1.0, 2.0, 4.0])
    for options in ({}, {"where": x > 1}, {"out": cm.zeros(())}):
        with pytest.raises(TypeError, match=f"^{name}(: |\\(\\) )got an unexpected .*initial"):
            getattr(cm, name)(x, initial=1, **options)
