"""`cudamath.polynomial.polyutils`: the functions of `numpy.polynomial.polyutils` on arrays
(on_arrays.py)."""

from .on_arrays import functions_of

_functions = functions_of("polyutils")
globals().update(_functions)

__all__ = [*_functions]
