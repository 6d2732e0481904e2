"""float8 on any GPU: from and to float32 by integer arithmetic on its bits.

    float8_e4m3   sign, 4 bits of exponent (bias 7), 3 of mantissa: to 448 in size, NaN, no
                  infinities
    float8_e5m2   sign, 5 bits of exponent (bias 15), 2 of mantissa: the upper half of a float16

Decoding shifts exponent and mantissa to where float32 has them and multiplies by the power of two
between the biases, which brings the subnormal numbers right as well. Encoding rounds to nearest
even by adding half of the last place kept (less one, unless it is odd) before the rest is cut off;
what is below the smallest normal number is a multiple of the smallest one.

Source: Micikevicius et al., "FP8 formats for deep learning", 2022.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.dtypes import float8_e4m3
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import SIMULATOR, types

if not SIMULATOR:
    from ..ptx.conversions import half_to_float
    from ..ptx.sm80 import bits_float, float_bits

i32, f32 = types.int32, types.float32


@functools.cache
def decoder(dtype: np.dtype) -> Any:
    """A device function from a float8, held as uint8, to float32. Exact."""
    if SIMULATOR:

        @device_function
        def decode(bits):
            return np.uint8(bits).view(dtype).astype(np.float32)

        return decode
    if dtype != float8_e4m3:

        @device_function
        def from_e5m2(bits):
            return half_to_float(types.uint16(types.uint16(bits) << types.uint16(8)))

        return from_e5m2

    @device_function
    def from_e4m3(bits):
        size = i32(i32(bits) & i32(0x7F))
        value = bits_float(i32(size << 20)) * f32(2.0**120)
        if size == 0x7F:
            value = bits_float(i32(0x7FC00000))
        return -value if i32(bits) & i32(0x80) else value

    return from_e4m3


@functools.cache
def encoder(dtype: np.dtype) -> Any:
    """A device function from float32 to the nearest float8, held as uint8. What is too large
    becomes NaN (float8_e4m3) or infinite (float8_e5m2), as in NumPy and torch."""
    if SIMULATOR:

        @device_function
        def encode(value):
            return np.asarray(value, np.float32).astype(dtype).view(np.uint8)[()]

        return encode
    e4m3 = dtype == float8_e4m3
    cut = 20 if e4m3 else 21  # bits of a float32's mantissa that go
    half, bias = (1 << (cut - 1)) - 1, (120 << 3) if e4m3 else (112 << 2)
    tiny, unit = (2.0**-6, 2.0**9) if e4m3 else (2.0**-14, 2.0**16)
    top, infinite = (0x7E, 0x7F) if e4m3 else (0x7B, 0x7C)

    @device_function
    def to_float8(value):
        bits = float_bits(f32(value))
        size = i32(bits & i32(0x7FFFFFFF))
        least = bits_float(size)
        if least < f32(tiny):  # added to 2^23, a number is rounded to an integer
            code = i32(float_bits(least * f32(unit) + f32(8388608)) & i32(0xFF))
        else:
            code = i32(((size + half + ((size >> cut) & 1)) >> cut) - bias)
        if code > top:
            code = i32(infinite)
        if value != value:
            code = i32(0x7F)
        return types.uint8(code | (i32(bits >> 24) & i32(0x80)))

    return to_float8
