"""`cudamath.polynomial`: `numpy.polynomial` on arrays of any device: six classes of series
(series.py), a module of functions for each basis, and `polyutils` (on_arrays.py)."""

from numpy.polynomial import set_default_printstyle

from ..core.public_names import public_dir
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
    "set_default_printstyle",
]

__dir__ = public_dir(__name__)
