"""Regressions of random numbers: each test failed on an earlier version."""

from __future__ import annotations

import numpy as np
import pytest

import cudamath as cm


def test_bools_are_drawn_as_integers(device):
    """They were refused."""
    for given in (
        ((0, 2, 500), {}),
        ((2,), {"size": (5, 100)}),
        ((0, 1, 500), {"endpoint": True}),
        (([0] * 500, 2), {}),
    ):
        for _ in range(2):  # new, and seen before
            drawn = cm.random.default_rng(3).integers(*given[0], dtype=bool, **given[1])
            assert drawn.dtype == bool and 200 < drawn.to_numpy().sum() < 300
    assert cm.random.default_rng(3).integers(1, 2, 9, dtype=bool).tolist() == [True] * 9
    assert cm.random.randint(2, size=4, dtype=bool).dtype == bool
    for wrong in (3, [1, 3]):
        with pytest.raises(
            ValueError, match=r"^random.integers: wants bounds that bool can hold \(0 to 1\)"
        ):
            cm.random.default_rng(3).integers(0, wrong, dtype=bool)


@pytest.mark.parametrize(
    "dtype, shape",
    [("float32", 1e6), ("float32", 1e7), ("float32", 1e9), ("float64", 1e12), ("float64", 1e16)],
)
def test_gamma_numbers_of_large_shape_are_as_wide_as_they_should_be(device, dtype, shape):
    """The deviation was 13 % too small: which numbers were rejected was a matter of rounding
    errors."""
    x = cm.random.default_rng(5).gamma(shape, size=100_000, dtype=dtype).to_numpy().astype("f8")
    standard = (x - shape) / np.sqrt(shape)
    assert abs(standard.mean()) < 0.02 and abs(standard.std() - 1) < 0.015
    pairs = (
        cm.random.default_rng(6)
        .beta(shape, shape, size=100_000, dtype=dtype)
        .to_numpy()
        .astype("f8")
        - 0.5
    )
    if shape < 1e9:  # whose deviation float32 can tell
        assert abs(pairs.std() * np.sqrt(8 * shape) - 1) < 0.015
