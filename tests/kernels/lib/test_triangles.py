"""Triangles and diagonals: kernels/shape/triangles.py in the simulator and on the GPU, every dtype,
against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from strategies import BF16

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.testing import simulate

DTYPES = [np.dtype(t) for t in ("?", "i1", "u2", "f2", "f4", "f8", "c8", "c16", "i8")] + [BF16]


def matrices(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.integers(1, 9, shape) * (1 + 1j if dtype.kind == "c" else 1)).astype(dtype)


def numpys(name: str, x: np.ndarray, k: int) -> np.ndarray:
    return getattr(np, name)(x.view(np.uint16) if x.dtype == BF16 else x, k).view(x.dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_triangles(device, dtype):
    for shape in ((3, 5), (5, 3), (2, 4, 4), (0, 3), (3, 0), (2, 700, 1300)):
        x = matrices(shape, dtype)
        for name in ("tril", "triu"):
            for k in (0, -1, 2, 9, -9):
                got = getattr(cm, name)(cm.asarray(x), k)
                assert got.dtype == dtype
                np.testing.assert_array_equal(got.to_numpy(), numpys(name, x, k))
            turned = getattr(cm, name)(cm.asarray(x).mT).to_numpy()
            np.testing.assert_array_equal(
                turned, numpys(name, np.ascontiguousarray(np.swapaxes(x, -1, -2)), 0)
            )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_ones(device, dtype):
    for n, m in ((3, 5), (5, 3), (4, 4), (0, 2), (70_000, 3), (48, 32), (300, 2064)):
        for k in (0, -2, 3, 100):
            for name in ("eye", "tri"):
                got = getattr(cm, name)(n, m, k, dtype=dtype).to_numpy()
                np.testing.assert_array_equal(got.astype(np.complex128), getattr(np, name)(n, m, k))


def test_gradient_and_fuse(device):
    x = cm.asarray(np.arange(12.0).reshape(3, 4))
    slope = cm.grad(lambda v: (cm.tril(v, 1) ** 2).sum())(x)
    np.testing.assert_array_equal(slope, np.tril(2 * np.arange(12.0).reshape(3, 4), 1))
    np.testing.assert_array_equal(
        cm.grad(lambda v: (cm.triu(v.T) * 3).sum())(x), np.triu(np.full((4, 3), 3.0)).T
    )


@pytest.mark.parametrize("value", [0, 0.0, -0.0, 1, 2.5, True, np.nan, -np.inf, 1 + 2j])
def test_filled(device, value):
    for dtype in (None, "float32", "complex64", "bfloat16", "int16" if value in (0, 1) else None):
        if isinstance(value, complex) and dtype not in (None, "complex64"):
            continue
        for shape in (3, (2, 3), [2, 2], (), (0, 2), np.int64(2)):
            got = cm.full(shape, value, dtype)
            again = cm.full(shape, value, dtype)
            if dtype != "bfloat16":
                right = np.full(shape, value, dtype)
                assert got.dtype == right.dtype
                for one in (got, again):
                    assert one.to_numpy().tobytes() == right.tobytes()  # -0.0 included
            like = cm.full_like(got, value)
            np.testing.assert_array_equal(
                like.to_numpy().astype(np.complex128), got.to_numpy().astype(np.complex128)
            )
    with pytest.raises(TypeError, match="^zeros: shape must be"):
        cm.zeros("no")
    with pytest.raises(ValueError, match="^full: negative size"):
        cm.full((2, -1), 1)
    with pytest.raises(ValueError, match="^ones: order must be"):
        cm.ones(2, order="X")


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_in_the_simulator(dtype):
    from cudamath.kernels.shape.triangles import band, ones

    x = matrices((2, 3, 4), dtype)
    layout = Layout.new(x.shape, x.dtype, 0)
    np.testing.assert_array_equal(simulate(band(layout, low=-99, high=0), x), numpys("tril", x, 0))
    np.testing.assert_array_equal(simulate(band(layout, low=1, high=99), x), numpys("triu", x, 1))
    made = simulate(ones(layout=Layout.new((3, 4), x.dtype, 0), device=0, low=1, high=1))
    np.testing.assert_array_equal(made.astype(np.complex128), np.eye(3, 4, 1))
