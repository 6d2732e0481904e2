"""`cudamath.polynomial.laguerre`: NumPy's functions of this name on arrays, for series of
Laguerre polynomials (on_arrays.py)."""

from .on_arrays import functions_of
from .series import Laguerre

_functions = functions_of("laguerre")
globals().update(_functions)

__all__ = ["Laguerre", *_functions]
