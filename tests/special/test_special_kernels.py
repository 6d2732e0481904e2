"""Kernels of special functions keep the digits of their dtype: seen in the code they compile to."""

from __future__ import annotations

import os

import numpy as np
import pytest

from cudamath.core.layout import Layout
from cudamath.core.specs.special.library import scalar
from cudamath.kernels.compiler import portable
from cudamath.kernels.compiler.compile import cache_key, ptx_of
from cudamath.kernels.compiler.target import target
from cudamath.kernels.elementwise.dispatch import elementwise
from cudamath.kernels.elementwise.special_functions import _several
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


def test_long_functions_are_in_a_kernel_once() -> None:
    """Where a kernel is very long; in others all that is called is inlined."""
    assert {"gamma_quotient", "log_ratio"} <= {
        f.__name__ for f in _several(scalar("betaincinv"), False)
    }
    assert not _several(scalar("gamma"), False) and not _several(scalar("j0"), True)
    kind = np.dtype("f8")
    layouts = [Layout.new((400, 600), kind, 0)] * 2
    with assume((9, 0)):
        plan = elementwise(*layouts, expression="special_poch(x, y)", compute=kind, output=kind)
        (step,) = plan.steps
        key, signature = target((9, 0)), plan.signature(step, layouts)
        kernel = portable.loads(portable.dumps(step.kernel))
        assert cache_key(kernel, signature, key) == cache_key(step.kernel, signature, key)
        code = ptx_of(kernel, signature, (9, 0))
    assert ".func" in code
