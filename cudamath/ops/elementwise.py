"""Elementwise functions: every unary and binary function of the array API and their NumPy names.

A line is a whole op: name, NumPy function (the CPU implementation and the dtype rule), the scalar
expression of the GPU kernel, and the gradient. See `ufunc.py` for the meaning of the fields.
"""

from __future__ import annotations

import cmath
import functools
import math
import operator
from typing import Any

import numpy as np

from ..core import dtypes
from ..core.array import ndarray
from ..core.dispatch.checks import MISTAKES, as_of, require, speaks_for
from ..core.dispatch.op import (
    ANY,
    COMPLEX,
    FLOATING,
    INEXACT,
    INTEGER,
    INTEGER_OR_BOOL,
    NUMERIC,
    REAL_OR_BOOL,
    Category,
)
from ..core.scalar import scalar_results
from ..core.typing import ArrayLike, DTypeLike
from . import ufunc
from .out_argument import deliver

__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "conjugate",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "invert",
    "isfinite",
    "isinf",
    "isnan",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "power",
    "reciprocal",
    "remainder",
    "right_shift",
    "rint",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "true_divide",
    "trunc",
]

unary = functools.partial(ufunc.unary, namespace=globals())
binary = functools.partial(ufunc.binary, namespace=globals())

PRECISE = Category("float32 or float64", [np.float32, np.float64])

# -------------------- arithmetic

add = binary(
    "add", np.add, "x + y", ("g", "g"), category=ANY, doc="Add two arrays.", formula="x + y"
)
subtract = binary(
    "subtract",
    np.subtract,
    "x - y",
    ("g", "-g"),
    doc="Subtract one array from another.",
    formula="x - y",
)
multiply = binary(
    "multiply",
    np.multiply,
    "x * y",
    ("g * y", "g * x"),
    category=ANY,
    doc="Multiply two arrays.",
    formula="x * y",
)
divide = binary(
    "divide",
    np.divide,
    {"": "x / y", "c": "divide(x, y)"},
    ("g / y", "-g * out / y"),
    category=ANY,
    doc="Divide one array by another; integers give floating-point numbers.",
    formula="x / y",
)
floor_divide = binary(
    "floor_divide",
    np.floor_divide,
    "floor_divide(x, y)",
    category=REAL_OR_BOOL,
    cpu={"f": "elementwise.floor_divide"},
    formula="floor(x / y)",
    doc="Divide and round down; integers divided by zero give 0.",
)
remainder = binary(
    "remainder",
    np.remainder,
    "remainder(x, y)",
    ("g", "-g * floor_divide(x, y)"),
    category=REAL_OR_BOOL,
    doc="Return the remainder of the division, with the sign of y.",
    formula="x - floor(x / y) * y",
)
_power = binary(
    "pow",
    np.power,
    {"": "x if y == 1 else x ** y", "i": "power(x, y)", "u": "power(x, y)", "c": "power(x, y)"},
    ("_power_by_base(g, x, y)", "_power_by_exponent(g, out, x)"),
    category=ANY,
    doc="Raise to a power.",
    formula="x ** y",
    example="[2.0, 3.0], [2.0, 0.5]",
)
negative = unary(
    "negative",
    np.negative,
    "-x",
    "-g",
    doc="Return each element with the opposite sign.",
    formula="-x",
)
positive = unary(
    "positive", np.positive, "x", "g", doc="Return a copy of each element.", formula="+x"
)
abs = unary(
    "abs",
    np.absolute,
    {"": "abs(x)", "u": "x", "b": "x", "c": "absolute(x)"},
    "g * sign(x)",
    category=ANY,
    doc="Return the absolute value; of complex numbers the modulus.",
    formula="|x|",
)
square = unary(
    "square",
    np.square,
    "x * x",
    "_square_grad(g, x)",
    category=ANY,
    doc="Return the square.",
    formula="x * x",
)
_square_grad = binary(
    "square_grad",
    np.multiply,
    "x * y * 2",
    ("_square_grad(g, y)", "_square_grad(g, x)"),
    category=NUMERIC,
    cpu="elementwise.square_grad",
    doc="",
)
_square_grad.__doc__ = "g 2 x, the square's gradient, in one kernel."
multiply.card.twice = square.card  # type: ignore[attr-defined]  # what x * x is, for its gradient
sqrt = unary(
    "sqrt",
    np.sqrt,
    "sqrt(x)",
    "g * 0.5 / out",
    category=ANY,
    doc="Return the square root.",
    formula="x ** 0.5",
)
reciprocal = unary(
    "reciprocal",
    np.reciprocal,
    {
        "": "1 / x",
        "i": "x if x == 1 or x == -1 else 0",
        "u": "x if x == 1 else 0",
        "c": "reciprocal(x)",
    },
    "-g * out * out",
    category=ANY,
    doc="Return the reciprocal.",
    formula="1 / x",
)
sign = unary(
    "sign",
    np.sign,
    "sign(x)",
    "_sign_grad(g, out, x)",
    doc="Return the sign: -1, 0 or 1; of complex numbers x / |x|.",
)
hypot = binary(
    "hypot",
    np.hypot,
    "hypot(x, y)",
    (
        "g * (x / where(equal(out, 0), math.inf, out))",
        "g * (y / where(equal(out, 0), math.inf, out))",
    ),
    category=REAL_OR_BOOL,
    doc="Return the length of the hypotenuse, without overflow.",
    formula="sqrt(x**2 + y**2)",
)
norm_slope = ufunc.Elementwise(
    "norm_slope",
    np.multiply,
    "0 if x == 0 or y == 0 else copysign((abs(x) / y) ** z, x)",
    (
        "g * z * abs(norm_slope(x, y, z - 1.0)) / where(y == 0, 1, y)",
        "-g * z * out / where(y == 0, 1, y)",
        "g * 0",
    ),
    PRECISE,
    "elementwise.norm_slope",
    globals(),
)
norm_slope.__doc__ = (
    "sign(x) (|x| / y)^z: the derivative of y, a norm of order z + 1, by its "
    "elements x; 0 where either is 0."
)
norm_grad = ufunc.Elementwise(
    "norm_grad",
    np.multiply,
    {"": "x * (z / y) if y != 0 else 0", "c": "x * divide(z, y) if y != 0 else 0"},
    ("norm_grad(g, y, z)", "-norm_grad(g * out, y, 1.0)", "norm_grad(g * x, y, 1.0)"),
    INEXACT,
    "elementwise.norm_grad",
    globals(),
)
norm_grad.__doc__ = (
    "z x / y, and 0 where y is 0: the gradient z of a length y, by its elements x, in one kernel."
)


class _AsFirst(ufunc.Elementwise):
    """The result has the dtype of the first operand: a mean of 16-bit numbers in float32 does not
    widen a gradient by them."""

    def resolved(self, operands: tuple, common: np.dtype) -> tuple[np.dtype, np.dtype]:
        first = next(x for x in operands if type(x) not in ufunc.SCALARS)
        return super().resolved(operands, common)[0], first.dtype


spread_grad = _AsFirst(
    "spread_grad",
    np.multiply,
    "(x - y) * (z * x3)",
    ("g * z * x3", "-g * z * x3", "g * (x - y) * x3", "None"),
    INEXACT,
    "elementwise.spread_grad",
    globals(),
    nin=4,
)
spread_grad.__doc__ = (
    "(x - y) z times a number: the gradient z of a variance, by its elements x "
    "of mean y, in one kernel."
)
copysign = binary(
    "copysign",
    np.copysign,
    "copysign(x, y)",
    ("g * sign(x) * sign(out)", "g * 0"),
    category=REAL_OR_BOOL,
    doc="Return the magnitude of x with the sign of y.",
)


def _next_of(digits: int, smallest: float, largest: float) -> str:
    """`nextafter` of 16-bit floats of so many digits, in float32. smallest: the normal ones begin
    there. Of 0 and -0, which are equal, y is the result, as the C standard has it (NumPy's float16
    since 2.5). Towards 0 a power of two is as near to the next one as the numbers below it."""
    size = f"maximum(abs(x) if (x < y) == (x > 0) else abs(x) * {1 - 2.0**-12!r}, {smallest!r})"
    return (
        f"x + y if x != x or y != y else y if x == y else copysign({largest!r}, x) if "
        "isinf(x) else "
        f"copysign(x + ldexp(1 if x < y else -1, exponent({size}) - {digits}), x if x != 0 else y)"
    )


nextafter = binary(
    "nextafter",
    np.nextafter,
    {
        "": "nextafter(x, y)",
        "float16": _next_of(11, 2.0**-14, 65504.0),
        "bfloat16": _next_of(8, 2.0**-126, 2.0**128 - 2.0**120),
    },
    category=REAL_OR_BOOL,
    doc="Return the next representable number after x towards y.",
)

# -------------------- exponentials and logarithms

exp = unary(
    "exp",
    np.exp,
    "exp(x)",
    "g * out",
    category=ANY,
    doc="Return the exponential.",
    formula="e ** x",
)
expm1 = unary(
    "expm1",
    np.expm1,
    "expm1(x)",
    "g * (out + 1)",
    category=ANY,
    doc="Return exp(x) - 1, accurate near 0.",
    formula="e ** x - 1",
    cpu={"c": "elementwise.expm1"},
)
exp2 = unary(
    "exp2",
    np.exp2,
    "exp2(x)",
    "g * out * LN2",
    category=ANY,
    doc="Return a power of two.",
    formula="2 ** x",
)
log = unary(
    "log",
    np.log,
    "log(x)",
    "g / x",
    category=ANY,
    doc="Return the natural logarithm.",
    formula="ln x",
)
log1p = unary(
    "log1p",
    np.log1p,
    "log1p(x)",
    "g / (x + 1)",
    category=ANY,
    doc="Return log(1 + x), accurate near 0.",
    formula="ln(1 + x)",
    cpu={"c": "elementwise.log1p"},
)
log2 = unary(
    "log2", np.log2, "log2(x)", "g / (x * LN2)", category=ANY, doc="Return the logarithm to base 2."
)
log10 = unary(
    "log10",
    np.log10,
    "log10(x)",
    "g / (x * LN10)",
    category=ANY,
    doc="Return the logarithm to base 10.",
)
logaddexp = binary(
    "logaddexp",
    np.logaddexp,
    "logaddexp(x, y)",
    ("_logistic(g, _beyond(x, y))", "_logistic(g, _beyond(y, x))"),
    category=REAL_OR_BOOL,
    doc="Return the logarithm of a sum of exponentials.",
    formula="log(exp(x) + exp(y))",
)
_logistic = binary(
    "logistic",
    np.multiply,
    "x / (exp(-y) + 1)",
    ("_logistic(g, y)", "_logistic(_logistic(g * x, y), -y)"),
    category=FLOATING,
    cpu="elementwise.logistic",
    doc="",
)
_logistic.__doc__ = (
    "x e^y / (e^y + 1), in one kernel; its slopes are of its kind too, so that no "
    "exponential outgrows them."
)
LN2, LN10 = math.log(2), math.log(10)

# -------------------- trigonometric and hyperbolic

sin = unary(
    "sin",
    np.sin,
    "sin(x)",
    "g * cos(x)",
    category=ANY,
    doc="Return the sine of an angle in radians.",
)
cos = unary(
    "cos",
    np.cos,
    "cos(x)",
    "-g * sin(x)",
    category=ANY,
    doc="Return the cosine of an angle in radians.",
)
tan = unary(
    "tan",
    np.tan,
    "tan(x)",
    "g * (out * out + 1)",
    category=ANY,
    doc="Return the tangent of an angle in radians.",
)
asin = unary(
    "asin",
    np.arcsin,
    "asin(x)",
    "g / sqrt(1 - x * x)",
    category=ANY,
    doc="Return the inverse sine in radians.",
)
acos = unary(
    "acos",
    np.arccos,
    "acos(x)",
    "-g / sqrt(1 - x * x)",
    category=ANY,
    doc="Return the inverse cosine in radians.",
)
atan = unary(
    "atan",
    np.arctan,
    "atan(x)",
    "g / (x * x + 1)",
    category=ANY,
    doc="Return the inverse tangent in radians.",
)
sinh = unary(
    "sinh", np.sinh, "sinh(x)", "g * cosh(x)", category=ANY, doc="Return the hyperbolic sine."
)
cosh = unary(
    "cosh", np.cosh, "cosh(x)", "g * sinh(x)", category=ANY, doc="Return the hyperbolic cosine."
)
tanh = unary(
    "tanh",
    np.tanh,
    "tanh(x)",
    "g * (1 - out * out) if g.dtype.kind == 'c' else _tanh_grad(g, out)",
    category=ANY,
    doc="Return the hyperbolic tangent.",
)
_tanh_grad = binary(
    "tanh_grad",
    np.multiply,
    "x * (1 - y * y)",
    ("_tanh_grad(g, y)", "g * x * y * -2"),
    category=FLOATING,
    cpu="elementwise.tanh_grad",
    doc="",
)
_tanh_grad.__doc__ = "g (1 - y^2), tanh's gradient at y = tanh x, in one kernel."
asinh = unary(
    "asinh",
    np.arcsinh,
    "asinh(x)",
    "g / (sqrt(x * x + 1) if g.dtype.kind == 'c' else hypot(x, 1.0))",
    category=ANY,
    doc="Return the inverse hyperbolic sine.",
)
acosh = unary(
    "acosh",
    np.arccosh,
    "acosh(x)",
    "g / (sqrt(x - 1) * sqrt(x + 1))",
    category=ANY,
    doc="Return the inverse hyperbolic cosine.",
    example="[1.5, 2.0]",
)
atanh = unary(
    "atanh",
    np.arctanh,
    "atanh(x)",
    "g / (1 - x * x)",
    category=ANY,
    doc="Return the inverse hyperbolic tangent.",
)
atan2 = binary(
    "atan2",
    np.arctan2,
    "atan2(x, y)",
    ("_turn(g, y, x)", "_turn(-g, x, y)"),
    category=REAL_OR_BOOL,
    doc="Return the angle in radians of the point (y, x), from -pi to pi.",
)

# -------------------- rounding

floor = unary(
    "floor",
    np.floor,
    {"": "x", "f": "floor(x)"},
    category=REAL_OR_BOOL,
    doc="Return the largest integer not above x.",
)
ceil = unary(
    "ceil",
    np.ceil,
    {"": "x", "f": "ceil(x)"},
    category=REAL_OR_BOOL,
    doc="Return the smallest integer not below x.",
)
trunc = unary(
    "trunc",
    np.trunc,
    {"": "x", "f": "trunc(x)"},
    category=REAL_OR_BOOL,
    doc="Round towards zero.",
)
_rint = unary(
    "rint",
    np.rint,
    {"": "x", "f": "round_even(x)", "c": "round_even(x)"},
    category=ANY,
    doc="Round to the nearest integer; ties go to the even one.",
)

_round_to = binary(
    "round_to",
    np.multiply,
    {"": "round_even(x * y) / y", "c": "round_to(x, y)"},
    category=Category("float32, float64 or complex", PRECISE | COMPLEX),
    cpu="elementwise.round_to",
    doc="",
)
_round_to.__doc__ = (
    "The multiple of 1 / y nearest to x; of complex numbers in each part, or of "
    "-y where y < 0. One kernel."
)

# -------------------- comparison, extremes

equal = binary(
    "equal",
    np.equal,
    "x == y",
    category=ANY,
    doc="Return whether elements are equal.",
    formula="x == y",
)
not_equal = binary(
    "not_equal",
    np.not_equal,
    "x != y",
    category=ANY,
    doc="Return whether elements differ.",
    formula="x != y",
)
less = binary(
    "less",
    np.less,
    {"": "x < y", "c": "less(x, y)"},
    category=ANY,
    doc="Return whether x is less than y.",
    formula="x < y",
)
less_equal = binary(
    "less_equal",
    np.less_equal,
    {"": "x <= y", "c": "less_equal(x, y)"},
    category=ANY,
    doc="Return whether x is at most y.",
    formula="x <= y",
)
greater = binary(
    "greater",
    np.greater,
    {"": "x > y", "c": "less(y, x)"},
    category=ANY,
    doc="Return whether x is greater than y.",
    formula="x > y",
)
greater_equal = binary(
    "greater_equal",
    np.greater_equal,
    {"": "x >= y", "c": "less_equal(y, x)"},
    category=ANY,
    doc="Return whether x is at least y.",
    formula="x >= y",
)
maximum = binary(
    "maximum",
    np.maximum,
    "maximum(x, y)",
    ("_share(g, x, y)", "_share(g, y, x)"),
    category=ANY,
    doc="Return the larger of two elements; NaN if either is NaN.",
)
minimum = binary(
    "minimum",
    np.minimum,
    "minimum(x, y)",
    ("_share(g, y, x)", "_share(g, x, y)"),
    category=ANY,
    doc="Return the smaller of two elements; NaN if either is NaN.",
)
isfinite = unary(
    "isfinite",
    np.isfinite,
    {"": "True", "f": "isfinite(x)", "c": "isfinite(x)"},
    category=ANY,
    doc="Return whether elements are neither infinite nor NaN.",
)
isinf = unary(
    "isinf",
    np.isinf,
    {"": "False", "f": "isinf(x)", "c": "isinf(x)"},
    category=ANY,
    doc="Return whether elements are infinite.",
)
isnan = unary(
    "isnan",
    np.isnan,
    {"": "False", "f": "x != x", "c": "x != x"},
    category=ANY,
    doc="Return whether elements are NaN.",
)
signbit = unary(
    "signbit",
    np.signbit,
    {"": "x < 0", "f": "signbit(x)"},
    category=REAL_OR_BOOL,
    doc="Return whether the sign bit is set (-0.0 included).",
)


_share = ufunc.Elementwise(
    "larger_share",
    np.multiply,
    {
        "": "x if y > z else x * 0.5 if y == z else 0",
        "c": "x if less(z, y) else x * 0.5 if y == z else 0",
    },
    ("_share(g, y, z)", "None", "None"),
    INEXACT,
    "elementwise.larger_share",
    globals(),
)
_share.__doc__ = (
    "The part of a maximum's gradient x that goes to y, not to z: all, none, or half "
    "of it where both are equal."
)


def _power_by_base(g: ndarray, x: ndarray, y: Any) -> ndarray:
    """g y x^(y-1), and 0 where y is 0, also where 1 / x is infinite or NaN. Elsewhere y = 0 is no
    exception: its slope there is g / x."""
    if not isinstance(y, ndarray):
        return g * (y * _power(x, y - 1)) if y else g * 0
    x, y = (
        x.astype(g.dtype, copy=False),
        y.astype(g.dtype, copy=False),
    )  # y - 1 would be rounded to a narrower dtype
    nowhere = (y == 0) & logical_not(isfinite(reciprocal(x)))
    return where(nowhere, 0, g * (y * _power(where(nowhere, 1, x), y - 1)))


def _power_by_exponent(g: ndarray, out: ndarray, x: Any) -> ndarray:
    """g log(x) x^y; where x is 0, 0 unless x^y is infinite. A negative real x has powers at whole y
    only: NaN, unless y is complex."""
    if not isinstance(x, ndarray):
        if x:
            return (
                g
                * out
                * (
                    cmath.log(x)
                    if isinstance(x, complex) or g.dtype in COMPLEX
                    else math.log(x)
                    if x > 0
                    else math.nan
                )
            )
        return g * where(isfinite(out), 0, -math.inf * out)
    nowhere = logical_and(equal(x, 0), isfinite(out))
    return g * out * log(where(nowhere, 1, x).astype(g.dtype, copy=False))


def _beyond(x: Any, y: Any) -> ndarray:
    """x - y, and 0 where both are the same infinity."""
    return where(logical_and(equal(x, y), isinf(x)), 0, x - y)


def _turn(g: ndarray, x: Any, y: Any) -> ndarray:
    """g x / r^2 for the distance r of (x, y) from the origin, without overflow; 0 there, where no
    angle is, as PyTorch's."""
    r = hypot(x, y)
    r = where(r == 0, 1, r)
    return g * (x / r) / r


def _sign_grad(g: ndarray, out: ndarray, x: ndarray) -> ndarray:
    """0 for real numbers; on the complex plane sign(x) = x / |x| turns but does not grow: what is
    along x goes."""
    if x.dtype not in COMPLEX:
        return g * 0
    g = conj(g)  # the rule around this one conjugates twice
    along = out * (g * conj(out)).real
    return conj(where(x == 0, 0, (g - along) / where(x == 0, 1, abs(x))))


# -------------------- logic and bits

logical_and = binary(
    "logical_and",
    np.logical_and,
    "x != 0 and y != 0",
    category=ANY,
    doc="Return whether both elements are not zero.",
)
logical_or = binary(
    "logical_or",
    np.logical_or,
    "x != 0 or y != 0",
    category=ANY,
    doc="Return whether at least one of two elements is not zero.",
)
logical_xor = binary(
    "logical_xor",
    np.logical_xor,
    "(x != 0) != (y != 0)",
    category=ANY,
    doc="Return whether exactly one of two elements is not zero.",
)
logical_not = unary(
    "logical_not", np.logical_not, "x == 0", category=ANY, doc="Return whether elements are zero."
)
_BITS: dict[str, Any] = {"category": INTEGER_OR_BOOL, "example": "[3, 5], [2, 4]"}
bitwise_and = binary(
    "bitwise_and",
    np.bitwise_and,
    "x & y",
    doc="Return the bits that are set in both elements.",
    formula="x & y",
    **_BITS,
)
bitwise_or = binary(
    "bitwise_or",
    np.bitwise_or,
    "x | y",
    doc="Return the bits that are set in at least one element.",
    formula="x | y",
    **_BITS,
)
bitwise_xor = binary(
    "bitwise_xor",
    np.bitwise_xor,
    "x ^ y",
    doc="Return the bits that are set in exactly one element.",
    formula="x ^ y",
    **_BITS,
)
bitwise_invert = unary(
    "bitwise_invert",
    np.invert,
    {"": "~x", "b": "x == 0"},
    category=INTEGER_OR_BOOL,
    doc="Invert all bits.",
    formula="~x",
    example="[3, 5]",
)
bitwise_left_shift = binary(
    "bitwise_left_shift",
    np.left_shift,
    "shift_left(x, y)",
    category=INTEGER_OR_BOOL,
    doc="Shift the bits up by y.",
    formula="x << y",
    example="[3, 5], [2, 4]",
)
bitwise_right_shift = binary(
    "bitwise_right_shift",
    np.right_shift,
    "shift_right(x, y)",
    category=INTEGER_OR_BOOL,
    doc="Shift the bits down by y; the sign is kept.",
    formula="x >> y",
    example="[3, 5], [2, 4]",
)

# -------------------- complex

_conj = unary(
    "conj",
    np.conjugate,
    "conj(x)",
    "conj(g)",
    category=COMPLEX,
    doc="Return the complex conjugate.",
    example="[1j, 2 - 1j]",
)


@scalar_results
def conj(
    x: Any,
    /,
    out: ndarray | None = None,
    *,
    where: ArrayLike = True,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
    **options: Any,
) -> ndarray:
    """Return the complex conjugate.

    Parameters
    ----------
    x : array_like
        Numeric array of any shape.
    out : ndarray, optional
        Array that receives the result.
    where : array_like, default True
        Bool array that broadcasts and selects the elements to compute. The others keep the values
        of `out`, or are 0 without `out`.
    dtype : dtype_like, optional
        Dtype of the result.
    casting : str, default "same_kind"
        NumPy's rule for the conversions between the operands, the computation and the result.
    **options : object
        NumPy's `order`, `subok` and `signature`.

    Returns
    -------
    ndarray
        The conjugates.

    Notes
    -----
    Gradient: conj(g).

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.conj(1 + 2j).item()
    (1-2j)
    """
    plain = out is dtype is None and where is True and casting == "same_kind" and not options
    x = require("conj", x)
    if x.dtype == np.bool_:  # NumPy's ufunc has no loop of bool
        x = x.astype(np.int8)
    if not plain:
        try:
            return (_conj if x.dtype in COMPLEX else positive)(
                x, out, where=where, dtype=dtype, casting=casting, **options
            )
        except MISTAKES as error:
            raise as_of("conj", error) from None
    return _conj(x) if x._layout.dtype.kind == "c" else positive(x)


def conj_or_same(x: ndarray) -> ndarray:
    """The complex conjugate, real arrays as they are."""
    return _conj(x) if x._layout.dtype.kind == "c" else x


def pow(
    x: Any,
    y: Any,
    /,
    out: ndarray | None = None,
    *,
    where: ArrayLike = True,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
    **options: Any,
) -> ndarray:
    """Raise to a power: x ** y.

    The shapes broadcast, and the dtype is that of NumPy's `power`.

    Parameters
    ----------
    x : array_like
        Numeric array.
    y : array_like
        Numeric array of exponents.
    out : ndarray, optional
        Array that receives the result.
    where : array_like, default True
        Bool array that broadcasts and selects the elements to compute. The others keep the values
        of `out`, or are 0 without `out`.
    dtype : dtype_like, optional
        Dtype of the computation.
    casting : str, default "same_kind"
        NumPy's rule for the conversions between the operands, the computation and the result.
    **options : object
        NumPy's `order`, `subok` and `signature`.

    Returns
    -------
    ndarray
        The powers.

    Raises
    ------
    ValueError
        An exponent is a negative integer and both operands are integers. An array on a GPU is not
        checked: its negative exponents give x ** y truncated to an integer.

    Notes
    -----
    Gradient: g * y * x**(y-1) and g * log(x) * out. The function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.pow([2.0, 3.0], 2).tolist()
    [4.0, 9.0]
    """
    if where is not True or dtype is not None or casting != "same_kind" or options:
        return _power(x, y, out, where=where, dtype=dtype, casting=casting, **options)
    if type(y) in (int, float) and not isinstance(x, (bool, int, float, complex)):
        x = require("pow", x)
        if y == 2 and x.dtype in (NUMERIC if type(y) is int else INEXACT):
            return square(x) if out is None else speaks_for("pow")(square)(x, out)
        if y < 0 and x.dtype in INTEGER_OR_BOOL and type(y) is int:
            raise ValueError(
                f"pow: integers to a negative integer power ({y}) are not integers; convert "
                f"{x.dtype} of shape "
                f"{x.shape} to a float dtype first"
            )
    return _power(x, y) if out is None else _power(x, y, out)


@scalar_results
def round(x: ArrayLike, /, decimals: int = 0, out: ndarray | None = None) -> ndarray:
    """Round to a number of decimals, ties to even.

    Integers are returned as they are for decimals >= 0.

    Parameters
    ----------
    x : array_like
        Numeric array of any shape.
    decimals : int, default 0
        Number of decimals.
    out : ndarray, optional
        Array that receives the result.

    Returns
    -------
    ndarray
        Array of x's dtype.

    Notes
    -----
    The gradient is 0.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.round([0.5, 1.5, 2.567], 1).tolist()
    [0.5, 1.5, 2.6]
    """
    if out is not None:
        return deliver("round", round(x, decimals), out)
    x = require("round", x)
    try:
        decimals = operator.index(decimals)
    except TypeError:
        raise TypeError(
            f"round: decimals must be an integer, got {decimals!r:.60} for {x.dtype} of shape "
            f"{x.shape}"
        ) from None
    if x.dtype in INTEGER and decimals >= 0 or decimals > 308:  # no float64 has as many decimals
        return positive(x)
    if decimals == 0:
        return _rint(x)
    if x.dtype == np.bool_:
        raise TypeError(
            f"round: bool of shape {x.shape} has no {decimals} decimals; convert it to numbers"
        )
    if x.dtype in FLOATING and x.dtype not in PRECISE:
        return round(x.astype(np.float32), decimals).astype(x.dtype)
    step = 10.0 ** min(-decimals, 308)
    if x.dtype in COMPLEX:
        return _round_to(x, -step if decimals < 0 else 10.0**decimals)
    if decimals < 0 and (
        x.dtype != np.float32 or step <= np.finfo(np.float32).max
    ):  # 1e3 is a number, 1e-3 none
        return (_rint(x / step) * step).astype(x.dtype)
    scale = 10.0**decimals
    if x.dtype in PRECISE:
        return _round_to(x, scale)
    return (_rint(x * scale) / scale).astype(x.dtype)


@scalar_results
def clip(
    x: ArrayLike,
    /,
    a_min: ArrayLike | None = np._NoValue,  # type: ignore[assignment]
    a_max: ArrayLike | None = np._NoValue,  # type: ignore[assignment]
    out: ndarray | None = None,
    *,
    min: ArrayLike | None = np._NoValue,  # type: ignore[assignment]
    max: ArrayLike | None = np._NoValue,  # type: ignore[assignment]
    where: ArrayLike = True,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
) -> ndarray:
    """Limit the elements to the interval [min, max].

    Either bound may be None. The dtype is that of `x`, promoted with the bounds that are arrays.

    Parameters
    ----------
    x : array_like
        Array of any shape.
    a_min, a_max : array_like, optional
        Lower and upper bound, scalars or arrays that broadcast. None is no bound. By position both
        must be there.
    out : ndarray, optional
        Array that receives the result.
    min, max : array_like, optional
        The bounds as keywords, of which one is enough.
    where : array_like, default True
        Bool array that broadcasts and selects the elements to compute. The others keep the values
        of `out`, or are 0 without `out`.
    dtype : dtype_like, optional
        Dtype of the result.
    casting : str, default "same_kind"
        NumPy's rule for the conversions between the operands, the computation and the result.

    Returns
    -------
    ndarray
        The limited elements.

    Raises
    ------
    TypeError
        An operand is not numeric.
    ValueError
        The shapes do not broadcast.

    Notes
    -----
    The gradient of `x` is g where x lies between the bounds, and half of it where x equals one. The
    rest goes to the bounds that are arrays.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.clip([1.0, 5.0, 9.0], 2.0, 6.0).tolist()
    [2.0, 5.0, 6.0]
    """
    absent = np._NoValue
    if a_min is not absent and a_max is not absent:
        if min is not absent or max is not absent:
            raise ValueError("clip: a_min, a_max and min, max are the same; got both")
        min, max = a_min, a_max
    elif a_min is not a_max:  # one is there
        missing = "a_max" if a_max is absent else "a_min"
        raise TypeError(f"clip() missing 1 required positional argument: {missing!r}")
    else:
        min, max = None if min is absent else min, None if max is absent else max
    plain = dtype is None and where is True and casting == "same_kind"
    if plain and out is not None:
        if (
            isinstance(x, ndarray)
            and isinstance(out, ndarray)
            and min is not None
            and max is not None
            and _clip.into((x, min, max), out)
        ):
            return out
        return deliver("clip", clip(x, min, max), out)
    x = require("clip", x)
    own = x.dtype if dtype is None else dtypes.as_dtype(dtype, "clip")
    if own in INTEGER:  # a bound that no element can pass is none
        limits = np.iinfo(own)
        min = None if type(min) is int and min < limits.min else min
        max = None if type(max) is int and max > limits.max else max
    if plain and min is not None and max is not None:
        return _clip(x, min, max)
    options = {} if plain else {"dtype": dtype, "casting": casting}
    try:
        if max is None:
            return (
                positive(x, out, where=where, **options)
                if min is None
                else maximum(x, min, out, where=where, **options)
            )
        return minimum(
            x if min is None else maximum(x, min, **options), max, out, where=where, **options
        )
    except MISTAKES as error:
        raise as_of("clip", error) from None


_clip = ufunc.Elementwise(
    "clip",
    np.maximum,
    "minimum(maximum(x, y), z)",
    (
        "_clip_grad(g, x, y, z)",
        "_share(_share(g, z, maximum(x, y)), y, x)",
        "_share(g, maximum(x, y), z)",
    ),
    ANY,
    "elementwise.clip",
    globals(),
)
_clip_grad = ufunc.Elementwise(
    "clip_grad",
    np.multiply,
    {
        "": "x * ((1 if y > z else 0.5) * (1 if y < x3 else 0.5)) if y >= z and y <= x3 else 0",
        "c": "x * ((1 if less(z, y) else 0.5) * (1 if less(y, x3) else 0.5))"
        " if less_equal(z, y) and less_equal(y, x3) else 0",
    },
    ("_clip_grad(g, y, z, x3)", "None", "None", "None"),
    INEXACT,
    "elementwise.clip_grad",
    globals(),
    nin=4,
)
_clip_grad.__doc__ = (
    "g = x where y lies between the bounds z and x3, half of it for each that it "
    "equals, else 0: one kernel."
)


weighted_sum = ufunc.Elementwise(
    "weighted_sum",
    np.add,
    "x * z + y * x3",
    ("g * z", "g * x3", "g * x", "g * y"),
    INEXACT,
    "elementwise.weighted_sum",
    globals(),
    nin=4,
)  # of two arrays by two numbers


def where(condition: Any, x: Any, y: Any) -> ndarray:
    """x where the condition holds, else y (for gradient expressions; the public one is in
    `index.py`)."""
    from .where import where as choose

    return choose(condition, x, y)


# NumPy's names of the same functions
absolute, true_divide, mod, power, arctan2 = abs, divide, remainder, pow, atan2
arcsin, arccos, arctan, arcsinh, arccosh, arctanh = asin, acos, atan, asinh, acosh, atanh
invert, bitwise_not, left_shift, right_shift, conjugate = (
    bitwise_invert,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_right_shift,
    conj,
)
rint = _rint
