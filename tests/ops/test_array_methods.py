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


def test_arrays_over_all_of_a_buffer(device):
    """To its last byte, and not one further."""
    host = np.arange(6.0)
    memory = cm.asarray(host)
    for given in ({}, {"strides": (8, 16)}, {"order": "F"}):
        found = cm.ndarray((2, 3), "float64", buffer=memory, **given)
        np.testing.assert_array_equal(
            found.to_numpy(), np.ndarray((2, 3), "float64", buffer=host, **given)
        )
        for module, buffer in ((np, host), (cm, memory)):
            with pytest.raises((TypeError, ValueError)):
                module.ndarray((2, 3), "float64", buffer=buffer, offset=8, **given)
