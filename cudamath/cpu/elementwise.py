"""Elementwise functions that NumPy lacks or computes with a loss of digits."""

import numpy as np


def log1p(x: np.ndarray) -> np.ndarray:
    """log(1 + x) of complex numbers: |1 + x|^2 = 1 + a (2 + a) + b^2, and only what is beside the 1
    is rounded; beside -1 that would cancel, and 1 + a is exact."""
    out = np.empty_like(x)
    a, b = x.real, x.imag
    small = (a > -0.5) & (np.abs(a) + np.abs(b) < 1)
    out.real = np.where(small, np.log1p(a * (2 + a) + b * b) / 2, np.log(np.hypot(1 + a, b)))
    out.imag = np.arctan2(b, 1 + a)
    return out


def angle(x: np.ndarray) -> np.ndarray:
    """Argument of complex numbers."""
    return np.arctan2(x.imag, x.real)


def complex_of_parts(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x + iy, of the real parts of x and y."""
    out = np.empty(np.broadcast_shapes(x.shape, y.shape), x.dtype)
    out.real, out.imag = x.real, y.real
    return out


def of_polar(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """x exp(i y z), of the real parts of x, y and z."""
    angle = y.real * z.real
    out = np.empty(np.broadcast_shapes(x.shape, angle.shape), x.dtype)
    out.real, out.imag = x.real * np.cos(angle), x.real * np.sin(angle)
    return out


def fraction(x: np.ndarray) -> np.ndarray:
    """What is behind the point, with the sign of x: 0 of infinities."""
    return np.modf(x)[0]


def expm1(x: np.ndarray) -> np.ndarray:
    """exp(x) - 1 of complex numbers; where a part is infinite or NaN, what exp makes of it (NumPy
    has NaN there), and of a real part -0 the real part 0, as the array API has it."""
    out = np.where(np.isfinite(x), np.expm1(x), np.exp(x) - 1)
    out.real += 0.0
    return out


def average(sums: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Quotients of weighted sums and the sums of their weights."""
    if not np.all(totals):
        raise ZeroDivisionError(
            f"average: weights add up to 0 (of {totals.dtype}, sums of shape {totals.shape})"
        )
    return sums / totals


def floor_divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """floor(x / y) of floating-point numbers. Infinity divided by a finite number is infinite
    (NumPy has NaN there)."""
    out = np.asarray(np.floor_divide(x, y))
    lost = np.isinf(x) & np.isfinite(y)
    if lost.any():
        np.divide(x, y, out=out, where=lost)
    return out


def ldexp(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x 2^y of floating-point numbers, where y is whole; what does not fit an exponent is as good
    as the largest that does."""
    return np.ldexp(x, np.clip(y, -5000, 5000).astype(np.int32))


def clip(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """min(max(x, low), high)."""
    return np.clip(x, low, high)


clip.into = np._core.umath.clip  # type: ignore[attr-defined]  # the ufunc behind np.clip, which has no public name


def weighted_sum(x: np.ndarray, y: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a x + b y."""
    return x * a + y * b


def without_nan(x: np.ndarray, instead: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """x with another number for NaN, and nothing beyond the largest."""
    return np.where(np.isnan(x), instead, np.clip(x, -largest, largest))


def isposinf(x: np.ndarray) -> np.ndarray:
    """Whether elements are positive infinity."""
    return x == np.inf


def isneginf(x: np.ndarray) -> np.ndarray:
    """Whether elements are negative infinity."""
    return x == -np.inf


def between(low: np.ndarray, high: np.ndarray, t: np.ndarray) -> np.ndarray:
    """low + t (high - low), from the nearer end."""
    step = high - low
    return np.where(t == 0, low, np.where(t < 0.5, low + step * t, high - step * (1 - t)))


def unless_nan(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x, but NaN where y is."""
    return np.where(np.isnan(y), y, x)


def tanh_grad(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """g (1 - y^2)."""
    return g * (1 - y * y)


def logistic(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """g e^x / (e^x + 1)."""
    with np.errstate(over="ignore"):
        return g / (np.exp(-x) + 1)


def logistic2(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """g 2^x / (2^x + 1)."""
    with np.errstate(over="ignore"):
        return g / (np.exp2(-x) + 1)


def square_grad(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """g 2 x."""
    return g * x * 2


def larger_share(g: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """g where x is the larger one, half of it where both are equal, else 0."""
    return np.where(x > y, g, np.where(x == y, g * g.dtype.type(0.5), g.dtype.type(0)))


def clip_grad(g: np.ndarray, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """g between the bounds, half of it for each bound that x equals, else 0."""
    part = np.where(x > low, g.dtype.type(1), g.dtype.type(0.5)) * np.where(
        x < high, g.dtype.type(1), g.dtype.type(0.5)
    )
    return np.where((x >= low) & (x <= high), g * part, g.dtype.type(0))


def round_to(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The nearest multiple of 1 / scale, a real number; of complex numbers in each part, and of
    -scale where scale < 0."""
    if x.dtype.kind != "c":
        return np.rint(x * scale) / scale
    y, step = np.empty_like(x), -scale.real
    if step > 0:
        y.real, y.imag = np.rint(x.real / step) * step, np.rint(x.imag / step) * step
    else:
        y.real, y.imag = round_to(x.real, -step), round_to(x.imag, -step)
    return y


def tolerance(y: np.ndarray, rtol: np.ndarray, atol: np.ndarray) -> np.ndarray:
    """How far from y numbers are close to it."""
    return np.abs(y) * rtol + atol


def within(x: np.ndarray, y: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Whether x equals y, or both are finite and no further apart than `most`."""
    return (x == y) | (np.abs(x - y) <= most) & np.isfinite(x) & np.isfinite(y)


def norm_slope(x: np.ndarray, y: np.ndarray, power: np.ndarray) -> np.ndarray:
    """sign(x) (|x| / y)^power, and 0 where x or y is 0."""
    zero = (x == 0) | (y == 0)
    ratio = np.abs(np.where(zero, x.dtype.type(1), x)) / np.where(zero, x.dtype.type(1), y)
    return np.where(zero, x.dtype.type(0), np.copysign(ratio**power, x))


def norm_grad(x: np.ndarray, y: np.ndarray, g: np.ndarray) -> np.ndarray:
    """x g / y, and 0 where y is 0."""
    return np.where(y == 0, x.dtype.type(0), x * (g / y))


def spread_grad(x: np.ndarray, mean: np.ndarray, g: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """(x - mean) g times a factor."""
    return (x - mean) * (g * factor)


def sinc(x: np.ndarray) -> np.ndarray:
    """sin(pi x) / (pi x), and 1 at 0."""
    y = x * x.dtype.type(np.pi)
    safe = np.where(y == 0, x.dtype.type(1), y)
    return np.where(y == 0, x.dtype.type(1), np.sin(safe) / safe)


def frexp(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x -> m and e, int32; (x, 0) where x is not finite (see kernels/numeric/frexp.py)."""
    m, e = np.frexp(x)
    finite = np.isfinite(x)
    return np.where(finite, m, x), np.where(finite, e, 0).astype(np.int32, copy=False)
