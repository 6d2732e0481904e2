"""Sums of polynomials whose coefficients are the columns of a matrix."""

from __future__ import annotations

import numpy as np
import pytest

import cudamath as cm


@pytest.mark.parametrize("name", ["polyadd", "polysub"])
def test_sums_of_matrices_of_coefficients(device, name):
    a, b = np.arange(6.0).reshape(3, 2), np.ones((3, 2))
    for x, y in ((a, b), (a[:1], 2.0), (a, b[:, :1])):
        np.testing.assert_array_equal(
            getattr(cm, name)(cm.array(x), cm.array(y)), getattr(np, name)(x, y)
        )
    with pytest.raises(ValueError, match=rf"^{name}: .*\(3, 2\)"):
        getattr(cm, name)(cm.array(a), cm.array([1.0, 2.0]))


def test_coefficients_without_a_common_type():
    """As NumPy says: truth values are none."""
    for module in ("polynomial", "chebyshev"):
        for package in (cm, np):
            series = getattr(package.polynomial, module)
            add = getattr(series, {"polynomial": "polyadd", "chebyshev": "chebadd"}[module])
            with pytest.raises(ValueError, match="^Coefficient arrays have no common type"):
                add(package.asarray([True, False]), package.asarray([True]))
