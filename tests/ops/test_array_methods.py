"""Methods of arrays with NumPy's positional arguments."""

from __future__ import annotations

import numpy as np
import pytest

import cudamath as cm


@pytest.mark.parametrize("name", ["conj", "conjugate"])
@pytest.mark.parametrize("dtype", ["complex128", "float64"])
def test_conjugates_into_an_array(device, name, dtype):
    x = np.array([1, 2], dtype) * np.array(1 + 3j if dtype == "complex128" else 1.0)
    out = cm.zeros(2, dtype)
    assert getattr(cm.array(x), name)(out) is out
    np.testing.assert_array_equal(out, x.conj())
