"""`cudamath.polynomial.polynomial`: NumPy's functions of this name on arrays, for series of
powers (on_arrays.py)."""

from .on_arrays import functions_of
from .series import Polynomial

_functions = functions_of("polynomial")
globals().update(_functions)

__all__ = ["Polynomial", *_functions]
