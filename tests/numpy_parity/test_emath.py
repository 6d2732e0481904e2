"""cudamath.emath and i0 beside NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from numpy_comparison import agree

import cudamath as cm

REAL = np.array([-2.0, -0.5, 0.5, 3.0])
NUMBERS = [
    REAL,
    np.abs(REAL) / 4,
    REAL.astype("f4"),
    REAL.astype("f2"),
    np.array([-1, 2]),
    np.array([-1, 2], "i2"),
    np.array([-1j, 2]),
    np.array([], float),
]


@pytest.mark.parametrize("name", "sqrt log log2 log10 arccos arcsin arctanh".split())
def test_complex_where_it_must_be(name):
    for x in NUMBERS:
        with np.errstate(all="ignore"):
            expected = getattr(np.emath, name)(x)
        agree(getattr(cm.emath, name)(cm.asarray(x)), expected)


def test_two_arguments():
    for x, p in ((REAL, 2), (REAL, 0.5), ([2, 4], -1), ([-2, 4], 2), ([2, 4], [2, 4])):
        agree(cm.emath.power(x, p), np.emath.power(x, p))
    for n in (2, [2.0, 3.0, -4.0, 5.0]):
        agree(cm.emath.logn(n, REAL), np.emath.logn(n, REAL))


def test_errors():
    with pytest.raises(TypeError, match="^sqrt: "):
        cm.emath.sqrt("text")


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i4", "?"])
def test_i0(dtype):
    x = np.linspace(-9, 9, 101).astype(dtype)  # e^10 is no float16, in which NumPy computes
    with np.errstate(over="ignore"):
        agree(cm.i0(cm.asarray(x)), np.i0(x))
    assert cm.i0(cm.asarray([0.0, np.nan])).tolist()[0] == 1


def test_gradient_of_i0():
    x, step = np.array([-9.0, -2.0, 0.0, 0.5, 7.9, 8.1, 20.0]), 1e-5
    slope = (np.i0(x + step) - np.i0(x - step)) / (2 * step)
    gradient = cm.grad(lambda x: cm.i0(x).sum())(cm.asarray(x))
    np.testing.assert_allclose(gradient.to_numpy(), slope, rtol=1e-6, atol=1e-9)
    with pytest.raises(TypeError, match="^i0: .*complex128"):
        cm.i0([1j])
