"""Special functions of complex numbers: of the real and the imaginary part of the argument, two
functions of special.py give those of the result."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from . import special


@functools.cache
def _function(name: str) -> Callable[[np.ndarray], np.ndarray]:
    parts = [getattr(special, f"{name}_{part}") for part in ("real", "imaginary")]

    def of_complex(z: np.ndarray) -> np.ndarray:
        """z: complex, any shape -> the same."""
        x, y = (np.asarray(part, np.float64) for part in (z.real, z.imag))
        out = np.empty_like(z)
        out.real, out.imag = (part(x, y) for part in parts)
        return out

    return of_complex


def __getattr__(name: str) -> Callable[[np.ndarray], np.ndarray]:
    try:
        return _function(name)
    except AttributeError:
        raise AttributeError(name) from None
