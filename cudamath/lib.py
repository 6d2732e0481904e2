"""`cudamath.lib`: what NumPy keeps in `numpy.lib`."""

from .ops import stride_tricks

__all__ = ["stride_tricks"]
