"""A launch that adds a bias to each channel of a result: for versions whose kernels add none."""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ..compiler.decorators import device_function
from ..elementwise.launches import plain
from ..lib.codec import codec
from .problem import Problem


@functools.cache
def _sum(dtype: np.dtype) -> Any:
    load, store, _ = codec(dtype)

    @device_function
    def added(a, b):
        return store(load(a) + load(b))

    return added


def add_bias(plan: Plan | None, problem: Problem) -> Plan | None:
    """The plan, and behind it the launch that adds the problem's bias, if there is one. Results
    are images (N, C, H, W) or volumes; the bias is the third operand."""
    if plan is None or problem.bias is None:
        return plan
    (out,) = plan.outputs
    strides = (0, problem.bias.strides[0], *[0] * (len(out.shape) - 2))
    plan.steps.append(
        plain(
            _sum(out.dtype),
            (True, True),
            [Output(0), Input(2).view(out.shape, strides)],
            Output(0),
            out.shape,
        )
    )
    return plan
