"""`cudamath.exceptions`: NumPy's classes of errors and warnings."""

from numpy import exceptions
from numpy.exceptions import *  # noqa: F403
from numpy.exceptions import RankWarning  # NumPy's own list lacks it

from .core.public_names import public_dir

__all__ = [*exceptions.__all__, "RankWarning"]

__dir__ = public_dir(__name__)
