"""`cudamath.polynomial.legendre`: NumPy's functions of this name on arrays, for series of
Legendre polynomials (on_arrays.py)."""

from .on_arrays import functions_of
from .series import Legendre

_functions = functions_of("legendre")
globals().update(_functions)

__all__ = ["Legendre", *_functions]
