"""Truncated normal numbers from uniform ones on the CPU: the same bits as
kernels/random/truncated_normal.py.
"""

import math

import numpy as np

from ..core.specs.erfinv import FAR, NEAR
from .lib.llvm_compiled import loop
from .random import split
from .reproducible_math import fma, log64


@loop
def fill(out, first, p, scale, mean, low, high):
    """out: (n,) float64, the numbers from elements first, first + 1, ... of p."""
    for i in range(out.size):
        u = p[np.int64(first) + i]
        w = -log64(max((1.0 - u) * (1.0 + u), 1e-16))
        near = w < 5.0
        z = w - 2.5 if near else math.sqrt(w) - 3.0
        y = NEAR[0] if near else FAR[0]
        for k in range(1, len(NEAR)):
            y = fma(y, z, NEAR[k] if near else FAR[k])
        out[i] = min(max(fma(y * u, scale, mean), low), high)


def truncated(p, *, scalars, dtype):
    """p: float64, between -1 and 1; scalars = (scale, mean, low, high) -> p's shape, dtype."""
    out = np.empty(p.size)
    split(fill, out, 1, np.uint64(0), p.ravel(), *map(np.float64, scalars))
    return out.reshape(p.shape).astype(dtype, copy=False)
