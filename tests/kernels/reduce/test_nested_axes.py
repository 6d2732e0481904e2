"""Reductions along axes inside and outside of kept ones (kernels/reduce/columns.py)."""

import os

import numpy as np
import pytest
from strategies import BF16

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.kernels.reduce.dispatch import plan
from cudamath.runtime.device import assume

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
FUNCTIONS = {"sum": np.sum, "max": np.max, "std": np.std, "any": np.any}


def planned(kind, x, axis, version=None, keepdims=False):
    dtype = np.dtype(bool) if kind == "any" else x.dtype
    return plan(x, kind=kind, axis=axis, keepdims=keepdims, dtype=dtype, version=version)


@pytest.mark.skipif(SIMULATED, reason="plans of a GPU")
@pytest.mark.parametrize(
    "kind, shape, axis, nested",
    [
        ("any", (2, 206_591, 4, 4), (1, 3), True),
        ("argmax", (300, 20, 70, 3), (0, 3), False),  # the numbers of elements matter
        ("sum", (300, 20, 700), (0, 2), False),  # rows are long
        ("sum", (30, 20, 3), (0, 2), False),  # two launches would take longer
        ("sum", (300, 200, 30), (1, 2), False),  # nothing is kept between
        ("sum", (300, 200, 30), (0, 1), False),
    ],
)
def test_short_inner_axes_come_last(kind, shape, axis, nested):
    with assume((9, 0)):
        x = Layout.new(shape, np.dtype("f4"), 0)
        why = planned(kind, x, axis).why
    assert why.startswith("columns_nested") == nested


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", BF16], ids=str)
@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize(
    "shape, axis",
    [((2, 20_659, 4, 4), (1, 3)), ((31, 5, 70, 3, 2), (0, 2, 4)), ((300, 1, 7, 5), (0, 1, 3))],
)
def test_values_on_gpu(shape, axis, kind, dtype):
    """Beside NumPy in float64; and twice the same bits."""
    if kind == "std" and np.dtype(dtype).kind == "i":
        return
    rng = np.random.default_rng(4)
    x = (rng.standard_normal(shape) * 10).astype(dtype)
    x = np.where(abs(x) > 30, x, 0).astype(dtype) if kind == "any" else x
    there = cm.asarray(x, device="cuda")
    for order in ((0, 1, 2, 3, 4)[: len(shape)], (1, 0, 2, 3, 4)[: len(shape)]):
        turned, axes = there.transpose(order), tuple(order.index(i) for i in axis)
        run = planned(kind, turned._layout, axes, "columns_nested").bind(kind, [turned._layout])
        got, again = run(turned).to_numpy(), run(turned).to_numpy()
        exact = FUNCTIONS[kind](x.transpose(order).astype("f8"), axes)
        error = {4: 1e-5, 8: 1e-12, 2: 1e-2}[np.dtype(dtype).itemsize] * abs(exact).max()
        np.testing.assert_allclose(got.astype("f8"), exact, rtol=0, atol=error)
        assert got.tobytes() == again.tobytes()
