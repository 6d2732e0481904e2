"""The quotient of weighted sums and the sums of the weights."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Flag, Input, Output, Ticket
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import COMPLEX, compute_dtype
from ...core.layout import Layout
from ...runtime import kernel_errors
from ..compiler.lazy_numba import cuda
from ..lib.codec import codec
from ..lib.integers import blocks
from .generator import THREADS, scalar_function

kernel_errors.failures["average"] = "weights add up to 0"
kernel_errors.exceptions["average"] = ZeroDivisionError


@functools.cache
def checked_quotient(dtype: np.dtype) -> Any:
    """out[i] = sums[i] / totals[i], the quotient that divide has; a total of 0 raises the error
    flag."""
    load, _, T = codec(dtype)
    compute = compute_dtype(dtype)
    divide = scalar_function(
        "divide(x, y)" if dtype in COMPLEX else "x / y", (dtype, dtype), compute, dtype
    )
    zero = T(0)

    @cuda.jit
    def checked_quotient(
        sums, totals, out, flag, ticket
    ):  # sums, totals, out: (n,); flag: (1,) int64
        i = cuda.grid(1)
        if i < out.size:
            if load(totals[i]) == zero:
                flag[0] = -ticket
            out[i] = divide(sums[i], totals[i])

    return checked_quotient


def average(sums: Layout, totals: Layout) -> Plan:
    """Quotients of what reductions gave: both contiguous, of one shape and dtype. None of the
    totals may be 0."""
    return Plan(
        [sums],
        [
            Launch(
                checked_quotient(sums.dtype),
                blocks(sums.size, THREADS),
                THREADS,
                [Input(0).flat, Input(1).flat, Output(0).flat, Flag(), Ticket()],
            )
        ],
    )
