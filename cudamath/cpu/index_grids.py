"""Arrays computed from their indices alone; see kernels/shape/index_grids.py."""

import math

import numpy as np

from ..core.fp_errors import quiet
from .shape import ramp


def powers(*, layout, device, count, kind, scalars):
    """base ** an arithmetic progression, computed in ``kind``, as the layout's dtype."""
    *ends, base = scalars
    exponents = ramp(layout=layout.like(dtype=kind), device=device, count=count, scalars=ends)
    return np.asarray(quiet().run(np.power, kind.type(base), exponents)).astype(
        layout.dtype, copy=False
    )


def window(*, layout, device, kind):
    """One of the classic windows."""
    n = layout.size
    t = np.arange(1 - n, n, 2).astype(layout.dtype) / layout.dtype.type(max(n - 1, 1))
    if kind == "bartlett":
        y = 1 - np.abs(t)
    elif kind == "blackman":
        y = 0.42 + 0.5 * np.cos(math.pi * t) + 0.08 * np.cos(2 * math.pi * t)
    else:
        mean, swing = (0.5, 0.5) if kind == "hanning" else (0.54, 0.46)
        y = mean + swing * np.cos(math.pi * t)
    return y


def kaiser(*, layout, device, scalars):
    """Kaiser's window."""
    return np.kaiser(layout.size, scalars[0]).astype(layout.dtype, copy=False)


def triangle(*, layout, device, rows, columns, k, upper):
    """The rows and the columns of the elements on one side of a diagonal."""
    return (np.triu_indices if upper else np.tril_indices)(rows, k, columns)
