"""Dropout on the CPU: the mask is regenerated from the counter, as in kernels/random/dropout.py."""

import numpy as np

from .lib.llvm_compiled import loop
from .random import keyed, philox, split, word


@loop
def mask_in_place(y, first, stream, key, threshold, scale):
    """y: (n,) float32 or float64. y[i] *= scale where word i reaches the threshold (uint64), else
    y[i] = 0."""
    n = y.size
    zero = scale - scale
    for b in range(n // 4):
        w0, w1, w2, w3 = philox(first + np.uint64(b), stream, key)
        i = 4 * b  # scaled before the choice, so that the loop has no branch and is vectorised
        y0, y1, y2, y3 = y[i] * scale, y[i + 1] * scale, y[i + 2] * scale, y[i + 3] * scale
        y[i] = y0 if np.uint64(w0) >= threshold else zero
        y[i + 1] = y1 if np.uint64(w1) >= threshold else zero
        y[i + 2] = y2 if np.uint64(w2) >= threshold else zero
        y[i + 3] = y3 if np.uint64(w3) >= threshold else zero
    for i in range(n - n % 4, n):
        w = word(first + np.uint64(i // 4), stream, key, i % 4)
        y[i] = y[i] * scale if np.uint64(w) >= threshold else zero


def dropout(x, *, scalars):
    """x: any shape; scalars = (key, stream, first block, threshold, scale) -> x's shape and
    dtype."""
    counter, (threshold, scale) = keyed(scalars)
    compute = np.float64 if x.dtype == np.float64 else np.float32
    y = x.astype(compute, order="C")  # always a copy
    split(mask_in_place, y.reshape(-1), 4, *counter, np.uint64(threshold), compute(scale))
    return y.astype(x.dtype, copy=False)
