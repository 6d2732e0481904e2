"""Products rounded on their own, which the compiler cannot fuse into a multiply-add."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.dtypes import real_dtype
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import SIMULATOR, libdevice
from .codec import codec


@functools.cache
def rounded_product(dtype: np.dtype) -> Any:
    """Device function: x y in a dtype that is computed in itself, rounded whatever is done with
    it."""
    T = codec(dtype)[2]
    if dtype.kind == "c":
        real = rounded_product(real_dtype(dtype))

        @device_function
        def complex_product(x, y):
            return T(
                complex(
                    real(x.real, y.real) - real(x.imag, y.imag),
                    real(x.real, y.imag) + real(x.imag, y.real),
                )
            )

        return complex_product
    if dtype.kind == "f" and not SIMULATOR:
        multiply = libdevice.fmul_rn if dtype == np.float32 else libdevice.dmul_rn

        @device_function
        def float_product(x, y):
            return multiply(x, y)

        return float_product

    @device_function
    def product(x, y):
        return T(x * y)

    return product
