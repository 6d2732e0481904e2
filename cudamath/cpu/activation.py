"""Activations and their gradients in NumPy; what NumPy lacks (erfc) as a ufunc that is compiled
once and kept on disk.

Arrays come in the compute type, float32 or float64 (relu: any real type), and results leave in it.
"""

import functools
import math

import numpy as np

ROW = 4096  # elements
INV_SQRT2 = 0.7071067811865476
INV_SQRT2PI = 0.3989422804014327
SELU, SELU_ALPHA = (
    1.0507009873554805,
    1.7580993408473766,
)  # the scale; times alpha = 1.6732632423543772
CUBIC, LINEAR = 0.07135481627260025, 1.5957691216057308  # 2 sqrt(2 / pi) (0.044715 x^2 + 1)


@functools.cache
def _erfc() -> np.ufunc:
    from .lib.llvm_compiled import ufunc  # LLVM is loaded when it is needed

    return ufunc(_complement, (np.float32, np.float64))


def _complement(x):
    """erfc(x)."""
    return math.erfc(x)


@functools.cache
def _zeros(dtype: np.dtype) -> np.ndarray:
    return np.zeros(ROW, dtype)


def relu(x, out=None):
    """max(x, 0). NumPy compares vectors with vectors, but with a scalar one by one: large arrays
    with rows of zeros."""
    if x.size < ROW or not x.flags.c_contiguous:
        return np.maximum(x, x.dtype.type(0), out=out)
    out = np.empty_like(x) if out is None else out
    whole, zeros = x.size // ROW * ROW, _zeros(x.dtype)
    source, target = x.reshape(-1), out.reshape(-1)
    np.maximum(source[:whole].reshape(-1, ROW), zeros, out=target[:whole].reshape(-1, ROW))
    np.maximum(source[whole:], zeros[: x.size - whole], out=target[whole:])
    return out


relu.into = relu  # type: ignore[attr-defined]  # writes into an array that it is given


def relu_grad(g, y):
    return np.where(y > 0, g, g.dtype.type(0))


def relu6(x):
    return np.minimum(np.maximum(x, x.dtype.type(0)), x.dtype.type(6))


def relu6_grad(g, x):
    return np.where((x > 0) & (x < 6), g, g.dtype.type(0))


def leaky_relu(x, slope):
    return np.where(x > 0, x, x * slope)


def leaky_relu_grad(g, x, slope):
    return np.where(x > 0, g, g * slope)


def leaky_relu_slope(g, x):
    return np.where(x > 0, g.dtype.type(0), g * x)


def _falling(x):
    """x where it is negative, else 0."""
    return np.minimum(x, x.dtype.type(0))


def elu(x, alpha):
    return np.where(x > 0, x, alpha * np.expm1(_falling(x)))


def elu_grad(g, x, alpha):
    return np.where(x > 0, g, g * alpha * np.exp(_falling(x)))


def celu(x, alpha):
    return np.where(x > 0, x, alpha * np.expm1(_falling(x) / alpha))


def celu_grad(g, x, alpha):
    return np.where(x > 0, g, g * np.exp(_falling(x) / alpha))


def selu(x):
    t = x.dtype.type
    return np.where(x > 0, x * t(SELU), t(SELU_ALPHA) * np.expm1(_falling(x)))


def selu_grad(g, x):
    t = x.dtype.type
    return np.where(x > 0, g * t(SELU), g * t(SELU_ALPHA) * np.exp(_falling(x)))


def softsign(x):
    return x / (1 + np.abs(x))


def softsign_grad(g, x):
    return g / np.square(1 + np.abs(x))


def hardsigmoid(x):
    return relu6(x + 3) / 6


def hardsigmoid_grad(g, x):
    return np.where((x > -3) & (x < 3), g / 6, g.dtype.type(0))


def hardswish(x):
    return x * relu6(x + 3) / 6


def hardswish_grad(g, x):
    return np.where(x >= 3, g, np.where(x <= -3, g.dtype.type(0), g * (x / 3 + x.dtype.type(0.5))))


def mish(x):
    n = np.exp(np.minimum(x, x.dtype.type(20)))
    q = n * (n + 2)
    return np.where(x > 20, x, x * (q / (q + 2)))


def mish_grad(g, x):
    n = np.exp(np.minimum(x, x.dtype.type(20)))
    q = n * (n + 2)
    return np.where(x > 20, g, g * (q / (q + 2) + 4 * n * (n + 1) * x / np.square(q + 2)))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def sigmoid_grad(g, y):
    return g * (y * (1 - y))


def silu(x):
    return x / (1 + np.exp(-x))


def silu_grad(g, x):
    s = sigmoid(x)
    return g * (s * (1 + x * (1 - s)))


def softplus(x, beta):
    return np.maximum(x, x.dtype.type(0)) + np.log1p(np.exp(-np.abs(x * beta))) / beta


def softplus_grad(g, x, beta):
    return g / (1 + np.exp(-x * beta))


def log_sigmoid(x):
    return _falling(x) - np.log1p(np.exp(-np.abs(x)))


def log_sigmoid_grad(g, x):
    return g / (1 + np.exp(x))


def hardtanh(x, low, high):
    return np.where(x <= low, low, np.where(x >= high, high, x))


def glu(x, gate):
    return x / (1 + np.exp(-gate))


def glu_gate(g, x, gate):
    return g * x / ((1 + np.exp(-gate)) * (1 + np.exp(gate)))


def gelu(x):
    t = x.dtype.type
    x = np.maximum(x, t(-40))  # where P(Z < x) is 0: so that it is of -inf
    return _erfc()(x * t(-INV_SQRT2)) * x * t(0.5)


def gelu_grad(g, x):
    t = x.dtype.type
    x = np.clip(x, t(-40), t(40))
    return g * (_erfc()(x * t(-INV_SQRT2)) * t(0.5) + x * t(INV_SQRT2PI) * np.exp(x * x * t(-0.5)))


def gelu_tanh(x):
    t = x.dtype.type
    return x / (1 + np.exp(x * (x * x * t(-CUBIC) - t(LINEAR))))


def gelu_tanh_grad(g, x):
    t = x.dtype.type
    x = np.clip(x, t(-30), t(30))  # beyond, the slope is 0 or 1, and x^2 may overflow
    square = x * x
    s = 1 / (1 + np.exp(x * (square * t(-CUBIC) - t(LINEAR))))
    return g * (s + x * s * (1 - s) * (square * t(3 * CUBIC) + t(LINEAR)))
