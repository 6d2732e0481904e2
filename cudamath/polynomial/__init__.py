"""`cudamath.polynomial`: `numpy.polynomial` on arrays of any device: six classes of series
(series.py), a module of functions for each basis, and `polyutils` (on_arrays.py)."""

from . import chebyshev, hermite, hermite_e, laguerre, legendre, polynomial, polyutils
from .series import Chebyshev, Hermite, HermiteE, Laguerre, Legendre, Polynomial

__all__ = [
    "Chebyshev",
    "Hermite",
    "HermiteE",
    "Laguerre",
    "Legendre",
    "Polynomial",
    "chebyshev",
    "hermite",
    "hermite_e",
    "laguerre",
    "legendre",
    "polynomial",
    "polyutils",
]
