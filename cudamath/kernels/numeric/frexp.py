"""Mantissas and exponents (``frexp``): x = m 2^e. The floor is a read of x and a write of both, in
one launch; a thread has an element."""

import functools
import math
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..copy.contiguous import dense
from ..lib.integers import blocks

THREADS = 256


@functools.cache
def mantissas(dtype: np.dtype) -> Any:
    """x: (n,) float32 or float64; m: (n,) of the same, 0.5 <= |m| < 1, or x where that is 0 or not
    finite; e: (n,) int32."""
    T = numba_type(dtype)

    @cuda.jit
    def mantissas(x, m, e):
        i = types.int64(cuda.blockIdx.x) * THREADS + cuda.threadIdx.x
        if i < x.size:
            value = x[i]
            if math.isfinite(value):
                part, power = math.frexp(value)
                m[i] = T(part)
                e[i] = types.int32(power)
            else:
                m[i] = value
                e[i] = types.int32(0)

    return mantissas


def frexp(x: Layout) -> Plan:
    """x -> m and e."""
    m, e = x.like(), x.like(dtype=np.dtype(np.int32))
    temps: list[Layout] = []
    steps, operand = dense(Input(0), x, x.shape, x.dtype, temps)
    launch = Launch(
        mantissas(x.dtype),
        blocks(x.size, THREADS),
        THREADS,
        [operand.flat, Output(0).flat, Output(1).flat],
    )
    return Plan([m, e], [*steps, launch] if x.size else [], temps)
