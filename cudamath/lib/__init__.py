"""`cudamath.lib`: what NumPy keeps in `numpy.lib`."""

from .. import emath as scimath
from ..core.public_names import public_dir
from ..ops import stride_tricks
from . import array_utils

__all__ = ["array_utils", "scimath", "stride_tricks"]

__dir__ = public_dir(__name__)
