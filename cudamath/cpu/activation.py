"""Activations and their gradients in NumPy; what NumPy lacks (erfc) as a Numba ufunc, compiled once and kept on disk.

Arrays come in the compute type, float32 or float64 (relu: any real type), and results leave in it.
"""

import functools
import math

import numpy as np

INV_SQRT2 = 0.7071067811865476
INV_SQRT2PI = 0.3989422804014327
CUBIC, LINEAR = 0.07135481627260025, 1.5957691216057308  # 2 sqrt(2 / pi) (0.044715 x^2 + 1)


@functools.cache
def _erfc() -> np.ufunc:
    import numba

    @numba.vectorize(["float32(float32)", "float64(float64)"], cache=True)
    def erfc(x):
        return math.erfc(x)

    return erfc


def relu(x):
    return np.maximum(x, x.dtype.type(0))


def relu_grad(g, y):
    return np.where(y > 0, g, g.dtype.type(0))


def leaky_relu(x, slope):
    return np.where(x > 0, x, x * slope)


def elu(x, alpha):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, x.dtype.type(0))))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def sigmoid_grad(g, y):
    return g * (y * (1 - y))


def silu(x):
    return x / (1 + np.exp(-x))


def silu_grad(g, x):
    s = sigmoid(x)
    return g * (s * (1 + x * (1 - s)))


def softplus(x):
    return np.maximum(x, x.dtype.type(0)) + np.log1p(np.exp(-np.abs(x)))


def gelu(x):
    t = x.dtype.type
    return _erfc()(x * t(-INV_SQRT2)) * x * t(0.5)


def gelu_grad(g, x):
    t = x.dtype.type
    return g * (_erfc()(x * t(-INV_SQRT2)) * t(0.5) + x * t(INV_SQRT2PI) * np.exp(x * x * t(-0.5)))


def gelu_tanh(x):
    t = x.dtype.type
    return x / (1 + np.exp(x * (x * x * t(-CUBIC) - t(LINEAR))))


def gelu_tanh_grad(g, x):
    t = x.dtype.type
    square = x * x
    s = 1 / (1 + np.exp(x * (square * t(-CUBIC) - t(LINEAR))))
    return g * (s + x * s * (1 - s) * (square * t(3 * CUBIC) + t(LINEAR)))
