"""Fourier transforms: cards. Plans: kernels/numeric/fft.py; cuFFT: runtime/cufft.py. The public
functions: cudamath/fft.py.

Three cards: complex to complex (of real numbers too, without a gradient), real to complex, complex
to real, each along any number of axes and times a number. Their gradients are one another: the
adjoint of a transform is the transform with the other sign.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.dispatch.op import Op
from .elementwise import conj

__all__: list[str] = []


def _edges(g: ndarray, axis: int, n: int, inner: float) -> ndarray:
    """g times `inner`, except at the frequencies that a real signal has once, not twice: 0 and, for
    even n, n / 2."""
    size = g.shape[axis]
    weights = np.full(size, inner, g.dtype)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    return g * asarray(weights.reshape(size, *[1] * (g.ndim - 1 - axis)), device=g.device)


def _r2c_grad(
    g: ndarray,
    _y: Any,
    x: ndarray,
    *,
    axes: tuple[int, ...],
    scale: float,
    conjugate: bool = False,
) -> tuple[ndarray]:
    n = x.shape[axes[-1]]
    if conjugate:
        g = conj(g)
    return (c2r(_edges(g, axes[-1], n, 0.5), axes=axes, n=n, scale=scale),)


def _c2r_grad(g: ndarray, *_: Any, axes: tuple[int, ...], n: int, scale: float) -> tuple[ndarray]:
    return (_edges(r2c(g, axes=axes, scale=scale), axes[-1], n, 2),)


c2c: Op = Op(
    "fft_c2c",
    cpu="fft.c2c",
    cuda="numeric.fft.c2c",
    vjp=lambda g, _y, _x, axes, inverse, scale: (
        c2c(g, axes=axes, inverse=not inverse, scale=scale),
    ),
)
r2c: Op = Op("fft_r2c", cpu="fft.r2c", cuda="numeric.fft.r2c", vjp=_r2c_grad)
c2r: Op = Op("fft_c2r", cpu="fft.c2r", cuda="numeric.fft.c2r", vjp=_c2r_grad)
frequencies = Op("fft_frequencies", cpu="fft.frequencies", cuda="numeric.fft.frequencies")
