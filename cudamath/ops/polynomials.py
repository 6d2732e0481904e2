"""Polynomials by their coefficients, the highest power first, and the classic windows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import dtypes
from ..core.array import ndarray
from ..core.op import INEXACT, NUMERIC, coerce, require
from ..core.shapes import normalize_shape
from . import reduce
from .creation import arange, ones, zeros
from .elementwise import abs, cos
from .grids import vander
from .shape import astype, reshape, span

__all__ = ["bartlett", "blackman", "hamming", "hanning", "polyder", "polyfit", "polyint", "polyval"]


def polyval(p: Any, x: Any, /) -> ndarray:
    """The polynomial p[0] x^(n-1) + ... + p[n-1], by Horner's rule.

    Args: p: vector of coefficients; x: numeric array. Raises: ValueError (shape of p). Gradient: by its parts.

    >>> import cudamath as cm
    >>> cm.polyval([3, 0, 1], [0, 1, 5]).tolist()
    [1, 4, 76]
    """
    p, x = coerce("polyval", (p, x), NUMERIC)
    if p.ndim != 1:
        raise ValueError(f"polyval: wants a vector of coefficients, got shape {p.shape}")
    y = zeros(x.shape, dtypes.promote(p.dtype, x.dtype), device=x.device)
    for i in range(p.size):
        y = y * x + p[i]
    return y


def polyder(p: Any, /, m: int = 1) -> ndarray:
    """Coefficients of the m-th derivative.

    Args: p: vector of coefficients; m: how often, >= 0. Raises: ValueError (shape, m). Gradient: by its parts.

    >>> import cudamath as cm
    >>> cm.polyder([1, 1, 1, 1]).tolist()
    [3, 2, 1]
    """
    p = require("polyder", p, NUMERIC)
    if p.ndim != 1 or m < 0:
        raise ValueError(f"polyder: wants a vector and m >= 0, got shape {p.shape} and m={m}")
    for _ in range(m):
        n = p.size - 1
        p = span(p, 0, 0, max(n, 0)) * arange(max(n, 0), 0, -1, device=p.device)
    return p


def polyint(p: Any, /, m: int = 1, k: float = 0) -> ndarray:
    """Coefficients of the m-th antiderivative.

    Args: p: vector of coefficients; m: how often, >= 0; k: the constant of each. Raises: ValueError (shape, m). Gradient: by
    its parts.

    >>> import cudamath as cm
    >>> cm.polyint([6.0, 2.0]).tolist()
    [3.0, 2.0, 0.0]
    """
    from .join import concat

    p = require("polyint", p, NUMERIC)
    if p.ndim != 1 or m < 0:
        raise ValueError(f"polyint: wants a vector and m >= 0, got shape {p.shape} and m={m}")
    for _ in range(m):
        p = p / arange(p.size, 0, -1, device=p.device)
        p = concat([p, ones(1, p.dtype, device=p.device) * k])
    return p


def polyfit(x: Any, y: Any, deg: int, /, *, w: Any = None) -> ndarray:
    """Coefficients of the polynomial of a degree that is nearest to points: least Σ w^2 (p(x) - y)^2.

    Args: x: vector (n,); y: vector (n,) or matrix (n, k), a column a polynomial; deg: degree >= 0; w: weights (n,). Returns:
    (deg + 1,) or (deg + 1, k). Raises: ValueError (shapes, degree). Gradient: as of ``linalg.lstsq``.

    >>> import cudamath as cm
    >>> cm.round(cm.polyfit([0.0, 1.0, 2.0], [1.0, 3.0, 5.0], 1), 6).tolist()
    [2.0, 1.0]
    """
    import cudamath

    x, y = coerce("polyfit", (x, y), NUMERIC)
    if x.ndim != 1 or y.ndim not in (1, 2) or y.shape[0] != x.size or not x.size or deg < 0:
        raise ValueError(f"polyfit: wants vectors that are equally long and a degree >= 0, got shapes {x.shape} and {y.shape} "
                         f"and degree {deg}")
    kind = dtypes.result_type(x, y)
    kind = kind if kind in INEXACT else dtypes.default_float()
    left, right = vander(astype(x, kind, copy=False), deg + 1), astype(y, kind, copy=False)
    if w is not None:
        weights = astype(coerce("polyfit", (x, w))[1], kind)
        if weights.shape != x.shape:
            raise ValueError(f"polyfit: weights of shape {weights.shape} do not fit {x.size} points")
        left = left * reshape(weights, (-1, 1))
        right = right * (reshape(weights, (-1, 1)) if y.ndim == 2 else weights)
    scale = reduce.sum(abs(left) ** 2, axis=0) ** 0.5
    c = cudamath.linalg.lstsq(left / scale, right)[0]
    return c / (reshape(scale, (-1, 1)) if y.ndim == 2 else scale)


def _window(name: str, m: int) -> ndarray:
    """Places from -1 to 1."""
    (n,) = normalize_shape(name, max(int(m), 0))
    return arange(1 - n, n, 2, dtype=np.float64) / max(n - 1, 1) if n else arange(0, dtype=np.float64)


def bartlett(m: int, /) -> ndarray:
    """The triangle window with m places.

    >>> import cudamath as cm
    >>> cm.bartlett(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return 1 - abs(_window("bartlett", m))


def hanning(m: int, /) -> ndarray:
    """The raised cosine window with m places: 0.5 + 0.5 cos(pi t), t from -1 to 1.

    >>> import cudamath as cm
    >>> cm.round(cm.hanning(3), 9).tolist()
    [0.0, 1.0, 0.0]
    """
    return 0.5 + 0.5 * cos(math.pi * _window("hanning", m))


def hamming(m: int, /) -> ndarray:
    """The window 0.54 + 0.46 cos(pi t), t from -1 to 1, with m places.

    >>> import cudamath as cm
    >>> cm.round(cm.hamming(3), 9).tolist()
    [0.08, 1.0, 0.08]
    """
    return 0.54 + 0.46 * cos(math.pi * _window("hamming", m))


def blackman(m: int, /) -> ndarray:
    """The window 0.42 + 0.5 cos(pi t) + 0.08 cos(2 pi t), t from -1 to 1, with m places.

    >>> import cudamath as cm
    >>> cm.round(cm.blackman(3), 9).tolist()
    [-0.0, 1.0, -0.0]
    """
    t = _window("blackman", m)
    return 0.42 + 0.5 * cos(math.pi * t) + 0.08 * cos(2 * math.pi * t)
