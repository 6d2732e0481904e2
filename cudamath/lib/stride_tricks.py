"""`cudamath.lib.stride_tricks`: views that show elements more than once."""

from ..core.public_names import public_dir
from ..ops.stride_tricks import as_strided, sliding_window_view

__all__ = ["as_strided", "sliding_window_view"]

__dir__ = public_dir(__name__)
