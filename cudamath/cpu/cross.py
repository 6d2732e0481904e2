"""Cross products on the CPU: NumPy's, of 16-bit numbers in float32."""

import numpy as np

from ..core.dtypes import compute_dtype
from ..core.quiet import quiet


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a, b: (..., 3) of one dtype, which broadcast -> the cross products."""
    wide = compute_dtype(a.dtype)
    return quiet().run(np.cross, a.astype(wide, copy=False), b.astype(wide, copy=False)).astype(a.dtype, copy=False)
