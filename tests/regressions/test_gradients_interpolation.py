"""Regressions of gradients of interpolation: each test failed on an earlier version."""

from __future__ import annotations

import numpy as np

import cudamath as cm


def test_tables_looked_up_at_infinity(device):
    """One x far outside made the whole table's gradient NaN."""
    x, xp, fp = (cm.asarray(v) for v in ([0.5, np.inf, -np.inf], [0.0, 1.0, 2.0], [1.0, 2.0, 5.0]))
    assert cm.grad(lambda v: cm.interp(x, v, fp).sum())(xp).tolist() == [-0.5, -0.5, 0]
    assert cm.grad(lambda v: cm.interp(x, xp, v).sum())(fp).tolist() == [1.5, 0.5, 1]
    assert cm.grad(lambda v: cm.interp(v, xp, fp).sum())(x).tolist() == [1, 0, 0]
