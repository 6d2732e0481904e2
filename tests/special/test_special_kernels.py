"""Kernels of special functions keep the digits of their dtype: seen in the code they compile to."""

from __future__ import annotations

import os

import numpy as np
import pytest

from cudamath.core.layout import Layout
from cudamath.kernels.compiler.compile import ptx_of
from cudamath.kernels.elementwise.dispatch import elementwise
from cudamath.runtime.device import assume

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="nothing is compiled in the simulator"
)


@pytest.mark.parametrize("expression", ["special_expit(x)", "special_xlogy(x, y)"])
@pytest.mark.parametrize(("dtype", "narrower"), [("f4", "f16"), ("f8", "cvt.rn.f32.f64")])
def test_results_are_rounded_once(expression: str, dtype: str, narrower: str) -> None:
    """float32 through float16, or float64 through float32, would lose half of them. Of an array
    that is large enough for a kernel of its own dtype."""
    kind = np.dtype(dtype)
    layouts = [Layout.new((400, 600), kind, 0)] * (2 if "y" in expression.partition("(")[2] else 1)
    with assume((9, 0)):
        plan = elementwise(*layouts, expression=expression, compute=kind, output=kind)
        (step,) = plan.steps
        code = ptx_of(step.kernel, plan.signature(step, layouts), (9, 0))
    assert "st.global" in code and narrower not in code
