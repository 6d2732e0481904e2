"""Regressions of sorting and sets: each test failed on an earlier version."""

from __future__ import annotations

import numpy as np
import pytest

import cudamath as cm

RNG = np.random.default_rng(7)


CUBE = RNG.integers(-9, 9, (2, 3, 4))


#: Functions of the module and of a function that makes its arrays.
CALLS = [
    # whole numbers between arrays were cut off towards 0; a number widened the array beside it;
    # steps of nothing
    *[
        lambda m, a, s=s, n=n, e=e: tuple(
            map(m.asarray, m.linspace(a(s) if isinstance(s, list) else s, 3.5, n, e, retstep=True))
        )
        for s in (1.5, [1.0, 2.0])
        for n in (0, 1, 2)
        for e in (True, False)
    ],
    # rows of nothing: which is which was not written; whole numbers in bins narrower than 1
    *[
        lambda m, a, s=s: m.unique(a(np.zeros(s, "i8")), True, True, True, axis=0)
        for s in ((2, 0), (5, 0), (0, 2))
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
            got.to_numpy(), expected, rtol=1e-12 if got.dtype == np.float64 else 1e-6
        )


@pytest.mark.parametrize("first, step", [(-8, 4), (0, 1), (-1000, 8)])
def test_many_float16_of_few_values_are_sorted(first, step, device):
    """NumPy's own sort of them left some where they were, on a CPU with AVX-512."""
    x = (RNG.integers(first, first + 16, 50_000) / step).astype(np.float16)
    expected = np.sort(x.astype(np.float64))
    np.testing.assert_array_equal(cm.sort(cm.asarray(x)).to_numpy(), expected)
    np.testing.assert_array_equal(
        cm.sort(cm.asarray(x), descending=True).to_numpy(), expected[::-1]
    )
    np.testing.assert_array_equal(cm.unique(cm.asarray(x)).to_numpy(), np.unique(expected))
