"""`cudamath.lib`: what NumPy keeps in `numpy.lib`."""

from . import emath as scimath
from .ops import stride_tricks

__all__ = ["scimath", "stride_tricks"]
