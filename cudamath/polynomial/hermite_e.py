"""`cudamath.polynomial.hermite_e`: NumPy's functions of this name on arrays, for series of
probabilists' Hermite polynomials (on_arrays.py)."""

from .on_arrays import functions_of
from .series import HermiteE

_functions = functions_of("hermite_e")
globals().update(_functions)

__all__ = ["HermiteE", *_functions]
