"""`cudamath.lib`: what NumPy keeps in `numpy.lib`."""

from .ops import array_utils, stride_tricks

__all__ = ["array_utils", "stride_tricks"]
