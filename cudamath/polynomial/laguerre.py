"""`cudamath.polynomial.laguerre`: the functions of
`numpy.polynomial.laguerre` on arrays, for series
of Laguerre polynomials (on_arrays.py)."""

from .on_arrays import functions_of
from .series import Laguerre

_functions = functions_of("laguerre")
globals().update(_functions)

__all__ = ["Laguerre", *_functions]
