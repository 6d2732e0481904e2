"""`cudamath.exceptions`: NumPy's classes of errors and warnings."""

from numpy import exceptions
from numpy.exceptions import *  # noqa: F403

from .core.public_names import public_dir

__all__ = [*exceptions.__all__]

__dir__ = public_dir(__name__)
