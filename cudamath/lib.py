"""`cudamath.lib`: what NumPy keeps in `numpy.lib`."""

from . import emath as scimath
from .ops import array_utils, stride_tricks

__all__ = ["array_utils", "scimath", "stride_tricks"]
