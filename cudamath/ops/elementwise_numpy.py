"""More elementwise functions by NumPy's names: cards as in ``elementwise.py``, and compositions of
them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..core import dtypes, recording
from ..core.array import ndarray
from ..core.dispatch.checks import MISTAKES, as_numbers, as_of, coerce, require, speaks_for
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import (
    ANY,
    COMPLEX,
    FLOATING,
    INEXACT,
    INTEGER_OR_BOOL,
    REAL_OR_BOOL,
    Composed,
    Op,
)
from ..core.scalar import scalar_results
from ..core.shapes import normalize_axis
from ..core.typing import ArrayLike, DTypeLike
from . import ufunc
from .compare import array_equal
from .creation import ones_like, zeros_like
from .differences import diff
from .elementwise import (
    LN2,  # noqa: F401  in a gradient expression
    PRECISE,
    _beyond,  # noqa: F401  in a gradient expression
    _power,
    abs,
    add,
    atan2,
    copysign,
    cos,
    equal,
    floor_divide,
    logical_and,
    nextafter,
    not_equal,
    positive,
    remainder,
    round,
    sin,
    trunc,
)
from .join import concat
from .out_argument import casting_rule, receiver, target_of
from .shape import _broadcast_as, astype, converted, span
from .transfer import imag, real
from .ufunc_keywords import ufunc_keywords
from .where import where

__all__ = [
    "angle",
    "around",
    "array_equiv",
    "cbrt",
    "deg2rad",
    "degrees",
    "divmod",
    "fabs",
    "fix",
    "float_power",
    "fmax",
    "fmin",
    "fmod",
    "frexp",
    "heaviside",
    "iscomplex",
    "iscomplexobj",
    "isreal",
    "isrealobj",
    "ldexp",
    "logaddexp2",
    "modf",
    "rad2deg",
    "radians",
    "real_if_close",
    "sinc",
    "spacing",
    "unwrap",
]

unary = functools.partial(ufunc.unary, namespace=globals())
binary = functools.partial(ufunc.binary, namespace=globals())

fmax = binary(
    "fmax",
    np.fmax,
    {
        "": "maximum(x, y)",
        "f": "y if x != x else (x if y != y or x >= y else y)",
        "c": "x if less_equal(y, x) or y != y else y",
    },
    ("where(equal(out, x), g, 0)", "where(equal(out, x), 0, g)"),
    category=ANY,
    doc="Return the larger of two elements; of a number and NaN the number.",
)
fmin = binary(
    "fmin",
    np.fmin,
    {
        "": "minimum(x, y)",
        "f": "y if x != x else (x if y != y or x <= y else y)",
        "c": "x if less_equal(x, y) or y != y else y",
    },
    ("where(equal(out, x), g, 0)", "where(equal(out, x), 0, g)"),
    category=ANY,
    doc="Return the smaller of two elements; of a number and NaN the number.",
)
fmod = binary(
    "fmod",
    np.fmod,
    {
        "": "fmod(x, y)",
        "u": "remainder(x, y)",
        "i": "remainder(x, y) - y if remainder(x, y) != 0 and (x < 0) != (y < 0) else "
        "remainder(x, y)",
    },
    ("g", "-g * round((x - out) / y)"),
    category=REAL_OR_BOOL,
    doc="Return the remainder of the division, with the sign of x.",
    formula="x - trunc(x / y) * y",
)
heaviside = binary(
    "heaviside",
    np.heaviside,
    "x if x != x else (0 if x < 0 else (y if x == 0 else 1))",
    ("g * 0", "where(equal(x, 0), g, 0)"),
    category=REAL_OR_BOOL,
    doc="Return the step function: 0 where x is negative, 1 where it is positive, y where it is 0.",
)
logaddexp2 = binary(
    "logaddexp2",
    np.logaddexp2,
    "logaddexp(x * 0.6931471805599453, y * 0.6931471805599453) * 1.4426950408889634",
    ("_logistic2(g, _beyond(x, y))", "_logistic2(g, _beyond(y, x))"),
    category=REAL_OR_BOOL,
    doc="Return the logarithm to base 2 of a sum of powers of two.",
    formula="log2(2**x + 2**y)",
)
_logistic2 = binary(
    "logistic2",
    np.multiply,
    "x / (2 ** (-y) + 1)",
    ("_logistic2(g, y)", "_logistic2(_logistic2(g * x, y), -y) * LN2"),
    category=FLOATING,
    cpu="elementwise.logistic2",
    doc="",
)
_logistic2.__doc__ = "x 2^y / (2^y + 1): as logaddexp's."
radians = unary(
    "radians",
    np.radians,
    "x * 0.017453292519943295",
    "g * 0.017453292519943295",
    category=REAL_OR_BOOL,
    doc="Convert degrees to radians.",
    formula="x * pi / 180",
)
degrees = unary(
    "degrees",
    np.degrees,
    "x * 57.29577951308232",
    "g * 57.29577951308232",
    category=REAL_OR_BOOL,
    doc="Convert radians to degrees.",
    formula="x * 180 / pi",
)
cbrt = unary(
    "cbrt",
    np.cbrt,
    "cbrt(x)",
    "g / (out * out * 3)",
    category=REAL_OR_BOOL,
    doc="Return the cube root.",
    formula="x ** (1 / 3)",
)
deg2rad, rad2deg, around = radians, degrees, round


class _ByPowersOfTwo(ufunc.Elementwise):
    """x 2^i: exponents are read as they are, and none of them widens a number."""

    def common(self, operands: tuple) -> np.dtype:
        return operands[0].dtype


_ldexp = _ByPowersOfTwo(
    "ldexp",
    np.copysign,
    "ldexp(x, y)",
    ("_ldexp.call((g, y))", "g * 0"),
    FLOATING,
    "elementwise.ldexp",
    globals(),
)
_frexp = Op(
    "frexp",
    cpu="elementwise.frexp",
    cuda="numeric.frexp.frexp",
    outputs=2,
    vjp=lambda g, y, _x: (None if g[0] is None else _ldexp.call((g[0], -y[1])),),
)

_fraction = ufunc.Elementwise(
    "modf",
    np.trunc,
    "copysign(0 if isinf(x) else x - trunc(x), x)",
    ("g",),
    FLOATING,
    "elementwise.fraction",
    globals(),
)
_trunc = trunc.card  # type: ignore[attr-defined]
_angle = ufunc.Elementwise(
    "angle", np.absolute, "argument(x)", None, COMPLEX, "elementwise.angle", globals()
)


def _floats(x: ndarray) -> ndarray:
    """Whole numbers and bools in the dtype that functions which know floats alone compute them in,
    as NumPy chooses it."""
    return x if x.dtype in FLOATING else astype(x, ufunc.resolve("fabs", np.fabs, x.dtype)[1])


def _floats_in(name: str, x: ndarray, dtype: Any, casting: str) -> ndarray:
    """These floats, in the dtype that was asked for where NumPy's rule for conversions allows
    it."""
    x = _floats(x)
    if dtype is None and casting == "same_kind":
        return x
    kind = x.dtype if dtype is None else dtypes.as_dtype(dtype, name)
    if kind not in FLOATING:
        raise TypeError(
            f"{name}: wants a floating-point dtype, got {kind} for {x.dtype} of shape {x.shape}"
        )
    return speaks_for(name)(positive)(x, dtype=kind, casting=casting)


def _pair_of(out: Any, first: Any, second: Any) -> Any:
    """`out` of two results, or the arrays that were given one after the other."""
    return out if first is None and second is None else (first, second)


def _handed(
    name: str, results: tuple[ndarray, ndarray], out: Any, where: Any, casting: str = "same_kind"
) -> tuple:
    """Two results, written into the arrays that `out` has for them, where `where` holds."""
    if out is None:
        out = None, None
    elif type(out) is not tuple or len(out) != 2:
        raise TypeError(
            f"{name}: out must be a tuple of two arrays, of which each may be None, got "
            f"{type(out).__name__}"
        )
    for y, target in zip(results, out, strict=True):  # both of them, before one is changed
        if target is not None:
            target = target_of(name, target)
            fits = y.ndim > target.ndim or y.shape == target.shape
            receiver(
                name,
                y if fits else _broadcast_as(name, y, target.shape),
                target,
                casting_rule(name, casting),
            )
    return tuple(
        [
            y
            if target is None and where is True
            else speaks_for(name)(positive)(y, target, where=where, casting=casting)
            for y, target in zip(results, out, strict=True)
        ]
    )


@fast_path("x")
@ufunc_keywords
def fabs(
    x: ArrayLike,
    /,
    out: ndarray | None = None,
    *,
    where: ArrayLike = True,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
) -> ndarray:
    """Absolute value of real numbers, as floating-point numbers.

    Parameters
    ----------
    x : array_like
        Real or bool array.
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
        Array of floating-point numbers.

    Raises
    ------
    TypeError
        The array is complex, or the dtype is not floating-point.

    Notes
    -----
    Gradient: g sign(x).

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fabs([-1, 2]).tolist()
    [1.0, 2.0]
    """
    try:
        x = require("fabs", x, REAL_OR_BOOL)
        return abs(_floats_in("fabs", x, dtype, casting), out, where=where, casting=casting)
    except MISTAKES as error:
        raise as_of("fabs", error) from None


@fast_path("x")
def fix(x: ArrayLike, /, out: ndarray | None = None) -> ndarray:
    """Round towards zero: ``trunc``.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    out : ndarray, optional
        Array that receives the result.

    Returns
    -------
    ndarray
        The result.

    Notes
    -----
    The gradient is that of `trunc`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fix([1.7, -1.7]).tolist()
    [1.0, -1.0]
    """
    try:
        return trunc(x, out)
    except MISTAKES as error:
        raise as_of("fix", error) from None


@fast_path("x?", "y?")
@ufunc_keywords
def float_power(
    x: Any,
    y: Any,
    /,
    out: ndarray | None = None,
    *,
    where: ArrayLike = True,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
) -> ndarray:
    """Power computed in float64 (complex128 for complex numbers), also of integers.

    Parameters
    ----------
    x, y : array_like
        Numeric arrays that broadcast.
    out : ndarray, optional
        Array that receives the result.
    where : array_like, default True
        Bool array that broadcasts and selects the elements to compute. The others keep the values
        of `out`, or are 0 without `out`.
    dtype : dtype_like, optional
        Dtype of the computation, float64 or complex128.
    casting : str, default "same_kind"
        NumPy's rule for the conversions between the operands, the computation and the result.
    **options : object
        NumPy's `order`, `subok` and `signature`.

    Returns
    -------
    ndarray
        Array of float64 or complex128.

    Raises
    ------
    TypeError
        The dtype is not supported.

    Notes
    -----
    The gradient is that of `pow`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.float_power([1, 2], -1).tolist()
    [1.0, 0.5]
    """
    try:
        if dtype is not None:
            if (kind := dtypes.as_dtype(dtype, "float_power")) not in (np.float64, np.complex128):
                raise TypeError(
                    f"float_power: is computed in float64 or complex128, got dtype {kind}"
                )
            return _power(x, y, out, where=where, dtype=kind, casting=casting)
        if (
            isinstance(x, ndarray) and type(y) in (int, float) and x.dtype in ANY
        ):  # of the number no array is made
            x, y = (
                converted(x, np.dtype(np.complex128 if x.dtype in COMPLEX else np.float64)),
                float(y),
            )
        else:
            x, y = coerce("float_power", (x, y))
            wide = np.complex128 if x.dtype in COMPLEX or y.dtype in COMPLEX else np.float64
            x, y = converted(x, np.dtype(wide)), converted(y, np.dtype(wide))
        return _power(x, y, out, where=where, casting=casting)
    except MISTAKES as error:
        raise as_of("float_power", error) from None


@fast_path("x?", "y?", rare=("out1", "out2"))
@ufunc_keywords
def divmod(
    x: ArrayLike,
    y: ArrayLike,
    out1: ndarray | None = None,
    out2: ndarray | None = None,
    /,
    *,
    out: tuple[ndarray | None, ndarray | None] | None = None,
    where: ArrayLike = True,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
) -> tuple[ndarray, ndarray]:
    """Return quotients and remainders: (x // y, x % y).

    They are those of ``floor_divide`` and ``remainder``.

    Parameters
    ----------
    x, y : array_like
        Real arrays that broadcast.
    out1, out2 : ndarray, optional
        Arrays that receive the results.
    out : tuple of ndarray or None, optional
        Tuple of two arrays (or None) that receive the results.
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
    tuple of ndarray
        The quotients and the remainders, in the common dtype.

    Notes
    -----
    The gradient is that of `floor_divide`.

    Examples
    --------
    >>> import cudamath as cm
    >>> [a.tolist() for a in cm.divmod([7, -7], 3)]
    [[2, -3], [1, 2]]
    """
    try:
        out = _pair_of(out, out1, out2)
        if out is dtype is None and where is True and casting == "same_kind":
            return floor_divide(x, y), remainder(x, y)
        results = (
            floor_divide(x, y, dtype=dtype, casting=casting),  # both, before anything is written
            remainder(x, y, dtype=dtype, casting=casting),
        )
        return _handed("divmod", results, out, where, casting)
    except MISTAKES as error:
        raise as_of("divmod", error) from None


@fast_path("x", rare=("out1", "out2"))
@ufunc_keywords
def modf(
    x: ArrayLike,
    out1: ndarray | None = None,
    out2: ndarray | None = None,
    /,
    *,
    out: tuple[ndarray | None, ndarray | None] | None = None,
    where: ArrayLike = True,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
) -> tuple[ndarray, ndarray]:
    """Return the fraction and the whole part of each element, both with its sign.

    Parameters
    ----------
    x : array_like
        Real array.
    out1, out2 : ndarray, optional
        Arrays that receive the results.
    out : tuple of ndarray or None, optional
        Tuple of two arrays (or None) that receive the results.
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
    tuple of ndarray
        The fractions and the whole parts. Integers give floating-point numbers.

    Raises
    ------
    TypeError
        The dtype is not supported.

    Notes
    -----
    The gradient is g for the fraction.

    Examples
    --------
    >>> import cudamath as cm
    >>> [a.tolist() for a in cm.modf([1.5, -2.25])]
    [[0.5, -0.25], [1.0, -2.0]]
    """
    x = _floats_in("modf", require("modf", x, REAL_OR_BOOL), dtype, casting)
    return _handed("modf", (_fraction(x), trunc(x)), _pair_of(out, out1, out2), where, casting)


@fast_path("x", "i?")
@ufunc_keywords
def ldexp(
    x: ArrayLike, i: ArrayLike, /, out: ndarray | None = None, *, where: ArrayLike = True
) -> ndarray:
    """Compute x 2^i.

    The result is exact except for overflow and for bits below the smallest normal number.

    Parameters
    ----------
    x : array_like
        Real array.
    i : array_like
        Integer array, whose shape broadcasts with x's.
    out : ndarray, optional
        Array that receives the result.
    where : array_like, default True
        Bool array that broadcasts and selects the elements to compute. The others keep the values
        of `out`, or are 0 without `out`. There is no `dtype`, as in NumPy.
    **options : object
        NumPy's `order`, `subok` and `signature`.

    Returns
    -------
    ndarray
        Array of x's dtype. Integers give floating-point numbers.

    Raises
    ------
    TypeError
        A dtype is not supported.
    ValueError
        The shapes do not fit each other.

    Notes
    -----
    Gradient: g 2^i for x.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ldexp([0.5, 3.0], [1, -2]).tolist()
    [1.0, 0.75]
    """
    if (
        isinstance(x, ndarray)
        and x.dtype in PRECISE
        and type(i) is int
        and -(1 << 63) <= i < 1 << 63
    ):
        operands: tuple = x, i  # of the number no array is made
    else:
        a, b = coerce("ldexp", (x, i), REAL_OR_BOOL)
        if b.dtype not in INTEGER_OR_BOOL:
            raise TypeError(f"ldexp: the exponents are integers, got {b.dtype} of shape {b.shape}")
        operands = _floats(a), b
    if out is None and where is True:
        return _ldexp(*operands)
    return _ldexp.call_with(operands, out, where, None, "same_kind")


@fast_path("x", rare=("out1", "out2"))
@ufunc_keywords
def frexp(
    x: ArrayLike,
    out1: ndarray | None = None,
    out2: ndarray | None = None,
    /,
    *,
    out: tuple[ndarray | None, ndarray | None] | None = None,
    where: ArrayLike = True,
) -> tuple[ndarray, ndarray]:
    """Return mantissas and exponents: (m, e) with x = m 2^e and 0.5 <= |m| < 1.

    For 0, infinity and NaN the result is (x, 0).

    Parameters
    ----------
    x : array_like
        Real array.
    out1, out2 : ndarray, optional
        Arrays that receive the results.
    out : tuple of ndarray or None, optional
        Tuple of two arrays (or None) that receive the results.
    where : array_like, default True
        Bool array that broadcasts and selects the elements to compute. The others keep the values
        of `out`, or are 0 without `out`. There is no `dtype`, as in NumPy.
    **options : object
        NumPy's `order`, `subok` and `signature`.

    Returns
    -------
    tuple of ndarray
        M of x's dtype (floating-point for integers), and e of int32.

    Raises
    ------
    TypeError
        The dtype is not supported.

    Notes
    -----
    Gradient: g 2^-e for m.

    Examples
    --------
    >>> import cudamath as cm
    >>> [a.tolist() for a in cm.frexp([6.0, -0.25])]
    [[0.75, -0.5], [3, -1]]
    """
    x, narrow = _precise(require("frexp", x, REAL_OR_BOOL))
    m, e = _frexp(x)
    results = m if narrow is None else astype(m, narrow), e
    return _handed("frexp", results, _pair_of(out, out1, out2), where)


def _precise(x: ndarray) -> tuple[ndarray, np.dtype | None]:
    """Real numbers in float32 or float64, and the 16-bit dtype to which the result goes back."""
    x = _floats(x)
    return (x, None) if x.dtype in PRECISE else (astype(x, np.float32), x.dtype)


@fast_path("x")
@ufunc_keywords
@speaks_for("spacing")
def spacing(
    x: ArrayLike,
    /,
    out: ndarray | None = None,
    *,
    where: ArrayLike = True,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
) -> ndarray:
    """Return the distance to the next number of larger magnitude, with the sign of x.

    It is NaN where x is not finite.

    Parameters
    ----------
    x : array_like
        Real or bool array. Integers count as floating-point numbers.
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
        Array of floating-point numbers.

    Raises
    ------
    TypeError
        The dtype is not supported.

    Notes
    -----
    The function is not differentiable.

    Examples
    --------
    >>> import cudamath as cm
    >>> bool(cm.spacing(1.0) == cm.finfo("float64").eps)
    True
    """
    x = require("spacing", x, REAL_OR_BOOL)
    with recording.paused():
        x = _floats_in("spacing", x, dtype, casting)
        if x.dtype == dtypes.float16:  # NumPy's rule for it: upwards from x, so never negative
            return add(nextafter(x, np.inf) - x, 0 * x, out, where=where, casting=casting)
        size = abs(x)
        return copysign(
            nextafter(size, np.inf) - size, x + 0.0, out, where=where, casting=casting
        )  # of -0 it is positive


@fast_path("z")
def angle(z: ArrayLike, deg: bool = False) -> ndarray:
    """Argument of complex numbers, from -pi to pi; of real ones 0 or pi.

    Parameters
    ----------
    z : array_like
        Numeric array.
    deg : bool, default False
        Whether the result is in degrees instead of radians.

    Returns
    -------
    ndarray
        Real array.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.angle([1j, -1.0], deg=True).tolist()
    [90.0, 180.0]
    """
    z = require("angle", z)
    if z.dtype in COMPLEX:
        y = _angle.call((z,)) if z._node is None else atan2(imag(z), real(z))
    else:
        y = atan2(0, z)
    return degrees(y) if deg else y


@fast_path("x")
def sinc(x: ArrayLike, /) -> ndarray:
    """Compute sin(pi x) / (pi x), and 1 at 0.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.

    Returns
    -------
    ndarray
        Floating-point array.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.sinc([0.0, 0.5]).tolist()
    [1.0, 0.6366197723675814]
    """
    x = require("sinc", x)
    x = x if x.dtype in INEXACT else astype(x, dtypes.default_float())
    if x.dtype in FLOATING:
        return _sinc(x)
    return _sinc_of_complex(x)


def _sinc_by_parts(x: ndarray) -> ndarray:
    y = x * np.pi
    safe = where(equal(y, 0), 1, y)
    return where(equal(y, 0), 1, sin(safe) / safe)


def _sinc_slope(g: ndarray, out: ndarray, x: ndarray) -> ndarray:
    """g d/dx sinc(x). The quotient loses all digits near 0, and its own derivative is lost at 0:
    there it is a series, which overflows elsewhere."""
    y = x.astype(dtypes.compute_dtype(x.dtype), copy=False) * np.pi
    near = abs(y) < 0.3  # what the series leaves out is 3e-14 of the slope
    safe, small = where(near, 1, y), where(near, y, 0)
    square = small * small
    series = small * (
        square * (1 / 30 - square * (1 / 840 - square * (1 / 45360 - square / 3991680))) - 1 / 3
    )
    return g * np.pi * where(near, series, (cos(safe) - out) / safe)


_sinc = ufunc.unary(
    "sinc",
    np.sin,
    "sin(x * 3.141592653589793) / (x * 3.141592653589793) if x * 3.141592653589793 != 0 else 1",
    "_sinc_slope(g, out, x)",
    category=FLOATING,
    cpu="elementwise.sinc",
    doc="sinc of floating-point numbers.",
    namespace=globals(),
)


_sinc_of_complex = Composed("sinc", _sinc_by_parts, _sinc.card.vjp)  # type: ignore[attr-defined]


@fast_path("x")
def isreal(x: ArrayLike, /) -> ndarray:
    """Whether the imaginary part is 0.

    Parameters
    ----------
    x : array_like
        Numeric or bool array.

    Returns
    -------
    ndarray
        Bool array of x's shape.

    Raises
    ------
    TypeError
        The dtype is not supported.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.isreal([1 + 1j, 2 + 0j]).tolist()
    [False, True]
    """
    x = require("isreal", x)
    return equal(imag(x), 0) if x.dtype in COMPLEX else ones_like(x, np.bool_)


@fast_path("x")
def iscomplex(x: ArrayLike, /) -> ndarray:
    """Whether the imaginary part is not 0.

    Parameters
    ----------
    x : array_like
        Numeric or bool array.

    Returns
    -------
    ndarray
        Bool array of x's shape.

    Raises
    ------
    TypeError
        The dtype is not supported.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.iscomplex([1 + 1j, 2 + 0j]).tolist()
    [True, False]
    """
    x = require("iscomplex", x)
    return not_equal(imag(x), 0) if x.dtype in COMPLEX else zeros_like(x, np.bool_, "C")


def iscomplexobj(x: ArrayLike, /) -> bool:
    """Whether an array's dtype is complex.

    Parameters
    ----------
    x : array_like
        Array, or an object that converts to one.

    Returns
    -------
    bool
        The answer, which does not depend on the values.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.iscomplexobj(cm.zeros(2)), cm.iscomplexobj(1j)
    (False, True)
    """
    return require("iscomplexobj", x).dtype in COMPLEX


def isrealobj(x: ArrayLike, /) -> bool:
    """Whether an array's dtype is not complex.

    Parameters
    ----------
    x : array_like
        Array, or an object that converts to one.

    Returns
    -------
    bool
        The answer, which does not depend on the values.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.isrealobj(cm.zeros(2))
    True
    """
    return require("isrealobj", x).dtype not in COMPLEX


@speaks_for("real_if_close")
def real_if_close(x: ArrayLike, /, tol: float = 100) -> ndarray:
    """Return the real part if every imaginary part is near 0, otherwise the array itself.

    The call waits for the device.

    Parameters
    ----------
    x : array_like
        Array of any shape and dtype.
    tol : float, default 100
        Tolerance, in machine epsilons if it is > 1, otherwise absolute.

    Returns
    -------
    ndarray
        Real part, or the array itself.

    Notes
    -----
    The gradient passes through unchanged.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.real_if_close([2.1 + 4e-15j]).tolist()
    [2.1]
    """
    x = require("real_if_close", x)
    if x.dtype not in COMPLEX:
        return x
    limit = tol * np.finfo(x.dtype).eps if tol > 1 else tol
    return real(x) if bool((abs(imag(x)) < limit).all()) else x


@scalar_results
def array_equiv(a1: ArrayLike, a2: ArrayLike) -> bool:
    """Whether two arrays are equal after broadcasting one to the other.

    Waits for the device.

    Parameters
    ----------
    a1, a2 : array_like
        Arrays of any shape and dtype.

    Returns
    -------
    bool
        Whether the arrays are equal. Arrays that do not broadcast are not.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.array_equiv([1, 2], [[1, 2], [1, 2]])
    True
    """
    from .join_numpy import broadcast_arrays

    x, y = coerce("array_equiv", (a1, a2), ANY)
    try:
        x, y = broadcast_arrays(x, y)
    except ValueError:
        return False
    return array_equal(x, y)


@fast_path("p")
@speaks_for("unwrap")
def unwrap(
    p: ArrayLike, discont: float | None = None, axis: int = -1, *, period: float = 2 * np.pi
) -> ndarray:
    """Remove jumps from angles.

    Where neighbours along an axis differ by more than half a period, multiples of it are added.

    Parameters
    ----------
    p : array_like
        Real array.
    discont : float, optional
        Smallest jump that is corrected. The default, and the least, is period / 2.
    axis : int, default -1
        Axis of the operation.
    period : float, optional
        Period of the values.

    Returns
    -------
    ndarray
        Array of floating-point numbers; of integers where the period is an integer, too.

    Raises
    ------
    ValueError
        The axis is out of range.

    Notes
    -----
    The gradient passes through unchanged.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.unwrap([0.0, 3.0, -2.0], period=6.0).tolist()
    [0.0, 3.0, 4.0]
    """
    from .scan import cumsum

    p = require("unwrap", p, REAL_OR_BOOL)
    if not isinstance(period, (ndarray, np.ndarray)):
        as_numbers("unwrap", "period as a real number", period)
    if discont is not None:
        (discont,) = as_numbers("unwrap", "discont as a real number", discont)
    kind = dtypes.result_type(p, period)
    axis = normalize_axis("unwrap", axis, p.ndim)
    if p.shape[axis] < 2:
        return astype(p, kind)
    step = diff(p, axis=axis)
    high, odd = (period // 2, period % 2) if kind in dtypes.INTEGER else (period / 2, 0)
    low = -high
    wrapped = remainder(step - low, period) + low
    if not odd:  # half a period is one in either direction
        wrapped = where(logical_and(equal(wrapped, low), step > 0), high, wrapped)
    least = period / 2 if discont is None else discont
    more = where(abs(step) < least, 0, wrapped - step)
    n = p.shape[axis]
    y = concat([span(p, axis, 0, 1), span(p, axis, 1, n) + cumsum(more, axis=axis)], axis=axis)
    return astype(y, kind, copy=False)
