"""Activations: elementwise cards (see ops/ufunc.py), each with its gradient as a card, so that both are one kernel.

In the scalar expressions x (and y) are the inputs; in the gradient expressions g is the gradient of the result `out`.
The gradient of a gradient card is what second order needs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.op import FLOATING, REAL, require
from ..ops import ufunc
from ..ops.elementwise import exp, expm1, tanh  # noqa: F401  gradient expressions name exp and expm1
from ..ops.index import where  # noqa: F401  named by gradient expressions

__all__ = ["activation", "elu", "gelu", "leaky_relu", "relu", "sigmoid", "silu", "softplus", "tanh"]


def _card(make: Callable, name: str, rule: np.ufunc, expression: str, gradient: Any, **options: Any) -> Callable:
    """A card whose public function stands below, or that is the gradient of one."""
    function = make(name, rule, expression, gradient, doc="", namespace=globals(), **options)
    function.__doc__ = f"Elementwise: {expression}."
    return function


_unary = functools.partial(_card, ufunc.unary)
_binary = functools.partial(_card, ufunc.binary, category=FLOATING)
_FLOAT = {"category": FLOATING}

# ------------------------------------------------------------------------------------------------------ cards

relu = _unary("relu", np.positive, "maximum(x, 0)", "_relu_grad(g, out)", category=REAL, cpu="activation.relu")
_relu_grad = _binary("relu_grad", np.multiply, "x if y > 0 else 0", ("_relu_grad(g, y)", "g * 0"),
                     cpu="activation.relu_grad")

_leaky_relu = _binary("leaky_relu", np.multiply, "x if x > 0 else x * y",
                      ("where(x > 0, g, g * y)", "where(x > 0, 0, g * x)"), cpu="activation.leaky_relu")

_elu = _binary("elu", np.multiply, "x if x > 0 else y * expm1(x)",
               ("where(x > 0, g, g * (out + y))", "where(x > 0, 0, g * expm1(where(x > 0, 0, x)))"), cpu="activation.elu")

sigmoid = _unary("sigmoid", np.exp, "1 / (1 + exp(-x))", "_sigmoid_grad(g, out)", cpu="activation.sigmoid", **_FLOAT)
_sigmoid_grad = _binary("sigmoid_grad", np.multiply, "x * (y * (1 - y))",
                        ("_sigmoid_grad(g, y)", "g * x * (1 - 2 * y)"), cpu="activation.sigmoid_grad")

silu = _unary("silu", np.exp, "x / (1 + exp(-x))", "_silu_grad(g, x)", cpu="activation.silu", **_FLOAT)
_silu_grad = _binary("silu_grad", np.multiply, "x / (1 + exp(-y)) * (1 + y * (1 - 1 / (1 + exp(-y))))",
                     ("_silu_grad(g, y)", "g * x * _silu_second(y)"), cpu="activation.silu_grad")

_softplus = _unary("softplus", np.exp, "maximum(x, 0) + log1p(exp(-abs(x)))", "g * sigmoid(x)",
                   cpu="activation.softplus", **_FLOAT)

# x P(Z < x) for a standard normal Z: with erfc rather than 1 + erf, negative x lose no digits.
_gelu = _unary("gelu", np.exp, "erfc(x * -0.7071067811865476) * x * 0.5", "_gelu_grad(g, x)", cpu="activation.gelu",
               **_FLOAT)
_gelu_grad = _binary("gelu_grad", np.multiply,
                     "x * (erfc(y * -0.7071067811865476) * 0.5 + y * 0.3989422804014327 * exp(y * y * -0.5))",
                     ("_gelu_grad(g, y)", "g * x * (2 - y * y) * exp(y * y * -0.5) * 0.3989422804014327"),
                     cpu="activation.gelu_grad")

# 0.5 x (1 + tanh(u)) = x sigmoid(2 u), 2 u = x (0.0713... x^2 + 1.5957...) with 1.5957... = 2 sqrt(2 / pi).
_gelu_tanh = _unary("gelu_tanh", np.exp, "x / (1 + exp(x * (x * x * -0.07135481627260025 - 1.5957691216057308)))",
                    "_gelu_tanh_grad(g, x)", cpu="activation.gelu_tanh", **_FLOAT)
_gelu_tanh_grad = _binary(
    "gelu_tanh_grad", np.multiply,
    "x * (1 / (1 + exp(y * (y * y * -0.07135481627260025 - 1.5957691216057308)))"
    " * (1 + y * (1 - 1 / (1 + exp(y * (y * y * -0.07135481627260025 - 1.5957691216057308))))"
    " * (y * y * 0.21406444881780073 + 1.5957691216057308)))",
    ("_gelu_tanh_grad(g, y)", "g * x * _gelu_tanh_second(y)"), cpu="activation.gelu_tanh_grad")


def _silu_second(y: ndarray) -> ndarray:
    s = sigmoid(y)
    return s * (1 - s) * (2 + y * (1 - 2 * s))


def _gelu_tanh_second(y: ndarray) -> ndarray:
    s = sigmoid(y * (y * y * 0.07135481627260025 + 1.5957691216057308))
    slope = y * y * 0.21406444881780073 + 1.5957691216057308
    return s * (1 - s) * (2 * slope + y * (y * 0.42812889763560147 + slope * slope * (1 - 2 * s)))


# -------------------------------------------------------------------------------------------- public functions


def leaky_relu(x: Any, negative_slope: Any = 0.01) -> ndarray:
    """Rectified linear unit with a slope for negative inputs: x if x > 0 else negative_slope x.

    Any shape; x: floating-point. negative_slope: number, or an array that broadcasts (a learned slope). Returns an
    array in the dtype of `x`; NaN stays NaN. TypeError for other dtypes. Gradient: g where x > 0, else
    negative_slope g, of any order; with respect to negative_slope, x g where x <= 0. Deterministic.

    >>> import cudamath as cm
    >>> cm.ml.leaky_relu(cm.array([-2.0, 3.0]), 0.1).tolist()
    [-0.2, 3.0]
    """
    return _leaky_relu(require("leaky_relu", x, FLOATING), negative_slope)


def elu(x: Any, alpha: Any = 1.0) -> ndarray:
    """Exponential linear unit: x if x > 0 else alpha (exp(x) - 1).

    Any shape; x: floating-point. alpha: number, or an array that broadcasts. Returns an array in the dtype of `x`.
    TypeError for other dtypes. Gradient: g where x > 0, else alpha exp(x) g, of any order. Deterministic.
    Source: Clevert, Unterthiner & Hochreiter (2016).

    >>> import cudamath as cm
    >>> cm.ml.elu(cm.array([-1.0, 2.0])).round(4).tolist()
    [-0.6321, 2.0]
    """
    return _elu(require("elu", x, FLOATING), alpha)


def softplus(x: Any, beta: float = 1.0) -> ndarray:
    """Softplus, a smooth relu: log(1 + exp(beta x)) / beta.

    Any shape; x: floating-point. beta: number > 0, the sharpness. Returns an array in the dtype of `x`; computed as
    max(x, 0) + log1p(exp(-|x|)), which neither overflows nor loses digits. TypeError for other dtypes, ValueError for
    beta <= 0. Gradient: g sigmoid(beta x), of any order. Deterministic.

    >>> import cudamath as cm
    >>> cm.ml.softplus(cm.array([-1000.0, 0.0, 1000.0])).round(4).tolist()
    [0.0, 0.6931, 1000.0]
    """
    if not beta > 0:
        raise ValueError(f"softplus: beta is a positive number, got {beta}")
    return _softplus(x) if beta == 1 else _softplus(require("softplus", x, FLOATING) * beta) / beta


def gelu(x: Any, approximate: str = "none") -> ndarray:
    """Gaussian error linear unit: x P(Z < x), Z standard normal.

    "none": x erfc(-x / sqrt(2)) / 2. "tanh": x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, up to 5e-4 away.

    Any shape; x: floating-point. Returns an array in the dtype of `x`. TypeError for other dtypes, ValueError for
    another `approximate`. Gradient: g times the derivative, one kernel, of any order. Deterministic.
    Source: Hendrycks & Gimpel (2016).

    >>> import cudamath as cm
    >>> cm.ml.gelu(cm.array([-1.0, 0.0, 2.0])).round(4).tolist()
    [-0.1587, 0.0, 1.9545]
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate is 'none' or 'tanh', got {approximate!r}")
    return _gelu(x) if approximate == "none" else _gelu_tanh(x)


relu.__doc__ = """Rectified linear unit: max(x, 0).

    Any shape; x: real numeric. Returns an array in the dtype of `x`; NaN stays NaN. TypeError for other dtypes.
    Gradient: g where x > 0, else 0. Deterministic.

    >>> import cudamath as cm
    >>> cm.ml.relu(cm.array([-2.0, 0.0, 3.0])).tolist()
    [0.0, 0.0, 3.0]
    """

sigmoid.__doc__ = """Logistic function: 1 / (1 + exp(-x)).

    Any shape; x: floating-point. Returns an array in the dtype of `x`. TypeError for other dtypes.
    Gradient: g y (1 - y), of any order. Deterministic.

    >>> import cudamath as cm
    >>> cm.ml.sigmoid(cm.array([-1000.0, 0.0, 1000.0])).tolist()
    [0.0, 0.5, 1.0]
    """

silu.__doc__ = """Sigmoid linear unit (swish): x / (1 + exp(-x)).

    Any shape; x: floating-point. Returns an array in the dtype of `x`. TypeError for other dtypes.
    Gradient: g s (1 + x (1 - s)), s = sigmoid(x), of any order. Deterministic. Source: Elfwing, Uchibe & Doya (2018).

    >>> import cudamath as cm
    >>> cm.ml.silu(cm.array([-1.0, 0.0, 2.0])).round(4).tolist()
    [-0.2689, 0.0, 1.7616]
    """

_KINDS: dict[str, Callable[[Any], ndarray]] = {
    "relu": relu, "leaky_relu": leaky_relu, "sigmoid": sigmoid, "tanh": tanh, "gelu": gelu,
    "gelu_tanh": functools.partial(gelu, approximate="tanh"), "silu": silu, "elu": elu, "softplus": softplus,
}


def activation(x: Any, kind: str) -> ndarray:
    """The activation called `kind`, with its default settings.

    kind: "relu", "leaky_relu", "sigmoid", "tanh", "gelu", "gelu_tanh", "silu", "elu" or "softplus". Arguments, result,
    errors and gradient as of that function; ValueError for another kind.

    >>> import cudamath as cm
    >>> cm.ml.activation(cm.array([-1.0, 2.0]), "relu").tolist()
    [0.0, 2.0]
    """
    try:
        function = _KINDS[kind]
    except KeyError:
        raise ValueError(f"activation: kind is one of {', '.join(_KINDS)}, got {kind!r}") from None
    return function(x)
