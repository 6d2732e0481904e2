"""`cudamath.polynomial.hermite`: NumPy's functions of this name on arrays, for series of
physicists' Hermite polynomials (on_arrays.py)."""

from .on_arrays import functions_of
from .series import Hermite

_functions = functions_of("hermite")
globals().update(_functions)

__all__ = ["Hermite", *_functions]
