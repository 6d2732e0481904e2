"""`cudamath.polynomial.chebyshev`: NumPy's functions of this name on arrays, for series of
Chebyshev polynomials (on_arrays.py)."""

from .on_arrays import functions_of
from .series import Chebyshev

_functions = functions_of("chebyshev")
globals().update(_functions)

__all__ = ["Chebyshev", *_functions]
