"""Activations at the end of products, as Python, beside their definitions in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import erf, expit

from cudamath.kernels.matmul import epilogue_sm90

X = np.linspace(-9, 9, 361)
TRUTH: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x * expit(x),
    "gelu": lambda x: x * (1 + erf(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * expit(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)),
    "": lambda x: x,
}


@pytest.fixture
def as_python(monkeypatch):
    for name, function in {
        "device_function": lambda f: f,
        "f32": float,
        "exp2": np.exp2,
        "reciprocal": lambda x: 1 / x,
        "maximum_nan": max,
        "minimum": min,
    }.items():
        monkeypatch.setattr(epilogue_sm90, name, function, raising=False)
    tail = epilogue_sm90._tail.__wrapped__()
    monkeypatch.setattr(epilogue_sm90, "_tail", lambda: tail)


@pytest.mark.parametrize("name", TRUTH)
def test_values(as_python, name):
    """Within what the logarithm's parabola gives: eight digits in a million."""
    function = epilogue_sm90.activate.__wrapped__(name)
    np.testing.assert_allclose([function(float(x)) for x in X], TRUTH[name](X), 1e-5, 3e-6)


@pytest.mark.parametrize("name", [name for name in TRUTH if name])
def test_slopes(as_python, name):
    """Beside central differences."""
    function, h = epilogue_sm90.slope.__wrapped__(name), 1e-5
    x = X[np.abs(X) > 1e-3]  # relu has none at 0
    truth = (TRUTH[name](x + h) - TRUTH[name](x - h)) / (2 * h)
    np.testing.assert_allclose([function(float(v)) for v in x], truth, 1e-4, 2e-5)
