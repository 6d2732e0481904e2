"""`cudamath.lib.scimath`: the functions of `cudamath.emath`, by the name of NumPy's module."""

from .. import emath
from ..core.public_names import public_dir
from ..emath import *  # noqa: F403

__all__ = [*emath.__all__]

__dir__ = public_dir(__name__)
