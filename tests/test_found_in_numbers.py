"""Wrong numbers that comparisons with NumPy, SciPy and PyTorch at the ends of the ranges have found."""

import numpy as np
import pytest

import cudamath as cm


@pytest.mark.parametrize("method", ["lower", "midpoint", "linear", "nearest", "higher"])
def test_quantiles_that_are_elements(device, method):
    """A third of 24 steps is 8 of them: not what lies 1e-15 below it, which is another element."""
    for n, q in ((7, 2 / 3), (25, 1 / 3), (28, 2 / 3), (1_000_001, 0.123456)):
        x = np.random.default_rng(0).permutation(n).astype("f8")
        want = np.quantile(x, q, method=method)
        assert want == int(want)
        for dtype in ("float64", "float32"):
            if dtype == "float32" and method == "linear" and n > 100:  # there places are computed in float32
                continue
            ours = cm.asarray(x).astype(dtype)
            with_nan = cm.concatenate((ours, cm.full(3, cm.nan, dtype=dtype)))
            assert float(cm.quantile(ours, q, method=method)) == want
            assert float(cm.nanquantile(with_nan, q, method=method)) == want
            where = cm.grad(lambda x: cm.nanquantile(x, q, method=method))(with_nan).to_numpy()  # noqa: B023
            np.testing.assert_array_equal(np.flatnonzero(where), np.flatnonzero(x == want))
