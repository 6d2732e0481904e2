"""Regressions of attention: each test failed on an earlier version."""

from __future__ import annotations

import numpy as np
import pytest

import cudamath as cm


@pytest.mark.parametrize("order", [(1, 0, 2, 3), (3, 1, 0, 2), (2, 3, 1, 0)], ids=str)
def test_attention_in_any_order_of_memory(device, order):
    """Masks were lost on the CPU where heads lay outside batches: NumPy's product was in that
    order, its reshape a copy."""
    rng = np.random.default_rng(5)
    given = [rng.normal(size=(2, n, s, 8)).astype(np.float32) for n, s in ((4, 1), (2, 6), (2, 6))]
    mask = np.array([[1, 0, 1, 1, 0, 1], [0, 1, 1, 0, 1, 1]], bool).reshape(2, 1, 1, 6)
    back = tuple(order.index(i) for i in range(4))
    found = []
    for turned in (False, True):
        arrays = [
            cm.asarray(np.ascontiguousarray(x.transpose(order))).transpose(back)
            if turned
            else cm.asarray(x)
            for x in given
        ]
        for options in (
            {"mask": cm.asarray(mask)},
            {"key_lengths": cm.asarray([3, 5])},
            {"dropout": 0.5, "rng": 1},
        ):
            if "rng" in options:
                options = options | {"rng": cm.random.default_rng(1)}
            y, pull = cm.vjp(
                lambda *a, o=options: cm.ml.scaled_dot_product_attention(*a, **o), *arrays
            )
            found.append([each.to_numpy() for each in (y, *pull(cm.ones_like(y)))])
    for expected, got in zip(found[:3], found[3:], strict=True):
        for a, b in zip(expected, got, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)
