"""`cudamath.random`: random arrays by counter-based Philox4x32-10; the same seed gives the same
numbers on every device."""

from .core.public_names import public_dir
from .ops.random.module import *  # noqa: F403
from .ops.random.module import __all__ as __all__

__dir__ = public_dir(__name__)
