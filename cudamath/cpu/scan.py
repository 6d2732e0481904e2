"""Running totals in NumPy; 16-bit floats in float32."""

from collections.abc import Callable

import numpy as np

_SCANS: dict[str, Callable] = {
    "sum": np.cumsum,
    "prod": np.cumprod,
    "nansum": np.nancumsum,
    "nanprod": np.nancumprod,
}
_EXTREMES = {"max": np.maximum, "min": np.minimum, "nanmax": np.fmax, "nanmin": np.fmin}


def scan(x, *, kind, axis, dtype):
    """x[0], x[0] combine x[1], ... along an axis."""
    wide = np.dtype(np.float32) if dtype.itemsize == 2 and dtype.kind in "fV" else dtype
    if kind in _SCANS:
        out = _SCANS[kind](
            x.astype(np.float32) if x.dtype.kind == "V" else x, axis=axis, dtype=wide
        )
    else:
        out = _EXTREMES[kind].accumulate(x.astype(wide, copy=False), axis=axis)
    return out.astype(dtype, copy=False)
