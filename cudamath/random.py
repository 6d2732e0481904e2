"""`cudamath.random`: random arrays by counter-based Philox4x32-10; the same seed gives the same
numbers on every device."""

from .ops.random import *  # noqa: F403
from .ops.random import __all__ as __all__
