"""`cudamath.random`: random arrays by counter-based Philox4x32-10; the same seed gives the same
numbers on every device."""

from .ops.random.module import *  # noqa: F403
from .ops.random.module import __all__ as __all__
