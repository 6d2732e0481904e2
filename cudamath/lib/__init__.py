"""`cudamath.lib`: what NumPy keeps in `numpy.lib`."""

from ..core.public_names import public_dir
from . import array_utils, scimath, stride_tricks

__all__ = ["array_utils", "scimath", "stride_tricks"]

__dir__ = public_dir(__name__)
