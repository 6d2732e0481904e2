"""Complex functions for the elementwise generator, accurate in both parts and on both sides of
every branch cut.

The textbook formulas fail quietly: log(|z|) has no digits left near |z| = 1, sqrt(z^2 + 1)
overflows, -i log(iz + ...) subtracts nearly equal numbers and loses the sign of a zero, by which
the two sides of a cut differ. The functions here work on real and imaginary part (a, b), with
constants of the compute type, so complex64 is computed in float32. They cost some branches; an
elementwise kernel is bound by memory all the same.

Sources: W. Kahan, Branch Cuts for Complex Elementary Functions (1987), for sqrt and tanh; T. E.
Hull, T. F. Fairgrieve, P. T. P. Tang, Implementing the Complex Arcsine and Arccosine Functions
Using Exception Handling, ACM TOMS 23 (1997), for the inverse functions, arranged as in FreeBSD's
msun.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.specs.complex_order import complex_order


def complex_functions(
    T: Any, device_function: Callable, hypot: Any, round_even: Any
) -> dict[str, Any]:
    """Names an expression on complex type T may use. hypot, round_even: those of its real type."""
    R = T.underlying_float
    info = np.finfo(R.name)
    nought, half, one, two, four = R(0), R(0.5), R(1), R(2), R(4)
    eps = R(float(info.eps))
    huge, log_huge = R(1 / float(info.eps)), R(-math.log(float(info.eps)))
    sqrt_least = R(math.sqrt(float(info.tiny)))
    infinity, missing = R(math.inf), R(math.nan)
    ln2, ln10, pi_half = R(math.log(2)), R(math.log(10)), R(math.pi / 2)
    high = R(math.floor(math.log(float(info.max))))  # exp overflows beyond
    far = R(math.log(float(info.max)) / 4)  # tanh is 1 beyond

    @device_function
    def make(a, b):
        return T(complex(R(a), R(b)))

    @device_function
    def polar(r, angle):
        return make(r * math.cos(angle), r * math.sin(angle))

    # -------------------- arithmetic

    @device_function
    def divide(
        x, y
    ):  # Smith: by the larger part first, so that |y|^2 neither overflows nor vanishes
        a, b, c, d = x.real, x.imag, y.real, y.imag
        if abs(c) >= abs(d):
            if c == nought and d == nought:
                return make(a / abs(c), b / abs(d))
            ratio = d / c
            scale = one / (c + d * ratio)
            return make((a + b * ratio) * scale, (b - a * ratio) * scale)
        ratio = c / d
        scale = one / (d + c * ratio)
        return make((a * ratio + b) * scale, (b * ratio - a) * scale)

    @device_function
    def reciprocal(x):
        c, d = x.real, x.imag
        if abs(c) >= abs(d):
            ratio = d / c
            size = c + d * ratio
            return make(one / size, -ratio / size)
        ratio = c / d
        size = c * ratio + d
        return make(ratio / size, -one / size)

    @device_function
    def conj(x):
        return make(x.real, -x.imag)

    @device_function
    def absolute(x):
        return hypot(x.real, x.imag)

    @device_function
    def argument(x):
        return math.atan2(x.imag, x.real)

    @device_function
    def sign(x):  # x / |x|
        size = hypot(x.real, x.imag)
        if size == infinity and math.isinf(x.real) != math.isinf(
            x.imag
        ):  # all of it lies along one axis
            return (
                make(math.copysign(one, x.real), nought)
                if math.isinf(x.real)
                else make(nought, math.copysign(one, x.imag))
            )
        return make(nought, nought) if size == nought else make(x.real / size, x.imag / size)

    @device_function
    def round_parts(x):
        return make(round_even(x.real), round_even(x.imag))

    @device_function
    def round_to(
        x, y
    ):  # y: a real number; by divisions of real numbers, for 12 * (1 / 10) is not 1.2
        step = -y.real
        if step > nought:
            return make(round_even(x.real / step) * step, round_even(x.imag / step) * step)
        return make(round_even(x.real * y.real) / y.real, round_even(x.imag * y.real) / y.real)

    @device_function
    def isfinite(x):
        return math.isfinite(x.real) and math.isfinite(x.imag)

    @device_function
    def isinf(x):
        return math.isinf(x.real) or math.isinf(x.imag)

    # -------------------- order

    less, less_equal, _ = complex_order(device_function)

    @device_function
    def maximum(x, y):  # NaN if either is
        return x if less_equal(y, x) or x != x else y

    @device_function
    def minimum(x, y):
        return x if less_equal(x, y) or x != x else y

    # -------------------- powers, exponentials, logarithms

    @device_function
    def sqrt(x):  # Kahan: the part that is a sum of equal signs first, the other by division
        a, b = x.real, x.imag
        if a == nought and b == nought:
            return make(nought, b)
        if math.isinf(b):
            return make(abs(b), b)
        if math.isnan(a) or math.isnan(b):
            if math.isinf(a):
                return make(a, missing) if a > nought else make(missing, infinity)
            return make(missing, missing)
        large = abs(a) > huge or abs(b) > huge
        scale = R(0.25) if large else one
        size = math.sqrt((abs(a) * scale + hypot(a * scale, b * scale)) * half)
        other = abs(b) * scale / (two * size) if size > nought and not math.isinf(size) else nought
        grow = two if large else one
        if a >= nought:
            return make(size * grow, math.copysign(other * grow, b))
        return make(other * grow, math.copysign(size * grow, b))

    @device_function
    def exp(x):
        a, b = x.real, x.imag
        if b == nought:  # keeps the sign of the zero, and infinity from 0 * infinity
            return make(math.exp(a), b)
        if math.isinf(a) and not math.isfinite(b):
            return make(a, missing) if a > nought else make(nought, nought)
        if a > high:  # e^a may overflow where e^a cos b does not
            root = math.exp(a * half)
            return make(root * math.cos(b) * root, root * math.sin(b) * root)
        size = math.exp(a)
        return make(size * math.cos(b), size * math.sin(b))

    @device_function
    def exp2(x):
        return exp(make(x.real * ln2, x.imag * ln2))

    @device_function
    def expm1(x):  # e^a cos b - 1 = expm1(a) cos b - 2 sin(b/2)^2
        a, b = x.real, x.imag
        s = math.sin(b * half)
        e = exp(x)
        if math.isfinite(a) and math.isfinite(b):
            return make(
                math.expm1(a) * math.cos(b) - two * s * s + nought, e.imag
            )  # 0 rather than -0
        return make(e.real - one, e.imag)

    @device_function
    def log_size(a, b):  # log |z|; near 1 by log1p(|z|^2 - 1) / 2
        a, b = abs(a), abs(b)
        more, less = (a, b) if a > b else (b, a)
        if more > half and more < two and less < one:
            return math.log1p((more - one) * (more + one) + less * less) * half
        if (
            more > huge or more < sqrt_least
        ):  # far from 1, where the sum of squares may leave the range
            if more > huge:
                return math.log(hypot(a * half, b * half)) + ln2
            return math.log(hypot(a * huge, b * huge)) - log_huge
        return math.log(hypot(a, b))

    @device_function
    def log(x):
        return make(log_size(x.real, x.imag), math.atan2(x.imag, x.real))

    @device_function
    def log2(x):
        return make(log_size(x.real, x.imag) / ln2, math.atan2(x.imag, x.real) / ln2)

    @device_function
    def log10(x):
        return make(log_size(x.real, x.imag) / ln10, math.atan2(x.imag, x.real) / ln10)

    @device_function
    def log1p(x):  # |1 + z|^2 - 1 = a (2 + a) + b^2; from -1/2 down 1 + a is exact
        a, b = x.real, x.imag
        if a > -half and abs(a) + abs(b) < one:
            size = math.log1p(a * (two + a) + b * b) * half
        else:
            size = log_size(one + a, b)
        return make(size, math.atan2(b, one + a))

    @device_function
    def power(x, y):
        c, d = y.real, y.imag
        if c == nought and d == nought:
            return make(one, nought)
        if x.real == nought and x.imag == nought:
            return make(nought, nought) if c > nought else make(math.nan, math.nan)
        if (
            d == nought and abs(c) < R(100) and c == math.floor(c)
        ):  # whole: by squaring, exact where numbers are whole
            left, base = int(abs(c)), x
            while not left & 1:
                base = T(base * base)
                left >>= 1
            result = base  # 1 times it would make NaN of an infinite part
            left >>= 1
            while left > 0:
                base = T(base * base)
                if left & 1:
                    result = T(result * base)
                left >>= 1
            return reciprocal(result) if c < nought else result
        return exp(T(y * log(x)))

    # -------------------- trigonometric and hyperbolic

    # Where a part is infinite or NaN: what annex G of the C standard and the array API say.

    @device_function
    def sinh_parts(a, b):
        if b == nought:
            return math.sinh(a), b
        if not math.isfinite(b) and (a == nought or math.isinf(a)):
            return a, missing
        return math.sinh(a) * math.cos(b), math.cosh(a) * math.sin(b)

    @device_function
    def cosh_parts(a, b):
        if b == nought:
            return math.cosh(a), b * math.copysign(one, a)
        if not math.isfinite(b):
            if a == nought:
                return missing, nought
            if math.isinf(a):
                return infinity, missing
        return math.cosh(a) * math.cos(b), math.sinh(a) * math.sin(b)

    @device_function
    def sinh(x):
        u, v = sinh_parts(x.real, x.imag)
        return make(u, v)

    @device_function
    def cosh(x):
        u, v = cosh_parts(x.real, x.imag)
        return make(u, v)

    @device_function
    def sin(x):  # sin z = -i sinh iz
        u, v = sinh_parts(x.imag, x.real)
        return make(v, u)

    @device_function
    def cos(x):  # cos z = cosh iz
        u, v = cosh_parts(x.imag, x.real)
        return make(u, -v)

    @device_function
    def tanh_parts(a, b):  # Kahan
        if b == nought:
            return math.tanh(a), b
        if not math.isfinite(b):
            if math.isinf(a):
                return math.copysign(one, a), nought
            return (a if a == nought else missing), missing
        if abs(a) > far:
            return math.copysign(one, a), four * math.sin(b) * math.cos(b) * math.exp(-two * abs(a))
        t = math.tan(b)
        beta = one + t * t
        s = math.sinh(a)
        rho = math.sqrt(one + s * s)
        if math.isinf(t):
            return rho / s, one / t
        below = one + beta * s * s
        return beta * rho * s / below, t / below

    @device_function
    def tanh(x):
        u, v = tanh_parts(x.real, x.imag)
        return make(u, v)

    @device_function
    def tan(x):  # tan z = -i tanh iz
        u, v = tanh_parts(-x.imag, x.real)
        return make(v, -u)

    # -------------------- their inverses

    @device_function
    def half_excess(a, b, size):  # (sqrt(a^2 + b^2) - b) / 2 without cancellation; size is the root
        if b < nought:
            return (size - b) * half
        return a * half if b == nought else a * a / (size + b) * half

    @device_function
    def hull(x, y):
        """The common part of asinh and acos, for x, y >= 0: with A = (|z + i| + |z - i|) / 2 the
        real part log(A + sqrt(A^2 - 1)), and the terms of the imaginary part: (whether B = y / A
        gives it, B, sqrt(A^2 - y^2), y, both scaled alike)."""
        r, s = hypot(x, y + one), hypot(x, y - one)
        A = max(one, (r + s) * half)
        if A >= R(10):
            real = math.log(A + math.sqrt(A * A - one))
        elif y == one and x < eps * eps / R(128):
            real = math.sqrt(x)
        elif x >= eps * abs(y - one):
            beyond = half_excess(x, one + y, r) + half_excess(x, one - y, s)
            real = math.log1p(beyond + math.sqrt(beyond * (A + one)))
        elif y < one:
            real = x / math.sqrt((one - y) * (one + y))
        else:
            real = math.log1p((y - one) + math.sqrt((y - one) * (y + one)))
        if y < four * sqrt_least:
            return real, False, nought, A * (two / eps), y * (two / eps)
        B = y / A
        if B <= R(0.6417):
            return real, True, B, nought, y
        if y == one and x < eps / R(128):
            return real, False, B, math.sqrt(x) * math.sqrt((A + y) * half), y
        if x >= eps * abs(y - one):
            rest = half_excess(x, y + one, r) + half_excess(x, y - one, s)
            return real, False, B, math.sqrt(rest * (A + y)), y
        if y > one:
            grow = four / eps / eps
            return real, False, B, x * grow * y / math.sqrt((y + one) * (y - one)), y * grow
        return real, False, B, math.sqrt((one - y) * (one + y)), y

    @device_function
    def asinh_parts(a, b):
        x, y = abs(a), abs(b)
        if x == nought and y == nought:
            return a, b
        if x > huge or y > huge:
            real, imag = log_size(x, y) + ln2, math.atan2(y, x)
        else:
            real, usable, B, root, scaled = hull(x, y)
            imag = math.asin(B) if usable else math.atan2(scaled, root)
        return math.copysign(real, a), math.copysign(imag, b)

    @device_function
    def acos_parts(a, b):
        x, y = abs(a), abs(b)
        left = math.copysign(one, a) < nought
        if x > huge or y > huge:
            real, imag = math.atan2(y, a), log_size(x, y) + ln2
        elif x == one and y == nought:
            return (R(math.pi) if left else nought), -b
        else:
            imag, usable, B, root, scaled = hull(y, x)
            if usable:
                real = math.acos(-B if left else B)
            else:
                real = math.atan2(root, -scaled if left else scaled)
        return real, -math.copysign(imag, b)

    @device_function
    def atanh_parts(a, b):
        x, y = abs(a), abs(b)
        if y == nought and x <= one:
            return math.atanh(a), b
        if x == nought:
            return a, math.atan(b)
        if math.isinf(x) or math.isinf(y):
            return math.copysign(nought, a), (b if math.isnan(b) else math.copysign(pi_half, b))
        if math.isnan(x) or math.isnan(y):
            return missing, missing
        if x > huge or y > huge:
            size = hypot(x * half, y * half)
            return math.copysign(x * half / size / size * half, a), math.copysign(pi_half, b)
        if x == one and y < eps:
            real = (ln2 - math.log(y)) * half
        else:
            near = (x - one) * (x - one) + (y * y if y > sqrt_least else nought)
            real = math.log1p(four * x / near) * R(0.25)
        if x == one:
            imag = math.atan2(two, -y) * half
        elif y < eps:
            imag = math.atan2(two * y, (one - x) * (one + x)) * half
        else:
            imag = math.atan2(two * y, (one - x) * (one + x) - y * y) * half
        return math.copysign(real, a), math.copysign(imag, b)

    @device_function
    def asinh(x):
        u, v = asinh_parts(x.real, x.imag)
        return make(u, v)

    @device_function
    def asin(x):  # -i asinh(iz), reflected
        v, u = asinh_parts(x.imag, x.real)
        return make(u, v)

    @device_function
    def acos(x):
        u, v = acos_parts(x.real, x.imag)
        return make(u, v)

    @device_function
    def acosh(x):  # +-i acos(z), the sign that makes the real part positive
        u, v = acos_parts(x.real, x.imag)
        return make(abs(v), math.copysign(u, x.imag))

    @device_function
    def atanh(x):
        u, v = atanh_parts(x.real, x.imag)
        return make(u, v)

    @device_function
    def atan(x):
        v, u = atanh_parts(x.imag, x.real)
        return make(u, v)

    found = (
        make,
        polar,
        divide,
        reciprocal,
        conj,
        absolute,
        argument,
        sign,
        round_to,
        isfinite,
        isinf,
        sqrt,
        less,
        less_equal,
        maximum,
        minimum,
        exp,
        exp2,
        expm1,
        log,
        log2,
        log10,
        log1p,
        power,
        sin,
        cos,
        sinh,
        cosh,
        tan,
        tanh,
        asinh,
        asin,
        acos,
        acosh,
        atanh,
        atan,
    )
    return {f.__name__: f for f in found} | {"round_even": round_parts}
