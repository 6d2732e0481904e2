"""Mantissas and exponents; see kernels/numeric/frexp.py."""

import numpy as np


def frexp(x):
    """x -> m and e, int32; (x, 0) where x is not finite."""
    m, e = np.frexp(x)
    finite = np.isfinite(x)
    return np.where(finite, m, x), np.where(finite, e, 0).astype(np.int32, copy=False)
