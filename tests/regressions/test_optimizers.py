"""Regressions of optimizer steps: each test failed on an earlier version."""

from __future__ import annotations

import numpy as np
import pytest

import cudamath as cm


@pytest.mark.parametrize("scale, gradient", [(0.0, 0.0), (1e-40, 1e3)])
def test_a_step_is_skipped_where_only_the_unscaled_norm_is_not_finite(device, scale, gradient):
    """It was counted as skipped, but on the CPU the factor was 1."""
    state = cm.ml.amp.loss_scale(1.0)
    state["scale"][...] = np.float32(scale)
    factor, norm = cm.ml.amp.unscale([cm.full(3, gradient, dtype="float32")], state)
    assert np.isnan(float(factor)) and not np.isfinite(float(norm)) and int(state["skipped"]) == 1
