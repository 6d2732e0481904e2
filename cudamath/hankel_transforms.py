"""The fast Hankel transform of numbers at logarithmic distances (FFTLog): `cudamath.fft.fht`.

A. J. S. Hamilton, Uncorrelated modes of the non-linear power spectrum, 2000, appendix B. The
coefficients are ratios of gamma functions of complex numbers; they are computed on the host.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .core import dtypes
from .core.array import ndarray
from .core.asarray import asarray
from .core.dispatch.checks import as_numbers, require
from .core.dispatch.fast_path import fast_path
from .core.dispatch.op import REAL
from .core.fp_errors import silence
from .core.typing import ArrayLike
from .core.user_warnings import warn
from .ops.fft import as_narrow, c2r, input_of, r2c
from .ops.shape import flip

__all__ = ["fht", "ifht"]

#: Of log gamma beyond Stirling's formula, by 1 / z^2: DLMF 5.11.1.
_STIRLING = (-1.0 / 360360 * 691, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)


def _log_gamma(z: np.ndarray) -> np.ndarray:
    """log gamma of complex numbers with parts of the plane that the recurrence leads to 20."""
    steps = max(0, math.ceil(20 - float(z.real.min())))
    y = np.zeros_like(z)
    with silence():
        for k in range(steps):
            y -= np.log(z + k)
        z = z + steps
        rest = np.polyval(_STIRLING, 1 / (z * z)) / z
        return y + (z - 0.5) * np.log(z) - z + 0.5 * math.log(2 * math.pi) + rest


def _ratio(low: float, high: float) -> float:
    """gamma(high) / gamma(low), also where either is infinite."""

    def pole(x: float) -> bool:
        return x <= 0 and x == math.floor(x)

    if pole(low) and pole(high):  # the limit
        sign = -1.0 if (low - high) % 2 else 1.0
        return sign * math.gamma(1 - low) / math.gamma(1 - high)
    if pole(low) or pole(high):
        return 0.0 if pole(low) else math.inf
    return math.gamma(high) / math.gamma(low)


@functools.lru_cache(64)
def _coefficients(n: int, dln: float, mu: float, offset: float, bias: float) -> np.ndarray:
    """U(k) (k r)^(-i ...): what the frequencies of the transform are multiplied by."""
    y = np.linspace(0, math.pi * (n // 2) / (n * dln), n // 2 + 1)
    above, below = (mu + 1 + bias) / 2, (mu + 1 - bias) / 2
    up, down = _log_gamma(above + 1j * y), _log_gamma(below + 1j * y)
    turn = up.imag + down.imag + 2 * (math.log(2) - offset) * y
    with silence():  # the first one may be infinite: it is set below
        u = np.exp(up.real - down.real + math.log(2) * bias + 1j * turn)
    u[0] = 2**bias * _ratio(below, above)
    if n % 2 == 0:
        u[-1] = u[-1].real
    u.flags.writeable = False
    return u


def _powers(a: ndarray, exponents: np.ndarray) -> ndarray:
    """exp of numbers of the host, in a's dtype."""
    return asarray(np.exp(exponents).astype(a.dtype), device=a.device)


def _transformed(
    name: str, a: Any, dln: Any, mu: Any, offset: Any, bias: Any, inverse: bool
) -> ndarray:
    given = require(name, a, REAL)
    if not given.ndim or not given.shape[-1]:
        raise ValueError(f"{name}: wants numbers along the last axis, got shape {given.shape}")
    numbers = as_numbers(name, "dln, mu, offset and bias as real numbers", dln, mu, offset, bias)
    dln, mu, offset, bias = map(float, numbers)
    x = input_of(name, given)
    n = x.shape[-1]
    u = _coefficients(n, dln, mu, offset, bias)
    if u[0] == 0 and inverse or math.isinf(u[0].real) and not inverse:
        what = "singular inverse transform" if inverse else "singular transform"
        warn(f"{name}: {what}; consider changing the bias", RuntimeWarning)
        u = u.copy()
        u[0] = math.inf if inverse else 0
    if inverse:
        with silence():
            u = np.concatenate([1 / u[:1].real, 1 / np.conj(u[1:])])
    distance = (np.arange(n) - (n - 1) / 2) * dln
    sign = 1 if inverse else -1
    if bias:
        x = x * _powers(x, sign * bias * (distance + (offset if inverse else 0)))
    narrow = x.dtype == dtypes.float32
    z = r2c(x, axes=(x.ndim - 1,), scale=1.0)
    z = z * asarray(u.astype(np.complex64 if narrow else np.complex128), device=x.device)
    y = flip(c2r(z, axes=(x.ndim - 1,), n=n, scale=1 / n), axis=-1)
    if bias:
        y = y * _powers(y, sign * bias * (distance + (0 if inverse else offset)))
    return as_narrow(y, given)


@fast_path("a")
def fht(a: ArrayLike, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0) -> ndarray:
    """Fast Hankel transform of numbers at logarithmically even distances.

    A(k) = integral of a(r) J_mu(k r) k dr over r from 0 on, for a periodic in log(r).

    Parameters
    ----------
    a : array_like
        Real array; the last axis is transformed.
    dln : float
        Distance of the logarithms.
    mu : float
        Order of the Bessel function.
    offset : float, default 0.0
        Logarithm of k r of the centres of both.
    bias : float, default 0.0
        Exponent of a power law that is taken out before the transform.

    Returns
    -------
    ndarray
        Array of the shape and dtype of `a`; float64 for whole numbers.

    Raises
    ------
    TypeError
        `a` is complex, or a parameter is no number.
    ValueError
        There is nothing along the last axis.

    Notes
    -----
    A transform that is singular (its bias makes a coefficient infinite) gives a warning; the
    coefficient counts as 0. Gradient: the transform is linear; it follows from those of the
    operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> a = cm.exp(-cm.linspace(-4.0, 4.0, 8) ** 2)
    >>> cm.abs(cm.fft.ifht(cm.fft.fht(a, 1.0, 0.5), 1.0, 0.5) - a).max().item() < 1e-6
    True
    """
    return _transformed("fht", a, dln, mu, offset, bias, False)


@fast_path("A")
def ifht(A: ArrayLike, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0) -> ndarray:
    """Inverse of the fast Hankel transform.

    Parameters
    ----------
    A : array_like
        Real array; the last axis is transformed.
    dln, mu, offset, bias : float
        As for `fht`.

    Returns
    -------
    ndarray
        Array of the shape and dtype of `A`; float64 for whole numbers.

    Raises
    ------
    TypeError
        `A` is complex, or a parameter is no number.
    ValueError
        There is nothing along the last axis.

    Notes
    -----
    An inverse that is singular gives a warning; the coefficient counts as infinite. Gradient: as
    for `fht`.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.fft.ifht(cm.zeros(8), 0.1, 0.5).tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    return _transformed("ifht", A, dln, mu, offset, bias, True)
