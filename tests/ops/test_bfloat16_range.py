"""bfloat16 has float32's range: no function takes it through float16, which ends at 65,504 and at
6e-8."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import cudamath as cm

BF16 = np.dtype(ml_dtypes.bfloat16)
HOST = np.array(
    [[3e30, -1e30, 2e-30, 7e4], [5e20, 1e-30, -7e35, -9e-9], [0, 4e30, -2e36, 1e5]], BF16
)
WIDE = HOST.astype(np.float64)
#: Functions of NumPy's names, along each axis.
NUMPYS = "sum mean max min argmax argmin any all ptp median cumsum sort argsort flip diff".split()
#: Of our float64 numbers, whose own tests are elsewhere.
OURS = {
    "conv1d": lambda x: cm.ml.conv1d(x[None], cm.asarray([[[1.0]] * 3]).astype(x.dtype)),
    "convolve": lambda x: cm.convolve(x[1], cm.asarray([1.0, 0.0, 0.5]).astype(x.dtype)),
    "max_pool1d": lambda x: cm.ml.max_pool1d(x[None], 2),
    "avg_pool1d": lambda x: cm.ml.avg_pool1d(x[None], 2),
    "adaptive_avg_pool2d": lambda x: cm.ml.adaptive_avg_pool2d(x[None, None], 2),
    "interpolate": lambda x: cm.ml.interpolate(x[None, None], scale_factor=2, mode="bilinear"),
    "matmul": lambda x: x @ cm.eye(4, dtype=x.dtype),
    "searchsorted": lambda x: cm.searchsorted(cm.sort(x[1]), x[0]),
    "relu": cm.ml.relu,
    "where": lambda x: cm.where(x > 0, x, 2 * x),
    "take": lambda x: cm.take(x, [2, 0], axis=0),
    "index_add": lambda x: cm.index_add(cm.zeros_like(x), [0, 0, 1], x),
}


def nearest(x: np.ndarray) -> np.ndarray:
    return x.astype(BF16).astype(np.float64) if x.dtype.kind == "f" else x


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", NUMPYS)
def test_as_numpy_in_float64(name, axis, device):
    with np.errstate(over="ignore"):
        got = getattr(cm, name)(cm.asarray(HOST), axis=axis).to_numpy()
    expected = nearest(getattr(np, name)(WIDE, axis=axis))
    np.testing.assert_allclose(got.astype(expected.dtype), expected, rtol=2**-8)


@pytest.mark.parametrize("name", OURS)
def test_as_in_float64(name, device):
    got, expected = (OURS[name](cm.asarray(x)).to_numpy() for x in (HOST, WIDE))
    expected = nearest(expected)
    np.testing.assert_allclose(got.astype(expected.dtype), expected, rtol=2**-7)
