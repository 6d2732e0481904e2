"""Activations: elementwise cards (see ops/ufunc.py), each with its gradient as a card, so that both
are one kernel.

In the scalar expressions x (and y) are the inputs; in the gradient expressions g is the gradient of
the result `out`. The gradient of a gradient card is what second order needs.
"""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.dispatch.checks import coerce, require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import FLOATING, REAL
from ..core.dtypes import compute_dtype
from ..core.scalar import scalar_results
from ..core.shapes import normalize_axis
from ..core.typing import ArrayLike
from ..ops import ufunc
from ..ops.elementwise import exp, expm1, maximum, minimum, sign, tanh  # noqa: F401  gradient expressions name some
from ..ops.shape import span
from ..ops.where import where  # noqa: F401  in a gradient expression

__all__ = [
    "activation",
    "celu",
    "elu",
    "gelu",
    "glu",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "log_sigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "softplus",
    "softsign",
    "tanh",
]


def _card(
    make: Callable, name: str, rule: np.ufunc, expression: str, gradient: Any, **options: Any
) -> Callable:
    """A card whose public function stands below, or that is the gradient of one."""
    function = make(name, rule, expression, gradient, doc="", namespace=globals(), **options)
    function.__doc__ = f"Elementwise: {expression}."
    return function


_unary = functools.partial(_card, ufunc.unary)
_binary = functools.partial(_card, ufunc.binary, category=FLOATING)
_FLOAT = {"category": FLOATING}


def _ternary(
    name: str, expression: str, gradient: tuple[str, str, str], cpu: str
) -> Callable[..., ndarray]:
    """The same for three inputs: gradients of functions that have a parameter, z."""
    card = ufunc.Elementwise(name, np.multiply, expression, gradient, FLOATING, cpu, globals())
    return lambda *operands: card.call(operands)


def _document(
    function: Callable,
    summary: str,
    example: str,
    value: str,
    *,
    x: str = "Floating-point",
    result: str = "",
    gradient: str,
    smooth: bool = True,
    more: str = "",
    reference: str = "",
) -> None:
    """Give a function of one array its docstring. `example` is a call whose result is `value`;
    smooth: gradients of any order exist."""
    order = "differentiable to any order and deterministic" if smooth else "deterministic"
    notes = textwrap.fill(f"Gradient: {gradient}. The function is {order}.", 100)
    summary += f"\n\n{more}" * bool(more)
    text = f"""{summary}

Parameters
----------
x : array_like
    {x} array of any shape.
out : ndarray, optional
    Array that receives the result.
where : array_like, default True
    Bool array that broadcasts and selects the elements to compute. The others keep the values of
    `out`, or are 0 without `out`.
dtype : dtype_like, optional
    Dtype of the computation.
casting : str, default "same_kind"
    NumPy's rule for the conversions between the operands, the computation and the result.
order : str, default "K"
    Order of the result in memory: "F", or "A" for Fortran's order if all operands have it.
    Otherwise C order.
subok : bool, default True
    Accepted for compatibility with NumPy. There are no subclasses.
signature : str or tuple of dtype_like, optional
    Dtypes of the operands and the result, such as "dd->d".

Returns
-------
ndarray
    Array in the dtype of `x`. {result}

Raises
------
TypeError
    The dtype is not supported.

Notes
-----
{notes}
"""
    if reference:
        text += f"\nReferences\n----------\n.. [1] {reference}\n"
    text += f"\nExamples\n--------\n>>> import cudamath as cm\n>>> {example}\n{value}\n"
    function.__doc__ = text.replace(" \n", "\n")


# -------------------- cards

relu = _unary(
    "relu", np.positive, "maximum(x, 0)", "_relu_grad(g, out)", category=REAL, cpu="activation.relu"
)
_relu_grad = _binary(
    "relu_grad",
    np.multiply,
    "x if y > 0 else 0",
    ("_relu_grad(g, y)", "g * 0"),
    cpu="activation.relu_grad",
)

relu6 = _unary(
    "relu6",
    np.exp,
    "minimum(maximum(x, 0), 6)",
    "_relu6_grad(g, x)",
    cpu="activation.relu6",
    **_FLOAT,
)
_relu6_grad = _binary(
    "relu6_grad",
    np.multiply,
    "x if y > 0 and y < 6 else 0",
    ("_relu6_grad(g, y)", "g * 0"),
    cpu="activation.relu6_grad",
)

_leaky_relu = _binary(
    "leaky_relu",
    np.multiply,
    "x if x > 0 else x * y",
    ("_leaky_relu_grad(g, x, y)", "_leaky_relu_slope(g, x)"),
    cpu="activation.leaky_relu",
)
_leaky_relu_grad = _ternary(
    "leaky_relu_grad",
    "x if y > 0 else x * z",
    ("_leaky_relu_grad(g, y, z)", "g * 0", "where(y > 0, 0, g * x)"),
    "activation.leaky_relu_grad",
)
_leaky_relu_slope = _binary(
    "leaky_relu_slope",
    np.multiply,
    "0 if y > 0 else x * y",
    ("_leaky_relu_slope(g, y)", "where(y > 0, 0, g * x)"),
    cpu="activation.leaky_relu_slope",
)

_elu = _binary(
    "elu",
    np.multiply,
    "x if x > 0 else y * expm1(x)",
    (
        "_elu_grad(g, x, y)",
        "where(x > 0, 0, g * expm1(where(x > 0, 0, x).astype(g.dtype, copy=False)))",
    ),
    cpu="activation.elu",
)
_elu_grad = _ternary(
    "elu_grad",
    "x if y > 0 else x * z * exp(y)",
    (
        "_elu_grad(g, y, z)",
        "where(y > 0, 0, _elu_grad(g * x, y, z))",
        "where(y > 0, 0, _elu_grad(g * x, y, 1.0))",
    ),
    "activation.elu_grad",
)

_celu = _binary(
    "celu",
    np.multiply,
    "x if x > 0 else y * expm1(x / y)",
    ("_celu_grad(g, x, y)", "g * 0"),
    cpu="activation.celu",
)
_celu_grad = _ternary(
    "celu_grad",
    "x if y > 0 else x * exp(y / z)",
    ("_celu_grad(g, y, z)", "where(y > 0, 0, _celu_grad(g * x, y, z) / z)", "g * 0"),
    "activation.celu_grad",
)

selu = _unary(
    "selu",
    np.exp,
    "x * 1.0507009873554805 if x > 0 else 1.7580993408473766 * expm1(x)",
    "_selu_grad(g, x)",
    cpu="activation.selu",
    **_FLOAT,
)
_selu_grad = _binary(
    "selu_grad",
    np.multiply,
    "x * 1.0507009873554805 if y > 0 else x * 1.7580993408473766 * exp(y)",
    ("_selu_grad(g, y)", "where(y > 0, 0, _selu_grad(g * x, y))"),
    cpu="activation.selu_grad",
)

softsign = _unary(
    "softsign",
    np.exp,
    "x / (1 + abs(x))",
    "_softsign_grad(g, x)",
    cpu="activation.softsign",
    **_FLOAT,
)
_softsign_grad = _binary(
    "softsign_grad",
    np.multiply,
    "x / ((1 + abs(y)) * (1 + abs(y)))",
    ("_softsign_grad(g, y)", "_softsign_grad(g * x, y) * sign(y) * -2 / (1 + abs(y))"),
    cpu="activation.softsign_grad",
)

hardsigmoid = _unary(
    "hardsigmoid",
    np.exp,
    "minimum(maximum(x + 3, 0), 6) / 6",
    "_hardsigmoid_grad(g, x)",
    cpu="activation.hardsigmoid",
    **_FLOAT,
)
_hardsigmoid_grad = _binary(
    "hardsigmoid_grad",
    np.multiply,
    "x / 6 if y > -3 and y < 3 else 0",
    ("_hardsigmoid_grad(g, y)", "g * 0"),
    cpu="activation.hardsigmoid_grad",
)

hardswish = _unary(
    "hardswish",
    np.exp,
    "x * minimum(maximum(x + 3, 0), 6) / 6",
    "_hardswish_grad(g, x)",
    cpu="activation.hardswish",
    **_FLOAT,
)
_hardswish_grad = _binary(
    "hardswish_grad",
    np.multiply,
    "x if y >= 3 else (0 if y <= -3 else x * (y / 3 + 0.5))",
    ("_hardswish_grad(g, y)", "_hardsigmoid_grad(g * x, y) * 2"),
    cpu="activation.hardswish_grad",
)

sigmoid = _unary(
    "sigmoid", np.exp, "sigmoid(x)", "_sigmoid_grad(g, out)", cpu="activation.sigmoid", **_FLOAT
)
_sigmoid_grad = _binary(
    "sigmoid_grad",
    np.multiply,
    "x * (y * (1 - y))",
    ("_sigmoid_grad(g, y)", "g * x * (1 - 2 * y)"),
    cpu="activation.sigmoid_grad",
)

silu = _unary("silu", np.exp, "x * sigmoid(x)", "_silu_grad(g, x)", cpu="activation.silu", **_FLOAT)
_silu_grad = _binary(
    "silu_grad",
    np.multiply,
    "x * sigmoid(y) * (1 + y * (1 - sigmoid(y)))",
    ("_silu_grad(g, y)", "g * x * _silu_second(y)"),
    cpu="activation.silu_grad",
)

# x tanh(log(1 + n)) with n = exp(x): tanh(log(1 + n)) = q / (q + 2), q = n (n + 2), where nothing
# cancels. In the slope exp(y) comes before y: 4 y would be infinite for the lowest numbers, and
# that times 0 NaN.
mish = _unary(
    "mish",
    np.exp,
    "x if x > 20 else x * (exp(x) * (exp(x) + 2) / (exp(x) * (exp(x) + 2) + 2))",
    "_mish_grad(g, x)",
    cpu="activation.mish",
    **_FLOAT,
)
_mish_grad = _binary(
    "mish_grad",
    np.multiply,
    "x if y > 20 else x * (exp(y) * (exp(y) + 2) / (exp(y) * (exp(y) + 2) + 2)"
    " + 4 * exp(y) * (exp(y) + 1) * y / ((exp(y) * (exp(y) + 2) + 2) * (exp(y) * (exp(y) + 2) + "
    "2)))",
    ("_mish_grad(g, y)", "g * x * _mish_second(y)"),
    cpu="activation.mish_grad",
)

_softplus = _binary(
    "softplus",
    np.multiply,
    "maximum(x, 0) + log1p(exp(-abs(x * y))) / y",
    ("_softplus_grad(g, x, y)", "g * 0"),
    cpu="activation.softplus",
)
_softplus_grad = _ternary(
    "softplus_grad",
    "x * sigmoid(y * z)",
    ("_softplus_grad(g, y, z)", "g * x * z * _sigmoid_slope(y * z)", "g * 0"),
    "activation.softplus_grad",
)

log_sigmoid = _unary(
    "log_sigmoid",
    np.exp,
    "minimum(x, 0) - log1p(exp(-abs(x)))",
    "_log_sigmoid_grad(g, x)",
    cpu="activation.log_sigmoid",
    **_FLOAT,
)
_log_sigmoid_grad = _binary(
    "log_sigmoid_grad",
    np.multiply,
    "x * sigmoid(-y)",
    ("_log_sigmoid_grad(g, y)", "g * x * -_sigmoid_slope(y)"),
    cpu="activation.log_sigmoid_grad",
)

_hardtanh = ufunc.Elementwise(
    "hardtanh",
    np.maximum,
    "y if x <= y else (z if x >= z else x)",
    ("where((x > y) & (x < z), g, 0)", "g * 0", "g * 0"),
    FLOATING,
    "activation.hardtanh",
    globals(),
)
_glu = _binary(
    "glu", np.multiply, "x * sigmoid(y)", ("_glu(g, y)", "_glu_gate(g, x, y)"), cpu="activation.glu"
)
_glu_gate = _ternary(
    "glu_gate",
    "x * y / ((1 + exp(-z)) * (1 + exp(z)))",
    ("_glu_gate(g, y, z)", "_glu_gate(g, x, z)", "_glu_gate(g * x, y, z) * (1 - 2 * sigmoid(z))"),
    "activation.glu_gate",
)

# x P(Z < x) for a standard normal Z: with erfc rather than 1 + erf, negative x lose no digits.
_gelu = _unary("gelu", np.exp, "gelu(x)", "_gelu_grad(g, x)", cpu="activation.gelu", **_FLOAT)
_gelu_grad = _binary(
    "gelu_grad",
    np.multiply,
    "x * gelu_slope(y)",
    ("_gelu_grad(g, y)", "g * x * _gelu_second(y)"),
    cpu="activation.gelu_grad",
)

# 0.5 x (1 + tanh(u)) = x sigmoid(2 u), 2 u = x (0.0713... x^2 + 1.5957...) with 1.5957... = 2
# sqrt(2 / pi).
_gelu_tanh = _unary(
    "gelu_tanh",
    np.exp,
    "x * sigmoid(x * (x * x * 0.07135481627260025 + 1.5957691216057308))",
    "_gelu_tanh_grad(g, x)",
    cpu="activation.gelu_tanh",
    **_FLOAT,
)
# Beyond 30 the slope is 0 or 1 to the last digit, and y^2 may overflow.
_HELD = "maximum(minimum(y, 30), -30)"
_TWICE_U = f"({_HELD} * ({_HELD} * {_HELD} * 0.07135481627260025 + 1.5957691216057308))"
_gelu_tanh_grad = _binary(
    "gelu_tanh_grad",
    np.multiply,
    f"x * (sigmoid({_TWICE_U}) * (1 + {_HELD} * (1 - sigmoid({_TWICE_U}))"
    f" * ({_HELD} * {_HELD} * 0.21406444881780073 + 1.5957691216057308)))",
    ("_gelu_tanh_grad(g, y)", "g * x * _gelu_tanh_second(y)"),
    cpu="activation.gelu_tanh_grad",
)


def _sigmoid_slope(y: ndarray) -> ndarray:
    s = sigmoid(y)
    return s * (1 - s)


def _mish_second(y: ndarray) -> ndarray:
    y = minimum(maximum(y, -1000.0), 1000.0)  # beyond, it is 0, and twice y may overflow
    s, w = sigmoid(y), tanh(_softplus(y, 1.0))
    return s * (1 - w * w) * (2 + y * (1 - s - 2 * w * s))


def _silu_second(y: ndarray) -> ndarray:
    s = sigmoid(y)
    return s * (1 - s) * (2 + y * (1 - 2 * s))


def _gelu_second(y: ndarray) -> ndarray:
    square = minimum(y * y, 3600.0)  # beyond, exp(-square / 2) is 0
    return (2 - square) * exp(square * -0.5) * 0.3989422804014327


def _gelu_tanh_second(y: ndarray) -> ndarray:
    y = minimum(
        maximum(y.astype(compute_dtype(y.dtype), copy=False), -30.0), 30.0
    )  # slope^2 is beyond float16 from 17 on
    s = sigmoid(y * (y * y * 0.07135481627260025 + 1.5957691216057308))
    slope = y * y * 0.21406444881780073 + 1.5957691216057308
    return s * (1 - s) * (2 * slope + y * (y * 0.42812889763560147 + slope * slope * (1 - 2 * s)))


# -------------------- public functions


@scalar_results
def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 0.01) -> ndarray:
    """Rectified linear unit with a slope for negative inputs.

    X if x > 0 else negative_slope x.

    Parameters
    ----------
    x : array_like
        Floating-point array of any shape.
    negative_slope : array_like, default 0.01
        Slope for negative inputs, a number or an array that broadcasts (a learned slope).

    Returns
    -------
    ndarray
        Array in the dtype of `x`. NaN stays NaN.

    Raises
    ------
    TypeError
        The dtype is not supported.

    Notes
    -----
    Gradient: g where x > 0, else negative_slope g, of any order; with respect to negative_slope, x
    g where x <= 0. The function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.leaky_relu(cm.array([-2.0, 3.0]), 0.1).tolist()
    [-0.2, 3.0]
    """
    return _leaky_relu(require("leaky_relu", x, FLOATING), negative_slope)


@scalar_results
def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> ndarray:
    """Exponential linear unit: x if x > 0 else alpha (exp(x) - 1).

    Parameters
    ----------
    x : array_like
        Floating-point array of any shape.
    alpha : array_like, default 1.0
        Factor of the exponential, a number or an array that broadcasts.

    Returns
    -------
    ndarray
        Array in the dtype of `x`.

    Raises
    ------
    TypeError
        The dtype is not supported.

    Notes
    -----
    Gradient: g where x > 0, else alpha exp(x) g. The function is differentiable to any order and
    deterministic.

    References
    ----------
    .. [1] Clevert, Unterthiner & Hochreiter (2016).

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.elu(cm.array([-1.0, 2.0])).round(4).tolist()
    [-0.6321, 2.0]
    """
    return _elu(require("elu", x, FLOATING), alpha)


def _in_order(name: str, wanted: str, low: Any, high: Any) -> None:
    """An error that says what is wanted unless low < high, both numbers."""
    try:
        sound = bool(low < high)
    except (TypeError, ValueError):  # None, text, an array of several elements
        raise TypeError(f"{name}: {wanted}, got {low!r:.60} and {high!r:.60}") from None
    if not sound:
        raise ValueError(f"{name}: {wanted}, got {low} and {high}")


@scalar_results
def softplus(x: ArrayLike, beta: float = 1.0) -> ndarray:
    """Softplus, a smooth relu: log(1 + exp(beta x)) / beta.

    Parameters
    ----------
    x : array_like
        Floating-point array of any shape.
    beta : float, default 1.0
        Sharpness, > 0.

    Returns
    -------
    ndarray
        Array in the dtype of `x`.

    Raises
    ------
    TypeError
        The array is not floating-point.
    ValueError
        `beta` is not positive.

    Notes
    -----
    The result is computed as max(x, 0) + log1p(exp(-|x|)), which neither overflows nor loses
    digits. Gradient: g sigmoid(beta x). The function is differentiable to any order and
    deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.softplus(cm.array([-1000.0, 0.0, 1000.0])).round(4).tolist()
    [0.0, 0.6931, 1000.0]
    """
    _in_order("softplus", "wants 0 < beta", 0, beta)
    return _softplus(require("softplus", x, FLOATING), float(beta))


@scalar_results
def gelu(x: ArrayLike, approximate: str = "none") -> ndarray:
    """Gaussian error linear unit: x P(Z < x), Z standard normal.

    X erfc(-x / sqrt(2)) / 2, or for "tanh" x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, which
    differs by up to 5e-4.

    Parameters
    ----------
    x : array_like
        Floating-point array of any shape.
    approximate : str, default "none"
        "none" or "tanh".

    Returns
    -------
    ndarray
        Array in the dtype of `x`.

    Raises
    ------
    TypeError
        The array is not floating-point.
    ValueError
        `approximate` is unknown.

    Notes
    -----
    Gradient: g times the derivative, one kernel. The function is differentiable to any order and
    deterministic.

    References
    ----------
    .. [1] Hendrycks & Gimpel (2016).

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.gelu(cm.array([-1.0, 0.0, 2.0])).round(4).tolist()
    [-0.1587, 0.0, 1.9545]
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate is 'none' or 'tanh', got {approximate!r}")
    return _gelu(x) if approximate == "none" else _gelu_tanh(x)


@scalar_results
def celu(x: ArrayLike, alpha: float = 1.0) -> ndarray:
    """Continuously differentiable exponential linear unit.

    x if x > 0 else alpha (exp(x / alpha) - 1)

    Parameters
    ----------
    x : array_like
        Floating-point array of any shape.
    alpha : float, default 1.0
        Scale of the exponential, > 0.

    Returns
    -------
    ndarray
        Array in the dtype of `x`.

    Raises
    ------
    TypeError
        The array is not floating-point.
    ValueError
        `alpha` is not positive.

    Notes
    -----
    Gradient: g where x > 0, else exp(x / alpha) g. The function is differentiable to any order and
    deterministic.

    References
    ----------
    .. [1] Barron (2017).

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.celu(cm.array([-1.0, 2.0]), 0.5).round(4).tolist()
    [-0.4323, 2.0]
    """
    _in_order("celu", "wants 0 < alpha", 0, alpha)
    return _celu(require("celu", x, FLOATING), float(alpha))


@fast_path("x", "weight")
def prelu(x: ArrayLike, weight: ArrayLike) -> ndarray:
    """Rectified linear unit with a learned slope for negative inputs.

    X if x > 0 else weight x.

    Parameters
    ----------
    x : array_like
        Floating-point array of shape (N, C, ...) or of any shape.
    weight : array_like
        Array of shape () or (1,), one slope for all, or of shape (C,), one slope per channel: axis
        1 of `x`, or its only axis.

    Returns
    -------
    ndarray
        Array in the dtype of `x`.

    Raises
    ------
    TypeError
        An array is not floating-point.
    ValueError
        The weight has another shape.

    Notes
    -----
    Gradient: as of `leaky_relu`; the weight's is the sum of x g over its negative inputs. The
    function is differentiable to any order and deterministic.

    References
    ----------
    .. [1] He et al. (2015).

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.prelu(cm.array([[-2.0, -2.0]]), cm.array([0.5, 0.1])).tolist()
    [[-1.0, -0.2]]
    """
    x, weight = coerce("prelu", (x, weight), FLOATING)
    channels = x.shape[min(1, x.ndim - 1)] if x.ndim else 1
    if weight.shape not in ((), (1,), (channels,)):
        raise ValueError(
            f"prelu: wants weight () or ({channels},) for x of shape {x.shape}, got shape "
            f"{weight.shape}"
        )
    slopes = weight.reshape((-1, *(1,) * (x.ndim - 2)) if weight.size != 1 else ())
    return _leaky_relu(x, slopes)


@scalar_results
def hardtanh(x: ArrayLike, low: float = -1.0, high: float = 1.0) -> ndarray:
    """Limit x to the interval from low to high.

    Parameters
    ----------
    x : array_like
        Floating-point array of any shape.
    low : float, default -1.0
        Lower bound.
    high : float, default 1.0
        Upper bound, greater than `low`.

    Returns
    -------
    ndarray
        Array in the dtype of `x`. NaN stays NaN.

    Raises
    ------
    TypeError
        The array is not floating-point.
    ValueError
        `low` is not less than `high`.

    Notes
    -----
    Gradient: g where low < x < high, else 0. The function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.hardtanh(cm.array([-2.0, 0.5, 3.0])).tolist()
    [-1.0, 0.5, 1.0]
    """
    x = require("hardtanh", x, FLOATING)
    _in_order("hardtanh", "wants low < high", low, high)
    return _hardtanh(x, float(low), float(high))


@fast_path("x")
def glu(x: ArrayLike, axis: int = -1) -> ndarray:
    """Gated linear unit: the first half along an axis times the sigmoid of the second half.

    Parameters
    ----------
    x : array_like
        Floating-point array of even length along `axis`.
    axis : int, default -1
        Axis that is halved.

    Returns
    -------
    ndarray
        Array in the dtype of `x`, half as long along the axis.

    Raises
    ------
    TypeError
        The array is not floating-point.
    ValueError
        The length is odd, or the axis is out of bounds.

    Notes
    -----
    The function is differentiable to any order and deterministic.

    References
    ----------
    .. [1] Dauphin et al. (2017).

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.glu(cm.array([[2.0, 4.0, 0.0, 100.0]])).tolist()
    [[1.0, 4.0]]
    """
    x = require("glu", x, FLOATING)
    place = normalize_axis("glu", axis, x.ndim)
    length = x.shape[place]
    if length % 2:
        raise ValueError(f"glu: wants an even length along axis {place}, got shape {x.shape}")
    parts = span(x, place, 0, length // 2), span(x, place, length // 2, length)
    return _glu(*parts)


_KINDS: dict[str, Callable[[Any], ndarray]] = {
    "relu": relu,
    "leaky_relu": leaky_relu,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "gelu": gelu,
    "gelu_tanh": functools.partial(gelu, approximate="tanh"),
    "silu": silu,
    "elu": elu,
    "softplus": softplus,
    "celu": celu,
    "hardsigmoid": hardsigmoid,
    "hardswish": hardswish,
    "hardtanh": hardtanh,
    "log_sigmoid": log_sigmoid,
    "mish": mish,
    "relu6": relu6,
    "selu": selu,
    "softsign": softsign,
}


@scalar_results
def activation(x: ArrayLike, kind: str) -> ndarray:
    """Apply the activation called `kind`, with its default settings.

    The result, the errors and the gradient are those of that function.

    Parameters
    ----------
    x : array_like
        Floating-point array of any shape.
    kind : str
        "relu", "leaky_relu", "relu6", "elu", "celu", "selu", "gelu", "gelu_tanh", "silu", "mish",
        "softplus", "sigmoid", "log_sigmoid", "tanh", "softsign", "hardsigmoid", "hardswish" or
        "hardtanh".

    Returns
    -------
    ndarray
        Array in the dtype of `x`.

    Raises
    ------
    ValueError
        The kind is unknown.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.activation(cm.array([-1.0, 2.0]), "relu").tolist()
    [0.0, 2.0]
    """
    try:
        function = _KINDS[kind]
    except (KeyError, TypeError):
        raise ValueError(f"activation: kind is one of {', '.join(_KINDS)}, got {kind!r}") from None
    return function(x)


_document(
    relu,
    "Rectified linear unit: max(x, 0).",
    x="Real numeric",
    result="NaN stays NaN.",
    gradient="g where x > 0, else 0",
    smooth=False,
    example="cm.ml.relu(cm.array([-2.0, 0.0, 3.0])).tolist()",
    value="[0.0, 0.0, 3.0]",
)
_document(
    sigmoid,
    "Logistic function: 1 / (1 + exp(-x)).",
    gradient="g y (1 - y)",
    example="cm.ml.sigmoid(cm.array([-1000.0, 0.0, 1000.0])).tolist()",
    value="[0.0, 0.5, 1.0]",
)
_document(
    silu,
    "Sigmoid linear unit (swish): x / (1 + exp(-x)).",
    gradient="g s (1 + x (1 - s)), s = sigmoid(x)",
    reference="Elfwing, Uchibe & Doya (2018).",
    example="cm.ml.silu(cm.array([-1.0, 0.0, 2.0])).round(4).tolist()",
    value="[-0.2689, 0.0, 1.7616]",
)
_document(
    relu6,
    "Rectified linear unit limited to 6: min(max(x, 0), 6).",
    result="NaN stays NaN.",
    gradient="g where 0 < x < 6, else 0",
    smooth=False,
    example="cm.ml.relu6(cm.array([-2.0, 3.0, 8.0])).tolist()",
    value="[0.0, 3.0, 6.0]",
)
_document(
    selu,
    "Self-normalising exponential linear unit.",
    more="s x if x > 0 else s a (exp(x) - 1), with s = 1.0507... and a = 1.6733...",
    gradient="s g where x > 0, else g s a exp(x)",
    reference="Klambauer et al. (2017).",
    example="cm.ml.selu(cm.array([-1.0, 2.0])).round(4).tolist()",
    value="[-1.1113, 2.1014]",
)
_document(
    mish,
    "Mish: x tanh(log(1 + exp(x))).",
    result="It is computed so that the tail keeps its digits.",
    gradient="one kernel",
    reference="Misra (2019).",
    example="cm.ml.mish(cm.array([-1.0, 0.0, 2.0])).round(4).tolist()",
    value="[-0.3034, 0.0, 1.944]",
)
_document(
    softsign,
    "Softsign: x / (1 + |x|).",
    gradient="g / (1 + |x|)^2",
    example="cm.ml.softsign(cm.array([-1.0, 3.0])).tolist()",
    value="[-0.5, 0.75]",
)
_document(
    hardsigmoid,
    "The logistic function in three straight lines: min(max(x + 3, 0), 6) / 6.",
    result="NaN stays NaN.",
    gradient="g / 6 where -3 < x < 3, else 0",
    smooth=False,
    example="cm.ml.hardsigmoid(cm.array([-4.0, 0.0, 1.5])).tolist()",
    value="[0.0, 0.5, 0.75]",
)
_document(
    hardswish,
    "Hard swish: x min(max(x + 3, 0), 6) / 6.",
    more="It is `silu` with `hardsigmoid` for the sigmoid.",
    result="NaN stays NaN.",
    gradient="g (x / 3 + 1/2) where -3 < x < 3, else 0 or g",
    reference="Howard et al. (2019).",
    example="cm.ml.hardswish(cm.array([-1.5, 0.0, 6.0])).tolist()",
    value="[-0.375, 0.0, 6.0]",
)
_document(
    log_sigmoid,
    "Logarithm of the logistic function: -log(1 + exp(-x)).",
    more="It is computed so that nothing overflows.",
    gradient="g sigmoid(-x)",
    example="cm.ml.log_sigmoid(cm.array([-1000.0, 0.0])).round(4).tolist()",
    value="[-1000.0, -0.6931]",
)
