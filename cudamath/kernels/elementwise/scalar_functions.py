"""The functions that an elementwise expression may call, for each kind of compute type.

`functions(T)` is the namespace in which an expression like "x if x > 0 else expm1(x)" is compiled:
the math module's names on the compute type T, and the functions below, with the meaning of NumPy's
functions of the same name. Constants are of type T, so that nothing is widened to float64.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..compiler.decorators import device_function
from ..compiler.lazy_numba import SIMULATOR, dtype_of, libdevice, types
from ..lib.fast_math import normal_functions
from .complex_functions import complex_functions

_REAL = (
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "fabs",
    "floor",
    "fmod",
    "isfinite",
    "isinf",
    "isnan",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
)


@functools.cache
def functions(T: Any, short: bool = False) -> dict[str, Any]:
    """Names an expression on compute type T may use; short: its result has 16 bits, so fewer digits
    will do."""
    if dtype_of(T).kind == "c":
        real = functions(T.underlying_float)
        return complex_functions(T, device_function, real["hypot"], real["round_even"])
    if dtype_of(T).kind in "iu":
        return _shared(T) | _integer(T)
    return (
        {name: _real(name) for name in _REAL}
        | _shared(T)
        | _floating(T)
        | normal_functions(T, short)
    )


def _real(name: str) -> Any:
    """A function of the math module. Where Python raises, the simulator returns what a device does:
    infinity, NaN, or of a rounding the number itself."""
    function = getattr(math, name)
    if not SIMULATOR:
        return function

    def simulated(*numbers: Any) -> Any:
        try:
            return function(*numbers)
        except (OverflowError, ValueError):
            with np.errstate(all="ignore"):
                return getattr(np, name)(*numbers)

    return simulated if hasattr(np, name) else function


def _shared(T: Any) -> dict[str, Any]:
    zero, one = T(0), T(1)

    @device_function
    def maximum(x, y):  # NaN if either is
        return x if x >= y or x != x else y

    @device_function
    def minimum(x, y):
        return x if x <= y or x != x else y

    @device_function
    def sign(x):  # NaN stays
        return one if x > zero else (zero - one if x < zero else (x if x != x else zero))

    return {"maximum": maximum, "minimum": minimum, "sign": sign}


def _integer(T: Any) -> dict[str, Any]:
    """Integer division rounds down, and by zero gives zero, as in NumPy."""
    zero, bits = T(0), T.bitwidth
    signed, unsigned = T.signed, getattr(types, f"uint{T.bitwidth}")

    @device_function
    def floor_divide(x, y):
        if signed and y == T(
            -1
        ):  # the most negative number has no opposite: it stays, where a division would trap
            return T(zero - x)
        return zero if y == zero else T(x // y)

    @device_function
    def remainder(x, y):
        return zero if y == zero or (signed and y == T(-1)) else T(x % y)

    @device_function
    def power(
        x,
        y,
        # by squaring; a negative exponent is refused before the launch or gives 0 or +-1 as it
        # should not
    ):
        result = T(1)
        base = x
        left = y
        while left > zero:
            if left & T(1):
                result = T(result * base)
            base = T(base * base)
            left = T(left >> T(1))
        return result

    @device_function
    def shift_left(x, y):  # a shift by the width or more leaves nothing
        return T(x << y) if y < T(bits - 1) + T(1) and y >= zero else zero

    @device_function
    def shift_right(x, y):
        if y >= zero and y < T(bits - 1) + T(1):
            return T(x >> y)
        return T(-1) if signed and x < zero else zero

    @device_function
    def gcd(
        x,
        y,
        # Euclid's, of unsigned numbers: no signs of remainders, and the most negative number has an
        # absolute value
    ):
        a, b = unsigned(T(abs(x)) if signed else x), unsigned(T(abs(y)) if signed else y)
        while b != unsigned(0):
            a, b = b, unsigned(a % b)
        return T(a)

    @device_function
    def lcm(x, y):
        divisor = unsigned(gcd(x, y))
        if divisor == unsigned(0):
            return zero
        a, b = unsigned(T(abs(x)) if signed else x), unsigned(T(abs(y)) if signed else y)
        return T(unsigned(unsigned(a // divisor) * b))  # what does not fit wraps, as in NumPy

    @device_function
    def popcount(x):  # of the absolute value; each turn clears the lowest bit that is set
        left = unsigned(T(abs(x))) if signed else unsigned(x)
        count = T(0)
        while left != unsigned(0):
            left = unsigned(left & unsigned(left - unsigned(1)))
            count = T(count + T(1))
        return count

    return {
        "floor_divide": floor_divide,
        "remainder": remainder,
        "power": power,
        "shift_left": shift_left,
        "shift_right": shift_right,
        "gcd": gcd,
        "lcm": lcm,
        "popcount": popcount,
    }


def _floating(T: Any) -> dict[str, Any]:
    zero, half, one, two = T(0), T(0.5), T(1), T(2)
    log_two = T(math.log(2))
    whole = int if SIMULATOR else types.int32
    infinity = T(math.inf)

    @device_function
    def remainder(x, y):  # the sign of y; y = 0 gives NaN
        r = math.fmod(x, y)
        if r != zero:
            return r + y if (r < zero) != (y < zero) else r
        return math.copysign(zero, y) if r == zero else r

    @device_function
    def floor_divide(x, y):  # by the remainder: rounding a rounded quotient down can be one off
        if y == zero or (math.isinf(x) and math.isfinite(y)):
            return x / y
        r = math.fmod(x, y)
        quotient = (x - r) / y
        if r != zero and (r < zero) != (y < zero):
            quotient -= one
        if quotient == zero:
            return math.copysign(zero, x / y)
        whole = math.floor(quotient)
        return whole + one if quotient - whole > half else whole

    @device_function
    def log2(x):  # the exponent apart: powers of 2 are exact so, and one off at times in CUDA's
        fraction, power = math.frexp(x)
        if x > zero and math.isfinite(x) and (power < 0 or power > 1):
            return T(power - 1) + math.log2(fraction * two)
        return math.log2(x)

    @device_function
    def logaddexp(x, y):  # equal infinities must not meet in a difference
        if x == y:
            return x + log_two
        difference = x - y
        if difference > zero:
            return x + math.log1p(math.exp(-difference))
        return y + math.log1p(math.exp(difference))

    @device_function
    def round_even(x):  # to the nearest integer, ties to even; keeps the sign of zero
        whole = math.floor(x)
        rest = x - whole
        if rest > half or (rest == half and math.fmod(whole, T(2)) != zero):
            whole += one
        return math.copysign(whole, x)

    @device_function
    def hypot(x, y):  # scaled: squares of large numbers must not overflow
        x, y = abs(x), abs(y)
        if x == infinity or y == infinity:
            return infinity
        high, low = (x, y) if x > y else (y, x)
        if high == zero or high != high or low != low:
            return x + y
        ratio = low / high
        return high * math.sqrt(one + ratio * ratio)

    @device_function
    def signbit(x):
        return math.copysign(one, x) < zero

    @device_function
    def ldexp(
        x, y
    ):  # y is whole; beyond a few thousand nothing changes, and it would not fit an int32
        limit = T(5000)
        return math.ldexp(x, whole(min(max(y, -limit), limit)))

    @device_function
    def exponent(x):  # frexp's, whole; 0 of what is not finite
        _, power = math.frexp(x)
        return T(power) if math.isfinite(x) else zero

    return {
        "remainder": remainder,
        "floor_divide": floor_divide,
        "log2": log2,
        "logaddexp": logaddexp,
        "round_even": round_even,
        "hypot": hypot,
        "signbit": signbit,
        "ldexp": ldexp,
        "exponent": exponent,
        "nextafter": _nextafter(T),
        "cbrt": _cbrt(T),
        "exp2": _exp2(T),
    }


def _cbrt(T: Any) -> Any:
    if SIMULATOR:
        return np.cbrt
    return libdevice.cbrtf if T == types.float32 else libdevice.cbrt


def _exp2(T: Any) -> Any:
    if SIMULATOR:
        return np.exp2
    return libdevice.exp2f if T == types.float32 else libdevice.exp2


def _nextafter(T: Any) -> Any:
    if SIMULATOR:
        return np.nextafter
    return libdevice.nextafterf if T == types.float32 else libdevice.nextafter
