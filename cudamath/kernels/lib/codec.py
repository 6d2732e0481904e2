"""How elements are loaded and stored: widened to a compute type, rounded back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.dtypes import STORAGE, bfloat16, float16
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import types
from ..compiler.storage_types import numba_type


def codec(dtype: np.dtype) -> tuple[Callable, Callable, Any]:
    """(load, store, T) for a dtype: widen a stored value, round a computed one, and the compute
    type.

    16- and 8-bit floats compute in float32; everything else in itself. `T(0)` makes a constant of
    the compute type.
    """
    from ..ptx import conversions as ptx_conversions

    dtype = np.dtype(dtype)
    if dtype == float16:
        return ptx_conversions.half_to_float, ptx_conversions.float_to_half, types.float32
    if dtype == bfloat16:
        return ptx_conversions.bfloat_to_float, ptx_conversions.float_to_bfloat, types.float32
    if dtype in STORAGE:
        from . import float8

        return float8.decoder(dtype), float8.encoder(dtype), types.float32
    T = numba_type(dtype)
    return _identity, T, T


@device_function
def _identity(value):
    return value
